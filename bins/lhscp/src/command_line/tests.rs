use std::ffi::OsString;
use std::path::PathBuf;

use lh_config::client::CommandLine;

use super::*;

fn interpreted(words: &[&str]) -> Result<Arguments, Stop> {
    let parsed = SCP.parse(words.iter().map(OsString::from))?;
    let home = PathBuf::from("/home/me");
    interpret(&parsed, Account { name: "me".into(), uid: 1000, home, host_name: "here".into() })
}

#[test]
fn flags_reach_copy_and_configuration() {
    let words = [
        "-rpC",
        "-l",
        "800",
        "-P2222",
        "-o",
        "User=x",
        "-X",
        "nrequests=7",
        "-X",
        "buffer=1000",
        "a",
        "b",
        "u@h:c",
    ];
    let got = interpreted(&words).expect("fine");
    assert!(got.options.recursive && got.options.preserve && got.needs_directory());
    assert_eq!(got.options.limits.bits_per_second, Some(800 * 1024));
    assert_eq!((got.options.limits.requests, got.options.limits.request_bytes), (Some(7), Some(1000)));
    let Place::Remote { host, .. } = &got.target else { panic!("remote") };
    let lines = got.request(host).command_line;
    let place = |line: CommandLine| lines.iter().position(|each| *each == line).expect("the line");
    place(CommandLine::Flag("Compression", vec!["yes".into()]));
    place(CommandLine::Flag("Port", vec!["2222".into()]));
    // The user of u@h comes behind -o: first value wins.
    let user = place(CommandLine::Flag("User", vec!["u".into()]));
    assert!(place(CommandLine::Option("User=x".into())) < user);
}

#[test]
fn a_port_in_a_uri_wins_over_the_flag() {
    let got = interpreted(&["-P", "1", "scp://h:2/x", "y"]).expect("fine");
    let Place::Remote { host, .. } = &got.sources[0] else { panic!("remote") };
    assert_eq!(got.request(host).command_line[0], CommandLine::Flag("Port", vec!["2".into()]));
}

#[test]
fn mistakes_are_told_with_openssh_s_status() {
    for words in [&["a"][..], &[], &["-l", "x", "a", "b"], &["a", "scp://"], &["-O", "a", "-h:b"]] {
        assert_eq!(interpreted(words).expect_err("a mistake").status, 1, "{words:?}");
    }
    assert!(interpreted(&["a"]).expect_err("a mistake").err.starts_with("usage: lhscp"));
    assert_eq!(interpreted(&["-M", "ftp", "a", "h:b"]).expect_err("a mistake").status, 1);
    for (words, text) in [
        (&["a", "-h:b"][..], "hostname contains invalid characters\nlhscp: Connection closed\n"),
        (&["a", "b;c@h:"], "remote username contains invalid characters\nlhscp: Connection closed\n"),
        (&["-X", "x=1", "a", "h:b"], "lhscp: Invalid -X option\n"),
        (&["-X", "buffer=0", "a", "h:b"], "lhscp: Invalid buffer size \"0\": must be 1 to 262144\n"),
    ] {
        let stop = interpreted(words).expect_err("a mistake");
        assert_eq!((stop.status, stop.err.as_str()), (255, text));
    }
    let stop = interpreted(&["-P", "x", "a", "h:b"]).expect_err("a mistake");
    assert_eq!((stop.status, stop.err.as_str()), (255, "lhscp: bad port \"x\"\n"));
}

#[test]
fn a_pace_is_in_bits_and_has_units() {
    let pace = |text: &str| interpreted(&["--pace", text, "a", "h:b"]).map(|got| got.pace);
    for (text, bytes) in [("8000", 1_000), ("80k", 10_000), ("800M", 100_000_000), ("40G", 5_000_000_000)] {
        assert_eq!(pace(text).expect("fine"), Some(bytes));
    }
    for text in ["", "M", "0", "-1", "1.5G", "99999999999999G"] {
        assert_eq!(pace(text).expect_err("a mistake").status, 1, "{text}");
    }
}

#[test]
fn copies_without_part_files_do_not_log_in_again() {
    let can =
        |flags: &[&str]| interpreted(&[flags, &["a", "h:b"]].concat()).map(|got| got.can_log_in_again());
    assert!(can(&[]).expect("fine") && can(&["--retries", "9"]).expect("fine"));
    for flag in ["--in-place", "--no-resume"] {
        assert!(!can(&[flag]).expect("fine"), "{flag}");
    }
}

#[test]
fn the_last_flag_decides_about_protocol_and_route() {
    let mode = |flags: &[&str]| interpreted(&[flags, &["a", "h:b"]].concat()).expect("fine").mode;
    assert_eq!(mode(&[]), Mode::Sftp);
    assert_eq!(mode(&["-O"]), Mode::Legacy);
    assert_eq!(mode(&["-Os"]), Mode::Sftp);
    assert_eq!(mode(&["-s", "-M", "scp"]), Mode::Legacy);
    assert!(interpreted(&["-R", "g:a", "h:b"]).expect("fine").direct);
    assert!(!interpreted(&["-R3", "g:a", "h:b"]).expect("fine").direct);
    let both = interpreted(&["-S", "ssh", "-D", "server", "g:a", "h:b"]).expect("fine");
    assert_eq!(both.via, HostAccess::Server("server".into()));
}

#[test]
fn a_program_like_ssh_gets_the_flags_that_mean_something_to_it() {
    let got = interpreted(&["-4Cpqr", "-i", "key", "-oUser=x", "-B", "-l", "8", "-P", "22", "a", "h:b"]);
    let got = got.expect("fine");
    assert_eq!(got.login.ssh_words, ["-4", "-C", "-q", "-i", "key", "-o", "User=x", "-oBatchMode=yes"]);
    assert_eq!(got.login.port, Some(22));
}
