//! What users do wrong, and what the machine or the other end does wrong: each has a message that names it,
//! and an exit status of docs/measuring.md.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

/// Exit status, standard output and standard error of the program in this directory.
fn run(directory: &Path, words: &[&str]) -> (i32, String, String) {
    let done = command(directory, words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
}

fn command(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(words).current_dir(directory).env("HOME", directory).env_remove("XDG_STATE_HOME");
    command.stdin(Stdio::null());
    command
}

/// Asserts that the command fails with this status and a first line that has these words.
#[track_caller]
fn fails(directory: &Path, words: &[&str], status: i32, expected: &str) {
    let (code, out, err) = run(directory, words);
    assert_eq!(code, status, "{words:?}: {out}{err}");
    assert!(!err.contains("panicked"), "{words:?}: {err}");
    let first = err.lines().next().unwrap_or_default();
    assert!(first.starts_with("longhaul: ") && first.contains(expected), "{words:?}: {err}");
}

const RUN: &str = r#"{"longhaul_bench":1,"host":"h","rows":[{"table":"t","row":"r","column":"c","unit":"seconds","values":[1,1,1]}]}"#;

#[test]
fn mistakes_on_the_command_line_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    std::fs::write(at.join("ok.json"), RUN).unwrap();
    std::fs::write(at.join("list"), "127.0.0.1\n").unwrap();
    for part in ["2", "-1", "NaN", "1e400", "x", ""] {
        let expected = format!("--fail-below \"{part}\": not a number from 0 to 1");
        fails(at, &["compare", "--fail-below", part, "ok.json", "ok.json"], 2, &expected);
    }
    fails(at, &["bench", "--shard", "1/2", "h"], 2, "--shard goes with --hosts");
    fails(at, &["bench", "--shard", "3/2", "--hosts", "list"], 2, "bad shard \"3/2\"");
    fails(at, &["bench", "--peer", "x", "h"], 2, "--peer \"x\": not NAME=PROGRAM");
    fails(at, &["bench", "--tcp-port", "65536", "h"], 2, "--tcp-port takes a number");
    fails(at, &["bench", "--peer", "x=list", "h"], 255, "list: Permission denied");
    fails(at, &["bench", "--peer", "x=.", "h"], 255, ".: Is a directory");
    fails(at, &["doctor", ""], 255, "\"\": invalid destination");
    fails(at, &["doctor", "--watch", "--", "-5"], 255, "process -5: No such process");
    fails(at, &["doctor", "--watch", "99999999999"], 255, "process 99999999999: No such process");
    fails(at, &["doctor", "--watch", "missing/file"], 255, "missing/file: No such file or directory");
    for flag in ["--local-dir", "--remote-dir"] {
        let words = ["doctor", "--watch", flag, ".", "h"];
        fails(at, &words, 2, &format!("doctor: --watch does not go with {flag}"));
    }
    fails(at, &["sessions", "--frob"], 2, "unknown option --frob");
    fails(at, &["report", "-o"], 2, "option requires an argument -- o");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    std::fs::write(at.join("ok.json"), RUN).unwrap();
    std::fs::write(at.join("cut.json"), &RUN[..40]).unwrap();
    std::fs::write(at.join("binary"), [0xff, 0xfe, 0, 1]).unwrap();
    std::fs::create_dir(at.join("directory")).unwrap();
    fails(at, &["compare", "ok.json", "missing"], 2, "missing: No such file or directory");
    fails(at, &["compare", "ok.json", "cut.json"], 2, "cut.json: line 1: the line is cut short");
    fails(at, &["report", "cut.json"], 1, "cut.json: line 1: the line is cut short");
    fails(at, &["report", "-o", "directory", "ok.json"], 1, "directory: Is a directory");
    fails(at, &["verify", "directory"], 2, "directory: Is a directory");
    fails(at, &["verify", "binary"], 2, "binary: is not a manifest");
    fails(at, &["bench", "--hosts", "binary"], 255, "binary: not a text file (UTF-8)");
    fails(at, &["doctor", "--watch", "./binary"], 255, "binary: line 1: not JSON");
    // The page is opened before anything is measured.
    fails(
        at,
        &["bench", "--html", "missing/page", "127.0.0.1"],
        255,
        "missing/page: No such file or directory",
    );
    assert!(!at.join("report.html").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn endless_files_are_not_read_into_memory() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    std::fs::write(at.join("ok.json"), RUN).unwrap();
    fails(at, &["compare", "/dev/zero", "ok.json"], 2, "/dev/zero: line 1: longer than 16 MiB");
    fails(at, &["bench", "--hosts", "/dev/zero"], 255, "/dev/zero: longer than 16 MiB");
}

/// The kernel sends a signal besides the error, and the signal's default action ends a program.
#[cfg(target_os = "linux")]
#[test]
fn limits_of_file_sizes_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    std::fs::write(at.join("ok.json"), RUN).unwrap();
    let line = r#"ulimit -f 1; exec "$0" "$@""#;
    let done = Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_longhaul"), "report", "-o", "page.html", "ok.json"])
        .current_dir(at)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert_eq!((done.status.code(), &*err), (Some(1), "longhaul: page.html: File too large\n"));
}

#[cfg(target_os = "linux")]
#[test]
fn full_disks_and_closed_pipes_end_without_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    std::fs::write(at.join("ok.json"), RUN).unwrap();
    for (words, full) in [
        (&["compare", "ok.json", "ok.json"][..], 2),
        (&["report", "-o", "-", "ok.json"], 1),
        (&["transfers"], 1),
        (&["sessions"], 1),
    ] {
        let out = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let done = command(at, words).stdout(out).output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(full), "{words:?}: {err}");
        assert!(err.contains("standard output: No space left on device"), "{words:?}: {err}");
        // A reader that closes the pipe, as `head` does, is no failure.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = command(at, words).stdout(writer).output().unwrap();
        assert_eq!((done.status.code(), &done.stderr[..]), (Some(0), &b""[..]), "{words:?}");
    }
}

#[test]
fn ports_without_ssh_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for (said, expected) in [
        (&b"HTTP/1.1 400 Bad Request\r\n"[..], "no SSH server: it says \"HTTP/1.1 400 Bad Request\""),
        (b"", "the connection was closed before the server's greeting"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut greeting = [0; 24];
            stream.read_exact(&mut greeting).unwrap();
            stream.write_all(said).unwrap();
        });
        fails(at, &["doctor", "-F", "none", "-P", &port, "127.0.0.1"], 255, expected);
        server.join().unwrap();
    }
}
