//! Source and sink with each other, and each with a scripted peer that breaks the rules.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use lh_wire::Reservation;

use super::*;

mod any_input;

fn path_of(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

/// What came of it.
#[derive(Debug, Default)]
struct Reported {
    failed: Vec<String>,
    changed: Vec<String>,
    files: Vec<(String, u64)>,
}

impl Reported {
    fn of(role: &mut dyn RcpRole) -> Self {
        let mut reported = Self::default();
        while let Some(event) = role.poll_event() {
            match event {
                Event::Failed(text) => reported.failed.push(text),
                Event::FileDone { name, size, .. } => {
                    reported.files.push((String::from_utf8_lossy(&name).into_owned(), size));
                }
                Event::Changed { text, .. } => reported.changed.push(text),
                Event::Debug(_) | Event::FileFailed { .. } => {}
            }
        }
        reported
    }
}

/// Lets both work until neither has anything to say. Bytes go in pieces of `piece`.
fn converse(source: &mut Source, sink: &mut Sink, piece: usize) {
    let now = Instant::now();
    loop {
        let mut moved = false;
        let mut up = Vec::new();
        source.advance(&mut up, now);
        for part in up.chunks(piece) {
            moved = true;
            sink.received(Bytes::copy_from_slice(part), now);
        }
        let mut down = Vec::new();
        sink.advance(&mut down, now);
        for part in down.chunks(piece) {
            moved = true;
            source.received(Bytes::copy_from_slice(part), now);
        }
        if !moved {
            break;
        }
    }
    assert!(source.is_finished(), "the source waits for something");
    sink.closed();
    assert!(sink.is_finished(), "the sink waits for something");
}

fn copy(from: &[&Path], to: &Path, options: &Options, piece: usize) -> (Reported, Reported) {
    let paths = from.iter().map(|path| path_of(path)).collect();
    let mut source = Source::new(paths, options.clone(), Instant::now());
    let mut sink = Sink::new(path_of(to), Request::anything(), options.clone());
    converse(&mut source, &mut sink, piece);
    (Reported::of(&mut source), Reported::of(&mut sink))
}

fn recursive() -> Options {
    Options { recursive: true, preserve: true, ..Options::default() }
}

fn tree(at: &Path) {
    fs::create_dir_all(at.join("sub/empty")).unwrap();
    fs::write(at.join("plain"), "plain").unwrap();
    fs::write(at.join("with space"), vec![7; 300_000]).unwrap();
    fs::write(at.join("sub/ünï-код"), "").unwrap();
    fs::write(at.join("sub/-rf"), "x").unwrap();
    symlink("plain", at.join("link")).unwrap();
    fs::set_permissions(at.join("plain"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(at.join("sub"), fs::Permissions::from_mode(0o500)).unwrap();
    let then = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(at.join("plain")).unwrap().set_modified(then).unwrap();
    fs::File::open(at.join("sub/empty")).unwrap().set_modified(then).unwrap();
}

fn listing(at: &Path) -> Vec<(PathBuf, u32, u64, i64, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![at.to_path_buf()];
    while let Some(path) = open.pop() {
        let meta = fs::metadata(&path).unwrap();
        let mut data = Vec::new();
        if meta.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            data = fs::read(&path).unwrap();
        }
        let inner = path.strip_prefix(at).unwrap().to_path_buf();
        found.push((inner, meta.mode(), data.len() as u64, meta.mtime(), data));
    }
    found.sort();
    found
}

#[test]
fn a_tree_arrives_with_modes_and_times_whatever_the_pieces() {
    let directory = tempfile::tempdir().unwrap();
    tree(&directory.path().join("tree"));
    for piece in [1 << 20, 4096, 7, 1] {
        let target = directory.path().join(format!("copy{piece}"));
        let (source, sink) = copy(&[&directory.path().join("tree")], &target, &recursive(), piece);
        assert_eq!((source.failed.len(), sink.failed.len()), (0, 0), "{source:?} {sink:?}");
        assert_eq!(source.files.len(), 5);
        assert_eq!(sink.files.len(), 5);
        assert_eq!(listing(&directory.path().join("tree")), listing(&target));
    }
}

#[test]
fn without_preserving_there_are_no_privileges_and_a_mask() {
    let directory = tempfile::tempdir().unwrap();
    let (file, copied) = (directory.path().join("file"), directory.path().join("copied"));
    fs::write(&file, "x").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4555)).unwrap();
    copy(&[&file], &copied, &Options::default(), 100);
    let mode = fs::metadata(&copied).unwrap().mode() & 0o7777;
    assert_eq!(mode & 0o7222, 0, "{mode:o}");
    // What exists keeps its mode, and is cut to length.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(&copied, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&copied, "longer than before").unwrap();
    copy(&[&file], &copied, &Options::default(), 100);
    assert_eq!(fs::metadata(&copied).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read(&copied).unwrap(), b"x");
}

#[test]
fn one_file_that_fails_does_not_stop_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let (good, missing, dir) =
        (directory.path().join("good"), directory.path().join("missing"), directory.path().join("dir"));
    fs::write(&good, "good").unwrap();
    fs::create_dir(&dir).unwrap();
    let target = directory.path().join("target");
    fs::create_dir_all(target.join("taken")).unwrap();
    let taken = directory.path().join("taken");
    fs::write(&taken, "file").unwrap();
    let (source, sink) = copy(&[&missing, &dir, &taken, &good], &target, &Options::default(), 1000);
    assert_eq!(fs::read(target.join("good")).unwrap(), b"good");
    let (missing, dir) = (missing.display(), dir.display());
    assert_eq!(source.failed[0], format!("{missing}: No such file or directory"));
    assert_eq!(source.failed[1], format!("{dir}: not a regular file"));
    let blocked = target.join("taken");
    assert_eq!(source.failed[2], format!("scp: {}: Is a directory", blocked.display()));
    // The sink learns what the source could not send, and says what it could not take.
    assert_eq!(sink.failed[0], format!("scp: {missing}: No such file or directory"));
    assert_eq!(sink.failed[2], format!("{}: Is a directory", blocked.display()));
    assert_eq!(sink.files, [("good".to_owned(), 4)]);
}

#[test]
fn a_target_that_must_be_a_directory_is_checked_first() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    let options = Options { target_must_be_dir: true, ..Options::default() };
    let (source, _) = copy(&[&file], &file, &options, 100);
    assert_eq!(source.failed, [format!("scp: {}: Not a directory", file.display())]);
    let missing = directory.path().join("missing");
    let (source, _) = copy(&[&file], &missing, &options, 100);
    assert_eq!(source.failed, [format!("scp: {}: No such file or directory", missing.display())]);
}

/// Feeds a sink the bytes of a lying source; returns its answers and its reports.
fn lied_to(target: &Path, request: &str, options: Options, said: &[u8]) -> (Vec<u8>, Reported) {
    let request = Request::of(request.as_bytes(), options.recursive).unwrap();
    let mut sink = Sink::new(path_of(target), request, options);
    let now = Instant::now();
    for byte in said {
        sink.received(Bytes::copy_from_slice(&[*byte]), now);
    }
    let mut answer = Vec::new();
    sink.advance(&mut answer, now);
    sink.closed();
    sink.advance(&mut answer, now);
    assert!(sink.is_finished());
    (answer, Reported::of(&mut sink))
}

#[test]
fn a_source_that_lies_changes_nothing_here() {
    let outer = tempfile::tempdir().unwrap();
    let directory = outer.path().join("target");
    fs::create_dir(&directory).unwrap();
    let recursive = || Options { recursive: true, ..Options::default() };
    for (request, options, said, complaint) in [
        ("a", Options::default(), &b"C0644 1 ../x\nx\0"[..], "error: unexpected filename: ../x"),
        ("a", Options::default(), b"C0644 1 /etc/x\nx\0", "error: unexpected filename: /etc/x"),
        ("*", recursive(), b"D0755 0 ..\nC0644 1 x\nx\0E\n", "error: unexpected filename: .."),
        ("*", recursive(), b"D0755 0 .\nC0644 1 x\nx\0E\n", "error: unexpected filename: ."),
        ("a", Options::default(), b"C0644 1 .bashrc\nx\0", "protocol error: filename does not match request"),
        ("*.c", Options::default(), b"C0644 1 a.h\nx\0", "protocol error: filename does not match request"),
        ("tree", recursive(), b"D0700 0 .ssh\n", "protocol error: filename does not match request"),
        (
            "a",
            Options::default(),
            b"D0755 0 a\nC0644 1 x\nx\0E\n",
            "protocol error: received directory without -r",
        ),
        ("a", Options::default(), b"C0644 99999999999999999999 a\n", "protocol error: size out of range"),
        ("a", Options::default(), b"Cffff 1 a\n", "protocol error: bad mode"),
        ("a", Options::default(), b"\n", "protocol error: unexpected <newline>"),
        ("a", Options::default(), b"T0 0 0 0\nhello\n", "protocol error: expected control record"),
        ("a", Options::default(), b"a: No match.\n", "a: No match."),
        ("a", Options::default(), b"\x1b]0;title\x07\n", "\\033]0;title\\007"),
        ("a", Options::default(), b"\x01\x1b[2J\n", "\\033[2J"),
        ("a", Options::default(), b"C0644", "protocol error: lost connection"),
    ] {
        let (answer, reported) = lied_to(&directory, request, options, said);
        assert_eq!(reported.failed, [complaint], "{}", said.escape_ascii());
        assert_eq!(answer[0], 0, "it says that it is there");
        assert!(reported.files.is_empty());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "{}", said.escape_ascii());
        assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_line_without_end_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mut sink = Sink::new(path_of(directory.path()), Request::anything(), Options::default());
    for _ in 0..100 {
        sink.received(Bytes::from(vec![b'C'; 1000]), Instant::now());
    }
    assert_eq!(Reported::of(&mut sink).failed, ["protocol error: control record too long"]);
}

#[test]
fn source_that_ends_early_leaves_a_prefix_and_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let (answer, reported) = lied_to(directory.path(), "a", Options::default(), b"C0600 10 a\n01234");
    assert_eq!(reported.failed, ["dropped connection"]);
    assert!(answer.starts_with(&[0, 0, 1]));
    assert_eq!(fs::read(directory.path().join("a")).unwrap(), b"01234");
    // Everything came, the verdict did not.
    let (_, reported) = lied_to(directory.path(), "a", Options::default(), b"C0600 2 a\nxy");
    assert_eq!(reported.failed, ["lost connection"]);
}

/// A channel that the peer has closed.
struct Shut;

impl Output for Shut {
    fn budget(&mut self) -> usize {
        0
    }

    fn send(&mut self, _: &[u8]) -> usize {
        0
    }

    fn reserve(&mut self, _: usize) -> Option<Reservation<'_>> {
        None
    }
}

#[test]
fn a_source_need_not_wait_for_the_last_answers() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::default();
    let mut sink = Sink::new(path_of(directory.path()), Request::of(b"a", false).unwrap(), options);
    let now = Instant::now();
    sink.received(Bytes::from_static(b"C0600 2 a\nxy\0"), now);
    sink.advance(&mut Shut, now);
    assert!(!sink.is_finished());
    sink.refused();
    sink.closed();
    sink.advance(&mut Shut, now);
    assert!(sink.is_finished());
    assert_eq!(Reported::of(&mut sink).failed, [""; 0]);
    assert_eq!(fs::read(directory.path().join("a")).unwrap(), b"xy");
}

#[test]
fn names_inside_of_a_directory_that_was_asked_for_are_free() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { recursive: true, ..Options::default() };
    let (_, reported) = lied_to(directory.path(), "tree", options, b"D0755 0 tree\nC0644 1 any\nx\0E\n");
    assert!(reported.failed.is_empty(), "{reported:?}");
    assert_eq!(fs::read(directory.path().join("tree/any")).unwrap(), b"x");
}

/// What a source says to these answers, each given when it has nothing more to say.
fn answer_source(path: &Path, answers: &[&[u8]], close: bool) -> (Vec<u8>, Reported, bool) {
    let mut source = Source::new(vec![path_of(path)], Options::default(), Instant::now());
    let mut said = Vec::new();
    for answer in answers {
        source.received(Bytes::copy_from_slice(answer), Instant::now());
        source.advance(&mut said, Instant::now());
    }
    if close {
        source.closed();
        source.advance(&mut said, Instant::now());
    }
    let finished = source.is_finished();
    (said, Reported::of(&mut source), finished)
}

#[test]
fn source_follows_the_answers_of_the_sink() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    fs::write(&file, "data").unwrap();
    let mode = fs::metadata(&file).unwrap().mode() & 0o777;
    let header = format!("C{mode:04o} 4 f\n").into_bytes();

    let (said, reported, finished) = answer_source(&file, &[b"\0", b"\0", b"\0"], false);
    assert_eq!(said, [&header[..], b"data\0"].concat());
    assert!(finished && reported.files.len() == 1 && reported.failed.is_empty());
    // Refused: no data.
    let (said, reported, finished) = answer_source(&file, &[b"\0", b"\x01scp: f: no\n"], false);
    assert_eq!(
        (said, &reported.failed[..], finished),
        (header.clone(), &["scp: f: no".to_owned()][..], true)
    );
    // The end of everything, a shell's words, and silence.
    let (_, reported, finished) = answer_source(&file, &[b"\x02scp: over\n"], false);
    assert_eq!((&reported.failed[..], finished), (&["scp: over".to_owned()][..], true));
    let (_, reported, _) = answer_source(&file, &[b"sh: scp: not found\n"], false);
    assert_eq!(reported.failed, ["sh: scp: not found"]);
    let (_, reported, finished) = answer_source(&file, &[b"\0"], true);
    assert_eq!((&reported.failed[..], finished), (&["lost connection".to_owned()][..], true));
    // A peer that sends without being asked.
    let (_, reported, finished) = answer_source(&file, &[&[0; 100_000]], false);
    assert_eq!((&reported.failed[..], finished), (&["protocol error: unexpected data".to_owned()][..], true));
}

#[test]
fn a_file_that_shrinks_is_filled_up_and_called_worthless() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    fs::write(&file, vec![b'x'; 1000]).unwrap();
    let mut source = Source::new(vec![path_of(&file)], Options::default(), Instant::now());
    let now = Instant::now();
    let mut said = Vec::new();
    source.received(Bytes::from_static(b"\0"), now);
    source.advance(&mut said, now);
    fs::File::options().write(true).open(&file).unwrap().set_len(10).unwrap();
    said.clear();
    source.received(Bytes::from_static(b"\0"), now);
    source.advance(&mut said, now);
    assert_eq!(said[..10], [b'x'; 10]);
    assert!(said[10..1000].iter().all(|byte| *byte == 0));
    assert!(said[1000..].starts_with(b"\x01scp: "), "{}", said[1000..].escape_ascii());
    source.received(Bytes::from_static(b"\0"), now);
    source.advance(&mut said, now);
    assert!(source.is_finished() && source.failures() == 1);
}

#[test]
fn the_remote_side_tells_its_peer_and_nobody_else() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { remote_side: true, ..Options::default() };
    let missing = directory.path().join("missing");
    let mut source = Source::new(vec![path_of(&missing)], options, Instant::now());
    let mut said = Vec::new();
    source.received(Bytes::from_static(b"\0"), Instant::now());
    source.advance(&mut said, Instant::now());
    assert_eq!(said, format!("\x01scp: {}: No such file or directory\n", missing.display()).as_bytes());
    assert!(Reported::of(&mut source).failed.is_empty());
    assert_eq!(source.failures(), 1);
}

#[test]
fn streams_that_block_carry_a_copy_too() {
    struct Silent;
    impl Report for Silent {
        fn event(&mut self, _: Event, _: Instant) {}
        fn progress(&mut self, _: Option<Current<'_>>, _: Instant) {}
        fn next_deadline(&self) -> Option<Instant> {
            None
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("tree"), directory.path().join("copy"));
    tree(&from);
    let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
    let limited = Options { bits_per_second: Some(80_000_000), ..recursive() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut source = Source::new(vec![path_of(&from)], limited, Instant::now());
            run(&mut source, &mut &here, &mut &here, &mut Silent);
            here.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(source.is_finished() && source.failures() == 0);
        });
        let mut sink = Sink::new(path_of(&to), Request::anything(), recursive());
        run(&mut sink, &mut &there, &mut &there, &mut Silent);
        assert_eq!(sink.failures(), 0);
    });
    assert_eq!(listing(&from), listing(&to));
}

#[test]
fn a_file_that_grows_is_told_and_sent_as_announced() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::write(&from, vec![7; 100_000]).unwrap();
    for remote_side in [false, true] {
        let options = Options { remote_side, ..Options::default() };
        let now = Instant::now();
        let mut source = Source::new(vec![path_of(&from)], options.clone(), now);
        let mut sink = Sink::new(path_of(&to), Request::anything(), options);
        // All is sent; the last answer is still to come.
        for _ in 0..2 {
            let (mut up, mut down) = (Vec::new(), Vec::new());
            sink.advance(&mut down, now);
            source.received(down.into(), now);
            source.advance(&mut up, now);
            sink.received(up.into(), now);
        }
        fs::OpenOptions::new().append(true).open(&from).unwrap().write_all(b"more").unwrap();
        let before = from.metadata().unwrap().len() - 4;
        converse(&mut source, &mut sink, 1 << 20);
        let reported = Reported::of(&mut source);
        assert_eq!((reported.failed.len(), reported.files.len()), (0, 1));
        assert_eq!(fs::metadata(&to).unwrap().len(), before);
        let told = format!("it grew to {} bytes, the copy has the first {before}", before + 4);
        let [text] = &reported.changed[..] else { panic!("{:?}", reported.changed) };
        assert!(text.contains(&told), "{text}");
    }
}
