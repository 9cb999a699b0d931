//! Tests of vulnerabilities of other SSH servers, tried on lhsshd by a client that breaks the protocol;
//! docs/security.md names the tests.

use lh_campaign::client::{Client, End};
use lh_campaign::explore::sockets::Socket;
use lh_campaign::packets::message;
use lh_crypto::PrivateKey;
use lh_interop::{Lab, Lhsshd, ServerSetup, me};
use lh_wire::Writer;

/// Returns a client that has exchanged keys and sent no request.
fn connected(server: &Lhsshd) -> Client<Socket> {
    let mut client = Client::new(Socket::connect(server.port).unwrap(), true);
    client.identify().unwrap();
    client.send_kexinit();
    let theirs = client.receive().unwrap();
    client.on_kexinit(&theirs);
    client.send_public();
    let reply = client.receive().unwrap();
    client.on_reply(&reply).unwrap();
    client.send_newkeys();
    assert_eq!(client.receive().unwrap(), [21]);
    client.on_newkeys();
    client
}

/// Reads until a message with this number arrives.
fn wait_for(client: &mut Client<Socket>, number: u8) -> Result<Vec<u8>, End> {
    loop {
        let payload = client.receive()?;
        if payload[0] == number {
            return Ok(payload);
        }
    }
}

fn with_service(server: &Lhsshd) -> Client<Socket> {
    let mut client = connected(server);
    client.packet(&message(5, &[b"ssh-userauth"]));
    wait_for(&mut client, 6).unwrap();
    client
}

fn open_session() -> Vec<u8> {
    let mut open = message(90, &[b"session"]);
    [0, 1 << 20, 32768].iter().for_each(|&number| open.put_u32(number));
    open
}

fn session_request(kind: &[u8], field: &[u8]) -> Vec<u8> {
    let mut request = vec![98];
    request.put_u32(0);
    request.put_string(kind);
    request.put_bool(true);
    request.put_string(field);
    request
}

/// CVE-2018-10933 (libssh), CVE-2025-32433 (Erlang).
#[test]
fn messages_above_authentication_run_nothing_before_login() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let mark = lab.arg("mark");
    let run = session_request(b"exec", format!("touch {mark}").as_bytes());
    let starts: [&dyn Fn() -> Client<Socket>; 2] = [&|| connected(&server), &|| with_service(&server)];
    for start in starts {
        for prelude in
            [vec![], vec![vec![52]], vec![message(50, &[me().as_bytes(), b"ssh-connection", b"none"])]]
        {
            let mut client = start();
            prelude.iter().for_each(|payload| client.packet(payload));
            client.packet(&open_session());
            client.packet(&run);
            // This request is answered in every state of the login, so its reply shows that all earlier
            // messages were read.
            client.packet(&message(5, &[b"ssh-userauth"]));
            client.packet(&message(50, &[me().as_bytes(), b"ssh-connection", b"none"]));
            let end = loop {
                match client.receive() {
                    Ok(payload) if payload[0] == 51 => break Ok(()),
                    Ok(payload) => assert!(!matches!(payload[0], 91 | 99), "{payload:?}"),
                    Err(end) => break Err(end),
                }
            };
            assert_ne!(end, Err(End::Silent));
            assert!(!lab.path("mark").exists(), "a command has run");
        }
    }
}

/// CVE-2012-5975 (Tectia).
#[test]
fn a_password_change_request_logs_nobody_in() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "PasswordAuthentication yes\nUsePAM no\nPermitEmptyPasswords yes\n");
    let mut client = with_service(&server);
    for (old, new) in [("", "new"), ("old", "old"), ("x", "")] {
        let mut request = message(50, &[me().as_bytes(), b"ssh-connection", b"password"]);
        request.put_bool(true);
        request.put_string(old.as_bytes());
        request.put_string(new.as_bytes());
        client.packet(&request);
        wait_for(&mut client, 51).unwrap();
    }
}

/// CVE-2026-54886 (Erlang).
#[test]
fn extended_data_on_an_sftp_channel_is_dropped() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let (key, _) = PrivateKey::parse(lab.read("user_ed25519").as_bytes(), None).unwrap();
    let mut client = with_service(&server);
    let request = client.signed_request(&me(), &key);
    client.packet(&request);
    wait_for(&mut client, 52).unwrap();
    client.packet(&open_session());
    wait_for(&mut client, 91).unwrap();
    client.packet(&session_request(b"subsystem", b"sftp"));
    wait_for(&mut client, 99).unwrap();
    let mut beside = vec![95];
    beside.put_u32(0);
    beside.put_u32(1);
    beside.put_string(&[7; 20_000]);
    // This is more than a window of data: the server gives credit for dropped data.
    for _ in 0..200 {
        client.packet(&beside);
    }
    let mut init = vec![94];
    init.put_u32(0);
    init.put_string(b"\0\0\0\x05\x01\0\0\0\x03");
    client.packet(&init);
    let data = wait_for(&mut client, 94).unwrap();
    assert_eq!(data[13], 2, "SSH_FXP_VERSION");
}

/// CVE-2026-35387 (OpenSSH).
#[test]
fn one_curve_in_a_list_allows_no_other_curve() {
    let config = "PubkeyAcceptedAlgorithms ecdsa-sha2-nistp384\n";
    let Some(setup) = ServerSetup::new("one_curve_in_a_list_allows_no_other_curve", config) else { return };
    let small = setup.lab.arg("user_p256");
    setup
        .lab
        .run(&setup.keygen, &["-q", "-t", "ecdsa", "-b", "256", "-N", "", "-f", &small])
        .ok("ssh-keygen");
    let keys = setup.lab.read("authorized_keys") + &setup.lab.read("user_p256.pub");
    setup.lab.write("authorized_keys", &keys);
    let with = |key: &str| {
        let identity = format!("IdentityFile={}", setup.lab.arg(key));
        setup.ssh(&["-o", "IdentitiesOnly=yes", "-o", &identity, "-o", "BatchMode=yes"], &["true"]).code
    };
    assert_eq!(with("user_ecdsa"), 0, "the curve that is listed");
    // The lab's own configuration accepts all its keys, so the server gets only the small one.
    setup.lab.write("authorized_keys", &setup.lab.read("user_p256.pub"));
    assert_eq!(with("user_p256"), 255, "a curve that is not listed");
}
