//! The progress display of `lhscp` on a terminal of 80 columns.

use lh_interop::{Lab, Lhsshd, Terminal, make_blob, me, our};

fn copying(lab: &Lab, server: &Lhsshd, flags: &[&str], source: &str, target: &str) -> Terminal {
    let mut args: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    args.extend(lab.client_options());
    args.extend(["-P".to_owned(), server.port_arg(), lab.arg(source)]);
    args.push(format!("{}@127.0.0.1:{}", me(), lab.arg(target)));
    Terminal::start(&our("lhscp"), &args, lab.dir(), &lab.path("home"))
}

/// Returns the terminal's lines in the order they were shown.
fn lines(screen: &str) -> Vec<&str> {
    screen.split(['\r', '\n']).filter(|line| !line.trim().is_empty()).collect()
}

#[test]
fn a_tree_counts_its_files_and_fits_the_terminal() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    lab.sh(
        "mkdir -p tree/a/b tree/c && for i in 1 2 3 4 5; do head -c 400000 /dev/zero > tree/a/b/f$i; done",
    )
    .ok("tree");
    // The copy takes two seconds, so that the display is drawn during it.
    let screen = copying(&lab, &server, &["-r", "-l", "8000"], "tree", "copy").screen_at_end();
    let shown = lines(&screen);
    let last = shown.last().unwrap();
    assert!(last.starts_with("5 files") && last.contains("100% 2000kB"), "{screen:?}");
    for line in &shown {
        assert!(line.chars().count() < 80, "{line:?}");
        assert!(
            !line.contains("/6 files") && !line.contains("/7 files"),
            "directories are no files: {line:?}"
        );
        let whole = line.contains("00:00 ETA");
        assert!(!whole || line.contains("5/5 files"), "nothing is to come: {line:?}");
    }
    assert!(shown.iter().any(|line| line.contains(" files") && line.ends_with("ETA ")), "{screen:?}");
}

#[test]
fn an_interrupted_copy_leaves_a_readable_line() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 40 << 20);
    let mut terminal = copying(&lab, &server, &["-l", "8000"], "blob", "copy");
    terminal.expect(" ETA ");
    terminal.send("\x03");
    let screen = terminal.screen_at_end();
    assert!(screen.contains("^C") && !screen.contains("ETA^C"), "{screen:?}");
    // The message begins a line.
    let said =
        lines(&screen).into_iter().find(|line| line.contains("interrupted")).unwrap_or_default().to_owned();
    assert!(said.starts_with("lhscp: "), "{screen:?}");
}
