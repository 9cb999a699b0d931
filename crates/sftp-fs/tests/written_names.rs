//! Tests of names that the client writes and that other programs, or the client itself, then change.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use lh_sftp::server::ServerOptions;
use lh_sftp::{Attrs, OpenFlags, REPLACED, Request, StatusCode};
use lh_sftp_fs::LocalFs;
use support::{Peer, Troubled};

const MAKE: OpenFlags = OpenFlags(OpenFlags::WRITE.0 | OpenFlags::CREAT.0 | OpenFlags::TRUNC.0);
const PART: &[u8] = b".f.0123456789ab.lhpart";

fn at(dir: &Path, name: &[u8]) -> std::path::PathBuf {
    dir.join(std::str::from_utf8(name).unwrap())
}

/// Simulates another program that renames its own file to this name.
fn replace(dir: &Path, name: &[u8]) {
    fs::write(dir.join("theirs"), b"of another program").unwrap();
    fs::rename(dir.join("theirs"), at(dir, name)).unwrap();
}

fn write(peer: &mut Peer, name: &[u8], data: &[u8]) -> lh_sftp::Handle {
    let handle = peer.open(name, MAKE);
    peer.ok(&Request::Write { handle: &handle, offset: 0, data });
    handle
}

/// Covers: wire posix-rename@openssh.com
#[test]
fn a_part_that_was_replaced_gets_no_final_name() {
    for closed in [false, true] {
        for posix in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let mut peer = Peer::new(dir.path());
            if posix {
                fs::write(dir.path().join("f"), b"before").unwrap();
            }
            let handle = write(&mut peer, PART, b"of the client");
            if closed {
                peer.ok(&Request::Close { handle: &handle });
            }
            replace(dir.path(), PART);
            let rename = match posix {
                true => Request::PosixRename { old: PART, new: b"f" },
                false => Request::Rename { old: PART, new: b"f" },
            };
            // A second attempt fails too.
            for _ in 0..2 {
                let status = peer.status(&rename);
                assert_eq!((status.code, status.message.as_str()), (StatusCode::FAILURE, REPLACED));
            }
            let now = fs::read(dir.path().join("f")).ok();
            assert_eq!(now, posix.then(|| b"before".to_vec()));
            // The client starts again.
            let handle = write(&mut peer, PART, b"again");
            peer.ok(&Request::Close { handle: &handle });
            peer.ok(&rename);
            assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"again");
        }
    }
}

/// Another user may rename any file of a directory, also one of the client's own.
#[test]
fn a_file_with_equal_attributes_is_not_the_part() {
    for closed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut peer = Peer::new(dir.path());
        let other = write(&mut peer, b"other", b"OF THE CLIENT");
        peer.ok(&Request::Close { handle: &other });
        let handle = write(&mut peer, PART, b"of the client");
        if closed {
            peer.ok(&Request::Close { handle: &handle });
        }
        fs::rename(dir.path().join("other"), at(dir.path(), PART)).unwrap();
        let status = peer.status(&Request::PosixRename { old: PART, new: b"f" });
        assert_eq!((status.code, status.message.as_str()), (StatusCode::FAILURE, REPLACED), "{closed}");
        assert!(!dir.path().join("f").exists());
    }
    // A link whose target is as long.
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    peer.ok(&Request::Symlink { target: b"wanted", link: PART });
    symlink("others", dir.path().join("other")).unwrap();
    fs::rename(dir.path().join("other"), at(dir.path(), PART)).unwrap();
    assert_eq!(peer.status(&Request::PosixRename { old: PART, new: b"f" }).message, REPLACED);
}

fn number_of(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    fs::symlink_metadata(path).ok().map(|meta| meta.ino())
}

/// Makes things by `make` until one has this inode number, and returns it: most file systems give a number
/// that has become free to the next file.
fn reuse(dir: &Path, number: u64, make: impl Fn(&Path)) -> Option<std::path::PathBuf> {
    let names = (0..500).map(|n| dir.join(format!("theirs{n}")));
    names.inspect(|path| make(path)).find(|path| number_of(path) == Some(number))
}

/// Another user deletes a part file that the client has closed, and makes a file that gets its inode number.
#[cfg(target_os = "linux")]
#[test]
fn inode_number_of_a_closed_part_is_not_reused() {
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    let part = at(dir.path(), PART);
    let file = |path: &Path| fs::write(path, b"OF ANOTHER ONE").unwrap();
    for link in [false, true] {
        if link {
            peer.ok(&Request::Symlink { target: b"wanted", link: PART });
        } else {
            let handle = write(&mut peer, PART, b"of the client");
            peer.ok(&Request::Close { handle: &handle });
        }
        let number = number_of(&part).unwrap();
        fs::remove_file(&part).unwrap();
        let got = match link {
            true => reuse(dir.path(), number, |path| symlink("others", path).unwrap()),
            false => reuse(dir.path(), number, file),
        };
        assert_eq!(got, None, "this one has the number");
        fs::rename(dir.path().join("theirs0"), &part).unwrap();
        assert_eq!(peer.status(&Request::PosixRename { old: PART, new: b"f" }).message, REPLACED);
        peer.ok(&Request::Remove { path: PART });
        for name in fs::read_dir(dir.path()).unwrap() {
            fs::remove_file(name.unwrap().path()).unwrap();
        }
    }
    // Of many, those that were closed first are known by their type and owner as well.
    let name = |n: u32| format!(".{n}.lhpart").into_bytes();
    for n in 0..200 {
        let handle = write(&mut peer, &name(n), b"of the client");
        peer.ok(&Request::Close { handle: &handle });
    }
    let first = at(dir.path(), &name(0));
    let number = number_of(&first).unwrap();
    fs::remove_file(&first).unwrap();
    if let Some(directory) = reuse(dir.path(), number, |path| fs::create_dir(path).unwrap()) {
        fs::rename(directory, first).unwrap();
        assert_eq!(peer.status(&Request::PosixRename { old: &name(0), new: b"f" }).message, REPLACED);
    }
}

/// File systems in user space may give a file another inode number when it is renamed.
#[test]
fn attributes_count_where_inode_numbers_change() {
    let rename = Request::PosixRename { old: PART, new: b"f" };
    for closed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let inner = LocalFs::new(dir.path());
        let disk = Troubled { inner, at_most: 1 << 20, full_at: u64::MAX, renumbers: true };
        let mut peer = Peer::with(Box::new(disk), ServerOptions::default());
        let write_part = |peer: &mut Peer| {
            let handle = write(peer, PART, b"of the client");
            if closed {
                peer.ok(&Request::Close { handle: &handle });
            }
        };
        write_part(&mut peer);
        peer.ok(&rename);
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"of the client");
        write_part(&mut peer);
        replace(dir.path(), PART);
        assert_eq!(peer.status(&rename).message, REPLACED, "{closed}");
        if !closed {
            // The file that is open has no name any more.
            write_part(&mut peer);
            fs::write(dir.path().join("other"), b"OF THE CLIENT").unwrap();
            fs::rename(dir.path().join("other"), at(dir.path(), PART)).unwrap();
            assert_eq!(peer.status(&rename).message, REPLACED);
        }
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"of the client");
    }
}

#[test]
fn a_link_or_nothing_in_the_place_of_a_part_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    let handle = write(&mut peer, PART, b"of the client");
    peer.ok(&Request::Close { handle: &handle });
    // The link leads to the same file.
    fs::rename(at(dir.path(), PART), dir.path().join("away")).unwrap();
    symlink("away", at(dir.path(), PART)).unwrap();
    let rename = Request::PosixRename { old: PART, new: b"f" };
    assert_eq!(peer.status(&rename).message, REPLACED);
    fs::remove_file(at(dir.path(), PART)).unwrap();
    assert_eq!(peer.status(&rename).code, StatusCode::NO_SUCH_FILE);
    fs::rename(dir.path().join("away"), at(dir.path(), PART)).unwrap();
    peer.ok(&rename);
}

/// Covers: links under the names of part files
#[test]
fn links_that_were_replaced_get_no_final_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    fs::write(dir.path().join("file"), b"of the client").unwrap();
    let made =
        [Request::Symlink { target: b"wanted", link: PART }, Request::Hardlink { old: b"file", new: PART }];
    for make in &made {
        for by_link in [true, false] {
            peer.ok(make);
            if by_link {
                symlink("unwanted", dir.path().join("theirs")).unwrap();
                fs::rename(dir.path().join("theirs"), at(dir.path(), PART)).unwrap();
            } else {
                replace(dir.path(), PART);
            }
            for rename in
                [Request::PosixRename { old: PART, new: b"f" }, Request::Rename { old: PART, new: b"f" }]
            {
                let status = peer.status(&rename);
                assert_eq!((status.code, status.message.as_str()), (StatusCode::FAILURE, REPLACED));
            }
            assert!(fs::symlink_metadata(dir.path().join("f")).is_err());
            fs::remove_file(at(dir.path(), PART)).unwrap();
        }
        // The client starts again and replaces its own link.
        peer.status(&Request::Remove { path: PART });
        peer.ok(make);
        peer.ok(&Request::Remove { path: PART });
        peer.ok(&Request::Symlink { target: b"other", link: PART });
        peer.ok(&Request::PosixRename { old: PART, new: b"f" });
        assert_eq!(fs::read_link(dir.path().join("f")).unwrap(), Path::new("other"));
        fs::remove_file(dir.path().join("f")).unwrap();
    }
    peer.ok(&made[1]);
    peer.ok(&Request::Rename { old: PART, new: b"f" });
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"of the client");
}

/// Editors and synchronisation programs do this.
#[test]
fn clients_replace_their_own_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    let peer = &mut peer;
    for name in [b"f".as_slice(), PART] {
        for keep_open in [false, true] {
            let close = |peer: &mut Peer, handle: lh_sftp::Handle| {
                if !keep_open {
                    peer.ok(&Request::Close { handle: &handle });
                }
            };
            let of_client = |peer: &mut Peer, content: &[u8]| {
                peer.ok(&Request::PosixRename { old: name, new: b"last" });
                assert_eq!(fs::read(dir.path().join("last")).unwrap(), content);
            };
            // The file is renamed while it is open, and after it is closed.
            let handle = write(peer, name, b"1");
            close(peer, handle);
            of_client(peer, b"1");
            // Another file of the client replaces it.
            let handle = write(peer, name, b"1");
            close(peer, handle);
            let other = write(peer, b"other", b"2");
            close(peer, other);
            peer.ok(&Request::PosixRename { old: b"other", new: name });
            of_client(peer, b"2");
            // The name is removed and created again: by OPEN, by a hard link, by a rename of a file beside
            // it.
            for step in 0..3 {
                let handle = write(peer, name, b"1");
                close(peer, handle);
                let other = write(peer, b"other", b"2");
                close(peer, other);
                peer.ok(&Request::Remove { path: name });
                match step {
                    0 => {
                        let handle = write(peer, name, b"2");
                        close(peer, handle);
                    }
                    1 => peer.ok(&Request::Hardlink { old: b"other", new: name }),
                    _ => peer.ok(&Request::Rename { old: b"other", new: name }),
                }
                of_client(peer, b"2");
                let _ = fs::remove_file(dir.path().join("other"));
            }
            // A directory replaces the file, and other files replace its directory.
            let handle = write(peer, name, b"1");
            close(peer, handle);
            peer.ok(&Request::Remove { path: name });
            peer.ok(&Request::Mkdir { path: name, attrs: Attrs::NONE });
            peer.ok(&Request::PosixRename { old: name, new: b"d" });
            let inside = [b"d/", name].concat();
            let handle = write(peer, &inside, b"1");
            close(peer, handle);
            peer.ok(&Request::PosixRename { old: b"d", new: b"e" });
            fs::create_dir(dir.path().join("d")).unwrap();
            fs::write(at(dir.path(), &inside), b"2").unwrap();
            peer.ok(&Request::PosixRename { old: &inside, new: b"last" });
            fs::remove_dir_all(dir.path().join("d")).unwrap();
            fs::remove_dir_all(dir.path().join("e")).unwrap();
        }
    }
}

#[test]
fn other_files_are_renamed_as_ever() {
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    let rename = |old| Request::PosixRename { old, new: b"last" };
    // A program of the same user has replaced the file, as an editor does.
    let open = write(&mut peer, b"f", b"of the client");
    replace(dir.path(), b"f");
    peer.ok(&rename(b"f"));
    peer.ok(&Request::Close { handle: &open });
    // The part file was only read.
    fs::write(at(dir.path(), PART), b"as it was").unwrap();
    let handle = peer.open(PART, OpenFlags::READ);
    replace(dir.path(), PART);
    peer.ok(&rename(PART));
    peer.ok(&Request::Close { handle: &handle });
    // The client has written through a link.
    fs::write(dir.path().join("file"), b"").unwrap();
    symlink("file", dir.path().join("link")).unwrap();
    let handle = write(&mut peer, b"link", b"through it");
    peer.ok(&rename(b"link"));
    peer.ok(&Request::Close { handle: &handle });
    // The file has two names: rename(2) leaves both.
    let handle = write(&mut peer, b"one", b"1");
    peer.ok(&Request::Hardlink { old: b"one", new: b"two" });
    peer.ok(&Request::PosixRename { old: b"one", new: b"two" });
    peer.ok(&Request::Close { handle: &handle });
    assert_eq!(fs::read(dir.path().join("two")).unwrap(), b"1");
}

#[test]
fn a_bounded_number_of_closed_parts_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    let name = |n: u32| format!(".{n}.lhpart").into_bytes();
    for n in 0..1100 {
        let handle = write(&mut peer, &name(n), b"of the client");
        peer.ok(&Request::Close { handle: &handle });
    }
    for (n, code) in [(0, StatusCode::OK), (75, StatusCode::OK), (76, StatusCode::FAILURE)] {
        replace(dir.path(), &name(n));
        let status = peer.status(&Request::PosixRename { old: &name(n), new: b"f" });
        assert_eq!(status.code, code, "{n}");
    }
}

/// A session that waited for its client goes on with its part files, but those that another session has gone
/// on with.
#[test]
fn a_client_that_comes_back_writes_only_its_own_parts() {
    let dir = tempfile::tempdir().unwrap();
    let other = b".g.0123456789ab.lhpart";
    let (mut first, mut second) = (Peer::new(dir.path()), Peer::new(dir.path()));
    let (handle, left) = (write(&mut first, PART, b"first"), write(&mut first, other, b"first"));
    first.server.on_client_away();
    let keep = OpenFlags(OpenFlags::WRITE.0 | OpenFlags::CREAT.0);
    let again = second.open(PART, keep);
    second.ok(&Request::Write { handle: &again, offset: 5, data: b" second" });
    second.ok(&Request::Close { handle: &again });
    second.ok(&Request::Rename { old: PART, new: b"f" });
    // Another file of the same size is not the one that the first session has open.
    write(&mut second, PART, b"first second");
    first.server.on_client_back();
    let status = first.status(&Request::Write { handle: &handle, offset: 0, data: b"FIRST" });
    assert_eq!(status.code, StatusCode::FAILURE);
    assert_eq!(status.message, "another session has continued the file");
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"first second");
    first.ok(&Request::Write { handle: &left, offset: 5, data: b" again" });
    first.ok(&Request::Close { handle: &left });
    first.ok(&Request::Rename { old: other, new: b"g" });
    assert_eq!(fs::read(dir.path().join("g")).unwrap(), b"first again");
}
