use lh_config::forward::Forward;
use lh_driver::Target;
use proptest::prelude::*;

use super::numbers::*;
use super::*;

fn check_encode_and_decode(request: &Request) {
    let bytes = request.encode(7);
    assert_eq!(Request::decode(&bytes).unwrap(), (7, Some(request.clone())));
    for end in 8..bytes.len() {
        // A shorter environment may still be valid.
        let _ = Request::decode(&bytes[..end]);
    }
}

#[test]
fn requests_survive_encoding_and_decoding() {
    let session = NewSession {
        tty: true,
        agent: true,
        escape: Some(b'~'),
        term: "xterm".into(),
        command: b"ls -l".to_vec(),
        environment: vec![b"LANG=C".to_vec(), b"A=".to_vec()],
        ..NewSession::default()
    };
    check_encode_and_decode(&Request::NewSession(Box::new(session)));
    check_encode_and_decode(&Request::NewSession(Box::default()));
    let information = Request::Information("channels".into());
    for request in [Request::Alive, Request::Terminate, Request::StopListening, Request::Proxy, information] {
        check_encode_and_decode(&request);
    }
    let local = |spec: &str| Forward::parse(spec, false).unwrap();
    for forward in ["8080:h:80", "*:8080:[::1]:80", "/a:/b", "1:/b", "/a:h:2"] {
        check_encode_and_decode(&Request::OpenForward(Kind::Local, local(forward)));
    }
    check_encode_and_decode(&Request::CloseForward(Kind::Remote, Forward::parse("0", true).unwrap()));
    check_encode_and_decode(&Request::OpenForward(Kind::Dynamic, Forward::parse_dynamic("h:1080").unwrap()));
    check_encode_and_decode(&Request::StdioForward(Target::Tcp { host: "h".into(), port: 22 }));
    check_encode_and_decode(&Request::StdioForward(Target::Unix("/run/s".into())));
    assert_eq!(Request::decode(&[0x1f, 0, 0, 0, 0, 0, 0, 9]).unwrap(), (9, None));
}

#[test]
fn replies_survive_encoding_and_decoding() {
    for reply in [
        Reply::Ok,
        Reply::PermissionDenied("no".into()),
        Reply::Failure("not possible".into()),
        Reply::Alive(12),
        Reply::SessionOpened(3),
        Reply::RemotePort(8080),
        Reply::Proxy,
        Reply::Information("a\nb".into()),
    ] {
        assert_eq!(MasterMessage::decode(&reply.encode(5)).unwrap(), MasterMessage::Reply(5, reply));
    }
    for message in [MasterMessage::Exit(3, 7), MasterMessage::NoTerminal(3)] {
        assert_eq!(MasterMessage::decode(&message.encode().unwrap()).unwrap(), message);
    }
    for (greeting, information) in [(hello(), false), (master_hello(), true)] {
        assert_eq!(
            MasterMessage::decode(&greeting).unwrap(),
            MasterMessage::Hello { version: 4, information }
        );
    }
    assert_eq!(read_hello(&hello()).unwrap(), 4);
    assert!(read_hello(&Reply::Ok.encode(4)).is_err());
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(message in proptest::collection::vec(any::<u8>(), 0..120), number in 0usize..12) {
        let _ = Request::decode(&message);
        let _ = MasterMessage::decode(&message);
        let _ = read_hello(&message);
        let numbers = [HELLO, C_NEW_SESSION, C_OPEN_FWD, C_CLOSE_FWD, C_NEW_STDIO_FWD, S_FAILURE, S_REMOTE_PORT,
            S_ALIVE, S_EXIT_MESSAGE, S_OK, S_SESSION_OPENED, S_TTY_ALLOC_FAIL];
        let mut framed = numbers[number].to_be_bytes().to_vec();
        framed.extend(message);
        let _ = Request::decode(&framed);
        let _ = MasterMessage::decode(&framed);
    }
}
