//! Several sessions over one connection: `lhssh` as master and as mux client, with itself and with OpenSSH's
//! `ssh`.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};

use lh_interop::sharing::{Running, SharingSetup, each_mix, greet, heard};
use lh_interop::tunnel::{free_port, round_trip, sum, sum_server};
use lh_interop::{eventually, me, our, peers};

/// Covers: ssh -M; ssh -S; ssh_config ControlMaster; ssh_config ControlPath; ssh -O; ssh -O check; ssh -O exit
#[test]
fn commands_subsystems_and_bulk_share_a_connection() {
    each_mix("sharing", "", |setup| {
        let master = setup.start_master(&[]);
        let mode = std::fs::metadata(setup.socket()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let ran = setup.run_mux_client(&["@", "echo out; echo err >&2; exit 7"]);
        assert_eq!((ran.code, ran.text().as_str(), ran.err.as_str()), (7, "out\n", "err\n"));
        let data: Vec<u8> = (0..4_000_000_u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(setup.lab.path("bulk"), &data).unwrap();
        let stdin = Stdio::from(std::fs::File::open(setup.lab.path("bulk")).unwrap());
        let ran = setup.run_mux_client_with(&["@", "cat"], stdin).ok("bulk");
        assert!(ran.out == data, "the data came back changed");
        // A session with a terminal, and one that ends by a signal.
        let ran = setup.run_mux_client(&["-tt", "@", "test -t 0 && echo terminal"]).ok("-tt");
        assert!(ran.text().contains("terminal"), "{}", ran.text());
        assert_eq!(setup.run_mux_client(&["@", "kill -9 $$"]).code, 255);
        // The first message of SFTP: version 3.
        std::fs::write(setup.lab.path("init"), [0, 0, 0, 5, 1, 0, 0, 0, 3]).unwrap();
        let stdin = Stdio::from(std::fs::File::open(setup.lab.path("init")).unwrap());
        let ran = setup.run_mux_client_with(&["-s", "@", "sftp"], stdin);
        assert_eq!(ran.out.get(4..9), Some(&[2, 0, 0, 0, 3][..]), "{}", ran.err);
        // A reader that closes early.
        let line =
            setup.args(&["@", "yes"]).iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let ran = setup.lab.sh(&format!("'{}' {line} | head -n 1", setup.client.display()));
        assert_eq!(ran.text(), "y\n");
        let ran = setup.run_mux_client(&["-O", "check", "@"]).ok("check");
        assert!(ran.err.contains(&format!("Master running (pid={})", master.0.id())), "{}", ran.err);
        assert_eq!(setup.logins(), 1);
        let ran = setup.run_mux_client(&["-O", "exit", "@"]).ok("exit");
        assert!(ran.err.contains("Exit request sent."), "{}", ran.err);
        eventually("the socket goes with its master", || !setup.socket().exists());
    });
}

/// Covers: ssh -W; ssh -O forward; ssh -O cancel; ssh -L; ssh -R; ssh -D
#[test]
fn forwards_are_added_to_and_taken_from_a_master() {
    each_mix("sharing_forwards", "", |setup| {
        let _master = setup.start_master(&[]);
        let server = sum_server();
        let (local, socks) = (free_port(), free_port());
        let to = format!("127.0.0.1:{local}:127.0.0.1:{server}");
        setup
            .run_mux_client(&["-O", "forward", "-L", &to, "-D", &format!("127.0.0.1:{socks}"), "@"])
            .ok("forward");
        round_trip(local, 3_000_000);
        assert!(std::net::TcpStream::connect(("127.0.0.1", socks)).is_ok());
        let ran =
            setup.run_mux_client(&["-O", "forward", "-R", &format!("0:127.0.0.1:{server}"), "@"]).ok("-R 0");
        let port: u16 = ran.text().trim().parse().unwrap_or_else(|_| panic!("{} {}", ran.text(), ran.err));
        round_trip(port, 3_000_000);
        setup.run_mux_client(&["-O", "cancel", "-L", &to, "@"]).ok("cancel");
        eventually("the listener is gone", || std::net::TcpStream::connect(("127.0.0.1", local)).is_err());
        let again = setup.run_mux_client(&["-O", "cancel", "-L", &to, "@"]);
        assert!(again.err.contains("port not forwarded"), "{}", again.err);
        let taken = format!("127.0.0.1:{socks}:127.0.0.1:{server}");
        let refused = setup.run_mux_client(&["-O", "forward", "-L", &taken, "@"]);
        assert_eq!(refused.code, 255);
        assert!(refused.err.contains("forwarding request failed"), "{}", refused.err);
        // Standard input and output.
        let data = vec![3; 100_000];
        std::fs::write(setup.lab.path("data"), &data).unwrap();
        let stdin = Stdio::from(std::fs::File::open(setup.lab.path("data")).unwrap());
        let ran = setup.run_mux_client_with(&["-W", &format!("127.0.0.1:{server}"), "@"], stdin).ok("-W");
        assert!(ran.out.starts_with(&sum(&data)), "{} bytes", ran.out.len());
        let refused = setup.run_mux_client(&["-W", "127.0.0.1:1", "@"]);
        assert_eq!(refused.code, 255, "{}", refused.err);
        assert_eq!(setup.logins(), 1);
    });
}

/// Covers: ssh_config ControlMaster; ssh_config ControlPersist; ssh -O stop; token %C
#[test]
fn the_first_session_leaves_a_master_behind() {
    each_mix("sharing_persist", "", |setup| {
        let options = ["-o", "ControlMaster=auto", "-o", "ControlPersist=60"];
        let mut first = options.to_vec();
        first.extend(["@", "echo first; exit 3"]);
        let ran = setup.lab.run(&setup.master, &setup.args(&first));
        assert_eq!((ran.code, ran.text().as_str()), (3, "first\n"), "{}", ran.err);
        assert!(setup.socket().exists(), "no master stayed behind");
        let ran = setup.run_mux_client(&["@", "echo second"]).ok("second");
        assert_eq!(ran.text(), "second\n");
        assert_eq!(setup.logins(), 1);
        // The master accepts no new client, and running sessions continue.
        let marker = setup.lab.path("go");
        let wait = format!("until [ -e '{}' ]; do sleep 0.1; done; echo third", marker.display());
        std::thread::scope(|threads| {
            let third = threads.spawn(|| setup.run_mux_client(&["@", &wait]));
            eventually("the third session runs", || {
                setup.server.log().matches("Starting session").count() == 3
            });
            setup.run_mux_client(&["-O", "stop", "@"]).ok("stop");
            eventually("the socket is gone", || !setup.socket().exists());
            std::fs::write(&marker, "").unwrap();
            assert_eq!(third.join().unwrap().ok("third").text(), "third\n");
        });
        let check = setup.run_mux_client(&["-O", "check", "@"]);
        assert_eq!(check.code, 255);
        assert!(check.err.contains("Control socket connect("), "{}", check.err);
        assert!(check.err.contains("No such file or directory"), "{}", check.err);
        // A master without its own session ends with its last mux client, as OpenSSH's does.
        let mut master = setup.start_master(&[]);
        setup.run_mux_client(&["-O", "stop", "@"]).ok("stop");
        assert_eq!(master.0.wait().unwrap().code(), Some(255));
        // A master with a short ControlPersist.
        let short = ["-o", "ControlMaster=auto", "-o", "ControlPersist=1", "@", "true"];
        setup.lab.run(&setup.master, &setup.args(&short)).ok("short");
        eventually("the idle master ends", || !setup.socket().exists());
    });
}

/// Covers: ssh_config ControlPath; ssh_config ControlMaster; token %C; token %r; token %p
#[test]
fn control_path_tokens_and_a_second_master_work() {
    let setup = SharingSetup::new(our("lhssh"), our("lhssh"), "");
    let _master = setup.start_master(&[]);
    let ran = setup.lab.run(&setup.master, &setup.args(&["-M", "@", "echo alone"])).ok("second master");
    assert_eq!(ran.text(), "alone\n");
    assert!(ran.err.contains("already exists, disabling multiplexing"), "{}", ran.err);
    assert_eq!(setup.logins(), 2);
    let path = setup.lab.path("%C-%r-%p");
    let master = Command::new(&setup.master)
        .args(setup.args(&["-N", "-M", "-S", &path.display().to_string(), "@"]))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _running = Running(master);
    let directory = setup.lab.dir().to_owned();
    let end = format!("-{}-{}", me(), setup.server.port);
    eventually("the name is expanded", || {
        std::fs::read_dir(&directory).unwrap().flatten().any(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.ends_with(&end) && name.len() == 40 + end.len()
        })
    });
}

/// Covers: ssh_config ControlPath; ssh_config ControlMaster
#[test]
fn dead_stale_and_faulty_masters_are_detected() {
    let setup = SharingSetup::new(our("lhssh"), our("lhssh"), "");
    let socket = setup.socket();
    let none = setup.run_mux_client(&["-O", "check", "@"]);
    assert_eq!(none.code, 255);
    assert!(none.err.contains("No such file or directory"), "{}", none.err);
    // A killed master leaves its socket.
    let mut master = setup.start_master(&[]);
    master.0.kill().unwrap();
    master.0.wait().unwrap();
    assert!(socket.exists());
    let check = setup.run_mux_client(&["-O", "check", "@"]);
    assert_eq!(check.code, 255);
    assert!(check.err.contains("): Connection refused"), "{}", check.err);
    let ran = setup.lab.run(&setup.client, &setup.args(&["@", "echo direct"])).ok("direct");
    assert_eq!(ran.text(), "direct\n");
    assert!(ran.err.contains("): Connection refused"), "{}", ran.err);
    let auto = ["-o", "ControlMaster=auto", "@", "echo auto"];
    let ran = setup.lab.run(&setup.client, &setup.args(&auto)).ok("auto");
    assert_eq!((ran.text().as_str(), ran.err.as_str()), ("auto\n", ""));
    assert!(!socket.exists(), "its own socket goes with it, and the stale one was removed");
    // Another program listens there.
    for lie in [
        &b""[..],
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"\0\0\0\x08\0\0\0\x01\0\0\0\x63",
        b"\xff\xff\xff\xff\0\0\0\x01",
    ] {
        let listener = UnixListener::bind(&socket).unwrap();
        let liar = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(lie).unwrap();
            let _ = stream.read(&mut [0; 100]);
        });
        let ran = setup.lab.run(&setup.client, &setup.args(&["@", "echo direct"])).ok("direct");
        assert_eq!(ran.text(), "direct\n");
        assert!(ran.err.contains("master hello exchange failed"), "{}", ran.err);
        liar.join().unwrap();
        std::fs::remove_file(&socket).unwrap();
    }
}

/// Covers: ssh_config ControlMaster; wire mux
#[test]
fn a_faulty_or_killed_mux_client_ends_alone() {
    let setup = SharingSetup::new(our("lhssh"), our("lhssh"), "");
    let master = setup.start_master(&[]);
    let descriptors = || master.descriptors();
    setup.run_mux_client(&["@", "true"]).ok("one");
    let before = descriptors();
    let hello = b"\0\0\0\x08\0\0\0\x01\0\0\0\x04";
    let session = b"\0\0\0\x2c\x10\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0";
    for words in [
        vec![&b"\xff\xff\xff\xff"[..]],
        vec![b"\0\0\0\0"],
        vec![b"GET / HTTP/1.0\r\n\r\n"],
        vec![hello, b"\0\0\0\x04\x10\0\0\x02"],
        vec![hello, b"\0\0\0\x08\x1f\0\0\x02\0\0\0\0"],
        vec![hello, session, b"no descriptors"],
        vec![hello, session],
        vec![hello],
    ] {
        let mut stream = UnixStream::connect(setup.socket()).unwrap();
        for word in words {
            let _ = stream.write_all(word);
        }
        let _ = stream.read(&mut [0; 64]);
    }
    // A killed client ends its session.
    let mut child = Command::new(&setup.client)
        .args(setup.args(&["@", "echo started; exec sleep 1000"]))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("nothing of them is left", || descriptors() <= before);
    for _ in 0..50 {
        setup.run_mux_client(&["@", "true"]).ok("many");
    }
    eventually("nor of fifty more", || descriptors() <= before);
    assert_eq!(setup.logins(), 1);
}

/// A client that is killed, or that only looks whether the master is there, leaves most of HELLO unread.
///
/// Covers: wire mux
#[test]
fn mux_clients_that_end_without_a_word_are_no_errors() {
    let setup = SharingSetup::new(our("lhssh"), our("lhssh"), "");
    let master = setup.start_master(&[]);
    for _ in 0..3 {
        let mut stream = UnixStream::connect(setup.socket()).unwrap();
        stream.read_exact(&mut [0; 1]).unwrap();
    }
    setup.run_mux_client(&["@", "true"]).ok("the master serves on");
    drop(master);
    assert_eq!(std::fs::read_to_string(setup.lab.path("master.log")).unwrap(), "");
}

/// A client in proxy mode may send before the answer has come: what follows its request belongs to its
/// channels.
///
/// Covers: ssh -O proxy; wire mux
#[test]
fn messages_behind_a_proxy_request_are_the_relay_s() {
    let setup = SharingSetup::new(our("lhssh"), our("lhssh"), "");
    let master = setup.start_master(&[]);
    let mut stream = greet(&setup.socket());
    let request = b"\0\0\0\x08\x10\0\0\x0f\0\0\0\x09";
    let open = b"\0\0\0\x19\0\x5a\0\0\0\x07session\0\0\0\x05\0\x20\0\0\0\0\x80\0";
    stream.write_all(&[&request[..], open].concat()).unwrap();
    assert_eq!(heard(&mut stream)[..4], [0x80, 0, 0, 0x0F], "proxy mode");
    assert_eq!(heard(&mut stream)[1..6], [91, 0, 0, 0, 5], "the channel is open");
    drop((stream, master));
    let said = std::fs::read_to_string(setup.lab.path("master.log")).unwrap();
    assert!(!said.contains("multiplex client"), "{said}");
}

/// Covers: ssh_config ControlMaster; ssh -M
#[test]
fn master_confirms_mux_clients_when_asked_to() {
    let setup = SharingSetup::new(our("lhssh"), our("lhssh"), "");
    let askpass = |answer: &str| {
        let path = setup.lab.path("askpass");
        std::fs::write(
            &path,
            format!("#!/bin/sh\necho \"$1\" >> '{}'\nexit {answer}\n", setup.lab.arg("asked")),
        )
        .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let path = askpass("0");
    let child = Command::new(&setup.master)
        .args(setup.args(&["-MM", "-N", "@"]))
        .env("SSH_ASKPASS", path)
        .env("SSH_ASKPASS_REQUIRE", "force")
        .env("HOME", setup.lab.path("home"))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _master = Running(child);
    eventually("the control socket is there", || UnixStream::connect(setup.socket()).is_ok());
    assert_eq!(setup.run_mux_client(&["@", "echo in"]).ok("yes").text(), "in\n");
    assert_eq!(setup.lab.read("asked").lines().next(), Some("Allow shared connection to 127.0.0.1? "));
    askpass("1");
    let refused = setup.run_mux_client(&["@", "echo in"]);
    assert!(refused.err.contains("Master refused session request: Permission denied"), "{}", refused.err);
}

/// Covers: ssh_config ForwardAgent; ssh_config ControlMaster
#[test]
fn mux_clients_share_the_agent_if_both_ends_want_it() {
    each_mix("sharing_agent", "", |setup| {
        let socket = setup.lab.path("agent");
        let _agent = UnixListener::bind(&socket).unwrap();
        let forward = format!("ForwardAgent={}", socket.display());
        let _master = setup.start_master(&["-o", &forward]);
        let look = "test -S \"$SSH_AUTH_SOCK\"";
        // This case comes first: once the agent is forwarded, a server offers it to all sessions of the
        // connection.
        assert_eq!(setup.run_mux_client(&["-a", "@", look]).code, 1);
        setup.run_mux_client(&["-o", &forward, "@", look]).ok("with");
    });
}

/// Starts a session that stays: with `MaxSessions 1` the server permits the master no other.
fn hold_session(setup: &SharingSetup) -> Running {
    let child = Command::new(&setup.client)
        .args(setup.args(&["@", "echo started; exec sleep 1000"]))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut held = Running(child);
    held.0.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
    held
}

/// Covers: ssh_config ControlMaster; ssh_config ControlPath; sshd_config MaxSessions; scp -o; scp -O; scp -3;
/// sftp -o; sftp -b
#[test]
fn copies_log_in_themselves_when_sessions_are_full() {
    // A master of OpenSSH 9.2 ends where the server refuses a session of a client in proxy mode.
    let setup = SharingSetup::new(our("lhssh"), our("lhssh"), "MaxSessions 1");
    let _master = setup.start_master(&[]);
    let _held = hold_session(&setup);
    setup.lab.write("source", "copied alone\n");
    let control = format!("ControlPath={}", setup.lab.arg("ctl"));
    let flags: Vec<String> =
        ["-o", &control, "-P", &setup.server.port_arg()].map(str::to_owned).into_iter().collect();
    let there = |name: &str| format!("{}@127.0.0.1:{}", me(), setup.lab.arg(name));
    let copy = |more: &[&str], from: String, to: String| {
        let mut args = setup.lab.client_options();
        args.extend(flags.clone());
        args.extend(more.iter().map(|&flag| flag.to_owned()).chain([from, to]));
        let before = setup.logins();
        let ran = setup.lab.run(&our("lhscp"), &args).ok("a copy");
        let refusals = ran.err.matches("session request failed: Session open refused by peer").count();
        assert_eq!(setup.logins() - before, refusals, "{more:?}: {}", ran.err);
        refusals
    };
    for (name, more) in [("new", &[][..]), ("old", &["-O"][..])] {
        let up = format!("{name}.up");
        assert_eq!(copy(more, setup.lab.arg("source"), there(&up)), 1);
        assert_eq!(copy(more, there(&up), setup.lab.arg(&format!("{name}.down"))), 1);
        let between: Vec<&str> = more.iter().copied().chain(["-3"]).collect();
        assert_eq!(copy(&between, there(&up), there(&format!("{name}.between"))), 2);
        for copied in ["up", "down", "between"] {
            assert_eq!(setup.lab.read(&format!("{name}.{copied}")), "copied alone\n");
        }
    }
    let commands = format!(
        "put {} {}\nget {} {}\n",
        setup.lab.arg("source"),
        setup.lab.arg("put"),
        setup.lab.arg("put"),
        setup.lab.arg("got")
    );
    setup.lab.write("commands", &commands);
    let mut args = setup.lab.client_options();
    args.extend(flags.clone());
    args.extend(["-b".to_owned(), setup.lab.arg("commands"), format!("{}@127.0.0.1", me())]);
    let before = setup.logins();
    let ran = setup.lab.run(&our("lhsftp"), &args).ok("lhsftp");
    assert!(ran.err.contains("session request failed: Session open refused by peer"), "{}", ran.err);
    assert_eq!((setup.lab.read("got").as_str(), setup.logins() - before), ("copied alone\n", 1));
}

/// Covers: ssh_config ControlMaster; sshd_config MaxSessions
#[test]
fn mux_client_logs_in_itself_when_sessions_are_full() {
    let setup = SharingSetup::new(our("lhssh"), our("lhssh"), "MaxSessions 1");
    let _master = setup.start_master(&[]);
    let _held = hold_session(&setup);
    // As ssh does, the client prints a message and connects by itself.
    let ran = setup.lab.run(&setup.client, &setup.args(&["@", "echo alone"])).ok("alone");
    assert_eq!(ran.text(), "alone\n");
    assert!(ran.err.contains("session request failed: Session open refused by peer"), "{}", ran.err);
    // scp and rsync give it one socket for both directions, which the master must leave as it is.
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let (input, output) = (OwnedFd::from(theirs.try_clone().unwrap()), OwnedFd::from(theirs));
    let mut both = Command::new(&setup.client)
        .args(setup.args(&["@", "cat"]))
        .stdin(input)
        .stdout(output)
        .spawn()
        .unwrap();
    ours.write_all(b"both ways").unwrap();
    ours.shutdown(Shutdown::Write).unwrap();
    let mut came = String::new();
    ours.read_to_string(&mut came).unwrap();
    assert_eq!((came.as_str(), both.wait().unwrap().code()), ("both ways", Some(0)));
}

/// Covers: ssh_config ControlMaster
#[test]
fn bulk_of_one_mux_client_does_not_slow_another() {
    each_mix("sharing_fairness", "", |setup| {
        let _master = setup.start_master(&[]);
        let mut bulk = Command::new(&setup.client)
            .args(setup.args(&["@", "cat /dev/zero"]))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = bulk.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let (mut total, mut buffer) = (0, vec![0; 1 << 20]);
            while let Ok(n) = output.read(&mut buffer) {
                if n == 0 {
                    break;
                }
                total += n;
            }
            total
        });
        for number in 0..10 {
            assert_eq!(
                setup.run_mux_client(&["@", &format!("echo {number}")]).ok("echo").text(),
                format!("{number}\n")
            );
        }
        bulk.kill().unwrap();
        bulk.wait().unwrap();
        assert!(reader.join().unwrap() > 1 << 20);
    });
}

/// Escapes of a mux client act on that client's session; the master reads its terminal.
/// Covers: ssh ~.; ssh ~?; ssh_config EscapeChar
#[test]
fn escapes_of_a_mux_client_affect_its_session_only() {
    let Some([script]) = peers("sharing_escapes", ["script"]) else { return };
    each_mix("sharing_escapes", "", |setup| {
        let _master = setup.start_master(&[]);
        let words: Vec<String> = std::iter::once(setup.client.display().to_string())
            .chain(setup.args(&["-tt", "@", "stty -a; cat"]))
            .map(|word| format!("'{word}'"))
            .collect();
        let typed = setup.lab.path("typed");
        let mut child = Command::new(&script)
            .args(["-qec", &words.join(" "), "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(&typed).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut keys = child.stdin.take().unwrap();
        let text = || String::from_utf8_lossy(&std::fs::read(&typed).unwrap_or_default()).into_owned();
        let shown = |what: &str| {
            eventually(&format!("{what:?} on the terminal"), || text().contains(what));
        };
        // The master requests the terminal with the modes that it had before the mux client made it raw.
        shown("echok");
        let modes = text();
        for raw in ["-icrnl", "-icanon", "-echo ", "-opost"] {
            assert!(!modes.contains(raw), "{raw} in {modes}");
        }
        keys.write_all(b"hello\r").unwrap();
        shown("hello\r\nhello");
        keys.write_all(b"~?").unwrap();
        shown("Supported escape sequences:");
        shown("~.   - terminate session\r\n");
        keys.write_all(b"~.").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(255));
        shown("Shared connection to 127.0.0.1 closed.");
        // The master keeps running.
        setup.run_mux_client(&["@", "true"]).ok("after");
    });
}
