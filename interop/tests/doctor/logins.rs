//! Stages of the login that are slow.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use lh_link::path::Side;

use super::path_setup::{PathSetup, Plan, first, has_iptables, spec, takes};

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
        let Some(setup) = PathSetup::start(test, &plan) else { return };
        let diagnosis = setup.examine(&[], cause);
        first(&diagnosis, cause, &["/etc/pam.d/sshd"]);
        takes(&diagnosis, 2.0);
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
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    setup.at(Side::Near, &["iptables", "-A", "INPUT", "-p", "udp", "--dport", "53", "-j", "DROP"]);
    let diagnosis = setup.examine(&[], "reverse_dns");
    first(&diagnosis, "reverse_dns", &["UseDNS no"]);
    takes(&diagnosis, 2.0);
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
    let Some(mut setup) = PathSetup::start(test, &plan) else { return };
    let far: Ipv4Addr = Side::Far.ipv4().parse().unwrap();
    let bind = || UdpSocket::bind((Side::Near.ipv4(), 53));
    let socket = lh_link::netns::within(setup.wan.netns(Side::Near), bind).expect("port 53");
    std::thread::spawn(move || answer_late(socket, far, Duration::from_millis(1500)));
    setup.reach_by("slow.example", setup.port);
    let diagnosis = setup.examine(&[], "resolve");
    first(&diagnosis, "resolve", &["resolving the host's name", "/etc/resolv.conf"]);
    takes(&diagnosis, 1.5);
}

/// An address of the host that nothing answers at.
const DEAD: &str = "2001:db8::99";

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_an_address_that_does_not_answer() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(mut setup) = PathSetup::start("doctor_names_an_address_that_does_not_answer", &plan) else {
        return;
    };
    // Names have global addresses of IPv6 before those of IPv4, where there is one here.
    setup.at(Side::Near, &["ip", "address", "add", "2001:db8::1/64", "dev", "wan0", "nodad"]);
    let hosts = format!("{DEAD} two.example\n{} two.example\n", Side::Far.ipv4());
    setup.write_near("hosts", &hosts);
    setup.reach_by("two.example", setup.port);
    let diagnosis = setup.examine(&["-o", "ConnectTimeout=2"], "connect");
    first(&diagnosis, "connect", &[&format!("address {DEAD} of the host"), "AddressFamily inet "]);
    takes(&diagnosis, 2.0);
    let tried = &diagnosis["measured"]["unanswered_addresses"][0];
    assert_eq!(tried["address"], DEAD, "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_first_packets_that_get_lost() {
    let test = "doctor_names_first_packets_that_get_lost";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    // The first packet of each connection: connections begin side by side, so that dropping each second one
    // of all would let some pass. Its repetition after a second is above the limit, and passes.
    let rule = ["iptables", "-A", "INPUT", "-p", "tcp", "--syn", "-m", "hashlimit", "--hashlimit-upto"];
    let first_one = ["1/minute", "--hashlimit-burst", "1", "--hashlimit-mode", "srcip,srcport"];
    let named = ["--hashlimit-name", "first", "-j", "DROP"];
    setup.at(Side::Far, &[&rule[..], &first_one[..], &named[..]].concat());
    first(&setup.examine(&[], "connect"), "connect", &["TCP's handshake takes much longer", "1.0 s"]);
}

/// An agent without keys that needs this long to say so.
fn slow_agent(socket: &std::path::Path, delay: Duration) {
    let listener = std::os::unix::net::UnixListener::bind(socket).expect("a socket");
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut length = [0; 4];
                while client.read_exact(&mut length).is_ok() {
                    let mut message = vec![0; u32::from_be_bytes(length) as usize];
                    if client.read_exact(&mut message).is_err() {
                        break;
                    }
                    // SSH_AGENTC_REQUEST_IDENTITIES has SSH_AGENT_IDENTITIES_ANSWER, all else
                    // SSH_AGENT_FAILURE.
                    let answer: &[u8] = if message.first() == Some(&11) {
                        std::thread::sleep(delay);
                        &[0, 0, 0, 5, 12, 0, 0, 0, 0]
                    } else {
                        &[0, 0, 0, 1, 5]
                    };
                    if client.write_all(answer).is_err() {
                        break;
                    }
                }
            });
        }
    });
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_slow_agent() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_slow_agent", &plan) else { return };
    let socket = setup.lab.path("agent");
    slow_agent(&socket, Duration::from_millis(1500));
    let option = format!("IdentityAgent={}", socket.display());
    let diagnosis = setup.examine(&["-o", &option], "agent");
    first(&diagnosis, "agent", &["agent is slow to list its keys: 1.5 s", "ssh-add -l"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_an_agent_that_hangs() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_an_agent_that_hangs", &plan) else { return };
    let socket = setup.lab.path("agent");
    // Connections wait in its queue.
    let _agent = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let option = format!("IdentityAgent={}", socket.display());
    let diagnosis = setup.examine(&["-o", &option], "agent");
    first(&diagnosis, "agent", &["agent does not answer", &socket.display().to_string(), "ssh-add -l"]);
}

/// A cache of names (`nscd`) that answers nothing, about users and groups late. The files are read then.
fn slow_name_service(socket: &std::path::Path, delay: Duration) {
    let listener = std::os::unix::net::UnixListener::bind(socket).expect("a socket");
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                // Version, type, and length of the key (nscd/nscd-client.h).
                let mut request = [0; 12];
                let is_read = client.read_exact(&mut request).is_ok();
                let kind = i32::from_ne_bytes([request[4], request[5], request[6], request[7]]);
                // GETPWBYNAME to GETGRBYGID, GETFDPW, GETFDGR and INITGROUPS.
                if is_read && matches!(kind, 0..=3 | 11 | 12 | 15) {
                    std::thread::sleep(delay);
                }
            });
        }
    });
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_slow_name_service() {
    let test = "doctor_names_a_slow_name_service";
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    slow_name_service(&place.path().join("socket"), Duration::from_millis(500));
    std::fs::set_permissions(
        place.path().join("socket"),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let bind =
        format!("mkdir -p /run/nscd && mount --bind {} /run/nscd && exec \"$@\"", place.path().display());
    let prefix = ["unshare", "-m", "sh", "-c", &bind, "sh"];
    let plan = Plan { spec: spec(100, 20), prefix: &prefix, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let diagnosis = setup.examine(&[], "user_lookup");
    // Without a cache of names of its own, this machine does not have that directory: it is empty here.
    let _ = std::fs::remove_dir("/run/nscd");
    first(&diagnosis, "user_lookup", &["for its name service", "id for the user", "nsswitch.conf"]);
}

/// Lines with keys of the type Ed25519 that no one has. `before` stands before each, with its number for
/// `{}`.
fn unknown_keys(count: u32, before: &str) -> String {
    // The first characters are the type's name; the last ones the number, six bits in each.
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |number: u32, at: u32| char::from(LETTERS[(number >> (6 * at) & 63) as usize]);
    let line = |number: u32| {
        let last: String = (0..4).map(|at| digit(number, at)).collect();
        let name = before.replace("{}", &number.to_string());
        format!("{name}ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{}{last}\n", "B".repeat(39))
    };
    (0..count).map(line).collect()
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_large_file_of_authorized_keys() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_large_file_of_authorized_keys", &plan) else { return };
    let file = setup.user.home.join(".ssh/authorized_keys");
    let own = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, unknown_keys(400_000, "") + &own).unwrap();
    let diagnosis = setup.examine(&["--remote-dir", "/tmp"], "authorized_keys");
    first(&diagnosis, "authorized_keys", &["32.4 MB of authorized keys", "AuthorizedKeysCommand"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_large_file_of_known_hosts() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_large_file_of_known_hosts", &plan) else { return };
    let own = setup.lab.read("known_hosts");
    setup.lab.write("known_hosts", &(unknown_keys(200_000, "host{}.example ") + &own));
    let diagnosis = setup.examine(&[], "host_key");
    first(&diagnosis, "host_key", &["known_hosts", "ssh-keygen -R"]);
}

/// Relays connections to the server, and holds back what comes from it once: before it passes on the data of
/// its read number `from`. Returns the port to connect to.
fn hold_back(setup: &PathSetup, from: usize, delay: Duration) -> u16 {
    relay_at(setup, Side::Far, Some((from, delay)))
}

/// Relays connections to the server from this end of the path. Returns the port to connect to.
fn relay_at(setup: &PathSetup, side: Side, hold: Option<(usize, Duration)>) -> u16 {
    let netns = setup.wan.netns(side).to_owned();
    let listener = lh_link::netns::within(&netns, || TcpListener::bind((side.ipv4(), 0))).expect("a port");
    let (port, server) = (listener.local_addr().unwrap().port(), setup.port);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let netns = netns.clone();
            std::thread::spawn(move || {
                let connect = || TcpStream::connect((Side::Far.ipv4(), server));
                let Ok(server) = lh_link::netns::within(&netns, connect) else { return };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                std::thread::scope(|scope| {
                    scope.spawn(|| relay(&client, &server, None));
                    relay(&server, &client, hold);
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

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_server_that_greets_late() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(mut setup) = PathSetup::start("doctor_names_a_server_that_greets_late", &plan) else { return };
    let port = hold_back(&setup, 0, Duration::from_millis(1500));
    setup.reach_by(Side::Far.ipv4(), port);
    let diagnosis = setup.examine(&[], "greeting");
    first(&diagnosis, "greeting", &["needs long to greet", "MaxStartups"]);
    takes(&diagnosis, 1.5);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_slow_key_exchange() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(mut setup) = PathSetup::start("doctor_names_a_slow_key_exchange", &plan) else { return };
    // The first read from the server is its greeting, the next its proposal; then comes the reply.
    let port = hold_back(&setup, 2, Duration::from_millis(1500));
    setup.reach_by(Side::Far.ipv4(), port);
    let large = ["-o", "KexAlgorithms=diffie-hellman-group18-sha512"];
    let diagnosis = setup.examine(&large, "key_exchange");
    first(&diagnosis, "key_exchange", &["key exchange takes long", "curve25519-sha256 in ssh_config"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_slow_authorized_keys_command() {
    let test = "doctor_names_a_slow_authorized_keys_command";
    let command = "/bin/sh -c \"sleep 1.5; cat {keys}\"";
    let plan = Plan { spec: spec(100, 20), keys_command: Some(command), ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let diagnosis = setup.examine(&[], "login_approval");
    first(&diagnosis, "login_approval", &["AuthorizedKeysCommand", "to approve the login"]);
}

#[test]
fn doctor_names_a_slow_home_directory() {
    let test = "doctor_names_a_slow_home_directory";
    let files = [(".bash_profile", "# comment\n. ~/.bashrc\n"), (".bashrc", "umask 022\n")];
    let slow_home = Some((Duration::from_millis(400), &files[..]));
    let plan = Plan { spec: spec(100, 20), slow_home, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let diagnosis = setup.examine(&["--remote-dir", "/tmp"], "slow_home");
    first(&diagnosis, "slow_home", &["ms to open a file", "fuse", "AuthorizedKeysFile"]);
    let each = diagnosis["measured"]["home"]["seconds_per_file"].as_f64().unwrap();
    assert!((0.39..0.8).contains(&each), "planted 0.4 s: {diagnosis:#}");
    let text = diagnosis["findings"].to_string();
    assert!(!text.contains("PAM") && !text.contains("start-up files take"), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_keys_that_are_offered_in_vain() {
    let plan = Plan { spec: spec(100, 150), config: "MaxAuthTries 30", ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_keys_that_are_offered_in_vain", &plan) else { return };
    // Seven unknown keys before the user's own: a second of round trips.
    let mut options = Vec::new();
    for number in 0..8 {
        let key = setup.lab.arg(&format!("vain{number}"));
        if number == 7 {
            std::fs::copy(setup.lab.path("user_ed25519"), &key).unwrap();
        } else {
            let words = ["-q", "-t", "ed25519", "-N", "", "-f", &key];
            setup.lab.run(std::path::Path::new("ssh-keygen"), &words).ok("a key");
        }
        options.push(format!("IdentityFile={key}"));
    }
    for name in ["user_ed25519", "user_ed25519.pub"] {
        std::fs::remove_file(setup.lab.path(name)).unwrap();
    }
    let more: Vec<&str> = options.iter().flat_map(|option| ["-o", option.as_str()]).collect();
    let diagnosis = setup.examine(&more, "offered_keys");
    first(&diagnosis, "offered_keys", &["7 keys are offered before", "1.", "IdentitiesOnly yes"]);
    assert!(!diagnosis["findings"].to_string().contains("login_approval"), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_configuration_that_takes_long() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_configuration_that_takes_long", &plan) else { return };
    setup.lab.write("slow.conf", "Match exec \"sleep 1.5\"\n    Compression no\n");
    let diagnosis = setup.examine(&["-F", &setup.lab.arg("slow.conf")], "configuration");
    first(&diagnosis, "configuration", &["1.5", "Match exec"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_proxy_command_that_starts_late() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_proxy_command_that_starts_late", &plan) else {
        return;
    };
    let Some([nc]) = lh_interop::peers("doctor_names_a_proxy_command_that_starts_late", ["nc"]) else {
        return;
    };
    let proxy = format!("ProxyCommand=sh -c 'sleep 1.5; exec {} %h %p'", nc.display());
    first(
        &setup.examine(&["-o", &proxy], "proxy_start"),
        "proxy_start",
        &["jump host or proxy command", "1."],
    );
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_what_answers_in_the_server_s_place() {
    let plan = Plan { spec: spec(100, 80), ..Plan::default() };
    let Some(mut setup) = PathSetup::start("doctor_names_what_answers_in_the_server_s_place", &plan) else {
        return;
    };
    let port = relay_at(&setup, Side::Near, None);
    setup.reach_by(Side::Near.ipv4(), port);
    let diagnosis = setup.examine(&[], "middlebox");
    first(&diagnosis, "middlebox", &["answers TCP in the server's place", "without a proxy"]);
    let round_trip = diagnosis["measured"]["rtt_seconds"].as_f64().unwrap();
    assert!((0.079..0.15).contains(&round_trip), "planted 0.08: {diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_server_that_refuses_connections() {
    // Connections that never log in use up what the server allows: it then refuses each second one, about.
    let config = "MaxStartups 3:50:100\nLoginGraceTime 600";
    let plan = Plan { spec: spec(100, 20), config, ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_server_that_refuses_connections", &plan) else {
        return;
    };
    let connect = |_| {
        let open = || TcpStream::connect((Side::Far.ipv4(), setup.port));
        lh_link::netns::within(setup.wan.netns(Side::Near), open).expect("a connection")
    };
    let idle: Vec<TcpStream> = (0..3).map(connect).collect();
    let diagnosis = setup.examine(&[], "refused");
    first(&diagnosis, "refused", &["connections before it greeted", "MaxStartups"]);
    drop(idle);
}
