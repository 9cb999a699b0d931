//! `longhaul doctor`: planted causes are named first, with their numbers.
//!
//! Paths are emulated between network namespaces, so these tests need root. The server is Debian's `sshd`
//! unless a test says otherwise, and the user has a login shell without start-up files of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lh_interop::held_fs::HeldFs;
use lh_interop::{Inetd, Lab, Lhsshd, TestUser, bin_dir, find, is_root, our, peers, skip, tunnel::free_port};
use lh_link::path::{Path as Wan, Side, Spec};
use serde_json::Value;

/// Two namespaces with a path between them, and a server at its far end.
struct Site {
    lab: Lab,
    user: TestUser,
    wan: Wan,
    server: Child,
    port: u16,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_file(format!("/etc/pam.d/{}", self.user.name));
        let _ = std::fs::remove_dir_all(format!("/etc/netns/{}", self.wan.netns(Side::Far)));
    }
}

/// The server of a site.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Server {
    #[default]
    OpenSsh,
    Longhaul,
}

/// Steps of setting up a site that tests change.
#[derive(Default)]
struct Plan<'a> {
    spec: Spec,
    server: Server,
    /// Lines of `sshd_config`.
    config: &'a str,
    /// Name and rules of a PAM service.
    pam: Option<&'a str>,
    /// The resolver's configuration at the far end.
    resolver: Option<&'a str>,
}

impl Site {
    fn start(test: &str, plan: &Plan<'_>) -> Option<Self> {
        if !is_root() {
            skip(test, "an emulated path needs root");
            return None;
        }
        let [sshd] = peers(test, ["sshd"])?;
        let lab = Lab::new();
        let user = TestUser::new(&lab);
        let _ = std::fs::create_dir_all("/run/sshd");
        let wan = Wan::up(&plan.spec, &bin_dir().join("lh-link")).expect("a path");
        if let Some(text) = plan.resolver {
            let directory = format!("/etc/netns/{}", wan.netns(Side::Far));
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(format!("{directory}/resolv.conf"), text).unwrap();
        }
        let port = free_port();
        let config = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nListenAddress {}\nPort {port}\n\
             PrintMotd no\nPrintLastLog no\nSubsystem sftp internal-sftp\n{}\n{}",
            lab.arg("host_ed25519"),
            user.home.join(".ssh/authorized_keys").display(),
            Side::Far.ipv4(),
            if plan.pam.is_some() { "UsePAM yes" } else { "UsePAM no" },
            plan.config
        );
        lab.write("sshd.conf", &config);
        // sshd's PAM service has the name that it is called by.
        let called = lab.path(&user.name);
        std::os::unix::fs::symlink(&sshd, &called).unwrap();
        if let Some(rules) = plan.pam {
            std::fs::write(format!("/etc/pam.d/{}", user.name), rules).unwrap();
        }
        let program = if plan.server == Server::Longhaul { our("lhsshd") } else { called };
        let mut command = wan.command(Side::Far, &program);
        command.args(["-D", "-e", "-f", &lab.arg("sshd.conf")]);
        let log = std::fs::File::create(lab.path("sshd.log")).unwrap();
        let server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        assert!(wan.wait_for_listener(Side::Far, Duration::from_secs(20)), "{}", lab.read("sshd.log"));
        let key = lab.read("host_ed25519.pub");
        lab.write("known_hosts", &format!("[{}]:{port} {key}", Side::Far.ipv4()));
        Some(Self { lab, user, wan, server, port })
    }

    /// Runs a command at one end.
    fn at(&self, side: Side, words: &[&str]) {
        let done = self.wan.command(side, words[0]).args(&words[1..]).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Sets a number of the kernel at one end.
    fn sysctl(&self, side: Side, name: &str, value: &str) {
        lh_link::netns::within(self.wan.netns(side), || {
            std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value)
        })
        .expect(name);
    }

    /// The diagnosis, from the near end, in which `cause` is expected to be the first.
    fn examine(&self, more: &[&str], cause: &str) -> Value {
        let mut command = self.wan.command(Side::Near, our("longhaul"));
        command.args(["doctor", "--json", "--local-dir", &self.lab.arg(".")]);
        command.args(self.lab.client_options()).args(more);
        command.args(["-P", &self.port.to_string()]);
        command.arg(format!("{}@{}", self.user.name, Side::Far.ipv4()));
        diagnosis(&mut command, cause)
    }
}

/// Runs the command until `cause` is the first finding, three times at most: what else runs on this machine,
/// or stops it for a moment, is a cause as well.
fn diagnosis(command: &mut Command, cause: &str) -> Value {
    let mut tries = 3;
    loop {
        tries -= 1;
        let done = command.stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}\n{err}", String::from_utf8_lossy(&done.stdout));
        let value: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!(value["longhaul_doctor"], 1);
        if value["findings"][0]["cause"] == cause || tries == 0 {
            return value;
        }
        eprintln!("again: {cause} was planted, and this found: {value:#}");
    }
}

/// Asserts that the first finding is this one, with these words in its title or evidence, and something to
/// change.
#[track_caller]
fn first(diagnosis: &Value, cause: &str, words: &[&str]) {
    let first = &diagnosis["findings"][0];
    assert_eq!(first["cause"], cause, "{diagnosis:#}");
    let text = first.to_string();
    for word in words {
        assert!(text.contains(word), "{word}: {diagnosis:#}");
    }
    assert!(first["change"][0].is_string(), "{diagnosis:#}");
}

fn spec(rate: u64, rtt: u64) -> Spec {
    Spec { rate: rate * 1_000_000, rtt: Duration::from_millis(rtt), ..Spec::default() }
}

/// Covers: longhaul --json
#[test]
fn doctor_names_a_fixed_ssh_window() {
    // OpenSSH's 2 MiB in each round trip of 250 ms are 8.4 MB/s of 50.
    let plan = Plan { spec: spec(400, 250), ..Plan::default() };
    let Some(site) = Site::start("doctor_names_a_fixed_ssh_window", &plan) else { return };
    let diagnosis = site.examine(&[], "ssh_window");
    first(&diagnosis, "ssh_window", &["lhsshd"]);
    let window = diagnosis["measured"]["upload"]["ssh_window_bytes"].as_f64().unwrap();
    assert!((1.9e6..2.2e6).contains(&window), "2097152 bytes: {diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_window_that_lhsshd_was_told() {
    // 256 KiB in each round trip of 80 ms are 3.3 MB/s of 25.
    let config = "HPNBufferSize 256";
    let plan = Plan { spec: spec(200, 80), server: Server::Longhaul, config, ..Plan::default() };
    let Some(site) = Site::start("doctor_names_a_window_that_lhsshd_was_told", &plan) else { return };
    let diagnosis = site.examine(&[], "ssh_window");
    first(&diagnosis, "ssh_window", &["262 kB", "HPNBufferSize out of the server's sshd_config"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_rate_limit_of_the_server() {
    let config = "TcpPacing 16M";
    let plan = Plan { spec: spec(100, 20), server: Server::Longhaul, config, ..Plan::default() };
    let Some(site) = Site::start("doctor_names_a_rate_limit_of_the_server", &plan) else { return };
    first(&site.examine(&[], "pacing"), "pacing", &["downloads to 2.0 MB/s", "sshd_config"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_small_receive_buffer() {
    let plan = Plan { spec: spec(200, 80), ..Plan::default() };
    let Some(site) = Site::start("doctor_names_a_small_receive_buffer", &plan) else { return };
    site.sysctl(Side::Far, "tcp_rmem", "4096 65536 131072");
    first(
        &site.examine(&[], "receive_buffer"),
        "receive_buffer",
        &["the server limits uploads", "131 kB", "sysctl -w net.ipv4.tcp_rmem="],
    );
    site.sysctl(Side::Far, "tcp_rmem", "4096 131072 33554432");
    site.sysctl(Side::Near, "tcp_rmem", "4096 65536 131072");
    first(
        &site.examine(&[], "receive_buffer"),
        "receive_buffer",
        &["this machine limits downloads", "131 kB"],
    );
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_small_send_buffer() {
    let plan = Plan { spec: spec(200, 80), ..Plan::default() };
    let Some(site) = Site::start("doctor_names_a_small_send_buffer", &plan) else { return };
    site.sysctl(Side::Near, "tcp_wmem", "4096 16384 131072");
    first(
        &site.examine(&[], "send_buffer"),
        "send_buffer",
        &["this machine limits uploads", "131 kB", "sysctl -w net.ipv4.tcp_wmem="],
    );
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_windows_that_are_not_scaled() {
    let plan = Plan { spec: spec(200, 80), ..Plan::default() };
    let Some(site) = Site::start("doctor_names_windows_that_are_not_scaled", &plan) else { return };
    site.sysctl(Side::Far, "tcp_window_scaling", "0");
    first(
        &site.examine(&[], "window_scaling"),
        "window_scaling",
        &["64 KiB", "on the server: sysctl -w net.ipv4.tcp_window_scaling=1"],
    );
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_buffer_that_a_program_has_set() {
    let plan = Plan { spec: spec(200, 80), ..Plan::default() };
    let Some(site) = Site::start("doctor_names_a_buffer_that_a_program_has_set", &plan) else { return };
    let small = ["-o", "TcpRcvBuf=128k", "-o", "TcpRcvBufPoll=no"];
    first(
        &site.examine(&small, "receive_buffer"),
        "receive_buffer",
        &["this machine", "TcpRcvBuf out of ssh_config"],
    );
}

#[test]
fn doctor_names_loss() {
    let plan = Plan { spec: Spec { loss: 0.004, ..spec(100, 60) }, ..Plan::default() };
    let Some(site) = Site::start("doctor_names_loss", &plan) else { return };
    let diagnosis = site.examine(&[], "loss");
    first(&diagnosis, "loss", &["cubic"]);
    let loss = diagnosis["measured"]["upload"]["loss"].as_f64().unwrap();
    assert!((0.001..0.012).contains(&loss), "planted 0.004: {diagnosis:#}");
    assert!(diagnosis["measured"]["upload"]["ping_seconds"].as_f64().unwrap() >= 0.06, "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_bufferbloat() {
    // 1.25 MB behind 20 Mb/s are 500 ms.
    let plan = Plan { spec: Spec { queue: Some(1_250_000), ..spec(20, 20) }, ..Plan::default() };
    let Some(site) = Site::start("doctor_names_bufferbloat", &plan) else { return };
    let diagnosis = site.examine(&[], "bufferbloat");
    first(&diagnosis, "bufferbloat", &["tc qdisc replace"]);
    let loaded = diagnosis["measured"]["upload"]["loaded_rtt_seconds"].as_f64().unwrap();
    assert!((0.15..0.7).contains(&loaded), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_finds_no_fault_where_the_path_is_full() {
    let plan = Plan { spec: Spec { queue: Some(100_000), ..spec(40, 30) }, ..Plan::default() };
    let Some(site) = Site::start("doctor_finds_no_fault_where_the_path_is_full", &plan) else { return };
    let diagnosis = site.examine(&[], "path");
    assert_eq!(diagnosis["findings"][0]["cause"], "path", "{diagnosis:#}");
}

/// Without iptables, packets cannot be dropped by their properties.
fn has_iptables(test: &str) -> bool {
    let found = find("iptables").is_some();
    if !found {
        skip(test, "iptables is not installed");
    }
    found
}

#[test]
fn doctor_names_a_path_that_swallows_large_packets() {
    let test = "doctor_names_a_path_that_swallows_large_packets";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(site) = Site::start(test, &plan) else { return };
    for side in [Side::Near, Side::Far] {
        site.at(side, &["iptables", "-A", "INPUT", "-m", "length", "--length", "1381:65535", "-j", "DROP"]);
        site.at(side, &["ip", "link", "set", "wan0", "gso_max_segs", "1"]);
    }
    first(
        &site.examine(&[], "mtu_black_hole"),
        "mtu_black_hole",
        &["more than 1380 bytes", "tcp_mtu_probing=1"],
    );
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_throttled_dscp_mark() {
    let test = "doctor_names_a_throttled_dscp_mark";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: spec(60, 20), ..Plan::default() };
    let Some(site) = Site::start(test, &plan) else { return };
    let limit = ["-m", "hashlimit", "--hashlimit-above", "200kb/s", "--hashlimit-name", "ef", "-j", "DROP"];
    let rule = ["iptables", "-A", "INPUT", "-m", "dscp", "--dscp-class", "EF"];
    site.at(Side::Far, &[&rule[..], &limit[..]].concat());
    first(&site.examine(&["-o", "IPQoS=ef ef"], "dscp"), "dscp", &["DSCP 46", "IPQoS none"]);
}

#[test]
fn doctor_names_the_slow_line_of_a_start_up_file() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(site) = Site::start("doctor_names_the_slow_line_of_a_start_up_file", &plan) else { return };
    std::fs::write(site.user.home.join(".bash_profile"), "# comment\nsleep 2.5\n").unwrap();
    let diagnosis = site.examine(&[], "shell_startup");
    first(&diagnosis, "shell_startup", &["sleep 2.5", ".bash_profile line 2"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_forced_command_that_starts_slowly() {
    let config = "ForceCommand sleep 2; exec ${SHELL} -c \"${SSH_ORIGINAL_COMMAND:-exit}\"";
    let plan = Plan { spec: spec(100, 20), config, ..Plan::default() };
    let Some(site) = Site::start("doctor_names_a_forced_command_that_starts_slowly", &plan) else { return };
    first(&site.examine(&[], "command_start"), "command_start", &["ForceCommand", "2.0 s"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_slow_pam_modules() {
    let test = "doctor_names_slow_pam_modules";
    let slow = "pam_exec.so quiet /bin/sleep 2";
    for (kind, cause) in [("account", "login_approval"), ("session", "session_opening")] {
        let rules = format!(
            "auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_permit.so\n{kind} optional {slow}\n"
        );
        let plan = Plan { spec: spec(100, 20), pam: Some(&rules), ..Plan::default() };
        let Some(site) = Site::start(test, &plan) else { return };
        first(&site.examine(&[], cause), cause, &["/etc/pam.d/sshd", "2."]);
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_reverse_lookup_without_answer() {
    let test = "doctor_names_a_reverse_lookup_without_answer";
    if !has_iptables(test) {
        return;
    }
    let resolver = format!("nameserver {}\noptions timeout:1 attempts:2\n", Side::Near.ipv4());
    let plan =
        Plan { spec: spec(100, 20), config: "UseDNS yes", resolver: Some(&resolver), ..Plan::default() };
    let Some(site) = Site::start(test, &plan) else { return };
    site.at(Side::Near, &["iptables", "-A", "INPUT", "-p", "udp", "--dport", "53", "-j", "DROP"]);
    first(&site.examine(&[], "reverse_dns"), "reverse_dns", &["UseDNS no", "2."]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_rate_limit_that_was_asked_for() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(site) = Site::start("doctor_names_a_rate_limit_that_was_asked_for", &plan) else { return };
    first(&site.examine(&["-o", "TcpPacing=16M"], "pacing"), "pacing", &["2.0 MB/s", "TcpPacing"]);
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
        Err(why) => return lh_interop::skip_without_kernel_support(test, &why),
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
    assert!((1e6..6e6).contains(&rate), "planted 4.4 MB/s: {diagnosis:#}");
}

/// Covers: longhaul --local-dir
/// Covers: longhaul --remote-dir
#[test]
fn doctor_prints_a_page_and_leaves_no_file() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    std::fs::create_dir(lab.path("here")).unwrap();
    std::fs::create_dir(lab.path("there")).unwrap();
    let mut args = vec!["doctor".to_owned(), "--local-dir".to_owned(), lab.arg("here")];
    args.extend(["--remote-dir".to_owned(), lab.arg("there"), "-P".to_owned(), server.port_arg()]);
    args.extend(lab.client_options());
    args.push(format!("{}@127.0.0.1", lh_interop::me()));
    let page = lab.run(&our("longhaul"), &args).ok("doctor").text();
    assert!(page.contains("round trip") && page.contains("disks"), "{page}");
    assert!(page.contains("1. "), "{page}");
    for directory in ["here", "there"] {
        assert_eq!(std::fs::read_dir(lab.path(directory)).unwrap().count(), 0, "{directory}");
    }
    let unknown = lab.run(&our("longhaul"), &["doctor", "-F", "none", "-P", "1", "127.0.0.1"]);
    assert_eq!(unknown.code, 255);
    assert!(unknown.err.contains("onnection refused"), "{}", unknown.err);
    assert_eq!(lab.run(&our("longhaul"), &["doctor"]).code, 2);
}
