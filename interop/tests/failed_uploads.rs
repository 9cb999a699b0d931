//! Uploads of several sources: those that failed are named in OpenSSH's lines, which scripts look for.

use std::fs;
use std::path::Path;

use lh_interop::{Lab, Lhsshd, our, peers};

/// Makes sources of which some cannot be copied to `target`: there a directory has the name of a file.
fn prepare(lab: &Lab) {
    for dir in ["good/below", "bad/below", "target/file", "target/bad/below/f"] {
        fs::create_dir_all(lab.path(dir)).unwrap();
    }
    for file in ["fine", "file", "fil", "good/below/f", "bad/below/f", "bad/g"] {
        fs::write(lab.path(file), file).unwrap();
    }
}

/// The lines about failed uploads, without the name of the program.
fn failed_uploads(lab: &Lab, program: &Path, port: u16, flags: &[&str], sources: &[&str]) -> Vec<String> {
    let _ = fs::remove_dir_all(lab.path("target"));
    prepare(lab);
    let mut words = lab.client_options();
    words.extend(["-P".to_owned(), port.to_string(), "-q".to_owned()]);
    words.extend(flags.iter().map(|&flag| flag.to_owned()));
    words.extend(sources.iter().map(|name| lab.arg(name)));
    words.push(format!("127.0.0.1:{}", lab.arg("target")));
    let ran = lab.run(program, &words);
    assert_ne!(ran.code, 0, "{}", ran.err);
    let lines = ran.err.lines().filter_map(|line| line.split_once(": failed to upload "));
    lines.map(|(_, rest)| rest.to_owned()).collect()
}

#[test]
fn each_failed_source_of_an_upload_is_named() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let scp = peers("each_failed_source_of_an_upload_is_named", ["scp"]);
    let target = lab.arg("target");
    let sftp_server = our("lhsftp-server").display().to_string();
    for (flags, sources, failed) in [
        (&["-r"][..], &["fine", "file", "fil", "good", "bad", "missing"][..], &["file", "bad"][..]),
        (&["-r", "-l", "80000"], &["file", "fine"], &["file"]),
        (&[], &["fine", "file", "fil"], &["file"]),
        (&["-r", "-D", &sftp_server], &["fine", "bad", "file"], &["bad", "file"]),
        (&["-rp", "--in-place"], &["bad", "fine", "good"], &["bad"]),
    ] {
        let line = |name: &&str| {
            let kind = if *name == "bad" { "directory" } else { "file" };
            format!("{kind} {} to {target}", lab.arg(name))
        };
        let expected: Vec<String> = failed.iter().map(line).collect();
        let ours = failed_uploads(&lab, &our("lhscp"), server.port, flags, sources);
        assert_eq!(ours, expected, "{flags:?} {sources:?}");
        let for_scp = !flags.iter().any(|flag| ["--in-place", "-D"].contains(flag));
        if let Some([scp]) = scp.as_ref().filter(|_| for_scp) {
            let theirs = failed_uploads(&lab, scp, server.port, flags, sources);
            assert_eq!(theirs, expected, "scp {flags:?} {sources:?}");
        }
    }
}
