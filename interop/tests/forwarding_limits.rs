//! Permissions and limits of forwards, their failures, and their cleanup.

use std::io::Read as _;
use std::io::Write as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use lh_interop::tunnel::{
    Pair, Tunnel, each_pair, free_port, round_trip_after, round_trip_unix, sum_server, sum_server_unix,
};
use lh_interop::{Lab, Lhsshd, eventually, our, uninterrupted};

/// Covers: ssh_config ExitOnForwardFailure; ssh_config ClearAllForwardings; ssh -R; ssh -L
#[test]
fn failed_forwards_are_reported() {
    each_pair("forward_failures", "", |pair| {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let local = format!("127.0.0.1:{port}:127.0.0.1:1");
        let ran = pair.lab.run(&pair.client, &pair.args(&["-L", &local, "@host", "echo on"])).ok("goes on");
        assert_eq!(ran.text(), "on\n");
        let complaint = format!("bind [127.0.0.1]:{port}: Address already in use");
        assert!(ran.err.contains(&complaint), "{}", ran.err);
        assert!(ran.err.contains(&format!("cannot listen to port: {port}")), "{}", ran.err);
        assert!(ran.err.contains("Could not request local forwarding."), "{}", ran.err);
        let exit = "ExitOnForwardFailure=yes";
        let ran = pair.lab.run(&pair.client, &pair.args(&["-o", exit, "-L", &local, "@host", "echo on"]));
        assert_eq!((ran.code, ran.text().as_str()), (255, ""), "{}", ran.err);
        assert!(ran.err.contains("Could not request local forwarding."), "{}", ran.err);
        // The same port at the server's side.
        let ran = pair.lab.run(&pair.client, &pair.args(&["-R", &local, "@host", "echo on"])).ok("goes on");
        let text = format!("remote port forwarding failed for listen port {port}");
        assert!(ran.err.contains(&format!("Warning: {text}")), "{}", ran.err);
        let ran = pair.lab.run(&pair.client, &pair.args(&["-o", exit, "-NR", &local]));
        assert_eq!(ran.code, 255);
        assert!(ran.err.contains(&format!("Error: {text}")), "{}", ran.err);
        let path = "/nonexistent/directory/sock";
        let ran =
            pair.lab.run(&pair.client, &pair.args(&["-o", exit, "-NR", &format!("{path}:localhost:1")]));
        assert!(
            ran.err.contains(&format!("Error: remote port forwarding failed for listen path {path}")),
            "{}",
            ran.err
        );
        let clear = "ClearAllForwardings=yes";
        let ran =
            pair.lab.run(&pair.client, &pair.args(&["-o", exit, "-L", &local, "-o", clear, "@host", "true"]));
        ran.ok("no forwards at all");
    });
}

/// Covers: sshd_config PermitOpen; sshd_config PermitListen; sshd_config AllowTcpForwarding; sshd_config AllowStreamLocalForwarding; sshd_config DisableForwarding
#[test]
fn server_rules_limit_forwarding() {
    let server = sum_server();
    let (listen, other) = (free_port(), free_port());
    let rules = format!(
        "PermitOpen 127.0.0.1:{server}\nPermitListen localhost:{listen}\nAllowStreamLocalForwarding local\n"
    );
    let connects = |pair: &Pair<'_>, target: &str| {
        let ran = pair.lab.run(&pair.client, &pair.args(&["-W", target]));
        ran.code == 0
    };
    let listens = |pair: &Pair<'_>, what: &str| {
        let exit = "ExitOnForwardFailure=yes";
        let ran = pair.lab.run(&pair.client, &pair.args(&["-o", exit, "-R", what, "@host", "true"]));
        ran.code == 0
    };
    let there = format!("127.0.0.1:{server}");
    each_pair("server_rules", &rules, |pair| {
        assert!(connects(pair, &there));
        assert!(!connects(pair, &format!("localhost:{server}")), "the name is not in the list");
        assert!(listens(pair, &format!("{listen}:h:1")));
        assert!(!listens(pair, &format!("{other}:h:1")));
        assert!(!listens(pair, &format!("127.0.0.1:{listen}:h:1")));
        let socket = pair.lab.path("s");
        let _unix = sum_server_unix(&socket);
        // A client restricted to some ports may open no sockets.
        assert!(!pair.is_ours() || !connects(pair, &socket.display().to_string()));
        assert!(!listens(pair, &format!("{}:h:1", pair.lab.path("t").display())));
    });
    for (rules, may_connect, may_listen) in [
        ("AllowTcpForwarding local", true, false),
        ("AllowTcpForwarding remote", false, true),
        ("AllowTcpForwarding no", false, false),
        ("DisableForwarding yes", false, false),
        ("PermitOpen none\nPermitListen none", false, false),
    ] {
        each_pair("server_rules", rules, |pair| {
            let does = (connects(pair, &there), listens(pair, "0:h:1"));
            assert_eq!(does, (may_connect, may_listen), "{rules}");
            if !may_connect {
                let refused = pair.lab.run(&pair.client, &pair.args(&["-W", "127.0.0.1:1"]));
                assert!(refused.err.contains("administratively prohibited: open failed"), "{}", refused.err);
            }
        });
    }
}

/// Covers: sshd_config AuthorizedKeysFile permitopen=; sshd_config AuthorizedKeysFile permitlisten=; sshd_config AuthorizedKeysFile restrict
#[test]
fn key_options_limit_forwarding() {
    let server = sum_server();
    let port = free_port();
    let lab = Lab::new();
    let key = lab.read("user_ed25519.pub");
    let cases = [
        (format!("permitopen=\"127.0.0.1:{server}\",permitlisten=\"{port}\" "), true, true),
        ("permitopen=\"127.0.0.1:1\",permitlisten=\"localhost:1\" ".to_owned(), false, false),
        ("restrict ".to_owned(), false, false),
        ("restrict,port-forwarding ".to_owned(), true, true),
        ("no-port-forwarding ".to_owned(), false, false),
    ];
    let daemon = Lhsshd::start(&lab, "");
    let pair = Pair::new(&lab, our("lhssh"), daemon.port);
    for (options, may_connect, may_listen) in cases {
        lab.write("authorized_keys", &format!("{options}{key}"));
        let connect = lab.run(&pair.client, &pair.args(&["-W", &format!("127.0.0.1:{server}")]));
        let exit = "ExitOnForwardFailure=yes";
        let listen =
            lab.run(&pair.client, &pair.args(&["-o", exit, "-R", &format!("{port}:h:1"), "@host", "true"]));
        assert_eq!(
            (connect.code == 0, listen.code == 0),
            (may_connect, may_listen),
            "{options}\n{}",
            listen.err
        );
    }
}

/// Covers: sshd_config GatewayPorts; ssh_config GatewayPorts; ssh -g
#[test]
fn gateway_ports_open_listeners_to_others() {
    let server = sum_server();
    // Any loopback address except 127.0.0.1 stands for other machines.
    let others = "127.0.0.9";
    each_pair("gateway_ports", "GatewayPorts clientspecified", |pair| {
        for (spec, reachable) in
            [(String::new(), false), ("*:".to_owned(), true), ("127.0.0.9:".to_owned(), true)]
        {
            let port = free_port();
            let tunnel = pair.tunnel(&["-R", &format!("{spec}{port}:127.0.0.1:{server}")]);
            let at = if spec.starts_with("127.0.0.9") { others } else { "127.0.0.1" };
            tunnel.wait_for(at, port);
            assert_eq!(TcpStream::connect((others, port)).is_ok(), reachable, "{spec:?}");
        }
    });
    each_pair("gateway_ports", "GatewayPorts yes", |pair| {
        let (back, local) = (free_port(), free_port());
        let spec = format!("127.0.0.1:{back}:127.0.0.1:{server}");
        let tunnel = pair.tunnel(&["-R", &spec, "-g", "-L", &format!("{local}:127.0.0.1:{server}")]);
        tunnel.wait_for(others, back);
        tunnel.wait_for(others, local);
    });
}

/// An address that the client names has to be of a family that the server serves, as with sshd.
///
/// Covers: sshd_config AddressFamily; sshd_config GatewayPorts
#[test]
fn listeners_have_the_family_of_the_server() {
    let lab = Lab::new();
    let daemon = Lhsshd::start(&lab, "GatewayPorts clientspecified\nAddressFamily inet");
    let pair = Pair::new(&lab, our("lhssh"), daemon.port);
    let listen = |address: &str| {
        let spec = format!("{address}:{}:h:1", free_port());
        lab.run(&pair.client, &pair.args(&["-o", "ExitOnForwardFailure=yes", "-R", &spec, "@host", "true"]))
    };
    listen("127.0.0.1").ok("IPv4");
    for address in ["[::1]", "[::]"] {
        assert_eq!(listen(address).code, 255, "{address}");
    }
    assert!(!daemon.log().contains("listening on ::"), "{}", daemon.log());
}

/// Covers: ssh_config StreamLocalBindMask; ssh_config StreamLocalBindUnlink; sshd_config StreamLocalBindMask; sshd_config StreamLocalBindUnlink
#[test]
fn sockets_have_the_modes_that_are_wanted() {
    let server = sum_server();
    each_pair("bind_mask", "StreamLocalBindMask 0117\nStreamLocalBindUnlink yes", |pair| {
        let (here, there) = (pair.lab.path("here"), pair.lab.path("there"));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        // Stale sockets of another process.
        drop(UnixListener::bind(&here).unwrap());
        drop(UnixListener::bind(&there).unwrap());
        let (to, back) = (
            format!("{}:127.0.0.1:{server}", here.display()),
            format!("{}:127.0.0.1:{server}", there.display()),
        );
        let options =
            ["-o", "StreamLocalBindMask=0111", "-o", "StreamLocalBindUnlink=yes", "-L", &to, "-R", &back];
        let tunnel = pair.tunnel(&options);
        eventually("both listen", || {
            UnixStream::connect(&here).is_ok() && UnixStream::connect(&there).is_ok()
        });
        assert_eq!((mode(&here), mode(&there)), (0o666, 0o660));
        round_trip_unix(&here, 1000);
        round_trip_unix(&there, 1000);
        drop(tunnel);
    });
}

/// Covers: ssh_config ChannelTimeout; sshd_config ChannelTimeout
#[test]
fn idle_connections_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().port();
    for (config, option) in [("ChannelTimeout direct-tcpip=1s", None), ("", Some("direct-*=1s"))] {
        each_pair("idle_connections", config, |pair| {
            if option.is_some() && !pair.is_ours() {
                // Debian's ssh lacks the option.
                return;
            }
            let port = free_port();
            let (forward, option) = (
                format!("{port}:127.0.0.1:{server}"),
                format!("ChannelTimeout={}", option.unwrap_or("none")),
            );
            let mut flags = vec!["-L", &forward];
            if pair.is_ours() {
                flags.extend(["-o", &option]);
            }
            let tunnel = pair.tunnel(&flags);
            tunnel.wait_for_port(port);
            // The connection that probed the listener.
            drop(listener.accept().unwrap());
            let mut idle = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let _held = listener.accept().unwrap();
            idle.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            assert_eq!(uninterrupted(|| idle.read(&mut [0; 1])).unwrap(), 0, "{config}{option}");
        });
    }
}

/// Covers: ssh_config ChannelTimeout; sshd_config ChannelTimeout
#[test]
fn idle_sessions_end() {
    for (config, option) in [("ChannelTimeout session:command=5s", "none"), ("", "session=5s")] {
        let lab = Lab::new();
        let daemon = Lhsshd::start(&lab, config);
        let pair = Pair::new(&lab, our("lhssh"), daemon.port);
        let option = format!("ChannelTimeout={option}");
        let ran = lab.run(&pair.client, &pair.args(&["-o", &option, "@host", "echo on; exec sleep 1000"]));
        assert_eq!((ran.code, ran.text().as_str()), (255, "on\n"), "{config}{option}: {}", ran.err);
        // Longer than the limit, with room for a machine that stands still for seconds.
        let busy = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do echo on; sleep 0.5; done; exit 3";
        assert_eq!(lab.run(&pair.client, &pair.args(&["-o", &option, "@host", busy])).code, 3);
    }
}

/// A busy session keeps the others open; all end when none has traffic. Configured at either end.
///
/// Covers: ssh_config ChannelTimeout; sshd_config ChannelTimeout
#[test]
fn all_sessions_end_when_none_has_traffic() {
    for (config, option) in [("ChannelTimeout global=5s", "none"), ("", "global=5s")] {
        let lab = Lab::new();
        let daemon = Lhsshd::start(&lab, config);
        let pair = Pair::new(&lab, our("lhssh"), daemon.port);
        let socket = format!("ControlPath={}", lab.arg("ctl"));
        let option = format!("ChannelTimeout={option}");
        let options = ["-o", &socket, "-o", &option];
        let master =
            Tunnel::start(&lab, &pair.client, &pair.args(&[&options[..], &["-MN", "@host"]].concat()));
        master.wait_for_path(&lab.path("ctl"));
        let run = |line: &str| lab.run(&pair.client, &pair.args(&["-o", &socket, "@host", line]));
        std::thread::scope(|scope| {
            let silent = scope.spawn(|| run("sleep 1000; echo woke"));
            // The busy session runs longer than the limit, but is never silent that long; the silent one
            // stays open.
            let busy = run("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do echo on; sleep 0.5; done; exit 3");
            assert_eq!(busy.code, 3, "{config}{option}: {}", busy.err);
            assert!(!silent.is_finished(), "{config}{option}");
            let late = run("sleep 1000; echo woke");
            for ran in [silent.join().unwrap(), late] {
                assert_eq!((ran.code, ran.text().as_str()), (255, ""), "{config}{option}: {}", ran.err);
            }
        });
        // The connection itself stays open.
        assert_eq!(run("exit 5").code, 5, "{config}{option}");
    }
}

/// Covers: ssh -L; ssh -R; ssh -N
#[test]
fn half_closes_resets_and_slow_ends_are_carried_over() {
    each_pair("half_close", "", |pair| {
        ends_are_carried_over(pair, "-L");
        ends_are_carried_over(pair, "-R");
    });
}

fn ends_are_carried_over(pair: &Pair<'_>, flag: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().port();
    let port = free_port();
    let tunnel = pair.tunnel(&[flag, &format!("127.0.0.1:{port}:127.0.0.1:{server}")]);
    tunnel.wait_for_port(port);
    drop(listener.accept().unwrap());
    let connect = || {
        let near = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let far = listener.accept().unwrap().0;
        for each in [&near, &far] {
            each.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        }
        (near, far)
    };
    // Each side closes its half first, and the other half continues.
    for swap in [false, true] {
        let (near, far) = connect();
        let (mut first, mut second) = if swap { (far, near) } else { (near, far) };
        first.write_all(b"question").unwrap();
        first.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        second.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"question");
        second.write_all(b"answer").unwrap();
        drop(second);
        got.clear();
        first.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"answer");
    }
    // A reset ends both sides.
    let (near, mut far) = connect();
    near_reset(near);
    eventually("a reset arrives as an end", || {
        far.write_all(b"x").is_err() || matches!(uninterrupted(|| far.read(&mut [0; 1])), Ok(0) | Err(_))
    });
    // A reader that stops blocks its own connection and no other.
    let (near, far) = connect();
    far.set_nonblocking(true).unwrap();
    let mut stuffed = 0;
    let stuck = Instant::now();
    let mut last = Instant::now();
    while last.elapsed() < Duration::from_millis(700) && stuck.elapsed() < Duration::from_secs(40) {
        match (&far).write(&[1; 65536]) {
            Ok(n) => {
                stuffed += n;
                last = Instant::now();
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    assert!(stuffed < 200 << 20, "{stuffed} bytes for a reader that stopped");
    let (mut other, mut there) = connect();
    there.write_all(b"alive").unwrap();
    other.read_exact(&mut [0; 5]).unwrap();
    drop(near);
}

/// Makes the socket send a reset when it is closed.
fn near_reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

/// Covers: ssh -L
#[test]
fn without_descriptors_connections_wait_and_are_served_later() {
    let lab = Lab::new();
    let daemon = Lhsshd::start(&lab, "");
    let server = sum_server();
    let port = free_port();
    // So few descriptors that a handful of connections uses them up.
    let ulimit = lab.path("few");
    lab.write("few", &format!("#!/bin/sh\nulimit -n 24\nexec '{}' \"$@\"\n", our("lhssh").display()));
    std::fs::set_permissions(&ulimit, std::fs::Permissions::from_mode(0o755)).unwrap();
    let pair = Pair::new(&lab, ulimit, daemon.port);
    let tunnel = pair.tunnel(&["-L", &format!("127.0.0.1:{port}:127.0.0.1:{server}")]);
    tunnel.wait_for_port(port);
    let streams: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    tunnel.wait_for_line("accept: Too many open files");
    let threads: Vec<_> = streams
        .into_iter()
        .map(|stream| std::thread::spawn(move || round_trip_after(stream, 0, 1000)))
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// The kernel's timer of a TCP connection from or to this port of 127.0.0.1: 02 is that of keepalives.
fn timer(local: Option<u16>, remote: Option<u16>) -> Option<String> {
    timers(local, remote).into_iter().next()
}

/// Like [`timer`], of all such connections.
fn timers(local: Option<u16>, remote: Option<u16>) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let is =
        |field: &str, port: Option<u16>| port.is_none_or(|port| field.ends_with(&format!(":{port:04X}")));
    let timer = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // Established connections only, no listeners.
        let found = *fields.get(3)? == "01" && is(fields.get(1)?, local) && is(fields.get(2)?, remote);
        found.then(|| fields.get(5).and_then(|timer| timer.split(':').next()).map(str::to_owned))?
    };
    table.lines().filter_map(timer).collect()
}

/// Covers: sshd_config TCPKeepAlive (all)
#[test]
fn the_kernel_probes_forwarded_connections_where_asked() {
    for (value, on_the_client_s, on_forwards) in
        [("no", false, false), ("yes", true, false), ("transport", true, false), ("all", true, true)]
    {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, &format!("TCPKeepAlive {value}"));
        let pair = Pair::new(&lab, our("lhssh"), server.port);
        let there = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpListener::bind("127.0.0.1:0").unwrap();
        let (target, elsewhere) = (there.local_addr().unwrap().port(), here.local_addr().unwrap().port());
        let (local, remote) = (free_port(), free_port());
        let tunnel = pair.tunnel(&[
            "-L",
            &format!("{local}:127.0.0.1:{target}"),
            "-R",
            &format!("127.0.0.1:{remote}:127.0.0.1:{elsewhere}"),
        ]);
        tunnel.wait_for_port(remote);
        let _first = TcpStream::connect(("127.0.0.1", local)).unwrap();
        let (_second, _) = there.accept().unwrap();
        let _third = TcpStream::connect(("127.0.0.1", remote)).unwrap();
        let (_fourth, _) = here.accept().unwrap();
        for (what, local, remote, is_probed) in [
            ("the client's", Some(server.port), None, on_the_client_s),
            ("opened", None, Some(target), on_forwards),
            ("accepted", Some(remote), None, on_forwards),
        ] {
            // Another timer runs until everything is acknowledged.
            eventually(&format!("TCPKeepAlive {value}: {what}"), || {
                let wanted = if is_probed { "02" } else { "00" };
                timer(local, remote).as_deref() == Some(wanted)
            });
        }
    }
}

/// Covers: ssh_config TCPKeepAlive (all)
#[test]
fn forwarded_connections_get_tcp_keepalives_on_request() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "TCPKeepAlive no");
    for (value, on_the_server_s, on_forwards) in
        [("no", false, false), ("yes", true, false), ("transport", true, false), ("all", true, true)]
    {
        let pair = Pair::new(&lab, our("lhssh"), server.port);
        let near = TcpListener::bind("127.0.0.1:0").unwrap();
        let by_socks = TcpListener::bind("127.0.0.1:0").unwrap();
        let [near_port, socks_port] = [&near, &by_socks].map(|at| at.local_addr().unwrap().port());
        let [local, dynamic, remote, remote_dynamic] = std::array::from_fn(|_| free_port());
        let tunnel = pair.tunnel(&[
            "-o",
            &format!("TCPKeepAlive={value}"),
            "-L",
            &format!("{local}:127.0.0.1:{socks_port}"),
            "-D",
            &dynamic.to_string(),
            "-R",
            &format!("127.0.0.1:{remote}:127.0.0.1:{near_port}"),
            "-R",
            &format!("127.0.0.1:{remote_dynamic}"),
        ]);
        tunnel.wait_for_port(remote_dynamic);
        let [_first, _second, _third, mut socks] = [local, dynamic, remote, remote_dynamic]
            .map(|port| TcpStream::connect(("127.0.0.1", port)).unwrap());
        let [high, low] = socks_port.to_be_bytes();
        socks.write_all(&[4, 1, high, low, 127, 0, 0, 1, 0]).unwrap();
        for (what, local, remote, is_probed) in [
            ("the server's", None, Some(server.port), on_the_server_s),
            ("-L", Some(local), None, on_forwards),
            ("-D", Some(dynamic), None, on_forwards),
            ("-R", None, Some(near_port), on_forwards),
        ] {
            // Another timer runs until everything is acknowledged.
            eventually(&format!("TCPKeepAlive {value}: {what}"), || {
                timer(local, remote).as_deref() == Some(if is_probed { "02" } else { "00" })
            });
        }
        // The server's connection to this listener, for -L, is not probed: the other one is the client's.
        eventually(&format!("TCPKeepAlive {value}: -R without a target"), || {
            let timers = timers(None, Some(socks_port));
            timers.len() == 2
                && timers.iter().filter(|timer| *timer == "02").count() == usize::from(on_forwards)
        });
    }
}
