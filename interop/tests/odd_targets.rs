//! Copies to targets that are not regular files, and copies of sparse files: a copy could hang, or the copied
//! file could grow.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use lh_interop::{Inetd, Lab, Lhsshd, assert_same_file, make_blob, me, our, peers, sftp_servers};

/// A server cannot write to a named pipe at an offset, and OpenSSH's waits for a reader first: the copy fails
/// at once with a message.
///
/// Covers: lhscp --in-place; sftp -b
#[test]
fn upload_to_a_named_pipe_fails_without_hanging() {
    let lab = Lab::new();
    make_blob(&lab.path("big"), 300_000);
    lab.write("small", "a few words\n");
    lab.sh("mkdir tree there there/tree; mkfifo pipe there/tree/pipe; echo text > tree/pipe; echo more > tree/file")
        .ok("pipes");
    let why = "is a named pipe, which an SFTP server cannot write to";
    for program in sftp_servers("named pipes") {
        let config = format!("Subsystem sftp {}\n", program.display());
        let server = Lhsshd::start(&lab, &config);
        let port = server.port_arg();
        let pipe = lab.arg("pipe");
        let host = format!("{}@127.0.0.1", me());
        for flags in [&[][..], &["--in-place"], &["--no-verify"]] {
            for file in ["big", "small"] {
                let mut args = lab.client_options();
                args.extend(flags.iter().map(|&flag| flag.to_owned()));
                args.extend(["-P".to_owned(), port.clone(), file.to_owned(), format!("{host}:{pipe}")]);
                let ran = lab.run(&our("lhscp"), &args);
                assert_eq!(ran.code, 1, "{}", ran.err);
                assert!(ran.err.contains(&format!("dest open \"{pipe}\": {why}")), "{}", ran.err);
            }
        }
        // In a tree, the other files are copied.
        let mut args = lab.client_options();
        args.extend(["-r".to_owned(), "-P".to_owned(), port.clone(), "tree".to_owned()]);
        args.push(format!("{host}:{}", lab.arg("there")));
        let ran = lab.run(&our("lhscp"), &args);
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert_eq!(lab.read("there/tree/file"), "more\n");
        // At the prompt of `lhsftp` too.
        lab.write("batch", &format!("put small {pipe}\n"));
        let mut args = lab.client_options();
        args.extend(["-b".to_owned(), "batch".to_owned(), "-P".to_owned(), port, host]);
        let ran = lab.run(&our("lhsftp"), &args);
        assert_eq!(ran.code, 1, "{}", ran.err);
        // Our server reports it itself when it gets the file in one request.
        let said = ran.err.contains(why) || ran.err.contains("No such device or address");
        assert!(said && ran.err.contains(&format!("dest open \"{pipe}\"")), "{}", ran.err);
    }
}

/// Makes a file of 64 MiB with 12 KiB of data, the last of them at the end or before a hole.
fn make_sparse(path: &Path, hole_at_the_end: bool) {
    let file = fs::File::create(path).unwrap();
    file.set_len(64 << 20).unwrap();
    let last = if hole_at_the_end { 41 << 20 } else { (64 << 20) - 4096 };
    for (at, byte) in [(0, 1_u8), (20 << 20, 2), (last, 3)] {
        file.write_all_at(&[byte; 4096], at).unwrap();
    }
}

/// Covers: scp -3; wire data-ranges@longhaul
#[test]
fn holes_stay_holes_from_one_server_to_another() {
    let lab = Lab::new();
    let source = Lhsshd::start(&lab, "");
    let ours = Lhsshd::start(&lab, "");
    let theirs = peers("a relay to OpenSSH's sshd", ["sshd"]).map(|[sshd]| Inetd::openssh(&lab, &sshd, ""));
    let targets: Vec<u16> = std::iter::once(ours.port).chain(theirs.iter().map(|sshd| sshd.port)).collect();
    for hole_at_the_end in [true, false] {
        make_sparse(&lab.path("holes"), hole_at_the_end);
        for &port in &targets {
            for flags in [&[][..], &["--verify"]] {
                for old in [None, Some(70 << 20)] {
                    let _ = fs::remove_file(lab.path("copy"));
                    if let Some(old) = old {
                        fs::write(lab.path("copy"), vec![9; old]).unwrap();
                    }
                    let mut args = lab.client_options();
                    args.push("-3".to_owned());
                    args.extend(flags.iter().map(|&flag| flag.to_owned()));
                    for (port, path) in [(source.port, "holes"), (port, "copy")] {
                        args.push(format!("scp://{}@127.0.0.1:{port}/{}", me(), lab.arg(path)));
                    }
                    lab.run(&our("lhscp"), &args).ok("relay");
                    assert_same_file(&lab.path("holes"), &lab.path("copy"));
                    let takes = fs::metadata(lab.path("copy")).unwrap().blocks() * 512;
                    assert!(takes <= 256 * 1024, "{takes} bytes on the disk, {old:?}");
                }
            }
        }
    }
}

/// A skipped hole lies beyond the offset that the server has confirmed.
///
/// Covers: lhscp --no-verify
#[test]
fn a_small_file_with_a_hole_arrives_at_a_stock_server() {
    let Some([sshd]) = peers("small files with holes", ["sshd"]) else { return };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "");
    for size in [100_000, 200_000] {
        let file = fs::File::create(lab.path("holes")).unwrap();
        file.set_len(size).unwrap();
        file.write_all_at(&[5; 4096], 0).unwrap();
        for flag in ["--no-verify", "--verify", "--in-place"] {
            let _ = fs::remove_file(lab.path("copy"));
            let mut args = lab.client_options();
            args.extend([flag, "-P", &server.port_arg(), "holes"].map(str::to_owned));
            args.push(format!("{}@127.0.0.1:{}", me(), lab.arg("copy")));
            lab.run(&our("lhscp"), &args).ok(flag);
            assert_same_file(&lab.path("holes"), &lab.path("copy"));
        }
    }
}

/// A server without SFTP is tried once; the message names the flag that works.
///
/// Covers: scp -O
#[test]
fn a_server_without_sftp_ends_the_copy_at_once() {
    let lab = Lab::new();
    lab.write("file", "content");
    let target = format!("127.0.0.1:{}", lab.arg("there"));
    // The comment keeps the lab from adding a line of its own.
    for config in ["# Subsystem sftp is not here", "Subsystem sftp /nonexistent/program"] {
        let server = Lhsshd::start(&lab, config);
        let copy = |flag: &[&str]| {
            let mut words = lab.client_options();
            words.extend(["-P".to_owned(), server.port.to_string()]);
            words.extend(flag.iter().map(|&word| word.to_owned()));
            words.extend([lab.arg("file"), target.clone()]);
            lab.run(&our("lhscp"), &words)
        };
        let ran = copy(&[]);
        assert_eq!(ran.code, 255, "{config}: {}", ran.err);
        assert!(ran.err.contains("Connection closed") && ran.err.contains("-O copies by"), "{}", ran.err);
        assert!(!ran.err.contains("connecting again"), "{config}: {}", ran.err);
        let refused = ran.err.contains("subsystem request failed on channel 0");
        assert_eq!(refused, config.contains("not here"), "{}", ran.err);
        copy(&["-O"]).ok(config);
        assert_eq!(lab.read("there"), "content");
        std::fs::remove_file(lab.path("there")).unwrap();
    }
}
