//! Diagnosis of processors and disks at both ends.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lh_interop::held_fs::HeldFs;
use lh_interop::{Inetd, Lab, TestUser, find, is_root, our, peers, script, skip};

use lh_link::path::Spec;
use rustix::process::{Pid, Signal, kill_process};

use super::path_setup::{PathSetup, Plan, diagnosis, first, spec};

/// Loops that keep processors busy.
struct Loops(Vec<Child>);

impl Loops {
    /// So many on each of these processors, with this priority: a number below 0 is a higher one.
    fn start(count: usize, processors: std::ops::Range<usize>, nice: i32) -> Self {
        // Where each session has a share of the processor (autogroup), it counts in place of the process.
        let start = |processor: usize| {
            let run = format!("echo {nice} 2>/dev/null >/proc/self/autogroup; while :; do :; done");
            let line = format!("exec taskset -c {processor} nice -n {nice} setsid sh -c '{run}'");
            Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).spawn().expect("a loop")
        };
        Self(processors.flat_map(|processor| std::iter::repeat_n(processor, count)).map(start).collect())
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A suite that takes much of the processor at the server.
const SLOW_SUITE: &[&str] = &["-o", "Ciphers=aes256-ctr", "-o", "MACs=hmac-sha2-512-etm@openssh.com"];

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_processor_shared_with_loops() {
    let test = "doctor_names_a_processor_shared_with_loops";
    if find("taskset").is_none() {
        return skip(test, "taskset is not installed");
    }
    let prefix = ["taskset", "-c", "0"];
    let plan = Plan { spec: spec(600, 10), prefix: &prefix, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    // Each loop has three times as much of the processor as the server, so that on a busy machine, too, the
    // client waits less.
    let _loops = Loops::start(6, 0..1, -5);
    let diagnosis = setup.examine(SLOW_SUITE, "processor");
    first(&diagnosis, "processor", &["Other programs on the server", "for its turn", "renice"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_blames_no_program_beside_a_full_path() {
    let test = "doctor_blames_no_program_beside_a_full_path";
    if find("taskset").is_none() {
        return skip(test, "taskset is not installed");
    }
    let plan = Plan { spec: Spec { queue: Some(30_000), ..spec(8, 40) }, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let _loops = Loops::start(3, 0..processors, 0);
    let diagnosis = setup.examine(&[], "path");
    assert!(!diagnosis["findings"].to_string().contains("Other programs"), "{diagnosis:#}");
    let rate = diagnosis["measured"]["upload"]["bytes_per_second"].as_f64().unwrap();
    assert!((0.6e6..1.1e6).contains(&rate), "planted 1 MB/s: {diagnosis:#}");
}

/// Stops the sessions of a user for half of each fifth of a second until it is dropped.
struct Stopper {
    stops: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Stopper {
    /// Stops sessions that have logged in only: before that, these signals end processes of `sshd` 9.2.
    fn of(user: &str) -> Self {
        let (stops, name) = (Arc::new(AtomicBool::new(true)), format!(": {user}@"));
        let goes_on = Arc::clone(&stops);
        let thread = std::thread::spawn(move || {
            while goes_on.load(Ordering::Relaxed) {
                let sessions = processes_called(&name);
                for signal in [Signal::STOP, Signal::CONT] {
                    for session in &sessions {
                        // It may have ended.
                        let _ = kill_process(*session, signal);
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        });
        Self { stops, thread: Some(thread) }
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        self.stops.store(false, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Processes whose command line contains this: that of a session has the name that `sshd` was called by, and
/// its user.
fn processes_called(name: &str) -> Vec<Pid> {
    let of_name = |entry: std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let pid = entry.file_name().to_str()?.parse().ok()?;
        String::from_utf8_lossy(&line).contains(name).then(|| Pid::from_raw(pid)).flatten()
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(of_name).collect()
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_server_that_is_stopped_again_and_again() {
    let test = "doctor_names_a_server_that_is_stopped_again_and_again";
    let Some(setup) = PathSetup::start(test, &Plan { spec: spec(100, 20), ..Plan::default() }) else {
        return;
    };
    let _stopper = Stopper::of(&setup.user.name);
    let diagnosis = setup.examine(&[], "process_stopped");
    first(&diagnosis, "process_stopped", &["SSH process of the server", "state T", "SIGSTOP"]);
    let all = ["upload", "download"].map(|name| diagnosis["measured"][name]["server_stopped"].as_f64());
    assert!(all.iter().flatten().any(|part| (0.2..0.8).contains(part)), "planted 0.5: {diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_server_that_is_traced() {
    let test = "doctor_names_a_server_that_is_traced";
    if find("strace").is_none() {
        return skip(test, "strace is not installed");
    }
    let prefix = ["strace", "-f", "-o", "/dev/null"];
    let plan = Plan { spec: spec(300, 10), prefix: &prefix, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    first(&setup.examine(&[], "process_stopped"), "process_stopped", &["traced by strace", "kill "]);
}

/// Two control groups that come before all other programs of the machine, one of which has a part of one
/// processor only: on a loaded machine, it is that limit which counts, too.
struct Quota {
    both: PathBuf,
    limited: PathBuf,
    free: PathBuf,
}

impl Quota {
    /// `percent` of a processor, by version 1 or 2 of control groups.
    fn new(name: &str, percent: u32) -> Result<Self, String> {
        let (root, first, limits) = if Path::new("/sys/fs/cgroup/cpu").is_dir() {
            let limits = [
                ("cpu.cfs_period_us", 100_000.to_string()),
                ("cpu.cfs_quota_us", (percent * 1000).to_string()),
            ];
            ("/sys/fs/cgroup/cpu", vec![("cpu.shares", "262144")], limits.to_vec())
        } else {
            let first = vec![("cpu.weight", "10000"), ("cgroup.subtree_control", "+cpu")];
            ("/sys/fs/cgroup", first, vec![("cpu.max", format!("{} 100000", percent * 1000))])
        };
        let both = Path::new(root).join(name);
        let quota = Self { limited: both.join("limited"), free: both.join("free"), both };
        let make = |group: &Path| {
            std::fs::create_dir(group).map_err(|error| format!("{}: {error}", group.display()))
        };
        let set = |group: &Path, file: &str, value: &str| {
            std::fs::write(group.join(file), value).map_err(|error| format!("{file}: {error}"))
        };
        make(&quota.both)?;
        for (file, value) in first {
            set(&quota.both, file, value)?;
        }
        make(&quota.limited)?;
        make(&quota.free)?;
        for (file, value) in limits {
            set(&quota.limited, file, &value)?;
        }
        Ok(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Processes that end leave their group a moment later.
        let patience = std::time::Instant::now() + Duration::from_secs(10);
        for group in [&self.limited, &self.free, &self.both] {
            while std::fs::remove_dir(group).is_err_and(|error| error.kind() != ErrorKind::NotFound)
                && std::time::Instant::now() < patience
            {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Plants a quota at one end, and asserts that it is named. Control groups are not visible in a namespace of
/// `ip netns`, so there is no emulated path.
fn names_a_quota(test: &str, is_of_server: bool) {
    if !is_root() {
        return skip(test, "control groups need root");
    }
    let (kind, end) = if is_of_server { ("server", "the server") } else { ("client", "this machine") };
    let quota = match Quota::new(&format!("longhaul-doctor-{kind}-{}", std::process::id()), 15) {
        Ok(quota) => quota,
        Err(why) => return lh_interop::skip_unavailable(test, &why),
    };
    let Some([sshd]) = peers(test, ["sshd"]) else { return };
    let lab = Lab::new();
    // A program in a group: the process becomes one of it, then the program.
    let [of_server, of_client] =
        if is_of_server { [&quota.limited, &quota.free] } else { [&quota.free, &quota.limited] };
    let [client_within, sshd_within] = ["client-within", "sshd-within"].map(|name| lab.path(name));
    let enter = |group: &Path| format!("echo $$ >'{}'", group.join("cgroup.procs").display());
    script(&client_within, &format!("{} && exec \"$@\"", enter(of_client)));
    script(&sshd_within, &format!("{} && exec '{}' \"$@\"", enter(of_server), sshd.display()));
    let server = Inetd::openssh(&lab, &sshd_within, "");
    let mut command = Command::new(client_within);
    command.arg(our("longhaul")).args(["doctor", "--json", "--local-dir", &lab.arg(".")]);
    command.args(["--remote-dir", &lab.arg(".")]).args(lab.client_options());
    command.args(["-o", "Ciphers=chacha20-poly1305@openssh.com", "-P", &server.port_arg()]);
    command.arg(format!("{}@127.0.0.1", lh_interop::me()));
    let diagnosis = diagnosis(&mut command, "processor_quota");
    drop(server);
    let place = quota.limited.to_string_lossy().into_owned();
    first(&diagnosis, "processor_quota", &["0.15 cores", end, &place, "15000 µs of each 100000 µs"]);
    let told = &diagnosis["measured"]["upload"][format!("{kind}_quota")];
    let number = |name: &str| told[name].as_f64().unwrap();
    assert!((number("cores") - 0.15).abs() < 1e-9, "{diagnosis:#}");
    assert!(number("throttled_periods") > 0.1 * number("periods"), "{diagnosis:#}");
    let cores = diagnosis["measured"]["upload"][format!("{kind}_cores")].as_f64().unwrap();
    assert!((0.02..0.25).contains(&cores), "planted 0.15: {diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_small_processor_quota() {
    names_a_quota("doctor_names_a_small_processor_quota", false);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_small_processor_quota_of_the_server() {
    names_a_quota("doctor_names_a_small_processor_quota_of_the_server", true);
}

/// A file system whose disk takes 128 KiB in 30 ms, that is 4.4 MB/s; unmounted when dropped.
struct SlowDisk {
    point: PathBuf,
    backing: HeldFs,
}

impl SlowDisk {
    fn mount(lab: &Lab) -> Result<Self, String> {
        let image = lab.path("image");
        std::fs::File::create(&image)
            .and_then(|file| file.set_len(48 << 20))
            .map_err(|error| error.to_string())?;
        let run = |program: &str, args: &[&str]| {
            let done = lab.run(Path::new(program), args);
            if done.code == 0 { Ok(()) } else { Err(format!("{program}: {}", done.err)) }
        };
        run("mkfs.ext2", &["-q", "-F", "-b", "4096", &lab.arg("image")])?;
        let content = std::fs::read(&image).map_err(|error| error.to_string())?;
        let backing = HeldFs::mount(&lab.path("backing"), &content).map_err(|error| error.to_string())?;
        let point = lab.path("slow");
        std::fs::create_dir(&point).map_err(|error| error.to_string())?;
        run(
            "mount",
            &["-t", "ext2", "-o", "loop", &backing.file().to_string_lossy(), &point.to_string_lossy()],
        )?;
        let disk = Self { point, backing };
        std::fs::set_permissions(&disk.point, std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .map_err(|error| error.to_string())?;
        disk.backing.slow_writes(Duration::from_millis(30));
        Ok(disk)
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        self.backing.slow_writes(Duration::ZERO);
        let _ = Command::new("umount").arg(&self.point).output();
    }
}

#[test]
fn doctor_names_a_slow_disk_of_the_server() {
    let test = "doctor_names_a_slow_disk_of_the_server";
    if !is_root() {
        return skip(test, "mounting needs root");
    }
    let Some([sshd]) = peers(test, ["sshd"]) else { return };
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let disk = match SlowDisk::mount(&lab) {
        Ok(disk) => disk,
        Err(why) => return lh_interop::skip_unavailable(test, &why),
    };
    let authorized = user.home.join(".ssh/authorized_keys");
    let server = Inetd::openssh(&lab, &sshd, &format!("AuthorizedKeysFile {}\n", authorized.display()));
    let place = disk.point.to_string_lossy().into_owned();
    let mut command = Command::new(our("longhaul"));
    command.args(["doctor", "--json", "--local-dir", &lab.arg("."), "--remote-dir", &place]);
    command.args(lab.client_options()).args(["-P", &server.port_arg()]);
    let diagnosis = diagnosis(command.arg(format!("{}@127.0.0.1", user.name)), "disk");
    first(&diagnosis, "disk", &["The disk of the server", &place]);
    let rate = diagnosis["measured"]["disk_there"]["bytes_per_second"].as_f64().unwrap();
    // Each of the writes that take 30 ms may wait for a processor as well.
    assert!((0.2e6..6e6).contains(&rate), "planted 4.4 MB/s at most: {diagnosis:#}");
}

/// A file system in memory of 8 MiB; unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(lab: &Lab) -> Result<Self, String> {
        let point = lab.path("small");
        std::fs::create_dir(&point).map_err(|error| error.to_string())?;
        let mut command = Command::new("mount");
        let done = command.args(["-t", "tmpfs", "-o", "size=8m,mode=0777", "tmpfs"]).arg(&point).output();
        if done.is_ok_and(|done| done.status.success()) {
            Ok(Self(point))
        } else {
            Err("no tmpfs".to_owned())
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_full_disk() {
    let test = "doctor_names_a_full_disk";
    if !is_root() {
        return skip(test, "mounting needs root");
    }
    let Some([sshd]) = peers(test, ["sshd"]) else { return };
    let lab = Lab::new();
    let disk = match SmallDisk::mount(&lab) {
        Ok(disk) => disk,
        Err(why) => return lh_interop::skip_unavailable(test, &why),
    };
    let server = Inetd::openssh(&lab, &sshd, "");
    let place = disk.0.to_string_lossy().into_owned();
    let free = lab.arg(".");
    // Where a small file fits, and where none does.
    for (here, there, end, filled) in
        [(&free, &place, "The disk of the server", 0), (&place, &free, "The disk of this machine", 7 << 20)]
    {
        std::fs::write(disk.0.join("filled"), vec![0; filled]).unwrap();
        let mut command = Command::new(our("longhaul"));
        command.args(["doctor", "--json", "--local-dir", here, "--remote-dir", there]);
        command.args(lab.client_options()).args(["-P", &server.port_arg()]);
        let diagnosis = diagnosis(command.arg(format!("{}@127.0.0.1", lh_interop::me())), "disk_full");
        first(&diagnosis, "disk_full", &[end, &place, "No space left on device", "df -h"]);
        let disk = &diagnosis["measured"][if filled == 0 { "disk_there" } else { "disk_here" }];
        assert_eq!(disk["bytes_per_second"].is_number(), filled == 0, "{diagnosis:#}");
        let free = disk["full"]["free_bytes"].as_f64().unwrap();
        let planted = ((8 << 20) - filled) as f64;
        assert!((free - planted).abs() < 1e5, "planted {planted}: {diagnosis:#}");
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1, "only the file that fills it");
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_slow_disk_of_this_machine() {
    let test = "doctor_names_a_slow_disk_of_this_machine";
    if !is_root() {
        return skip(test, "mounting needs root");
    }
    let Some([sshd]) = peers(test, ["sshd"]) else { return };
    let lab = Lab::new();
    let disk = match SlowDisk::mount(&lab) {
        Ok(disk) => disk,
        Err(why) => return lh_interop::skip_unavailable(test, &why),
    };
    let server = Inetd::openssh(&lab, &sshd, "");
    let place = disk.point.to_string_lossy().into_owned();
    let mut command = Command::new(our("longhaul"));
    command.args(["doctor", "--json", "--local-dir", &place, "--remote-dir", &lab.arg(".")]);
    command.args(lab.client_options()).args(["-P", &server.port_arg()]);
    let diagnosis = diagnosis(command.arg(format!("{}@127.0.0.1", lh_interop::me())), "disk");
    first(&diagnosis, "disk", &["The disk of this machine", &place]);
    let rate = diagnosis["measured"]["disk_here"]["bytes_per_second"].as_f64().unwrap();
    assert!((1e6..6e6).contains(&rate), "planted 4.4 MB/s: {diagnosis:#}");
}
