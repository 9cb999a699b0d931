//! `longhaul sessions` lists and ends sessions of a server on this host. Limits on the number of waiting
//! sessions (`ResumeMaxSessions`) and on their memory (`ResumeMaxMemory`).

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use lh_interop::cuts::{Break, Cuts};
use lh_interop::{Lab, Lhsshd, Ran, TestUser, eventually, is_root, me, our, skip};
use serde_json::Value;

/// A client that runs until its input ends.
struct Client(Child);

impl Client {
    /// Starts `cat`, or another command, for this user at this port.
    fn start(lab: &Lab, port: u16, user: &str, options: &[&str], rest: &[&str]) -> Self {
        let mut args = lab.client_options();
        for option in options.iter().chain(&["ServerAliveInterval=1", "ServerAliveCountMax=3"]) {
            args.extend(["-o".to_owned(), (*option).to_owned()]);
        }
        args.extend(["-p".to_owned(), port.to_string(), "-l".to_owned(), user.to_owned()]);
        args.extend(rest.iter().map(|word| (*word).to_owned()));
        let child = Command::new(our("lhssh"))
            .args(args)
            .env("HOME", lab.path("home"))
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn cat(lab: &Lab, port: u16, options: &[&str]) -> Self {
        Self::start(lab, port, &me(), options, &["127.0.0.1", "cat"])
    }

    /// Ends the client without a word to the server.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn longhaul(lab: &Lab, args: &[&str]) -> Ran {
    lab.run(&our("longhaul"), args)
}

/// The sessions whose monitors are processes below this one: other tests' servers may run on this host.
fn sessions_of(lab: &Lab, server: u32) -> Vec<Value> {
    let ran = longhaul(lab, &["sessions", "--json"]);
    let below = lh_interop::process::family(server);
    let text = String::from_utf8(ran.out).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|one: &Value| below.iter().any(|pid| one["pid"] == *pid))
        .collect()
}

fn session_when(lab: &Lab, server: u32, what: &str, is_right: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    eventually(what, || {
        let session = sessions_of(lab, server).into_iter().find(|one| is_right(one));
        session.is_some_and(|session| {
            found = session;
            true
        })
    });
    found
}

/// A session whose connection is reset after 20,000 bytes; none of those behind it comes through.
fn session_to_be_cut(lab: &Lab, server: &Lhsshd) -> (Cuts, Client, Value) {
    let plan = [(20_000, Break::Reset)].into_iter().chain([(0, Break::End); 400]).collect();
    let cuts = Cuts::to(server.port, plan);
    lab.know(cuts.port);
    let client = Client::cat(lab, cuts.port, &["Resume=yes"]);
    let session = session_when(lab, server.pid(), "it is listed", |one| one["commands"] == 1);
    (cuts, client, session)
}

/// A session that waits is listed, ended, and cannot be resumed.
///
/// Covers: longhaul --end; longhaul --json; sshd_config ResumeGrace
#[test]
fn a_session_that_waits_is_listed_and_ended() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 10m\n");
    let (_cuts, mut client, session) = session_to_be_cut(&lab, &server);
    assert_eq!((&session["version"], &session["state"]), (&1.into(), &"connected".into()));
    assert_eq!((&session["user"], &session["address"]), (&me().into(), &"127.0.0.1".into()));
    assert_eq!((&session["resumable"], &session["left"]), (&true.into(), &Value::Null));
    // The rest of the 20,000 bytes, and more.
    client.0.stdin.as_mut().unwrap().write_all(&[b'x'; 30_000]).unwrap();
    let waiting = session_when(&lab, server.pid(), "it waits", |one| one["state"] == "waiting");
    assert_eq!(waiting["id"], session["id"]);
    let left = waiting["left"].as_u64().unwrap();
    assert!((1..=600).contains(&left), "{left}");
    let id = session["id"].as_str().unwrap();
    let table = longhaul(&lab, &["sessions"]).ok("longhaul sessions").text();
    let line = table.lines().find(|line| line.starts_with(id)).unwrap();
    assert!(line.contains(&me()) && line.contains("waiting for ") && line.contains("command"), "{line}");
    let ran = longhaul(&lab, &["sessions", "--end", id]).ok("longhaul sessions --end");
    assert_eq!(ran.text(), format!("{id}: ended\n"));
    assert!(sessions_of(&lab, server.pid()).iter().all(|one| one["id"] != session["id"]));
    let again = longhaul(&lab, &["sessions", "--end", id]);
    assert_eq!(again.code, 1);
    assert_eq!(again.err, format!("longhaul: sessions: no session {id}, or it is another user's\n"));
    client.kill();
    assert!(server.log().contains("(longhaul sessions)"), "{}", server.log());
}

/// The client of a session that is ended hears it at once, whether or not it could resume, and the program is
/// gone.
///
/// Covers: longhaul --end
#[test]
fn clients_hear_that_their_session_is_ended() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 10m\n");
    for options in [&["Resume=yes"][..], &["Resume=no"]] {
        let mut client = Client::cat(&lab, server.port, options);
        let session = session_when(&lab, server.pid(), "it is listed", |one| one["commands"] == 1);
        longhaul(&lab, &["sessions", "--end", session["id"].as_str().unwrap()]).ok("longhaul sessions --end");
        let child = std::mem::replace(&mut client.0, Command::new("true").spawn().unwrap());
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(255));
        let err = String::from_utf8(out.stderr).unwrap();
        assert!(err.contains("session ended on the server"), "{options:?}: {err}");
        assert!(sessions_of(&lab, server.pid()).is_empty());
    }
}

/// Shells, commands, subsystems, and connections that only forward.
///
/// Covers: longhaul --json
#[test]
fn sessions_say_what_runs_in_them() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 0\n");
    let own = server.pid();
    let forwards = Client::start(&lab, server.port, &me(), &[], &["-N", "127.0.0.1"]);
    let session = session_when(&lab, own, "forwards", |one| one["resumable"] == false);
    assert_eq!(
        (&session["shells"], &session["commands"], &session["subsystems"]),
        (&0.into(), &0.into(), &0.into())
    );
    drop(forwards);
    let shell = Client::start(&lab, server.port, &me(), &[], &["-tt", "127.0.0.1"]);
    session_when(&lab, own, "a shell", |one| one["shells"] == 1);
    drop(shell);
    let sftp = Client::start(&lab, server.port, &me(), &[], &["-s", "127.0.0.1", "sftp"]);
    session_when(&lab, own, "a subsystem", |one| one["subsystems"] == 1);
    drop(sftp);
    eventually("all have ended", || sessions_of(&lab, own).is_empty());
}

/// An ordinary user sees and ends no other user's sessions, and root all.
///
/// Covers: longhaul --end
#[test]
fn users_see_and_end_their_own_sessions_only() {
    if !is_root() {
        return skip("users_see_and_end_their_own_sessions_only", "only root can add users");
    }
    let lab = Lab::new();
    let keys = format!("AuthorizedKeysFile .ssh/authorized_keys {}\n", lab.arg("authorized_keys"));
    let server = Lhsshd::start(&lab, &keys);
    let user = TestUser::new(&lab);
    let directory = lh_interop::safe_directory();
    let program = directory.path().join("longhaul");
    std::fs::copy(our("longhaul"), &program).unwrap();
    let (uid, gid) = user.ids();
    let ran_by = |args: &[&str]| {
        use std::os::unix::process::CommandExt as _;
        Command::new(&program).arg("sessions").args(args).uid(uid).gid(gid).output().unwrap()
    };
    let others = Client::cat(&lab, server.port, &[]);
    let own = Client::start(&lab, server.port, &user.name, &[], &["127.0.0.1", "cat"]);
    let theirs = session_when(&lab, server.pid(), "the user's", |one| one["user"] == *user.name);
    let roots = session_when(&lab, server.pid(), "root's", |one| one["user"] == "root");
    let seen = String::from_utf8(ran_by(&["--json"]).stdout).unwrap();
    let seen: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(seen.iter().map(|one| &one["id"]).collect::<Vec<_>>(), [&theirs["id"]]);
    assert_eq!(ran_by(&["--end", roots["id"].as_str().unwrap()]).status.code(), Some(1));
    assert_eq!(ran_by(&["--end", theirs["id"].as_str().unwrap()]).status.code(), Some(0));
    let left = sessions_of(&lab, server.pid());
    assert_eq!(left.iter().map(|one| &one["id"]).collect::<Vec<_>>(), [&roots["id"]]);
    drop((own, others));
}

/// Sessions that wait, of these monitors.
fn waiting(lab: &Lab, monitors: &[u64]) -> Vec<Value> {
    let text = String::from_utf8(longhaul(lab, &["sessions", "--json"]).out).unwrap();
    let all = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let is_one = |one: &Value| monitors.iter().any(|pid| one["pid"] == *pid) && one["state"] == "waiting";
    all.filter(is_one).collect()
}

/// Adds sessions that wait for clients that were killed; adds the process ids of their monitors to
/// `monitors`.
fn add_waiting(lab: &Lab, server: &Lhsshd, count: usize, monitors: &mut Vec<u64>) {
    for _ in 0..count {
        let client = Client::cat(lab, server.port, &["Resume=yes"]);
        let is_new = |one: &Value| one["commands"] == 1 && !monitors.contains(&one["pid"].as_u64().unwrap());
        let session = session_when(lab, server.pid(), "it is listed", is_new);
        client.kill();
        let of = |one: &Value| one["id"] == session["id"] && one["state"] == "waiting";
        // The newest one is not ended for others.
        session_when(lab, server.pid(), "it waits", of);
        monitors.push(session["pid"].as_u64().unwrap());
    }
}

/// Sessions beyond the limit end, oldest first: also those that an earlier listener has begun, whether it was
/// started again or another one has taken its place.
///
/// Covers: sshd_config ResumeMaxSessions; sshd_config ResumeGrace
#[test]
fn sessions_that_wait_count_for_later_listeners() {
    let lab = Lab::new();
    let config = "ResumeGrace 5m\nResumeMaxSessions 3:4\n";
    let server = Lhsshd::start(&lab, config);
    let mut monitors = Vec::new();
    add_waiting(&lab, &server, 5, &mut monitors);
    eventually("three wait", || waiting(&lab, &monitors).len() == 3);
    assert_eq!(server.log().matches("too many wait for their clients").count(), 2, "{}", server.log());
    let pid = rustix::process::Pid::from_raw(server.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    eventually("it listens again", || server.log().matches("Server listening on").count() == 2);
    add_waiting(&lab, &server, 2, &mut monitors);
    let only_newest = |monitors: &[u64]| {
        eventually("three wait", || waiting(&lab, monitors).len() == 3);
        assert_eq!(waiting(&lab, &monitors[monitors.len() - 3..]).len(), 3);
    };
    only_newest(&monitors);
    assert_eq!(server.log().matches("too many wait for their clients").count(), 4, "{}", server.log());
    drop(server);
    let server = Lhsshd::start(&lab, config);
    add_waiting(&lab, &server, 1, &mut monitors);
    only_newest(&monitors);
    assert_eq!(server.log().matches("too many wait for their clients").count(), 1, "{}", server.log());
    for session in waiting(&lab, &monitors) {
        longhaul(&lab, &["sessions", "--end", session["id"].as_str().unwrap()]).ok("longhaul sessions --end");
    }
    assert!(waiting(&lab, &monitors).is_empty());
}

/// A session that keeps too much for its client ends, and one that keeps nothing waits on.
///
/// Covers: sshd_config ResumeMaxMemory
#[test]
fn a_session_that_keeps_too_much_memory_ends() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 5m\nResumeMaxMemory 256K\n");
    let mut monitors = Vec::new();
    add_waiting(&lab, &server, 1, &mut monitors);
    let (go, done) = (lab.path("go"), lab.path("done"));
    let script = format!(
        "until test -e {}; do sleep 0.1; done; head -c 1M /dev/zero; touch {}; exec sleep 300",
        go.display(),
        done.display()
    );
    let client = Client::start(&lab, server.port, &me(), &["Resume=yes"], &["127.0.0.1", &script]);
    let is_new = |one: &Value| one["commands"] == 1 && !monitors.contains(&one["pid"].as_u64().unwrap());
    let session = session_when(&lab, server.pid(), "it is listed", is_new);
    // A client that is stopped acknowledges nothing.
    let pid = rustix::process::Pid::from_raw(client.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    lab.write("go", "");
    eventually("the output is written", || done.exists());
    client.kill();
    let ended = "ends: too much memory is kept for clients (ResumeMaxMemory)";
    eventually("the listener ends it", || server.log().contains(ended));
    eventually("it ends", || !sessions_of(&lab, server.pid()).iter().any(|one| one["id"] == session["id"]));
    assert_eq!(waiting(&lab, &monitors).len(), 1);
    assert_eq!(server.log().matches(ended).count(), 1, "{}", server.log());
    for session in waiting(&lab, &monitors) {
        longhaul(&lab, &["sessions", "--end", session["id"].as_str().unwrap()]).ok("longhaul sessions --end");
    }
}

/// A user whose connections are limited can log in while sessions of clients that were killed wait: they end,
/// and only as many as have to. A session with a connection does not.
///
/// Covers: sshd_config PerUserMaxConnections; sshd_config ResumeGrace
#[test]
fn sessions_that_wait_give_way_to_logins() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 5m 5m\nPerUserMaxConnections 2\n");
    let mut monitors = Vec::new();
    add_waiting(&lab, &server, 2, &mut monitors);
    add_waiting(&lab, &server, 1, &mut monitors);
    let is_first = |one: &Value| one["pid"] == monitors[0];
    eventually("the first has ended", || !sessions_of(&lab, server.pid()).iter().any(is_first));
    assert_eq!(waiting(&lab, &monitors).len(), 2);
    let takes_place = "another login of its user takes its place (PerUserMaxConnections)";
    assert_eq!(server.log().matches(takes_place).count(), 1, "{}", server.log());
    let _held: Vec<_> = (0..2)
        .map(|_| {
            let mut client = Client::cat(&lab, server.port, &[]);
            client.0.stdin.as_mut().unwrap().write_all(b"line\n").unwrap();
            client.0.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
            client
        })
        .collect();
    eventually("none waits", || waiting(&lab, &monitors).is_empty());
    let refused = Client::cat(&lab, server.port, &[]);
    let child = std::mem::replace(&mut { refused }.0, Command::new("true").spawn().unwrap());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(255));
    assert_eq!(server.log().matches(takes_place).count(), 3, "{}", server.log());
}

/// Kills a client. Returns for how many seconds its session waits, 0 when it has ended at once.
fn wait_after_kill(lab: &Lab, grace: &str) -> u64 {
    let server = Lhsshd::start(lab, &format!("ResumeGrace {grace}\n"));
    let mut client = Client::cat(lab, server.port, &["Resume=yes", "ServerAliveInterval=100"]);
    client.0.stdin.as_mut().unwrap().write_all(b"line\n").unwrap();
    client.0.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    // Acknowledgements, which are sent after 0.2 s: where they are not read, the kernel resets the
    // connection.
    std::thread::sleep(std::time::Duration::from_millis(600));
    client.kill();
    let mut seconds = 0;
    eventually("it waits or has ended", || {
        let log = server.log();
        let number =
            log.split_once("the session waits for ").map(|(_, rest)| rest.split(' ').next().unwrap());
        seconds = number.map_or(0, |number| number.parse().unwrap());
        number.is_some() || log.contains("its client has not come back")
    });
    for session in sessions_of(lab, server.pid()) {
        longhaul(lab, &["sessions", "--end", session["id"].as_str().unwrap()]);
    }
    seconds
}

/// The end of file is that of a client that was killed.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn an_end_of_file_can_shorten_the_wait() {
    let lab = Lab::new();
    assert_eq!(wait_after_kill(&lab, "5m"), 300);
    for (grace, expected) in [("5m 40s", 40), ("5m 0", 0)] {
        // A reset, of which the kernel makes the end where something was not read, is tried again.
        let wait = (0..10).map(|_| wait_after_kill(&lab, grace)).find(|seconds| *seconds != 300);
        assert_eq!(wait, Some(expected), "{grace}");
    }
}

/// A reset does not shorten the wait.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn a_reset_does_not_shorten_the_wait() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 5m 4s\n");
    let (_cuts, mut client, session) = session_to_be_cut(&lab, &server);
    client.0.stdin.as_mut().unwrap().write_all(&[b'x'; 30_000]).unwrap();
    eventually("it waits", || server.log().contains("the session waits for 300 seconds"));
    client.kill();
    longhaul(&lab, &["sessions", "--end", session["id"].as_str().unwrap()]).ok("longhaul sessions --end");
}
