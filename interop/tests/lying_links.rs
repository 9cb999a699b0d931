//! Servers whose listings do not tell links from what they lead to (pysftpserver, Paramiko's example).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use lh_interop::lying::Lie;
use lh_interop::lying::copies::{self, files};
use lh_interop::{Lab, our};

fn liar(lab: &Lab, lies: &[Lie]) -> String {
    copies::liar(lab, env!("CARGO_BIN_EXE_lh-lying-sftp"), lies)
}

/// Links of `tree`, and where they lead.
const LINKS: [(&str, &str); 4] = [
    ("tree/to-file", "file"),
    ("tree/to-dir", "../outside"),
    ("tree/sub/up", ".."),
    ("tree/dangling", "none"),
];

fn make_tree(lab: &Lab) {
    for directory in ["tree/sub", "outside/below"] {
        fs::create_dir_all(lab.path(directory)).unwrap();
    }
    for file in ["tree/file", "tree/sub/other", "outside/precious", "outside/below/more"] {
        lab.write(file, &format!("this is {file}\n"));
    }
    LINKS.iter().for_each(|(link, to)| symlink(to, lab.path(link)).unwrap());
}

fn leads_to(path: &Path) -> Option<String> {
    fs::read_link(path).ok().map(|to| to.to_string_lossy().into_owned())
}

#[test]
fn links_are_told_from_what_they_lead_to() {
    for flags in [&["--links"][..], &["--links", "-p"], &["--links", "-p", "--sync"]] {
        let lab = Lab::new();
        make_tree(&lab);
        let server = liar(&lab, &[Lie::ListsLinkTargets]);
        fs::create_dir_all(lab.path("to")).unwrap();
        for round in 0..2 {
            let (from, to) = (format!("h:{}", lab.arg("tree")), lab.arg("to"));
            let args = [&["-r", "-D", &server][..], flags, &[&from, &to]].concat();
            let ran = lab.run(&our("lhscp"), &args);
            let what = format!("{flags:?} {round}: {} {}", ran.code, ran.err);
            assert_eq!(ran.code, 0, "{what}");
            for (link, to) in LINKS {
                assert_eq!(leads_to(&lab.path("to").join(link)).as_deref(), Some(to), "{link} {what}");
            }
            assert_eq!(
                fs::read_to_string(lab.path("to/tree/sub/other")).unwrap(),
                "this is tree/sub/other\n"
            );
        }
    }
}

/// A link that is to go is removed itself; nothing is deleted where it leads, and nothing is written there.
#[test]
fn nothing_is_deleted_behind_links() {
    for flags in [&[][..], &["--backup-dir", "../kept"], &["--dry-run"]] {
        let lab = Lab::new();
        make_tree(&lab);
        let server = liar(&lab, &[Lie::ListsLinkTargets]);
        fs::create_dir_all(lab.path("to/tree/sub")).unwrap();
        // What the source has as a directory, and what it has not.
        fs::create_dir_all(lab.path("tree/plain")).unwrap();
        lab.write("tree/plain/new", "new\n");
        symlink(lab.path("outside"), lab.path("to/tree/plain")).unwrap();
        symlink(lab.path("outside"), lab.path("to/tree/extra")).unwrap();
        symlink(lab.path("outside"), lab.path("to/tree/sub/extra")).unwrap();
        let before = files(&lab.path("outside"));
        let to = format!("h:{}", lab.arg("to"));
        let from = lab.arg("tree");
        let args = [&["--sync", "--delete", "--links", "-D", &server][..], flags, &[&from, &to]].concat();
        let ran = lab.run(&our("lhscp"), &args);
        let what = format!("{flags:?}: {} {}", ran.code, ran.err);
        assert_eq!(ran.code, 0, "{what}");
        assert_eq!(files(&lab.path("outside")), before, "{what}");
        let stays = flags.contains(&"--dry-run");
        for link in ["to/tree/extra", "to/tree/sub/extra"] {
            assert_eq!(lab.path(link).symlink_metadata().is_ok(), stays, "{link} {what}");
        }
        assert_eq!(lab.path("to/tree/plain").is_symlink(), stays, "{what}");
        assert_eq!(lab.path("to/tree/plain/new").exists(), !stays, "{what}");
    }
}
