//! A path between two namespaces with a server at its far end, and functions that run and check a diagnosis.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lh_interop::slow_home::SlowHome;
use lh_interop::{Lab, TestUser, bin_dir, find, is_root, our, peers, skip, tunnel::free_port};
use lh_link::path::{Path as Wan, Side, Spec};
use serde_json::Value;

/// Two namespaces with a path between them, and a server at its far end.
pub(crate) struct PathSetup {
    _home: Option<SlowHome>,
    pub(crate) lab: Lab,
    pub(crate) user: TestUser,
    pub(crate) wan: Wan,
    pub(crate) server: Child,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Drop for PathSetup {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_file(format!("/etc/pam.d/{}", self.user.name));
        for side in [Side::Near, Side::Far] {
            let _ = std::fs::remove_dir_all(format!("/etc/netns/{}", self.wan.netns(side)));
        }
    }
}

/// The server of a setup.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    #[default]
    OpenSsh,
    Longhaul,
}

/// Steps of the preparation that tests change.
#[derive(Default)]
pub(crate) struct Plan<'a> {
    pub(crate) spec: Spec,
    pub(crate) server: Server,
    /// Lines of `sshd_config`.
    pub(crate) config: &'a str,
    /// Name and rules of a PAM service.
    pub(crate) pam: Option<&'a str>,
    /// The resolver's configuration at one end.
    pub(crate) resolver: Option<(Side, &'a str)>,
    /// Command that gives the user's keys, in place of the file.
    pub(crate) keys_command: Option<&'a str>,
    /// Command line that starts the server.
    pub(crate) prefix: &'a [&'a str],
    /// Files of a home directory each of which takes so long to open, besides the user's keys.
    pub(crate) slow_home: Option<(Duration, &'a [(&'a str, &'a str)])>,
}

impl PathSetup {
    pub(crate) fn start(test: &str, plan: &Plan<'_>) -> Option<Self> {
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
             PrintMotd no\nPrintLastLog no\n{}\n{}\n{}",
            lab.arg("host_ed25519"),
            Side::Far.ipv4(),
            if plan.config.contains("Subsystem") { "" } else { "Subsystem sftp internal-sftp" },
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
    pub(crate) fn reach_by(&mut self, host: &str, port: u16) {
        (self.host, self.port) = (host.to_owned(), port);
        self.lab.write("known_hosts", &format!("[{host}]:{port} {}", self.lab.read("host_ed25519.pub")));
    }

    /// Writes a file of the near end that it has in place of the one in `/etc`.
    pub(crate) fn write_near(&self, name: &str, text: &str) {
        let directory = format!("/etc/netns/{}", self.wan.netns(Side::Near));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(format!("{directory}/{name}"), text).unwrap();
    }

    /// Runs a command at one end.
    pub(crate) fn at(&self, side: Side, words: &[&str]) {
        let done = self.wan.command(side, words[0]).args(&words[1..]).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Sets a number of the kernel at one end.
    pub(crate) fn sysctl(&self, side: Side, name: &str, value: &str) {
        lh_link::netns::within(self.wan.netns(side), || {
            std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value)
        })
        .expect(name);
    }

    /// The diagnosis, from the near end, in which `cause` is expected to be the first.
    pub(crate) fn examine(&self, more: &[&str], cause: &str) -> Value {
        self.examine_by(&[], more, cause)
    }

    /// Like [`examine`](Self::examine), by a command line that starts the doctor.
    pub(crate) fn examine_by(&self, prefix: &[&str], more: &[&str], cause: &str) -> Value {
        let program = our("longhaul");
        let words = [prefix, &[program.to_str().unwrap()]].concat();
        let mut command = self.wan.command(Side::Near, words[0]);
        command.args(&words[1..]);
        command.args(["doctor", "--json", "--local-dir", &self.lab.arg(".")]);
        command.args(self.lab.client_options()).args(more);
        command.args(["-P", &self.port.to_string()]);
        command.arg(format!("{}@{}", self.user.name, self.host));
        diagnosis(&mut command, cause)
    }
}

fn slow_home(user: &TestUser, files: &[(&str, &str)], delay: Duration) -> std::io::Result<SlowHome> {
    const KEYS: &str = ".ssh/authorized_keys";
    let mut all = vec![(KEYS, std::fs::read(user.home.join(KEYS))?)];
    all.extend(files.iter().map(|(name, text)| (*name, text.as_bytes().to_vec())));
    SlowHome::mount(&user.home, &all, delay)
}

/// Diagnoses so far, and those of them whose first run named the planted cause first.
static ALL: AtomicUsize = AtomicUsize::new(0);
static AT_ONCE: AtomicUsize = AtomicUsize::new(0);

/// Runs the command until `cause` is the first finding, `LH_DOCTOR_TRIES` times at most, or three times: what
/// else runs on this machine, or stops it for a moment, is a cause as well. Prints how often the first run
/// sufficed so far, also of tests that pass.
pub(crate) fn diagnosis(command: &mut Command, cause: &str) -> Value {
    let tries = std::env::var("LH_DOCTOR_TRIES").ok().and_then(|tries| tries.parse().ok()).unwrap_or(3);
    let mut tried = 0;
    loop {
        tried += 1;
        let done = command.stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}\n{err}", String::from_utf8_lossy(&done.stdout));
        let value: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!(value["longhaul_doctor"], 1);
        let is_first = value["findings"][0]["cause"] == cause;
        if is_first || tried >= tries {
            let at_once = usize::from(is_first && tried == 1);
            let at_once = AT_ONCE.fetch_add(at_once, Ordering::Relaxed) + at_once;
            let all = ALL.fetch_add(1, Ordering::Relaxed) + 1;
            let verdict = if is_first { format!("first in run {tried}") } else { "not first".to_owned() };
            // The test harness would swallow what `eprintln!` prints.
            let line = format!("doctor: {cause} {verdict}; {at_once} of {all} diagnoses at once\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            return value;
        }
        eprintln!("again: {cause} was planted, and this found: {value:#}");
    }
}

/// Asserts that the title of the first finding ends with about this time, seconds. Nothing is faster than
/// what was planted; a busy machine adds to it.
#[track_caller]
pub(crate) fn takes(diagnosis: &Value, planted: f64) {
    let title = diagnosis["findings"][0]["title"].as_str().unwrap_or_default();
    let words: Vec<&str> = title.split([' ', ':']).map(|word| word.trim_end_matches(['.', ','])).collect();
    let time = |pair: &[&str]| {
        let factor = match pair[1] {
            "s" => 1.0,
            "ms" => 1e-3,
            _ => return None,
        };
        Some(pair[0].parse::<f64>().ok()? * factor)
    };
    let found = words.windows(2).find_map(time).unwrap_or_else(|| panic!("no time: {diagnosis:#}"));
    let limits = 0.96 * planted..1.4 * planted + 0.1;
    assert!(limits.contains(&found), "planted {planted} s, and named {found} s: {diagnosis:#}");
}

/// Asserts that the first finding is this one, with these words in its title or evidence, and something to
/// change.
#[track_caller]
pub(crate) fn first(diagnosis: &Value, cause: &str, words: &[&str]) {
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
pub(crate) fn of_direction<'a>(diagnosis: &'a Value, cause: &str, direction: &str) -> &'a Value {
    let is_it = |finding: &&Value| {
        finding["cause"] == cause && finding["title"].as_str().is_some_and(|title| title.contains(direction))
    };
    let found = diagnosis["findings"].as_array().and_then(|all| all.iter().find(is_it));
    found.unwrap_or_else(|| panic!("{cause}, {direction}: {diagnosis:#}"))
}

pub(crate) fn spec(rate: u64, rtt: u64) -> Spec {
    Spec { rate: rate * 1_000_000, rtt: Duration::from_millis(rtt), ..Spec::default() }
}

/// Without iptables, packets cannot be dropped by their properties.
pub(crate) fn has_iptables(test: &str) -> bool {
    let found = find("iptables").is_some();
    if !found {
        skip(test, "iptables is not installed");
    }
    found
}
