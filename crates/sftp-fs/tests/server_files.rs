//! Tests of the requests about names, attributes, directories and permissions.

mod support;

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use lh_sftp::server::{FileOutcome, ServerOptions, request_table};
use lh_sftp::{
    Attrs, Limits, OpenFlags, ReplyBody, ReplyWriter, Request, StatVfs, StatusCode, extension, mode,
};
use lh_sftp_fs::LocalFs;
use lh_wire::{Reader, Writer};
use support::Peer;

const MAKE: OpenFlags = OpenFlags(OpenFlags::WRITE.0 | OpenFlags::CREAT.0);

#[test]
fn the_version_offers_what_openssh_offers() {
    let dir = tempfile::tempdir().unwrap();
    let peer = Peer::new(dir.path());
    for info in request_table() {
        if let Some((name, _)) = info.extension {
            assert!(peer.session.supports(name), "{name}");
        }
    }
    let options = ServerOptions { deny: vec!["fsync".into()], read_only: true, ..Default::default() };
    let peer = Peer::with(Box::new(LocalFs::new(dir.path())), options);
    assert!(!peer.session.supports(extension::FSYNC), "denied");
    assert!(!peer.session.supports(extension::HARDLINK), "read-only");
    assert!(peer.session.supports(extension::LIMITS));
}

/// A digest of one byte reveals the byte.
#[test]
fn digests_need_read_permission() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"secret").unwrap();
    let digests = |options: ServerOptions| {
        let mut peer = Peer::with(Box::new(LocalFs::new(dir.path())), options);
        let handle = peer.open(b"f", OpenFlags::READ);
        let (algorithms, offset, len, block) = (b"md5", 0, 1, 0);
        let by_name = Request::CheckFileName { path: b"f", algorithms, offset, len, block };
        let by_handle = Request::CheckFileHandle { handle: &handle, algorithms, offset, len, block };
        let either = Request::CheckFile { handle: &handle, algorithms, offset, len, block };
        [by_name, by_handle, either].map(|request| match peer.call(&request) {
            ReplyBody::Status(status) => Some(status.code),
            _ => None,
        })
    };
    assert_eq!(digests(ServerOptions::default()), [None; 3]);
    assert_eq!(digests(ServerOptions { read_only: true, ..Default::default() }), [None; 3]);
    let deny = vec!["read".to_owned()];
    assert_eq!(
        digests(ServerOptions { deny, ..Default::default() }),
        [Some(StatusCode::PERMISSION_DENIED); 3]
    );
    let allow =
        ["open", "close", "check-file", "check-file-handle", "check-file-name"].map(str::to_owned).to_vec();
    let allow = Some(allow);
    assert_eq!(
        digests(ServerOptions { allow, ..Default::default() }),
        [Some(StatusCode::PERMISSION_DENIED); 3]
    );
}

#[test]
fn attributes_are_read_and_set() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    std::fs::write(&file, b"0123456789").unwrap();
    symlink("f", dir.path().join("l")).unwrap();
    let mut peer = Peer::new(dir.path());
    let attrs = Attrs { size: Some(4), permissions: Some(0o100_640), times: Some((11, 22)), ..Attrs::NONE };
    peer.ok(&Request::Setstat { path: b"l", attrs });
    let got = peer.attrs(&Request::Stat { path: b"l" });
    assert_eq!(got.size, Some(4));
    assert_eq!(got.permissions, Some(mode::REGULAR | 0o640));
    assert_eq!(got.times, Some((11, 22)));
    let meta = std::fs::metadata(&file).unwrap();
    assert_eq!(got.ids, Some((meta.uid(), meta.gid())));
    assert!(peer.attrs(&Request::Lstat { path: b"l" }).is_symlink());
    let handle = peer.open(b"f", OpenFlags::WRITE | OpenFlags::READ);
    let attrs = Attrs { size: Some(2), permissions: Some(0o600), times: Some((33, 44)), ..Attrs::NONE };
    peer.ok(&Request::Fsetstat { handle: &handle, attrs });
    let got = peer.attrs(&Request::Fstat { handle: &handle });
    assert_eq!((got.size, got.times), (Some(2), Some((33, 44))));
    // This changes the link itself.
    let attrs = Attrs { times: Some((55, 66)), ..Attrs::NONE };
    peer.ok(&Request::Lsetstat { path: b"l", attrs });
    assert_eq!(peer.attrs(&Request::Lstat { path: b"l" }).times, Some((55, 66)));
    assert_eq!(peer.attrs(&Request::Stat { path: b"l" }).times, Some((33, 44)));
    peer.ok(&Request::Lsetstat { path: b"f", attrs: Attrs::with_permissions(0o644) });
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o644);
    let attrs = Attrs { size: Some(0), ..Attrs::NONE };
    assert_eq!(peer.status(&Request::Lsetstat { path: b"f", attrs }).code, StatusCode::BAD_MESSAGE);
    // One part of the request fails; the other parts are done.
    let attrs = Attrs { size: Some(1), permissions: Some(0o700), ..Attrs::NONE };
    std::fs::create_dir(dir.path().join("d")).unwrap();
    assert_eq!(peer.status(&Request::Setstat { path: b"d", attrs }).code, StatusCode::FAILURE);
    assert_eq!(std::fs::metadata(dir.path().join("d")).unwrap().permissions().mode() & 0o7777, 0o700);
}

#[test]
fn errors_have_their_codes_and_words() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"").unwrap();
    std::fs::create_dir(dir.path().join("d")).unwrap();
    std::fs::write(dir.path().join("d/x"), b"").unwrap();
    let mut peer = Peer::new(dir.path());
    let long = [b'x'; 300];
    for (request, code, words) in [
        (Request::Stat { path: b"no" }, StatusCode::NO_SUCH_FILE, "No such file"),
        (Request::Stat { path: b"" }, StatusCode::NO_SUCH_FILE, "No such file"),
        (Request::Stat { path: b"f/x" }, StatusCode::NO_SUCH_FILE, "No such file"),
        (Request::Stat { path: &long }, StatusCode::BAD_MESSAGE, "File name too long"),
        (Request::Stat { path: b"a\0b" }, StatusCode::BAD_MESSAGE, "Invalid argument"),
        (Request::Mkdir { path: b"d", attrs: Attrs::NONE }, StatusCode::FAILURE, "File exists"),
        (Request::Rmdir { path: b"d" }, StatusCode::FAILURE, "Directory not empty"),
        (Request::Opendir { path: b"f" }, StatusCode::NO_SUCH_FILE, "No such file"),
        (Request::Readlink { path: b"f" }, StatusCode::BAD_MESSAGE, "Invalid argument"),
        (Request::Close { handle: b"1234" }, StatusCode::NO_SUCH_FILE, "Invalid handle"),
        (Request::Fstat { handle: b"" }, StatusCode::FAILURE, "Invalid handle"),
        (
            Request::Extended { name: b"x@y", fields: b"" },
            StatusCode::OP_UNSUPPORTED,
            "Operation unsupported",
        ),
    ] {
        let status = peer.status(&request);
        assert_eq!((status.code, status.message.as_str()), (code, words), "{request:?}");
    }
    let open = Request::Open { path: b"f", flags: MAKE | OpenFlags::EXCL, attrs: Attrs::NONE };
    assert_eq!(peer.status(&open).message, "File exists");
}

#[test]
fn files_are_made_renamed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut peer = Peer::new(dir.path());
    peer.ok(&Request::Mkdir { path: b"d", attrs: Attrs::with_permissions(0o700) });
    assert_eq!(std::fs::metadata(at("d")).unwrap().permissions().mode() & 0o7777, 0o700);
    std::fs::write(at("a"), b"a").unwrap();
    std::fs::write(at("b"), b"b").unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    // RENAME never replaces a file, not even a dangling link or itself.
    for new in [&b"b"[..], b"d", b"dangling", b"a"] {
        let status = peer.status(&Request::Rename { old: b"a", new });
        assert_eq!((status.code, status.message.as_str()), (StatusCode::FAILURE, "File exists"));
    }
    assert_eq!(peer.status(&Request::Rename { old: b"no", new: b"x" }).code, StatusCode::NO_SUCH_FILE);
    peer.ok(&Request::Rename { old: b"a", new: b"d/a" });
    peer.ok(&Request::Rename { old: b"d", new: b"e" });
    peer.ok(&Request::PosixRename { old: b"e/a", new: b"b" });
    assert_eq!(std::fs::read(at("b")).unwrap(), b"a");
    peer.ok(&Request::Hardlink { old: b"b", new: b"c" });
    assert_eq!(std::fs::metadata(at("c")).unwrap().nlink(), 2);
    peer.ok(&Request::Symlink { target: b"some/where", link: b"e/l" });
    assert_eq!(std::fs::read_link(at("e/l")).unwrap().to_str(), Some("some/where"));
    let names = peer.names(&Request::Readlink { path: b"e/l" });
    assert_eq!(names[0].name, b"some/where");
    assert_eq!(peer.status(&Request::Remove { path: b"e" }).code, StatusCode::FAILURE);
    peer.ok(&Request::Remove { path: b"e/l" });
    peer.ok(&Request::Rmdir { path: b"e" });
    assert!(!at("e").exists());
}

#[test]
fn symlink_arguments_come_in_openssh_order() {
    // The message is raw bytes, so that a mistake in our encoder cannot hide: target first, link second.
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    peer.give(b"\0\0\0\x12\x14\0\0\0\x01\0\0\0\x02to\0\0\0\x03new");
    assert_eq!(std::fs::read_link(dir.path().join("new")).unwrap().to_str(), Some("to"));
}

#[test]
fn paths_become_canonical() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("d")).unwrap();
    symlink("d", root.join("l")).unwrap();
    symlink("d/later", root.join("dangling")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    let mut peer = Peer::new(&root);
    for (path, expected) in [
        ("", ""),
        (".", ""),
        ("l/../l/.", "/d"),
        ("l/new", "/d/new"),
        ("new/", "/new"),
        ("dangling", "/d/later"),
        ("..//../../../../../../../../..", "ROOT"),
    ] {
        let names = peer.names(&Request::Realpath { path: path.as_bytes() });
        let expected = if expected == "ROOT" { "/".into() } else { format!("{}{expected}", root.display()) };
        assert_eq!(String::from_utf8_lossy(&names[0].name), expected, "{path:?}");
        assert_eq!((names.len(), names[0].attrs), (1, Attrs::NONE));
    }
    for path in ["no/new", "loop"] {
        let status = peer.status(&Request::Realpath { path: path.as_bytes() });
        assert_eq!(status.code, StatusCode::NO_SUCH_FILE, "{path}");
    }
    let home = peer.names(&Request::HomeDirectory { user: b"root" })[0].name.clone();
    assert_eq!(peer.names(&Request::ExpandPath { path: b"~root" })[0].name, home);
    let path = [&home[..], b"/x"].concat();
    assert_eq!(peer.names(&Request::ExpandPath { path: b"~root/x" })[0].name, path);
    assert_eq!(
        peer.names(&Request::ExpandPath { path: b"~/d" })[0].name,
        root.join("d").as_os_str().as_encoded_bytes()
    );
    assert_eq!(peer.names(&Request::ExpandPath { path: b"~" })[0].name, root.as_os_str().as_encoded_bytes());
    assert_eq!(
        peer.names(&Request::ExpandPath { path: b"d" })[0].name,
        root.join("d").as_os_str().as_encoded_bytes()
    );
    let status = peer.status(&Request::ExpandPath { path: b"~nobody-at-all/x" });
    assert_eq!(status.code, StatusCode::NO_SUCH_FILE);
}

#[test]
fn ten_thousand_entries_are_listed_once_each() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..10_000 {
        std::fs::write(dir.path().join(format!("file-{i:05}-{}", "n".repeat(i % 180))), b"").unwrap();
    }
    let mut peer = Peer::new(dir.path());
    let ReplyBody::Handle(handle) = peer.call(&Request::Opendir { path: b"." }) else { panic!() };
    let mut seen = BTreeSet::new();
    let mut answers = 0;
    loop {
        match peer.call(&Request::Readdir { handle: &handle }) {
            ReplyBody::Names(names) => {
                answers += 1;
                for name in names {
                    let long = String::from_utf8(name.long_name).unwrap();
                    assert!(long.ends_with(std::str::from_utf8(&name.name).unwrap()), "{long}");
                    assert!(seen.insert(name.name), "{long} came twice");
                    assert!(name.attrs.permissions.is_some());
                }
            }
            ReplyBody::Status(status) => {
                assert_eq!(status.code, StatusCode::EOF);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen.len(), 10_002, "with . and ..");
    assert!(answers > 40, "answers stay small enough for every client");
    assert_eq!(peer.status(&Request::Readdir { handle: &handle }).code, StatusCode::EOF);
    assert!(peer.attrs(&Request::Fstat { handle: &handle }).is_dir());
    peer.ok(&Request::Close { handle: &handle });
}

#[test]
fn closed_handles_stay_invalid() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"old").unwrap();
    std::fs::write(dir.path().join("g"), b"new").unwrap();
    let options = ServerOptions { max_handles: Some(300), ..Default::default() };
    let mut peer = Peer::with(Box::new(LocalFs::new(dir.path())), options);
    let handles: Vec<_> = (0..300).map(|_| peer.open(b"f", OpenFlags::READ)).collect();
    assert_eq!(handles.iter().map(|h| h.to_vec()).collect::<BTreeSet<_>>().len(), 300);
    let open = Request::Open { path: b"f", flags: OpenFlags::READ, attrs: Attrs::NONE };
    assert_eq!(peer.status(&open).message, "Too many open files");
    assert_eq!(peer.status(&Request::Opendir { path: b"." }).message, "Too many open files");
    peer.ok(&Request::Close { handle: &handles[7] });
    // The slot is used again, but the old handle does not refer to it.
    let new = peer.open(b"g", OpenFlags::READ);
    assert_eq!(peer.read(&new, 0, 9), b"new");
    let stale = peer.status(&Request::Read { handle: &handles[7], offset: 0, len: 9 });
    assert_eq!((stale.code, stale.message.as_str()), (StatusCode::FAILURE, "Invalid handle"));
    assert_eq!(peer.status(&Request::Close { handle: &handles[7] }).code, StatusCode::NO_SUCH_FILE);
    assert_eq!(peer.read(&handles[299], 0, 9), b"old");
    // Some clients keep handles as text. Neither the slot nor the number of its uses changes that.
    peer.ok(&Request::Close { handle: &new });
    for _ in 0..300 {
        let again = peer.open(b"g", OpenFlags::READ);
        assert!(std::str::from_utf8(&again).is_ok());
        peer.ok(&Request::Close { handle: &again });
    }
    assert!(handles.iter().all(|handle| std::str::from_utf8(handle).is_ok()));
    peer.open(b"g", OpenFlags::READ);
    let ReplyBody::Extended(fields) = peer.call(&Request::Limits) else { panic!() };
    let limits = Limits::read(&mut Reader::new(&fields)).unwrap();
    assert_eq!(
        limits,
        Limits { max_packet: 262_144, max_read: 261_120, max_write: 261_120, max_handles: 300 }
    );
}

#[test]
fn read_only_servers_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"text").unwrap();
    let options = ServerOptions { read_only: true, ..Default::default() };
    let mut peer = Peer::with(Box::new(LocalFs::new(dir.path())), options);
    let handle = peer.open(b"f", OpenFlags::READ);
    let open = |flags| Request::Open { path: b"f", flags, attrs: Attrs::NONE };
    let none = Attrs::NONE;
    for request in [
        open(OpenFlags::WRITE),
        open(OpenFlags::READ | OpenFlags::CREAT),
        open(OpenFlags::READ | OpenFlags::TRUNC),
        Request::Write { handle: &handle, offset: 0, data: b"x" },
        Request::Setstat { path: b"f", attrs: none },
        Request::Fsetstat { handle: &handle, attrs: none },
        Request::Remove { path: b"f" },
        Request::Mkdir { path: b"d", attrs: none },
        Request::Rmdir { path: b"d" },
        Request::Rename { old: b"f", new: b"g" },
        Request::Symlink { target: b"f", link: b"g" },
        Request::PosixRename { old: b"f", new: b"g" },
        Request::Hardlink { old: b"f", new: b"g" },
        Request::Fsync { handle: &handle },
        Request::Lsetstat { path: b"f", attrs: none },
        Request::CopyData { from: &handle, from_offset: 0, len: 0, to: &handle, to_offset: 0 },
    ] {
        let status = peer.status(&request);
        assert_eq!(
            (status.code, status.message.as_str()),
            (StatusCode::PERMISSION_DENIED, "Permission denied")
        );
    }
    assert_eq!(peer.read(&handle, 0, 10), b"text");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn lists_allow_and_deny_requests() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"text").unwrap();
    let stat = Request::Stat { path: b"f" };
    let lstat = Request::Lstat { path: b"f" };
    let options = ServerOptions { deny: vec!["stat".into(), "read".into()], ..Default::default() };
    let mut peer = Peer::with(Box::new(LocalFs::new(dir.path())), options);
    assert_eq!(peer.status(&stat).code, StatusCode::PERMISSION_DENIED);
    peer.attrs(&lstat);
    let handle = peer.open(b"f", OpenFlags::READ);
    let read = Request::Read { handle: &handle, offset: 0, len: 1 };
    assert_eq!(peer.status(&read).code, StatusCode::PERMISSION_DENIED);
    let options = ServerOptions {
        allow: Some(vec!["stat".into(), "lstat".into(), "limits".into()]),
        deny: vec!["lstat".into()],
        ..Default::default()
    };
    let mut peer = Peer::with(Box::new(LocalFs::new(dir.path())), options);
    peer.attrs(&stat);
    assert_eq!(peer.status(&lstat).code, StatusCode::PERMISSION_DENIED);
    assert_eq!(peer.status(&Request::Fsync { handle: b"" }).code, StatusCode::PERMISSION_DENIED);
    assert!(matches!(peer.call(&Request::Limits), ReplyBody::Extended(_)));
    let options = ServerOptions { deny: vec!["open".into(), "opne".into()], ..Default::default() };
    assert_eq!(options.unknown_request(), Some("opne"));
}

#[test]
fn umask_and_permissions_are_honoured() {
    let dir = tempfile::tempdir().unwrap();
    let mode_of =
        |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o7777;
    let mut peer = Peer::with(Box::new(LocalFs::new(dir.path()).with_umask(0o027)), ServerOptions::default());
    peer.open(b"default", MAKE);
    assert_eq!(mode_of("default"), 0o640);
    let attrs = Attrs::with_permissions(0o100_777);
    peer.call(&Request::Open { path: b"given", flags: MAKE, attrs });
    assert_eq!(mode_of("given"), 0o750);
    peer.ok(&Request::Mkdir { path: b"d", attrs: Attrs::NONE });
    assert_eq!(mode_of("d"), 0o750);
    let mut wide = Peer::with(Box::new(LocalFs::new(dir.path()).with_umask(0)), ServerOptions::default());
    wide.open(b"wide", MAKE);
    assert_eq!(mode_of("wide"), 0o666);
}

#[test]
fn file_systems_are_described() {
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    let handle = peer.open(b"f", MAKE);
    for request in [Request::Statvfs { path: b"." }, Request::Fstatvfs { handle: &handle }] {
        let ReplyBody::Extended(fields) = peer.call(&request) else { panic!() };
        assert_eq!(fields.len(), 88);
        let stat = StatVfs::read(&mut Reader::new(&fields)).unwrap();
        assert!(stat.blocks > 0 && stat.fragment_size > 0 && stat.name_max >= 255, "{stat:?}");
    }
    assert_eq!(peer.status(&Request::Statvfs { path: b"no" }).code, StatusCode::NO_SUCH_FILE);
    peer.ok(&Request::Fsync { handle: &handle });
}

#[test]
fn ids_get_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    let mut ids = 0_u32.to_be_bytes().to_vec();
    ids.put_u32(4_000_000_000);
    let ReplyBody::Extended(fields) = peer.call(&Request::UsersGroupsById { users: &ids, groups: &ids[4..] })
    else {
        panic!()
    };
    let mut reader = Reader::new(&fields);
    assert_eq!(reader.string().unwrap(), b"\0\0\0\x04root\0\0\0\0");
    assert_eq!(reader.string().unwrap(), b"\0\0\0\0");
    let status = peer.status(&Request::UsersGroupsById { users: b"abc", groups: b"" });
    assert_eq!(status.code, StatusCode::BAD_MESSAGE);
}

#[test]
fn data_is_copied_between_handles() {
    let dir = tempfile::tempdir().unwrap();
    let data: Vec<u8> = (0..9_000_000_u32).map(|i| (i / 7) as u8).collect();
    std::fs::write(dir.path().join("from"), &data).unwrap();
    let mut peer = Peer::new(dir.path());
    let from = peer.open(b"from", OpenFlags::READ);
    let to = peer.open(b"to", MAKE);
    let copy =
        |from_offset, len, to_offset| Request::CopyData { from: &from, from_offset, len, to: &to, to_offset };
    peer.ok(&copy(0, 0, 0));
    assert!(std::fs::read(dir.path().join("to")).unwrap() == data);
    peer.ok(&copy(5, 10, 100));
    assert_eq!(std::fs::read(dir.path().join("to")).unwrap()[100..110], data[5..15]);
    // Only existing data is copied.
    peer.ok(&copy(8_999_990, 100, 9_000_000));
    assert_eq!(std::fs::metadata(dir.path().join("to")).unwrap().len(), 9_000_010);
    peer.ok(&copy(9_000_000, 0, 0));
    // Requests after a copy wait for it.
    let mut stream = Vec::new();
    copy(0, 0, 0).encode(900, &mut stream);
    Request::Fstat { handle: &to }.encode(901, &mut stream);
    peer.give(&stream);
    let ids: Vec<_> = std::iter::from_fn(|| peer.take())
        .map(|incoming| match incoming {
            lh_sftp::Incoming::Reply(reply) => reply.id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, [900, 901]);
    // Copying a file onto itself is refused, by handle and by file.
    let again = peer.open(b"from", OpenFlags::READ | OpenFlags::WRITE);
    for (from, to) in [(&from, &from), (&from, &again)] {
        let request = Request::CopyData { from, from_offset: 0, len: 0, to, to_offset: 5 };
        assert_eq!(peer.status(&request).code, StatusCode::FAILURE);
    }
    // The kernel cannot copy here: a file open for appending, a file of /proc.
    let append = peer.open(b"appended", MAKE | OpenFlags::APPEND);
    peer.ok(&Request::CopyData { from: &from, from_offset: 0, len: 1000, to: &append, to_offset: 0 });
    let status = peer.open(b"/proc/self/status", OpenFlags::READ);
    peer.ok(&Request::CopyData { from: &status, from_offset: 0, len: 0, to: &append, to_offset: 0 });
    let appended = std::fs::read(dir.path().join("appended")).unwrap();
    assert!(appended[..1000] == data[..1000] && appended[1000..].starts_with(b"Name:"));
}

#[test]
fn a_fifo_does_not_stop_the_session() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let mut peer = Peer::new(dir.path());
    let handle = peer.open(b"fifo", OpenFlags::READ);
    let status = peer.status(&Request::Read { handle: &handle, offset: 0, len: 10 });
    assert_eq!(status.code, StatusCode::FAILURE);
    peer.ok(&Request::Close { handle: &handle });
    let open = Request::Open { path: b"fifo", flags: OpenFlags::WRITE, attrs: Attrs::NONE };
    assert_eq!(peer.status(&open).code, StatusCode::FAILURE);
}

#[test]
fn the_log_has_each_file_and_change() {
    let dir = tempfile::tempdir().unwrap();
    let options = ServerOptions { user: "ann".into(), address: "10.0.0.1".into(), ..Default::default() };
    let mut peer = Peer::with(Box::new(LocalFs::new(dir.path())), options);
    let handle = peer.open(b"f\n\"", MAKE | OpenFlags::READ);
    peer.ok(&Request::Write { handle: &handle, offset: 10, data: b"12345" });
    peer.read(&handle, 12, 100);
    peer.ok(&Request::Fsetstat { handle: &handle, attrs: Attrs { times: Some((0, 86_399)), ..Attrs::NONE } });
    peer.ok(&Request::Close { handle: &handle });
    peer.open(b"left", MAKE);
    peer.status(&Request::Remove { path: b"\xff\x1b[2J" });
    drop(peer.server.close());
    let lines = peer.log.lines.lock().unwrap().join("\n");
    assert_eq!(
        lines,
        "session opened for local user ann from [10.0.0.1]\n\
         received client version 3\n\
         open \"f\\n\\\"\" flags READ,WRITE,CREATE mode 0666\n\
         set \"f\\n\\\"\" modtime 19700101-23:59:59\n\
         close \"f\\n\\\"\" bytes read 3 written 5\n\
         open \"left\" flags WRITE,CREATE mode 0666\n\
         remove name \"\\377\\u{1b}[2J\"\n\
         sent status No such file\n\
         forced close \"left\" bytes read 0 written 0\n\
         session closed for local user ann from [10.0.0.1]"
    );
    let files = peer.log.files.lock().unwrap();
    assert_eq!((files[0].bytes_read, files[0].bytes_written, files[0].start), (3, 5, 10));
    assert_eq!(files[0].outcome, FileOutcome::Complete);
    assert_eq!(files[1].outcome, FileOutcome::Abandoned);
}

#[test]
fn replies_can_be_written_without_a_server() {
    let mut out = Vec::new();
    ReplyWriter(&mut out).status(1, StatusCode::OK, "");
    assert_eq!(out.len(), 4 + 1 + 4 + 4 + 4 + 4);
}
