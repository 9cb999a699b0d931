//! Tests of two sessions that write whole files of one name at the same time, with other programs in between.

mod support;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lh_sftp::batch::{PUT_COMPARED, PUT_PLACED, PutFailure, PutFile, PutStep};
use lh_sftp::fs::{Directory, File, FileSystem};
use lh_sftp::server::ServerOptions;
use lh_sftp::whole::{Made, Whole};
use lh_sftp::{Attrs, OpenFlags, REPLACED, ReplyBody, Request, StatVfs};
use lh_sftp_fs::LocalFs;
use support::{Peer, Troubled};

fn put(peer: &mut Peer, name: &str, data: &[u8]) -> Vec<PutFailure> {
    let mut fields = Vec::new();
    let attrs = Attrs::with_permissions(0o644);
    PutFile { path: name.as_bytes(), attrs, data }.write(&mut fields);
    let request = Request::PutFiles { flags: PUT_PLACED | PUT_COMPARED, count: 1, files: &fields };
    let reply = peer.call(&request);
    let ReplyBody::Extended(fields) = reply else { panic!("{reply:?}") };
    PutFailure::read_all(&fields).unwrap()
}

type Happens = Box<dyn FnOnce() + Send>;

/// The host's files, with an action that happens once before or after a rename.
struct Interrupted {
    inner: LocalFs,
    before_rename: Option<Happens>,
    after_rename: Option<Happens>,
}

impl Interrupted {
    fn new(dir: &Path) -> Self {
        Self { inner: LocalFs::new(dir), before_rename: None, after_rename: None }
    }
}

impl FileSystem for Interrupted {
    fn open(&mut self, path: &[u8], flags: OpenFlags, permissions: Option<u32>) -> io::Result<Box<dyn File>> {
        self.inner.open(path, flags, permissions)
    }
    fn make_whole(&mut self, files: &[Whole<'_>]) -> Vec<Made> {
        files.iter().map(|_| Made::Unsupported).collect()
    }
    fn open_dir(&mut self, path: &[u8]) -> io::Result<Box<dyn Directory>> {
        self.inner.open_dir(path)
    }
    fn attrs(&mut self, path: &[u8], follow: bool) -> io::Result<Attrs> {
        self.inner.attrs(path, follow)
    }
    fn set_attrs(&mut self, path: &[u8], attrs: &Attrs, follow: bool) -> io::Result<()> {
        self.inner.set_attrs(path, attrs, follow)
    }
    fn remove_file(&mut self, path: &[u8]) -> io::Result<()> {
        self.inner.remove_file(path)
    }
    fn make_dir(&mut self, path: &[u8], permissions: u32) -> io::Result<()> {
        self.inner.make_dir(path, permissions)
    }
    fn remove_dir(&mut self, path: &[u8]) -> io::Result<()> {
        self.inner.remove_dir(path)
    }
    fn real_path(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.inner.real_path(path)
    }
    fn rename(&mut self, old: &[u8], new: &[u8], replace: bool) -> io::Result<()> {
        if let Some(happens) = self.before_rename.take() {
            happens();
        }
        self.inner.rename(old, new, replace)?;
        if let Some(happens) = self.after_rename.take() {
            happens();
        }
        Ok(())
    }
    fn read_link(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.inner.read_link(path)
    }
    fn symlink(&mut self, target: &[u8], link: &[u8]) -> io::Result<()> {
        self.inner.symlink(target, link)
    }
    fn hard_link(&mut self, old: &[u8], new: &[u8]) -> io::Result<()> {
        self.inner.hard_link(old, new)
    }
    fn statvfs(&mut self, path: &[u8]) -> io::Result<StatVfs> {
        self.inner.statvfs(path)
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Puts `f` in one session. Calls `happens` in the directory between its last write and its rename.
fn put_interrupted(dir: &Path, happens: impl FnOnce(PathBuf) + Send + 'static) -> Vec<PutFailure> {
    let ran = Arc::new(AtomicBool::new(false));
    let (told, there) = (Arc::clone(&ran), dir.to_owned());
    let before_rename: Happens = Box::new(move || {
        happens(there);
        told.store(true, Ordering::SeqCst);
    });
    let fs = Interrupted { before_rename: Some(before_rename), ..Interrupted::new(dir) };
    let mut first = Peer::with(Box::new(fs), ServerOptions::default());
    let failed = put(&mut first, "f", b"of the first session");
    assert!(ran.load(Ordering::SeqCst), "the file was renamed");
    failed
}

/// Covers: wire put-files@longhaul
#[test]
fn a_failing_session_does_not_spoil_another_one() {
    for there in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        if there {
            fs::write(dir.path().join("f"), b"before").unwrap();
        }
        let failed = put_interrupted(dir.path(), |dir| {
            // This session finds no space after some bytes, or is killed there.
            let inner = LocalFs::new(&dir);
            let disk = Troubled { inner, at_most: 3, full_at: 6, renumbers: false };
            let mut second = Peer::with(Box::new(disk), ServerOptions::default());
            let failed = put(&mut second, "f", b"of the second session");
            assert_eq!(failed.iter().map(|failed| failed.step).collect::<Vec<_>>(), [PutStep::Write]);
            let now = fs::read(dir.join("f")).unwrap_or_else(|_| b"before".to_vec());
            assert_eq!(now, b"before", "nothing of an unfinished file is seen");
        });
        assert_eq!(failed, []);
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"of the first session");
        assert_eq!(names(dir.path()), ["f"]);
    }
}

/// Covers: wire put-files@longhaul
#[test]
fn many_sessions_put_the_same_name_at_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), b"before").unwrap();
    // Each session puts its file while the previous one is about to rename.
    fn put_at_depth(dir: &Path, depth: usize) {
        let failed = put_interrupted(dir, move |dir| {
            if depth > 0 {
                put_at_depth(&dir, depth - 1);
                assert_eq!(fs::read(dir.join("f")).unwrap(), b"of the first session");
            }
        });
        assert_eq!(failed, []);
    }
    put_at_depth(dir.path(), 5);
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"of the first session");
    assert_eq!(names(dir.path()), ["f"]);
}

/// Another user's program may act between the check of the name and the rename.
///
/// Covers: wire put-files@longhaul; wire posix-rename@openssh.com
#[test]
fn a_part_replaced_right_before_its_rename_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), b"before").unwrap();
    let replace = |dir: PathBuf| {
        fs::write(dir.join("theirs"), b"of another program").unwrap();
        fs::rename(dir.join("theirs"), dir.join(".f.lhpart")).unwrap();
    };
    let failed = put_interrupted(dir.path(), replace);
    let said: Vec<_> = failed.iter().map(|failed| (failed.step, failed.text.as_str())).collect();
    assert_eq!(said, [(PutStep::Write, REPLACED)]);

    let there = dir.path().to_owned();
    let fs =
        Interrupted { before_rename: Some(Box::new(move || replace(there))), ..Interrupted::new(dir.path()) };
    let mut peer = Peer::with(Box::new(fs), ServerOptions::default());
    let handle = peer.open(b".f.lhpart", OpenFlags::NEW_FILE);
    peer.ok(&Request::Write { handle: &handle, offset: 0, data: b"of the client" });
    peer.ok(&Request::Close { handle: &handle });
    let rename = Request::PosixRename { old: b".f.lhpart", new: b"f" };
    assert_eq!(peer.status(&rename).message, REPLACED);
}

/// Programs that wait for files in a directory move them away at once.
#[test]
fn a_file_that_is_taken_away_at_once_was_placed() {
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().to_owned();
    let take = move || fs::rename(there.join("f"), there.join("taken")).unwrap();
    let fs = Interrupted { after_rename: Some(Box::new(take)), ..Interrupted::new(dir.path()) };
    let mut peer = Peer::with(Box::new(fs), ServerOptions::default());
    assert_eq!(put(&mut peer, "f", b"of the client"), []);
    assert_eq!(fs::read(dir.path().join("taken")).unwrap(), b"of the client");
}

/// Covers: wire put-files@longhaul
#[test]
fn part_names_that_are_no_plain_files_stay_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("f"), b"before").unwrap();
    fs::write(at("victim"), b"as it was").unwrap();
    std::os::unix::fs::symlink("victim", at(".f.lhpart")).unwrap();
    fs::hard_link(at("victim"), at(".f.000000000001.lhpart")).unwrap();
    fs::create_dir(at(".f.000000000002.lhpart")).unwrap();
    // An interrupted session has left this file.
    fs::write(at(".f.000000000003.lhpart"), b"half").unwrap();
    let mut peer = Peer::new(dir.path());
    assert_eq!(put(&mut peer, "f", b"new"), []);
    assert_eq!(fs::read(at("f")).unwrap(), b"new");
    assert_eq!(fs::read(at("victim")).unwrap(), b"as it was");
    let left = [".f.000000000001.lhpart", ".f.000000000002.lhpart", ".f.lhpart", "f", "victim"];
    assert_eq!(names(dir.path()), left);
}
