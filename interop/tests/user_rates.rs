//! Rates of all connections of a user together: `PerUserReceiveRate` and `PerUserSendRate`. The tests only
//! check that copies take long enough, so a slow machine cannot make them fail.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lh_interop::cuts::{Break, Cuts};
use lh_interop::tunnel::{Pair, free_port, round_trip, sum_server};
use lh_interop::{Lab, Lhsshd, TestUser, assert_same_file, eventually, is_root, make_blob, me, our, skip};
use rustix::process::{Pid, Signal, kill_process};

/// Size of the copied file, bytes: two seconds at the rate.
const SIZE: usize = 2 << 20;

/// The rates of most tests, 1 MB/s in bit/s, in a file of their own, whose end ends the block.
fn start(lab: &Lab) -> Lhsshd {
    make_blob(&lab.path("blob"), SIZE);
    lab.write("rules", &format!("Match User {}\nPerUserReceiveRate 8M\nPerUserSendRate 8M\n", me()));
    Lhsshd::start(lab, &format!("Include {}", lab.arg("rules")))
}

/// Least time in which the server may pass so many copies: less than at the rate, because a burst goes ahead.
fn least(copies: u32) -> Duration {
    Duration::from_millis(1700) * copies
}

/// Begins to copy the blob to or from the server on this port.
fn copy(lab: &Lab, port: u16, up: bool, copy: &str, flags: &[&str]) -> Child {
    let there = |name: &str| format!("{}@127.0.0.1:{}", me(), lab.arg(name));
    let mut args = lab.client_options();
    args.extend(["-q".to_owned(), "-P".to_owned(), port.to_string()]);
    args.extend(flags.iter().map(|&flag| flag.to_owned()));
    args.extend(if up { [lab.arg("blob"), there(copy)] } else { [there("blob"), lab.arg(copy)] });
    Command::new(our("lhscp")).args(args).env("HOME", lab.path("home")).spawn().unwrap()
}

/// Waits for these copies.
fn wait(lab: &Lab, copies: Vec<(Child, &str)>) {
    for (mut child, name) in copies {
        assert!(child.wait().unwrap().success(), "{name}");
        assert_same_file(&lab.path("blob"), &lab.path(name));
        std::fs::remove_file(lab.path(name)).unwrap();
    }
}

/// Covers: sshd_config PerUserReceiveRate; sshd_config PerUserSendRate; sshd_config Match
#[test]
fn connections_of_a_user_share_their_rates() {
    let lab = Lab::new();
    let server = start(&lab);
    for up in [true, false] {
        let begin = Instant::now();
        let copies = ["one", "two", "three"].map(|name| (copy(&lab, server.port, up, name, &["-j1"]), name));
        wait(&lab, copies.into());
        assert!(begin.elapsed() >= least(3), "up: {up}: {:?}", begin.elapsed());
    }
    assert!(!server.log().contains("the rate is that of this connection alone"), "{}", server.log());
    // Programs of the user have no descriptor of what the connections share.
    let client = lab.shell_command(&our("lhssh"), server.port);
    let ran = lab.sh(&format!("{client} {}@127.0.0.1 'ls -l /proc/self/fd'", me())).ok("descriptors");
    assert!(ran.text().contains(" 0 ->") && !ran.text().contains("rates-"), "{}", ran.text());
}

/// Additional connections of one session share, too.
///
/// Covers: sshd_config PerUserReceiveRate; sshd_config PerUserSendRate; sshd_config LonghaulTickets
#[test]
fn additional_connections_share_the_rates_of_their_user() {
    let lab = Lab::new();
    // Six seconds at the rate, so that every connection is open before the copy ends.
    make_blob(&lab.path("blob"), 24_000_001);
    let server = Lhsshd::start(&lab, "PerUserReceiveRate 32M\nPerUserSendRate 32M");
    for (up, joined) in [(true, 2), (false, 4)] {
        let begin = Instant::now();
        wait(&lab, vec![(copy(&lab, server.port, up, "copy", &["-j3"]), "copy")]);
        assert!(begin.elapsed() >= Duration::from_secs(5), "up: {up}: {:?}", begin.elapsed());
        assert_eq!(server.log().matches("Accepted ticket for").count(), joined, "{}", server.log());
    }
}

/// Covers: sshd_config PerUserReceiveRate
#[test]
fn connections_share_their_rate_over_a_reload() {
    let lab = Lab::new();
    let server = start(&lab);
    let begin = Instant::now();
    let before = copy(&lab, server.port, true, "one", &["-j1"]);
    eventually("it is logged in", || server.log().contains("Accepted publickey"));
    kill_process(Pid::from_raw(server.pid().cast_signed()).unwrap(), Signal::HUP).unwrap();
    eventually("it listens again", || server.log().matches("Server listening on").count() == 2);
    let after = copy(&lab, server.port, true, "two", &["-j1"]);
    wait(&lab, vec![(before, "one"), (after, "two")]);
    assert!(begin.elapsed() >= least(2), "{:?}", begin.elapsed());
}

/// Covers: sshd_config PerUserReceiveRate; sshd_config PerUserSendRate; sshd_config ResumeGrace
#[test]
fn resumed_connections_share_the_rates_of_their_user() {
    let lab = Lab::new();
    let server = start(&lab);
    for (up, resumptions) in [(true, 1), (false, 2)] {
        let cuts = Cuts::to(server.port, vec![(SIZE as u64 / 4, Break::Reset)]);
        lab.know(cuts.port);
        let begin = Instant::now();
        let resumed = copy(&lab, cuts.port, up, "resumed", &["-j1", "-oResume=yes", "--retries", "0"]);
        let other = copy(&lab, server.port, up, "other", &["-j1"]);
        wait(&lab, vec![(resumed, "resumed"), (other, "other")]);
        assert!(begin.elapsed() >= least(2), "up: {up}: {:?}", begin.elapsed());
        assert_eq!(cuts.broken(), 1);
        server.await_resumptions(resumptions);
    }
}

/// A user without a rate is not slowed by one whose rate is used up.
///
/// Covers: sshd_config PerUserReceiveRate; sshd_config Match User
#[test]
fn other_users_do_not_share_the_rates() {
    if !is_root() {
        return skip("other_users_do_not_share_the_rates", "needs root to add a user");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    // At 1 kB/s a copy would take half an hour.
    lab.write("rules", &format!("Match User {}\nPerUserReceiveRate 8K\nPerUserSendRate 8K\n", user.name));
    let keys = format!("AuthorizedKeysFile {} .ssh/authorized_keys", lab.arg("authorized_keys"));
    let server = Lhsshd::start(&lab, &format!("{keys}\nInclude {}", lab.arg("rules")));
    make_blob(&lab.path("blob"), SIZE);
    let mut args = lab.client_options();
    let command = "cat > /dev/null".to_owned();
    args.extend(["-p".to_owned(), server.port_arg(), format!("{}@127.0.0.1", user.name), command]);
    let mut slow = Command::new(our("lhssh"))
        .args(args)
        .env("HOME", lab.path("home"))
        .stdin(std::fs::File::open("/dev/zero").unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let accepted = format!("Accepted publickey for {}", user.name);
    eventually("the other user is logged in", || server.log().contains(&accepted));
    let begin = Instant::now();
    for up in [true, false] {
        wait(&lab, vec![(copy(&lab, server.port, up, "copy", &[]), "copy")]);
    }
    assert!(begin.elapsed() < Duration::from_secs(900), "{:?}", begin.elapsed());
    slow.kill().unwrap();
    slow.wait().unwrap();
}

/// What forwarded connections carry counts, in both directions, and the pauses are not taken for a dead
/// client.
///
/// Covers: sshd_config PerUserReceiveRate; sshd_config PerUserSendRate; sshd_config ClientAliveInterval
#[test]
fn forwarded_connections_share_the_rates_of_their_user() {
    let lab = Lab::new();
    let rules = "PerUserReceiveRate 8M\nPerUserSendRate 8M\nClientAliveInterval 1\nClientAliveCountMax 1";
    let server = Lhsshd::start(&lab, rules);
    let pair = Pair::new(&lab, our("lhssh"), server.port);
    let (sums, local, remote) = (sum_server(), free_port(), free_port());
    let local_tunnel = pair.tunnel(&["-L", &format!("{local}:127.0.0.1:{sums}")]);
    let remote_tunnel = pair.tunnel(&["-R", &format!("{remote}:127.0.0.1:{sums}")]);
    local_tunnel.wait_for_port(local);
    remote_tunnel.wait_for_port(remote);
    let begin = Instant::now();
    // Each carries the data in both directions.
    let other = std::thread::spawn(move || round_trip(remote, SIZE));
    round_trip(local, SIZE);
    other.join().unwrap();
    assert!(begin.elapsed() >= least(2), "{:?}", begin.elapsed());
    round_trip(local, 1000);
    round_trip(remote, 1000);
    assert!(!server.log().contains("Timeout, client not responding"), "{}", server.log());
}

/// Covers: sshd_config PerUserReceiveRate; sshd_config PerUserSendRate; sshd -T; sshd -t
#[test]
fn rates_of_users_are_printed_and_checked() {
    let lab = Lab::new();
    let lhsshd = |flag: &str, lines: &str| {
        lab.write("config", &format!("HostKey {}\n{lines}\n", lab.arg("host_ed25519")));
        lab.run(&our("lhsshd"), &[flag.to_owned(), "-f".to_owned(), lab.arg("config")])
    };
    let shown = lhsshd("-T", "PerUserReceiveRate 200M\nPerUserSendRate 1500000").ok("-T").text();
    assert!(shown.contains("peruserreceiverate 200M\nperusersendrate 1500K\n"), "{shown}");
    for lines in ["", "PerUserReceiveRate none\nPerUserSendRate none"] {
        assert!(!lhsshd("-T", lines).ok("-T").text().contains("peruserreceiverate"));
    }
    for value in ["0", "1", "7K", "-1", "1.5M", "fast", ""] {
        for keyword in ["PerUserReceiveRate", "PerUserSendRate"] {
            let ran = lhsshd("-t", &format!("{keyword} {value}"));
            assert_ne!(ran.code, 0, "{keyword} {value}");
            assert!(ran.err.to_lowercase().contains(&keyword.to_lowercase()), "{}", ran.err);
        }
    }
}
