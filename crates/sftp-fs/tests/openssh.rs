//! Comparison with OpenSSH: its `sftp` uses our server, and its `sftp-server` and ours answer equal requests.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bytes::Bytes;
use lh_sftp::{Attrs, Incoming, Limits, OpenFlags, ReplyBody, Request, Session, extension, mode};
use lh_testkit::{peers, skip};
use lh_wire::Reader;

const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";

/// `cargo test` builds examples beside the tests.
fn our_server() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let server = test.parent().unwrap().parent().unwrap().join("examples/sftp_stdio");
    assert!(server.exists(), "{} is missing: run `cargo test -p lh-sftp` without --test", server.display());
    server
}

fn sftp(dir: &Path, server_flags: &str, batch: &str) -> (bool, String) {
    let mut child = Command::new("sftp")
        .arg("-D")
        .arg(format!("{} {server_flags}", our_server().display()))
        .args(["-b", "-"])
        .current_dir(dir)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(batch.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    (out.status.success(), text)
}

#[test]
fn debians_sftp_works_with_our_server() {
    if peers("debians_sftp_works_with_our_server", ["sftp"]).is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    std::fs::create_dir_all(root.join("tree/deep/er")).unwrap();
    std::fs::create_dir(root.join("remote")).unwrap();
    let data: Vec<u8> = (0..5_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(root.join("tree/big"), &data).unwrap();
    std::fs::write(root.join("tree/empty"), b"").unwrap();
    std::fs::write(root.join("tree/deep/er/odd name \u{e9}"), b"odd").unwrap();
    let (ok, text) = sftp(
        root,
        "",
        "version\n\
         cd remote\n\
         put -R tree copied\n\
         get -R copied back\n\
         rename copied/big copied/large\n\
         -rename copied/large copied/empty\n\
         ln copied/empty hard\n\
         ln -s copied/empty soft\n\
         cp hard onserver\n\
         chmod 640 onserver\n\
         mkdir made\n\
         ls -l\n\
         df -h .\n\
         rm hard\n\
         rmdir made\n\
         -rmdir copied\n\
         get -p onserver onserver\n\
         pwd\n",
    );
    assert!(ok, "{text}");
    assert!(text.contains("SFTP protocol version 3"), "{text}");
    let read = |path: &str| std::fs::read(root.join(path)).unwrap();
    assert!(read("back/big") == data, "download");
    assert_eq!(read("back/deep/er/odd name \u{e9}"), b"odd");
    assert_eq!(read("back/empty"), b"");
    // OpenSSH's client uses posix-rename, so the second rename replaces.
    assert!(read("remote/copied/empty") == data);
    assert!(read("onserver") == data, "copy-data");
    assert_eq!(std::fs::read_link(root.join("remote/soft")).unwrap().to_str(), Some("copied/empty"));
    assert!(!root.join("remote/hard").exists() && !root.join("remote/made").exists());
    assert!(text.contains("-rw-r-----"), "{text}");
    assert!(text.contains("%Capacity"), "{text}");
    assert!(text.contains("rmdir \"") || text.contains("remote rmdir") || text.contains("Failure"), "{text}");
}

#[test]
fn debians_sftp_gets_errors_of_a_read_only_server() {
    if peers("debians_sftp_gets_errors_of_a_read_only_server", ["sftp"]).is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"text").unwrap();
    let (ok, text) = sftp(dir.path(), "-R", "get f g\n-put f h\n-rm f\nls -1\n");
    assert!(ok, "{text}");
    assert_eq!(text.to_lowercase().matches("permission denied").count(), 2, "{text}");
    assert_eq!(std::fs::read(dir.path().join("g")).unwrap(), b"text");
    assert!(dir.path().join("f").exists() && !dir.path().join("h").exists());
}

/// A server program and the client that sends it requests.
struct Program {
    child: std::process::Child,
    session: Session,
}

impl Program {
    fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut program = Self { child, session: Session::new() };
        let mut init = Vec::new();
        program.session.start(&mut init);
        program.send(&init);
        assert!(matches!(program.receive(), Incoming::Version { .. }));
        program
    }

    fn send(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn receive(&mut self) -> Incoming {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if let Some(incoming) = self.session.poll().unwrap() {
                return incoming;
            }
            let n = self.child.stdout.as_mut().unwrap().read(&mut buffer).unwrap();
            assert!(n > 0, "the server ended");
            self.session.input(Bytes::copy_from_slice(&buffer[..n]));
        }
    }

    fn call(&mut self, request: &Request<'_>) -> ReplyBody {
        let mut bytes = Vec::new();
        self.session.request(request, &mut bytes);
        self.send(&bytes);
        match self.receive() {
            Incoming::Reply(reply) => reply.body,
            other => panic!("{other:?}"),
        }
    }

    fn handle(&mut self, request: &Request<'_>) -> Vec<u8> {
        match self.call(request) {
            ReplyBody::Handle(handle) => handle.to_vec(),
            other => panic!("{request:?}: {other:?}"),
        }
    }

    /// Sends requests of all kinds and returns the answers as text that does not depend on the server.
    fn story(&mut self) -> Vec<String> {
        let none = Attrs::NONE;
        let make = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT;
        let open = |path, flags| Request::Open { path, flags, attrs: none };
        let file = self.handle(&open(b"file", make));
        let other = self.handle(&open(b"other", make));
        self.call(&Request::Write { handle: &file, offset: 3, data: b"0123456789" });
        let times = Attrs { times: Some((1_000_000, 2_000_000)), ..none };
        let size = Attrs { size: Some(5), ..none };
        let ids = [0, 0, 0, 1, 0, 0, 0, 0];
        let requests = [
            Request::Fsetstat { handle: &file, attrs: times },
            Request::Fstat { handle: &file },
            Request::Stat { path: b"file" },
            Request::Stat { path: b"" },
            Request::Stat { path: b"file/below" },
            Request::Lstat { path: b"missing" },
            Request::Read { handle: &file, offset: 0, len: 8 },
            Request::Read { handle: &file, offset: 8, len: 800_000 },
            Request::Read { handle: &file, offset: 13, len: 8 },
            Request::Read { handle: &file, offset: 1, len: 0 },
            Request::Read { handle: &file, offset: u64::MAX, len: 8 },
            Request::Read { handle: b"nohandle", offset: 0, len: 8 },
            Request::Write { handle: b"nohandle", offset: 0, data: b"x" },
            Request::Write { handle: &file, offset: 0, data: b"" },
            Request::Close { handle: b"nohandle" },
            Request::Fstat { handle: b"" },
            open(b"file", make | OpenFlags::EXCL),
            open(b"missing", OpenFlags::READ),
            open(b"missing/x", make),
            open(b".", OpenFlags::WRITE),
            Request::Mkdir { path: b"dir", attrs: Attrs::with_permissions(0o750) },
            Request::Mkdir { path: b"dir", attrs: none },
            Request::Lstat { path: b"dir" },
            Request::Rmdir { path: b"file" },
            Request::Remove { path: b"dir" },
            Request::Setstat { path: b"dir", attrs: size },
            Request::Setstat { path: b"other", attrs: size },
            Request::Setstat { path: b"missing", attrs: times },
            Request::Lsetstat { path: b"other", attrs: size },
            Request::Lsetstat { path: b"other", attrs: times },
            Request::Stat { path: b"other" },
            Request::Symlink { target: b"file", link: b"link" },
            Request::Symlink { target: b"file", link: b"link" },
            Request::Readlink { path: b"link" },
            Request::Readlink { path: b"file" },
            Request::Lsetstat { path: b"link", attrs: times },
            Request::Lsetstat { path: b"link", attrs: Attrs::with_permissions(0o600) },
            Request::Lstat { path: b"link" },
            Request::Realpath { path: b"" },
            Request::Realpath { path: b"link" },
            Request::Realpath { path: b"dir/../dir/new" },
            Request::Realpath { path: b"missing/new" },
            Request::Realpath { path: b"/.." },
            Request::Rename { old: b"file", new: b"other" },
            Request::Rename { old: b"missing", new: b"x" },
            Request::Rename { old: b"dir", new: b"file" },
            Request::Rename { old: b"dir", new: b"dir2" },
            Request::PosixRename { old: b"dir2", new: b"dir" },
            Request::PosixRename { old: b"dir", new: b"file" },
            Request::Hardlink { old: b"file", new: b"hard" },
            Request::Hardlink { old: b"file", new: b"hard" },
            Request::Fsync { handle: &file },
            Request::Fsync { handle: b"nohandle" },
            Request::Statvfs { path: b"missing" },
            Request::Fstatvfs { handle: b"nohandle" },
            Request::ExpandPath { path: b"~" },
            Request::ExpandPath { path: b"~/new" },
            Request::ExpandPath { path: b"dir" },
            Request::CopyData { from: &file, from_offset: 2, len: 4, to: &other, to_offset: 1 },
            Request::CopyData { from: &file, from_offset: 2, len: 400, to: &other, to_offset: 1 },
            Request::CopyData { from: &file, from_offset: 0, len: 0, to: &file, to_offset: 1 },
            Request::CopyData { from: &file, from_offset: 0, len: 0, to: b"nohandle", to_offset: 1 },
            Request::Read { handle: &other, offset: 0, len: 800 },
            Request::HomeDirectory { user: b"root" },
            Request::UsersGroupsById { users: &ids, groups: &ids },
            Request::Opendir { path: b"file" },
            Request::Opendir { path: b"missing" },
            Request::Readdir { handle: &file },
            Request::Extended { name: b"unheard@of", fields: b"" },
        ];
        let mut story = Vec::new();
        for request in &requests {
            // Each server chooses its own handles.
            let asked = format!("{request:?}")
                .replace(&format!("{file:?}"), "FILE")
                .replace(&format!("{other:?}"), "OTHER");
            story.push(format!("{asked}: {}", told(self.call(request))));
        }
        let ReplyBody::Extended(limits) = self.call(&Request::Limits) else { panic!() };
        story.push(format!("{:?}", Limits::read(&mut Reader::new(&limits))));
        let dir = self.handle(&Request::Opendir { path: b"." });
        let mut lines = Vec::new();
        while let ReplyBody::Names(names) = self.call(&Request::Readdir { handle: &dir }) {
            // New files have today's date, and directories a size that depends on the file system.
            lines.extend(names.into_iter().filter(|name| !name.attrs.is_dir()).map(|name| {
                let long = String::from_utf8(name.long_name).unwrap();
                if name.attrs.times.is_some_and(|times| times.1 < 3_000_000) {
                    long
                } else {
                    long[..44].to_owned()
                }
            }));
        }
        lines.sort();
        story.extend(lines);
        story.push(told(self.call(&Request::Readdir { handle: &dir })));
        story
    }
}

/// Returns a reply as text without parts that differ between runs: current times, sizes of directories,
/// status texts.
fn told(body: ReplyBody) -> String {
    match body {
        ReplyBody::Status(status) => format!("{:?}", status.code),
        ReplyBody::Attrs(mut attrs) => {
            if attrs.is(mode::DIRECTORY) {
                attrs.size = None;
            }
            attrs.times = attrs.times.filter(|times| times.1 < 3_000_000);
            format!("{attrs:?}")
        }
        ReplyBody::Names(names) => {
            let names: Vec<_> =
                names.iter().map(|name| String::from_utf8_lossy(&name.name).into_owned()).collect();
            format!("{names:?}")
        }
        ReplyBody::Data(data) => format!("{:?}", Bytes::from(data.chunks().concat())),
        other => format!("{other:?}"),
    }
}

#[test]
fn our_server_answers_as_openssh_does() {
    if !Path::new(SFTP_SERVER).exists() {
        skip("our_server_answers_as_openssh_does", &format!("not installed: {SFTP_SERVER}"));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tell = |program: &Path| {
        let work = dir.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let mut command = Command::new(program);
        let mut program = Program::start(command.current_dir(&work).env("TZ", "UTC"));
        let extensions: Vec<_> = program.session.extensions().to_vec();
        let story = program.story();
        drop(program.child.stdin.take());
        assert!(program.child.wait().unwrap().success());
        std::fs::remove_dir_all(&work).unwrap();
        (extensions, story)
    };
    let theirs = tell(Path::new(SFTP_SERVER));
    let ours = tell(&our_server());
    // Our server offers OpenSSH's extensions in their order, followed by its own.
    let (as_theirs, own) = ours.0.split_at(theirs.0.len());
    assert_eq!(as_theirs, theirs.0, "extensions");
    let ours_to_add = |name: &str| {
        name.ends_with("@longhaul") || name.starts_with("check-file") || name == extension::SYMLINK_ORDER
    };
    assert!(own.iter().all(|(name, _)| ours_to_add(name)), "{own:?}");
    let different: Vec<_> = ours.1.iter().zip(&theirs.1).filter(|(ours, theirs)| ours != theirs).collect();
    assert!(different.is_empty(), "(ours, theirs): {different:#?}");
    assert_eq!(ours.1.len(), theirs.1.len());
}

#[test]
fn malformed_input_ends_as_in_sftp_server() {
    let mut child = Command::new(our_server())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(11));
}
