//! `RecordTerminal` records the output of sessions' terminals. If a session cannot be recorded, it gets no
//! terminal.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use lh_interop::{Lab, ServerSetup, Terminal, eventually, is_root, me, our, skip};
use serde_json::Value;

/// A server that records to `rec` of the lab.
fn setup(test: &str) -> Option<ServerSetup> {
    ServerSetup::new(test, "RecordTerminal {lab}/rec\n")
}

fn terminal(setup: &ServerSetup, command: &str) -> Terminal {
    let args = setup.args(&["-tt"], &me(), &[command]);
    Terminal::start(&our("lhssh"), &args, setup.lab.dir(), &setup.lab.path("home"))
}

/// Header and events of the only recording.
fn recording(setup: &ServerSetup) -> (Value, Vec<(f64, String, String)>) {
    let mut files = fs::read_dir(setup.lab.path("rec")).unwrap();
    let path = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none());
    assert_eq!(path.extension().unwrap(), "cast");
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.mode() & 0o777, metadata.uid()), (0o600, rustix::process::geteuid().as_raw()));
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let header = serde_json::from_str(lines.next().unwrap()).unwrap();
    (header, lines.map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Covers: sshd_config RecordTerminal
#[test]
fn a_terminal_is_recorded_as_it_appears() {
    let Some(setup) = setup("a_terminal_is_recorded") else { return };
    let script = "stty -echo; echo ready; read -r secret; stty echo; echo \"got ${#secret} \u{20ac}\"; \
        read -r line; stty size; head -c 300000 /dev/zero | tr '\\0' x; exit 7";
    let mut terminal = terminal(&setup, script);
    terminal.expect("ready");
    terminal.send("correct horse\n");
    terminal.expect("got 13 \u{20ac}");
    terminal.resize(30, 100);
    // The client tells of the new size before what is typed afterwards.
    eventually("the new size", || setup.lab.sh("cat rec/*.cast").text().contains("\"r\",\"100x30\""));
    terminal.send("shown\n");
    terminal.expect("30 100");
    assert_eq!(terminal.wait(), 7);
    eventually("the end", || setup.server.log().contains("Close session"));

    let (header, events) = recording(&setup);
    assert_eq!(header["version"], 2);
    assert_eq!((&header["width"], &header["height"]), (&80.into(), &24.into()));
    assert_eq!(header["env"]["TERM"], "xterm");
    assert!(header["title"].as_str().unwrap().starts_with(&format!("{} from 127.0.0.1, session ", me())));
    assert!(events.is_sorted_by(|one, other| one.0 <= other.0));
    let shown: String = events.iter().filter(|event| event.1 == "o").map(|event| event.2.as_str()).collect();
    assert!(shown.contains("got 13 \u{20ac}\r\n") && shown.contains("shown\r\n30 100\r\n"), "{shown}");
    assert!(!shown.contains("horse"));
    assert_eq!(shown.matches('x').count(), 300_000);
    setup.logged("is recorded to ");
}

#[test]
fn commands_without_a_terminal_are_not_recorded() {
    let Some(setup) = setup("commands_without_a_terminal") else { return };
    assert_eq!(setup.ssh(&[], &["echo plain"]).ok("a command").text(), "plain\n");
    assert!(!setup.lab.path("rec").exists());
}

#[test]
fn without_a_safe_directory_there_is_no_terminal() {
    let Some(setup) = setup("without_a_safe_directory") else { return };
    fs::create_dir(setup.lab.path("rec")).unwrap();
    fs::set_permissions(setup.lab.path("rec"), fs::Permissions::from_mode(0o777)).unwrap();
    let terminal = terminal(&setup, "echo un''recorded");
    let screen = terminal.screen_at_end();
    assert!(!screen.contains("unrecorded"), "{screen}");
    assert!(screen.contains("the terminal cannot be recorded (RecordTerminal)"), "{screen}");
    assert_ne!(terminal.wait(), 0);
    setup.logged("or others may write to it");
}

#[test]
fn a_full_disk_ends_the_terminal() {
    if !is_root() {
        return skip("a_full_disk_ends_the_terminal", "needs root to mount a small tmpfs");
    }
    let Some(setup) = setup("a_full_disk_ends_the_terminal") else { return };
    fs::create_dir(setup.lab.path("rec")).unwrap();
    setup.lab.sh("mount -t tmpfs -o size=64k,mode=700 none rec").ok("mount");
    let mut terminal = terminal(&setup, "echo begun; while :; do echo more and more and more; done");
    terminal.expect("begun");
    let status = terminal.wait();
    let recorded = setup.lab.sh("cat rec/*.cast").text();
    setup.lab.sh("umount -l rec").ok("umount");
    assert_ne!(status, 0);
    assert!(recorded.contains("begun"));
    setup.logged("its recording cannot be written: No space left on device");
    // The shell has been hung up.
    setup.logged("Close session");
}

/// Returns whether a server with this configuration records a terminal of the user who runs the tests.
#[track_caller]
fn is_recorded(test: &str, config: &str) -> Option<bool> {
    // A block ends with its file.
    let lab = Lab::new();
    lab.write("rules", &config.replace("{lab}", &lab.dir().to_string_lossy()).replace("{me}", &me()));
    let setup = ServerSetup::with_lab(test, lab, "Include {lab}/rules\n")?;
    let terminal = terminal(&setup, "echo sh''own");
    let screen = terminal.screen_at_end();
    assert!(screen.contains("shown") && terminal.wait() == 0, "{config}: {screen}");
    eventually("the end", || setup.server.log().contains("Close session"));
    if !setup.lab.path("rec").exists() {
        return Some(false);
    }
    let (_, events) = recording(&setup);
    assert!(events.iter().any(|event| event.1 == "o" && event.2.contains("shown")), "{config}: {events:?}");
    Some(true)
}

#[test]
fn rules_of_a_match_block_decide_what_is_recorded() {
    let group = my_group();
    for (config, expected) in [
        ("Match User {me}\nRecordTerminal {lab}/rec\n".to_owned(), true),
        (format!("Match Group {group}\nRecordTerminal {{lab}}/rec\n"), true),
        ("Match User another,*,!{me}\nRecordTerminal {lab}/rec\n".to_owned(), false),
        ("RecordTerminal {lab}/rec\nMatch User {me}\nRecordTerminal none\n".to_owned(), false),
        ("RecordTerminal none\nMatch Address 127.0.0.0/8\nRecordTerminal {lab}/rec\n".to_owned(), true),
    ] {
        let Some(recorded) = is_recorded("rules_of_a_match_block", &config) else { return };
        assert_eq!(recorded, expected, "{config}");
    }
}

/// Returns the name of the main group of the user who runs the tests.
fn my_group() -> String {
    let out = std::process::Command::new("id").arg("-gn").output().unwrap();
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}
