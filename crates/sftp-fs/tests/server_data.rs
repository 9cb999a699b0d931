//! Tests of file data through the server engine, with every chunking, every window and faults.

mod support;

use bytes::Bytes;
use lh_sftp::server::{FileOutcome, NoLog, Server, ServerError, ServerOptions};
use lh_sftp::{Incoming, OpenFlags, ReadBack, ReplyBody, Request, StatusCode, SumStep};
use lh_sftp_fs::{LocalFs, SystemFiles};
use support::{Peer, Troubled, Window};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

const MAKE: OpenFlags = OpenFlags(OpenFlags::WRITE.0 | OpenFlags::CREAT.0 | OpenFlags::TRUNC.0);

#[test]
fn reads_are_laid_out_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let data = pattern(700_000);
    std::fs::write(dir.path().join("f"), &data).unwrap();
    for packet in [1, 5, 12, 13, 14, 1000, 32 * 1024] {
        let mut peer = Peer::new(dir.path());
        peer.window.packet = packet;
        let handle = peer.open(b"f", OpenFlags::READ);
        // Packets of one byte make 9000 slices: more than the kernel accepts in one call.
        let len = if packet < 100 { 9000 } else { 261_120 };
        let got = peer.read(&handle, 17, len);
        assert!(!got.is_empty() && got == data[17..17 + got.len()], "packets of {packet}");
        assert_eq!(peer.window.in_place, 13 + got.len());
        if packet >= 100 {
            assert_eq!(got.len(), 261_120, "a server must not answer short for no reason");
        }
    }
}

#[test]
fn reads_end_with_the_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"0123456789").unwrap();
    let mut peer = Peer::new(dir.path());
    let handle = peer.open(b"f", OpenFlags::READ);
    assert_eq!(peer.read(&handle, 4, 100), b"456789");
    for offset in [10, 11, 1 << 40] {
        let status = peer.status(&Request::Read { handle: &handle, offset, len: 100 });
        assert_eq!((status.code, status.message.as_str()), (StatusCode::EOF, "End of file"));
    }
    assert_eq!(peer.read(&handle, 0, 0), b"");
    // Lengths beyond a message's limit are reduced to that limit.
    assert_eq!(peer.read(&handle, 0, u32::MAX), b"0123456789");
    let status = peer.status(&Request::Read { handle: &handle, offset: u64::MAX, len: 1 });
    assert_eq!(status.code, StatusCode::BAD_MESSAGE);
}

#[test]
fn files_of_unknown_size_are_read_to_their_end() {
    let mut peer = Peer::new(std::path::Path::new("/"));
    let handle = peer.open(b"proc/self/status", OpenFlags::READ);
    assert!(peer.read(&handle, 0, 32768).starts_with(b"Name:"));
}

#[test]
fn files_of_unknown_size_have_no_digest() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("empty"), b"").unwrap();
    let empty = dir.path().join("empty");
    let mut peer = Peer::new(std::path::Path::new("/"));
    let by_name = |path| Request::CheckFileName { path, algorithms: b"md5", offset: 0, len: 0, block: 0 };
    let refused = |peer: &mut Peer, request: &Request<'_>, text: &str| {
        let status = peer.status(request);
        assert_eq!((status.code, status.message.as_str()), (StatusCode::FAILURE, text));
    };
    refused(&mut peer, &by_name(b"/proc/self/status"), "The file does not tell its size");
    refused(&mut peer, &by_name(b"/dev/zero"), "Not a regular file");
    let handle = peer.open(b"/proc/self/status", OpenFlags::READ);
    let by_handle =
        Request::CheckFileHandle { handle: &handle, algorithms: b"md5", offset: 0, len: 10, block: 0 };
    refused(&mut peer, &by_handle, "The file does not tell its size");
    let found = peer.call(&by_name(empty.as_os_str().as_encoded_bytes()));
    assert!(matches!(found, ReplyBody::Extended(_)), "{found:?}");
}

#[test]
fn times_of_another_layout_are_refused() {
    use lh_wire::Writer as _;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"").unwrap();
    let right = [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 10];
    let mut second = right;
    second[20..].copy_from_slice(&1_000_000_000_u32.to_be_bytes());
    let longer = [&right[..], &[0]].concat();
    let values = [(&right[..], StatusCode::OK), (&right[..23], StatusCode::BAD_MESSAGE)];
    let others = [(&longer[..], StatusCode::BAD_MESSAGE), (&second[..], StatusCode::BAD_MESSAGE)];
    for (value, wanted) in values.into_iter().chain(others) {
        let mut setstat = vec![9, 0, 0, 0, 1];
        setstat.put_string(b"f");
        setstat.put_u32(0x8000_0000);
        setstat.put_u32(1);
        setstat.put_string(b"times@longhaul");
        setstat.put_string(value);
        let mut message = Vec::new();
        message.put_string(&setstat);
        let mut peer = Peer::new(dir.path());
        peer.give(&message);
        peer.turn();
        let Some(Incoming::Reply(reply)) = peer.take() else { panic!("no reply") };
        let ReplyBody::Status(status) = reply.body else { panic!("{:?}", reply.body) };
        assert_eq!(status.code, wanted, "{value:?}");
    }
}

#[test]
fn any_chunking_of_the_requests_gives_the_same_replies() {
    let dir = tempfile::tempdir().unwrap();
    let mut stream = Vec::new();
    let data = pattern(700);
    let mut first = Peer::new(dir.path());
    let handle = first.open(b"f", MAKE | OpenFlags::READ);
    for (id, at) in (0..).zip((0..700).step_by(150)) {
        let end = (at + 150).min(700);
        Request::Write { handle: &handle, offset: at as u64, data: &data[at..end] }.encode(id, &mut stream);
    }
    Request::Fstat { handle: &handle }.encode(10, &mut stream);
    Request::Read { handle: &handle, offset: 0, len: 4000 }.encode(11, &mut stream);
    Request::Close { handle: &handle }.encode(12, &mut stream);
    Request::Stat { path: b"missing" }.encode(13, &mut stream);
    let mut expected = None;
    for split in 0..=stream.len() {
        // Every new server starts with this handle.
        let mut peer = Peer::new(dir.path());
        assert_eq!(peer.open(b"f", MAKE | OpenFlags::READ), handle);
        peer.give(&stream[..split]);
        peer.give(&stream[split..]);
        let mut replies = Vec::new();
        while let Some(Incoming::Reply(mut reply)) = peer.take() {
            if let ReplyBody::Attrs(attrs) = &mut reply.body {
                attrs.times = None;
            }
            if let ReplyBody::Data(got) = &reply.body {
                assert_eq!(got.chunks().concat(), data);
            }
            replies.push(format!("{reply:?}"));
        }
        assert_eq!(replies.len(), 9);
        assert_eq!(expected.get_or_insert(replies.clone()), &replies, "split at {split}");
        assert_eq!(peer.consumed, peer.given);
        assert!(peer.server.is_idle());
    }
    // The request also arrives one byte at a time.
    let mut peer = Peer::new(dir.path());
    peer.open(b"f", MAKE | OpenFlags::READ);
    for byte in &stream {
        peer.give(&[*byte]);
    }
    assert_eq!(std::iter::from_fn(|| peer.take()).count(), 9);
    assert_eq!(std::fs::read(dir.path().join("f")).unwrap(), data);
}

#[test]
fn large_writes_are_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let data = pattern(262_144);
    let mut peer = Peer::new(dir.path());
    let handle = peer.open(b"f", MAKE);
    // With 256 KiB of data the message slightly exceeds OpenSSH's limit; this server accepts it.
    peer.ok(&Request::Write { handle: &handle, offset: 5, data: &data });
    peer.ok(&Request::Write { handle: &handle, offset: 0, data: b"" });
    let file = std::fs::read(dir.path().join("f")).unwrap();
    assert!(file[..5] == [0; 5] && file[5..] == data);
}

#[test]
fn appending_ignores_offsets() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"abc").unwrap();
    let mut peer = Peer::new(dir.path());
    let handle = peer.open(b"f", OpenFlags::WRITE | OpenFlags::APPEND);
    peer.ok(&Request::Write { handle: &handle, offset: 0, data: b"def" });
    assert_eq!(std::fs::read(dir.path().join("f")).unwrap(), b"abcdef");
}

/// A file opened for appending is written at its end, not at the offset. Reading back at the offset would
/// reveal the previous content.
#[test]
fn sums_tell_nothing_of_what_was_there_before() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"secret").unwrap();
    let options = ServerOptions { deny: vec!["read".to_owned()], ..ServerOptions::default() };
    let mut peer = Peer::with(Box::new(LocalFs::new(dir.path())), options);
    let both = OpenFlags::READ | OpenFlags::WRITE;
    for (path, flags, is_summed) in [
        (&b"f"[..], both | OpenFlags::APPEND, false),
        (b"f", OpenFlags::WRITE | OpenFlags::APPEND, false),
        (b"/dev/full", both, false),
        (b"f", both, true),
    ] {
        let handle = peer.open(path, flags);
        let begin = Request::RunningSum { handle: &handle, step: SumStep::Begin(ReadBack::Whole) };
        let end = Request::RunningSum { handle: &handle, step: SumStep::Finish };
        let begun = peer.status(&begin);
        assert_eq!(begun.code == StatusCode::OK, is_summed, "{flags:?}: {}", begun.message);
        peer.status(&Request::Write { handle: &handle, offset: 0, data: b"x" });
        assert_eq!(matches!(peer.call(&end), ReplyBody::Extended(_)), is_summed, "{flags:?}");
    }
}

#[test]
fn short_writes_continue_and_short_reads_return() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Troubled { inner: LocalFs::new(dir.path()), at_most: 7, full_at: u64::MAX, renumbers: false };
    let mut peer = Peer::with(Box::new(fs), ServerOptions::default());
    let data = pattern(1000);
    let handle = peer.open(b"f", MAKE | OpenFlags::READ);
    peer.ok(&Request::Write { handle: &handle, offset: 0, data: &data });
    assert_eq!(std::fs::read(dir.path().join("f")).unwrap(), data);
    assert_eq!(peer.read(&handle, 100, 500), data[100..107]);
}

#[test]
fn a_full_disk_is_reported_and_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Troubled { inner: LocalFs::new(dir.path()), at_most: 1 << 20, full_at: 5000, renumbers: false };
    let mut peer = Peer::with(Box::new(fs), ServerOptions::default());
    let handle = peer.open(b"f", MAKE);
    peer.ok(&Request::Write { handle: &handle, offset: 0, data: &[1; 4000] });
    let status = peer.status(&Request::Write { handle: &handle, offset: 4000, data: &[1; 4000] });
    assert_eq!((status.code, status.message.as_str()), (StatusCode::FAILURE, "No space left on device"));
    peer.ok(&Request::Close { handle: &handle });
    let files = peer.log.files.lock().unwrap();
    assert_eq!(files[0].bytes_written, 5000);
    assert_eq!(files[0].outcome, FileOutcome::Failed(StatusCode::FAILURE));
}

#[test]
fn a_full_device_is_reported() {
    let mut peer = Peer::new(std::path::Path::new("/dev"));
    let handle = peer.open(b"full", OpenFlags::WRITE);
    let status = peer.status(&Request::Write { handle: &handle, offset: 0, data: b"x" });
    assert_eq!(status.message, "No space left on device");
}

#[test]
fn replies_wait_for_the_window_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = pattern(50_000);
    std::fs::write(dir.path().join("f"), &data).unwrap();
    for step in [1_usize, 13, 40, 5000, 60_000] {
        let mut peer = Peer::new(dir.path());
        let handle = peer.open(b"f", OpenFlags::READ);
        peer.window.room = 0;
        let mut stream = Vec::new();
        for (id, at) in (100..).zip((0..50_000).step_by(10_000)) {
            Request::Read { handle: &handle, offset: at, len: 10_000 }.encode(id, &mut stream);
            Request::Stat { path: b"nowhere" }.encode(id + 100, &mut stream);
        }
        let before = peer.consumed;
        peer.give(&stream);
        assert_eq!(peer.consumed, before, "no credit while replies cannot leave");
        assert!(!peer.server.is_idle());
        let mut got = Vec::new();
        let mut order = Vec::new();
        for _ in 0..200_000 {
            peer.window.room = step;
            peer.turn();
            while let Some(Incoming::Reply(reply)) = peer.take() {
                order.push(reply.id);
                if let ReplyBody::Data(data) = reply.body {
                    assert_eq!(data.len(), 10_000);
                    got.extend(data.chunks().concat());
                }
            }
            if peer.server.is_idle() {
                break;
            }
        }
        assert!(got == data, "window opened by {step}");
        assert_eq!(order, [100, 200, 101, 201, 102, 202, 103, 203, 104, 204]);
        assert_eq!(peer.consumed, peer.given);
    }
}

#[test]
fn a_client_that_takes_no_replies_cannot_fill_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    peer.window.room = 0;
    let mut request = Vec::new();
    Request::Stat { path: &[b'x'; 200] }.encode(1, &mut request);
    for _ in 0..10_000 {
        peer.give(&request);
    }
    // After 64 KiB of replies, no more of the 2 MB of requests is consumed.
    let answered = peer.consumed / request.len();
    assert!((1000..3000).contains(&answered), "{answered} requests taken");
    peer.window.room = usize::MAX >> 1;
    peer.turn();
    assert_eq!(peer.consumed, peer.given);
    assert_eq!(std::iter::from_fn(|| peer.take()).count(), 10_000);
}

#[test]
fn an_incomplete_message_does_not_hold_credit() {
    // A window smaller than a message must not stall the session.
    let dir = tempfile::tempdir().unwrap();
    let mut peer = Peer::new(dir.path());
    let mut request = Vec::new();
    Request::Stat { path: &[b'x'; 100_000] }.encode(1, &mut request);
    for piece in request.chunks(10_000) {
        peer.give(piece);
        assert_eq!(peer.consumed, peer.given);
    }
    assert!(matches!(peer.take(), Some(Incoming::Reply(_))));
}

fn raw(dir: &std::path::Path) -> Server {
    let fs = Box::new(LocalFs::new(dir));
    Server::new(fs, Box::new(SystemFiles::new()), Box::new(NoLog), ServerOptions::default())
}

#[test]
fn malformed_messages_end_the_session() {
    let dir = tempfile::tempdir().unwrap();
    for (bytes, error) in [
        (&b"\xff\xff\xff\xff"[..], ServerError::TooLong { length: u32::MAX }),
        (b"GET ", ServerError::TooLong { length: u32::from_be_bytes(*b"GET ") }),
        (b"\0\0\0\0", ServerError::TooShort { length: 0 }),
        (b"\0\0\0\x05\x11\0\0\0\0", ServerError::NotInitialised { kind: 17 }),
    ] {
        let mut server = raw(dir.path());
        server.input(Bytes::from_static(bytes));
        assert_eq!(server.poll(&mut Vec::new()), Err(error));
        server.input(Bytes::from_static(b"\0\0\0\x05\x01\0\0\0\x03"));
        assert_eq!(server.poll(&mut Vec::new()), Err(error));
    }
}

proptest::proptest! {
    #[test]
    fn random_requests_are_answered_one_each(
        messages in proptest::collection::vec((0_u8..30, proptest::collection::vec(proptest::num::u8::ANY, 4..60)), 0..20),
    ) {
        let dir = tempfile::tempdir().unwrap();
        // Read-only, so that random paths cannot change the host.
        let options = ServerOptions { read_only: true, ..ServerOptions::default() };
        let fs = Box::new(LocalFs::new(dir.path()));
        let mut server = Server::new(fs, Box::new(SystemFiles::new()), Box::new(NoLog), options);
        let mut stream = b"\0\0\0\x05\x01\0\0\0\x03".to_vec();
        let mut asked = 1;
        for (kind, fields) in &messages {
            let kind = if *kind == 29 { 200 } else { *kind };
            stream.extend((1 + fields.len() as u32).to_be_bytes());
            stream.push(kind);
            stream.extend(fields);
            asked += 1;
        }
        server.input(stream.into());
        let mut window = Window::new(1 << 30, 1 << 15);
        while server.poll(&mut window).unwrap().more {}
        let mut rest = &window.sent[..];
        let mut answered = 0;
        while let Some((length, tail)) = rest.split_first_chunk::<4>() {
            rest = &tail[u32::from_be_bytes(*length) as usize..];
            answered += 1;
        }
        proptest::prop_assert_eq!(answered, asked);
        proptest::prop_assert!(server.is_idle());
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn random_reads_and_writes_match_an_array(
        operations in proptest::collection::vec((proptest::bool::ANY, 0_usize..60_000, 0_usize..90_000), 1..12),
        piece in 1_usize..70_000,
        room in 1_usize..200_000,
        packet in 20_usize..40_000,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut peer = Peer::new(dir.path());
        let handle = peer.open(b"f", MAKE | OpenFlags::READ);
        let mut model: Vec<u8> = Vec::new();
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (id, (write, offset, len)) in (1..).zip(&operations) {
            if *write {
                let data = pattern(*len);
                Request::Write { handle: &handle, offset: *offset as u64, data: &data }.encode(id, &mut stream);
                if *len > 0 {
                    model.resize(model.len().max(offset + len), 0);
                    model[*offset..offset + len].copy_from_slice(&data);
                }
                expected.push((id, None));
            } else {
                let offset = *offset as u64;
                Request::Read { handle: &handle, offset, len: *len as u32 }.encode(id, &mut stream);
                let from = model.get(offset as usize..).unwrap_or_default();
                expected.push((id, Some((from[..from.len().min(*len)].to_vec(), *len))));
            }
        }
        peer.window.packet = packet;
        peer.window.room = 0;
        let mut expected = expected.into_iter();
        let mut pieces = stream.chunks(piece);
        loop {
            match pieces.next() {
                Some(piece) => peer.give(piece),
                None if peer.server.is_idle() => break,
                None => {}
            }
            peer.window.room = room;
            peer.turn();
            while let Some(Incoming::Reply(reply)) = peer.take() {
                let (id, data) = expected.next().unwrap();
                proptest::prop_assert_eq!(reply.id, id);
                match (data, reply.body) {
                    (None, ReplyBody::Status(status)) => proptest::prop_assert_eq!(status.code, StatusCode::OK),
                    (Some((data, _)), ReplyBody::Data(got)) => {
                        let got = got.chunks().concat();
                        // One preadv(2) takes 1,024 pieces, so with tiny packets a READ may return less than
                        // requested.
                        let short = packet < 100 && !got.is_empty() && data.starts_with(&got);
                        proptest::prop_assert!(got == data || short);
                    }
                    (Some((data, len)), ReplyBody::Status(status)) => {
                        proptest::prop_assert!(data.is_empty() && len > 0 && status.code == StatusCode::EOF);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        proptest::prop_assert!(expected.next().is_none());
        proptest::prop_assert_eq!(peer.consumed, peer.given);
        proptest::prop_assert!(std::fs::read(dir.path().join("f")).unwrap() == model);
    }
}
