//! Options and keywords of `lhssh` whose effects are visible outside the program: on the wire, in commands
//! that it runs, in its messages.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lh_interop::{Inetd, Lab, Lhsshd, Ran, eventually, is_root, me, our, peers, skip, uninterrupted};

/// The lab's client for one server.
struct Client<'a> {
    lab: &'a Lab,
    port: u16,
}

impl Client<'_> {
    fn args(&self, options: &[&str], command: &[&str]) -> Vec<String> {
        let mut args: Vec<String> = options.iter().map(|&each| each.to_owned()).collect();
        args.extend(self.lab.client_options());
        args.extend(["-p".into(), self.port.to_string(), format!("{}@127.0.0.1", me())]);
        args.extend(command.iter().map(|&each| each.to_owned()));
        args
    }

    fn run(&self, options: &[&str], command: &[&str]) -> Ran {
        self.lab.run(&our("lhssh"), &self.args(options, command))
    }

    /// Runs the client on a terminal of its own, types the given pieces one after the other, and returns the
    /// terminal's output. Each piece is typed once the previous one has had time to take effect.
    fn type_into(&self, options: &[&str], command: &[&str], typed: &[&str]) -> String {
        let words: Vec<String> = self.args(options, command).iter().map(|word| format!("'{word}'")).collect();
        let line = format!("{} {}", our("lhssh").display(), words.join(" "));
        let mut child = Command::new("timeout")
            .args(["-k", "5", "300", "script", "-qec", &line, "/dev/null"])
            .env("HOME", self.lab.path("home"))
            .env("TERM", "dumb")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for piece in typed {
            use std::io::Write as _;
            std::thread::sleep(Duration::from_millis(400));
            let _ = stdin.write_all(piece.as_bytes());
            let _ = stdin.flush();
        }
        let done = child.wait_with_output().unwrap();
        drop(stdin);
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

/// Covers: ssh_config VersionAddendum
#[test]
fn the_version_may_have_an_addendum() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = Client { lab: &lab, port: server.port };
    client.run(&["-oVersionAddendum=site %p of %u"], &["true"]).ok("with an addendum");
    let expected = format!("site {} of {}", server.port, me());
    assert!(server.log().contains(&expected), "{}", server.log());
    client.run(&["-oVersionAddendum=none"], &["true"]).ok("without");
}

/// Covers: ssh_config WarnWeakCrypto
#[test]
fn weak_key_exchange_is_warned_of() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = Client { lab: &lab, port: server.port };
    let warns = |options: &[&str]| {
        let ran = client.run(options, &["true"]).ok("lhssh");
        ran.err.contains("** WARNING: connection is not using a post-quantum key exchange algorithm.")
    };
    assert!(warns(&["-oWarnWeakCrypto=yes", "-oKexAlgorithms=curve25519-sha256"]));
    assert!(!warns(&["-oWarnWeakCrypto=no-pq-kex", "-oKexAlgorithms=curve25519-sha256"]));
    assert!(!warns(&["-oWarnWeakCrypto=yes", "-oKexAlgorithms=mlkem768x25519-sha256"]));
    assert!(!warns(&["-q", "-oWarnWeakCrypto=yes", "-oKexAlgorithms=curve25519-sha256"]));
}

/// Covers: ssh_config RefuseConnection
#[test]
fn a_configuration_may_refuse_to_connect() {
    let lab = Lab::new();
    let ran = Client { lab: &lab, port: 1 }.run(&["-oRefuseConnection=\"use the new host\""], &["true"]);
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("use the new host"), "{}", ran.err);
}

/// Covers: ssh -B; ssh_config BindInterface; ssh -b; ssh_config BindAddress
#[test]
fn the_connection_comes_from_the_chosen_interface() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = Client { lab: &lab, port: server.port };
    let from = |options: &[&str]| client.run(options, &["echo $SSH_CLIENT"]).ok("lhssh").text();
    assert!(from(&["-B", "lo"]).starts_with("127.0.0.1 "));
    assert!(from(&["-b", "127.0.0.9"]).starts_with("127.0.0.9 "));
    assert!(from(&["-b", "127.0.0.9", "-B", "lo"]).starts_with("127.0.0.9 "), "an address comes first");
    let ran = client.run(&["-B", "no-such-if"], &["true"]);
    assert_eq!(ran.code, 255);
    let expected = format!(
        "getifaddrs: no-such-if: no suitable addresses\nssh: connect to host 127.0.0.1 port {}: failure\n",
        server.port
    );
    assert_eq!(ran.err.replace('\r', ""), expected);
}

/// Covers: ssh_config LocalCommand; ssh_config PermitLocalCommand; token %T
#[test]
fn local_command_runs_only_where_permitted() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = Client { lab: &lab, port: server.port };
    // A signal that the client blocks would show in the mask of the command it starts.
    let command =
        format!("-oLocalCommand=echo local %n %p %T; grep SigBlk /proc/self/status > {}", lab.arg("mask"));
    let ran = client.run(&["-oPermitLocalCommand=yes", &command], &["echo remote"]).ok("lhssh");
    assert_eq!(ran.text(), format!("local 127.0.0.1 {} NONE\nremote\n", server.port));
    assert_eq!(lab.read("mask").trim(), "SigBlk:\t0000000000000000");
    let ran = client.run(&[&command], &["echo remote"]).ok("lhssh");
    assert_eq!(ran.text(), "remote\n");
    let ran = client.run(&["-oPermitLocalCommand=yes", "-oLocalCommand=echo %z"], &["echo remote"]);
    assert!(ran.err.contains("LocalCommand: unknown key %z"), "{}", ran.err);
    assert_eq!((ran.code, ran.text().as_str()), (255, ""));
}

/// Covers: ssh_config RemoteCommand; ssh_config SessionType; ssh_config StdinNull; ssh_config RequestTTY; ssh -s; ssh -n; ssh -T
#[test]
fn remote_command_may_come_from_the_configuration() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "Subsystem hello echo \"hello   there\"");
    let client = Client { lab: &lab, port: server.port };
    let ran = client.run(&["-oRemoteCommand=echo %n-%p"], &[]).ok("RemoteCommand");
    assert_eq!(ran.text(), format!("127.0.0.1-{}\n", server.port));
    let ran = client.run(&["-oRemoteCommand=echo x"], &["echo y"]);
    assert_eq!((ran.code, ran.err.trim_end()), (255, "Cannot execute command-line and remote command."));
    let ran = client.run(&["-oSessionType=subsystem"], &["hello"]).ok("subsystem");
    assert_eq!(ran.text(), "hello   there\n", "quotes of a subsystem's command count");
    assert_eq!(client.run(&["-s"], &["hello"]).ok("-s").text(), "hello   there\n");
    lab.write("input", "input\n");
    let with_input = |options: &[&str]| {
        let input = std::fs::File::open(lab.path("input")).unwrap();
        lab.run_with(&our("lhssh"), &client.args(options, &["cat"]), input.into()).ok("cat").text()
    };
    assert_eq!(with_input(&[]), "input\n");
    assert_eq!(with_input(&["-n"]), "");
    assert_eq!(with_input(&["-oStdinNull=yes"]), "");
    assert!(client.run(&["-oRequestTTY=force"], &["tty"]).ok("tty").text().contains("/dev/pts/"));
    assert!(client.run(&["-T", "-oRequestTTY=force"], &["tty"]).text().contains("not a tty"));
}

/// Covers: ssh -f; ssh_config ForkAfterAuthentication; ssh -N
#[test]
fn the_client_may_go_to_the_background() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = Client { lab: &lab, port: server.port };
    for flag in ["-f", "-oForkAfterAuthentication=yes"] {
        let _ = std::fs::remove_file(lab.path("done"));
        let _ = std::fs::remove_file(lab.path("go"));
        // Bounded, so that a client that waits for its command fails the test instead of hanging.
        let wait = format!("for i in $(seq 100); do test -e {} && break; sleep 0.1; done", lab.arg("go"));
        let command = format!("{wait}; touch {}", lab.arg("done"));
        // The background process keeps its descriptors, so they must not be the test's.
        let words: Vec<String> =
            client.args(&[flag], &[&command]).iter().map(|word| format!("'{word}'")).collect();
        let line = format!("{} {} >/dev/null 2>&1", our("lhssh").display(), words.join(" "));
        lab.sh(&line).ok(flag);
        assert!(!lab.path("done").exists(), "it waited");
        lab.write("go", "");
        eventually("the command has run", || lab.path("done").exists());
    }
    let ran = client.run(&["-f"], &[]);
    assert_eq!(
        (ran.code, ran.err.trim_end()),
        (255, "Cannot fork into background without a command to execute.")
    );
}

/// Covers: ssh_config SendEnv; ssh_config SetEnv
#[test]
fn variables_are_sent_by_pattern_and_set_by_name() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "AcceptEnv LHT_*");
    let client = Client { lab: &lab, port: server.port };
    let command = &["env | grep -E \"^(LHT_|OTHER)\" | sort"];
    let run = |options: &[&str]| {
        let words: Vec<String> =
            client.args(options, command).iter().map(|word| format!("'{word}'")).collect();
        let line = format!("LHT_A=1 LHT_C=2 OTHER=3 {} {}", our("lhssh").display(), words.join(" "));
        lab.sh(&line).ok("lhssh").text()
    };
    assert_eq!(
        run(&["-oSendEnv=LHT_* OTHER", "-oSetEnv=LHT_SET=%n LHT_Q=\"two words\""]),
        "LHT_A=1\nLHT_C=2\nLHT_Q=two words\nLHT_SET=127.0.0.1\n",
        "the server takes what it was told to take"
    );
    assert_eq!(
        run(&["-oSendEnv=LHT_A LHT_C", "-oSendEnv=-LHT_C*"]),
        "LHT_A=1\n",
        "taken back by a later line"
    );
}

/// Covers: ssh_config ChannelTimeout
#[test]
fn channel_timeout_closes_an_idle_session() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = Client { lab: &lab, port: server.port };
    let command = format!("sleep 60; touch {}", lab.arg("done"));
    let ran = client.run(&["-v", "-oChannelTimeout=session=1"], &[&command]);
    assert!(!lab.path("done").exists(), "{}", ran.err);
    assert_eq!(ran.code, 255, "{}", ran.err);
    assert!(ran.err.contains("ChannelTimeout"), "{}", ran.err);
    // Longer than the limit, with room for a machine that stands still for seconds.
    let busy = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do echo $i; sleep 0.5; done";
    let ran = client.run(&["-oChannelTimeout=session=5"], &[busy]).ok("traffic keeps it open");
    assert_eq!(ran.text().lines().count(), 13);
    client.run(&["-oChannelTimeout=session:shell=1"], &["sleep 2"]).ok("it is no shell");
}

/// Covers: ssh -y; ssh_config SyslogFacility
#[test]
fn messages_go_to_the_system_s_log() {
    let log = Path::new("/dev/log");
    if !is_root() || log.exists() {
        return skip("messages_go_to_the_system_s_log", "/dev/log cannot be ours here");
    }
    let lab = Lab::new();
    let Ok(socket) = UnixDatagram::bind(log) else {
        return skip("messages_go_to_the_system_s_log", "/dev/log cannot be bound");
    };
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let ran = Client { lab: &lab, port: 1 }.run(&["-y", "-oSyslogFacility=LOCAL3"], &["true"]);
    let _ = std::fs::remove_file(log);
    assert_eq!((ran.code, ran.err.as_str()), (255, ""));
    let mut lines = Vec::new();
    let mut buffer = [0; 2048];
    while let Ok(length) = uninterrupted(|| socket.recv(&mut buffer)) {
        lines.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    // LOCAL3 is 19; the severity is ERR, as of ssh's line.
    let wanted = |line: &&String| {
        line.starts_with("<155>lhssh[")
            && line.ends_with("ssh: connect to host 127.0.0.1 port 1: Connection refused")
    };
    assert!(lines.iter().any(|line| wanted(&line)), "{lines:?}");
}

/// Covers: ssh -Z
#[test]
fn the_keys_that_would_be_tried_are_listed() {
    let lab = Lab::new();
    let identities = |options: &[&str]| {
        let mut args = vec!["-Z", "-F", "none", "-oIdentitiesOnly=yes"];
        args.extend(options);
        args.push("nowhere.invalid");
        lab.run(&our("lhssh"), &args).ok("-Z").text()
    };
    let (ed25519, rsa) = (lab.arg("user_ed25519"), lab.arg("user_rsa"));
    let listed = identities(&["-i", &ed25519, "-i", &rsa]);
    let lines: Vec<&str> = listed.lines().collect();
    let blob = |name: &str| lab.read(name).split_whitespace().nth(1).unwrap_or_default().to_owned();
    assert_eq!(lines.len(), 2, "{listed}");
    assert!(lines[0].starts_with("ssh-ed25519 ") && lines[0].contains(&blob("user_ed25519.pub")), "{listed}");
    assert!(lines[1].starts_with("ssh-rsa ") && lines[1].contains(&blob("user_rsa.pub")), "{listed}");
    assert_eq!(identities(&["-i", "/nonexistent"]), "");
}

/// Covers: ssh -P; ssh_config Tag; ssh -F
#[test]
fn files_may_be_pipes_and_blocks_may_be_for_tags() {
    let lab = Lab::new();
    let lhssh = our("lhssh");
    let dump = |line: &str| lab.sh(line).ok("lhssh -G").text();
    let text = dump(&format!(
        "{} -G -P lab -F <(printf 'Match tagged lab\\nPort 7\\nMatch tagged other\\nUser x\\nTag never\\n') h",
        lhssh.display()
    ));
    assert!(text.contains("\nport 7\n") && text.contains("\ntag lab\n"), "{text}");
}

/// Covers: ssh_config Match
#[test]
fn networks_of_this_machine_can_be_matched() {
    let lab = Lab::new();
    lab.write(
        "config",
        "Match localnetwork 127.0.0.0/8\n Port 7\nMatch localnetwork 203.0.113.0/24\n User user-of-net\n",
    );
    let ran = lab.run(&our("lhssh"), &["-G", "-F", &lab.arg("config"), "h"]).ok("lhssh -G");
    assert!(ran.text().contains("\nport 7\n"), "{}", ran.text());
    assert!(!ran.text().contains("user-of-net"));
}

/// The version is the one of the program that reads the file, without `SSH-2.0-`.
/// Covers: ssh_config Match
#[test]
fn match_version_names_the_client_itself() {
    let lab = Lab::new();
    lab.write(
        "config",
        "Match version Longhaul_*\n Port 7\nMatch version OpenSSH_*\n User of-openssh\n\
         Match version OpenSSH_*,Longhaul_*\n Tag listed\nMatch version *,!Longhaul_*\n Compression yes\n\
         Match !version OpenSSH_*\n ServerAliveCountMax 5\n",
    );
    let text = lab.run(&our("lhssh"), &["-G", "-F", &lab.arg("config"), "h"]).ok("lhssh -G").text();
    for line in ["port 7", "tag listed", "compression no", "serveralivecountmax 5"] {
        assert!(text.lines().any(|each| each == line), "{line}: {text}");
    }
    assert!(!text.contains("of-openssh"), "{text}");
    lab.write("exact", &format!("Match version Longhaul_{}\n Port 8\n", env!("CARGO_PKG_VERSION")));
    let text = lab.run(&our("lhssh"), &["-G", "-F", &lab.arg("exact"), "h"]).ok("lhssh -G").text();
    assert!(text.contains("\nport 8\n"), "{text}");
}

#[test]
fn unsafe_config_files_and_host_names_are_refused() {
    let lab = Lab::new();
    let config = lab.path("home/.ssh/config");
    std::fs::write(&config, "Port 7\n").unwrap();
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o666)).unwrap();
    // The home directory comes from the account, not from $HOME; the file's owner is compared with the user
    // who runs the program.
    let ran = lab.run(&our("lhssh"), &["-F", &lab.arg("home/.ssh/config"), "-G", "h"]).ok("a named file");
    assert!(ran.text().contains("\nport 7\n"));
    for (args, text) in [
        (&["-G", "a;b"][..], "hostname contains invalid characters"),
        (&["-G", "x$(id)@h"], "remote username contains invalid characters"),
        (&["-G", "-l", "x;y", "h"], "remote username contains invalid characters"),
        (&["-G", "-oUser=x|y", "h"], "remote username contains invalid characters"),
        (&["-G", "-oBogus=1", "h"], "command-line: line 0: Bad configuration option: bogus"),
        (&["-G", "-J", "a`id`", "h"], "Invalid -J argument"),
        (
            &["-G", "-o", "ProxyJump=host'with'quote", "h"],
            "command-line line 0: Invalid ProxyJump \"host'with'quote\"",
        ),
    ] {
        let ran = lab.run(&our("lhssh"), args);
        assert_eq!((ran.code, ran.err.trim_end()), (255, text), "{args:?}");
    }
}

/// A name server for `box`, `real` and the alias `nick` in `lab.example`.
const NAME_SERVER: &str = r#"
import socket, struct
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("127.0.0.1", 53))
print("ready", flush=True)
def encode(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"
while True:
    data, peer = sock.recvfrom(4096)
    end = data.index(b"\0", 12) + 5
    labels, at = [], 12
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]].decode().lower())
        at += 1 + data[at]
    name, kind = ".".join(labels), struct.unpack(">H", data[end - 4:end - 2])[0]
    answers, rcode = [], 0
    def add(owner, kind, value):
        answers.append(encode(owner) + struct.pack(">HHIH", kind, 1, 60, len(value)) + value)
    if name == "nick.lab.example":
        add(name, 5, encode("real.lab.example"))
        name = "real.lab.example"
    if name in ("box.lab.example", "real.lab.example"):
        if kind == 1:
            add(name, 1, bytes([127, 0, 0, 5]))
    else:
        rcode = 3
    sock.sendto(data[:2] + struct.pack(">HHHHH", 0x8180 | rcode, 1, len(answers), 0, 0) + data[12:end] + b"".join(answers), peer)
"#;

/// Covers: ssh_config CanonicalizeHostname; ssh_config CanonicalDomains; ssh_config CanonicalizePermittedCNAMEs
#[test]
fn short_names_are_completed_by_the_resolver() {
    let lab = Lab::new();
    let allowed = is_root()
        && Command::new("unshare").args(["-n", "-m", "true"]).status().is_ok_and(|status| status.success());
    if !allowed {
        return skip("short_names_are_completed", "no name spaces without root");
    }
    lab.write("dns.py", NAME_SERVER);
    lab.write("resolv.conf", "nameserver 127.0.0.1\noptions timeout:2\n");
    lab.write(
        "config",
        "CanonicalizeHostname yes\nCanonicalDomains none.example lab.example\nCanonicalizeFallbackLocal no\n\
         CanonicalizePermittedCNAMEs nick.*:*.lab.example\nHost *.lab.example\n Port 4711\n",
    );
    let dump = |client: &Path, host: &str| {
        let line = format!(
            "unshare -n -m bash -c 'ip link set lo up; mount --bind {} /etc/resolv.conf; \
             coproc python3 {}; read -u ${{COPROC[0]}}; \
             {} -F {} -G {host} | grep -E \"^(hostname|port) \"; status=${{PIPESTATUS[0]}}; kill $COPROC_PID; exit $status'",
            lab.arg("resolv.conf"),
            lab.arg("dns.py"),
            client.display(),
            lab.arg("config")
        );
        lab.sh(&line)
    };
    let lhssh = our("lhssh");
    assert_eq!(dump(&lhssh, "box").ok("box").text(), "hostname box.lab.example\nport 4711\n");
    assert_eq!(dump(&lhssh, "nick").ok("nick").text(), "hostname real.lab.example\nport 4711\n", "an alias");
    let ran = dump(&lhssh, "missing");
    assert_eq!((ran.code, ran.err.trim_end()), (255, "ssh: Could not resolve host \"missing\""));
    if let Some([ssh]) = peers("short_names_like_openssh", ["ssh"]) {
        for host in ["box", "nick"] {
            assert_eq!(dump(&ssh, host).ok("ssh").text(), dump(&lhssh, host).text(), "{host}");
        }
    }
}

/// Covers: ssh_config ProxyUseFdpass
#[test]
fn a_proxy_may_pass_the_connection() {
    if peers("a_proxy_may_pass", ["python3"]).is_none() {
        return;
    }
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    lab.write(
        "dial.py",
        "import socket, array, sys\ns = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n\
         out = socket.socket(fileno=1)\n\
         out.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [s.fileno()]))])\n",
    );
    let client = Client { lab: &lab, port: server.port };
    let proxy = format!("-oProxyCommand=python3 {} %h %p", lab.arg("dial.py"));
    let ran = client.run(&["-oProxyUseFdpass=yes", &proxy], &["echo through; echo $SSH_CLIENT"]).ok("lhssh");
    assert!(ran.text().starts_with("through\n127.0.0.1 "), "{}", ran.text());
}

/// Covers: ssh_config ObscureKeystrokeTiming; wire ping@openssh.com
#[test]
fn keystrokes_are_followed_by_chaff() {
    if peers("keystrokes_are_followed_by_chaff", ["script"]).is_none() {
        return;
    }
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = Client { lab: &lab, port: server.port };
    let log = lab.arg("log");
    let options =
        |timing: &'static str| vec!["-tt".to_owned(), "-vvv".into(), "-E".into(), log.clone(), timing.into()];
    let run = |timing: &'static str| {
        let _ = std::fs::remove_file(&log);
        let options = options(timing);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let shown =
            client.type_into(&options, &["read a; read b; echo got:$a:$b; sleep 5"], &["hel", "lo\r", "x\r"]);
        assert!(shown.contains("got:hello:x"), "{shown}");
        lab.read("log")
    };
    let log_with = run("-oObscureKeystrokeTiming=interval:30");
    assert!(log_with.contains("obfuscate_keystroke_timing: starting: interval ~30ms"), "{log_with}");
    let stopped = log_with.lines().find(|line| line.contains("stopping: chaff time expired"));
    let count = stopped.and_then(|line| line.split(['(', ' ']).find_map(|word| word.parse::<u32>().ok()));
    assert!(count.is_some_and(|count| count >= 5), "{log_with}");
    assert!(!run("-oObscureKeystrokeTiming=no").contains("obfuscate_keystroke_timing"));
}

/// Covers: ssh -e; ssh_config EscapeChar
#[test]
fn escapes_show_and_change_the_connection() {
    if peers("escapes_show", ["script"]).is_none() {
        return;
    }
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = Client { lab: &lab, port: server.port };
    let shown = client.type_into(
        &["-tt", "-oObscureKeystrokeTiming=no"],
        &["read a; echo got:$a"],
        &["~I", "~v", "~V", "~R", "~B", "~#", "~?", "~~x\r"],
    );
    for part in [
        "  versions Longhaul_",
        " -> Longhaul_",
        "kexalgorithm ",
        "  cipher ",
        "~v [LogLevel VERBOSE]",
        "~V [LogLevel INFO]",
        "~B",
        "Supported escape sequences:",
        "~I   - show connection information",
        "got:~x",
    ] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    let shown = client.type_into(&["-tt", "-e", "^B"], &["sleep 30"], &["\x02."]);
    assert!(shown.contains("^B."), "{shown}");
}

/// Covers: ssh_config TCPKeepAlive; ssh_config IPQoS
#[test]
fn the_socket_is_marked_and_probed_as_configured() {
    let Some([sshd, python]) = peers("the_socket_is_marked", ["sshd", "python3"]) else { return };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "");
    let client = Client { lab: &lab, port: server.port };
    // Reads the client's socket options through a copy of its descriptor, which only its parent may take.
    lab.write(
        "look.py",
        "import os, socket, subprocess, sys, time\n\
         p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)\n\
         p.stdout.readline()\n\
         pidfd = os.pidfd_open(p.pid)\n\
         import ctypes\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         for fd in range(3, 40):\n\
         \x20   copy = libc.syscall(438, pidfd, fd, 0)\n\
         \x20   if copy < 0: continue\n\
         \x20   try: s = socket.socket(fileno=copy)\n\
         \x20   except OSError: os.close(copy); continue\n\
         \x20   if s.family != socket.AF_INET: continue\n\
         \x20   print(s.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), hex(s.getsockopt(socket.IPPROTO_IP, socket.IP_TOS)))\n\
         \x20   break\n\
         p.kill()\n",
    );
    let look = |options: &[&str]| {
        let mut args = vec![lab.arg("look.py"), our("lhssh").to_string_lossy().into_owned()];
        args.extend(client.args(options, &["echo ready; sleep 5"]));
        lab.run(&python, &args).text().trim().to_owned()
    };
    let plain = look(&[]);
    if plain.is_empty() {
        return skip("the_socket_is_marked", "descriptors of another process cannot be looked at here");
    }
    assert_eq!(plain, "1 0x0", "keepalive is on, bulk is not marked");
    assert_eq!(look(&["-oTCPKeepAlive=no", "-oIPQoS=af21 cs1"]), "0 0x20");
    assert_eq!(look(&["-tt", "-oIPQoS=af21 cs1"]), "1 0x48", "a terminal is interactive");
    assert_eq!(look(&["-tt"]), "1 0xb8", "as OpenSSH marks it");
}

/// The programs print OpenSSH's messages, in OpenSSH's words.
///
/// Covers: scp -i; sftp -i; ssh -v
#[test]
fn programs_print_openssh_messages() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let warning = "Warning: Identity file /nonexistent not accessible: No such file or directory.";
    lab.write("file", "data");
    lab.write("batch", "ls\n");
    let mut config =
        format!("UserKnownHostsFile {}\nUser {}\nBatchMode yes\n", lab.arg("known_hosts"), lh_interop::me());
    config.push_str(&format!("Host *\n IdentityFile {}\n", lab.arg("user_ed25519")));
    lab.write("own", &config);
    let own = ["-F".to_owned(), lab.arg("own"), "-i".to_owned(), "/nonexistent".to_owned()];
    let with =
        |more: &[&str]| [&own[..], &more.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()].concat();
    let target = format!("127.0.0.1:{}", lab.arg("copy"));
    let port = server.port_arg();
    let ran = lab.run(&our("lhscp"), &with(&["-P", &port, &lab.arg("file"), &target])).ok("lhscp -i");
    assert_eq!(ran.err.trim_end(), warning);
    let ran =
        lab.run(&our("lhsftp"), &with(&["-P", &port, "-b", &lab.arg("batch"), "127.0.0.1"])).ok("lhsftp -i");
    assert!(ran.err.starts_with(warning), "{}", ran.err);

    let certificate = lab.arg("user_ed25519-cert");
    let ran = lab.run(&our("lhssh"), &with(&["-v", "-p", &port, "127.0.0.1", "true"])).ok("lhssh -v");
    for line in [
        format!("debug1: identity file {} type 3", lab.arg("user_ed25519")),
        format!("debug1: identity file {certificate} type -1"),
    ] {
        assert!(ran.err.contains(&line), "{line}: {}", ran.err);
    }

    // A port without a listener, once this one is dropped.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().port().to_string();
    let forward = format!("{taken}:127.0.0.1:1");
    let ran = lab.run(&our("lhssh"), &with(&["-p", &port, "-L", &forward, "127.0.0.1", "true"])).ok("-L");
    assert!(ran.err.contains(&format!("bind [127.0.0.1]:{taken}: Address already in use")), "{}", ran.err);
    drop(listener);

    // As OpenSSH does: the line with a full stop is for a session that has begun.
    let closed = "Connection refused\r\nConnection closed\r\n";
    let ran = lab.run(&our("lhsftp"), &with(&["-P", &taken, "127.0.0.1"]));
    assert!(ran.code == 255 && ran.err.ends_with(closed), "{:?}", ran.err);
    let ran = lab.run(&our("lhsftp"), &with(&["-P", &taken, "-b", &lab.arg("batch"), "127.0.0.1"]));
    assert!(ran.code == 255 && !ran.err.contains("closed."), "{:?}", ran.err);

    for program in ["lhscp", "lhssh", "lhsftp", "longhaul"] {
        let ran = lab.run(&our(program), &["--nosuch=1", "a", "b"]);
        let told = format!("{program}: unknown option --nosuch\nTry '{program} --help'.\n");
        assert_eq!(ran.err, told);
        assert_ne!(ran.code, 0);
    }
    // Flags after the files are still flags.
    lab.write("metrics", "");
    let ran = lab
        .run(&our("longhaul"), &["report", &lab.arg("metrics"), &lab.arg("metrics"), "-o", &lab.arg("page")]);
    // All files are checked first; the last message is about the first file, not about one called -o.
    assert!(ran.err.contains(&format!("{}: no metrics in this file", lab.arg("metrics"))), "{}", ran.err);
}
