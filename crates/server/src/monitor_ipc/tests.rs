//! Messages survive encoding and decoding, and malformed ones are refused.

use std::os::unix::net::UnixStream;

use lh_auth::gss::GssAttempt;
use lh_auth::server::{HostBasedAttempt, Method, PublicKeyAttempt, ResumeAttempt, TicketAttempt};
use proptest::prelude::*;

use super::*;

fn same(request: &MonitorRequest) {
    let bytes = request.encode();
    let again = MonitorRequest::decode(&bytes).unwrap();
    assert_eq!(again.encode(), bytes);
    for end in 0..bytes.len() {
        assert!(MonitorRequest::decode(&bytes[..end]).is_err());
    }
}

#[test]
fn every_request_arrives() {
    same(&MonitorRequest::Log { level: Level::Info, text: "ünïcode".into() });
    same(&MonitorRequest::Sign { key_index: 2, algorithm: "ssh-ed25519".into(), hash: vec![7; 32] });
    same(&MonitorRequest::HandOver(Zeroizing::new(vec![1; 5000])));
    same(&MonitorRequest::Prove { algorithm: "ssh-ed25519".into(), key: vec![3; 51] });
    same(&MonitorRequest::Arrived { line: "pts/3".into(), pid: 77 });
    same(&MonitorRequest::Left { line: "pts/3".into() });
    same(&MonitorRequest::Terminal);
    same(&MonitorRequest::Record(TerminalFacts { columns: 80, rows: 24, kind: "xterm".into() }));
    same(&MonitorRequest::Ticket { key: vec![3; 51] });
    same(&MonitorRequest::Resumable { handle: [7; 16], export: vec![8; 32].into() });
    same(&MonitorRequest::ConnectionUsage(crate::usage::tests::usage()));
    let outcome = crate::usage::Outcome::Complete;
    same(&MonitorRequest::Transfer(crate::usage::tests::transfer(b"/a\n\xff", outcome)));
    let failed = crate::usage::Outcome::Failed("No such file".into());
    same(&MonitorRequest::Operation(crate::usage::tests::operation(b"/a\n\xff", failed)));
    for last in [None, Some(Last { time: 1_700_000_000, host: "client.example".into() })] {
        assert_eq!(decode_last(&encode_last(last.as_ref())).unwrap(), last);
    }
    let key = |signature| PublicKeyAttempt {
        algorithm: "ssh-ed25519".into(),
        key: vec![1],
        signature,
        signed: vec![],
        hostbound: true,
    };
    for method in [
        Method::None,
        Method::Password(Zeroizing::new(b"secret".to_vec())),
        Method::PasswordChange,
        Method::PublicKey(key(None)),
        Method::PublicKey(key(Some(vec![9; 64]))),
        Method::KeyboardInteractive("pam".into()),
        Method::Responses(vec![Zeroizing::new(b"x".to_vec()), Zeroizing::default()]),
        Method::HostBased(HostBasedAttempt {
            algorithm: "ssh-ed25519".into(),
            key: vec![1; 51],
            host: "client.example.".into(),
            local_user: "ada".into(),
            signature: vec![9; 83],
        }),
        Method::Gss(GssAttempt::Begin(vec![vec![6, 1, 7], vec![]])),
        Method::Gss(GssAttempt::Token(vec![8; 700])),
        Method::Gss(GssAttempt::Mic(vec![9; 28])),
        Method::Gss(GssAttempt::Complete),
        Method::Ticket(TicketAttempt { key: vec![1; 51], signature: vec![9; 83] }),
        Method::Resume(ResumeAttempt { fields: vec![1; 72], export: vec![2; 32].into() }),
        Method::Other("unknown".into()),
    ] {
        same(&MonitorRequest::Decide(Attempt { user: "ada".into(), method }));
    }
}

#[test]
fn every_decision_arrives() {
    let methods = vec!["publickey".to_owned(), "password".to_owned()];
    for verdict in [
        Verdict::Accept,
        Verdict::Reject { methods, partial: true },
        Verdict::KeyOk,
        Verdict::Prompt(vec![("Password: ".into(), false), ("Token: ".into(), true)]),
        Verdict::TooMany,
        Verdict::Denied("Not today\n".into()),
        Verdict::Gss(GssReply::Mechanism(vec![6, 1, 7])),
        Verdict::Gss(GssReply::Token(vec![5; 200])),
        Verdict::Resume(vec![60; 41]),
        Verdict::Later,
        Verdict::NoMethods,
    ] {
        let banner = Some(b"Willkommen in K\xf6ln\n".to_vec());
        let algorithms = vec!["ssh-ed25519".to_owned()];
        let error_token = vec![1, 2];
        let sent = Decision { verdict, banner, client: None, level: Level::Debug2, algorithms, error_token };
        assert_eq!(Decision::decode(&sent.encode()).unwrap(), sent);
    }
}

#[test]
fn messages_come_whole_and_bounded() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut ours = MonitorSocket::new(ours).unwrap();
    let mut theirs = MonitorSocket::new(theirs).unwrap();
    theirs.send(b"one").unwrap();
    theirs.send(&[5; 100_000]).unwrap();
    assert_eq!(&ours.receive().unwrap()[..], b"one");
    assert_eq!(ours.receive().unwrap().len(), 100_000);
    ours.send(b"").unwrap();
    assert_eq!(theirs.receive().unwrap().len(), 0);
    theirs.send(&[0; 11]).unwrap();
    ours.read().unwrap();
    assert!(matches!(ours.next(10), Err(MonitorSocketError::TooLong(11))));
    drop(theirs);
    assert!(matches!(ours.read(), Err(MonitorSocketError::Closed)));
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0_u8..10) {
        let _ = MonitorRequest::decode(&bytes);
        let _ = Decision::decode(&bytes);
        let _ = MonitorRequest::decode(&[&[kind], &bytes[..]].concat());
    }
}
