//! `lhssh` against the system's sshd: behaviour visible to users and scripts. The interoperability tests
//! transfer bulk data.

mod terminals;

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lh_interop::{Inetd, Lab, Ran, find, me, peers};

/// Limit against hanging; not an expected duration.
const BOUND: Duration = Duration::from_secs(60);

fn lhssh() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_lhssh"))
}

/// A lab with one server and a configuration file that names it `there`, and `keyless` without a key for
/// login.
struct OpenSshSetup {
    lab: Lab,
    server: Inetd,
}

impl OpenSshSetup {
    /// `None` after a skip message when there is no sshd.
    fn new(test: &str, server_config: &str) -> Option<Self> {
        let [sshd] = peers(test, ["sshd"])?;
        let lab = Lab::new();
        let server = Inetd::openssh(&lab, &sshd, server_config);
        let setup = Self { lab, server };
        setup.configure("StrictHostKeyChecking yes\n");
        Some(setup)
    }

    fn configure(&self, more: &str) {
        let text = format!(
            "{more}Host there\n IdentityFile {}\nHost there keyless\n HostName 127.0.0.1\n Port {}\n User {}\n \
             IdentitiesOnly yes\n UserKnownHostsFile {}\n GlobalKnownHostsFile /dev/null\n",
            self.lab.arg("user_ed25519"),
            self.server.port,
            me(),
            self.lab.arg("known_hosts")
        );
        self.lab.write("config", &text);
    }

    fn args(&self, more: &[&str]) -> Vec<String> {
        let mut args = vec!["-F".to_owned(), self.lab.arg("config")];
        args.extend(more.iter().map(|&each| each.to_owned()));
        args
    }

    fn run(&self, more: &[&str]) -> Ran {
        self.lab.run(lhssh(), &self.args(more))
    }

    /// Answers every question with one line of `answers`.
    fn run_asked(&self, answers: &[&str], more: &[&str]) -> Ran {
        let script = "#!/bin/sh\ncd \"$(dirname \"$0\")\"; printf '%s\\n' \"$1\" >> asked\n\
                      head -n 1 answers; sed -i 1d answers\n";
        self.lab.write("askpass", script);
        fs::set_permissions(self.lab.path("askpass"), fs::Permissions::from_mode(0o700)).unwrap();
        self.lab.write("answers", &answers.iter().map(|a| format!("{a}\n")).collect::<String>());
        self.lab.write("asked", "");
        let words: Vec<String> = self.args(more).iter().map(|arg| format!("'{arg}'")).collect();
        self.lab.sh(&format!(
            "SSH_ASKPASS='{}' SSH_ASKPASS_REQUIRE=force '{}' {}",
            self.lab.arg("askpass"),
            lhssh().display(),
            words.join(" ")
        ))
    }

    fn start(&self, more: &[&str]) -> Child {
        Command::new(lhssh())
            .args(self.args(more))
            .env("HOME", self.lab.path("home"))
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Name of the server in known_hosts.
    fn name(&self) -> String {
        format!("[127.0.0.1]:{}", self.server.port)
    }
}

/// Reads from a child's output until `text` appears.
fn wait_for(child: &mut Child, text: &str) -> String {
    let out = child.stdout.as_mut().unwrap();
    let mut got = String::new();
    let mut byte = [0];
    while !got.contains(text) {
        assert_eq!(out.read(&mut byte).unwrap(), 1, "ended after {got:?}");
        got.push(char::from(byte[0]));
    }
    got
}

fn finish(mut child: Child) -> (i32, String) {
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    let status = child.wait().unwrap();
    (status.code().unwrap_or(-1), err)
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < BOUND, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn exit_statuses_and_streams_are_carried_over() {
    let Some(setup) = OpenSshSetup::new("lhssh_exit_statuses", "AcceptEnv LC_*") else { return };
    let ran = setup.run(&["there", "echo out; echo err >&2; exit 3"]);
    assert_eq!((ran.code, ran.text().as_str(), ran.err.as_str()), (3, "out\n", "err\n"));
    assert_eq!(setup.run(&["there", "kill -KILL $$"]).code, 255);
    let ran = setup.run(&["-s", "there", "nonsense"]);
    assert_eq!((ran.code, ran.err.as_str()), (255, "subsystem request failed on channel 0\r\n"));
    let ran = setup.run(&["-o", "SetEnv=LC_ONE=1", "-o", "SendEnv=LC_TWO", "there", "echo $LC_ONE"]);
    assert_eq!(ran.ok("env").text(), "1\n");
    // The reader exits after one line, which ends the endless command too.
    let ran =
        setup.lab.sh(&format!("{} {} there yes | head -n 1", lhssh().display(), setup.args(&[]).join(" ")));
    assert_eq!(ran.text(), "y\n");
    let ran = setup.lab.sh(&format!(
        "echo in | {0} {1} -n there 'cat; echo end'; echo in | {0} {1} there cat",
        lhssh().display(),
        setup.args(&[]).join(" ")
    ));
    assert_eq!(ran.text(), "end\nin\n");
}

/// Covers: ssh_config RekeyLimit
#[test]
fn rekeys_keep_data_in_both_directions() {
    let Some(setup) = OpenSshSetup::new("lhssh_both_ways", "RekeyLimit 1M") else { return };
    lh_interop::make_blob(&setup.lab.path("blob"), 64 << 20);
    let stdin = Stdio::from(fs::File::open(setup.lab.path("blob")).unwrap());
    let args = setup.args(&["-o", "RekeyLimit=1M", "there", "cat"]);
    let ran = setup.lab.run_with(lhssh(), &args, stdin).ok("cat");
    assert!(ran.out == fs::read(setup.lab.path("blob")).unwrap(), "the data changed in transfer");
}

/// Covers: ssh_config StrictHostKeyChecking; ssh_config GlobalKnownHostsFile
#[test]
fn unknown_host_is_confirmed_and_remembered() {
    let Some(setup) = OpenSshSetup::new("lhssh_first_use", "") else { return };
    setup.configure("HashKnownHosts yes\n");
    setup.lab.write("known_hosts", "");
    let ran = setup.run_asked(&["no"], &["there", "true"]);
    assert_eq!((ran.code, ran.err.as_str()), (255, "Host key verification failed.\r\n"));
    let asked = setup.lab.read("asked");
    let name = setup.name();
    assert!(
        asked.starts_with(&format!("The authenticity of host '{name} ({name})' can't be established.\n")),
        "{asked}"
    );
    assert!(asked.contains("\nED25519 key fingerprint is SHA256:"), "{asked}");
    assert!(
        asked.contains("Are you sure you want to continue connecting (yes/no/[fingerprint])? "),
        "{asked}"
    );

    let ran = setup.run_asked(&["yes"], &["there", "true"]).ok("accepted");
    let added = format!("Warning: Permanently added '{name}' (ED25519) to the list of known hosts.\r\n");
    assert_eq!(ran.err, added);
    assert!(setup.lab.read("known_hosts").starts_with("|1|"), "HashKnownHosts");
    let ran = setup.run_asked(&[], &["there", "true"]).ok("known");
    assert_eq!((ran.err.as_str(), setup.lab.read("asked").as_str()), ("", ""));
    // OpenSSH reads the file that we wrote.
    if let Some(ssh) = find("ssh") {
        setup.lab.run(&ssh, &setup.args(&["-o", "StrictHostKeyChecking=yes", "there", "true"])).ok("ssh");
    }
}

/// Covers: ssh_config StrictHostKeyChecking
#[test]
fn changed_or_revoked_host_key_is_refused() {
    let Some(setup) = OpenSshSetup::new("lhssh_changed_key", "") else { return };
    let wrong = setup.lab.read("user_ed25519.pub");
    let name = setup.name();
    setup.lab.write("known_hosts", &format!("# mine\n{name} {wrong}"));
    for option in ["StrictHostKeyChecking=ask", "StrictHostKeyChecking=accept-new"] {
        let ran = setup.run(&["-o", option, "there", "true"]);
        assert_eq!(ran.code, 255);
        assert!(
            ran.err.contains("@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n"),
            "{}",
            ran.err
        );
        let file = setup.lab.arg("known_hosts");
        assert!(ran.err.contains(&format!("Offending ED25519 key in {file}:2\r\n")), "{}", ran.err);
        let end = format!(
            "Host key for {name} has changed and you have requested strict checking.\r\n\
             Host key verification failed.\r\n"
        );
        assert!(ran.err.ends_with(&end), "{}", ran.err);
    }
    // With checking off, keys still work, but passwords are not sent.
    let ran = setup.run(&["-o", "StrictHostKeyChecking=no", "there", "true"]).ok("off");
    assert!(ran.err.contains("Password authentication is disabled"), "{}", ran.err);

    let host = setup.lab.read("host_ed25519.pub");
    setup.lab.write("known_hosts", &format!("@revoked * {host}{name} {host}"));
    let ran = setup.run(&["-o", "HostKeyAlgorithms=ssh-ed25519", "there", "true"]);
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("WARNING: REVOKED HOST KEY DETECTED!"), "{}", ran.err);
}

/// Covers: ssh -i; ssh_config BatchMode; ssh_config PreferredAuthentications
#[test]
fn encrypted_keys_prompt_and_never_show_passphrases() {
    let Some(setup) = OpenSshSetup::new("lhssh_passphrase", "") else { return };
    let key = setup.lab.arg("user_rsa");
    let Some(keygen) = find("ssh-keygen") else {
        return lh_interop::skip("lhssh_passphrase", "no ssh-keygen");
    };
    for format in [
        &["-p", "-f", &key, "-N", "open sesame"][..],
        &["-p", "-m", "PEM", "-f", &key, "-P", "open sesame", "-N", "open sesame"],
    ] {
        setup.lab.run(&keygen, format).ok("encrypt");
        let options = ["-vvv", "-i", &key, "keyless", "echo in"];
        let ran = setup.run_asked(&["wrong", "open sesame"], &options).ok("login");
        assert_eq!(ran.text(), "in\n");
        let prompt = format!("Enter passphrase for key '{key}': ");
        assert_eq!(setup.lab.read("asked"), format!("{prompt}\n{prompt}\n"));
        assert!(!ran.err.contains("sesame"), "{}", ran.err);
    }
    // After three wrong passphrases the next method follows; batch mode never prompts.
    let options = ["-o", "PreferredAuthentications=publickey", "-i", &key, "keyless", "true"];
    let ran = setup.run_asked(&["a", "b", "c", "d"], &options);
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains(&format!("{}@127.0.0.1: Permission denied (", me())), "{}", ran.err);
    assert_eq!(setup.lab.read("answers"), "d\n");
    let mut batch = vec!["-o", "BatchMode=yes"];
    batch.extend(options);
    assert_eq!(setup.run_asked(&["open sesame"], &batch).code, 255);
    assert_eq!(setup.lab.read("asked"), "");
}

#[test]
fn open_or_missing_key_files_are_reported() {
    let Some(setup) = OpenSshSetup::new("lhssh_key_files", "") else { return };
    let key = setup.lab.path("user_rsa");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let key = setup.lab.arg("user_rsa");
    let ran = setup.run(&["-i", &key, "-o", "BatchMode=yes", "there", "true"]).ok("the other key");
    assert!(ran.err.contains("WARNING: UNPROTECTED PRIVATE KEY FILE!"), "{}", ran.err);
    assert!(ran.err.ends_with(&format!("Load key \"{key}\": bad permissions\r\n")), "{}", ran.err);
    let ran = setup.run(&["-i", "/nonexistent", "there", "true"]).ok("the configured key");
    assert_eq!(ran.err, "Warning: Identity file /nonexistent not accessible: No such file or directory.\r\n");
}

/// Covers: ssh -c; ssh -p; ssh_config ServerAliveInterval; ssh_config ServerAliveCountMax
#[test]
fn endings_are_reported_in_openssh_words() {
    let Some(setup) = OpenSshSetup::new("lhssh_endings", "") else { return };
    // The port of a closed listener, which refuses connections.
    let closed = lh_interop::tunnel::free_port();
    let ran = setup.run(&["-p", &closed.to_string(), "there", "true"]);
    let text = format!("ssh: connect to host 127.0.0.1 port {closed}: Connection refused\r\n");
    assert_eq!((ran.code, ran.err), (255, text));
    let ran = setup.run(&["no-such-host.invalid", "true"]);
    assert_eq!(ran.code, 255);
    assert!(ran.err.starts_with("ssh: Could not resolve hostname no-such-host.invalid: "), "{}", ran.err);

    let ran = setup.run(&[
        "-o",
        "KexAlgorithms=diffie-hellman-group18-sha512",
        "-o",
        "Ciphers=aes192-ctr",
        "there",
        "true",
    ]);
    ran.ok("unusual algorithms");
    let strict = OpenSshSetup::new("lhssh_endings", "Ciphers aes256-ctr").unwrap();
    let ran = strict.run(&["-c", "aes128-ctr", "there", "true"]);
    let port = strict.server.port;
    let text = format!(
        "Unable to negotiate with 127.0.0.1 port {port}: no matching cipher found. Their offer: aes256-ctr\r\n"
    );
    assert_eq!((ran.code, ran.err), (255, text));

    // The server's process is killed during a session.
    let mut session = setup.start(&["there", "echo $PPID; exec sleep 100"]);
    let pid = wait_for(&mut session, "\n").trim().to_owned();
    setup.lab.sh(&format!("kill -KILL {pid}")).ok("kill");
    assert_eq!(finish(session), (255, "Connection to 127.0.0.1 closed by remote host.\r\n".to_owned()));

    // The server stops answering.
    let options =
        ["-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=1", "there", "echo $PPID; exec sleep 100"];
    let mut session = setup.start(&options);
    let pid = wait_for(&mut session, "\n").trim().to_owned();
    setup.lab.sh(&format!("kill -STOP {pid}")).ok("stop");
    let ended = finish(session);
    setup.lab.sh(&format!("kill -KILL {pid}")).ok("kill");
    assert_eq!(ended, (255, "Timeout, server 127.0.0.1 not responding.\r\n".to_owned()));

    // The client gets SIGTERM.
    let mut session = setup.start(&["there", "echo up; exec sleep 100"]);
    wait_for(&mut session, "up\n");
    setup.lab.sh(&format!("kill -TERM {}", session.id())).ok("kill");
    assert_eq!(finish(session), (255, String::new()));
}

#[test]
fn background_and_idle_sessions_work() {
    let Some(setup) = OpenSshSetup::new("lhssh_background", "") else { return };
    let mark = setup.lab.path("mark");
    let command = format!("sleep 1; touch '{}'", mark.display());
    // Output goes to a file: with a pipe, the shell would wait for the background process.
    let line =
        format!("{} {} -f there \"{command}\" >/dev/null 2>&1", lhssh().display(), setup.args(&[]).join(" "));
    setup.lab.sh(&line).ok("-f");
    assert!(!mark.exists(), "returned before the command was done");
    wait_until("the command in the background", || mark.exists());
    let ran = setup.run(&["-f", "there"]);
    let text = "Cannot fork into background without a command to execute.\r\n";
    assert_eq!((ran.code, ran.err.as_str()), (255, text));

    let mut idle = setup.start(&["-v", "-N", "there"]);
    wait_until("the login", || setup.server.log().contains("Accepted publickey"));
    idle.kill().unwrap();
    idle.wait().unwrap();
}

/// Covers: ssh -J; ssh -v; ssh_config ProxyCommand
#[test]
fn proxy_command_and_jump_hosts_connect() {
    let Some(setup) = OpenSshSetup::new("lhssh_proxies", "") else { return };
    let Some(sshd) = find("sshd") else { return };
    // sshd itself can be the proxy command: it serves its standard input.
    let conf = fs::read_dir(setup.lab.dir()).unwrap().map(|e| e.unwrap().path());
    let conf = conf.into_iter().find(|p| p.to_string_lossy().ends_with(".conf")).unwrap();
    let command = format!("ProxyCommand={} -i -f {}", sshd.display(), conf.display());
    let ran = setup.run(&["-v", "-o", &command, "there", "echo through"]).ok("command");
    assert_eq!(ran.text(), "through\n");
    assert!(ran.err.contains("(via proxy) using \"publickey\""), "{}", ran.err);
    let ran = setup.run(&["-o", "ProxyCommand=false", "there", "true"]);
    let text = "kex_exchange_identification: Connection closed by remote host\r\n\
                Connection closed by UNKNOWN port 65535\r\n";
    assert_eq!((ran.code, ran.err.as_str()), (255, text));

    let ran = setup.run(&["-J", "there,there", "there", "echo two hops"]).ok("hops");
    assert_eq!(ran.text(), "two hops\n");
    let closed = lh_interop::tunnel::free_port();
    let ran = setup.run(&["-J", "there", "-p", &closed.to_string(), "there", "true"]);
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("open failed: connect failed: Connection refused"), "{}", ran.err);
}
