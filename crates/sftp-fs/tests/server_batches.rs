//! Tests of Longhaul's extensions: whole small files, and listings in one round trip.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lh_sftp::batch::{
    GET_BUDGET, GET_OVERHEAD, GetFile, LIST_LONG, LIST_NAMES, Listing, MAX_FILES, PUT_PERMISSIONS,
    PutFailure, PutFile, PutStep, read_got,
};
use lh_sftp::server::ServerOptions;
use lh_sftp::{Attrs, OpenFlags, ReplyBody, Request, StatusCode, extension};
use lh_sftp_fs::LocalFs;
use support::Peer;

fn put(peer: &mut Peer, flags: u32, files: &[(&str, Attrs, &[u8])]) -> ReplyBody {
    let mut fields = Vec::new();
    for &(path, attrs, data) in files {
        PutFile { path: path.as_bytes(), attrs, data }.write(&mut fields);
    }
    peer.call(&Request::PutFiles { flags, count: files.len() as u32, files: &fields })
}

fn failures(reply: ReplyBody) -> Vec<PutFailure> {
    let ReplyBody::Extended(fields) = reply else { panic!("{reply:?}") };
    PutFailure::read_all(&fields).unwrap()
}

fn get(peer: &mut Peer, files: &[(&str, u32)]) -> ReplyBody {
    let mut fields = Vec::new();
    for &(path, len) in files {
        GetFile { path: path.as_bytes(), len }.write(&mut fields);
    }
    peer.call(&Request::GetFiles { flags: 0, count: files.len() as u32, files: &fields })
}

fn code(reply: ReplyBody) -> StatusCode {
    let ReplyBody::Status(status) = reply else { panic!("{reply:?}") };
    status.code
}

/// A client need not heed VERSION: what it asks for in vain is recorded, file by file.
#[test]
fn files_of_denied_requests_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "text").unwrap();
    let options =
        ServerOptions { deny: vec!["read".to_owned(), "write".to_owned()], ..ServerOptions::default() };
    let mut peer = Peer::with(Box::new(LocalFs::new(dir.path())), options);
    let denied = StatusCode::PERMISSION_DENIED;
    assert_eq!(code(get(&mut peer, &[("a", 10), ("b", 10)])), denied);
    assert_eq!(code(put(&mut peer, 0, &[("a", Attrs::NONE, b"x"), ("c", Attrs::NONE, b"")])), denied);
    let open = Request::Open { path: b"a", flags: OpenFlags::READ, attrs: Attrs::NONE };
    let ReplyBody::Handle(handle) = peer.call(&open) else { panic!("not opened") };
    let handle = &handle[..];
    let sum = Request::CheckFileHandle { handle, algorithms: b"md5", offset: 0, len: 0, block: 0 };
    assert_eq!(code(peer.call(&sum)), denied);
    assert_eq!(code(peer.call(&Request::DataRanges { handle, offset: 0 })), denied);
    let refused = peer.log.refused.lock().unwrap().clone();
    let refused: Vec<_> = refused.iter().map(|(what, path)| format!("{what} {path}")).collect();
    assert_eq!(refused, ["read a", "read b", "write a", "write c", "check-file-handle a", "data-ranges a"]);
}

/// Covers: wire put-files@longhaul; wire get-files@longhaul
#[test]
fn messages_write_and_read_many_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("longer"), [1; 100]).unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    let mut peer = Peer::with(Box::new(LocalFs::new(dir.path()).with_umask(0o022)), ServerOptions::default());
    let attrs = Attrs { times: Some((11, 22)), ..Attrs::with_permissions(0o100_666) };
    let all: [(&str, Attrs, &[u8]); 4] = [
        ("new", attrs, b"text"),
        ("longer", Attrs::with_permissions(0o600), b"short"),
        ("d/empty", Attrs::NONE, b""),
        ("none/file", Attrs::NONE, b"x"),
    ];
    let failed = failures(put(&mut peer, 0, &all));
    assert_eq!(failed.len(), 1);
    assert_eq!(
        (failed[0].index, failed[0].step, failed[0].code),
        (3, PutStep::Open, StatusCode::NO_SUCH_FILE)
    );
    let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("new"), mode("d/empty")), (0o644, 0o644), "under the umask");
    assert_eq!(fs::read(dir.path().join("longer")).unwrap(), b"short");
    assert_eq!(mode("longer"), 0o644, "what is there keeps its permissions");
    assert_eq!(peer.attrs(&Request::Stat { path: b"new" }).times, Some((11, 22)));
    assert!(failures(put(&mut peer, PUT_PERMISSIONS, &all[..2])).is_empty());
    assert_eq!((mode("new"), mode("longer")), (0o666, 0o600), "exactly");

    let ReplyBody::Extended(fields) =
        get(&mut peer, &[("new", 4), ("new", 3), ("d/empty", 9), ("d", 1), ("x", 1)])
    else {
        panic!("refused")
    };
    let got = read_got(&fields).unwrap();
    let file = |at: usize| got[at].as_ref().unwrap();
    assert_eq!((file(0).data, file(0).whole, file(0).attrs.times), (&b"text"[..], true, Some((11, 22))));
    assert_eq!((file(1).data, file(1).whole), (&b"tex"[..], false));
    assert_eq!((file(2).data, file(2).whole), (&b""[..], true));
    assert_eq!(got[3].as_ref().unwrap_err().0, StatusCode::FAILURE);
    assert_eq!(got[4].as_ref().unwrap_err().0, StatusCode::NO_SUCH_FILE);
    // Every file has its usage record, as if it had been opened and closed.
    let files = peer.log.files.lock().unwrap();
    assert_eq!(files.len(), 3 + 2 + 4, "{files:?}");
    assert_eq!((files[0].bytes_written, files[5].bytes_read), (4, 4));
}

#[test]
fn a_full_disk_is_named_with_its_file() {
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    let failed =
        failures(put(&mut peer, 0, &[("/dev/full", Attrs::NONE, b"x"), ("fine", Attrs::NONE, b"x")]));
    assert_eq!(
        (failed.len(), failed[0].step, failed[0].text.as_str()),
        (1, PutStep::Write, "No space left on device")
    );
    assert!(dir.path().join("fine").exists());
}

#[test]
fn oversized_and_unknown_batches_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    assert_eq!(code(put(&mut peer, 1 << 31, &[("f", Attrs::NONE, b"x")])), StatusCode::OP_UNSUPPORTED);
    let many = vec![("f", Attrs::NONE, &b""[..]); MAX_FILES + 1];
    assert_eq!(code(put(&mut peer, 0, &many)), StatusCode::BAD_MESSAGE);
    let mut fields = Vec::new();
    PutFile { path: b"f", attrs: Attrs::NONE, data: b"x" }.write(&mut fields);
    for (count, cut) in [(2, 0), (0, 0), (1, 1), (u32::MAX, 0)] {
        let files = &fields[..fields.len() - cut];
        assert_eq!(code(peer.call(&Request::PutFiles { flags: 0, count, files })), StatusCode::BAD_MESSAGE);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");
    let most = (GET_BUDGET - GET_OVERHEAD) as u32;
    assert_eq!(code(get(&mut peer, &[("f", most + 1)])), StatusCode::BAD_MESSAGE);
    assert_eq!(code(get(&mut peer, &[("f", u32::MAX), ("f", u32::MAX)])), StatusCode::BAD_MESSAGE);
    assert!(matches!(get(&mut peer, &[("f", most)]), ReplyBody::Extended(_)));
    let list = Request::ListDir { path: b".", pattern: b"", flags: 4 };
    assert_eq!(code(peer.call(&list)), StatusCode::OP_UNSUPPORTED);
}

/// Covers: sftp-server -P; sftp-server -R
#[test]
fn batches_obey_refused_requests() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), b"text").unwrap();
    let ours = [extension::PUT_FILES, extension::GET_FILES, extension::LIST_DIR];
    for (denied, read_only, left) in [
        (&[][..], true, &[false, true, true][..]),
        (&["write"], false, &[false, true, true]),
        (&["fsetstat"], false, &[false, true, true]),
        (&["open"], false, &[false, false, true]),
        (&["read"], false, &[true, false, true]),
        (&["readdir"], false, &[true, true, false]),
        (&["put-files", "get-files", "list-dir"], false, &[false, false, false]),
    ] {
        let deny: Vec<String> = denied.iter().map(|&name| name.to_owned()).collect();
        let options = ServerOptions { deny, read_only, ..ServerOptions::default() };
        let mut peer = Peer::with(Box::new(LocalFs::new(dir.path())), options);
        let offered = ours.map(|name| peer.session.supports(name));
        assert_eq!(offered, left, "{denied:?}");
        let list = Request::ListDir { path: b".", pattern: b"", flags: 0 };
        let replies =
            [put(&mut peer, 0, &[("g", Attrs::NONE, b"x")]), get(&mut peer, &[("f", 4)]), peer.call(&list)];
        for (reply, allowed) in replies.into_iter().zip(left) {
            assert_eq!(matches!(reply, ReplyBody::Extended(_)), *allowed, "{denied:?} {reply:?}");
            if !allowed {
                assert_eq!(code(reply), StatusCode::PERMISSION_DENIED);
            }
        }
        assert_eq!(dir.path().join("g").exists(), left[0]);
        let _ = fs::remove_file(dir.path().join("g"));
    }
    // A list of allowed requests that was written for another server allows none of Longhaul's.
    let allow = Some(["open", "read", "write", "close", "fstat", "fsetstat"].map(str::to_owned).to_vec());
    let options = ServerOptions { allow, ..ServerOptions::default() };
    let peer = Peer::with(Box::new(LocalFs::new(dir.path())), options);
    assert!(ours.iter().all(|name| !peer.session.supports(name)));
}

/// Covers: wire list-dir@longhaul
#[test]
fn directories_are_listed_in_one_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..3_000 {
        fs::write(dir.path().join(format!("file-{n:04}")), b"").unwrap();
    }
    fs::write(dir.path().join(".hidden7"), b"").unwrap();
    let mut peer = Peer::new(dir.path());
    let mut list = |pattern: &[u8], flags| {
        let reply = peer.call(&Request::ListDir { path: b".", pattern, flags });
        let ReplyBody::Extended(fields) = reply else { panic!("{reply:?}") };
        let short = flags == LIST_NAMES;
        let mut listing = if short { Listing::read_short(&fields) } else { Listing::read(&fields) }.unwrap();
        if short && pattern == b"*77" {
            assert!(fields.len() < 30 * 12, "{} bytes", fields.len());
        }
        let more = !listing.handle.is_empty();
        while !listing.handle.is_empty() {
            match peer.call(&Request::Readdir { handle: &listing.handle }) {
                ReplyBody::Names(names) => listing.names.extend(names),
                ReplyBody::Status(status) => {
                    assert_eq!(status.code, StatusCode::EOF);
                    peer.ok(&Request::Close { handle: &listing.handle });
                    listing.handle.clear();
                }
                other => panic!("{other:?}"),
            }
        }
        let mut names: Vec<_> = listing
            .names
            .into_iter()
            .map(|name| (String::from_utf8(name.name).unwrap(), name.long_name))
            .collect();
        names.sort();
        (more, names)
    };
    let (more, found) = list(b"*77", 0);
    assert!(!more, "one answer holds all");
    assert_eq!(found.len(), 30);
    assert!(found.iter().all(|(name, long)| name.ends_with("77") && long.is_empty()));
    assert_eq!(list(b"*77", LIST_NAMES), (false, found));
    assert_eq!(list(b"nothing*", LIST_NAMES), (false, Vec::new()));
    let (more, found) = list(b"", LIST_NAMES);
    assert_eq!((more, found.len()), (false, 3_000 + 3));
    let (_, found) = list(b"file-000[12]", LIST_LONG);
    assert_eq!(found.len(), 2);
    assert!(found[0].1.starts_with(b"-rw") && found[0].1.ends_with(b"file-0001"));
    assert_eq!(list(b"*7", 0).1.iter().filter(|(name, _)| name.starts_with('.')).count(), 0);
    let (more, found) = list(b"", LIST_LONG);
    assert_eq!(found.len(), 3_000 + 3);
    assert!(more, "a large directory goes on with READDIR");
    assert_eq!(
        code(peer.call(&Request::ListDir { path: b"none", pattern: b"", flags: 0 })),
        StatusCode::NO_SUCH_FILE
    );
}
