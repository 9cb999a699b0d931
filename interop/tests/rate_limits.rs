//! Rate limits: `-l` of the copy programs, `TcpPacing` and `ReceiveRate`. The tests only check that a copy
//! takes long enough, so a slow machine cannot make them fail.

use std::time::{Duration, Instant};

use lh_interop::{Lab, Lhsshd, assert_same_file, make_blob, me, our};

/// Size of the copied file, bytes: two seconds at 1 MiB/s.
const SIZE: usize = 2 << 20;

/// Least time of a copy: less than two seconds, because the first data may go ahead of the limit.
const LEAST: Duration = Duration::from_millis(1300);

/// Copies the blob with these flags, and returns the time it took.
fn copy(lab: &Lab, server: &Lhsshd, program: &str, flags: &[&str], up: bool) -> Duration {
    let (from, to) = (lab.arg("blob"), lab.arg("copy"));
    let mut args = lab.client_options();
    args.extend(["-P".to_owned(), server.port_arg()]);
    args.extend(flags.iter().map(|&flag| flag.to_owned()));
    let there = format!("{}@127.0.0.1", me());
    if program == "lhsftp" {
        lab.write("batch", &format!("{} {from} {to}\n", if up { "put" } else { "get" }));
        args.extend(["-b".to_owned(), lab.arg("batch"), there]);
    } else if up {
        args.extend([from, format!("{there}:{to}")]);
    } else {
        args.extend([format!("{there}:{from}"), to]);
    }
    let start = Instant::now();
    lab.run(&our(program), &args).ok(program);
    let took = start.elapsed();
    assert_same_file(&lab.path("blob"), &lab.path("copy"));
    std::fs::remove_file(lab.path("copy")).unwrap();
    took
}

/// Covers: scp -l; sftp -l
#[test]
fn copies_keep_their_rate_limit() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), SIZE);
    for (program, flags) in [("lhscp", &[][..]), ("lhscp", &["-O"]), ("lhsftp", &[])] {
        for up in [true, false] {
            // Kbit/s.
            let took = copy(&lab, &server, program, &[flags, &["-l", "8192"]].concat(), up);
            assert!(took >= LEAST, "{program} {flags:?}, up: {up}: {took:?}");
        }
    }
}

/// Covers: ssh_config TcpPacing; sshd_config TcpPacing
#[test]
fn tcp_pacing_limits_the_rate() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), SIZE);
    // bit/s.
    let server = Lhsshd::start(&lab, "");
    let took = copy(&lab, &server, "lhscp", &["-o", "TcpPacing=8M"], true);
    assert!(took >= LEAST, "client: {took:?}");
    let server = Lhsshd::start(&lab, "TcpPacing 8M");
    let took = copy(&lab, &server, "lhscp", &[], false);
    assert!(took >= LEAST, "server: {took:?}");
}

/// Covers: sshd_config ReceiveRate; sshd_config Match
#[test]
fn receive_rate_limits_what_a_client_sends() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), SIZE);
    // bit/s.
    // In a file of its own, whose end ends the block.
    lab.write("rules", &format!("Match User {}\nReceiveRate 8M\n", me()));
    let server = Lhsshd::start(&lab, &format!("Include {}", lab.arg("rules")));
    let took = copy(&lab, &server, "lhscp", &[], true);
    assert!(took >= LEAST, "up: {took:?}");
    let client = lab.shell_command(&our("lhssh"), server.port);
    let start = Instant::now();
    let (from, to) = (lab.arg("blob"), lab.arg("copy"));
    lab.sh(&format!("{client} {}@127.0.0.1 'cat > {to}' < {from}", me())).ok("a pipe");
    assert!(start.elapsed() >= LEAST, "pipe: {:?}", start.elapsed());
    assert_same_file(&lab.path("blob"), &lab.path("copy"));
}
