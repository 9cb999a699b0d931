//! Symbolic links that the kernel refuses to follow: Linux does so in directories like `/tmp`, with
//! `fs.protected_symlinks`. A copy does not follow them either.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use lh_interop::lying::Lie;
use lh_interop::{Lab, TestUser, is_root, make_blob, our, skip, skip_unavailable};

/// STAT and OPEN refuse the link; REALPATH would say where it leads.
///
/// Covers: lhscp -D
#[test]
fn an_upload_follows_no_link_that_the_server_refuses() {
    let lab = Lab::new();
    make_blob(&lab.path("source"), 200_000);
    lab.write("victim", "as it was\n");
    let program = env!("CARGO_BIN_EXE_lh-lying-sftp");
    lab.write("server", &format!("#!/bin/sh\nexec {program} {}\n", Lie::GuardsLinks.word()));
    lab.sh("chmod 755 server; mkdir to").ok("a server");
    for (target, leads_to) in [("victim", lab.path("victim")), ("nothing", lab.path("nothing"))] {
        for flags in [&[][..], &["--in-place"]] {
            let _ = fs::remove_file(lab.path("to/link"));
            symlink(&leads_to, lab.path("to/link")).unwrap();
            let server = lab.arg("server");
            let (from, to) = (lab.arg("source"), format!("h:{}", lab.arg("to/link")));
            let ran = lab.run(&our("lhscp"), &[&["-D", &server][..], flags, &[&from, &to]].concat());
            let what = format!("{target} {flags:?}: {} {}", ran.code, ran.err);
            assert!(ran.code == 1 && ran.err.contains("ermission denied"), "{what}");
            assert_eq!(fs::read_to_string(lab.path("victim")).unwrap(), "as it was\n", "{what}");
            assert!(!lab.path("nothing").exists(), "{what}");
            assert_eq!(fs::read_link(lab.path("to/link")).unwrap(), leads_to, "{what}");
            assert_eq!(fs::read_dir(lab.path("to")).unwrap().count(), 1, "{what}");
        }
    }
}

/// Where the kernel guards links, another user's link in a sticky directory does not change where a download
/// goes.
#[test]
fn a_download_follows_no_link_of_another_user() {
    if !is_root() {
        return skip("guarded links", "needs root, for another user");
    }
    if fs::read_to_string("/proc/sys/fs/protected_symlinks").is_ok_and(|text| text.trim() != "1") {
        return skip_unavailable("guarded links", "fs.protected_symlinks is off");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    make_blob(&lab.path("source"), 200_000);
    lab.write("victim", "as it was\n");
    fs::create_dir(lab.path("shared")).unwrap();
    fs::set_permissions(lab.path("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
    symlink(lab.path("victim"), lab.path("shared/link")).unwrap();
    lab.sh(&format!("chown -h {} shared/link", user.name)).ok("a link of another user");
    let program = env!("CARGO_BIN_EXE_lh-lying-sftp");
    lab.write("server", &format!("#!/bin/sh\nexec {program}\n"));
    lab.sh("chmod 755 server").ok("a server");
    let (server, from, to) = (lab.arg("server"), format!("h:{}", lab.arg("source")), lab.arg("shared/link"));
    for flags in [&[][..], &["--in-place"]] {
        let ran = lab.run(&our("lhscp"), &[&["-D", &server][..], flags, &[&from, &to]].concat());
        assert!(ran.code == 1 && ran.err.contains("ermission denied"), "{flags:?}: {} {}", ran.code, ran.err);
        assert_eq!(fs::read_to_string(lab.path("victim")).unwrap(), "as it was\n", "{flags:?}");
    }
}
