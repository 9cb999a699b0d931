//! `longhaul doctor`: planted causes are named first, with their numbers.
//!
//! Paths are emulated between network namespaces, so these tests need root. The server is Debian's `sshd`
//! unless a test says otherwise, and the user has a login shell without start-up files of its own.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lh_interop::held_fs::HeldFs;
use lh_interop::slow_home::SlowHome;
use lh_interop::{Inetd, Lab, Lhsshd, TestUser, bin_dir, find, is_root, our, peers, skip, tunnel::free_port};
use lh_link::path::{Path as Wan, Side, Spec};
use serde_json::Value;

/// Two namespaces with a path between them, and a server at its far end.
struct Site {
    _home: Option<SlowHome>,
    lab: Lab,
    user: TestUser,
    wan: Wan,
    server: Child,
    host: String,
    port: u16,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_file(format!("/etc/pam.d/{}", self.user.name));
        for side in [Side::Near, Side::Far] {
            let _ = std::fs::remove_dir_all(format!("/etc/netns/{}", self.wan.netns(side)));
        }
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
    /// The resolver's configuration at one end.
    resolver: Option<(Side, &'a str)>,
    /// Command that gives the user's keys, in place of the file.
    keys_command: Option<&'a str>,
    /// Command line that starts the server.
    prefix: &'a [&'a str],
    /// Files of a home directory each of which takes so long to open, besides the user's keys.
    slow_home: Option<(Duration, &'a [(&'a str, &'a str)])>,
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
        if let Some((side, text)) = plan.resolver {
            let directory = format!("/etc/netns/{}", wan.netns(side));
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(format!("{directory}/resolv.conf"), text).unwrap();
        }
        let port = free_port();
        let file = user.home.join(".ssh/authorized_keys").display().to_string();
        let keys = match plan.keys_command {
            Some(command) => {
                let command = command.replace("{keys}", &file);
                format!(
                    "AuthorizedKeysFile none\nAuthorizedKeysCommand {command}\nAuthorizedKeysCommandUser root"
                )
            }
            None => format!("AuthorizedKeysFile {file}"),
        };
        let config = format!(
            "HostKey {}\n{keys}\nPidFile none\nStrictModes no\nListenAddress {}\nPort {port}\n\
             PrintMotd no\nPrintLastLog no\nSubsystem sftp internal-sftp\n{}\n{}",
            lab.arg("host_ed25519"),
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
        // Before the server starts: `ip netns exec` gives it a mount namespace of its own.
        let home = match plan.slow_home.map(|(delay, files)| slow_home(&user, files, delay)) {
            Some(Err(why)) => {
                lh_interop::skip_unavailable(test, &why.to_string());
                return None;
            }
            Some(Ok(home)) => Some(home),
            None => None,
        };
        let program = if plan.server == Server::Longhaul { our("lhsshd") } else { called };
        let words = [plan.prefix, &[program.to_str().unwrap()]].concat();
        let mut command = wan.command(Side::Far, words[0]);
        command.args(&words[1..]).args(["-D", "-e", "-f", &lab.arg("sshd.conf")]);
        let log = std::fs::File::create(lab.path("sshd.log")).unwrap();
        let server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        assert!(wan.wait_for_listener(Side::Far, Duration::from_secs(20)), "{}", lab.read("sshd.log"));
        let key = lab.read("host_ed25519.pub");
        lab.write("known_hosts", &format!("[{}]:{port} {key}", Side::Far.ipv4()));
        Some(Self { _home: home, lab, user, wan, server, host: Side::Far.ipv4().to_string(), port })
    }

    /// Has the doctor reach the server by another name or port.
    fn reach_by(&mut self, host: &str, port: u16) {
        (self.host, self.port) = (host.to_owned(), port);
        self.lab.write("known_hosts", &format!("[{host}]:{port} {}", self.lab.read("host_ed25519.pub")));
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
        command.arg(format!("{}@{}", self.user.name, self.host));
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

/// The finding of this cause about uploads or downloads.
#[track_caller]
fn of_direction<'a>(diagnosis: &'a Value, cause: &str, direction: &str) -> &'a Value {
    let is_it = |finding: &&Value| {
        finding["cause"] == cause && finding["title"].as_str().is_some_and(|title| title.contains(direction))
    };
    let found = diagnosis["findings"].as_array().and_then(|all| all.iter().find(is_it));
    found.unwrap_or_else(|| panic!("{cause}, {direction}: {diagnosis:#}"))
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
fn doctor_measures_another_congestion_control() {
    let test = "doctor_measures_another_congestion_control";
    let with = |name: &str| {
        let congestion = name.to_owned();
        let plan = Plan { spec: Spec { loss: 0.005, congestion, ..spec(100, 60) }, ..Plan::default() };
        Site::start(test, &plan)
    };
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    if !known.split_whitespace().any(|name| name == "bbr") {
        return lh_interop::skip_unavailable(test, "the kernel has no BBR");
    }
    let Some(site) = with("reno") else { return };
    // The emulated path sets its control on the route, which overrules what programs ask for.
    let diagnosis = site.examine(&[], "loss");
    first(&diagnosis, "loss", &["holds reno back on uploads", "congctl bbr", "overrules"]);
    assert!(!diagnosis.to_string().contains("measured with bbr"), "{diagnosis:#}");
    for side in [Side::Near, Side::Far] {
        site.at(side, &["ip", "route", "replace", "10.88.0.0/24", "dev", "wan0", "src", side.ipv4()]);
        site.sysctl(side, "tcp_congestion_control", "reno");
    }
    let diagnosis = site.examine(&[], "loss");
    let up = of_direction(&diagnosis, "loss", "uploads");
    assert!(up["gain"].as_str().unwrap().contains("measured with bbr"), "{diagnosis:#}");
    assert!(up["change"][0].as_str().unwrap().contains("tcp_congestion_control=bbr"), "{diagnosis:#}");
    // The server's congestion control comes from `ss` there, and is changed there.
    let down = of_direction(&diagnosis, "loss", "downloads");
    assert!(down["change"][0].as_str().unwrap().starts_with("on the server: "), "{diagnosis:#}");
    // With BBR, so little loss is no limit.
    drop(site);
    let Some(site) = with("bbr") else { return };
    let diagnosis = site.examine(&[], "path");
    let found = diagnosis["findings"].as_array().unwrap();
    assert!(found.iter().all(|finding| finding["cause"] != "loss"), "{diagnosis:#}");
}

/// What drops packets at random on the way to the server.
const LOSSY: [&str; 12] = [
    "iptables",
    "-A",
    "INPUT",
    "-p",
    "tcp",
    "-m",
    "statistic",
    "--mode",
    "random",
    "--probability",
    "0.01",
    "-j",
];

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_the_cause_of_each_direction() {
    let test = "doctor_names_the_cause_of_each_direction";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: spec(200, 40), ..Plan::default() };
    let Some(site) = Site::start(test, &plan) else { return };
    // Uploads lose segments, downloads wait for a small buffer of this machine.
    site.at(Side::Far, &[&LOSSY[..], &["DROP"]].concat());
    site.sysctl(Side::Near, "tcp_rmem", "4096 65536 131072");
    let diagnosis = site.examine(&[], "loss");
    of_direction(&diagnosis, "loss", "uploads");
    let down = of_direction(&diagnosis, "receive_buffer", "downloads");
    assert!(down["title"].as_str().unwrap().contains("this machine"), "{diagnosis:#}");
    let others = |cause: &str, direction: &str| {
        let text = diagnosis["findings"].to_string();
        !text.contains(&format!("{cause} limits {direction}"))
    };
    assert!(others("buffer of the server", "uploads"), "{diagnosis:#}");
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
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_policer() {
    let test = "doctor_names_a_policer";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: spec(200, 20), ..Plan::default() };
    let Some(site) = Site::start(test, &plan) else { return };
    // What exceeds 2 MB/s is dropped, and nothing is queued.
    let limit = ["-m", "hashlimit", "--hashlimit-above", "2000kb/s", "--hashlimit-name", "police"];
    let rule = ["iptables", "-A", "INPUT", "-p", "tcp"];
    site.at(Side::Far, &[&rule[..], &limit[..], &["-j", "DROP"]].concat());
    let diagnosis = site.examine(&[], "policer");
    first(&diagnosis, "policer", &["on uploads", "--pace"]);
    let rates = &diagnosis["measured"]["upload"];
    let rate = rates["bytes_per_second"].as_f64().unwrap_or(0.0);
    assert!((0.3e6..2.6e6).contains(&rate), "planted 2.05 MB/s: {diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_small_packets() {
    let plan = Plan { spec: Spec { mtu: 576, ..spec(100, 20) }, ..Plan::default() };
    let Some(site) = Site::start("doctor_names_small_packets", &plan) else { return };
    first(
        &site.examine(&[], "small_mtu"),
        "small_mtu",
        &["Packets hold 576 bytes at most", "524 bytes of data"],
    );
}

#[test]
fn doctor_names_the_slow_line_of_a_start_up_file() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(site) = Site::start("doctor_names_the_slow_line_of_a_start_up_file", &plan) else { return };
    std::fs::write(site.user.home.join(".bash_profile"), "# comment\nsleep 2.5\n").unwrap();
    let diagnosis = site.examine(&[], "shell_startup");
    first(&diagnosis, "shell_startup", &["sleep 2.5", ".bash_profile line 2"]);
}

fn slow_home(user: &TestUser, files: &[(&str, &str)], delay: Duration) -> std::io::Result<SlowHome> {
    const KEYS: &str = ".ssh/authorized_keys";
    let mut all = vec![(KEYS, std::fs::read(user.home.join(KEYS))?)];
    all.extend(files.iter().map(|(name, text)| (*name, text.as_bytes().to_vec())));
    SlowHome::mount(&user.home, &all, delay)
}

#[test]
fn doctor_names_a_slow_home_directory() {
    let test = "doctor_names_a_slow_home_directory";
    let files = [(".bash_profile", "# comment\n. ~/.bashrc\n"), (".bashrc", "umask 022\n")];
    let slow_home = Some((Duration::from_millis(400), &files[..]));
    let plan = Plan { spec: spec(100, 20), slow_home, ..Plan::default() };
    let Some(site) = Site::start(test, &plan) else { return };
    let diagnosis = site.examine(&["--remote-dir", "/tmp"], "slow_home");
    first(&diagnosis, "slow_home", &["ms to open a file", "fuse", "AuthorizedKeysFile"]);
    let each = diagnosis["measured"]["home"]["seconds_per_file"].as_f64().unwrap();
    assert!((0.39..0.8).contains(&each), "planted 0.4 s: {diagnosis:#}");
    let text = diagnosis["findings"].to_string();
    assert!(!text.contains("PAM") && !text.contains("start-up files take"), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_keys_that_are_exchanged_often() {
    let plan = Plan { spec: spec(100, 40), ..Plan::default() };
    let Some(site) = Site::start("doctor_names_keys_that_are_exchanged_often", &plan) else { return };
    let diagnosis = site.examine(&["-o", "RekeyLimit=1M"], "rekeying");
    first(&diagnosis, "rekeying", &["MB, which holds", "take RekeyLimit out"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_compression_of_random_data() {
    let plan = Plan { spec: spec(600, 10), ..Plan::default() };
    let Some(site) = Site::start("doctor_names_compression_of_random_data", &plan) else { return };
    let diagnosis = site.examine(&["-C"], "compression");
    first(&diagnosis, "compression", &["do not compress", "Compression no"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_selective_acknowledgements_that_are_off() {
    let test = "doctor_names_selective_acknowledgements_that_are_off";
    let plan = Plan { spec: Spec { loss: 0.005, ..spec(100, 60) }, ..Plan::default() };
    let Some(site) = Site::start(test, &plan) else { return };
    site.sysctl(Side::Far, "tcp_sack", "0");
    first(&site.examine(&[], "loss"), "loss", &["SACK", "on the server: sysctl -w net.ipv4.tcp_sack=1"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_start_up_files_that_print() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(site) = Site::start("doctor_names_start_up_files_that_print", &plan) else { return };
    std::fs::write(site.user.home.join(".bashrc"), "echo 'Welcome to the cluster'\n").unwrap();
    first(&site.examine(&[], "shell_output"), "shell_output", &["Welcome to the cluster", ".bashrc"]);
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
    let plan = Plan {
        spec: spec(100, 20),
        config: "UseDNS yes",
        resolver: Some((Side::Far, &resolver)),
        ..Plan::default()
    };
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

/// Answers each question for an IPv4 address with this one, and each other question with nothing, late.
fn answer_late(socket: UdpSocket, address: Ipv4Addr, delay: Duration) {
    let mut buffer = [0; 512];
    while let Ok((length, client)) = socket.recv_from(&mut buffer) {
        let question = buffer[..length].to_vec();
        let socket = socket.try_clone().unwrap();
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            if let Some(answer) = answer(&question, address) {
                let _ = socket.send_to(&answer, client);
            }
        });
    }
}

/// The answer to a DNS question (RFC 1035, 4.1).
fn answer(question: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    let name = question.get(12..)?.iter().position(|&byte| byte == 0)? + 12;
    let kind = question.get(name + 1..name + 5)?;
    let has_address = kind == [0, 1, 0, 1];
    let mut answer = question[..2].to_vec();
    // A response with recursion, one question, and no or one answer.
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(has_address), 0, 0, 0, 0]);
    answer.extend(&question[12..name + 5]);
    if has_address {
        // The name of the question; type A, class IN, 0 s, 4 bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_slow_resolver_of_this_machine() {
    let test = "doctor_names_a_slow_resolver_of_this_machine";
    let resolver = format!("nameserver {}\noptions timeout:9\n", Side::Near.ipv4());
    let plan = Plan { spec: spec(100, 20), resolver: Some((Side::Near, &resolver)), ..Plan::default() };
    let Some(mut site) = Site::start(test, &plan) else { return };
    let far: Ipv4Addr = Side::Far.ipv4().parse().unwrap();
    let bind = || UdpSocket::bind((Side::Near.ipv4(), 53));
    let socket = lh_link::netns::within(site.wan.netns(Side::Near), bind).expect("port 53");
    std::thread::spawn(move || answer_late(socket, far, Duration::from_millis(1500)));
    site.reach_by("slow.example", site.port);
    first(&site.examine(&[], "resolve"), "resolve", &["resolving the host's name", "1.", "/etc/resolv.conf"]);
}

/// Relays connections to the server, and holds back what comes from it once: before it passes on the data of
/// its read number `from`. Returns the port to connect to.
fn hold_back(site: &Site, from: usize, delay: Duration) -> u16 {
    let netns = site.wan.netns(Side::Far).to_owned();
    let listener =
        lh_link::netns::within(&netns, || TcpListener::bind((Side::Far.ipv4(), 0))).expect("a port");
    let (port, server) = (listener.local_addr().unwrap().port(), site.port);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let netns = netns.clone();
            std::thread::spawn(move || {
                let connect = || TcpStream::connect((Side::Far.ipv4(), server));
                let Ok(server) = lh_link::netns::within(&netns, connect) else { return };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                std::thread::scope(|scope| {
                    scope.spawn(|| relay(&client, &server, None));
                    relay(&server, &client, Some((from, delay)));
                });
            });
        }
    });
    port
}

fn relay(mut from: &TcpStream, mut to: &TcpStream, hold: Option<(usize, Duration)>) {
    let mut buffer = vec![0; 256 << 10];
    for number in 0.. {
        let Ok(count @ 1..) = from.read(&mut buffer) else { break };
        if let Some((_, delay)) = hold.filter(|(from, _)| *from == number) {
            std::thread::sleep(delay);
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Write), from.shutdown(Shutdown::Read));
}

/// A proxy command that passes on 2 MB/s in each direction.
const SLOW_PROXY: &str = r#"import os, socket, sys, threading, time
server = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def relay(read, write, end):
    while data := read(32768):
        write(data)
        time.sleep(len(data) / 2e6)
    end()
up = lambda: relay(lambda count: os.read(0, count), server.sendall, lambda: server.shutdown(socket.SHUT_WR))
threading.Thread(target=up, daemon=True).start()
relay(server.recv, lambda data: os.write(1, data), lambda: None)
"#;

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_slow_proxy() {
    let test = "doctor_names_a_slow_proxy";
    let Some([python]) = peers(test, ["python3"]) else { return };
    let plan = Plan { spec: spec(400, 20), ..Plan::default() };
    let Some(site) = Site::start(test, &plan) else { return };
    site.lab.write("proxy.py", SLOW_PROXY);
    let proxy = format!("ProxyCommand={} {} %h %p", python.display(), site.lab.arg("proxy.py"));
    let diagnosis = site.examine(&["-o", &proxy], "proxy");
    first(&diagnosis, "proxy", &["jump host or proxy command moves", "for each connection"]);
    for direction in ["uploads", "downloads"] {
        of_direction(&diagnosis, "proxy", direction);
    }
    let found = diagnosis["findings"].to_string();
    assert!(!found.contains("receive_buffer"), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_server_that_greets_late() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(mut site) = Site::start("doctor_names_a_server_that_greets_late", &plan) else { return };
    let port = hold_back(&site, 0, Duration::from_millis(1500));
    site.reach_by(Side::Far.ipv4(), port);
    first(&site.examine(&[], "greeting"), "greeting", &["needs long to greet", "1.", "MaxStartups"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_slow_key_exchange() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(mut site) = Site::start("doctor_names_a_slow_key_exchange", &plan) else { return };
    // The first read from the server is its greeting, the next its proposal; then comes the reply.
    let port = hold_back(&site, 2, Duration::from_millis(1500));
    site.reach_by(Side::Far.ipv4(), port);
    let large = ["-o", "KexAlgorithms=diffie-hellman-group18-sha512"];
    let diagnosis = site.examine(&large, "key_exchange");
    first(&diagnosis, "key_exchange", &["key exchange takes long", "curve25519-sha256 in ssh_config"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_slow_authorized_keys_command() {
    let test = "doctor_names_a_slow_authorized_keys_command";
    let command = "/bin/sh -c \"sleep 1.5; cat {keys}\"";
    let plan = Plan { spec: spec(100, 20), keys_command: Some(command), ..Plan::default() };
    let Some(site) = Site::start(test, &plan) else { return };
    let diagnosis = site.examine(&[], "login_approval");
    first(&diagnosis, "login_approval", &["AuthorizedKeysCommand", "to approve the login"]);
}

/// Loops that keep one processor busy.
struct Loops(Vec<Child>);

impl Loops {
    fn start(count: usize) -> Self {
        // Where each session has a share of the processor, each loop has as much as the server.
        let line = "exec taskset -c 0 setsid sh -c 'while :; do :; done'";
        let start = |_| Command::new("sh").args(["-c", line]).stdin(Stdio::null()).spawn().expect("a loop");
        Self((0..count).map(start).collect())
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
    let Some(site) = Site::start(test, &plan) else { return };
    let _loops = Loops::start(6);
    let diagnosis = site.examine(SLOW_SUITE, "processor");
    first(&diagnosis, "processor", &["Other programs on the server", "for its turn", "renice"]);
}

/// A control group whose processes have a part of one processor together.
struct Quota(PathBuf);

impl Quota {
    /// `percent` of a processor, by version 1 or 2 of control groups.
    fn new(name: &str, percent: u32) -> Result<Self, String> {
        let (root, limits) = if Path::new("/sys/fs/cgroup/cpu").is_dir() {
            let limits = [
                ("cpu.cfs_period_us", 100_000.to_string()),
                ("cpu.cfs_quota_us", (percent * 1000).to_string()),
            ];
            ("/sys/fs/cgroup/cpu", limits.to_vec())
        } else {
            ("/sys/fs/cgroup", vec![("cpu.max", format!("{} 100000", percent * 1000))])
        };
        let quota = Self(Path::new(root).join(name));
        std::fs::create_dir(&quota.0).map_err(|error| format!("{}: {error}", quota.0.display()))?;
        for (file, value) in limits {
            std::fs::write(quota.0.join(file), value).map_err(|error| format!("{file}: {error}"))?;
        }
        Ok(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Processes that end leave the group a moment later.
        let patience = std::time::Instant::now() + Duration::from_secs(10);
        while std::fs::remove_dir(&self.0).is_err() && std::time::Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_small_processor_quota() {
    let test = "doctor_names_a_small_processor_quota";
    if !is_root() {
        return skip(test, "control groups need root");
    }
    let quota = match Quota::new(&format!("longhaul-doctor-{}", std::process::id()), 15) {
        Ok(quota) => quota,
        Err(why) => return lh_interop::skip_unavailable(test, &why),
    };
    let Some([sshd]) = peers(test, ["sshd"]) else { return };
    // Control groups are not visible in a namespace of `ip netns`, so there is no emulated path.
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "");
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(quota.0.join("cgroup.procs"));
    command.arg(our("longhaul")).args(["doctor", "--json", "--local-dir", &lab.arg(".")]);
    command.args(["--remote-dir", &lab.arg(".")]).args(lab.client_options());
    command.args(["-o", "Ciphers=chacha20-poly1305@openssh.com", "-P", &server.port_arg()]);
    command.arg(format!("{}@127.0.0.1", lh_interop::me()));
    let diagnosis = diagnosis(&mut command, "processor_quota");
    let place = quota.0.to_string_lossy().into_owned();
    first(
        &diagnosis,
        "processor_quota",
        &["0.15 cores", "this machine", &place, "15000 µs of each 100000 µs"],
    );
    let told = &diagnosis["measured"]["upload"]["client_quota"];
    let number = |name: &str| told[name].as_f64().unwrap();
    assert!((number("cores") - 0.15).abs() < 1e-9, "{diagnosis:#}");
    assert!(number("throttled_periods") > 0.3 * number("periods"), "{diagnosis:#}");
    let cores = diagnosis["measured"]["upload"]["client_cores"].as_f64().unwrap();
    assert!((0.02..0.25).contains(&cores), "planted 0.15: {diagnosis:#}");
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
    assert!((1e6..6e6).contains(&rate), "planted 4.4 MB/s: {diagnosis:#}");
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
    let refused = "longhaul: connect to host 127.0.0.1 port 1: Connection refused\n";
    assert_eq!((unknown.out.as_slice(), unknown.err.as_str()), (&b""[..], refused));
    // Programs get an object in any case.
    let unknown = lab.run(&our("longhaul"), &["doctor", "--json", "-F", "none", "-P", "1", "127.0.0.1"]);
    let value: Value = serde_json::from_slice(&unknown.out).expect("JSON");
    assert_eq!((unknown.code, &value["longhaul_doctor"]), (255, &serde_json::json!(1)));
    assert!(value["error"].as_str().is_some_and(|why| why.contains("Connection refused")), "{value}");
    assert_eq!(lab.run(&our("longhaul"), &["doctor"]).code, 2);
}
