//! HPN-SSH's NONE cipher and MAC after authentication, and Longhaul's own integrity without encryption.
//!
//! No HPN-SSH program is available to test against. asyncssh, extended with the two names by
//! `peers/hpn_none.py`, imitates its behaviour on the wire. Both must be impossible before authentication:
//! asyncssh and the scripted peers in `crates/transport/src/tests/unencrypted.rs` try that.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use lh_interop::tunnel::Tunnel;
use lh_interop::{
    Lab, Lhsshd, Ran, Terminal, TestUser, assert_same_file, eventually, is_root, make_blob, me, our, skip,
};

const BOTH: &[&str] = &["-o", "NoneEnabled=yes", "-o", "NoneSwitch=yes"];
const WARNING: &str = "WARNING: ENABLED NONE CIPHER!!!\n";
const PROTECTED: &str =
    "What is sent from here on can be read by others on the way, but not changed (aes128-gmac@longhaul).\n";

/// A relay between client and server that records all traffic.
struct Wiretap {
    port: u16,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Wiretap {
    fn new(lab: &Lab, to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        lab.know(port);
        let heard = Arc::default();
        let keep = Arc::clone(&heard);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { return };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let keep = Arc::clone(&keep);
                    std::thread::spawn(move || pass(from, to, &keep));
                }
            }
        });
        Self { port, heard }
    }

    fn heard(&self, text: &str) -> bool {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, keep: &Mutex<Vec<u8>>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        keep.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..n]);
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Converts line ends: messages end with CR LF, as OpenSSH's do, for terminals in raw mode.
fn plain_lines(ran: Ran) -> Ran {
    Ran { err: ran.err.replace('\r', ""), ..ran }
}

struct WiretapSetup {
    server: Lhsshd,
    lab: Lab,
    tap: Wiretap,
}

impl WiretapSetup {
    fn new(config: &str) -> Self {
        Self::with_rules(config, "")
    }

    /// Starts a server with `Match` blocks, included from a file of their own.
    fn with_rules(config: &str, rules: &str) -> Self {
        Self::with_lab(Lab::new(), config, rules)
    }

    fn with_lab(lab: Lab, config: &str, rules: &str) -> Self {
        lab.write("rules.conf", rules);
        let server = Lhsshd::start(&lab, &format!("{config}\nInclude {}", lab.arg("rules.conf")));
        let tap = Wiretap::new(&lab, server.port);
        Self { server, lab, tap }
    }

    fn args(&self, options: &[&str], user: &str, command: &[&str]) -> Vec<String> {
        let mut args: Vec<String> = options.iter().map(|&each| each.to_owned()).collect();
        args.extend(self.lab.client_options());
        args.extend(["-p".to_owned(), self.tap.port.to_string(), format!("{user}@127.0.0.1")]);
        args.extend(command.iter().map(|&each| each.to_owned()));
        args
    }

    fn ssh(&self, options: &[&str], command: &[&str]) -> Ran {
        plain_lines(self.lab.run(&our("lhssh"), &self.args(options, &me(), command)))
    }

    fn copy(&self, program: &str, flags: &[&str], words: &[&str]) -> Ran {
        let mut args: Vec<String> = flags.iter().map(|&each| each.to_owned()).collect();
        args.extend(self.lab.client_options());
        args.extend(["-P".to_owned(), self.tap.port.to_string()]);
        args.extend(words.iter().map(|&each| each.to_owned()));
        plain_lines(self.lab.run(&our(program), &args))
    }

    fn remote(&self, name: &str) -> String {
        format!("{}@127.0.0.1:{}", me(), self.lab.arg(name))
    }

    fn logged(&self, text: &str) {
        eventually(text, || self.server.log().contains(text));
    }
}

/// Covers: ssh_config NoneEnabled; ssh_config NoneSwitch; sshd_config NoneEnabled; wire aes128-gmac@longhaul
#[test]
fn none_cipher_keeps_data_intact_through_rekeys() {
    let setup = WiretapSetup::new("NoneEnabled yes\nRekeyLimit 1M");
    make_blob(&setup.lab.path("blob"), 24 << 20);
    let ran = setup.ssh(BOTH, &["echo everybody may read this; exit 7"]);
    assert_eq!((ran.code, ran.text().as_str()), (7, "everybody may read this\n"), "{}", ran.err);
    assert_eq!(ran.err, format!("{WARNING}{PROTECTED}"));
    assert!(setup.tap.heard("echo everybody may read this; exit 7"), "the command is in clear");
    setup.logged(&format!("WARNING: not encrypted: user {} ", me()));
    setup.logged("cipher aes128-gmac@longhaul MAC <implicit>");
    // The login was encrypted.
    assert!(!setup.tap.heard("ssh-connection") && !setup.tap.heard("publickey"));

    // The warning is printed every time, with -q too.
    let stdin = Stdio::from(std::fs::File::open(setup.lab.path("blob")).unwrap());
    let options = [BOTH, &["-q", "-o", "RekeyLimit=300K"]].concat();
    let args = setup.args(&options, &me(), &["cat"]);
    let ran = plain_lines(setup.lab.run_with(&our("lhssh"), &args, stdin)).ok("cat");
    assert!(ran.out == std::fs::read(setup.lab.path("blob")).unwrap(), "the echo differs");
    assert_eq!(ran.err, format!("{WARNING}{PROTECTED}"));
    // The cipher stays NONE after every rekey.
    let plain = setup.server.log().matches("WARNING: not encrypted").count();
    assert!(plain > 20, "{plain}");

    let (blob, up) = (setup.lab.arg("blob"), setup.remote("up"));
    let up_path = setup.lab.path("up");
    let ran = setup.copy("lhscp", BOTH, &[&blob, &up]).ok("lhscp");
    assert!(ran.err.contains(WARNING), "{}", ran.err);
    assert_same_file(&setup.lab.path("blob"), &up_path);
    setup.copy("lhscp", BOTH, &[&up, &setup.lab.arg("down")]).ok("lhscp back");
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("down"));
    std::fs::remove_file(&up_path).unwrap();
    setup.copy("lhscp", &[BOTH, &["-O"]].concat(), &[&blob, &up]).ok("lhscp -O");
    assert_same_file(&setup.lab.path("blob"), &up_path);
    std::fs::remove_file(&up_path).unwrap();

    setup.lab.write("batch", &format!("put {blob} {}\n", setup.lab.arg("up")));
    let target = format!("{}@127.0.0.1", me());
    let ran =
        setup.copy("lhsftp", &[BOTH, &["-b", &setup.lab.arg("batch")]].concat(), &[&target]).ok("lhsftp");
    assert!(ran.err.contains(WARNING), "{}", ran.err);
    assert_same_file(&setup.lab.path("blob"), &up_path);
}

/// Covers: ssh_config NoneMacEnabled; sshd_config NoneMacEnabled; wire none (cipher); wire none (MAC)
#[test]
fn none_mac_needs_both_ends() {
    let setup = WiretapSetup::new("NoneEnabled yes\nNoneMacEnabled yes\nRekeyLimit 1M");
    make_blob(&setup.lab.path("blob"), 8 << 20);
    let options = [BOTH, &["-o", "NoneMacEnabled=yes"]].concat();
    let ran = setup.copy("lhscp", &options, &[&setup.lab.arg("blob"), &setup.remote("up")]).ok("lhscp");
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("up"));
    assert!(ran.err.contains(WARNING) && ran.err.contains("WARNING: ENABLED NONE MAC\n"), "{}", ran.err);
    setup.logged("cipher none MAC none");
    // The server permits it but does not require it.
    let ran = setup.ssh(BOTH, &["true"]).ok("with a MAC");
    assert_eq!(ran.err, format!("{WARNING}{PROTECTED}"));

    let setup = WiretapSetup::new("NoneEnabled yes");
    let ran = setup.ssh(&options, &["touch", &setup.lab.arg("ran")]);
    assert_eq!(ran.code, 255);
    let text = "The server does not allow the NONE MAC; NoneMacEnabled has to be set there too.\n";
    assert!(ran.err.contains("no matching MAC found") && ran.err.ends_with(text), "{}", ran.err);
    assert!(!setup.lab.path("ran").exists());
}

/// Covers: ssh_config NoneEnabled; ssh_config NoneSwitch; ssh_config NoneMacEnabled; sshd_config NoneEnabled
#[test]
fn none_cipher_without_consent_is_never_used() {
    // The server does not permit it: an error, and the command is not run.
    let setup = WiretapSetup::new("");
    let ran = setup.ssh(BOTH, &["touch", &setup.lab.arg("ran")]);
    assert_eq!(ran.code, 255);
    let text = "The server does not allow the NONE cipher; NoneEnabled has to be set there too.\n";
    assert!(ran.err.contains("no matching cipher found") && ran.err.ends_with(text), "{}", ran.err);
    assert!(!ran.err.contains(WARNING) && !setup.lab.path("ran").exists());

    // The client sets only half of its options: notices, and an encrypted connection.
    let setup = WiretapSetup::new("NoneEnabled yes\nNoneMacEnabled yes");
    for (options, notice) in [
        (&["-o", "NoneSwitch=yes"][..], "NoneEnabled must be enabled to use the None Switch option. "),
        (
            &["-o", "NoneEnabled=yes", "-o", "NoneMacEnabled=yes"],
            "None MAC can only be used with the None cipher. ",
        ),
        (&["-o", "NoneMacEnabled=yes"], "None MAC can only be used with the None cipher. "),
        (&["-o", "NoneEnabled=yes"], ""),
    ] {
        let ran = setup.ssh(options, &["echo confidential text"]).ok("encrypted");
        assert!(ran.err.starts_with(notice) && (ran.err.is_empty() == notice.is_empty()), "{}", ran.err);
        assert!(!ran.err.contains(WARNING));
    }
    assert!(!setup.tap.heard("confidential text"));
    assert!(!setup.server.log().contains("not encrypted"));
}

/// Covers: ssh -T; ssh_config NoneSwitch; ssh_config RequestTTY
#[test]
fn terminals_stay_encrypted() {
    let setup = WiretapSetup::new("NoneEnabled yes");
    let args = setup.args(&[BOTH, &["-tt"]].concat(), &me(), &["echo se''cret; tty"]);
    let mut terminal = Terminal::start(&our("lhssh"), &args, setup.lab.dir(), &setup.lab.path("home"));
    terminal.expect("NONE cipher switch disabled when a TTY is allocated");
    terminal.expect("secret");
    terminal.expect("/dev/pts/");
    assert_eq!(terminal.wait(), 0);
    assert!(!setup.tap.heard("secret"));

    // HPN-SSH's rule: -T must not give a plain-text shell.
    for flags in [&["-T"][..], &["-o", "NoneSwitch=yes", "-T"]] {
        let ran = setup.ssh(&[flags, BOTH].concat(), &["echo se''cret"]).ok("-T");
        assert_eq!(ran.err, "NONE cipher switch disabled by -T\n");
    }
    assert!(!setup.tap.heard("secret"));
    let ran = setup.ssh(&[BOTH, &["-T", "-G"]].concat(), &[]).ok("-G");
    assert!(ran.text().contains("\nnoneswitch no\n"));
    assert!(!setup.server.log().contains("not encrypted"));
}

/// Covers: ssh_config NoneSwitch; ssh_config ControlMaster
#[test]
fn none_cipher_master_refuses_terminals() {
    let setup = WiretapSetup::new("NoneEnabled yes");
    let socket = format!("ControlPath={}", setup.lab.arg("ctl"));
    let args = setup.args(&[BOTH, &["-M", "-N", "-o", &socket]].concat(), &me(), &[]);
    let master = Tunnel::start(&setup.lab, &our("lhssh"), &args);
    master.wait_for_path(&setup.lab.path("ctl"));
    let ran = setup.ssh(&["-o", &socket], &["echo over the master"]).ok("command");
    assert_eq!(ran.text(), "over the master\n");
    assert!(setup.tap.heard("over the master"));
    let ran = setup.ssh(&["-o", &socket, "-tt"], &["echo se''cret"]);
    assert!(!setup.tap.heard("secret"), "{}", ran.err);
    assert!(
        ran.err.contains("the shared connection is not encrypted and carries no terminals"),
        "{}",
        ran.err
    );
    assert!(master.said().starts_with(WARNING), "{}", master.said());
}

/// Users enable it in their files, for some hosts.
///
/// Covers: ssh_config NoneSwitch; ssh_config Host
#[test]
fn none_cipher_may_be_set_in_a_file() {
    let setup = WiretapSetup::new("NoneEnabled yes");
    for (host, switched) in [("127.0.0.1", true), ("127.0.0.2", false)] {
        setup.lab.write("config", &format!("Host {host}\n  NoneEnabled yes\n  NoneSwitch yes\n"));
        let mut args = setup.args(&[], &me(), &["true"]);
        let place = args.iter().position(|arg| arg == "none").unwrap();
        args[place] = setup.lab.arg("config");
        let ran = setup.lab.run(&our("lhssh"), &args).ok("true");
        assert_eq!(ran.err.contains(WARNING), switched, "{}", ran.err);
    }
}

/// Covers: ssh_config NoneSwitch; ssh_config Host
#[test]
fn none_cipher_in_a_file_covers_commands_and_copies() {
    let setup = WiretapSetup::new("NoneEnabled yes");
    setup.lab.write("config", "Host *\n  NoneEnabled yes\n  NoneSwitch yes\n  ControlMaster auto\n");
    setup.lab.write("file", "data");
    let run = |program: &str, mut args: Vec<String>| {
        let place = args.iter().position(|arg| arg == "none").unwrap();
        args[place] = setup.lab.arg("config");
        plain_lines(setup.lab.run(&our(program), &args))
    };
    let ssh = |options: &[&str], command: &[&str]| run("lhssh", setup.args(options, &me(), command));
    let ran = ssh(&[], &["true"]).ok("a command");
    assert!(ran.err.contains(WARNING), "{}", ran.err);
    let shared = format!("ControlPath={}", setup.lab.arg("ctl"));
    for (options, command, what) in [
        (&["-A"][..], &["echo se''cret"][..], "agent forwarding"),
        (&["-X"], &["echo se''cret"], "X11 forwarding"),
        (&["-L", &format!("{}:127.0.0.1:1", setup.lab.arg("listen"))], &["echo se''cret"], "port forwarding"),
        (&["-R", "0:127.0.0.1:1"], &["echo se''cret"], "port forwarding"),
        (&["-o", "RequestTTY=no"], &[], "a shell"),
        (&["-o", &shared, "-o", "ControlPersist=no"], &["echo se''cret"], "a connection that is shared"),
        (&["-W", &format!("127.0.0.1:{}", setup.server.port)], &[], "forwards alone"),
    ] {
        let ran = ssh(options, command);
        let told = format!("NONE cipher switch disabled with {what}; -o NoneSwitch=yes on the command line");
        assert!(ran.err.contains(&told), "{options:?}: {}", ran.err);
        assert!(!ran.err.contains(WARNING), "{options:?}: {}", ran.err);
    }
    assert!(!setup.tap.heard("secret"));
    // Options on the command line cover such sessions, and a copy shares its connection with no other.
    let ran = ssh(&["-o", "NoneSwitch=yes", "-A"], &["true"]).ok("said for this one");
    assert!(ran.err.contains(WARNING), "{}", ran.err);
    let mut args = vec!["-P".to_owned(), setup.tap.port.to_string(), "-o".to_owned(), shared];
    args.extend(setup.lab.client_options());
    args.extend([setup.lab.arg("file"), setup.remote("copy")]);
    let ran = run("lhscp", args).ok("a copy");
    assert!(ran.err.contains(WARNING), "{}", ran.err);
}

/// Covers: sshd_config NoneEnabled; sshd_config NoneMacEnabled; sshd_config Match
#[test]
fn none_cipher_may_be_permitted_by_match() {
    let setup = WiretapSetup::with_rules(
        "",
        "Match Address 127.0.0.0/8\n  NoneEnabled yes\nMatch Address 10.0.0.0/8\n  NoneMacEnabled yes\n",
    );
    setup.ssh(BOTH, &["true"]).ok("the private net");
    let options = [BOTH, &["-o", "NoneMacEnabled=yes"]].concat();
    assert_eq!(setup.ssh(&options, &["true"]).code, 255, "another net's rule");

    let setup =
        WiretapSetup::with_rules("NoneEnabled yes\n", "Match Address 127.0.0.0/8\n  NoneEnabled no\n");
    assert_eq!(setup.ssh(BOTH, &["true"]).code, 255, "not here");

    if !is_root() {
        return skip("none_cipher_may_be_permitted_by_match", "logging in as another user needs root");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let files = format!("AuthorizedKeysFile .ssh/authorized_keys {}", lab.arg("authorized_keys"));
    let setup =
        WiretapSetup::with_lab(lab, &files, &format!("Match User {}\n  NoneEnabled yes\n", user.name));
    let ran = setup.lab.run(&our("lhssh"), &setup.args(BOTH, &user.name, &["id", "-un"])).ok("the user");
    assert_eq!(ran.text().trim(), user.name);
    assert_eq!(setup.ssh(BOTH, &["true"]).code, 255, "not permitted to others");
}

fn has_asyncssh(test: &str, lab: &Lab) -> bool {
    let there = lab.run(Path::new("/usr/bin/python3"), &["-W", "ignore", "-c", "import asyncssh"]).code == 0;
    if !there {
        skip(test, "Debian's python3-asyncssh is not installed");
    }
    there
}

fn peer(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name).to_string_lossy().into_owned()
}

/// A client that behaves on the wire as HPN-SSH's does, with each kind of MAC.
///
/// Covers: wire none (cipher); wire none (MAC); sshd_config NoneEnabled; sshd_config NoneMacEnabled; sshd_config PermitTTY
#[test]
fn hpn_style_client_switches_to_the_none_cipher() {
    let setup = WiretapSetup::new("NoneEnabled yes\nNoneMacEnabled yes\nRekeyLimit 5M");
    if !has_asyncssh("hpn_style_client_switches_to_the_none_cipher", &setup.lab) {
        return;
    }
    make_blob(&setup.lab.path("blob"), 12 << 20);
    let client = |mac: &str, more: &[&str]| {
        let (script, port, lab) = (peer("hpn_client.py"), setup.tap.port.to_string(), setup.lab.arg(""));
        let mut args = vec!["-W", "ignore", &script, &port];
        let user = me();
        args.extend([user.as_str(), lab.as_str(), mac]);
        args.extend(more);
        setup.lab.run(Path::new("/usr/bin/python3"), &args)
    };
    for mac in ["umac-64-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512-etm@openssh.com", "none"] {
        let ran = client(mac, &[]).ok(mac);
        assert_eq!(ran.text(), format!("none none {mac}\nno terminal\n"));
        setup.logged(&format!("cipher none MAC {mac}"));
        for name in ["pipe.up", "pipe.down", "sftp.up", "sftp.down"] {
            assert_same_file(&setup.lab.path("blob"), &setup.lab.path(name));
            std::fs::remove_file(setup.lab.path(name)).unwrap();
        }
        setup.logged("terminal refused: the connection is not encrypted");
    }
    // Before the login the cipher does not exist, although the server permits everything.
    let ran = client("none", &["early"]);
    assert!(ran.code != 0 && !ran.text().contains("none none"), "{}", ran.text());
    setup.logged("no matching cipher found. Their offer: none");
}

/// An asyncssh server; killed when dropped.
struct Asyncssh(Child, u16);

impl Asyncssh {
    fn start(lab: &Lab, mode: &str) -> Self {
        let mut child = Command::new("/usr/bin/python3")
            .args(["-W", "ignore", &peer("asyncssh_server.py")])
            .arg(lab.dir())
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        lab.know(port);
        Self(child, port)
    }
}

impl Drop for Asyncssh {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Covers: wire none (cipher); wire none (MAC); ssh_config NoneEnabled; ssh_config NoneMacEnabled
#[test]
fn hpn_style_server_permits_the_none_cipher() {
    let lab = Lab::new();
    if !has_asyncssh("hpn_style_server_permits_the_none_cipher", &lab) {
        return;
    }
    make_blob(&lab.path("blob"), 12 << 20);
    let copy = |server: &Asyncssh, options: &[&str]| {
        let _ = std::fs::remove_file(lab.path("up"));
        let mut args: Vec<String> = options.iter().map(|&each| each.to_owned()).collect();
        args.extend(lab.client_options());
        let up = format!("{}@127.0.0.1:{}", me(), lab.arg("up"));
        args.extend([
            "-o".into(),
            "RekeyLimit=3M".into(),
            "-P".into(),
            server.1.to_string(),
            lab.arg("blob"),
            up,
        ]);
        lab.run(&our("lhscp"), &args)
    };
    let without_mac = [BOTH, &["-o", "NoneMacEnabled=yes"]].concat();
    let allows = Asyncssh::start(&lab, "none");
    for mac in ["umac-64-etm@openssh.com", "hmac-sha2-256"] {
        let ran = copy(&allows, &[BOTH, &["-o", &format!("MACs={mac}")]].concat()).ok(mac);
        assert!(
            ran.err.contains(WARNING) && ran.err.contains(&format!("not changed ({mac})")),
            "{}",
            ran.err
        );
        assert_same_file(&lab.path("blob"), &lab.path("up"));
    }
    let ran = copy(&allows, &without_mac);
    assert!(ran.code != 0 && ran.err.contains("does not allow the NONE MAC"), "{}", ran.err);

    let ran = copy(&Asyncssh::start(&lab, "none-mac"), &without_mac).ok("no MAC");
    assert!(ran.err.contains("WARNING: ENABLED NONE MAC\n"), "{}", ran.err);
    assert_same_file(&lab.path("blob"), &lab.path("up"));

    // A server that offers only NONE before the login: our client refuses it, even if it would agree after
    // the login.
    let claims = Asyncssh::start(&lab, "claims-none");
    for options in [&without_mac[..], BOTH, &[]] {
        let ran = copy(&claims, options);
        assert_ne!(ran.code, 0);
        assert!(ran.err.contains("no matching cipher found. Their offer: none"), "{}", ran.err);
        assert!(!ran.err.contains(WARNING) && !lab.path("up").exists());
    }
}
