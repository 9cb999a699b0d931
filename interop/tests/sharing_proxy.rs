//! Proxy mode of shared connections: mux clients that speak SSH themselves, with Longhaul's masters and
//! OpenSSH's. `lhscp` and `lhsftp` use masters in this way.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lh_interop::sharing::{SharingSetup, each_mix, greet};
use lh_interop::tunnel::{free_port, round_trip, sum_server};
use lh_interop::{assert_same_file, assert_same_tree, eventually, make_blob, make_tree, our};

/// Returns the arguments of a client in proxy mode that cannot log in by itself.
fn proxied<'a>(given: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["-O", "proxy"];
    words.extend(given);
    words
}

/// A client in proxy mode, in the background; killed when dropped.
struct Client(Child);

impl Client {
    fn start(setup: &SharingSetup, given: &[&str], stdin: Stdio, stdout: Stdio) -> Self {
        let mut words = vec!["-o", "IdentityFile=/nonexistent", "-o", "IdentityAgent=none"];
        words.extend(proxied(given));
        let mut command = Command::new(&setup.client);
        command.args(setup.args(&words)).env("HOME", setup.lab.path("home"));
        Self(command.stdin(stdin).stdout(stdout).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Covers: ssh -O proxy; wire mux
#[test]
fn sessions_run_in_proxy_mode() {
    each_mix("sharing_proxy", "", |setup| {
        let _master = setup.start_master(&[]);
        let ran = setup.run_mux_client(&proxied(&["@", "echo out; echo err >&2; exit 7"]));
        assert_eq!((ran.code, ran.text().as_str(), ran.err.as_str()), (7, "out\n", "err\n"));
        let data: Vec<u8> = (0..4_000_000_u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(setup.lab.path("bulk"), &data).unwrap();
        let stdin = Stdio::from(std::fs::File::open(setup.lab.path("bulk")).unwrap());
        let ran = setup.run_mux_client_with(&proxied(&["@", "cat"]), stdin).ok("bulk");
        assert!(ran.out == data, "the data came back changed");
        let ran = setup.run_mux_client(&proxied(&["-tt", "@", "test -t 0 && echo terminal"])).ok("-tt");
        assert!(ran.text().contains("terminal"), "{}", ran.text());
        // Ordinary mux clients work beside it.
        assert_eq!(setup.run_mux_client(&["@", "echo beside"]).ok("beside").text(), "beside\n");
        assert_eq!(setup.logins(), 1);
    });
}

/// Covers: ssh -O proxy; ssh -L; ssh -R
#[test]
fn forwards_of_clients_in_proxy_mode() {
    each_mix("sharing_proxy_forwards", "", |setup| {
        let _master = setup.start_master(&[]);
        let target = sum_server();
        let (local, remote) = (free_port(), free_port());
        let here = format!("127.0.0.1:{local}:127.0.0.1:{target}");
        let there = format!("127.0.0.1:{remote}:127.0.0.1:{target}");
        let client =
            Client::start(setup, &["-N", "-L", &here, "-R", &there, "@"], Stdio::null(), Stdio::null());
        for port in [local, remote] {
            eventually("the listener is there", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
            round_trip(port, 3_000_000);
        }
        drop(client);
        if setup.master == our("lhssh") {
            eventually("the listener goes with its client", || {
                std::net::TcpStream::connect(("127.0.0.1", remote)).is_err()
            });
        }
        assert_eq!(setup.logins(), 1);
    });
}

/// Covers: ssh_config ControlPath; ssh_config ControlMaster; scp -o; sftp -o
#[test]
fn copies_go_through_a_master() {
    each_mix("sharing_proxy_copies", "", |setup| {
        if setup.client != our("lhssh") {
            return;
        }
        let _master = setup.start_master(&[]);
        let lab = &setup.lab;
        make_blob(&lab.path("blob"), 20_000_000);
        make_tree(&lab.path("tree"), 40);
        let host = format!("{}@127.0.0.1", lh_interop::me());
        let run = |program: &str, words: &[&str]| {
            let mut args = lab.client_options();
            let path = format!("ControlPath={}", lab.arg("ctl"));
            for option in [path.as_str(), "IdentityFile=/nonexistent", "IdentityAgent=none"] {
                args.splice(0..0, ["-o".to_owned(), option.to_owned()]);
            }
            args.extend(["-P".to_owned(), setup.server.port_arg()]);
            args.extend(words.iter().map(|&word| word.to_owned()));
            lab.run(&our(program), &args)
        };
        let there = |name: &str| format!("{host}:{}", lab.arg(name));
        run("lhscp", &["blob", &there("up")]).ok("upload");
        assert_same_file(&lab.path("blob"), &lab.path("up"));
        run("lhscp", &[&there("up"), "down"]).ok("download");
        assert_same_file(&lab.path("blob"), &lab.path("down"));
        run("lhscp", &["-O", "blob", &there("old")]).ok("the old protocol");
        assert_same_file(&lab.path("blob"), &lab.path("old"));
        run("lhscp", &["-r", "tree", &there("trees")]).ok("tree");
        assert_same_tree(&lab.path("tree"), &lab.path("trees"));
        lab.write("batch", &format!("get {} got\n", lab.arg("blob")));
        run("lhsftp", &["-b", "batch", &host]).ok("lhsftp");
        assert_same_file(&lab.path("blob"), &lab.path("got"));
        assert_eq!(setup.logins(), 1, "everything went over one connection");
    });
}

/// Covers: ssh -O proxy; ssh_config ControlMaster
#[test]
fn bulk_in_proxy_mode_does_not_hold_up_others() {
    each_mix("sharing_proxy_fairness", "", |setup| {
        let _master = setup.start_master(&[]);
        let zeros = || Stdio::from(std::fs::File::open("/dev/zero").unwrap());
        let mut up = Client::start(setup, &["@", "cat > /dev/null"], zeros(), Stdio::null());
        let mut down = Client::start(setup, &["@", "cat /dev/zero"], Stdio::null(), Stdio::piped());
        let mut output = down.0.stdout.take().unwrap();
        let mut buffer = vec![0; 1 << 20];
        output.read_exact(&mut buffer).unwrap();
        let reader = std::thread::spawn(move || while output.read(&mut buffer).is_ok_and(|read| read > 0) {});
        for number in 0..10 {
            let echo = format!("echo {number}");
            let words = ["@", echo.as_str()];
            let ran = if number % 2 == 0 {
                setup.run_mux_client(&words)
            } else {
                setup.run_mux_client(&proxied(&words))
            };
            assert_eq!(ran.ok("echo").text(), format!("{number}\n"));
        }
        for client in [&mut up, &mut down] {
            assert!(client.0.try_wait().unwrap().is_none(), "the bulk went on all the while");
        }
        drop((up, down));
        reader.join().unwrap();
        assert_eq!(setup.logins(), 1);
    });
}

/// Connects to the master and enters proxy mode.
fn by_hand(socket: &Path) -> UnixStream {
    let mut stream = greet(socket);
    stream.write_all(b"\0\0\0\x08\x10\0\0\x0f\0\0\0\0").unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..8], [0x80, 0, 0, 0x0f]);
    stream
}

fn frame(message: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(message.len() + 1).unwrap().to_be_bytes().to_vec();
    frame.push(0);
    frame.extend(message);
    frame
}

/// CHANNEL_OPEN of a session, number 5, with 1 MiB of window.
const OPEN: &[u8] = b"\x5a\0\0\0\x07session\0\0\0\x05\0\x10\0\0\0\0\x80\0";

/// Covers: ssh -O proxy; wire mux
#[test]
fn a_faulty_proxy_mode_client_ends_alone() {
    let setup = SharingSetup::new(our("lhssh"), our("lhssh"), "");
    let master = setup.start_master(&[]);
    setup.run_mux_client(&["@", "true"]).ok("one");
    let before = master.descriptors();
    let read_frame = |stream: &mut UnixStream| {
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let mut rest = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut rest).unwrap();
        rest[1..].to_vec()
    };
    // Data that are no message, or a message that is not allowed at this point.
    for wrong in [
        b"GET / HTTP/1.0\r\n\r\n".to_vec(),
        b"\xff\xff\xff\xff\0".to_vec(),
        b"\0\0\0\x0c\x04".to_vec(),
        frame(b"\x5a\0\0\0\xff"),
        // Another client's channel, which is the server's first.
        frame(b"\x61\0\0\0\0"),
        frame(b"\x5e\0\0\0\0\0\0\0\x01x"),
    ] {
        let mut stream = by_hand(&setup.socket());
        stream.write_all(&wrong).unwrap();
        assert!(stream.read_to_end(&mut Vec::new()).is_ok(), "the master hangs up");
    }
    // Data beyond the server's window, and after EOF and CLOSE.
    for end in ["window", "eof", "close"] {
        let mut stream = by_hand(&setup.socket());
        stream.write_all(&frame(OPEN)).unwrap();
        let accepted = read_frame(&mut stream);
        assert_eq!(accepted[..5], [0x5b, 0, 0, 0, 5], "its own number");
        let server = &accepted[5..9];
        let data = [&[0x5e][..], server, &1000_u32.to_be_bytes(), &[0; 1000]].concat();
        let wrong = match end {
            // A program that never reads, so the window does not grow.
            "window" => {
                let program = [&[0x62][..], server, b"\0\0\0\x04exec\0\0\0\0\x08sleep 60"].concat();
                [frame(&program), frame(&data).repeat(100_000)].concat()
            }
            "eof" => [frame(&[&[0x60][..], server].concat()), frame(&data)].concat(),
            _ => [frame(&[&[0x61][..], server].concat()), frame(&data)].concat(),
        };
        // The master closes the connection during this write.
        let _ = stream.write_all(&wrong);
        let ended = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        assert!(
            ended.is_ok() || ended == Err(ErrorKind::ConnectionReset),
            "{end}: the master hangs up: {ended:?}"
        );
    }
    // A silent client, and one in the middle of a message: when they leave, nothing remains.
    let mut silent = by_hand(&setup.socket());
    silent.write_all(&frame(OPEN)[..9]).unwrap();
    drop(silent);
    let said = setup.lab.read("master.log");
    assert!(said.contains("in proxy mode sent data beyond the window"), "{said}");
    eventually("nothing of them is left", || master.descriptors() <= before);
    setup.run_mux_client(&["@", "true"]).ok("others go on");
    assert_eq!(setup.logins(), 1);
}

/// Covers: ssh -O proxy; ssh_config ControlPersist
#[test]
fn proxy_mode_clients_leave_nothing_behind() {
    let setup = SharingSetup::new(our("lhssh"), our("lhssh"), "");
    let options = ["-o", "ControlMaster=auto", "-o", "ControlPersist=5"];
    let mut first = options.to_vec();
    first.extend(["@", "true"]);
    // The master is in use while such a client is connected, longer than it would otherwise stay.
    setup.lab.run(&setup.master, &setup.args(&first)).ok("master");
    let ran = setup.run_mux_client(&proxied(&["@", "sleep 8; echo still there"])).ok("long");
    assert_eq!(ran.text(), "still there\n");
    eventually("it goes when nobody comes", || !setup.socket().exists());
    let _master = setup.start_master(&[]);
    let closed = || setup.server.log().matches("Close session").count();
    let before = closed();
    let mut client = Client::start(&setup, &["@", "echo on; exec sleep 1000"], Stdio::null(), Stdio::piped());
    client.0.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
    drop(client);
    eventually("the session of a client that was killed ends", || closed() == before + 1);
}

/// Covers: ssh -O conninfo; ssh -O channels
#[test]
fn master_reports_connection_and_channels() {
    each_mix("sharing_information", "", |setup| {
        if setup.client != our("lhssh") {
            return;
        }
        let _master = setup.start_master(&[]);
        if setup.master != our("lhssh") {
            // OpenSSH has this reply since 10.1.
            let refused = setup.run_mux_client(&["-O", "conninfo", "@"]);
            assert_eq!(refused.code, 255);
            assert!(refused.err.contains("not supported by the master"), "{}", refused.err);
            return;
        }
        let text = setup.run_mux_client(&["-O", "conninfo", "@"]).ok("conninfo").text();
        assert!(text.contains("  versions Longhaul_") && text.contains(" -> Longhaul_"), "{text}");
        assert!(text.contains("kexalgorithm mlkem768x25519-sha256"), "{text}");
        let line = |begin: &str| text.lines().any(|line| line.trim_start().starts_with(begin));
        assert!(text.contains(&format!(" -> 127.0.0.1:{}\n", setup.server.port)), "{text}");
        for begin in ["kexalgorithm ", "hostkeyalgorithm ", "cipher ", "mac ", "compression none", "traffic "]
        {
            assert!(line(begin), "{begin}: {text}");
        }
        let mut client = Client::start(setup, &["@", "echo on; exec cat"], Stdio::piped(), Stdio::piped());
        client.0.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
        let text = setup.run_mux_client(&["-O", "channels", "@"]).ok("channels").text();
        assert_eq!(text, "The following connections are open:\n  #0 mux-proxy\n");
    });
}
