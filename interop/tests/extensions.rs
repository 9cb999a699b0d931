//! OpenSSH's own requests: when Longhaul's client sends them, and how its server handles them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use lh_interop::tunnel::{Pair, each_pair, free_port, round_trip, sum_server};
use lh_interop::{Inetd, Lab, Lhsshd, me, our, peers, skip};

/// Debian's Python, for which Debian's paramiko is installed.
const PYTHON: &str = "/usr/bin/python3";

/// Logs in with paramiko and runs `body`, in which `t` is the connection; returns its output.
fn paramiko(test: &str, body: &str) -> Option<String> {
    if !Path::new("/usr/lib/python3/dist-packages/paramiko").exists() {
        skip(test, "not installed: python3-paramiko");
        return None;
    }
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let script = format!(
        "import paramiko, sys\nt = paramiko.Transport(('127.0.0.1', {}))\nt.start_client(timeout=60)\n\
         t.auth_publickey('{}', paramiko.ECDSAKey.from_private_key_file('{}'))\n{body}\nt.close()\n",
        server.port,
        me(),
        lab.arg("user_ecdsa"),
    );
    lab.write("script.py", &script);
    Some(lab.run(Path::new(PYTHON), &["-W", "ignore", &lab.arg("script.py")]).ok("the script").text())
}

/// Covers: wire no-more-sessions@openssh.com; wire keepalive@openssh.com; wire session
#[test]
fn after_its_last_session_a_connection_opens_no_other() {
    let body = "\
s = t.open_session()
s.exec_command('echo first')
print(s.makefile().read().decode().strip(), s.recv_exit_status())
t.global_request('keepalive@openssh.com', wait=True)
t.global_request('no-more-sessions@openssh.com', wait=True)
f = t.open_channel('direct-tcpip', ('127.0.0.1', t.getpeername()[1]), ('127.0.0.1', 1))
print('forward', f.recv(8).decode())
try:
    t.open_session(timeout=60)
    print('another')
except Exception:
    print('over', not t.is_active())";
    let Some(said) = paramiko("after_its_last_session", body) else { return };
    assert_eq!(said, "first 0\nforward SSH-2.0-\nover True\n");
}

/// Returns whether the client sent no-more-sessions, and checks that its command ran.
fn gives_up_sessions(pair: &Pair<'_>, log: impl Fn() -> String, options: &[&str]) -> bool {
    const REQUEST: &str = "rtype no-more-sessions@openssh.com want_reply 0";
    let before = log().matches(REQUEST).count();
    let ran = pair.lab.run(&pair.client, &pair.args(&[options, &["@host", "echo in"]].concat()));
    assert_eq!(ran.ok("a command").text(), "in\n");
    log().matches(REQUEST).count() > before
}

/// Covers: wire no-more-sessions@openssh.com; ssh_config ControlMaster
#[test]
fn a_client_gives_up_further_sessions_unless_it_is_a_master() {
    let lab = Lab::new();
    let ours = Lhsshd::start(&lab, "");
    let exercise = |pair: &Pair<'_>, log: &dyn Fn() -> String| {
        assert!(gives_up_sessions(pair, log, &[]));
        let path = format!("ControlPath={}", lab.arg("ctl"));
        for kind in ["yes", "auto"] {
            let master = format!("ControlMaster={kind}");
            assert!(!gives_up_sessions(pair, log, &["-o", &path, "-o", &master]), "{master}");
        }
        // Forwarded channels are no sessions.
        let (target, port, back) = (sum_server(), free_port(), free_port());
        let (to, from) = (format!("{port}:127.0.0.1:{target}"), format!("{back}:127.0.0.1:{target}"));
        let tunnel = pair.tunnel(&["-L", &to, "-R", &from]);
        for port in [port, back] {
            tunnel.wait_for_port(port);
            round_trip(port, 100_000);
        }
    };
    exercise(&Pair::new(&lab, our("lhssh"), ours.port), &|| ours.log());
    if let Some([ssh, sshd]) = peers("a_client_gives_up_further_sessions", ["ssh", "sshd"]) {
        let theirs = Inetd::openssh(&lab, &sshd, "LogLevel DEBUG1");
        exercise(&Pair::new(&lab, our("lhssh"), theirs.port), &|| theirs.log());
        // OpenSSH's client sends it only to servers that identify as OpenSSH.
        assert!(!gives_up_sessions(&Pair::new(&lab, ssh, ours.port), || ours.log(), &[]));
    }
}

/// Covers: wire eow@openssh.com
#[test]
fn writer_is_told_that_its_reader_closed() {
    each_pair("eow", "", |pair| {
        // A program that does not end by itself; it reports on standard error that its writes fail.
        let command = "trap '' PIPE; while echo line; do :; done 2>/dev/null; echo heard >&2; cat >/dev/null";
        let mut child = Command::new(&pair.client)
            .args(pair.args(&["@host", command]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env("HOME", pair.lab.path("home"))
            .spawn()
            .unwrap();
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut [0; 5]).unwrap();
        drop(output);
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        if pair.is_ours() {
            assert!(said.any(|line| line == "heard"), "it goes on writing");
        } else {
            // OpenSSH's client sends it only to servers that identify as OpenSSH.
            child.kill().unwrap();
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    });
}
