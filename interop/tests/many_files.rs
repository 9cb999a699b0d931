//! Trees of many small files: with every server, and with the batch extensions of Longhaul's server.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use lh_interop::{Inetd, Lab, Lhsshd, TestUser, assert_same_tree, is_root, me, our, peers, skip};

/// Makes two thousand files of up to 4 KiB in twenty directories.
fn make_many(root: &Path) {
    for n in 0..2_000_usize {
        let dir = root.join(format!("d{:02}/sub{}", n % 10, n % 2));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("{n}.dat")), vec![(n % 251) as u8; (n * 31) % 4_097]).unwrap();
    }
}

fn scp(lab: &Lab, port: u16, flags: &[&str], from: &str, to: &str) {
    let mut args = lab.client_options();
    args.extend(["-P".to_owned(), port.to_string()]);
    args.extend(flags.iter().chain(&[from, to]).map(|&word| word.to_owned()));
    lab.run(&our("lhscp"), &args).ok(&format!("lhscp {flags:?} {from} {to}"));
}

/// Copies up and down, with and without `-p`.
fn there_and_back(lab: &Lab, port: u16) {
    there_and_back_as(lab, port, &me(), lab.dir());
}

/// Like [`there_and_back`], for another user, into a directory that belongs to that user.
fn there_and_back_as(lab: &Lab, port: u16, user: &str, dir: &Path) {
    make_many(&lab.path("tree"));
    for flags in [&["-r"][..], &["-r", "-p"]] {
        let up = dir.join("up");
        lab.sh(&format!("rm -rf {} down", up.display())).ok("a clean start");
        let remote = format!("{user}@127.0.0.1:{}", up.display());
        scp(lab, port, flags, "tree", &remote);
        assert_same_tree(&lab.path("tree"), &up);
        scp(lab, port, flags, &remote, "down");
        assert_same_tree(&lab.path("tree"), &lab.path("down"));
        if flags.contains(&"-p") {
            let seconds = |path: &Path| fs::metadata(path).unwrap().mtime();
            for file in ["d03/sub1/3.dat", "d08/sub0"] {
                let expected = seconds(&lab.path("tree").join(file));
                assert_eq!(seconds(&up.join(file)), expected, "{file}");
                assert_eq!(seconds(&lab.path("down").join(file)), expected, "{file}");
            }
        }
    }
}

/// Covers: scp -r; scp -p
#[test]
fn many_files_copy_to_and_from_openssh_sshd() {
    let Some([sshd]) = peers("many files with OpenSSH's sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "");
    there_and_back(&lab, server.port);
}

/// Covers: scp -r; scp -p
#[test]
fn many_files_copy_to_and_from_dropbear() {
    let Some([dropbear, convert]) = peers("many files with dropbear", ["dropbear", "dropbearconvert"]) else {
        return;
    };
    if !is_root() {
        return skip(
            "many files with dropbear",
            "needs root: dropbear looks for keys in the home of the user",
        );
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let server = Inetd::dropbear(&lab, &dropbear, &convert, &[]);
    there_and_back_as(&lab, server.port, &user.name, &user.home);
}

/// Counts the requests with this name in the server's log.
fn requests(log: &str, name: &str) -> usize {
    log.lines().filter(|line| line.trim_end().ends_with(&format!(": {name}"))).count()
}

/// Covers: wire put-files@longhaul; wire get-files@longhaul
#[test]
fn our_server_copies_many_files_in_batches() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "Subsystem sftp internal-sftp -l DEBUG1\n");
    there_and_back(&lab, server.port);
    let log = server.log();
    // Two copies each way. No file was opened, written, closed or checked by a request of its own.
    for (name, least, most) in [("put-files", 8, 300), ("get-files", 8, 300), ("list-dir", 42, 42)] {
        let count = requests(&log, name);
        assert!((least..=most).contains(&count), "{count} × {name}");
    }
    for name in ["open", "write", "fsetstat", "close", "opendir", "readdir", "read", "fstat"] {
        assert_eq!(requests(&log, name), 0, "{name}");
    }
    assert!(requests(&log, "stat") <= 8, "{}", requests(&log, "stat"));
}

/// Covers: sftp-server -P; sshd_config Subsystem
#[test]
fn refused_batches_fall_back_to_plain_requests() {
    let lab = Lab::new();
    make_many(&lab.path("tree"));
    let server = Lhsshd::start(&lab, "Subsystem sftp internal-sftp -P put-files,get-files,list-dir\n");
    there_and_back(&lab, server.port);
    let server = Lhsshd::start(&lab, "Subsystem sftp internal-sftp -R\n");
    let mut args = lab.client_options();
    let remote = format!("{}@127.0.0.1:{}", me(), lab.arg("none"));
    args.extend(["-P", &server.port_arg(), "-r", "tree", &remote].map(str::to_owned));
    let ran = lab.run(&our("lhscp"), &args);
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("Permission denied"), "{}", ran.err);
    assert!(!lab.path("none").exists());
}

/// Covers: sshd_config ChrootDirectory
#[test]
fn batches_stay_inside_the_chroot() {
    if !is_root() {
        return skip("batches inside of a chroot", "needs root");
    }
    let lab = Lab::new();
    make_many(&lab.path("tree"));
    let jail = lh_interop::safe_directory();
    let jailed = jail.path().join("in");
    fs::create_dir(&jailed).unwrap();
    let config = format!("ForceCommand internal-sftp\nChrootDirectory {}\n", jail.path().display());
    let server = Lhsshd::start(&lab, &config);
    let remote = format!("{}@127.0.0.1:/in/tree", me());
    scp(&lab, server.port, &["-r"], "tree", &remote);
    assert_same_tree(&lab.path("tree"), &jailed.join("tree"));
    // `..` and a link lead nowhere outside.
    std::os::unix::fs::symlink(lab.dir(), jailed.join("out")).unwrap();
    let outside = format!("{}@127.0.0.1:/in/out/escaped", me());
    let mut args = lab.client_options();
    args.extend(["-P", &server.port_arg(), "tree/d00/sub0/0.dat", &outside].map(str::to_owned));
    assert_ne!(lab.run(&our("lhscp"), &args).code, 0);
    assert!(!lab.path("escaped").exists());
}
