//! Resuming a session needs the session's secret, and an account, key and rules that still permit it.

use std::error::Error;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lh_client::{Client, Options, SessionSetup, Start, connect, local_account};
use lh_config::client::{CommandLine, Request as Config};
use lh_crypto::{SystemRandom, Zeroizing};
use lh_driver::{ChannelOptions, Control, ControlCx, ControlEvent, FdPump, Link, LocalFd, Stream};
use lh_interop::process::below;
use lh_interop::{Lab, Lhsshd, PamService, TestUser, eventually, is_root, me, skip};
use lh_resume::message::{ACCEPTED, Accepted, Request};
use lh_resume::{ClientSecret, Export, Handle, NAME};
use lh_terminal::TerminalUi;
use lh_transport::{AcceptedHostKey, Event, Transport};
use lh_wire::Message as _;
use lh_wire::msg::disconnect::BY_APPLICATION;
use lh_wire::msg::{ServiceRequest, UserauthFailure, UserauthSuccess};
use rustix::net::{AddressFamily, SocketType};

/// Does nothing.
struct Waiting;

impl Control for Waiting {
    fn on_event(&mut self, _event: ControlEvent, _cx: &mut ControlCx<'_>) {}
}

/// Logs in, and waits for the server's consent.
fn logged_in(lab: &Lab, port: u16) -> Client {
    let mut config = Config::new("127.0.0.1", local_account().unwrap());
    let option = |text: String| CommandLine::Option(text);
    let options = lab.client_options();
    let words = options.iter().filter(|word| word.contains('='));
    config.command_line.extend(words.cloned().map(option));
    config.command_line.extend([format!("Port={port}"), "Resume=yes".to_owned()].map(option));
    config.command_line.push(option(format!("User={}", me())));
    config.user_file = lh_config::client::UserFile::None;
    let options = Options { purpose: lh_client::Purpose::Command, ..Options::load(&config).unwrap() };
    let mut client = connect(&options, &mut TerminalUi::default()).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while client.driver().control().resumable_session().is_none() {
        assert!(Instant::now() < end, "no consent");
        client.driver().run_once(&mut Waiting, Some(Duration::from_millis(100))).unwrap();
    }
    client
}

/// The session's name, and key material of its first connection.
fn session(client: &mut Client) -> (Handle, Export) {
    let control = client.driver().control();
    let handle = control.resumable_session().unwrap().handle;
    let export = control.export(NAME, &handle.0).unwrap();
    (handle, export)
}

/// A connection after its first key exchange.
struct Claimant {
    link: Link,
}

impl Claimant {
    fn new(port: u16) -> Self {
        Self::over(TcpStream::connect(("127.0.0.1", port)).unwrap()).unwrap()
    }

    /// From another address of this host.
    fn from(address: Ipv4Addr, port: u16) -> Result<Self, Box<dyn Error>> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        rustix::net::bind(&socket, &SocketAddrV4::new(address, 0))?;
        rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
        Self::over(socket.into())
    }

    fn over(socket: TcpStream) -> Result<Self, Box<dyn Error>> {
        let config = lh_transport::Config::client();
        let transport = Transport::new(config, Box::new(SystemRandom), Instant::now());
        let mut link = Link::new(transport, Stream::socket(socket.into())?);
        loop {
            match link.next_event(None)? {
                Event::HostKey { blob, .. } => {
                    let accepted = AcceptedHostKey::dangerous_vouch_for(&blob);
                    link.host_key_accepted(&accepted)?;
                }
                Event::KexDone { .. } => break,
                _ => {}
            }
        }
        link.send(&ServiceRequest::new(b"ssh-userauth").to_payload());
        Ok(Self { link })
    }

    /// Closes the connection and waits for the end of `processes`, the server's for it. The listener charges
    /// a connection before it takes the next one.
    fn close(self, server: &Lhsshd, processes: &[u32]) {
        drop(self);
        eventually("the connection is closed", || {
            below(server.pid()).iter().all(|process| !processes.contains(process))
        });
    }

    fn id(&self) -> Vec<u8> {
        self.link.session_id().unwrap().to_vec()
    }

    fn export(&self, handle: &Handle) -> Export {
        self.link.export(NAME, &handle.0).unwrap()
    }

    /// Sends the request; returns the server's proof if it was accepted.
    fn claim(&mut self, request: &Request) -> Option<Accepted> {
        self.link.send(&request.to_payload());
        let mut answer = None;
        loop {
            let payload = match self.link.next_event(None).ok()? {
                Event::Packet(payload) => payload,
                Event::Disconnected { .. } => return None,
                _ => continue,
            };
            match payload[0] {
                ACCEPTED => answer = Some(Accepted::decode(&payload).unwrap()),
                UserauthFailure::NUMBER => return None,
                UserauthSuccess::NUMBER => {
                    self.link.set_authenticated();
                    return Some(answer.expect("a proof before the success"));
                }
                _ => {}
            }
        }
    }
}

/// Covers: wire resume@longhaul
#[test]
fn only_the_present_secret_resumes_a_session() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 20s\n");
    let mut client = logged_in(&lab, server.port);
    let (handle, export) = session(&mut client);
    // A wrong secret.
    let mut claimant = Claimant::new(server.port);
    let wrong: Export = Zeroizing::new([7; 32]);
    let request = ClientSecret::new(handle, &wrong).request(&me(), &claimant.id(), 0);
    assert!(claimant.claim(&request).is_none());
    // The right one, under another name, for another session, or on another connection.
    let mut secret = ClientSecret::new(handle, &export);
    let other_user = secret.request("root2", &Claimant::new(server.port).id(), 0);
    assert!(Claimant::new(server.port).claim(&other_user).is_none());
    let mut claimant = Claimant::new(server.port);
    let relayed = secret.request(&me(), &Claimant::new(server.port).id(), 0);
    assert!(claimant.claim(&relayed).is_none());
    let mut no_session = relayed;
    no_session.handle = Handle([9; 16]);
    assert!(Claimant::new(server.port).claim(&no_session).is_none());
    assert_eq!(server.resumptions(), 0, "{}", server.log());
    // The thief is first.
    let mut thief = Claimant::new(server.port);
    let request = secret.request(&me(), &thief.id(), 0);
    let answer = thief.claim(&request).expect("the right proof");
    let (id, export_now) = (thief.id(), thief.export(&handle));
    secret.accepted(&request, &id, &export_now, &answer).unwrap();
    server.await_resumptions(1);
    // A copy of the first secret is good for as long as the answer may be lost, and no longer.
    let acknowledge = lh_resume::message::Acknowledge { received: 0 };
    thief.link.send(&acknowledge.to_payload());
    thief.link.finish(Duration::from_secs(10));
    let mut old = ClientSecret::new(handle, &export);
    (0..50).for_each(|_| drop(old.request(&me(), &[], 0)));
    eventually("the first secret is void", || {
        let mut claimant = Claimant::new(server.port);
        let request = old.request(&me(), &claimant.id(), 0);
        claimant.claim(&request).is_none()
    });
    assert!(server.log().contains("refused: wrong proof"), "{}", server.log());
}

/// Covers: sshd_config ResumeGrace; wire resume@longhaul
#[test]
fn a_session_whose_key_is_gone_is_not_resumed() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 1m\n");
    let authorised = lab.read("authorized_keys");
    let restricted: String = authorised.lines().map(|line| format!("restrict {line}\n")).collect();
    for (changed, why) in [
        ("", "the key of the login is not accepted any more"),
        (restricted.as_str(), "the key of the login has other options now"),
    ] {
        lab.write("authorized_keys", &authorised);
        let mut client = logged_in(&lab, server.port);
        let (handle, export) = session(&mut client);
        lab.write("authorized_keys", changed);
        let mut claimant = Claimant::new(server.port);
        let request = ClientSecret::new(handle, &export).request(&me(), &claimant.id(), 0);
        assert!(claimant.claim(&request).is_none());
        eventually("it is logged", || server.log().contains(&format!("refused: {why}")));
    }
    // And the sessions end.
    let ended = "session ends: its user may not have it any more";
    eventually("the sessions end", || server.log().matches(ended).count() == 2);
}

/// A login under lax rules does not outlast them.
///
/// Covers: sshd_config ForceCommand; sshd_config ResumeGrace; wire resume@longhaul
#[test]
fn a_session_with_other_rules_is_not_resumed() {
    let lab = Lab::new();
    lab.write("rules.conf", "");
    let server = Lhsshd::start(&lab, &format!("ResumeGrace 1m\nInclude {}\n", lab.arg("rules.conf")));
    let mut client = logged_in(&lab, server.port);
    let (handle, export) = session(&mut client);
    lab.write("rules.conf", "ForceCommand /bin/false\nAllowTcpForwarding no\n");
    let pid = rustix::process::Pid::from_raw(server.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    eventually("it listens again", || server.log().matches("Server listening on").count() == 2);
    let mut claimant = Claimant::new(server.port);
    let request = ClientSecret::new(handle, &export).request(&me(), &claimant.id(), 0);
    assert!(claimant.claim(&request).is_none());
    let why = "refused: the rules of the login were others: AllowTcpForwarding, ForceCommand";
    eventually("it is logged", || server.log().contains(why));
    let ended = "session ends: its user may not have it any more";
    eventually("the session ends", || server.log().contains(ended));
}

/// Neither a reload nor another address lets a session go on that could not begin.
///
/// Covers: sshd_config DenyUsers; sshd_config ResumeGrace; wire resume@longhaul
#[test]
fn a_session_that_could_not_begin_is_not_resumed() {
    let lab = Lab::new();
    lab.write("rules.conf", "");
    let server = Lhsshd::start(&lab, &format!("ResumeGrace 1m\nInclude {}\n", lab.arg("rules.conf")));
    let keys = lab.read("authorized_keys");
    let from: String = keys.lines().map(|line| format!("from=\"127.0.0.1\" {line}\n")).collect();
    let elsewhere = Ipv4Addr::new(127, 0, 0, 2);
    let cases = [
        (&from, String::new(), elsewhere, "the key of the login is not accepted any more"),
        (&keys, format!("DenyUsers {}@127.2\n", me()), elsewhere, "the account is closed"),
        (&keys, format!("DenyUsers {}\n", me()), Ipv4Addr::LOCALHOST, "the account is closed"),
    ];
    for (reloads, (keys, rules, address, why)) in (1..).zip(cases) {
        lab.write("authorized_keys", keys);
        let mut client = logged_in(&lab, server.port);
        let (handle, export) = session(&mut client);
        lab.write("rules.conf", &rules);
        let pid = rustix::process::Pid::from_raw(server.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
        eventually("it listens again", || server.log().matches("Server listening on").count() == reloads + 1);
        let mut claimant = Claimant::from(address, server.port).unwrap();
        let request = ClientSecret::new(handle, &export).request(&me(), &claimant.id(), 0);
        assert!(claimant.claim(&request).is_none(), "{rules}");
        eventually("it is logged", || server.log().contains(&format!("refused: {why}")));
        let ended = "session ends: its user may not have it any more";
        eventually("the session ends", || server.log().matches(ended).count() == reloads);
    }
    assert_eq!(server.resumptions(), 0, "{}", server.log());
}

/// A client that has received more than was sent breaks the protocol. Its session ends, and no other.
///
/// Covers: wire resume@longhaul
#[test]
fn a_claim_with_an_impossible_count_ends_the_session() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 1m\n");
    for count in [1000, i64::MAX as u64, u64::MAX] {
        let before = below(server.pid()).len();
        let mut client = logged_in(&lab, server.port);
        let (handle, export) = session(&mut client);
        let mut claimant = Claimant::new(server.port);
        let request = ClientSecret::new(handle, &export).request(&me(), &claimant.id(), count);
        let _ = claimant.claim(&request);
        eventually("the session is over", || below(server.pid()).len() <= before);
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
    drop(logged_in(&lab, server.port));
}

/// What cannot be looked up for the moment ends no session.
///
/// Covers: sshd_config AuthorizedKeysCommand; sshd_config ResumeGrace; wire resume@longhaul
#[test]
fn a_session_outlives_a_lookup_that_fails() {
    let lab = Lab::new();
    let keys = lab.read("authorized_keys");
    lab.write("listed_keys", &keys);
    lab.write("authorized_keys", "");
    let server = Lhsshd::start(
        &lab,
        &format!(
            "ResumeGrace 1m\nAuthorizedKeysCommand /bin/cat {}\nAuthorizedKeysCommandUser {}\n",
            lab.arg("listed_keys"),
            me()
        ),
    );
    let mut client = logged_in(&lab, server.port);
    let (handle, export) = session(&mut client);
    let mut secret = ClientSecret::new(handle, &export);
    // The command fails once.
    std::fs::remove_file(lab.path("listed_keys")).unwrap();
    let mut claimant = Claimant::new(server.port);
    let request = secret.request(&me(), &claimant.id(), 0);
    assert!(claimant.claim(&request).is_none());
    eventually("it is logged", || server.log().contains("as far as could be looked up"));
    lab.write("listed_keys", &keys);
    let mut claimant = Claimant::new(server.port);
    let request = secret.request(&me(), &claimant.id(), 0);
    assert!(claimant.claim(&request).is_some(), "{}", server.log());
    server.await_resumptions(1);
}

/// Nor does a PAM module that cannot tell.
///
/// Covers: sshd_config UsePAM (modules without an answer)
#[test]
fn a_session_outlives_modules_without_an_answer() {
    let rules = |account: &str| {
        format!("auth required pam_permit.so\nsession required pam_permit.so\naccount required {account}\n")
    };
    let Some(service) = PamService::new("no-answer", &rules("pam_permit.so")) else { return };
    let lab = Lab::new();
    let config = format!("ResumeGrace 1m\nUsePAM yes\nPAMServiceName {}\n", service.name);
    let server = Lhsshd::start(&lab, &config);
    let mut client = logged_in(&lab, server.port);
    let (handle, export) = session(&mut client);
    let mut secret = ClientSecret::new(handle, &export);
    let mut claim = || {
        let mut claimant = Claimant::new(server.port);
        let request = secret.request(&me(), &claimant.id(), 0);
        claimant.claim(&request).is_some()
    };
    service.rules(&rules("pam_debug.so acct=authinfo_unavail"));
    assert!(!claim());
    eventually("it is logged", || server.log().contains("as far as could be looked up"));
    // A refusal is one.
    service.rules(&rules("pam_debug.so acct=acct_expired"));
    assert!(!claim());
    let ended = "session ends: its user may not have it any more";
    eventually("the session ends", || server.log().contains(ended));
}

/// Covers: sshd_config PerSourcePenalties; wire resume@longhaul
#[test]
fn wrong_claims_are_charged_to_their_address() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 20s\nPerSourcePenalties authfail:10 min:1\n");
    let mut client = logged_in(&lab, server.port);
    let (handle, _) = session(&mut client);
    let mut claimant = Claimant::new(server.port);
    let wrong: Export = Zeroizing::new([7; 32]);
    let request = ClientSecret::new(handle, &wrong).request(&me(), &claimant.id(), 0);
    assert!(claimant.claim(&request).is_none());
    drop(claimant);
    let charged = "activating penalty of 10 seconds for penalty: failed authentication";
    eventually("the address is charged", || server.log().contains(charged));
}

/// A flood of wrong proofs for a session, from another address: its client is not kept from it, and not
/// charged.
///
/// Covers: sshd_config PerSourcePenalties; wire resume@longhaul
#[test]
fn a_storm_of_wrong_claims_costs_nobody_his_session() {
    let lab = Lab::new();
    let server =
        Lhsshd::start(&lab, "ResumeGrace 1m\nPerSourcePenalties authfail:10 min:60\nMaxStartups 200\n");
    let mut client = logged_in(&lab, server.port);
    let (handle, export) = session(&mut client);
    let (port, enemy) = (server.port, Ipv4Addr::new(127, 0, 0, 2));
    let storm: Vec<_> = (0..4)
        .map(|thread| {
            std::thread::spawn(move || {
                let wrong: Export = Zeroizing::new([thread; 32]);
                let mut secret = ClientSecret::new(handle, &wrong);
                // Until the address is locked out.
                let claims = (0..50).map_while(|_| {
                    let mut claimant = Claimant::from(enemy, port).ok()?;
                    let request = secret.request(&me(), &claimant.id(), 0);
                    assert!(claimant.claim(&request).is_none());
                    Some(())
                });
                claims.count()
            })
        })
        .collect();
    let charged = |address: &str| server.log().contains(&format!("{address}: activating penalty of "));
    let claim = |secret: &mut ClientSecret| {
        let mut claimant = Claimant::new(port);
        let request = secret.request(&me(), &claimant.id(), 0);
        let answer = claimant.claim(&request).expect("the right proof");
        secret.accepted(&request, &claimant.id(), &claimant.export(&handle), &answer).unwrap();
        claimant
    };
    let mut secret = ClientSecret::new(handle, &export);
    let during = claim(&mut secret);
    let claims: usize = storm.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(claims >= 6, "{claims}");
    eventually("the other address is charged", || charged("127.0.0.2"));
    drop(during);
    let _after = claim(&mut secret);
    server.await_resumptions(2);
    assert_eq!(server.resumptions(), 2, "{}", server.log());
    assert!(!charged("127.0.0.1"), "{}", server.log());
}

/// Two ends with one secret claim at once: one connection has the session afterwards.
///
/// Covers: wire resume@longhaul
#[test]
fn of_two_racing_claims_one_has_the_session() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 1m\n");
    let mut client = logged_in(&lab, server.port);
    let (handle, export) = session(&mut client);
    for round in 0..4_u64 {
        let before = server.resumptions();
        let secrets = [ClientSecret::new(handle, &export), ClientSecret::new(handle, &export)];
        let racers: Vec<_> = secrets
            .into_iter()
            .zip([1 + 2 * round, 2 + 2 * round])
            .map(|(mut secret, attempt)| {
                let mut claimant = Claimant::new(server.port);
                (1..attempt).for_each(|_| drop(secret.request(&me(), &[], 0)));
                std::thread::spawn(move || {
                    let request = secret.request(&me(), &claimant.id(), 0);
                    let accepted = claimant.claim(&request).is_some();
                    (claimant, accepted)
                })
            })
            .collect();
        let mut racers: Vec<_> = racers.into_iter().map(|racer| racer.join().unwrap()).collect();
        // The larger attempt number wins, and the other one may have had the session until then.
        let (last, last_accepted) = racers.pop().unwrap();
        assert!(last_accepted, "{}", server.log());
        let (mut first, first_accepted) = racers.pop().unwrap();
        if first_accepted {
            // Its connection is closed.
            while first.link.next_event(None).is_ok() {}
        }
        let resumed = 1 + usize::from(first_accepted);
        server.await_resumptions(before + resumed);
        assert_eq!(server.resumptions(), before + resumed, "{}", server.log());
        drop(last);
    }
}

/// A request that was on its way while a later one was accepted: it has the right proof, and cannot take the
/// session back. It is the client's own, so nobody is locked out for it.
///
/// Covers: sshd_config PerSourcePenalties; wire resume@longhaul
#[test]
fn a_delayed_claim_is_refused_and_not_charged() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 1m\nPerSourcePenalties authfail:10 min:1\n");
    let mut client = logged_in(&lab, server.port);
    let (handle, export) = session(&mut client);
    let mut secret = ClientSecret::new(handle, &export);
    let before = below(server.pid());
    let mut delayed = Claimant::new(server.port);
    let mut processes = below(server.pid());
    processes.retain(|process| !before.contains(process));
    let first = secret.request(&me(), &delayed.id(), 0);
    let mut claimant = Claimant::new(server.port);
    let second = secret.request(&me(), &claimant.id(), 0);
    assert!(claimant.claim(&second).is_some(), "{}", server.log());
    assert!(delayed.claim(&first).is_none(), "{}", server.log());
    eventually("it is logged", || server.log().contains("overtaken by a later one"));
    delayed.close(&server, &processes);
    // The one that was accepted still has the session: its link is not closed, and the client of an answer
    // that was lost may come again.
    let mut again = Claimant::new(server.port);
    let third = secret.request(&me(), &again.id(), 0);
    assert!(again.claim(&third).is_some(), "{}", server.log());
    assert!(!server.log().contains("activating penalty"), "{}", server.log());
}

/// Users who press ^C again and again: their clients leave over another connection, and the session has ended
/// meanwhile.
///
/// Covers: sshd_config PerSourcePenalties; wire resume@longhaul
#[test]
fn claims_of_an_ended_session_are_not_charged() {
    let lab = Lab::new();
    let penalties = "PerSourcePenalties authfail:10 min:1 noauth:0\nLogLevel VERBOSE\n";
    let server = Lhsshd::start(&lab, &format!("ResumeGrace 1m\n{penalties}"));
    let mut client = logged_in(&lab, server.port);
    let (handle, export) = session(&mut client);
    let mut secret = ClientSecret::new(handle, &export);
    let link = client.driver().link();
    link.leave(BY_APPLICATION, "it ends", Duration::from_secs(60));
    eventually("the session has ended", || below(server.pid()).is_empty());
    for _ in 0..4 {
        let mut claimant = Claimant::new(server.port);
        let request = secret.request(&me(), &claimant.id(), 0);
        assert!(claimant.claim(&request).is_none(), "{}", server.log());
        claimant.close(&server, &below(server.pid()));
    }
    drop(Claimant::new(server.port));
    let log = server.log();
    assert_eq!(log.matches("refused: no such session").count(), 4, "{log}");
    for bad in ["activating penalty", "Failed"] {
        assert!(!log.contains(bad), "{log}");
    }
}

/// A client that has not noticed that its session goes on elsewhere: what it sends is not acted on.
///
/// Covers: wire resume@longhaul
#[test]
fn the_old_connection_carries_nothing_after_a_claim() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 1m\n");
    let mut client = logged_in(&lab, server.port);
    let (mut input, theirs) = UnixStream::pair().unwrap();
    let pump = FdPump::socket(LocalFd::owned(theirs.into()).unwrap());
    let setup = SessionSetup::new(Start::Exec(format!("cat > {}", lab.arg("file")).into_bytes()));
    client.open_session(setup, &ChannelOptions::default(), Box::new(pump)).unwrap();
    let (handle, export) = session(&mut client);
    let file = || std::fs::read_to_string(lab.path("file")).unwrap_or_default();
    let turn = |client: &mut Client| client.driver().run_once(&mut Waiting, Some(Duration::from_millis(10)));
    input.write_all(b"before\n").unwrap();
    eventually("the program has it", || {
        turn(&mut client).unwrap();
        file() == "before\n"
    });
    let mut claimant = Claimant::new(server.port);
    let request = ClientSecret::new(handle, &export).request(&me(), &claimant.id(), 0);
    assert!(claimant.claim(&request).is_some(), "{}", server.log());
    input.write_all(b"after\n").unwrap();
    eventually("the old connection is closed", || {
        turn(&mut client).unwrap();
        client.driver().control().is_away()
    });
    assert_eq!(file(), "before\n");
    // The session goes on, and its program sees no end of its input.
    eventually("the log names the claim", || server.resumptions() == 1);
    drop(claimant);
    let mut again = Claimant::new(server.port);
    let mut secret = ClientSecret::new(handle, &export);
    drop(secret.request(&me(), &[], 0));
    let request = secret.request(&me(), &again.id(), 0);
    assert!(again.claim(&request).is_some(), "{}", server.log());
    assert_eq!(file(), "before\n");
}

/// The right proof, under the name of another user who exists.
///
/// Covers: wire resume@longhaul
#[test]
fn a_proof_is_good_for_its_user_only() {
    if !is_root() {
        return skip("a_proof_is_good_for_its_user_only", "only root can add users");
    }
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 1m\n");
    let other = TestUser::new(&lab);
    let mut client = logged_in(&lab, server.port);
    let (handle, export) = session(&mut client);
    let mut secret = ClientSecret::new(handle, &export);
    let mut claim = |user: &str| {
        let mut claimant = Claimant::new(server.port);
        let request = secret.request(user, &claimant.id(), 0);
        claimant.claim(&request).is_some()
    };
    assert!(!claim(&other.name));
    assert_eq!(server.resumptions(), 0, "{}", server.log());
    // The session is still there.
    assert!(claim(&me()), "{}", server.log());
}

/// What is revoked, or not kept any more, after the login.
///
/// Covers: sshd_config RevokedKeys; sshd_config ResumeGrace; wire resume@longhaul
#[test]
fn sessions_end_with_revoked_keys_and_without_grace() {
    for what in ["the key is revoked", "no grace"] {
        let lab = Lab::new();
        lab.write("rules.conf", "");
        lab.write("revoked", "");
        let config = format!(
            "Include {}\nResumeGrace 1m\nRevokedKeys {}\n",
            lab.arg("rules.conf"),
            lab.arg("revoked")
        );
        let server = Lhsshd::start(&lab, &config);
        let mut client = logged_in(&lab, server.port);
        let (handle, export) = session(&mut client);
        if what == "no grace" {
            lab.write("rules.conf", &format!("Match User {}\nResumeGrace 0\n", me()));
            let pid = rustix::process::Pid::from_raw(server.pid().cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
            eventually("it listens again", || server.log().matches("Server listening on").count() == 2);
        } else {
            lab.write("revoked", &lab.read("authorized_keys"));
        }
        let mut claimant = Claimant::new(server.port);
        let request = ClientSecret::new(handle, &export).request(&me(), &claimant.id(), 0);
        assert!(claimant.claim(&request).is_none(), "{what}");
        let ended = "session ends: its user may not have it any more";
        eventually(what, || server.log().contains(ended));
        assert_eq!(server.resumptions(), 0, "{}", server.log());
    }
}
