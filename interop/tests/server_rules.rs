//! Restrictions set by administrators and users of `lhsshd`, with OpenSSH's client: key options, accounts,
//! limits, terminals, forwards, and a server run by an ordinary user.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lh_interop::{Lab, Lhsshd, Ran, TestUser, eventually, is_root, me, our, peers, skip};

/// A server with a configuration, and OpenSSH's client.
struct RulesSetup {
    lab: Lab,
    server: Lhsshd,
    ssh: PathBuf,
}

impl RulesSetup {
    /// Starts a server; `None` without OpenSSH's client. `{lab}` in the configuration stands for the lab's
    /// directory.
    fn new(test: &str, config: &str) -> Option<Self> {
        let [ssh] = peers(test, ["ssh"])?;
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, &config.replace("{lab}", &lab.dir().to_string_lossy()));
        Some(Self { lab, server, ssh })
    }

    fn args(&self, options: &[&str], user: &str, command: &[&str]) -> Vec<String> {
        let mut args = self.lab.client_options();
        args.extend(options.iter().map(|&each| each.to_owned()));
        args.extend(["-p".to_owned(), self.server.port_arg(), format!("{user}@127.0.0.1")]);
        args.extend(command.iter().map(|&each| each.to_owned()));
        args
    }

    fn ssh_as(&self, user: &str, options: &[&str], command: &[&str]) -> Ran {
        self.lab.run(&self.ssh, &self.args(options, user, command))
    }

    fn ssh(&self, options: &[&str], command: &[&str]) -> Ran {
        self.ssh_as(&me(), options, command)
    }

    /// Starts a client that runs beside the test.
    fn start(&self, options: &[&str], command: &[&str]) -> Child {
        Command::new(&self.ssh)
            .args(self.args(options, &me(), command))
            .env("HOME", self.lab.path("home"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Writes options before the lab's Ed25519 key, the only one left in `authorized_keys`.
    fn key_options(&self, options: &str) {
        let key = self.lab.read("user_ed25519.pub");
        self.lab.write("authorized_keys", &format!("{options} {key}"));
    }

    fn logged(&self, text: &str) {
        // The client may end before the server has written its last line.
        eventually(text, || self.server.log().contains(text));
    }
}

/// Covers: authorized_keys command; authorized_keys from; authorized_keys expiry-time; authorized_keys no-pty; authorized_keys environment
#[test]
fn options_of_a_key_force_and_forbid() {
    let config = "PermitUserEnvironment yes\nAcceptEnv FOO";
    let Some(setup) = RulesSetup::new("key_options", config) else { return };
    setup.key_options(r#"command="echo forced; echo $SSH_ORIGINAL_COMMAND",environment="FOO=key""#);
    assert_eq!(setup.ssh(&[], &["rm -rf nothing"]).ok("forced").text(), "forced\nrm -rf nothing\n");
    setup.key_options(r#"no-pty,environment="FOO=a \"b\"""#);
    assert_eq!(setup.ssh(&[], &["echo $FOO"]).ok("environment").text(), "a \"b\"\n");
    let refused = setup.ssh(&["-tt"], &["tty"]);
    assert!(refused.err.contains("PTY allocation request failed"), "{}", refused.err);
    for options in [r#"from="10.9.8.7""#, r#"expiry-time="20200101""#, "no-such-option", "cert-authority"] {
        setup.key_options(options);
        let ran = setup.ssh(&[], &["true"]);
        assert_eq!(ran.code, 255, "{options}");
        assert!(ran.err.contains("Permission denied"), "{options}: {}", ran.err);
    }
    setup.key_options(r#"from="127.0.0.0/8,!127.0.0.9",expiry-time="20990101Z""#);
    setup.ssh(&[], &["true"]).ok("from");
    setup.logged("correct key but not from a permitted host");
    setup.logged("bad key options: unknown key option");
}

/// Covers: sshd_config StrictModes
#[test]
fn strict_modes_refuse_what_others_can_write() {
    let Some(setup) =
        RulesSetup::new("strict_modes", "StrictModes yes\nAuthorizedKeysFile {lab}/keys/authorized")
    else {
        return;
    };
    fs::create_dir(setup.lab.path("keys")).unwrap();
    let file = setup.lab.path("keys/authorized");
    fs::copy(setup.lab.path("authorized_keys"), &file).unwrap();
    // Outside of the home directory all directories up to the root are checked, and /tmp is writable for all.
    assert_eq!(setup.ssh(&[], &["true"]).code, 255);
    setup.logged("Authentication refused: bad ownership or modes for directory");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(setup.ssh(&[], &["true"]).code, 255);
    setup.logged(&format!("Authentication refused: bad ownership or modes for file {}", file.display()));
}

/// The version is the server's own, whatever the client says: the banner is sent before the login, the
/// command runs after it.
/// Covers: sshd_config Match (version); sshd_config Banner; sshd_config ForceCommand
#[test]
fn match_version_names_the_server_itself() {
    let Some([ssh]) = peers("match_version", ["ssh"]) else { return };
    for (version, matches) in [("Longhaul_*", true), ("OpenSSH_*", false), ("OpenSSH_*,Longhaul_*", true)] {
        let lab = Lab::new();
        lab.write("banner", "Welcome to the lab\n");
        let banner = lab.arg("banner");
        let rules = format!("Match version {version}\n  Banner {banner}\n  ForceCommand echo forced\n");
        lab.write("match.conf", &rules);
        let server = Lhsshd::start(&lab, &format!("Include {}", lab.arg("match.conf")));
        let setup = RulesSetup { lab, server, ssh: ssh.clone() };
        let ran = setup.ssh(&[], &["echo asked for"]).ok(version);
        assert_eq!(ran.text(), if matches { "forced\n" } else { "asked for\n" }, "{version}");
        assert_eq!(ran.err.contains("Welcome to the lab"), matches, "{version}: {}", ran.err);
    }
}

/// Covers: sshd_config Include; sshd_config Banner; sshd_config SetEnv; sshd_config PermitTTY; sshd_config Match
#[test]
fn users_get_their_own_ids_environment_and_rules() {
    if !is_root() {
        return skip("user_rules", "needs root to add a user");
    }
    let Some([ssh]) = peers("user_rules", ["ssh"]) else { return };
    let config = "AuthorizedKeysFile .ssh/authorized_keys\nInclude {lab}/match.conf\nSetEnv SET=by-server\nBanner {lab}/banner";
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    lab.write("banner", "Welcome to the lab\n");
    lab.write("match.conf", &format!("Match User {}\n  PermitTTY no\n  MaxSessions 1\n", user.name));
    let server = Lhsshd::start(&lab, &config.replace("{lab}", &lab.dir().to_string_lossy()));
    let setup = RulesSetup { lab, server, ssh };
    let ran =
        setup.ssh_as(&user.name, &[], &["id -un; id -G | wc -w; pwd; umask; echo $SET $LOGNAME $SHELL"]);
    let home = user.home.display();
    let ran = ran.ok("login");
    assert_eq!(ran.text(), format!("{0}\n1\n{home}\n0022\nby-server {0} /bin/bash\n", user.name));
    assert!(ran.err.contains("Welcome to the lab"), "{}", ran.err);
    assert_eq!(setup.ssh_as(&user.name, &[], &["cat /etc/shadow"]).code, 1);
    let refused = setup.ssh_as(&user.name, &["-tt"], &["tty"]);
    assert!(refused.err.contains("PTY allocation request failed"), "{}", refused.err);
    // The session's processes are the user's, not root's.
    let owner = setup.ssh_as(&user.name, &[], &["ps -o uid= -p $PPID | tr -d ' '; id -u"]).ok("ps").text();
    let ids: Vec<&str> = owner.lines().collect();
    assert_eq!(ids.first(), ids.last(), "the session process runs as another user");
    setup.lab.run(Path::new("usermod"), &["-L", &user.name]).ok("usermod");
    assert_eq!(setup.ssh_as(&user.name, &[], &["true"]).code, 255);
    setup.logged(&format!("User {} not allowed because account is locked", user.name));
    assert_eq!(setup.ssh_as("nobody-of-that-name", &[], &["true"]).code, 255);
    setup.logged("Invalid user nobody-of-that-name from 127.0.0.1 port ");
}

/// Covers: sshd_config ChrootDirectory; sshd_config ForceCommand; sshd_config Subsystem
#[test]
fn a_chroot_holds_sftp_and_forced_commands_hold_everybody() {
    if !is_root() {
        return skip("chroot", "needs root");
    }
    let Some([sftp, ssh]) = peers("chroot", ["sftp", "ssh"]) else { return };
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    // /tmp is writable for all, so the chroot must be elsewhere.
    let jail = tempfile_in("/var/lib");
    fs::create_dir(jail.join("inside")).unwrap();
    fs::write(jail.join("inside/file"), "in the jail").unwrap();
    let lines = format!(
        "Match User {}\n  ChrootDirectory {}\n  ForceCommand internal-sftp -d /inside\n",
        user.name,
        jail.display()
    );
    lab.write("match.conf", &lines);
    let config = format!("AuthorizedKeysFile .ssh/authorized_keys\nInclude {}", lab.arg("match.conf"));
    let server = Lhsshd::start(&lab, &config);
    let setup = RulesSetup { lab, server, ssh };
    setup.lab.write("batch", "pwd\nget file got\nls /\n");
    let mut args = setup.lab.client_options();
    let batch = setup.lab.arg("batch");
    args.extend(["-b".into(), batch, "-P".into(), setup.server.port_arg()]);
    args.push(format!("{}@127.0.0.1", user.name));
    let listing = setup.lab.run(&sftp, &args).ok("sftp").text();
    assert!(listing.contains("Remote working directory: /inside"), "{listing}");
    assert!(listing.contains("/inside"), "{listing}");
    assert_eq!(setup.lab.read("got"), "in the jail");
    let ran = setup.ssh_as(&user.name, &[], &["id"]);
    assert_eq!((ran.code, ran.text().as_str()), (1, "This service allows sftp connections only.\n"));
    fs::set_permissions(&jail, fs::Permissions::from_mode(0o775)).unwrap();
    assert_ne!(setup.ssh_as(&user.name, &[], &["id"]).code, 0);
    setup.logged("bad ownership or modes for chroot directory");
    fs::remove_dir_all(&jail).unwrap();
}

fn tempfile_in(directory: &str) -> PathBuf {
    let path = Path::new(directory).join(format!("longhaul-jail-{}", std::process::id()));
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_terminal_session_ends_with_its_program() {
    let Some(setup) = RulesSetup::new("terminal", "") else { return };
    let ran = setup.ssh(&["-tt"], &["sleep 1000 & echo $!; exit 5"]);
    assert_eq!(ran.code, 5, "{}", ran.err);
    let pid: u32 = ran.text().trim().parse().unwrap();
    // The terminal is closed, so processes that kept it got SIGHUP.
    eventually("the background process is gone", || !Path::new(&format!("/proc/{pid}")).exists());
    let modes = setup.ssh(&["-tt"], &["stty -a"]).ok("stty").text();
    assert!(modes.contains("-iuclc") && modes.contains("intr = ^C"), "{modes}");
    // All output of a program arrives, however large.
    let ran = setup.ssh(&["-tt"], &["seq 1 100000"]).ok("seq");
    assert_eq!(ran.text().lines().count(), 100_000);
}

#[test]
fn a_client_that_vanishes_hangs_up() {
    let Some(setup) = RulesSetup::new("vanish", "") else { return };
    let mut client = setup.start(
        &["-tt"],
        &["trap 'echo hup > {lab}/hup; exit' HUP; echo pid $$; while :; do sleep 0.1; done"
            .replace("{lab}", &setup.lab.dir().to_string_lossy())
            .as_str()],
    );
    let mut out = client.stdout.take().unwrap();
    let mut text = [0; 8];
    out.read_exact(&mut text).unwrap();
    client.kill().unwrap();
    client.wait().unwrap();
    eventually("the shell was told", || setup.lab.path("hup").exists());
}

#[test]
fn data_without_a_terminal_outlives_neither_side() {
    let Some(setup) = RulesSetup::new("pipes", "") else { return };
    // Without a terminal the session lasts until no process has its output open.
    let ran = setup.ssh(&[], &["(sleep 0.5; echo late) & echo early; exit 3"]);
    assert_eq!((ran.code, ran.text().as_str()), (3, "early\nlate\n"));
    let ran = setup.ssh(&[], &["sleep 1000 >/dev/null 2>&1 </dev/null & echo $!"]).ok("detached");
    let pid = ran.text().trim().to_owned();
    assert!(Path::new(&format!("/proc/{pid}")).exists(), "a detached process must go on");
    setup.lab.run(Path::new("kill"), &[&pid]).ok("kill");
}

/// Covers: sshd_config MaxSessions; sshd_config MaxAuthTries
#[test]
fn sessions_and_attempts_are_limited() {
    let Some(setup) = RulesSetup::new("limits", "MaxSessions 1\nMaxAuthTries 2\nPubkeyAuthOptions none")
    else {
        return;
    };
    // A second session on one connection.
    let socket = setup.lab.arg("mux");
    let master = ["-o", "ControlMaster=yes", "-S", &socket];
    let mut client = setup.start(&master, &["echo up; cat"]);
    let mut up = [0; 3];
    client.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    let ran = setup.ssh(&["-S", &socket, "-o", "ControlMaster=no"], &["echo second"]);
    // The client then connects by itself, or fails; it gets no second session here.
    assert!(ran.err.contains("open failed") || ran.err.contains("refused"), "{}", ran.err);
    drop(client.stdin.take());
    client.wait().unwrap();
    // Too many keys.
    let other = setup.lab.arg("user_rsa");
    setup.lab.write("authorized_keys", "");
    let many = setup.ssh(&["-i", &other, "-o", "LogLevel=INFO"], &["true"]);
    assert!(many.err.contains("Too many authentication failures"), "{}", many.err);
}

/// A client with a session that lasts for as long as its standard input.
fn hold(mut command: Command) -> Child {
    let mut client =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut up = [0; 3];
    client.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    assert_eq!(&up, b"up\n");
    client
}

fn let_go(mut client: Child) {
    drop(client.stdin.take());
    client.wait().unwrap();
}

/// Connections of one account, counted over a reload; those of others, and channels, have nothing to do with
/// it.
///
/// Covers: sshd_config PerUserMaxConnections; sshd_config Match PerUserMaxConnections
#[test]
fn connections_of_a_user_are_limited() {
    let lab = Lab::new();
    lab.write("rules", &format!("Match User {}\n  PerUserMaxConnections 2\n", me()));
    let config = format!("Include {}", lab.arg("rules"));
    let Some([ssh]) = peers("connections_of_a_user_are_limited", ["ssh"]) else { return };
    let server = Lhsshd::start(&lab, &config);
    let setup = RulesSetup { lab, server, ssh };
    let held = |options: &[&str]| {
        let mut command = Command::new(&setup.ssh);
        command.args(setup.args(options, &me(), &["echo up; cat"])).env("HOME", setup.lab.path("home"));
        hold(command)
    };
    let refused = || {
        let ran = setup.ssh(&["-o", "LogLevel=INFO"], &["echo ran"]);
        assert_eq!((ran.code, ran.text().as_str()), (255, ""), "{}", ran.err);
        let text = format!(":12: Too many connections of user {} (PerUserMaxConnections 2)", me());
        assert!(ran.err.contains(&text), "{}", ran.err);
    };
    let socket = setup.lab.arg("mux");
    let first = held(&["-o", "ControlMaster=yes", "-S", &socket]);
    let second = held(&[]);
    refused();
    setup.logged("refused: 2 of this user are logged in (PerUserMaxConnections)");
    // Another channel of a connection that is counted.
    let ran = setup.ssh(&["-S", &socket, "-o", "ControlMaster=no"], &["echo channel"]);
    assert_eq!(ran.text(), "channel\n", "{}", ran.err);
    // A listener that is started again asks the sessions that it finds.
    let pid = rustix::process::Pid::from_raw(setup.server.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    eventually("it listens again", || setup.server.log().matches("Server listening on").count() == 2);
    refused();
    // The place is free once the listener has seen the end.
    let_go(second);
    eventually("a place is free", || setup.ssh(&[], &["echo ran"]).text() == "ran\n");
    let_go(first);
}

/// Bytes of one account: sessions end that go on when they are used up, short ones count as well, and new
/// ones are refused.
///
/// Covers: sshd_config PerUserTransferQuota; sshd_config Match PerUserTransferQuota
#[test]
fn bytes_of_a_user_are_limited() {
    let Some([ssh]) = peers("bytes_of_a_user_are_limited", ["ssh"]) else { return };
    let lab = Lab::new();
    lab.write("rules", &format!("Match User {}\n  PerUserTransferQuota 4M/1w\n", me()));
    let config = format!("Include {}", lab.arg("rules"));
    let server = Lhsshd::start(&lab, &config);
    let setup = RulesSetup { lab, server, ssh };
    let mut command = Command::new(&setup.ssh);
    command.args(setup.args(&[], &me(), &["echo up; cat"])).env("HOME", setup.lab.path("home"));
    let mut first = hold(command);
    let processes = || lh_interop::process::below(setup.server.pid()).len();
    let before = processes();
    for round in 0..3 {
        let ran = setup.ssh(&[], &["head -c 2000000 /dev/zero"]);
        // On a slow machine the third one is told in the middle of it.
        assert!(ran.code == 0 || round == 2, "{}", ran.err);
        // The next login is not to come before the listener has seen this end.
        eventually("the session is over", || processes() <= before);
    }
    let ran = setup.ssh(&["-o", "LogLevel=INFO"], &["echo ran"]);
    assert_eq!((ran.code, ran.text().as_str()), (255, ""), "{}", ran.err);
    let text = format!(":12: Transfer quota of user {} is used up (PerUserTransferQuota)", me());
    assert!(ran.err.contains(&text), "{}", ran.err);
    setup.logged("refused: the transfer quota is used up (PerUserTransferQuota)");
    // One that is there ends, too, although it moves nothing.
    let input = first.stdin.take();
    eventually("the idle session has ended", || first.try_wait().unwrap().is_some());
    assert_eq!(first.wait().unwrap().code(), Some(255));
    drop(input);
    setup.logged("ends: its user has used up the transfer quota (PerUserTransferQuota)");
}

/// Covers: sshd_config LoginGraceTime
#[test]
fn a_client_that_sends_nothing_is_disconnected() {
    let Some(setup) = RulesSetup::new("grace", "LoginGraceTime 1") else { return };
    let mut silent = TcpStream::connect(("127.0.0.1", setup.server.port)).unwrap();
    let mut said = Vec::new();
    silent.read_to_end(&mut said).unwrap();
    assert!(said.starts_with(b"SSH-2.0-"));
    setup.logged("Timeout before authentication for ");
}

/// Covers: sshd_config MaxStartups
#[test]
fn connections_beyond_max_startups_are_told() {
    // None of the three may time out before the fourth has come, however slow the machine is.
    let Some(setup) = RulesSetup::new("startups", "LoginGraceTime 600\nMaxStartups 3") else { return };
    let waiting: Vec<_> =
        (0..3).map(|_| TcpStream::connect(("127.0.0.1", setup.server.port)).unwrap()).collect();
    let mut greeted = [0; 8];
    for mut each in &waiting {
        each.read_exact(&mut greeted).unwrap();
    }
    let mut fourth = TcpStream::connect(("127.0.0.1", setup.server.port)).unwrap();
    let mut said = String::new();
    fourth.read_to_string(&mut said).unwrap();
    assert_eq!(said, "Exceeded MaxStartups\r\n");
    drop(waiting);
}

/// Covers: sshd_config ClientAliveInterval; sshd_config ClientAliveCountMax; wire keepalive@openssh.com
#[test]
fn a_client_that_stops_answering_is_given_up() {
    let Some(setup) = RulesSetup::new("alive", "ClientAliveInterval 1\nClientAliveCountMax 1") else {
        return;
    };
    let mut client = setup.start(&[], &["echo up; cat"]);
    let mut up = [0; 3];
    client.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    let pid = client.id().to_string();
    setup.lab.run(Path::new("kill"), &["-STOP", &pid]).ok("stop");
    setup.logged("Timeout, client not responding from user");
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn connections_are_forwarded_where_allowed() {
    let Some(setup) = RulesSetup::new("forward", "") else { return };
    let there = format!("127.0.0.1:{}", setup.server.port);
    let mut client = setup.start(&["-W", &there], &[]);
    let mut greeting = [0; 8];
    client.stdout.as_mut().unwrap().read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"SSH-2.0-");
    client.kill().unwrap();
    client.wait().unwrap();
    // By host name, and through two servers.
    let proxy = format!(
        "ProxyCommand={} {}",
        setup.ssh.display(),
        setup.args(&["-W", "localhost:%p"], &me(), &[]).join(" ")
    );
    let ran = setup.ssh(&["-o", &proxy], &["echo through"]).ok("jump");
    assert_eq!(ran.text(), "through\n");
    let Some(closed) = RulesSetup::new("forward", &format!("PermitOpen 127.0.0.1:{}", setup.server.port))
    else {
        return;
    };
    let elsewhere = closed.ssh(&["-W", "127.0.0.1:1"], &[]);
    assert!(elsewhere.err.contains("administratively prohibited"), "{}", elsewhere.err);
    let Some(none) = RulesSetup::new("forward", "AllowTcpForwarding no") else { return };
    assert!(none.ssh(&["-W", &there], &[]).err.contains("administratively prohibited"));
    let refused = setup.ssh(&["-W", "127.0.0.1:1"], &[]);
    assert!(refused.err.contains("Connection refused"), "{}", refused.err);
}

#[test]
fn an_ordinary_user_can_run_the_server() {
    if !is_root() {
        return skip(
            "ordinary_user",
            "needs root to add a user (every other test runs as an ordinary user then)",
        );
    }
    let Some([ssh]) = peers("ordinary_user", ["ssh"]) else { return };
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    // The user's own keys, in the user's own home, and the server's program where the user can run it.
    let home = user.home.clone();
    let (uid, gid) = user.ids();
    fs::copy(our("lhsshd"), home.join("lhsshd")).unwrap();
    fs::copy(lab.path("host_ed25519"), home.join("host")).unwrap();
    for file in ["lhsshd", "host"] {
        chown(home.join(file), Some(uid), Some(gid)).unwrap();
    }
    fs::set_permissions(home.join("host"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(home.join("lhsshd"), fs::Permissions::from_mode(0o755)).unwrap();
    let line = format!(
        "cd {0} && exec ./lhsshd -D -f none -p 0 -h host -E log -o ListenAddress=127.0.0.1 -o PidFile=none \
         -o PerUserMaxConnections=1 -o PerUserTransferQuota=1M/1w",
        home.display()
    );
    let mut server = Command::new("setpriv")
        .args(["--reuid", &user.name, "--regid", &gid.to_string(), "--clear-groups", "sh", "-c", &line])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let log = || fs::read_to_string(home.join("log")).unwrap_or_default();
    eventually("it listens", || log().contains("Server listening on 127.0.0.1 port "));
    let text = log();
    let port = text.split(" port ").nth(1).unwrap().split('.').next().unwrap().to_owned();
    lab.know(port.parse().unwrap());
    let run = |name: &str, command: &str| {
        let mut args = lab.client_options();
        args.extend(["-p".into(), port.clone(), format!("{name}@127.0.0.1"), command.into()]);
        lab.run(&ssh, &args)
    };
    let as_user = |name: &str| run(name, "id -un; tty");
    let mut held = Command::new(&ssh);
    let mut args = lab.client_options();
    args.extend(["-p".into(), port.clone(), format!("{}@127.0.0.1", user.name), "echo up; cat".into()]);
    held.args(args).env("HOME", lab.path("home"));
    let held = hold(held);
    assert_eq!(as_user(&user.name).code, 255);
    assert!(log().contains("refused: 1 of this user are logged in (PerUserMaxConnections)"), "{}", log());
    let_go(held);
    // The listener may not have seen the end yet.
    let mut ran = as_user(&user.name);
    eventually("a place is free", || {
        if ran.code == 255 {
            ran = as_user(&user.name);
        }
        ran.code != 255
    });
    assert_eq!(ran.text(), format!("{}\nnot a tty\n", user.name), "{}{}", ran.err, log());
    // On a slow machine this one is told in the middle of it.
    run(&user.name, "head -c 2000000 /dev/zero");
    eventually("the quota is used up", || {
        as_user(&user.name);
        log().contains("refused: the transfer quota is used up (PerUserTransferQuota)")
    });
    let other = as_user("root");
    assert_eq!(other.code, 255);
    assert!(other.err.contains("Permission denied (publickey)"), "{}", other.err);
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Covers: sshd_config PidFile; sshd -t; sshd -D
#[test]
fn the_listener_is_told_by_signals_and_checks_its_files() {
    let Some(setup) = RulesSetup::new("signals", "PidFile {lab}/pid") else { return };
    let pid = || std::fs::read_to_string(setup.lab.path("pid")).unwrap_or_default();
    eventually("pid file", || pid().ends_with('\n'));
    assert_eq!(setup.lab.read("pid").trim(), setup.server.pid().to_string());
    let pid = setup.server.pid().to_string();
    // A session survives a restart of the listener.
    let mut client = setup.start(&[], &["echo up; cat"]);
    let mut up = [0; 3];
    client.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    setup.lab.run(Path::new("kill"), &["-HUP", &pid]).ok("hup");
    setup.logged("Received SIGHUP; restarting.");
    eventually("listens again", || setup.server.log().matches("Server listening on").count() == 2);
    client.stdin.as_mut().unwrap().write_all(b"still here\n").unwrap();
    drop(client.stdin.take());
    let mut rest = String::new();
    client.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "still here\n");
    assert!(client.wait().unwrap().success());
    setup.lab.run(Path::new("kill"), &["-TERM", &pid]).ok("term");
    setup.logged("Received signal 15; terminating.");
    eventually("pid file is gone", || !setup.lab.path("pid").exists());

    let lhsshd = our("lhsshd");
    let key = setup.lab.arg("host_ed25519");
    setup.lab.run(&lhsshd, &["-t", "-f", "none", "-h", &key]).ok("-t");
    setup.lab.write("bad", "Port 22\nNoSuchKeyword yes\n");
    let bad = setup.lab.run(&lhsshd, &["-t", "-f", &setup.lab.arg("bad"), "-h", &key]);
    assert_eq!(bad.code, 255, "{}", bad.err);
    assert!(bad.err.contains("line 2: Bad configuration option: NoSuchKeyword"), "{}", bad.err);
    fs::set_permissions(setup.lab.path("host_rsa"), fs::Permissions::from_mode(0o644)).unwrap();
    let open = setup.lab.run(&lhsshd, &["-t", "-f", "none", "-h", &setup.lab.arg("host_rsa")]);
    assert_eq!(open.code, 1);
    assert!(open.err.contains("UNPROTECTED PRIVATE KEY FILE") && open.err.contains("no hostkeys available"));
    let dump = setup.lab.run(&lhsshd, &["-T", "-f", "none", "-h", &key, "-o", "MaxAuthTries 4"]).ok("-T");
    assert!(dump.text().lines().any(|line| line == "maxauthtries 4"), "{}", dump.text());
}

/// Covers: sshd -i
#[test]
fn one_connection_on_standard_input() {
    let Some([ssh]) = peers("inetd", ["ssh"]) else { return };
    let lab = Lab::new();
    lab.know(22);
    let known = lab.read("known_hosts").replace("[127.0.0.1]:22", "127.0.0.1");
    lab.write("known_hosts", &known);
    let proxy = format!(
        "ProxyCommand={} -i -q -f none -h {} -o AuthorizedKeysFile={} -o StrictModes=no -o PermitRootLogin=yes",
        our("lhsshd").display(),
        lab.arg("host_ed25519"),
        lab.arg("authorized_keys")
    );
    // A socket for both directions, two pipes, and a socket for one: what a session gives to a program.
    let pipes = format!("{} | cat", proxy.replace("ProxyCommand=", "ProxyCommand=cat | "));
    let socket_and_pipe = format!("{proxy} | cat");
    for proxy in [proxy, pipes, socket_and_pipe] {
        let mut args = lab.client_options();
        args.extend(["-o".into(), proxy, format!("{}@127.0.0.1", me()), "echo hello; exit 6".into()]);
        let ran = lab.run(&ssh, &args);
        assert_eq!((ran.code, ran.text().as_str()), (6, "hello\n"), "{}", ran.err);
    }
}

#[test]
fn a_program_killed_by_a_signal_is_reported() {
    let Some(setup) = RulesSetup::new("exit_signal", "") else { return };
    let ran = setup.ssh(&["-v"], &["kill -KILL $$"]);
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("exit-signal"), "{}", ran.err);
}

/// Cases from OpenSSH's own suite.
///
/// Covers: sshd_config Subsystem; sshd_config Match
#[test]
fn a_subsystem_may_stand_in_a_match_block_too() {
    let me = me();
    for (config, status) in [
        ("Subsystem xxx /bin/sh -c \"exit 23\"\nSubsystem xxx /bin/sh -c \"exit 24\"".to_owned(), 23),
        (
            "Match all\nSubsystem xxx /bin/sh -c \"exit 21\"\nSubsystem xxx /bin/sh -c \"exit 24\""
                .to_owned(),
            21,
        ),
        (
            format!(
                "Subsystem xxx /bin/sh -c \"exit 23\"\nMatch User {me}\nSubsystem xxx /bin/sh -c \"exit 20\"\n\
                 Match all\nSubsystem xxx /bin/sh -c \"exit 24\""
            ),
            20,
        ),
        (
            "Subsystem xxx /bin/sh -c \"exit 23\"\nMatch User nobody-here\nSubsystem xxx /bin/false"
                .to_owned(),
            23,
        ),
    ] {
        let files = Lab::new();
        files.write("rules", &config);
        let include = format!("Include {}", files.arg("rules"));
        let Some(setup) = RulesSetup::new("match_subsystem", &include) else { return };
        assert_eq!(setup.ssh(&["-s"], &["xxx"]).code, status, "{config}");
    }
}

/// Covers: sshd_config AuthorizedKeysFile
#[test]
fn keys_in_files_that_match_a_pattern() {
    let config = "AuthorizedKeysFile {lab}/keys/%u_*.pub {lab}/none_*";
    let Some(setup) = RulesSetup::new("keys_files", config) else { return };
    let keys = setup.lab.read("authorized_keys");
    std::fs::create_dir_all(setup.lab.path("keys")).unwrap();
    let write = |name: &str, text: &str| setup.lab.write(&format!("keys/{}_{name}", me()), text);
    write("a.pub", "# none\n");
    write("b.other", &keys);
    let ran = setup.ssh(&[], &["true"]);
    assert_eq!(ran.code, 255, "{}", ran.err);
    write("z.pub", &keys);
    assert_eq!(setup.ssh(&[], &["echo in"]).ok("the last file").text(), "in\n");
}

/// Covers: sshd_config WarnWeakCrypto
#[test]
fn key_exchanges_of_yesterday_are_logged() {
    const WARNING: &str = "is not using a post-quantum key exchange algorithm";
    let Some(setup) = RulesSetup::new("weak_exchanges", "WarnWeakCrypto yes") else { return };
    let old = ["-o", "KexAlgorithms=curve25519-sha256"];
    let warned = |options: &[&str]| {
        let before = setup.server.log().matches(WARNING).count();
        setup.ssh(options, &["true"]).ok("a login");
        setup.server.log().matches(WARNING).count() - before
    };
    assert_eq!((warned(&old), warned(&["-o", "KexAlgorithms=sntrup761x25519-sha512@openssh.com"])), (1, 0));
    setup.logged("WARNING: connection from 127.0.0.1 port ");
    setup.logged(": \"curve25519-sha256\"");
    for quiet in ["no-pq-kex", "no"] {
        let config = format!("WarnWeakCrypto {quiet}");
        let Some(setup) = RulesSetup::new("weak_exchanges", &config) else { return };
        setup.ssh(&old, &["true"]).ok("a login");
        assert!(!setup.server.log().contains(WARNING));
    }
}
