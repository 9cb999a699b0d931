//! The progress display of `lhscp` on terminals of 40, 80 and 200 columns.

use lh_interop::{Lab, Lhsshd, Terminal, make_blob, me, our};

fn copying(lab: &Lab, server: &Lhsshd, flags: &[&str], source: &str, target: &str) -> Terminal {
    copying_on(80, lab, server, flags, source, target)
}

fn copying_on(
    columns: u16,
    lab: &Lab,
    server: &Lhsshd,
    flags: &[&str],
    source: &str,
    target: &str,
) -> Terminal {
    let mut args: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    args.extend(lab.client_options());
    args.extend(["-P".to_owned(), server.port_arg(), lab.arg(source)]);
    args.push(format!("{}@127.0.0.1:{}", me(), lab.arg(target)));
    Terminal::start_with_columns(columns, &our("lhscp"), &args, lab.dir(), &lab.path("home"))
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

/// A terminal of 40 columns has room for the percentage, the bytes and the rate; one of 200 for a bar, the
/// whole name and the time.
#[test]
fn narrow_and_wide_terminals_show_what_they_have_room_for() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let name = "a-file-whose-name-takes-fifty-columns-of-a-terminal";
    make_blob(&lab.path(name), 2_000_000);
    for columns in [40, 80, 200] {
        // Two seconds, so that running lines are shown.
        let screen = copying_on(columns, &lab, &server, &["-l", "8000"], name, "copy").screen_at_end();
        let shown = lines(&screen);
        for line in &shown {
            assert!(line.chars().count() < usize::from(columns), "{columns}: {line:?}");
            assert!(line.contains('%') && line.starts_with("a-file"), "{columns}: {line:?}");
        }
        assert!(shown.len() > 1, "{columns}: {screen:?}");
        let times = shown.iter().any(|line| line.trim_end().ends_with("ETA"));
        assert_eq!(times, columns >= 80, "{columns}: {screen:?}");
        let whole = shown.iter().all(|line| line.starts_with(name));
        assert_eq!(whole, columns == 200, "{columns}: {screen:?}");
        let bar = shown.iter().any(|line| line.contains('[') && line.contains(']'));
        assert_eq!(bar, columns == 200, "{columns}: {screen:?}");
        let last = shown.last().unwrap();
        assert!(last.contains("100%") && last.contains("2000kB"), "{columns}: {screen:?}");
    }
}

/// A tree is shown by the number of its files; on a narrow terminal, too.
#[test]
fn trees_fit_narrow_and_wide_terminals() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    lab.sh("mkdir -p tree/a && for i in 1 2 3 4 5; do head -c 400000 /dev/zero > tree/a/f$i; done")
        .ok("tree");
    for columns in [40, 200] {
        let target = format!("copy{columns}");
        let screen =
            copying_on(columns, &lab, &server, &["-r", "-l", "8000"], "tree", &target).screen_at_end();
        let shown = lines(&screen);
        for line in &shown {
            assert!(line.chars().count() < usize::from(columns), "{columns}: {line:?}");
        }
        let last = shown.last().unwrap();
        assert!(last.starts_with("5 files") && last.contains("100%"), "{columns}: {screen:?}");
        let running = shown.iter().any(|line| line.contains("/5 files") && line.contains("B/s"));
        assert!(running, "{columns}: {screen:?}");
    }
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
