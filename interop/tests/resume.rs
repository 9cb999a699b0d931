//! Copies that are killed, disconnected or stopped, then run again: the trees are equal, and few bytes are
//! sent twice.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lh_interop::{
    Inetd, Lab, Lhsshd, Ran, assert_same_file, assert_same_tree, eventually, make_blob, our, peers,
};
use lh_testkit::leftovers;

/// A client's command line for a lab and a port.
struct Copy<'a> {
    lab: &'a Lab,
    port: u16,
}

impl Copy<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(our("lhscp"));
        command.args(self.lab.client_options()).args(["-P", &self.port.to_string(), "-q"]).args(words);
        command.env("HOME", self.lab.path("home")).env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME");
        command.current_dir(self.lab.dir()).stdin(Stdio::null());
        command
    }

    fn start(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn run(&self, words: &[&str]) -> Ran {
        let mut all = self.lab.client_options();
        all.extend(["-P".to_owned(), self.port.to_string(), "-q".to_owned()]);
        all.extend(words.iter().map(|&word| word.to_owned()));
        self.lab.run(&our("lhscp"), &all)
    }
}

/// Pseudo-random numbers, equal on each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Returns the bytes stored under `root` so far, in files of any name.
fn bytes_below(root: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(root) else { return 0 };
    if !meta.is_dir() {
        // A hole holds no received data.
        return meta.len().min(meta.blocks() * 512);
    }
    fs::read_dir(root).into_iter().flatten().flatten().map(|entry| bytes_below(&entry.path())).sum()
}

/// Returns the processes that serve connections of this server.
fn sessions(server: &Lhsshd) -> Vec<i32> {
    let mut found = vec![server.pid() as i32];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        at += 1;
        let path = format!("/proc/{parent}/task/{parent}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    found.split_off(1)
}

fn kill_hard(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

fn no_journal_is_left(lab: &Lab) {
    let left: Vec<_> =
        fs::read_dir(lab.path("home/.local/state/longhaul")).into_iter().flatten().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

const MB: u64 = 1 << 20;

/// Covers: lhscp --retries; wire running-sum@longhaul; wire check-file-handle
#[test]
fn a_large_copy_resumes_after_kills_of_either_end() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "Subsystem sftp internal-sftp -l INFO\n");
    let size = 96 * MB;
    make_blob(&lab.path("blob"), size as usize);
    let mut dice = Dice(20_261_122);
    for (upload, of_server) in [(true, false), (false, false), (true, true), (false, true)] {
        let target = lab.path("copy");
        let remote = |name: &str| format!("127.0.0.1:{}", lab.arg(name));
        let words =
            if upload { [lab.arg("blob"), remote("copy")] } else { [remote("blob"), lab.arg("copy")] };
        let words: Vec<&str> =
            ["--retries", "0"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let copy = Copy { lab: &lab, port: server.port };
        let (mut deaths, mut attempts) = (0, 0);
        while deaths < 4 {
            attempts += 1;
            assert!(attempts < 40, "{deaths} deaths in {attempts} attempts");
            let at = leftover_bytes(&lab) + dice.below(size / 6);
            let mut child = copy.start(&words);
            let killed = kill_at_parts(&mut child, &lab, at, |child| {
                if of_server {
                    sessions(&server).into_iter().for_each(kill_hard)
                } else {
                    child.kill().unwrap()
                }
            });
            if target.exists() {
                // The copy was faster than this process. Only a complete file has the name.
                assert_same_file(&lab.path("blob"), &target);
                fs::remove_file(&target).unwrap();
            } else {
                deaths += u32::from(killed);
            }
        }
        copy.run(&words).ok("the same command again");
        assert_same_file(&lab.path("blob"), &target);
        assert_eq!(leftovers(lab.dir()), Vec::<PathBuf>::new());
        no_journal_is_left(&lab);
        fs::remove_file(&target).unwrap();
    }
}

fn leftover_bytes(lab: &Lab) -> u64 {
    leftovers(lab.dir()).iter().map(|path| bytes_below(path)).sum()
}

/// Calls `kill` once `at` bytes are in unfinished files, and waits for the child's end. Returns whether that
/// came before the end of the copy.
fn kill_at_parts(child: &mut Child, lab: &Lab, at: u64, kill: impl FnOnce(&mut Child)) -> bool {
    if !wait_for(child, lab, at) {
        return false;
    }
    kill(child);
    !child.wait().unwrap().success()
}

/// Calls `kill` once `at` bytes are in unfinished files; the child may continue.
fn kill_when(child: &mut Child, lab: &Lab, at: u64, kill: impl FnOnce()) -> bool {
    let reached = wait_for(child, lab, at);
    if reached {
        kill();
    }
    reached
}

fn wait_for(child: &mut Child, lab: &Lab, at: u64) -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while leftover_bytes(lab) < at {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(Instant::now() < end, "nothing moves");
        std::thread::sleep(Duration::from_micros(300));
    }
    true
}

/// Returns a number from the last line of `--json`.
fn told(json: &str, name: &str) -> u64 {
    let line = json.lines().last().unwrap_or_default();
    let rest = line.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("{name} in {json}"));
    rest.split([',', '}']).next().unwrap_or_default().parse().unwrap()
}

/// Covers: lhscp --json
#[test]
fn a_tree_of_many_files_resumes_after_kills() {
    let lab = Lab::new();
    let ours = Lhsshd::start(&lab, "");
    let stock =
        peers("a_tree_of_many_files_survives_kills", ["sshd"]).map(|[sshd]| Inetd::openssh(&lab, &sshd, ""));
    fs::create_dir(lab.path("tree")).unwrap();
    let mut total = 0;
    for n in 0..500_usize {
        let size = 40_000 + n * 131 % 60_000;
        make_blob(&lab.path("tree").join(format!("file {n}")), size);
        total += size as u64;
    }
    let mut dice = Dice(7);
    let ports = [Some(ours.port), stock.as_ref().map(|stock| stock.port)];
    for (port, upload) in ports.into_iter().flatten().flat_map(|port| [(port, true), (port, false)]) {
        let (tree, there) = (lab.arg("tree"), lab.arg("there"));
        let remote = |path: &str| format!("127.0.0.1:{path}");
        let words = if upload { [tree, remote(&there)] } else { [remote(&tree), there] };
        let words: Vec<&str> = ["-r", "--json"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let copy = Copy { lab: &lab, port };
        for _ in 0..4 {
            let at = bytes_below(&lab.path("there")) + dice.below(total / 6);
            let mut child = copy.start(&words);
            let end = Instant::now() + Duration::from_secs(60);
            while bytes_below(&lab.path("there")) < at && child.try_wait().unwrap().is_none() {
                assert!(Instant::now() < end, "nothing moves");
                std::thread::sleep(Duration::from_micros(300));
            }
            let _ = child.kill();
            child.wait().unwrap();
        }
        let there = bytes_below(&lab.path("there"));
        let last = copy.run(&words).ok("the same command again").text();
        assert_same_tree(&lab.path("tree"), &lab.path("there"));
        assert_eq!(leftovers(lab.dir()), Vec::<PathBuf>::new());
        no_journal_is_left(&lab);
        // Bytes that the last attempt sent beyond those missing: what was in flight at the kill. That is the
        // more, the busier the machine is; `cargo xtask bench --scenario kills` measures it. It is never most
        // of the tree.
        let again = (told(&last, "bytes") + there).saturating_sub(total);
        assert!(again <= total / 3, "{again} of {total} sent twice (upload: {upload})");
        fs::remove_dir_all(lab.path("there")).unwrap();
    }
}

/// Small files that a slow copy opened one by one go in batches without its limit.
///
/// Covers: lhscp -l
#[test]
fn a_resumed_copy_without_limit_leaves_no_parts() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    fs::create_dir(lab.path("tree")).unwrap();
    for n in 0..200 {
        make_blob(&lab.path("tree").join(format!("file {n}")), 30_000);
    }
    let copy = Copy { lab: &lab, port: server.port };
    for upload in [true, false] {
        let (tree, there) = (lab.arg("tree"), lab.arg("there"));
        let remote = |path: &str| format!("127.0.0.1:{path}");
        let [from, to] = if upload { [tree, remote(&there)] } else { [remote(&tree), there] };
        let mut child = copy.start(&["-r", "-l", "2000", &from, &to]);
        let opened = || leftovers(lab.dir()).len() > 1 && bytes_below(&lab.path("there")) > 60_000;
        eventually("unfinished files", opened);
        child.kill().unwrap();
        child.wait().unwrap();
        copy.run(&["-r", &from, &to]).ok("without the limit");
        assert_same_tree(&lab.path("tree"), &lab.path("there"));
        assert_eq!(leftovers(lab.dir()), Vec::<PathBuf>::new(), "upload: {upload}");
        no_journal_is_left(&lab);
        fs::remove_dir_all(lab.path("there")).unwrap();
    }
}

/// Covers: lhscp -D; lhscp -S
#[test]
fn programs_that_do_not_serve_leave_no_journal() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 1_000);
    let copy = Copy { lab: &lab, port: lh_interop::tunnel::free_port() };
    for flags in [&["-D", "/bin/true"][..], &["-S", "/bin/true"]] {
        let ran = copy.run(&[flags, &["blob", "127.0.0.1:there"]].concat());
        assert_ne!(ran.code, 0, "{flags:?}");
        no_journal_is_left(&lab);
    }
    let ran = copy.run(&["-3", "127.0.0.1:one", "127.0.0.1:other"]);
    assert_ne!(ran.code, 0);
    no_journal_is_left(&lab);
}

/// Covers: lhscp --retries
#[test]
fn a_connection_that_breaks_is_made_again() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 24_000_000);
    let copy = Copy { lab: &lab, port: server.port };
    let there = format!("127.0.0.1:{}", lab.arg("there"));
    let mut child = copy.command(&["-l", "64000", "blob", &there]).stderr(Stdio::piped()).spawn().unwrap();
    let killed = kill_when(&mut child, &lab, 4_000_000, || sessions(&server).into_iter().for_each(kill_hard));
    assert!(killed, "the copy was faster");
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert!(said.contains("connection lost; connecting again in 1 s"), "{said}");
    assert_same_file(&lab.path("blob"), &lab.path("there"));
    let ran = copy.run(&["--retries", "x", "blob", &there]);
    assert_eq!(ran.code, 1);
}
