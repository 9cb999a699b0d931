//! Tests of additional channels and connections that start automatically: when they start, and whether they
//! are kept.
//!
//! The loopback device cannot be made to lose packets, so the test supplies the loss counters for the
//! decision. All other parts are those of `lhscp`: the loop, the tickets, the logins and real servers. The
//! path is one on which an additional connection helps, or one on which it does not.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lh_cli::copying::Connecting;
use lh_cli::flags::SCP;
use lh_client::{
    Options as ClientOptions, TICKET_REQUEST, Ticket, answer_by_default, connect, local_account,
};
use lh_config::client::Request;
use lh_driver::{Control, ControlCx, ControlEvent};
use lh_interop::path::{Path, Traits};
use lh_interop::{Inetd, Lab, Lhsshd, assert_same_file, make_blob, me, our, peers};
use lh_ssh_transfer::Connection;
use lh_terminal::TerminalUi;
use lh_transfer::{Current, Direction, Event, Job, Load, Options, Plan, Report, Side};

/// Rate of the narrow path, bytes/s: slow enough for any machine.
const RATE: u32 = 3_000_000;

/// Size of the file, bytes: enough to be left when a decision is due, ten seconds with two connections.
const SIZE: usize = 66_000_001;

/// Messages about the decisions.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn text(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

impl Report for Told {
    fn event(&mut self, event: Event, _now: Instant) {
        if let Event::Notice { text } | Event::Failed { text } = event {
            self.0.lock().unwrap().push(text);
        }
    }

    fn wants_progress(&self) -> bool {
        false
    }

    fn progress(&mut self, _current: Option<Current<'_>>, _now: Instant) {}

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

/// `options` go before those of the lab: the first value of a keyword counts.
fn request(lab: &Lab, port: u16, options: &[&str]) -> Request {
    let mut words: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    words.extend(lab.client_options());
    words.extend(["from", "to"].map(str::to_owned));
    let parsed = SCP.parse(words.into_iter().map(Into::into)).expect("a command line");
    let account = local_account().expect("an account");
    Connecting::new(&parsed, 'B', &account).request("127.0.0.1", Some(port), Some(&me()), account)
}

/// A load with this rate of loss.
const fn losing(lost: f64) -> Load {
    Load { busy: 0.1, spare_cores: true, lost }
}

/// Uploads a file over a narrow path, with this load reported for its one connection.
fn upload(lab: &Lab, server: u16, shared: bool, load: Load) -> String {
    upload_with(lab, server, shared, load, &[])
}

/// Like [`upload`], with more options for `lhscp`.
fn upload_with(lab: &Lab, server: u16, shared: bool, load: Load, options: &[&str]) -> String {
    make_blob(&lab.path("big"), SIZE);
    let path = Path::to(server, Traits { delay: Duration::from_millis(5), rate: Some(RATE), shared });
    lab.know(path.port);
    let mut ui = TerminalUi::default();
    let mut connection = Connection::log_in(&request(lab, path.port, options), &mut ui).expect("logged in");
    connection.measured_by(Arc::new(move || load));
    let plan = Plan {
        direction: Direction::Upload,
        sources: vec![lab.arg("big").into_bytes()],
        target: lab.arg("copy").into_bytes(),
        target_must_be_dir: false,
    };
    let told = Told::default();
    let job = Job::new(plan, Options::default(), Box::new(told.clone())).unwrap();
    assert!(connection.carry_out(&job, Side::Target, None, &mut ui), "{}", told.text());
    connection.close();
    assert_eq!(job.summary().failures, 0, "{}", told.text());
    assert_same_file(&lab.path("big"), &lab.path("copy"));
    told.text()
}

/// Uploads to a server of ours until the first verdict about an additional connection is `verdict`, three
/// times at most: the rates behind it are measured, and another program on this machine may take time from
/// one half of a measurement. Returns the messages, and the server with its log.
fn upload_until(lab: &Lab, shared: bool, load: Load, verdict: &str) -> (String, Lhsshd) {
    for _ in 0..2 {
        let server = Lhsshd::start(lab, "");
        let told = upload(lab, server.port, shared, load);
        let first = told.lines().find(|line| line.starts_with("the additional connection "));
        if first.is_some_and(|line| line.starts_with(verdict)) {
            return (told, server);
        }
        eprintln!("once more: {told}");
    }
    let server = Lhsshd::start(lab, "");
    (upload(lab, server.port, shared, load), server)
}

/// Covers: wire ticket@longhaul
#[test]
fn loss_adds_a_connection_that_stays_if_it_helps() {
    let lab = Lab::new();
    let (told, server) = upload_until(&lab, false, losing(0.01), "the additional connection helps: ");
    assert!(told.contains("asking for an additional connection: 1.00 % is lost on the way"), "{told}");
    assert!(told.contains("an additional connection has joined the session"), "{told}");
    assert!(told.contains("the additional connection helps: "), "{told}");
    assert!(server.log().contains("Accepted ticket for"), "{}", server.log());
}

/// Covers: wire ticket@longhaul
#[test]
fn a_busy_core_adds_connections_that_stay_if_they_help() {
    let lab = Lab::new();
    let load = Load { busy: 0.97, spare_cores: true, lost: 0.0 };
    let (told, server) = upload_until(&lab, false, load, "the additional connection helps: ");
    let why = "asking for an additional connection: one core is busy for 97 % with this one";
    assert!(told.contains(why), "{told}");
    assert!(told.contains("the additional connection helps: "), "{told}");
    assert!(server.log().contains("Accepted ticket for"), "{}", server.log());
}

/// Covers: wire ticket@longhaul
#[test]
fn a_useless_connection_is_the_last_one_added() {
    let lab = Lab::new();
    let (useless, asks) =
        ("the additional connection does not help: ", "asking for an additional connection");
    let (told, server) = upload_until(&lab, true, losing(0.01), useless);
    // On a busy machine a connection before it may have seemed to help.
    let (before, after) = told.split_once(useless).unwrap_or_else(|| panic!("none was useless: {told}"));
    assert!(!after.contains(asks), "{told}");
    let asked = before.matches(asks).count();
    assert_eq!(server.log().matches("Accepted ticket for").count(), asked, "{told}{}", server.log());
}

#[test]
fn heavy_loss_adds_a_login_to_openssh_sshd() {
    let Some([sshd]) = peers("additional connections to OpenSSH's sshd", ["sshd"]) else { return };
    for (lost, logins) in [(0.01, 2..), (0.0, 1..)] {
        let lab = Lab::new();
        let mut server = Inetd::openssh(&lab, &sshd, "");
        let mut told = upload(&lab, server.port, false, losing(lost));
        if told.contains("the additional connection does not help: ") {
            // Another program may have taken time from one half of the measurement.
            eprintln!("once more: {told}");
            server = Inetd::openssh(&lab, &sshd, "");
            told = upload(&lab, server.port, false, losing(lost));
        }
        let accepted = server.log().matches("Accepted publickey").count();
        assert!(logins.contains(&accepted), "{told}\n{}", server.log());
        assert_eq!(told.contains("the additional connection helps: "), lost > 0.0, "{told}");
        assert_eq!(accepted == 1, lost == 0.0, "{told}\n{}", server.log());
    }
}

/// A key with a passphrase cannot be used again without the user, so no login is tried.
#[test]
fn a_login_that_needed_the_user_is_not_repeated() {
    const NAME: &str = "a_login_that_needed_the_user_is_not_repeated";
    let Some([sshd]) = peers("additional connections to OpenSSH's sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    if std::env::var_os("SSH_ASKPASS").is_none_or(|path| !path.to_string_lossy().ends_with(NAME)) {
        // Once more, in a process of its own whose questions a script answers.
        let script = lab.path(NAME);
        lab.write(NAME, "#!/bin/sh\necho secret\n");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).expect("executable");
        let me = std::env::current_exe().expect("this program");
        let mut again = Command::new(me);
        again.args(["--exact", NAME, "--nocapture"]);
        again.env("SSH_ASKPASS", &script).env("SSH_ASKPASS_REQUIRE", "force");
        let output = again.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let words = ["-q", "-p", "-N", "secret", "-f"].map(str::to_owned);
    lab.run(&our("lhssh-keygen"), &[&words[..], &[lab.arg("user_ed25519")]].concat()).ok("a passphrase");
    let server = Inetd::openssh(&lab, &sshd, "");
    let told = upload_with(&lab, server.port, false, losing(0.01), &["-o", "BatchMode=no"]);
    assert!(told.contains("asking for an additional connection: 1.00 % is lost on the way"), "{told}");
    assert!(told.contains("and another login would need you"), "{told}");
    let log = server.log();
    assert_eq!(log.matches("Accepted publickey").count(), 1, "{log}");
    assert_eq!(log.matches("Connection from").count(), 1, "{log}");
}

/// With a distant server that grants 2 MiB per channel, `lhscp` and `lhsftp` open more channels by
/// themselves.
///
/// Covers: scp -v; lhscp --json; sftp -v
#[test]
fn small_windows_on_a_long_path_add_channels() {
    let Some([sshd]) = peers("additional channels with OpenSSH's sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    make_blob(&lab.path("big"), 90_000_001);
    let server = Inetd::openssh(&lab, &sshd, "");
    let path = Path::to(server.port, Traits::long(Duration::from_millis(40)));
    lab.know(path.port);
    lab.write("batch", &format!("put big {0}\nls -l {0}\n", lab.arg("copy")));
    let target = format!("{}@127.0.0.1:{}", me(), lab.arg("copy"));
    for (program, words) in [
        ("lhscp", ["-v", "big", &target].map(str::to_owned).to_vec()),
        ("lhscp", ["--json", "big", &target].map(str::to_owned).to_vec()),
        ("lhsftp", ["-v", "-b", "batch", &format!("{}@127.0.0.1", me())].map(str::to_owned).to_vec()),
    ] {
        let _ = std::fs::remove_file(lab.path("copy"));
        let mut args = lab.client_options();
        args.extend(["-P".to_owned(), path.port.to_string()]);
        args.extend(words);
        let before = server.log().matches("Starting session: subsystem 'sftp'").count();
        let ran = lab.run(&our(program), &args).ok(program);
        assert_same_file(&lab.path("big"), &lab.path("copy"));
        let told = ran.text() + &ran.err;
        assert!(told.contains("uploading over 4 channels: the server's window is shut"), "{told}");
        let log = server.log();
        let sessions = log.matches("Starting session: subsystem 'sftp'").count() - before;
        assert!(sessions >= 4, "{program}: {sessions}\n{log}");
    }
    assert_eq!(server.log().matches("Accepted publickey").count(), 3, "{}", server.log());
}

/// Runs the loop until the server has answered the request for a ticket.
struct UntilAnswered;

impl Control for UntilAnswered {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        match event {
            ControlEvent::GlobalReply { name, ok, .. } if name == TICKET_REQUEST => cx.stop(i32::from(ok)),
            event => answer_by_default(event, cx),
        }
    }
}

/// Covers: wire ticket@longhaul
#[test]
fn a_ticket_admits_one_connection_only() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let mut ui = TerminalUi::default();
    let options = ClientOptions::load(&request(&lab, server.port, &[])).expect("a configuration");
    let mut first = connect(&options, &mut ui).expect("logged in");
    let [ticket, unknown] = [(); 2].map(|()| {
        let mut cx = first.driver().control();
        let ticket = Ticket::generate(cx.peer_extension(TICKET_REQUEST), cx.session_id()).expect("a ticket");
        cx.global_request(TICKET_REQUEST, true, &ticket.request());
        ticket
    });
    for _ in 0..2 {
        assert_eq!(first.run(&mut UntilAnswered).ok(), Some(1), "the server takes it");
    }
    // The second of two tickets stays unused: it must not replace the first.
    drop(unknown);
    let joining = ClientOptions { ticket: Some(Arc::new(ticket)), ..options };
    let mut joined = connect(&joining, &mut ui).expect("joined");
    let again = connect(&joining, &mut ui).err().expect("a ticket is good once").to_string();
    assert!(again.contains("the ticket was not taken"), "{again}");
    joined.close();
    let log = server.log();
    assert_eq!(log.matches("Accepted ticket for").count(), 1, "{log}");
    first.close();
    let later = connect(&joining, &mut ui).err().expect("still").to_string();
    assert!(later.contains("the ticket was not taken"), "{later}");
}
