//! Tests of client and server together, and against peers that break the rules.

use lh_auth::client::{self, Client};
use lh_auth::gss::{GSS_METHOD, GssAttempt, GssReply, mic_data};
use lh_auth::server::{Attempt, Method, Server};
use lh_auth::{AuthError, HostRequest, KeyRequest, signed_data};
use lh_wire::{Message, Writer};
use proptest::prelude::*;

const SESSION: &[u8] = b"session identifier";
const HOST_KEY: &[u8] = b"host key blob";

struct Pair {
    client: Client,
    server: Server,
    to_server: Vec<Vec<u8>>,
    to_client: Vec<Vec<u8>>,
}

impl Pair {
    fn new(host_key: Option<&[u8]>) -> Self {
        let mut pair = Self {
            client: Client::new("alice", SESSION, host_key),
            server: Server::new(SESSION, HOST_KEY),
            to_server: Vec::new(),
            to_client: Vec::new(),
        };
        pair.client.start(&mut pair.to_server);
        assert!(pair.attempt().is_none());
        assert_eq!(pair.event(), client::Event::Ready);
        pair
    }

    fn attempt(&mut self) -> Option<Attempt> {
        let payload = self.to_server.remove(0);
        self.server.handle(&payload, &mut self.to_client).unwrap()
    }

    fn event(&mut self) -> client::Event {
        let payload = self.to_client.remove(0);
        self.client.handle(&payload).unwrap()
    }
}

/// Sends the service request, `none` and a key in one flight.
fn ahead() -> Pair {
    let mut pair = Pair {
        client: Client::new("alice", SESSION, None),
        server: Server::new(SESSION, HOST_KEY),
        to_server: Vec::new(),
        to_client: Vec::new(),
    };
    pair.client.start(&mut pair.to_server);
    pair.client.ahead(&mut pair.to_server);
    pair.client.signed_key("ssh-ed25519", b"key", b"signature", &mut pair.to_server);
    assert_eq!(pair.to_server.len(), 3);
    assert!(pair.attempt().is_none());
    assert!(matches!(pair.attempt().unwrap().method, Method::None));
    pair
}

#[test]
fn requests_sent_ahead_are_answered_in_order() {
    let mut pair = ahead();
    pair.server.banner(b"hello", &mut pair.to_client);
    pair.server.reject(&["publickey", "password"], false, &mut pair.to_client);
    assert!(matches!(pair.attempt().unwrap().method, Method::PublicKey(_)));
    pair.server.reject(&["password"], false, &mut pair.to_client);
    assert_eq!(pair.event(), client::Event::Ready);
    assert_eq!(pair.event(), client::Event::Banner("hello".into()));
    assert_eq!(pair.event(), client::Event::Methods(vec!["publickey".into(), "password".into()]));
    let methods = vec!["password".to_owned()];
    assert_eq!(pair.event(), client::Event::ChooseMethod { methods, partial_success: false });
    pair.client.password(b"right", &mut pair.to_server);
    assert!(matches!(pair.attempt().unwrap().method, Method::Password(_)));
    pair.server.accept(&mut pair.to_client);
    assert_eq!(pair.event(), client::Event::Success);
}

#[test]
fn requests_behind_a_success_are_ignored() {
    let mut pair = ahead();
    pair.server.accept(&mut pair.to_client);
    assert!(pair.attempt().is_none(), "the request is ignored");
    assert_eq!(pair.event(), client::Event::Ready);
    assert_eq!(pair.event(), client::Event::Success);
    assert!(pair.to_client.is_empty());
}

/// Covers: wire first-flight@longhaul
#[test]
fn announced_early_data_is_dropped_after_a_failure() {
    let early = [vec![90; 60], vec![94; 40]];
    for (allowed, dropped) in [(0, 0), (60, 1), (100, 2)] {
        let mut pair = ahead();
        pair.server.allow_early_data(allowed);
        pair.server.reject(&["publickey"], false, &mut pair.to_client);
        pair.attempt().unwrap();
        pair.server.reject(&["publickey"], false, &mut pair.to_client);
        for (number, payload) in early.iter().enumerate() {
            let handled = pair.server.handle(payload, &mut pair.to_client);
            match handled {
                Ok(None) => assert!(number < dropped, "{allowed}"),
                other => {
                    assert!(matches!(other, Err(AuthError::Unexpected { .. })), "{allowed}: {other:?}");
                    assert_eq!(number, dropped, "{allowed}");
                    break;
                }
            }
        }
    }
    // Before the first request, early data is always refused.
    let mut server = Server::new(SESSION, HOST_KEY);
    server.allow_early_data(1000);
    assert!(server.handle(&early[0], &mut Vec::new()).is_err());
}

#[test]
fn answers_before_the_service_accept_are_refused() {
    for answer in [
        lh_wire::msg::UserauthSuccess::new().to_payload(),
        lh_wire::msg::UserauthBanner::new(b"x", b"").to_payload(),
    ] {
        let mut pair = ahead();
        let refused = pair.client.handle(&answer).unwrap_err();
        assert!(matches!(refused, AuthError::Unexpected { .. }), "{refused}");
    }
    // An answer to the key before the answer to `none` is refused too.
    let mut pair = ahead();
    assert_eq!(pair.event(), client::Event::Ready);
    let ok = lh_wire::msg::UserauthPkOk::new(b"ssh-ed25519", b"key").to_payload();
    assert!(matches!(pair.client.handle(&ok).unwrap_err(), AuthError::Unexpected { .. }));
}

#[test]
fn hostbased_request_authenticates_the_user() {
    let mut pair = Pair::new(None);
    let request =
        HostRequest { algorithm: "ssh-ed25519", key: b"host key", host: "here.example.", local_user: "al" };
    let data = pair.client.host_signature_data(&request);
    assert_eq!(HostRequest::from_signed_data(&data), Ok((SESSION, request)));
    pair.client.host_based(&request, b"signature", &mut pair.to_server);
    let Method::HostBased(attempt) = pair.attempt().unwrap().method else { panic!("another method") };
    assert_eq!((attempt.request(), &attempt.signature[..]), (request, &b"signature"[..]));
    // The server assembles the signed data, for the user that the client named.
    assert_eq!(attempt.request().signed_data(SESSION, b"alice"), data);
    pair.server.accept(&mut pair.to_client);
    assert_eq!(pair.event(), client::Event::Success);
    // Data of another method, or with trailing bytes, is not a host-based request.
    let key = KeyRequest { algorithm: "ssh-ed25519", key: b"key", host_key: None };
    assert!(HostRequest::from_signed_data(&signed_data(SESSION, b"alice", &key)).is_err());
    assert!(HostRequest::from_signed_data(&[&data[..], b"x"].concat()).is_err());
}

#[test]
fn key_is_offered_accepted_and_signed() {
    for host_key in [None, Some(HOST_KEY)] {
        let mut pair = Pair::new(host_key);
        pair.client.offer_key("ssh-ed25519", b"key", &mut pair.to_server);
        let attempt = pair.attempt().unwrap();
        assert_eq!(attempt.user, "alice");
        let Method::PublicKey(offer) = attempt.method else { panic!("not a key: {:?}", attempt.method) };
        assert_eq!(offer.signature, None);
        pair.server.key_ok(&mut pair.to_client);
        assert_eq!(
            pair.event(),
            client::Event::KeyAccepted { algorithm: "ssh-ed25519".into(), key: b"key".to_vec() }
        );
        let data = pair.client.signature_data("ssh-ed25519", b"key");
        pair.client.signed_key("ssh-ed25519", b"key", b"signature", &mut pair.to_server);
        let Method::PublicKey(signed) = pair.attempt().unwrap().method else { panic!("not a key") };
        assert_eq!(signed.signature.as_deref(), Some(&b"signature"[..]));
        assert_eq!(signed.signed, data, "both sides sign the same bytes");
        let request = KeyRequest { algorithm: "ssh-ed25519", key: b"key", host_key };
        assert_eq!(data, signed_data(SESSION, b"alice", &request));
        pair.server.accept(&mut pair.to_client);
        assert_eq!(pair.event(), client::Event::Success);
    }
}

#[test]
fn signature_for_another_host_key_is_refused() {
    let mut pair = Pair::new(Some(b"the key of a host in the middle"));
    pair.client.signed_key("ssh-ed25519", b"key", b"signature", &mut pair.to_server);
    assert!(matches!(pair.attempt().unwrap().method, Method::Other(_)));
}

#[test]
fn each_prompt_gets_one_response() {
    let mut pair = Pair::new(None);
    pair.client.keyboard_interactive("pam,skey", &mut pair.to_server);
    let Method::KeyboardInteractive(submethods) = pair.attempt().unwrap().method else {
        panic!("another method")
    };
    assert_eq!(submethods, "pam,skey");
    pair.server.prompts(
        "",
        "look at your token",
        &[("Password: ", false), ("Token: ", true)],
        &mut pair.to_client,
    );
    let client::Event::Prompts { prompts, instruction, .. } = pair.event() else { panic!("no prompts") };
    assert_eq!(instruction, "look at your token");
    assert_eq!(
        prompts.iter().map(|p| (p.text.as_str(), p.echo)).collect::<Vec<_>>(),
        [("Password: ", false), ("Token: ", true)]
    );
    pair.client.responses(&["secret", "123456"], &mut pair.to_server);
    let Method::Responses(responses) = pair.attempt().unwrap().method else { panic!("no responses") };
    assert_eq!(responses[1].as_slice(), b"123456");
    pair.server.reject(&["publickey"], true, &mut pair.to_client);
    assert_eq!(
        pair.event(),
        client::Event::ChooseMethod { methods: vec!["publickey".into()], partial_success: true }
    );
}

#[test]
fn wrong_number_of_responses_ends_the_connection() {
    let mut pair = Pair::new(None);
    pair.client.keyboard_interactive("", &mut pair.to_server);
    pair.attempt();
    pair.server.prompts("", "", &[("Password: ", false)], &mut pair.to_client);
    pair.client.responses(&["a", "b"], &mut pair.to_server);
    let payload = pair.to_server.remove(0);
    let error = pair.server.handle(&payload, &mut pair.to_client).unwrap_err();
    assert!(matches!(error, AuthError::Malformed { .. }), "{error}");
}

#[test]
fn banner_does_not_end_a_pending_request() {
    let mut pair = Pair::new(None);
    pair.client.password(b"secret", &mut pair.to_server);
    let attempt = pair.attempt().unwrap();
    assert_eq!(
        format!("{attempt:?}"),
        r#"Attempt { user: "alice", method: password }"#,
        "no secret in Debug"
    );
    pair.server.banner(b"K\xf6ln \xc3\xa4\n", &mut pair.to_client);
    pair.server.accept(&mut pair.to_client);
    assert_eq!(pair.event(), client::Event::Banner("K\\366ln ä\n".into()));
    assert_eq!(pair.event(), client::Event::Success);
}

/// A peer need not take a payload above 32,768 bytes, and HPN-SSH takes none much longer.
#[test]
fn long_banners_go_in_messages_that_every_client_takes() {
    let mut lines: String = (0..4000).map(|n| format!("line {n} of K\u{f6}ln\n")).collect();
    lines.push_str(&"\u{20ac}".repeat(30_000));
    for text in [lines.as_str(), &"x".repeat(32_000), &"x".repeat(32_001), "short"] {
        let mut pair = Pair::new(None);
        pair.client.password(b"secret", &mut pair.to_server);
        pair.attempt().unwrap();
        pair.server.banner(text.as_bytes(), &mut pair.to_client);
        assert!(pair.to_client.iter().all(|payload| payload.len() <= 32_768));
        let mut shown = String::new();
        while !pair.to_client.is_empty() {
            let client::Event::Banner(piece) = pair.event() else { panic!("a banner") };
            shown += &piece;
        }
        assert!(shown == text, "{} of {} bytes", shown.len(), text.len());
    }
}

#[test]
fn change_of_user_and_unknown_service_are_refused() {
    let mut pair = Pair::new(None);
    pair.client.none(&mut pair.to_server);
    pair.attempt();
    pair.server.reject(&["password"], false, &mut pair.to_client);
    let mut other = Vec::new();
    other.put_u8(50);
    for field in ["bob", "ssh-connection", "none"] {
        other.put_string(field.as_bytes());
    }
    let error = pair.server.handle(&other, &mut pair.to_client).unwrap_err();
    assert_eq!(error, AuthError::UserChanged("alice".into(), "bob".into()));

    let mut fresh = Server::new(SESSION, HOST_KEY);
    let request = lh_wire::msg::ServiceRequest::new(b"ssh-connection").to_payload();
    let error = fresh.handle(&request, &mut Vec::new()).unwrap_err();
    assert_eq!(error.disconnect_reason(), lh_wire::msg::disconnect::SERVICE_NOT_AVAILABLE);
}

#[test]
fn service_may_be_requested_before_each_attempt() {
    let mut pair = Pair::new(None);
    let again = lh_wire::msg::ServiceRequest::new(b"ssh-userauth").to_payload();
    let accepted = lh_wire::msg::ServiceAccept::new(b"ssh-userauth").to_payload();
    let ask = |server: &mut Server| {
        let mut answer: Vec<Vec<u8>> = Vec::new();
        server.handle(&again, &mut answer).map(|attempt| (attempt.is_none(), answer))
    };
    pair.client.password(b"wrong", &mut pair.to_server);
    assert!(pair.attempt().is_some());
    assert!(ask(&mut pair.server).is_err(), "an attempt is being decided");
    pair.server.reject(&["password", "keyboard-interactive"], false, &mut pair.to_client);
    pair.event();
    assert_eq!(ask(&mut pair.server), Ok((true, vec![accepted.clone()])));
    // Pending prompts stay pending.
    pair.client.keyboard_interactive("", &mut pair.to_server);
    assert!(pair.attempt().is_some());
    pair.server.prompts("", "", &[("Password: ", false)], &mut pair.to_client);
    pair.event();
    assert_eq!(ask(&mut pair.server), Ok((true, vec![accepted])));
    pair.client.responses(&["secret"], &mut pair.to_server);
    assert!(pair.attempt().is_some());
    pair.server.accept(&mut pair.to_client);
    assert!(ask(&mut pair.server).is_err(), "authentication is over");
}

/// Each service request costs an answer, and no other limit counts them.
#[test]
fn service_is_requested_at_most_once_per_attempt() {
    let mut pair = Pair::new(None);
    let again = lh_wire::msg::ServiceRequest::new(b"ssh-userauth").to_payload();
    let ask = |server: &mut Server| server.handle(&again, &mut Vec::new()).map(|attempt| attempt.is_none());
    // The client requested it at the start.
    assert_eq!(ask(&mut pair.server), Err(AuthError::TooMuch("service requests")));
    pair.client.none(&mut pair.to_server);
    assert!(pair.attempt().is_some());
    pair.server.reject(&["password"], false, &mut pair.to_client);
    assert_eq!(ask(&mut pair.server), Ok(true));
    assert_eq!(ask(&mut pair.server), Err(AuthError::TooMuch("service requests")));
}

#[test]
fn success_without_a_request_is_refused() {
    let mut client = Client::new("alice", SESSION, None);
    let mut sent: Vec<Vec<u8>> = Vec::new();
    client.start(&mut sent);
    let success = lh_wire::msg::UserauthSuccess::new().to_payload();
    assert!(matches!(client.handle(&success), Err(AuthError::Unexpected { number: 52, .. })));
    client.handle(&lh_wire::msg::ServiceAccept::new(b"ssh-userauth").to_payload()).unwrap();
    assert!(matches!(client.handle(&success), Err(AuthError::Unexpected { number: 52, .. })));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8)) {
        let mut server = Server::new(SESSION, HOST_KEY);
        let mut client = Client::new("alice", SESSION, None);
        let mut sink: Vec<Vec<u8>> = Vec::new();
        client.start(&mut sink);
        server.handle(&sink.remove(0), &mut Vec::new()).unwrap();
        for mut payload in payloads {
            if let Some(first) = payload.first_mut() {
                *first = 50 + *first % 12;
            }
            if let Ok(Some(_)) = server.handle(&payload, &mut sink) {
                server.reject(&["password"], false, &mut sink);
            }
            let _ = client.handle(&payload);
            client.keyboard_interactive("", &mut sink);
        }
    }
}

#[test]
fn gss_exchange_reaches_both_libraries() {
    let mut pair = Pair::new(None);
    let oid = [6, 2, 42, 3];
    pair.client.gss(&[&oid, b"other"], &mut pair.to_server);
    let Method::Gss(GssAttempt::Begin(offered)) = pair.attempt().unwrap().method else {
        panic!("another method")
    };
    assert_eq!(offered, [&oid[..], b"other"]);
    pair.server.gss_reply(&GssReply::Mechanism(oid.to_vec()), &mut pair.to_client);
    assert_eq!(pair.event(), client::Event::GssMechanism(oid.to_vec()));
    pair.client.gss_token(b"first", &mut pair.to_server);
    let attempt = pair.attempt().unwrap();
    assert_eq!((attempt.user.as_str(), attempt.method.name()), ("alice", GSS_METHOD));
    assert!(matches!(attempt.method, Method::Gss(GssAttempt::Token(token)) if token == b"first"));
    pair.server.gss_reply(&GssReply::Token(b"second".to_vec()), &mut pair.to_client);
    assert_eq!(pair.event(), client::Event::GssToken(b"second".to_vec()));
    // The checksum covers this connection and this user.
    let data = pair.client.gss_data();
    assert_eq!(data, mic_data(SESSION, b"alice"));
    assert_eq!(
        data,
        b"\0\0\0\x12session identifier\x32\0\0\0\x05alice\0\0\0\x0essh-connection\0\0\0\x0fgssapi-with-mic"
    );
    pair.client.gss_done(b"third", Some(b"checksum"), &mut pair.to_server);
    assert!(
        matches!(pair.attempt().unwrap().method, Method::Gss(GssAttempt::Token(token)) if token == b"third")
    );
    // An empty token is not sent.
    pair.server.gss_reply(&GssReply::Token(Vec::new()), &mut pair.to_client);
    assert!(pair.to_client.is_empty());
    assert!(
        matches!(pair.attempt().unwrap().method, Method::Gss(GssAttempt::Mic(mic)) if mic == b"checksum")
    );
    pair.server.accept(&mut pair.to_client);
    assert_eq!(pair.event(), client::Event::Success);
}

#[test]
fn gss_exchange_may_be_aborted() {
    let mut pair = Pair::new(None);
    pair.client.gss(&[b"x"], &mut pair.to_server);
    pair.attempt().unwrap();
    // A GSS reply after another method is a rejection.
    pair.server.gss_reply(&GssReply::Mechanism(b"x".to_vec()), &mut pair.to_client);
    pair.event();
    pair.client.gss_error_token(b"no", &mut pair.to_server);
    assert!(pair.attempt().is_none());
    pair.client.none(&mut pair.to_server);
    assert!(matches!(pair.attempt().unwrap().method, Method::None));
    pair.server.gss_reply(&GssReply::Token(b"t".to_vec()), &mut pair.to_client);
    assert!(matches!(pair.event(), client::Event::ChooseMethod { .. }));
    // The server's library gives up and sends an error token.
    pair.client.gss(&[b"x"], &mut pair.to_server);
    pair.attempt().unwrap();
    pair.server.gss_reply(&GssReply::Mechanism(b"x".to_vec()), &mut pair.to_client);
    pair.event();
    pair.client.gss_done(b"", None, &mut pair.to_server);
    assert!(matches!(pair.attempt().unwrap().method, Method::Gss(GssAttempt::Complete)));
    pair.server.gss_error_token(b"bad", &mut pair.to_client);
    pair.server.reject(&["publickey"], false, &mut pair.to_client);
    assert_eq!(pair.event(), client::Event::GssError(String::new()));
    assert!(matches!(pair.event(), client::Event::ChooseMethod { .. }));
    // Tokens in the wrong state end the connection; malformed fields make an unknown method.
    for message in [&b"\x3d\0\0\0\x01t"[..], b"\x42\0\0\0\x01m", b"\x3f", b"\x41\0\0\0\x01e"] {
        let mut pair = Pair::new(None);
        let error = pair.server.handle(message, &mut pair.to_client).unwrap_err();
        assert!(matches!(error, AuthError::Unexpected { .. }), "{error}");
    }
    for fields in [&b""[..], b"\0\0\0\0", b"\0\0\0\x01", b"\xff\xff\xff\xff", b"\0\0\0\x01\0\0\0\x01xy"] {
        let mut payload = vec![50];
        payload.put_string(b"alice");
        payload.put_string(b"ssh-connection");
        payload.put_string(GSS_METHOD.as_bytes());
        payload.extend_from_slice(fields);
        let mut pair = Pair::new(None);
        let attempt = pair.server.handle(&payload, &mut pair.to_client).unwrap().unwrap();
        assert!(matches!(attempt.method, Method::Other(name) if name == GSS_METHOD));
    }
}
