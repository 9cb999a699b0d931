//! Tests of uploads that wait for a check: their visibility before it, and attempts to bypass it.

mod support;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lh_sftp::batch::{PUT_COMPARED, PUT_PERMISSIONS, PUT_PLACED, PutFailure, PutFile};
use lh_sftp::server::{FileOutcome, Upload, UploadCheck, Verdict};
use lh_sftp::{Attrs, OpenFlags, ReplyBody, Request, StatusCode};
use support::Peer;

/// Arguments of a check: the hidden name, the final name, the content, and the names in the directory.
type Asked = (String, String, Vec<u8>, Vec<String>);

/// Rejects content with "virus", gives no answer for "odd", accepts everything else.
struct Scanner {
    dir: PathBuf,
    asked: Arc<Mutex<Vec<Asked>>>,
    during: Box<dyn FnMut(&Path) + Send>,
    number: u128,
}

impl UploadCheck for Scanner {
    fn check(&mut self, upload: &Upload<'_>) -> Verdict {
        let text = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
        let file = self.dir.join(text(upload.file));
        let content = fs::read(&file).unwrap();
        let asked = (text(upload.file), text(upload.path), content.clone(), names(&self.dir));
        self.asked.lock().unwrap().push(asked);
        (self.during)(&file);
        match content {
            content if content.windows(5).any(|five| five == b"virus") => {
                Verdict::Rejected("virus found".to_owned())
            }
            content if content.starts_with(b"odd") => Verdict::Undecided("no answer".to_owned()),
            _ => Verdict::Accepted,
        }
    }

    fn random(&mut self) -> u128 {
        self.number += 1;
        self.number
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

struct Scene {
    dir: tempfile::TempDir,
    peer: Peer,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Scene {
    fn new() -> Self {
        Self::during(|_| {})
    }

    /// Creates a scene that calls `during` with the hidden file while it is checked.
    fn during(during: impl FnMut(&Path) + Send + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (peer, asked) = session(dir.path(), 0, Box::new(during));
        Self { dir, peer, asked }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> io::Result<String> {
        fs::read_to_string(self.path(name))
    }

    fn names(&self) -> Vec<String> {
        names(self.dir.path())
    }

    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    /// Opens, writes and closes a file; returns the status of CLOSE.
    fn put(&mut self, path: &str, flags: OpenFlags, text: &[u8]) -> (StatusCode, String) {
        put(&mut self.peer, path, flags, text)
    }

    /// Returns the status text of a request that must fail.
    #[track_caller]
    fn refused(&mut self, request: &Request<'_>) -> String {
        let status = self.peer.status(request);
        assert_eq!(status.code, FAILED, "{request:?}: {}", status.message);
        status.message
    }
}

fn session(dir: &Path, number: u128, during: Box<dyn FnMut(&Path) + Send>) -> (Peer, Arc<Mutex<Vec<Asked>>>) {
    let asked = Arc::default();
    let mut peer = Peer::new(dir);
    let dir = dir.to_owned();
    peer.server.set_upload_check(Box::new(Scanner { dir, asked: Arc::clone(&asked), during, number }));
    (peer, asked)
}

fn put(peer: &mut Peer, path: &str, flags: OpenFlags, text: &[u8]) -> (StatusCode, String) {
    let handle = peer.open(path.as_bytes(), flags);
    peer.ok(&Request::Write { handle: &handle, offset: 0, data: text });
    let status = peer.status(&Request::Close { handle: &handle });
    (status.code, status.message)
}

const NEW: OpenFlags = OpenFlags(OpenFlags::WRITE.0 | OpenFlags::CREAT.0 | OpenFlags::TRUNC.0);
const BOTH: OpenFlags = OpenFlags(OpenFlags::READ.0 | OpenFlags::WRITE.0 | OpenFlags::CREAT.0);
const ACCEPTED: StatusCode = StatusCode::OK;
const DENIED: StatusCode = StatusCode::PERMISSION_DENIED;
const FAILED: StatusCode = StatusCode::FAILURE;

const fn open<'a>(path: &'a str, flags: OpenFlags) -> Request<'a> {
    Request::Open { path: path.as_bytes(), flags, attrs: Attrs::NONE }
}

const fn rename<'a>(old: &'a str, new: &'a str) -> Request<'a> {
    Request::PosixRename { old: old.as_bytes(), new: new.as_bytes() }
}

#[test]
fn file_is_hidden_until_it_is_accepted() {
    let mut scene = Scene::new();
    let handle = scene.peer.open(b"x", NEW);
    scene.peer.ok(&Request::Write { handle: &handle, offset: 0, data: b"text" });
    let hidden = ".00000000000000000000000000000001.lhupload";
    assert_eq!(scene.names(), [hidden]);
    scene.peer.ok(&Request::Close { handle: &handle });
    assert_eq!(scene.read("x").unwrap(), "text");
    let asked = scene.asked();
    assert_eq!(asked, [(hidden.into(), "x".into(), b"text".to_vec(), vec![hidden.into()])]);
    assert_eq!(scene.names(), ["x"]);
}

#[test]
fn rejected_file_is_removed_and_the_old_one_stays() {
    let mut scene = Scene::new();
    scene.write("old", "before");
    let rejected = (FAILED, "virus found".to_owned());
    assert_eq!(scene.put("old", NEW, b"a virus"), rejected);
    assert_eq!(scene.put("new", NEW, b"a virus"), rejected);
    assert_eq!(scene.put("new", NEW, b"odd"), (FAILED, "no answer".to_owned()));
    assert_eq!((scene.names(), scene.read("old").unwrap()), (vec!["old".to_owned()], "before".to_owned()));
    let outcomes: Vec<_> = scene.peer.log.files.lock().unwrap().iter().map(|file| file.outcome).collect();
    let failed = FileOutcome::Failed(FAILED);
    assert_eq!(outcomes, [FileOutcome::Rejected, FileOutcome::Rejected, failed]);
}

#[test]
fn accepted_file_replaces_with_the_old_permissions() {
    let mut scene = Scene::new();
    scene.write("old", "before");
    fs::set_permissions(scene.path("old"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(scene.put("old", NEW, b"after").0, ACCEPTED);
    assert_eq!(scene.read("old").unwrap(), "after");
    assert_eq!(fs::metadata(scene.path("old")).unwrap().mode() & 0o7777, 0o640);
}

#[test]
fn files_are_not_changed_in_place() {
    let mut scene = Scene::new();
    scene.write("old", "before");
    for flags in [BOTH, OpenFlags::WRITE, OpenFlags(OpenFlags::WRITE.0 | OpenFlags::APPEND.0)] {
        let text = scene.refused(&open("old", flags));
        assert!(text.contains("in place"), "{text}");
    }
    let size = Attrs { size: Some(1), ..Attrs::NONE };
    scene.refused(&Request::Setstat { path: b"old", attrs: size });
    let exclusive = OpenFlags(BOTH.0 | OpenFlags::EXCL.0);
    assert_eq!(scene.peer.status(&open("old", exclusive)).code, StatusCode::FAILURE);
    assert_eq!(scene.peer.status(&open("none", OpenFlags::WRITE)).code, StatusCode::NO_SUCH_FILE);
    // A handle for reading changes nothing either.
    let handle = scene.peer.open(b"old", OpenFlags::READ);
    let status = scene.peer.status(&Request::Fsetstat { handle: &handle, attrs: size });
    assert_ne!(status.code, ACCEPTED);
    assert_eq!(scene.read("old").unwrap(), "before");
    assert!(scene.asked().is_empty());
}

#[test]
fn exclusive_open_replaces_nothing_that_came_meanwhile() {
    let mut scene = Scene::new();
    let handle = scene.peer.open(b"x", OpenFlags(NEW.0 | OpenFlags::EXCL.0));
    scene.write("x", "other");
    assert_eq!(scene.peer.status(&Request::Close { handle: &handle }).code, StatusCode::FAILURE);
    assert_eq!((scene.names(), scene.read("x").unwrap()), (vec!["x".to_owned()], "other".to_owned()));
}

#[test]
fn part_file_is_checked_when_it_is_renamed() {
    let mut scene = Scene::new();
    scene.write("x", "before");
    for text in ["virus", "odd", "fine"] {
        assert_eq!(scene.put(".x.lhpart", NEW, text.as_bytes()).0, ACCEPTED);
        assert!(scene.asked().is_empty());
        let status = scene.peer.status(&rename(".x.lhpart", "x"));
        let [(_, path, content, _)] = &scene.asked()[..] else { panic!() };
        assert_eq!((path.as_str(), &content[..]), ("x", text.as_bytes()));
        let left = match text {
            "virus" => (FAILED, "virus found", vec!["x"], "before"),
            // A file that was not rejected can be renamed again.
            "odd" => (FAILED, "no answer", vec![".x.lhpart", "x"], "before"),
            _ => (ACCEPTED, "Success", vec!["x"], "fine"),
        };
        let names = scene.names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!((status.code, &status.message[..], names, &scene.read("x").unwrap()[..]), left);
    }
    // Without replacement, a taken name is found before the check starts.
    assert_eq!(scene.put(".x.lhpart", NEW, b"more").0, ACCEPTED);
    let taken = Request::Rename { old: b".x.lhpart", new: b"x" };
    assert_eq!(scene.peer.status(&taken).code, StatusCode::FAILURE);
    assert!(scene.asked().is_empty());
    assert_eq!(scene.names(), [".x.lhpart", "x"]);
    // Renaming from one hidden name to another starts no check.
    scene.peer.ok(&rename(".x.lhpart", ".y.lhpart"));
    scene.peer.ok(&Request::Rename { old: b".y.lhpart", new: b"y" });
    assert_eq!((scene.asked().len(), scene.read("y").unwrap()), (1, "more".to_owned()));
}

#[test]
fn part_file_that_is_open_is_not_renamed() {
    let mut scene = Scene::new();
    let (mut other, _) = session(scene.dir.path(), 1000, Box::new(|_| {}));
    let handle = other.open(b".x.lhpart", BOTH);
    assert_eq!(scene.peer.status(&rename(".x.lhpart", "x")).code, StatusCode::FAILURE);
    other.ok(&Request::Close { handle: &handle });
    scene.peer.ok(&rename(".x.lhpart", "x"));
    assert_eq!(scene.names(), ["x"]);
}

/// Actions of a second session on a file that is being checked.
#[test]
fn nothing_changes_while_a_file_is_checked() {
    for part in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (mut other, _) = session(dir.path(), 1000, Box::new(|_| {}));
        fs::write(dir.path().join("visible"), "visible").unwrap();
        let attack = move |file: &Path| {
            let name = file.file_name().unwrap().to_str().unwrap();
            for flags in [OpenFlags::READ, OpenFlags::WRITE, NEW, BOTH] {
                assert_eq!(other.status(&open(name, flags)).code, DENIED);
            }
            let bytes = name.as_bytes();
            for request in [
                rename(name, "shown"),
                rename("visible", name),
                Request::Rename { old: bytes, new: b".z.lhpart" },
                Request::Hardlink { old: bytes, new: b"shown" },
                Request::Hardlink { old: bytes, new: b".z.lhpart" },
                Request::Hardlink { old: b"visible", new: bytes },
                Request::Symlink { target: bytes, link: b"shown" },
                Request::Mkdir { path: bytes, attrs: Attrs::NONE },
                Request::Setstat { path: bytes, attrs: Attrs { size: Some(1), ..Attrs::NONE } },
                Request::SetXattrs { path: bytes, wanted: 1, xattrs: &[0; 4] },
            ] {
                assert_eq!(other.status(&request).code, DENIED, "{request:?}");
            }
            if part {
                assert_eq!(other.status(&open(".x.lhpart", OpenFlags::WRITE)).code, StatusCode::NO_SUCH_FILE);
            }
        };
        let (mut peer, _) = session(dir.path(), 0, Box::new(attack));
        if part {
            put(&mut peer, ".x.lhpart", NEW, b"text");
            peer.ok(&rename(".x.lhpart", "x"));
        } else {
            assert_eq!(put(&mut peer, "x", NEW, b"text").0, ACCEPTED);
        }
        assert_eq!(names(dir.path()), ["visible", "x"]);
        assert_eq!(fs::read(dir.path().join("x")).unwrap(), b"text");
    }
}

#[test]
fn file_exchanged_during_the_check_is_not_published() {
    let mut scene = Scene::during(|file| {
        fs::remove_file(file).unwrap();
        fs::write(file, "other").unwrap();
    });
    let (code, text) = scene.put("x", NEW, b"text");
    assert_eq!(code, FAILED);
    assert!(text.contains("changed"), "{text}");
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

/// A published file and a hidden one must not be one inode: writing to one would change the other.
#[test]
fn published_files_get_no_hidden_second_name() {
    let mut scene = Scene::new();
    scene.write("x", "text");
    scene.refused(&Request::Hardlink { old: b"x", new: b".y.lhpart" });
    scene.peer.ok(&Request::Hardlink { old: b"x", new: b"y" });
    scene.refused(&rename("y", ".y.lhpart"));
    // Another program has made the hidden file: nothing writes to it, and it is not renamed back.
    fs::rename(scene.path("y"), scene.path(".y.lhpart")).unwrap();
    for flags in [BOTH, NEW, OpenFlags::WRITE] {
        assert_ne!(scene.peer.status(&open(".y.lhpart", flags)).code, ACCEPTED);
    }
    assert_ne!(scene.peer.status(&rename(".y.lhpart", "y")).code, ACCEPTED);
    scene.refused(&Request::Hardlink { old: b".y.lhpart", new: b"z" });
    assert_eq!(scene.read("x").unwrap(), "text");
    assert_eq!(scene.names(), [".y.lhpart", "x"]);
}

/// A program that reads a published file must not get bytes that were not checked.
#[test]
fn published_file_is_not_hidden_again() {
    let mut scene = Scene::new();
    assert_eq!(scene.put("x", NEW, b"text").0, ACCEPTED);
    for request in [
        rename("x", ".x.lhpart"),
        Request::Rename { old: b"x", new: b".x.lhpart" },
        rename("./x", "./.x.lhpart"),
    ] {
        scene.refused(&request);
    }
    assert_eq!(scene.names(), ["x"]);
}

#[test]
fn links_lead_around_nothing() {
    let mut scene = Scene::new();
    scene.write("x", "text");
    symlink("x", scene.path(".l.lhpart")).unwrap();
    symlink("x", scene.path("l")).unwrap();
    scene.refused(&Request::Symlink { target: b".p.lhpart", link: b"p" });
    for flags in [BOTH, NEW, OpenFlags::WRITE] {
        assert_ne!(scene.peer.status(&open(".l.lhpart", flags)).code, ACCEPTED);
        scene.refused(&open("l", flags));
    }
    // A link that another program has made does not become visible; neither does a directory.
    assert_ne!(scene.peer.status(&rename(".l.lhpart", "shown")).code, ACCEPTED);
    fs::create_dir(scene.path(".d.lhpart")).unwrap();
    assert_ne!(scene.peer.status(&rename(".d.lhpart", "shown")).code, ACCEPTED);
    assert_eq!(scene.read("x").unwrap(), "text");
    assert!(scene.asked().is_empty());
}

#[test]
fn unfinished_uploads_are_not_published() {
    let mut scene = Scene::new();
    let handle = scene.peer.open(b"x", NEW);
    scene.peer.ok(&Request::Write { handle: &handle, offset: 0, data: b"text" });
    drop(scene.peer.server.close());
    assert!(scene.names().is_empty() && scene.asked().is_empty());
    assert_eq!(scene.peer.log.files.lock().unwrap()[0].outcome, FileOutcome::Abandoned);
}

#[test]
fn upload_with_a_failed_write_is_not_published() {
    let mut scene = Scene::new();
    let handle = scene.peer.open(b"x", NEW);
    scene.peer.ok(&Request::Write { handle: &handle, offset: 0, data: b"text" });
    let far = Request::Write { handle: &handle, offset: u64::MAX, data: b"x" };
    assert_ne!(scene.peer.status(&far).code, ACCEPTED);
    assert_eq!(scene.peer.status(&Request::Close { handle: &handle }).code, FAILED);
    assert!(scene.names().is_empty() && scene.asked().is_empty());
}

#[test]
fn batched_files_are_checked_one_by_one() {
    for flags in [PUT_PERMISSIONS, PUT_PERMISSIONS | PUT_PLACED | PUT_COMPARED] {
        let mut scene = Scene::new();
        scene.write("old", "before");
        scene.write("kept", "before");
        symlink("old", scene.path("link")).unwrap();
        let attrs = Attrs { times: Some((11, 22)), ..Attrs::with_permissions(0o100_600) };
        let all = [
            ("a", "fine"),
            ("b", "virus"),
            ("old", "after"),
            ("kept", "virus"),
            ("link", "fine"),
            (".p.lhpart", "virus"),
        ];
        let mut fields = Vec::new();
        for (path, data) in all {
            PutFile { path: path.as_bytes(), attrs, data: data.as_bytes() }.write(&mut fields);
        }
        let request = Request::PutFiles { flags, count: all.len() as u32, files: &fields };
        let ReplyBody::Extended(reply) = scene.peer.call(&request) else { panic!() };
        let failures = PutFailure::read_all(&reply).unwrap();
        let failed: Vec<_> = failures.iter().map(|failure| (failure.index, failure.code)).collect();
        assert_eq!(failed, [(1, FAILED), (3, FAILED), (4, FAILED)]);
        assert_eq!(failures[0].text, "virus found");
        assert_eq!(scene.names(), [".p.lhpart", "a", "kept", "link", "old"]);
        for (name, text) in [("a", "fine"), ("old", "after"), ("kept", "before")] {
            assert_eq!(scene.read(name).unwrap(), text);
        }
        let metadata = fs::metadata(scene.path("a")).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.mtime()), (0o600, 22));
        let shown: Vec<_> = scene.asked().iter().flat_map(|(_, _, _, names)| names.clone()).collect();
        assert!(!shown.contains(&"b".to_owned()));
        let outcomes: Vec<_> = scene.peer.log.files.lock().unwrap().iter().map(|file| file.outcome).collect();
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == FileOutcome::Rejected).count(), 2);
    }
}

#[test]
fn reading_and_other_names_are_as_ever() {
    let mut scene = Scene::new();
    scene.write("x", "text");
    let handle = scene.peer.open(b"x", OpenFlags::READ);
    assert_eq!(scene.peer.read(&handle, 0, 10), b"text");
    scene.peer.ok(&rename("x", "y"));
    scene.peer.ok(&Request::Mkdir { path: b"d", attrs: Attrs::NONE });
    scene.peer.ok(&rename("d", "e"));
    scene.peer.ok(&Request::Setstat { path: b"y", attrs: Attrs::with_permissions(0o600) });
    // Files left behind by a session can be removed.
    scene.write(".0.lhupload", "left");
    scene.peer.ok(&Request::Remove { path: b".0.lhupload" });
    assert_eq!(scene.names(), ["e", "y"]);
    assert!(scene.asked().is_empty());
}

/// Two sessions of a hostile user send random SFTP requests. No final name ever shows content that was not
/// accepted, and content that a program has opened under a final name stays unchanged.
#[test]
fn random_requests_show_only_accepted_files() {
    const NAMES: [&str; 10] =
        ["x", "y", ".a.lhpart", ".b.lhpart", "d", "d/x", "d/.a.lhpart", "e", "e/x", "e/.a.lhpart"];
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_owned();
    let accepted: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let mut sessions: Vec<_> = [0, 1 << 64]
        .map(|number| {
            let accepted = Arc::clone(&accepted);
            let note = move |file: &Path| {
                let content = fs::read(file).unwrap();
                if !content.windows(5).any(|five| five == b"virus") {
                    accepted.lock().unwrap().push(content);
                }
            };
            (session(&root, number, Box::new(note)).0, Vec::<lh_sftp::Handle>::new())
        })
        .into();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % end
    };
    let mut opened: Vec<(fs::File, Vec<u8>)> = Vec::new();
    let mut published = 0;
    for round in 0..6000 {
        let (peer, handles) = &mut sessions[below(2)];
        let (one, other) = (NAMES[below(NAMES.len())].as_bytes(), NAMES[below(NAMES.len())].as_bytes());
        let text = format!("{} {round}", ["fine", "virus", "odd"][below(3)]);
        let flags = [
            NEW,
            BOTH,
            OpenFlags::READ,
            OpenFlags::WRITE,
            OpenFlags(NEW.0 | OpenFlags::READ.0),
            OpenFlags(BOTH.0 | OpenFlags::EXCL.0),
            OpenFlags(OpenFlags::WRITE.0 | OpenFlags::APPEND.0 | OpenFlags::CREAT.0),
            OpenFlags(OpenFlags::READ.0 | OpenFlags::TRUNC.0),
        ][below(8)];
        let size = Attrs { size: Some(below(4) as u64), ..Attrs::NONE };
        match below(16) {
            0..=3 => {
                let request = Request::Open { path: one, flags, attrs: Attrs::with_permissions(0o600) };
                if let ReplyBody::Handle(handle) = peer.call(&request) {
                    handles.push(handle);
                }
            }
            4..=6 if !handles.is_empty() => {
                let handle = &handles[below(handles.len())];
                peer.call(&Request::Write { handle, offset: below(3) as u64, data: text.as_bytes() });
            }
            7 if !handles.is_empty() => {
                let handle = &handles[below(handles.len())];
                peer.call(&Request::Fsetstat { handle, attrs: size });
            }
            8 | 9 if !handles.is_empty() => {
                let handle = handles.swap_remove(below(handles.len()));
                peer.call(&Request::Close { handle: &handle });
            }
            10 => drop(peer.call(&Request::PosixRename { old: one, new: other })),
            11 => drop(peer.call(&Request::Rename { old: one, new: other })),
            12 => drop(peer.call(&Request::Hardlink { old: one, new: other })),
            13 => {
                let target = one.rsplit(|&byte| byte == b'/').next().unwrap();
                peer.call(&Request::Symlink { target, link: other });
                peer.call(&Request::Setstat { path: one, attrs: size });
            }
            14 => drop(
                peer.call(&Request::Mkdir { path: NAMES[[4, 7][below(2)]].as_bytes(), attrs: Attrs::NONE }),
            ),
            15 => {
                let mut fields = Vec::new();
                PutFile { path: one, attrs: Attrs::NONE, data: text.as_bytes() }.write(&mut fields);
                let flags = [0, PUT_PLACED][below(2)];
                peer.call(&Request::PutFiles { flags, count: 1, files: &fields });
                if below(4) == 0 {
                    peer.call(&Request::Remove { path: other });
                }
            }
            _ => {}
        }
        for name in NAMES.iter().filter(|name| !name.contains(".lhpart")) {
            let path = root.join(name);
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            assert!(!metadata.is_symlink(), "{name}");
            if metadata.is_file() {
                let content = fs::read(&path).unwrap();
                let shown = String::from_utf8_lossy(&content).into_owned();
                assert!(accepted.lock().unwrap().contains(&content), "round {round}: {name} is {shown:?}");
                published += 1;
                if opened.len() < 100 && below(20) == 0 {
                    opened.push((fs::File::open(&path).unwrap(), content));
                }
            }
        }
        for (file, content) in &opened {
            let mut now = vec![0; content.len() + 9];
            let n = std::os::unix::fs::FileExt::read_at(file, &mut now, 0).unwrap();
            assert_eq!(&now[..n], &content[..], "round {round}: a published file has changed");
        }
    }
    assert!(published > 1000 && opened.len() == 100, "{published} {}", opened.len());
}
