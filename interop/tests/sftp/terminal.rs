//! `lhsftp` on a terminal: typed input and the screen.

use std::fs;
use std::time::Duration;

use lh_interop::path::{Path, Traits};
use lh_interop::{Lab, Lhsshd, Terminal, assert_same_file, eventually, make_blob, me, our};
use lh_testkit::leftovers;

use super::{Local, prepare, ssh_flags};

fn at_a_terminal(lab: &Lab, args: &[String]) -> Terminal {
    Terminal::start(&our("lhsftp"), args, lab.dir(), &lab.path("home"))
}

#[test]
fn lines_are_edited_completed_and_recalled() {
    let lab = Lab::new();
    prepare(&lab);
    let server = our("lhsftp-server").to_string_lossy().into_owned();
    let mut terminal = at_a_terminal(&lab, &["-D".to_owned(), server]);
    terminal.expect("Attached to ");
    terminal.expect("sftp> ");
    terminal.send("lp\t");
    terminal.expect("lpwd ");
    terminal.send("\n");
    terminal.expect("Local working directory: ");
    // A directory of the server, a name with a space, and the quotes around it.
    terminal.send("cd r\t\n");
    terminal.expect("cd r/");
    terminal.send("get f\\ \t");
    terminal.expect("get f\\ 2 ");
    terminal.send("esc\n");
    terminal.expect(&format!("Fetching {} to esc", lab.arg("r/f 2")));
    terminal.expect("100%");
    terminal.expect("sftp> ");
    terminal.send("ls -1 \"f\t");
    terminal.send("\t\t");
    terminal.expect("f 2");
    terminal.send(" 2\"\n");
    terminal.expect("\r\nf 2\r\n");
    // The second argument of get is a local path, that of put a remote one.
    terminal.send("get f1 l/t\t\n");
    terminal.expect("l/t/");
    terminal.expect(&format!("Fetching {} to l/t/f1", lab.arg("r/f1")));
    terminal.expect("sftp> ");
    terminal.send("\u{10}");
    terminal.expect("get f1 l/t/");
    // ^C discards the line, not the session.
    terminal.send("\u{3}");
    terminal.expect("sftp> ");
    terminal.send("!echo $((6*7))\n");
    terminal.expect("\r\n42\r\n");
    terminal.send("nonsense\n");
    terminal.expect("Invalid command.");
    terminal.expect("sftp> ");
    terminal.send("\u{4}");
    assert_eq!(terminal.wait(), 0);
    assert_same_file(&lab.path("r/f 2"), &lab.path("esc"));
}

/// Terminals put marks around pasted text, so the editor gets its lines at once.
#[test]
fn pasted_lines_run_one_after_the_other() {
    let lab = Lab::new();
    prepare(&lab);
    let server = our("lhsftp-server").to_string_lossy().into_owned();
    let mut terminal = at_a_terminal(&lab, &["-D".to_owned(), server]);
    terminal.expect("sftp> ");
    terminal.send("\u{1b}[200~lpwd\nget r/f1 pasted\n!echo $((6*7))\n\u{1b}[201~\n");
    terminal.expect("Local working directory: ");
    terminal.expect("sftp> get r/f1 pasted\r\n");
    terminal.expect(&format!("Fetching {} to pasted", lab.arg("r/f1")));
    terminal.expect("sftp> !echo $((6*7))\r\n");
    terminal.expect("42\r\n");
    terminal.expect("sftp> ");
    terminal.send("\u{4}");
    assert_eq!(terminal.wait(), 0);
    assert_same_file(&lab.path("r/f1"), &lab.path("pasted"));
}

/// What was pasted behind an interrupted line may depend on it, as `rm` behind `get` does.
#[test]
fn an_interrupted_line_drops_those_pasted_with_it() {
    let lab = Lab::new();
    prepare(&lab);
    let server = our("lhsftp-server").to_string_lossy().into_owned();
    let mut terminal = at_a_terminal(&lab, &["-D".to_owned(), server]);
    terminal.expect("sftp> ");
    terminal.send("\u{1b}[200~!echo $((6*7)); exec cat\n!echo $((7*8)) > next\n\u{1b}[201~\n");
    terminal.expect("42\r\n");
    terminal.send("\u{3}");
    terminal.expect("Interrupt");
    terminal.expect("sftp> ");
    terminal.send("!echo $((8*9))\n");
    terminal.expect("72\r\n");
    terminal.expect("sftp> ");
    terminal.send("\u{4}");
    assert_eq!(terminal.wait(), 0);
    assert!(!lab.path("next").exists(), "the second line ran");
}

#[test]
fn a_tree_has_one_line_of_progress() {
    let lab = Lab::new();
    lab.sh("mkdir -p tree/a tree/b && for i in 1 2 3 4 5; do head -c 400000 /dev/zero > tree/a/f$i; done")
        .ok("tree");
    let server = our("lhsftp-server").to_string_lossy().into_owned();
    // The copy takes two seconds, so that the line is drawn during it.
    let mut terminal = at_a_terminal(&lab, &["-l", "8000", "-D", &server].map(str::to_owned));
    terminal.expect("sftp> ");
    terminal.send(&format!("lcd {0}\ncd {0}\n", lab.dir().display()));
    terminal.expect("sftp> ");
    terminal.expect("sftp> ");
    for (command, begun) in [
        ("put -r tree up", format!("Uploading tree/ to {}", lab.arg("up"))),
        ("get -R tree down", format!("Fetching {}/ to down", lab.arg("tree"))),
    ] {
        terminal.send(&format!("{command}\n"));
        let screen = terminal.expect("5 files") + &terminal.expect("sftp> ");
        let shown: Vec<&str> = screen.split(['\r', '\n']).filter(|line| !line.trim().is_empty()).collect();
        assert!(shown.contains(&begun.as_str()), "{screen:?}");
        let running = |line: &&&str| line.contains("/5") && line.contains(" files") && line.contains("ETA");
        assert!(shown.iter().filter(running).count() > 0, "{screen:?}");
        assert!(screen.contains("5 files") && screen.contains("100% 2000kB"), "{screen:?}");
        for line in &shown {
            let of_one = line.starts_with("f1") || line.contains("Entering") || line.contains("Retrieving");
            assert!(!of_one && line.chars().count() < 80, "{line:?} in {screen:?}");
        }
    }
    terminal.send("\u{4}");
    assert_eq!(terminal.wait(), 0);
    lab.sh("diff -r tree up && diff -r tree down").ok("the copies");
}

#[test]
fn arguments_of_commands_are_completed() {
    let lab = Lab::new();
    lab.sh("mkdir -p r/dir l/ldir && touch r/file r/fine l/lfile && ln -s dir r/link").ok("files");
    let server = our("lhsftp-server").to_string_lossy().into_owned();
    let mut terminal = at_a_terminal(&lab, &["-D".to_owned(), server]);
    terminal.expect("sftp> ");
    terminal.send(&format!("cd {}\nlcd {}\n", lab.arg("r"), lab.arg("l")));
    terminal.expect("sftp> ");
    terminal.expect("sftp> ");
    // The prompt is drawn again while a line is edited. Of an empty line the cursor stands right behind it.
    let empty_line = "sftp> \r\u{1b}[6C";
    // What is typed, and what it has become. ^C gives the line up.
    for (typed, completed) in [
        ("rename fil\t", "rename file "),
        ("rename file di\t", "rename file dir/"),
        ("chmod 600 fin\t", "chmod 600 fine "),
        ("ln -s fil\t", "ln -s file "),
        ("rm fin\t", "rm fine "),
        ("ls -l li\t", "ls -l link/"),
        ("rmdir d\t", "rmdir dir/"),
        ("cd \"di\t", "cd \"dir/"),
        ("df -h d\t", "df -h dir/"),
        ("put lf\t", "put lfile "),
        ("put lfile di\t", "put lfile dir/"),
        ("lcd l\t", "lcd ldir/"),
        ("lls lf\t", "lls lfile "),
        ("symlink fil\t", "symlink file "),
    ] {
        terminal.send(typed);
        terminal.expect(completed);
        terminal.send("\u{3}");
        terminal.expect(empty_line);
    }
    // Of several names the second key shows all. ^C before the line is drawn again is lost.
    terminal.send("get fine l\t\t");
    for drawn in ["get fine l", "lfile", "get fine l"] {
        terminal.expect(drawn);
    }
    terminal.send("\u{3}");
    terminal.expect(empty_line);
    terminal.send("rename -\t");
    terminal.expect("rename -l");
    terminal.send("\u{3}");
    terminal.expect(empty_line);
    terminal.send("\u{4}");
    assert_eq!(terminal.wait(), 0);
}

/// Interrupts a copy: the prompt returns, and no file has the target's name. The repeated command finishes
/// the copy and leaves no other file.
fn interrupt_a_copy(lab: &Lab, args: &[String]) {
    make_blob(&lab.path("large"), 30_000_000);
    for verb in ["get", "put"] {
        let mut terminal = at_a_terminal(lab, args);
        terminal.expect("sftp> ");
        terminal.send(&format!("lcd {0}\ncd {0}\n", lab.dir().display()));
        terminal.expect("sftp> ");
        terminal.expect("sftp> ");
        terminal.send(&format!("{verb} large copy\n"));
        terminal.expect("ETA");
        terminal.send("\u{3}");
        terminal.expect("Interrupt");
        terminal.expect("sftp> ");
        assert!(!lab.path("copy").exists(), "{verb}: half a file under its final name");
        // No leftover, if no data had arrived yet.
        assert!(leftovers(lab.dir()).len() <= 1, "{verb}");
        // The session still works, and can finish the copy.
        terminal.send("pwd\n");
        terminal.expect("Remote working directory: ");
        terminal.expect("sftp> ");
        terminal.send("bye\n");
        assert_eq!(terminal.wait(), 0);
        Local::new(lab).batch(&[], &format!("{verb} large copy\n")).ok("the rest");
        assert_same_file(&lab.path("large"), &lab.path("copy"));
        assert_eq!(leftovers(lab.dir()).len(), 0, "{verb}");
        fs::remove_file(lab.path("copy")).unwrap();
    }
}

#[test]
fn an_interrupt_ends_the_copy_and_not_the_session() {
    let lab = Lab::new();
    let server = our("lhsftp-server").to_string_lossy().into_owned();
    let slow = ["-l", "16000", "-D", &server].map(str::to_owned);
    interrupt_a_copy(&lab, &slow);
    let server = Lhsshd::start(&lab, "");
    let mut args = ssh_flags(&lab, server.port);
    args.extend(["-l".to_owned(), "16000".to_owned(), format!("{}@127.0.0.1", me())]);
    interrupt_a_copy(&lab, &args);
}

#[test]
fn a_lost_connection_is_noticed_at_the_prompt() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ClientAliveInterval 1\nClientAliveCountMax 2");
    let path = Path::to(server.port, Traits::long(Duration::ZERO));
    lab.know(path.port);
    let mut args = ssh_flags(&lab, path.port);
    args.push(format!("{}@127.0.0.1", me()));
    let mut terminal = at_a_terminal(&lab, &args);
    terminal.expect("sftp> ");
    // More unanswered questions than the server puts up with, each in a packet of its own.
    let (mut packets, mut bytes) = (0, path.back());
    eventually("the server's questions", || {
        packets += usize::from(path.back() > std::mem::replace(&mut bytes, path.back()));
        packets > 3
    });
    terminal.send("pwd\n");
    terminal.expect("Remote working directory: ");
    terminal.expect("sftp> ");
    // Kills the processes that serve this connection, not the listener.
    let mine = lab.sh(&format!("pgrep -d ' ' -P {}", server.pid())).text();
    lab.sh(&format!("kill -9 {}", mine.trim())).ok("kill");
    terminal.expect("Connection closed");
    assert_eq!(terminal.wait(), 255);
}
