//! Requests of the connection protocol that are OpenSSH's own, from clients that can be told to send them.

use std::path::Path;

use lh_interop::{Lab, Lhsshd, me, skip};

/// Debian's Python, because paramiko is Debian's.
const PYTHON: &str = "/usr/bin/python3";

/// Logs in with paramiko and runs `body`, which knows the connection as `t`; what it prints.
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
    Some(lab.run(Path::new(PYTHON), &[lab.arg("script.py")]).ok("the script").text())
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
