//! Limits on the listeners that a client may request from `lhsshd`.

use std::path::Path;

use lh_interop::{Lab, Lhsshd, me, skip};

/// Debian's Python, for which Debian's paramiko is installed.
const PYTHON: &str = "/usr/bin/python3";

/// Asks for listeners at a name that has to be looked up, all at once, and counts the answers.
const SCRIPT: &str = "
import sys, time, paramiko
from paramiko.message import Message
class Counting(paramiko.Transport):
    yes = no = 0
    def _parse_request_success(self, m):
        self.yes += 1
    def _parse_request_failure(self, m):
        self.no += 1
    _handler_table = dict(paramiko.Transport._handler_table)
    _handler_table[81], _handler_table[82] = _parse_request_success, _parse_request_failure
port, user, key = sys.argv[1:]
t = Counting(('127.0.0.1', int(port)))
t.start_client(timeout=60)
t.auth_publickey(user, paramiko.ECDSAKey.from_private_key_file(key))
for _ in range(600):
    m = Message()
    m.add_byte(bytes([80]))
    m.add_string('tcpip-forward')
    m.add_boolean(True)
    m.add_string('LOCALHOST')
    m.add_int(0)
    t._send_user_message(m)
while t.yes + t.no < 600 and t.is_active():
    time.sleep(0.02)
print(t.yes, t.yes + t.no)
t.close()
";

/// A listener counts from its request on: a client cannot exceed the limit by requests whose host names are
/// still being looked up.
///
/// Covers: sshd_config GatewayPorts (a flood); wire tcpip-forward
#[test]
fn listeners_are_bounded_while_names_are_looked_up() {
    let test = "listeners_are_bounded_while_names_are_looked_up";
    if !Path::new("/usr/lib/python3/dist-packages/paramiko").exists() {
        return skip(test, "not installed: python3-paramiko");
    }
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "GatewayPorts clientspecified\nAddressFamily inet\n");
    lab.write("script.py", SCRIPT);
    let (script, key) = (lab.arg("script.py"), lab.arg("user_ecdsa"));
    let args = ["-W", "ignore", &script, &server.port_arg(), &me(), &key];
    let said = lab.run(Path::new(PYTHON), &args).ok("the script").text();
    let counts: Vec<usize> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(counts, [256, 600], "{}", server.log());
}
