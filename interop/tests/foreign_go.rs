//! `lhscp` and `lhsftp` with servers in Go: programs on pkg/sftp's request server, which have file systems of
//! their own (rclone is one), and charmbracelet's wish. Data are compared byte by byte.

use lh_interop::foreign_setup::{ForeignServerSetup, Targets};
use lh_interop::{ForeignServer, Lab, assert_same_file, assert_same_tree, go_peer, make_blob, peers};

fn request_server(lab: &Lab, test: &str, kind: &str) -> Option<ForeignServer> {
    let program = go_peer(test, "request_server")?;
    Some(ForeignServer::start(lab, &program, &[lab.arg(""), kind.to_owned()]))
}

/// Covers: lhscp --in-place; lhscp --verify; lhscp -j; sftp reput; sftp reget
#[test]
fn request_server_copies_and_links() {
    let lab = Lab::new();
    let Some(server) = request_server(&lab, "request_server", "disk") else { return };
    let setup = ForeignServerSetup::new(&lab, server.port);
    setup.exercise(Targets::Kept);
    setup.exercise_data();
    assert_eq!(setup.reput(), 0);
}

/// The program empties a file whenever it is opened for writing, as those do that look at no flags.
#[test]
fn request_server_that_empties_files_gets_whole_ones() {
    let lab = Lab::new();
    let Some(server) = request_server(&lab, "request_server_empties", "emptied") else { return };
    let setup = ForeignServerSetup::new(&lab, server.port);
    setup.exercise(Targets::Kept);
    setup.exercise_data();
    assert_eq!(setup.reput(), 0);
    copy_large(&lab, &setup);
}

/// rclone without a cache takes a file from its start to its end, and empties it when it is opened.
#[test]
fn rclone_without_cache_gets_whole_files() {
    let Some([rclone]) = peers("rclone_server", ["rclone"]) else { return };
    let lab = Lab::new();
    let words =
        ["serve", "sftp", "/", "--addr", "127.0.0.1:0", "--vfs-cache-mode", "off", "--dir-cache-time", "0"];
    let mut words = words.map(str::to_owned).to_vec();
    let keys = ["host_ed25519", "host_rsa", "host_ecdsa"].map(|name| ("--key", name));
    let files = [("--authorized-keys", "authorized_keys")];
    for (flag, name) in files.into_iter().chain(keys) {
        words.extend([flag.to_owned(), lab.arg(name)]);
    }
    let server = ForeignServer::start_by_log(&lab, &rclone, &words, "SFTP server listening on 127.0.0.1:");
    let setup = ForeignServerSetup::new(&lab, server.port);
    setup.exercise_data();
    // It takes no data behind the beginning: all of the file is copied.
    assert_eq!(setup.reput(), 0);
    copy_large(&lab, &setup);
}

/// SFTP, and the older protocol by wish's own implementation.
///
/// Covers: lhscp -O
#[test]
fn wish_copies_and_links() {
    let Some(program) = go_peer("wish", "wish_server") else { return };
    let lab = Lab::new();
    let server = ForeignServer::start(&lab, &program, &[lab.arg("")]);
    let setup = ForeignServerSetup::new(&lab, server.port);
    setup.exercise(Targets::Kept);
    // It takes what it gets into a directory alone.
    for size in [0, 1, 32_768, 3_000_001] {
        make_blob(&lab.path("source"), size);
        setup.scp(&["-O"], &lab.arg("source"), &setup.far("")).ok("lhscp -O up");
        assert_same_file(&lab.path("source"), &lab.path("far/source"));
        // It closes the channel without waiting for the answers.
        setup.scp(&["-O"], &setup.far("source"), &lab.arg("back")).ok("lhscp -O down");
        assert_same_file(&lab.path("source"), &lab.path("back"));
    }
    setup.scp(&["-O", "-r"], &lab.arg("small"), &setup.far("links")).ok("lhscp -O -r up");
    assert_same_tree(&lab.path("small"), &lab.path("far/links/small"));
}

/// A file that is in many requests for a long time, over one channel and over several.
fn copy_large(lab: &Lab, setup: &ForeignServerSetup<'_>) {
    make_blob(&lab.path("large"), 70_000_001);
    for flags in [&[][..], &["-j", "4"]] {
        setup.scp(flags, &lab.arg("large"), &setup.far("large")).ok("lhscp of 70 MB");
        setup.check(flags, "large", "large");
    }
}
