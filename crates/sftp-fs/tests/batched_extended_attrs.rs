//! Tests of whole small files with all attributes to be preserved, and of the way they get their names.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use lh_sftp::batch::{
    GetFile, PUT_COMPARED, PUT_OVER_LINKS, PUT_PERMISSIONS, PUT_PLACED, PutFailure, PutFile, PutStep,
};
use lh_sftp::extended_attrs::{ACLS, XATTRS, Xattrs};
use lh_sftp::server::ServerOptions;
use lh_sftp::{Attrs, ReplyBody, Request, StatusCode, batched_extended_attrs, extension};
use lh_sftp_fs::LocalFs;
use support::Peer;

const PLACED: u32 = PUT_PLACED | PUT_COMPARED;

fn peer(dir: &Path, deny: &[&str]) -> Peer {
    let deny = deny.iter().map(|&name| name.to_owned()).collect();
    let options = ServerOptions { deny, ..ServerOptions::default() };
    Peer::with(Box::new(LocalFs::new(dir).with_umask(0o022)), options)
}

fn put(peer: &mut Peer, flags: u32, files: &[(&str, Attrs, &[u8], Xattrs)]) -> ReplyBody {
    let mut fields = Vec::new();
    for (path, attrs, data, xattrs) in files {
        PutFile { path: path.as_bytes(), attrs: *attrs, data }.write(&mut fields);
        if batched_extended_attrs::put_kinds(flags) != 0 {
            assert!(batched_extended_attrs::write(xattrs, &mut fields));
        }
    }
    peer.call(&Request::PutFiles { flags, count: files.len() as u32, files: &fields })
}

fn failures(reply: ReplyBody) -> Vec<PutFailure> {
    let ReplyBody::Extended(fields) = reply else { panic!("{reply:?}") };
    PutFailure::read_all(&fields).unwrap()
}

fn refused(reply: ReplyBody) -> StatusCode {
    let ReplyBody::Status(status) = reply else { panic!("{reply:?}") };
    status.code
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns true if the directory's file system supports extended attributes.
fn has_xattrs(dir: &Path) -> bool {
    let probe = dir.join("probe");
    fs::write(&probe, b"").unwrap();
    let done = lh_sftp_fs::set_xattrs(&probe, XATTRS, &vec![(b"user.probe".to_vec(), b"1".to_vec())]);
    fs::remove_file(&probe).unwrap();
    done.inspect_err(|error| eprintln!("no extended attributes here: {error}")).is_ok()
}

/// Covers: wire put-files@longhaul
#[test]
fn files_replace_files_and_links_atomically() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("d")).unwrap();
    fs::write(at("old"), [1; 100]).unwrap();
    fs::set_permissions(at("old"), fs::Permissions::from_mode(0o604)).unwrap();
    fs::write(at("twice"), b"both").unwrap();
    fs::hard_link(at("twice"), at("other")).unwrap();
    fs::write(at("led-to"), b"before").unwrap();
    symlink("led-to", at("link")).unwrap();
    // An interrupted session has left this file.
    fs::write(at(".old.lhpart"), b"half").unwrap();
    let mut peer = peer(dir.path(), &[]);
    let attrs = Attrs::with_permissions(0o666);
    let file = |name: &'static str| (name, attrs, name.as_bytes(), Xattrs::new());
    let all = ["new", "old", "d/new2", "twice", "link", "d/new3"].map(file);
    assert_eq!(failures(put(&mut peer, PLACED, &all)), []);
    for (name, ..) in &all {
        assert_eq!(fs::read(at(name)).unwrap(), name.as_bytes());
    }
    let mode = |name: &str| fs::metadata(at(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("new"), mode("d/new2"), mode("d/new3")), (0o644, 0o644, 0o644), "under the umask");
    assert_eq!(mode("old"), 0o604, "what is replaced keeps its permissions");
    assert_eq!(fs::read(at("other")).unwrap(), b"twice", "other names of a file stay its names");
    assert_eq!(fs::read(at("led-to")).unwrap(), b"link");
    assert_eq!(failures(put(&mut peer, PLACED | PUT_OVER_LINKS, &[file("link"), file("fresh")])), []);
    assert!(fs::symlink_metadata(at("link")).unwrap().is_file());
    assert_eq!(names(&at("d")), ["new2", "new3"]);
    assert_eq!(names(dir.path()), ["d", "fresh", "led-to", "link", "new", "old", "other", "twice"]);
    let failed = failures(put(&mut peer, PLACED, &[file("none/x"), file("d")]));
    assert_eq!(
        failed.iter().map(|failed| (failed.index, failed.step)).collect::<Vec<_>>(),
        [(0, PutStep::Open), (1, PutStep::Open)]
    );
    // Every file has its own usage record, by either method; a file that could not be opened has one too.
    let files = peer.log.files.lock().unwrap();
    let numbers: std::collections::BTreeSet<_> = files.iter().map(|event| event.number).collect();
    assert_eq!((files.len(), numbers.len()), (8, 8), "{files:?}");
}

/// The owner of a directory can take every temporary name of a file, so that it has to be written in place.
#[test]
fn a_link_to_be_replaced_is_never_written_through() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("elsewhere"), b"before").unwrap();
    symlink("elsewhere", at("link")).unwrap();
    for name in ["link", "plain"] {
        fs::create_dir(at(&format!(".{name}.lhpart"))).unwrap();
        (1..16).for_each(|number| fs::create_dir(at(&format!(".{name}.{number:012x}.lhpart"))).unwrap());
    }
    fs::write(at("plain"), b"before").unwrap();
    let files = ["link", "plain"].map(|name| (name, Attrs::NONE, name.as_bytes(), Xattrs::new()));
    let read = |name: &str| fs::read_to_string(at(name)).unwrap();
    for denied in [&[][..], &["posix-rename"]] {
        let mut peer = peer(dir.path(), denied);
        let failed = failures(put(&mut peer, PLACED | PUT_OVER_LINKS, &files));
        let [PutFailure { index: 0, step: PutStep::Open, text, .. }] = &failed[..] else {
            panic!("{failed:?}")
        };
        assert_eq!(text, "cannot replace the symbolic link");
        assert_eq!((read("elsewhere"), read("plain")), ("before".into(), "plain".into()), "{denied:?}");
        fs::write(at("plain"), b"before").unwrap();
    }
    // Clients that write in place follow links.
    let mut peer = peer(dir.path(), &[]);
    assert_eq!(failures(put(&mut peer, PUT_OVER_LINKS, &files)), []);
    assert_eq!(read("elsewhere"), "link");
}

/// Covers: wire put-kept@longhaul; wire get-kept@longhaul
#[test]
fn attributes_are_replaced_with_the_files() {
    let dir = tempfile::tempdir().unwrap();
    if !has_xattrs(dir.path()) {
        return;
    }
    let mut peer = peer(dir.path(), &[]);
    assert!(peer.session.supports(extension::PUT_KEPT) && peer.session.supports(extension::GET_KEPT));
    let flags = PLACED | PUT_PERMISSIONS | batched_extended_attrs::PUT_XATTRS;
    let attrs = Attrs { times: Some((11, 22)), ..Attrs::with_permissions(0o640) };
    let of = |value: &[u8]| vec![(b"user.kind".to_vec(), value.to_vec())];
    let long = of(&[7; 1500]);
    for flags in [flags, flags & !PUT_PLACED] {
        let all = [("a", attrs, &b"text"[..], of(b"odd")), ("b", attrs, &b""[..], Xattrs::new())];
        assert_eq!(failures(put(&mut peer, flags, &all)), []);
        let found = |name: &str| lh_sftp_fs::xattrs(&dir.path().join(name), XATTRS).unwrap();
        assert_eq!((found("a"), found("b")), (of(b"odd"), Xattrs::new()));
        let meta = fs::metadata(dir.path().join("a")).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o640, 22));
        // Attributes that are not wanted are removed.
        assert_eq!(failures(put(&mut peer, flags, &[("a", attrs, b"text", Xattrs::new())])), []);
        assert_eq!(found("a"), Xattrs::new());
        assert_eq!(failures(put(&mut peer, flags, &all)), []);
    }
    lh_sftp_fs::set_xattrs(&dir.path().join("b"), XATTRS, &long).unwrap();
    let mut fields = Vec::new();
    for path in ["a", "b", "none"] {
        GetFile { path: path.as_bytes(), len: 10 }.write(&mut fields);
    }
    let reply = peer.call(&Request::GetFiles { flags: XATTRS | ACLS, count: 3, files: &fields });
    let ReplyBody::Extended(fields) = reply else { panic!("{reply:?}") };
    let got = batched_extended_attrs::read_got(&fields).unwrap();
    assert_eq!(got[0].0.as_ref().unwrap().data, b"text");
    assert_eq!(got[0].1, Some(of(b"odd")));
    assert_eq!((got[1].0.is_ok(), &got[1].1), (true, &None), "too much for this: to be asked for");
    assert_eq!((got[2].0.is_err(), &got[2].1), (true, &None));
    // The attribute is of another kind than announced.
    let acl = vec![(b"system.posix_acl_access".to_vec(), b"x".to_vec())];
    let foreign = put(&mut peer, flags, &[("c", attrs, b"x", of(b"1")), ("d", attrs, b"x", acl)]);
    assert_eq!(refused(foreign), StatusCode::BAD_MESSAGE);
    assert_eq!(names(dir.path()), ["a", "b"], "nothing of it was carried out");
}

/// Covers: wire put-kept@longhaul
#[test]
fn owners_are_set_or_the_failure_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut peer = peer(dir.path(), &[]);
    let root = rustix::process::geteuid().is_root();
    // Root can give files away; other users cannot.
    let wanted = if root { (12345, 23456) } else { (0, 0) };
    let attrs = Attrs { ids: Some(wanted), ..Attrs::with_permissions(0o4755) };
    for (name, flags) in [("placed", PLACED), ("there", 0), ("placed", PLACED)] {
        let flags = flags | PUT_PERMISSIONS | batched_extended_attrs::PUT_OWNER;
        let failed = failures(put(&mut peer, flags, &[(name, attrs, b"text", Xattrs::new())]));
        let meta = fs::metadata(dir.path().join(name)).unwrap();
        if root {
            assert_eq!(failed, []);
            assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (12345, 23456, 0o4755));
        } else {
            assert_eq!((failed.len(), failed[0].step), (1, PutStep::Owner), "{failed:?}");
            assert_eq!(meta.mode() & 0o7777, 0o755, "bits that lend rights go with the owner");
        }
        assert_eq!(fs::read(dir.path().join(name)).unwrap(), b"text");
    }
}

/// Covers: sftp-server -P; sftp-server -R
#[test]
fn refused_flags_do_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), b"text").unwrap();
    let mut get = Vec::new();
    GetFile { path: b"f", len: 10 }.write(&mut get);
    for (denied, read_only, puts, gets) in [
        (&["put-kept", "get-kept"][..], false, false, false),
        (&["set-xattrs"], false, false, true),
        (&["get-xattrs"], false, true, false),
        (&["put-files"], false, false, true),
        (&[], true, false, true),
    ] {
        let deny = denied.iter().map(|&name| name.to_owned()).collect();
        let options = ServerOptions { deny, read_only, ..ServerOptions::default() };
        let mut peer = Peer::with(Box::new(LocalFs::new(dir.path())), options);
        assert_eq!(peer.session.supports(extension::PUT_KEPT), puts, "{denied:?}");
        assert_eq!(peer.session.supports(extension::GET_KEPT), gets, "{denied:?}");
        let one = [("g", Attrs::with_permissions(0o600), &b"x"[..], Xattrs::new())];
        let done = put(&mut peer, batched_extended_attrs::PUT_XATTRS, &one);
        assert_eq!(matches!(done, ReplyBody::Extended(_)), puts, "{denied:?}: {done:?}");
        assert_eq!(fs::remove_file(dir.path().join("g")).is_ok(), puts);
        let done = peer.call(&Request::GetFiles { flags: XATTRS, count: 1, files: &get });
        assert_eq!(matches!(done, ReplyBody::Extended(_)), gets, "{denied:?}: {done:?}");
        // The names under which they are offered are not names of requests.
        let name = extension::PUT_KEPT.as_bytes();
        let asked = peer.call(&Request::Extended { name, fields: b"" });
        let expected = if puts { StatusCode::OP_UNSUPPORTED } else { StatusCode::PERMISSION_DENIED };
        assert_eq!(refused(asked), expected);
    }
    assert_eq!(names(dir.path()), ["f"]);
}
