//! Uploads to servers that empty a file when its length is set, as servers with Paramiko's `set_file_attr`
//! do. The uploads replace longer files, continue files whose beginning exists, or have holes. The copies are
//! correct even without `--verify`.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use lh_interop::lying::Lie;
use lh_interop::{ForeignServer, Lab, Ran, assert_same_file, make_blob, our, peer_script, skip};

/// Where the server is.
enum Peer {
    /// A program with the fault, over pipes.
    Liar(String),
    /// Paramiko's, over SSH.
    Paramiko(ForeignServer),
}

impl Peer {
    fn liar(lab: &Lab, lie: Lie) -> Self {
        let program = env!("CARGO_BIN_EXE_lh-lying-sftp");
        lab.write("liar", &format!("#!/bin/sh\nexec {program} {}\n", lie.word()));
        lab.sh("chmod 755 liar").ok("a program");
        Self::Liar(lab.arg("liar"))
    }

    fn run(&self, lab: &Lab, program: &str, flags: &[&str], rest: &[&str]) -> Ran {
        let mut args: Vec<String> = match self {
            Self::Liar(server) => vec!["-D".to_owned(), server.clone()],
            Self::Paramiko(server) => {
                let mut args = lab.client_options();
                args.extend(["-P".to_owned(), server.port.to_string()]);
                args
            }
        };
        args.extend(flags.iter().chain(rest).map(|&word| word.to_owned()));
        lab.run(&our(program), &args)
    }

    fn scp(&self, lab: &Lab, flags: &[&str], from: &str, to: &str) -> Ran {
        self.run(lab, "lhscp", flags, &[&lab.arg(from), &format!("127.0.0.1:{}", lab.arg(to))])
    }

    fn sftp(&self, lab: &Lab, commands: &str) -> Ran {
        lab.write("batch", commands);
        let host: &[&str] = if matches!(self, Self::Liar(_)) { &[] } else { &["127.0.0.1"] };
        self.run(lab, "lhsftp", &["-b", &lab.arg("batch")], host)
    }
}

/// Makes a file of 6 MB with data in four places; `ends_in_hole` where the last of it is none.
fn make_sparse(path: &Path, ends_in_hole: bool) {
    let file = fs::File::create(path).unwrap();
    for offset in [0, 1 << 20, (3 << 20) + 77, 4 << 20] {
        file.write_all_at(&[7; 70_000], offset).unwrap();
    }
    file.set_len(6 << 20).unwrap();
    if !ends_in_hole {
        file.write_all_at(b"end", (6 << 20) - 3).unwrap();
    }
}

fn check(lab: &Lab, peer: &Peer, all_flags: &[&[&str]]) {
    for (name, size) in [("old", 900_000), ("old.small", 40_000), ("source", 500_001), ("short", 10)] {
        make_blob(&lab.path(name), size);
    }
    lab.write("empty", "");
    make_sparse(&lab.path("holes"), false);
    make_sparse(&lab.path("holes.end"), true);
    fs::File::create(lab.path("hole")).unwrap().set_len(3 << 20).unwrap();
    let copy = || lab.path("copy");
    let over = |old: &str| fs::copy(lab.path(old), copy()).unwrap();
    for &flags in all_flags {
        for old in ["old", "old.small", "source"] {
            for source in ["source", "short", "empty", "holes", "holes.end", "hole"] {
                over(old);
                peer.scp(lab, flags, source, "copy").ok(&format!("{source} over {old} {flags:?}"));
                assert_same_file(&lab.path(source), &copy());
                fs::remove_file(copy()).unwrap();
            }
        }
        for source in ["holes", "holes.end", "hole"] {
            peer.scp(lab, flags, source, "copy").ok(&format!("{source} {flags:?}"));
            assert_same_file(&lab.path(source), &copy());
            fs::remove_file(copy()).unwrap();
        }
    }
    // A longer file is not continued, and not touched.
    over("old");
    let reput = format!("reput {} {}\n", lab.arg("source"), lab.arg("copy"));
    let ran = peer.sftp(lab, &reput);
    assert!(ran.code == 1 && ran.err.contains("same size or larger"), "{} {}", ran.code, ran.err);
    assert_same_file(&lab.path("old"), &copy());
    // The beginning of a file is.
    for source in ["source", "holes", "holes.end"] {
        let whole = fs::read(lab.path(source)).unwrap();
        fs::write(copy(), &whole[..whole.len() / 2]).unwrap();
        peer.sftp(lab, &format!("reput {} {}\n", lab.arg(source), lab.arg("copy"))).ok(source);
        assert_same_file(&lab.path(source), &copy());
    }
    over("old");
    peer.sftp(lab, &format!("put {} {}\n", lab.arg("holes.end"), lab.arg("copy"))).ok("put");
    assert_same_file(&lab.path("holes.end"), &copy());
}

/// Covers: lhscp --in-place; sftp reput; sftp put
#[test]
fn a_server_that_empties_files_gets_right_copies() {
    let lab = Lab::new();
    let flags = [&["--in-place"][..], &["--in-place", "--verify"], &["--in-place", "-p"], &[]];
    check(&lab, &Peer::liar(&lab, Lie::SizeEmpties), &flags);
}

#[test]
fn paramiko_set_file_attr_gets_right_copies() {
    let lab = Lab::new();
    let python = Path::new("/usr/bin/python3");
    if lab.run(python, &["-W", "ignore", "-c", "import paramiko"]).code != 0 {
        return skip("set_file_attr", "Debian's python3-paramiko is not installed");
    }
    let words = ["-W", "ignore", &peer_script("paramiko_server.py"), &lab.arg("")];
    check(&lab, &Peer::Paramiko(ForeignServer::start(&lab, python, &words)), &[&["--in-place"]]);
}

/// A copy onto itself through a server leaves the file as it is: it is no longer than itself.
///
/// Covers: lhscp --in-place
#[test]
fn a_copy_onto_itself_in_place_loses_nothing() {
    let lab = Lab::new();
    make_blob(&lab.path("file"), 700_001);
    fs::copy(lab.path("file"), lab.path("before")).unwrap();
    let peer = Peer::liar(&lab, Lie::SizeEmpties);
    peer.scp(&lab, &["--in-place"], "file", "file").ok("onto itself");
    assert_same_file(&lab.path("before"), &lab.path("file"));
}
