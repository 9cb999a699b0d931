//! Tests of every parser that reads bytes from a peer: round trips, and malformed bytes.

use bytes::Bytes;
use lh_sftp::link_order::{Known, LinkOrder};
use lh_sftp::{
    Attrs, Incoming, Limits, OpenFlags, PacketType, Reply, ReplyBody, ReplyWriter, Request, Session,
    SessionError, StatVfs, StatusCode, extension,
};
use lh_wire::{Reader, Writer};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn attrs() -> impl Strategy<Value = Attrs> {
    (
        option::of(any::<u64>()),
        option::of(any::<(u32, u32)>()),
        option::of(any::<u32>()),
        option::of(any::<(u32, u32)>()),
    )
        .prop_map(|(size, ids, permissions, times)| Attrs {
            size,
            ids,
            permissions,
            times,
            ..Attrs::NONE
        })
}

/// Returns every kind of request, with the same fields.
fn requests<'a>(a: &'a [u8], b: &'a [u8], n: u64, m: u64, attrs: Attrs) -> Vec<Request<'a>> {
    let len = m as u32;
    vec![
        Request::Open { path: a, flags: OpenFlags(len), attrs },
        Request::Close { handle: a },
        Request::Read { handle: a, offset: n, len },
        Request::Write { handle: a, offset: n, data: b },
        Request::Lstat { path: a },
        Request::Fstat { handle: a },
        Request::Setstat { path: a, attrs },
        Request::Fsetstat { handle: a, attrs },
        Request::Opendir { path: a },
        Request::Readdir { handle: a },
        Request::Remove { path: a },
        Request::Mkdir { path: a, attrs },
        Request::Rmdir { path: a },
        Request::Realpath { path: a },
        Request::Stat { path: a },
        Request::Rename { old: a, new: b },
        Request::Readlink { path: a },
        Request::Symlink { target: a, link: b },
        Request::PosixRename { old: a, new: b },
        Request::Statvfs { path: a },
        Request::Fstatvfs { handle: a },
        Request::Hardlink { old: a, new: b },
        Request::Fsync { handle: a },
        Request::Lsetstat { path: a, attrs },
        Request::Limits,
        Request::ExpandPath { path: a },
        Request::CopyData { from: a, from_offset: n, len: m, to: b, to_offset: n ^ m },
        Request::HomeDirectory { user: a },
        Request::UsersGroupsById { users: a, groups: b },
        Request::Extended { name: b"something@else", fields: a },
    ]
}

proptest! {
    #[test]
    fn requests_survive_the_wire(
        a in vec(any::<u8>(), 0..40), b in vec(any::<u8>(), 0..40), n: u64, m: u64, attrs in attrs(), id: u32,
    ) {
        for request in requests(&a, &b, n, m, attrs) {
            let mut bytes = Vec::new();
            request.encode(id, &mut bytes);
            prop_assert_eq!(u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len() - 4);
            prop_assert_eq!(Request::decode(&bytes[4..]), Ok((id, request.clone())));
            // A truncated request is refused. The error has the id if that is complete.
            if !matches!(request, Request::Extended { .. }) {
                for cut in 0..bytes.len() - 4 {
                    let bad = Request::decode(&bytes[4..4 + cut]).unwrap_err();
                    prop_assert_eq!(bad.id, (cut >= 5).then_some(id));
                }
            }
        }
    }

    #[test]
    fn random_bytes_do_not_panic(kind: u8, bytes in vec(any::<u8>(), 0..200)) {
        let mut message = vec![kind];
        message.extend(&bytes);
        let _ = Request::decode(&message);
        let _ = Request::decode(&bytes);
        let _ = Reply::decode(Bytes::from(message.clone()));
        let _ = Attrs::read(&mut Reader::new(&bytes));
        let _ = StatVfs::read(&mut Reader::new(&bytes));
        let mut session = Session::new();
        session.input(Bytes::from(bytes));
        while let Ok(Some(_)) = session.poll() {}
    }

    #[test]
    fn random_replies_do_not_panic(
        pieces in vec((prop::sample::select(vec![0_u8, 1, 101, 102, 103, 104, 105, 200, 201]), vec(any::<u8>(), 0..60)), 1..10),
        wrong_length in 0_u32..40,
        at in 0_usize..20,
    ) {
        let mut session = Session::new();
        let mut stream = Vec::new();
        ReplyWriter(&mut stream).version(3, []);
        for (i, (kind, fields)) in pieces.iter().enumerate() {
            let len = if i == at { wrong_length } else { 1 + fields.len() as u32 };
            stream.put_u32(len);
            stream.put_u8(*kind);
            stream.put_bytes(fields);
        }
        for piece in stream.chunks(7) {
            session.input(Bytes::copy_from_slice(piece));
            while let Ok(Some(_)) = session.poll() {}
        }
    }

    #[test]
    fn replies_survive_in_any_pieces(
        sizes in vec(1_usize..5000, 1..60), data in vec(any::<u8>(), 0..20_000), attrs in attrs(), id: u32,
    ) {
        let stat = StatVfs { blocks: 7, name_max: 255, ..StatVfs::default() };
        let mut stream = Vec::new();
        let mut writer = ReplyWriter(&mut stream);
        writer.version(3, [("one@x", "1"), ("two@y", "2")]);
        writer.status(id, StatusCode::FAILURE, "No space left on device");
        writer.handle(id, b"\0\x01\x02");
        writer.data(id, &data);
        writer.data(id, &[]);
        writer.path(id, b"/a/b");
        writer.attrs(id, &attrs);
        writer.extended(id, |out| stat.write(out));
        let mut session = Session::new();
        let mut got = Vec::new();
        let mut sizes = sizes.into_iter().cycle();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(sizes.next().unwrap().min(rest.len()));
            rest = tail;
            session.input(Bytes::copy_from_slice(piece));
            while let Some(incoming) = session.poll().unwrap() {
                got.push(incoming);
            }
        }
        prop_assert_eq!(session.buffered(), 0);
        prop_assert_eq!(&got[0], &Incoming::Version { version: 3 });
        prop_assert_eq!(session.extensions()[1].1.as_str(), "2");
        let bodies: Vec<_> = got[1..].iter().map(|incoming| match incoming {
            Incoming::Reply(reply) => { assert_eq!(reply.id, id); &reply.body }
            other => panic!("{other:?}"),
        }).collect();
        prop_assert!(matches!(bodies[0], ReplyBody::Status(s) if s.code == StatusCode::FAILURE && s.message == "No space left on device"));
        prop_assert!(matches!(bodies[1], ReplyBody::Handle(h) if h.as_ref() == b"\0\x01\x02"));
        prop_assert!(matches!(bodies[2], ReplyBody::Data(d) if d.chunks().concat() == data && d.len() == data.len()));
        prop_assert!(matches!(bodies[3], ReplyBody::Data(d) if d.is_empty()));
        prop_assert!(matches!(bodies[4], ReplyBody::Names(n) if n.len() == 1 && n[0].name == b"/a/b"));
        prop_assert_eq!(bodies[5], &ReplyBody::Attrs(attrs));
        let ReplyBody::Extended(fields) = bodies[6] else { panic!() };
        prop_assert_eq!(StatVfs::read(&mut Reader::new(fields)), Ok(stat));
    }
}

#[test]
fn symlink_sends_the_target_first() {
    let mut bytes = Vec::new();
    Request::Symlink { target: b"T", link: b"L" }.encode(9, &mut bytes);
    assert_eq!(bytes, b"\0\0\0\x0f\x14\0\0\0\x09\0\0\0\x01T\0\0\0\x01L");
}

#[test]
fn unknown_requests_differ_from_malformed_ones() {
    use lh_sftp::{BadRequest, BadRequestKind};
    assert_eq!(
        Request::decode(&[99, 0, 0, 0, 7]),
        Err(BadRequest { id: Some(7), kind: BadRequestKind::UnknownType(PacketType(99)) })
    );
    assert_eq!(
        Request::decode(&[PacketType::STAT.0, 0, 0, 0, 7]),
        Err(BadRequest { id: Some(7), kind: BadRequestKind::Malformed })
    );
    // Bytes after the last field are ignored.
    assert!(Request::decode(b"\x11\0\0\0\x07\0\0\0\x01/extra").is_ok());
}

fn greeted(extensions: &[(&'static str, &'static str)]) -> Session {
    let mut session = Session::new();
    let mut out = Vec::new();
    session.start(&mut out);
    assert_eq!(out, [0, 0, 0, 5, 1, 0, 0, 0, 3]);
    greet(&mut session, extensions);
    session
}

/// Passes the session a VERSION with these extensions.
fn greet(session: &mut Session, extensions: &[(&'static str, &'static str)]) {
    let mut stream = Vec::new();
    ReplyWriter(&mut stream).version(3, extensions.iter().copied());
    session.input(stream.into());
    assert_eq!(session.poll(), Ok(Some(Incoming::Version { version: 3 })));
}

fn with_limits(limits: Limits) -> Session {
    let mut session = greeted(&[(extension::LIMITS, "1")]);
    let mut out = Vec::new();
    assert!(session.request_limits(&mut out));
    let (id, request) = Request::decode(&out[4..]).unwrap();
    assert_eq!(request, Request::Limits);
    let mut stream = Vec::new();
    ReplyWriter(&mut stream).extended(id, |out| limits.write(out));
    session.input(stream.into());
    assert_eq!(session.poll(), Ok(Some(Incoming::Limits(limits))));
    session
}

#[test]
fn data_lengths_follow_the_limits() {
    // Without limits@openssh.com, the session uses a size that every server serves.
    assert!(!greeted(&[]).request_limits(&mut Vec::new()));
    assert_eq!(greeted(&[]).read_len(), 32768);
    let openssh =
        with_limits(Limits { max_packet: 262_144, max_read: 261_120, max_write: 261_120, max_handles: 3 });
    assert_eq!((openssh.read_len(), openssh.write_len()), (261_120, 261_120));
    // The number of handles does not limit lengths or requests in flight. Limits above this crate's own are
    // not used.
    let vast =
        with_limits(Limits { max_packet: 1 << 30, max_read: 1 << 29, max_write: u64::MAX, max_handles: 1 });
    assert_eq!((vast.read_len(), vast.write_len()), (261_120, 261_120));
    let small = with_limits(Limits { max_packet: 34_000, max_read: 0, max_write: 60_000, max_handles: 0 });
    assert_eq!((small.read_len(), small.write_len()), (32_768, 34_000 - 1024));
}

#[test]
fn whole_writes_fit_however_long_the_handle_is() {
    let limits = |max_packet| Limits { max_packet, max_read: 0, max_write: max_packet, max_handles: 0 };
    for (mut session, most) in [
        (greeted(&[]), 34_000),
        (with_limits(limits(262_144)), 262_144),
        (with_limits(limits(40_000)), 40_000),
    ] {
        assert_eq!(session.write_len_with(256), session.write_len(), "{most}");
        for handle in [0, 1000, 1300, 4096] {
            let len = session.write_len_with(handle) as usize;
            let whole = session.write_header(&vec![b'h'; handle], 0).size() + len;
            assert!(whole <= most && len > 28_000, "{most} {handle}: {whole}");
        }
        // The rest of the message is counted once, not reserved twice.
        let whole = session.write_header(&[b'h'; 4096], 0).size() + session.write_len_with(4096) as usize;
        assert_eq!(whole, most);
    }
    let tiny = with_limits(Limits { max_packet: 30, max_read: 0, max_write: 20, max_handles: 0 });
    assert_eq!(tiny.write_len_with(300), 1);
}

/// OpenSSH's sshd and Longhaul's may run any SFTP server; theirs announce extensions.
#[test]
fn identification_counts_only_for_the_sftp_server_itself() {
    let always = Known::Always(LinkOrder::TargetFirst);
    for (server, extensions, order) in [
        ("SSH-2.0-OpenSSH_9.2", &[("posix-rename@openssh.com", "1")][..], always),
        ("SSH-2.0-OpenSSH_9.2", &[("newline@vandyke.com", "1")], Known::UNKNOWN),
        ("SSH-2.0-Longhaul_0.2", &[], Known::UNKNOWN),
        ("SSH-2.0-paramiko_5.1.0", &[], always),
        ("SSH-2.0-Twisted", &[], Known::Always(LinkOrder::LinkFirst)),
    ] {
        let mut after = greeted(extensions);
        after.set_server(Some(server), None);
        assert_eq!(after.link_order(), order, "{server} {extensions:?}");
        let mut before = Session::new();
        before.set_server(Some(server), None);
        greet(&mut before, extensions);
        assert_eq!(before.link_order(), order, "{server} {extensions:?}");
    }
}

#[test]
fn old_node_servers_stop_at_a_full_window() {
    for (server, stops) in [
        (Some("SSH-2.0-ssh2js0.4.10"), true),
        (Some("SSH-2.0-ssh2js1.17.0srv"), false),
        (Some("SSH-2.0-OpenSSH_9.2"), false),
        (None, false),
    ] {
        let mut session = Session::new();
        session.set_server(server, None);
        assert_eq!(session.stops_at_full_window(), stops, "{server:?}");
    }
}

#[test]
fn a_refused_limits_request_changes_nothing() {
    let mut session = greeted(&[(extension::LIMITS, "1")]);
    let mut out = Vec::new();
    session.request_limits(&mut out);
    let mut stream = Vec::new();
    ReplyWriter(&mut stream).status(0, StatusCode::PERMISSION_DENIED, "no");
    session.input(stream.into());
    assert_eq!(session.poll(), Ok(Some(Incoming::Limits(Limits::default()))));
    assert_eq!(session.read_len(), 32768);
}

#[test]
fn extensions_count_only_in_the_version_we_know() {
    let session = greeted(&[(extension::STATVFS, "1"), (extension::FSYNC, "1"), (extension::HARDLINK, "9")]);
    assert!(session.supports(extension::FSYNC));
    assert!(!session.supports(extension::STATVFS) && !session.supports(extension::HARDLINK));
}

#[test]
fn text_in_front_of_sftp_is_explained() {
    for piece in [1, 4, 1000] {
        let mut session = Session::new();
        let mut error = None;
        for bytes in b"This is \x07host zeus\r\nMotd of the day\n".chunks(piece) {
            session.input(Bytes::copy_from_slice(bytes));
            error = error.or_else(|| session.poll().err());
        }
        let text = error.unwrap().to_string();
        assert!(text.starts_with("Received message too long 1416128883\nEnsure the remote shell"), "{text}");
        assert!(text.contains("begins \"This"), "{text}");
        assert!(!text.contains('\x07'));
        // After an error the session stays unusable.
        assert!(session.poll().is_err());
    }
}

#[test]
fn impossible_lengths_end_the_session_at_once() {
    let mut session = Session::new();
    session.input(Bytes::from_static(&[0xff; 4]));
    assert_eq!(session.poll(), Err(SessionError::TooLong { length: u32::MAX }));
    // Text after VERSION is not taken for output of a shell start-up file.
    let mut session = greeted(&[]);
    session.input(Bytes::from_static(b"This"));
    assert!(matches!(session.poll(), Err(SessionError::TooLong { .. })));
    let mut session = greeted(&[]);
    session.input(Bytes::from_static(b"\0\0\0\x0d\x67\0\0\0\0\0\0\0\x05abcd"));
    assert!(matches!(session.poll(), Err(SessionError::Malformed(_))));
    let mut session = greeted(&[]);
    session.input(Bytes::from_static(b"\0\0\0\0"));
    assert!(matches!(session.poll(), Err(SessionError::Malformed(_))));
}

#[test]
fn old_versions_and_other_protocols_are_refused() {
    let mut session = Session::new();
    session.input(Bytes::from_static(b"\0\0\0\x05\x02\0\0\0\x02"));
    assert_eq!(session.poll(), Err(SessionError::OldVersion { version: 2 }));
    let mut session = Session::new();
    session.input(Bytes::from_static(b"\0\0\0\x05\x65\0\0\0\x02"));
    assert_eq!(session.poll(), Err(SessionError::NoVersion { got: PacketType::STATUS }));
}

#[test]
fn data_is_slices_of_received_packets() {
    let mut session = greeted(&[]);
    let data: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
    let mut stream = Vec::new();
    ReplyWriter(&mut stream).data(5, &data);
    let stream = Bytes::from(stream);
    for at in (0..stream.len()).step_by(32 * 1024) {
        session.input(stream.slice(at..stream.len().min(at + 32 * 1024)));
    }
    let Ok(Some(Incoming::Reply(Reply { id: 5, body: ReplyBody::Data(got) }))) = session.poll() else {
        panic!("no data")
    };
    assert_eq!(got.chunks().concat(), data);
    let whole = stream.as_ptr_range();
    assert!(got.chunks().iter().take(3).all(|chunk| whole.contains(&chunk.as_ptr())), "copied");
}

#[test]
fn write_headers_fit_their_data() {
    let mut session = greeted(&[]);
    let mut header = session.write_header(b"handle", 1 << 40);
    assert_eq!(header.size(), 25 + 6);
    let id = header.id();
    for data in [&b""[..], b"x", &[7; 70_000]] {
        let mut message = header.bytes(data.len()).to_vec();
        message.extend(data);
        let (got, request) = Request::decode(&message[4..]).unwrap();
        assert_eq!(got, id);
        assert_eq!(request, Request::Write { handle: b"handle", offset: 1 << 40, data });
        assert_eq!(u32::from_be_bytes(message[..4].try_into().unwrap()) as usize, message.len() - 4);
    }
    assert_ne!(session.write_header(b"handle", 0).id(), id);
}

#[test]
fn long_texts_of_statuses_are_cut() {
    let mut stream = Vec::new();
    ReplyWriter(&mut stream).status(7, StatusCode::FAILURE, &"no ".repeat(10_000));
    let reply = Reply::decode(stream[4..].to_vec().into()).unwrap();
    let ReplyBody::Status(status) = reply.body else { panic!("{reply:?}") };
    assert!(status.message.starts_with("no no ") && status.message.ends_with('…'));
    assert!(status.message.len() < 2000, "{} bytes", status.message.len());
}
