//! Forwards in every direction and of every kind, between `lhssh`, `lhsshd` and OpenSSH's programs.

use std::io::Read as _;
use std::io::Write as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use lh_interop::tunnel::{
    Pair, Tunnel, each_pair, free_port, round_trip, round_trip_after, round_trip_unix, serve_sums, sum,
    sum_server, sum_server_unix,
};
use lh_interop::{Lab, Lhsshd, Terminal, eventually, find, me, our, peers, skip};

const SIZE: usize = 8 << 20;

/// Covers: ssh -L; ssh -N; ssh_config LocalForward; ssh_config GatewayPorts; sshd_config AllowTcpForwarding; sshd_config AllowStreamLocalForwarding; wire direct-tcpip; wire direct-streamlocal@openssh.com
#[test]
fn local_forwards_join_ports_and_sockets() {
    each_pair("local_forwards", "", |pair| {
        let server = sum_server();
        let socket = pair.lab.path("there.sock");
        let _unix = sum_server_unix(&socket);
        let (tcp, by_name, to_unix) = (free_port(), free_port(), free_port());
        let here = pair.lab.path("here.sock");
        let here_to_unix = pair.lab.path("here2.sock");
        let tunnel = pair.tunnel(&[
            "-L",
            &format!("{tcp}:127.0.0.1:{server}"),
            "-o",
            &format!("LocalForward=127.0.0.1:{by_name} localhost:{server}"),
            "-L",
            &format!("{to_unix}:{}", socket.display()),
            "-L",
            &format!("{}:127.0.0.1:{server}", here.display()),
            "-L",
            &format!("{}:{}", here_to_unix.display(), socket.display()),
        ]);
        tunnel.wait_for_port(to_unix);
        tunnel.wait_for_path(&here_to_unix);
        round_trip(tcp, SIZE);
        round_trip(by_name, 100_000);
        round_trip(to_unix, SIZE);
        round_trip_unix(&here, 100_000);
        round_trip_unix(&here_to_unix, SIZE);
        // Without an address the client listens on both loopback addresses, where the machine has both.
        if TcpListener::bind("[::1]:0").is_ok() {
            assert!(TcpStream::connect(("::1", tcp)).is_ok(), "no listener on ::1");
        }
        let mode = std::fs::metadata(&here).unwrap().permissions().mode();
        assert_eq!(mode & 0o177, 0, "others can reach {here:?}: {mode:o}");
    });
}

/// Covers: ssh -R; ssh_config RemoteForward; sshd_config GatewayPorts; sshd_config StreamLocalBindMask; wire tcpip-forward; wire forwarded-tcpip; wire streamlocal-forward@openssh.com; wire forwarded-streamlocal@openssh.com
#[test]
fn remote_forwards_join_ports_and_sockets() {
    each_pair("remote_forwards", "", |pair| {
        let server = sum_server();
        let socket = pair.lab.path("here.sock");
        let _unix = sum_server_unix(&socket);
        let (tcp, to_unix) = (free_port(), free_port());
        let there = pair.lab.path("there.sock");
        let there_to_unix = pair.lab.path("there2.sock");
        let tunnel = pair.tunnel(&[
            "-R",
            &format!("{tcp}:localhost:{server}"),
            "-R",
            &format!("127.0.0.1:{to_unix}:{}", socket.display()),
            "-o",
            &format!("RemoteForward={} 127.0.0.1:{server}", there.display()),
            "-R",
            &format!("{}:{}", there_to_unix.display(), socket.display()),
            "-R",
            &format!("0:127.0.0.1:{server}"),
        ]);
        tunnel.wait_for_path(&there_to_unix);
        tunnel.wait_for_port(tcp);
        round_trip(tcp, SIZE);
        tunnel.wait_for_port(to_unix);
        round_trip(to_unix, 100_000);
        round_trip_unix(&there, SIZE);
        round_trip_unix(&there_to_unix, 100_000);
        let line = tunnel.wait_for_line("Allocated port ");
        assert!(line.ends_with(&format!(" for remote forward to 127.0.0.1:{server}")), "{line}");
        let allocated = line.split(' ').nth(2).unwrap().parse().unwrap();
        round_trip(allocated, SIZE);
    });
}

/// Acts as a SOCKS client: sends the request, checks the answer, and returns the connection.
fn socks(port: u16, greeting: &[u8], reply: &[u8], request: &[u8], answer: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    if !greeting.is_empty() {
        stream.write_all(greeting).unwrap();
        let mut got = vec![0; reply.len()];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(got, reply);
    }
    stream.write_all(request).unwrap();
    let mut got = vec![0; answer.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(got, answer, "request {request:?}");
    stream
}

/// Checks that apply to both kinds of dynamic forward.
fn exercise_socks(port: u16, server: u16) {
    let [high, low] = server.to_be_bytes();
    let four = socks(port, b"", b"", &[4, 1, high, low, 127, 0, 0, 1, b'm', b'e', 0], &[0, 90]);
    round_trip_after(four, 6, SIZE);
    let mut request = vec![4, 1, high, low, 0, 0, 0, 1, 0];
    request.extend(b"localhost\0");
    round_trip_after(socks(port, b"", b"", &request, &[0, 90]), 6, 1000);
    let hello = (&[5, 2, 2, 0][..], &[5, 0][..]);
    let mut named = vec![5, 1, 0, 3, 9];
    named.extend(b"localhost");
    named.extend([high, low]);
    for request in [vec![5, 1, 0, 1, 127, 0, 0, 1, high, low], named] {
        let stream = socks(port, hello.0, hello.1, &request, &[5, 0, 0]);
        round_trip_after(stream, 7, SIZE);
    }
}

/// Covers: ssh -D; ssh_config DynamicForward
#[test]
fn a_dynamic_forward_supports_every_socks_version() {
    each_pair("dynamic_forward", "", |pair| {
        let server = sum_server();
        let port = free_port();
        let tunnel = pair.tunnel(&["-D", &port.to_string()]);
        tunnel.wait_for_port(port);
        exercise_socks(port, server);
        if let Some(curl) = find("curl") {
            let page = one_page();
            let proxy = format!("socks5h://127.0.0.1:{port}");
            let url = format!("http://localhost:{page}/");
            let ran = pair.lab.run(&curl, &["-sS", "--proxy", &proxy, &url]).ok("curl");
            assert_eq!(ran.text(), "a page\n");
        } else {
            skip("dynamic_forward_with_curl", "not installed: curl");
        }
    });
}

/// A web server for one page.
fn one_page() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\na page\n");
        }
    });
    port
}

/// Covers: ssh -R; ssh_config PermitRemoteOpen
#[test]
fn permit_remote_open_limits_remote_dynamic_forwards() {
    each_pair("remote_dynamic", "", |pair| {
        let server = sum_server();
        let port = free_port();
        let tunnel = pair.tunnel(&["-R", &port.to_string()]);
        tunnel.wait_for_port(port);
        exercise_socks(port, server);
        drop(tunnel);
        let port = free_port();
        let only = format!("PermitRemoteOpen=127.0.0.1:{server}");
        let tunnel = pair.tunnel(&["-R", &port.to_string(), "-o", &only]);
        tunnel.wait_for_port(port);
        let [high, low] = server.to_be_bytes();
        drop(socks(port, &[5, 1, 0], &[5, 0], &[5, 1, 0, 1, 127, 0, 0, 1, high, low], &[5, 0]));
        let mut refused = TcpStream::connect(("127.0.0.1", port)).unwrap();
        refused.write_all(&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 1]).unwrap();
        let mut got = Vec::new();
        let _ = refused.read_to_end(&mut got);
        assert!(got.starts_with(&[5, 0]) && got.get(3) != Some(&0), "{got:?}");
    });
}

/// Covers: ssh -D
#[test]
fn malformed_socks_requests_get_a_reply() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let pair = Pair::new(&lab, our("lhssh"), server.port);
    let port = free_port();
    let tunnel = pair.tunnel(&["-D", &port.to_string()]);
    tunnel.wait_for_port(port);
    // The connection to the port is gone once a later connection is served.
    let mut idle = TcpStream::connect(("127.0.0.1", port)).unwrap();
    idle.shutdown(Shutdown::Write).unwrap();
    assert_eq!(idle.read(&mut [0]).unwrap(), 0, "a silent client gets no data");
    let before = tunnel.descriptors();
    let mut silent = Vec::new();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x05\xff",
        b"\x05\x01\x02",
        b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50",
        b"\x05\x01\x00\x05\x01\x00\x03\x00\x00\x50",
        b"\x04\x01\x00\x50\x7f\x00\x00\x01endless endless endless",
        b"\xff\xff\xff",
        b"",
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(bytes).unwrap();
        silent.push(stream);
    }
    // A closed port is reported as refused.
    let closed = free_port().to_be_bytes();
    let stream = socks(port, &[5, 1, 0], &[5, 0], &[5, 1, 0, 1, 127, 0, 0, 1, closed[0], closed[1]], &[5, 5]);
    drop((stream, silent));
    exercise_socks(port, sum_server());
    eventually("descriptors are given back", || tunnel.descriptors() <= before);
    assert!(tunnel.said().contains("open failed: connect failed: Connection refused"), "{}", tunnel.said());
}

/// Covers: ssh -W; wire direct-tcpip; wire direct-streamlocal@openssh.com
#[test]
fn standard_input_and_output_are_forwarded() {
    each_pair("stdio_forward", "", |pair| {
        let server = sum_server();
        let socket = pair.lab.path("sock");
        let _unix = sum_server_unix(&socket);
        let data = vec![7; 300_000];
        pair.lab.write("data", "");
        std::fs::write(pair.lab.path("data"), &data).unwrap();
        for target in [format!("127.0.0.1:{server}"), socket.display().to_string()] {
            let stdin = Stdio::from(std::fs::File::open(pair.lab.path("data")).unwrap());
            if target.starts_with('/') && !pair.is_ours() {
                // Debian's ssh accepts no sockets here.
                continue;
            }
            let ran = pair.lab.run_with(&pair.client, &pair.args(&["-W", &target]), stdin).ok("-W");
            let expected = sum(&data);
            assert!(ran.out.starts_with(&expected) && ran.out[expected.len()..] == data, "data differ");
        }
        let refused = pair.lab.run(&pair.client, &pair.args(&["-W", &format!("127.0.0.1:{}", free_port())]));
        assert_eq!(refused.code, 255, "{}", refused.err);
        assert!(
            refused.err.contains("open failed: connect failed: Connection refused")
                && refused.err.contains("stdio forwarding failed"),
            "{}",
            refused.err
        );
    });
}

/// Covers: ssh -f; ssh -L; ssh -R
#[test]
fn in_the_background_all_forwards_are_there() {
    each_pair("background", "", |pair| {
        let server = sum_server();
        let (local, back) = (free_port(), free_port());
        let (to, from) = (format!("{local}:127.0.0.1:{server}"), format!("{back}:127.0.0.1:{server}"));
        let exit = "ExitOnForwardFailure=yes";
        let log = pair.lab.arg("log");
        // The client ends when the command does.
        let marker = pair.lab.path("stop");
        let wait = format!("while [ ! -e '{}' ]; do sleep 0.1; done", marker.display());
        let words: Vec<String> = std::iter::once(pair.client.display().to_string())
            .chain(pair.args(&["-E", &log, "-f", "-o", exit, "-L", &to, "-R", &from, "@host", &wait]))
            .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
            .collect();
        // The client keeps its standard descriptors, as ssh does.
        pair.lab.sh(&format!("{} >/dev/null 2>&1", words.join(" "))).ok("-f");
        round_trip(local, 1000);
        round_trip(back, 1000);
        std::fs::write(&marker, "").unwrap();
        eventually("it ends with its command", || TcpStream::connect(("127.0.0.1", back)).is_err());
    });
}

/// Covers: ssh_config EnableEscapeCommandline; ssh ~C; ssh ~#; wire cancel-tcpip-forward
#[test]
fn a_command_line_in_the_session_adds_and_cancels_forwards() {
    each_pair("escape_command_line", "", |pair| {
        let server = sum_server();
        let (local, back, dynamic) = (free_port(), free_port(), free_port());
        let args = pair.args(&["-tt", "-o", "EnableEscapeCommandline=yes", "@host", "cat"]);
        let mut keys = Terminal::start(&pair.client, &args, pair.lab.dir(), &pair.lab.path("home"));
        // OpenSSH's client discards input typed before the prompt.
        let command = |keys: &mut Terminal, line: &str| {
            keys.send("~C");
            keys.expect("ssh> ");
            keys.send(&format!("{line}\r"));
        };
        keys.send("hello\r");
        keys.expect("hello\r\nhello");
        command(&mut keys, &format!("-L {local}:127.0.0.1:{server}"));
        keys.expect("Forwarding port.");
        round_trip(local, 1000);
        command(&mut keys, &format!("-D {dynamic}"));
        keys.expect("Forwarding port.");
        let [high, low] = server.to_be_bytes();
        let request = [5, 1, 0, 1, 127, 0, 0, 1, high, low];
        round_trip_after(socks(dynamic, &[5, 1, 0], &[5, 0], &request, &[5, 0]), 8, 1000);
        command(&mut keys, &format!("-R{back}:127.0.0.1:{server}"));
        eventually("the remote forward is there", || TcpStream::connect(("127.0.0.1", back)).is_ok());
        round_trip(back, 1000);
        let held = TcpStream::connect(("127.0.0.1", local)).unwrap();
        let shown = format!("direct-tcpip: listening port {local} for 127.0.0.1 port {server}");
        eventually("~# shows it", || {
            keys.send("~#");
            keys.expect("The following connections are open:");
            std::thread::sleep(std::time::Duration::from_millis(100));
            keys.screen().contains(&shown)
        });
        for (kind, port) in [("L", local), ("D", dynamic), ("R", back)] {
            command(&mut keys, &format!("-K{kind}{port}"));
            if kind != "R" {
                keys.expect("Canceled forwarding.");
            }
            eventually("it is gone", || TcpStream::connect(("127.0.0.1", port)).is_err());
        }
        command(&mut keys, "nonsense");
        keys.expect("Invalid command.");
        drop(held);
        keys.send("~.");
        assert_eq!(keys.wait(), 255);
    });
}

/// Covers: ssh -L; ssh -R; ssh -D; ssh -W; ssh_config AddressFamily
#[test]
fn forwards_have_addresses_of_either_family() {
    let listener = match TcpListener::bind("[::1]:0") {
        Ok(listener) => listener,
        Err(error) => return skip("forwards_have_addresses", &format!("no IPv6: {error}")),
    };
    let server = listener.local_addr().unwrap().port();
    serve_sums(listener);
    each_pair("ipv6", "", |pair| {
        let (local, back, dynamic, only) = (free_port(), free_port(), free_port(), free_port());
        let tunnel = pair.tunnel(&[
            "-L",
            &format!("[::1]:{local}:[::1]:{server}"),
            "-R",
            &format!("[::1]:{back}:[::1]:{server}"),
            "-D",
            &format!("[::1]:{dynamic}"),
        ]);
        for port in [local, back, dynamic] {
            tunnel.wait_for("::1", port);
            assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "only there");
        }
        let at = |port: u16| TcpStream::connect(("::1", port)).unwrap();
        round_trip_after(at(local), 0, SIZE);
        round_trip_after(at(back), 0, SIZE);
        let mut stream = at(dynamic);
        // An address of 16 bytes in the request.
        stream.write_all(&[5, 1, 0, 5, 1, 0, 4]).unwrap();
        stream.write_all(&std::net::Ipv6Addr::LOCALHOST.octets()).unwrap();
        stream.write_all(&server.to_be_bytes()).unwrap();
        round_trip_after(stream, 12, SIZE);
        let ran = pair.lab.run(&pair.client, &pair.args(&["-W", &format!("[::1]:{server}")])).ok("-W");
        assert_eq!(ran.out, sum(b""));
        // With one family wanted, the client does not listen on the other.
        let family = "AddressFamily=inet";
        let tunnel = pair.tunnel(&["-o", family, "-L", &format!("{only}:[::1]:{server}")]);
        tunnel.wait_for_port(only);
        assert!(TcpStream::connect(("::1", only)).is_err());
        round_trip(only, 1000);
    });
}

/// Covers: wire direct-tcpip; wire tcpip-forward
#[test]
fn dropbear_and_putty_forward_through_our_server() {
    let lab = Lab::new();
    let daemon = Lhsshd::start(&lab, "");
    let server = sum_server();
    let run = |program: &Path, args: Vec<String>, name: &str| {
        let (local, back) = (free_port(), free_port());
        let mut all = args;
        let forwards =
            ["-L", &format!("{local}:127.0.0.1:{server}"), "-R", &format!("{back}:127.0.0.1:{server}")]
                .map(str::to_owned);
        all.splice(0..0, forwards);
        let tunnel = Tunnel::start(&lab, program, &all);
        tunnel.wait_for_port(local);
        tunnel.wait_for_port(back);
        round_trip(local, SIZE);
        round_trip(back, SIZE);
        drop(tunnel);
        println!("{name} forwards");
    };
    if let Some([dbclient, convert]) = peers("dropbear_forward", ["dbclient", "dropbearconvert"]) {
        let key = lab.arg("user.dropbear");
        lab.run(&convert, &["openssh", "dropbear", &lab.arg("user_ed25519"), &key]).ok("dropbearconvert");
        let (port, host) = (daemon.port_arg(), format!("{}@127.0.0.1", me()));
        let args = ["-N", "-y", "-y", "-i", &key, "-p", &port, &host];
        run(&dbclient, args.map(str::to_owned).to_vec(), "dbclient");
    }
    if let Some([plink, puttygen]) = peers("putty_forward", ["plink", "puttygen"]) {
        let key = lab.arg("user.ppk");
        lab.run(&puttygen, &[&lab.arg("user_ed25519"), "-O", "private", "-o", &key]).ok("puttygen");
        let print =
            lab.sh(&format!("ssh-keygen -lf '{}' | cut -d' ' -f2", lab.arg("host_ed25519.pub"))).ok("print");
        let print = print.text();
        let (port, host) = (daemon.port_arg(), format!("{}@127.0.0.1", me()));
        let args = ["-batch", "-N", "-i", &key, "-hostkey", print.trim(), "-P", &port, &host];
        run(&plink, args.map(str::to_owned).to_vec(), "plink");
    }
}
