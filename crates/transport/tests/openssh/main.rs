//! Key exchanges with the system's OpenSSH, as client and server, for every method, cipher, MAC and host key
//! that it supports.
//!
//! `sshd -i` gets an accepted connection as its standard input, so the tests guess no port and leave no
//! daemon behind. A missing program is reported; with `LH_REQUIRE_PEERS=1` it is a failure.

mod peer;

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lh_crypto::SystemRandom;
use lh_transport::{Config, Event, HostKey, Negotiated, Transport, TransportError};
use lh_wire::{PacketSink, Writer};
use peer::{Keys, Link, Running, SSH, SSHD, available, connection, missing, peer_log, sshd};

const SERVICE_REQUEST: &[u8] = b"\x05\0\0\0\x0cssh-userauth";
const SERVICE_ACCEPT: &[u8] = b"\x06\0\0\0\x0cssh-userauth";

/// Returns options that enable everything this sshd supports.
fn everything() -> Vec<String> {
    vec![
        format!("KexAlgorithms {}", available(SSH, "kex").join(",")),
        format!("Ciphers {}", available(SSH, "cipher").join(",")),
        format!("MACs {}", available(SSH, "mac").join(",")),
        "HostKeyAlgorithms +ssh-rsa".to_owned(),
        "PermitRootLogin yes".to_owned(),
        "StrictModes no".to_owned(),
    ]
}

/// Connects to a new sshd and requests a service.
fn talk_to_sshd(keys: &Keys, change: impl Fn(&mut Config)) -> Result<Negotiated, TransportError> {
    let mut result = None;
    let closed = || std::io::Error::from(ErrorKind::UnexpectedEof);
    let _ = lh_testkit::again_if_closed(|| {
        let one = talk_to_sshd_once(keys, &change);
        match result.insert(one) {
            Err(TransportError::Closed { .. }) => Err(closed()),
            _ => Ok(()),
        }
    });
    result.unwrap()
}

fn talk_to_sshd_once(keys: &Keys, change: impl Fn(&mut Config)) -> Result<Negotiated, TransportError> {
    let (socket, theirs) = connection();
    let _sshd = sshd(keys, &everything(), theirs);
    let mut config = Config::client();
    change(&mut config);
    let mut link = Link::new(config, socket, &keys.keys);
    link.transport.payload(SERVICE_REQUEST);
    let names = link.until_kex_done()?;
    assert_eq!(link.until_packet()?, SERVICE_ACCEPT, "{names:?}");
    link.transport.payload(b"\x32\0\0\0\x01x\0\0\0\x0essh-connection\0\0\0\x04none");
    assert_eq!(link.until_packet()?[0], 51, "USERAUTH_FAILURE");
    Ok(names)
}

/// Sends many long requests that must be refused, while the end that reaches its limit first renews the keys.
fn converse(link: &mut Link, rounds: usize) -> usize {
    let mut request = b"\x50\0\0\0\x0anonsense@x\x01".to_vec();
    request.resize(30_000, b'.');
    let (mut sent, mut answered, mut exchanges) = (0, 0, 0);
    while answered < rounds {
        while sent < rounds && sent < answered + 8 && link.transport.can_send_bulk() {
            link.transport.payload(&request);
            sent += 1;
        }
        match link.next().unwrap() {
            Event::Packet(payload) if payload[0] == 82 => answered += 1,
            Event::KexDone { .. } => exchanges += 1,
            _ => {}
        }
    }
    exchanges
}

/// Logs in to a new sshd with the first host key, which also serves as the user's key.
fn log_in(keys: &Keys, options: &[&str], change: impl FnOnce(&mut Config)) -> (Link, Running) {
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let user = user.trim();
    let authorized = keys.directory.path().join("authorized_keys");
    fs::write(&authorized, keys.keys[0].public().to_openssh_line("user")).unwrap();
    let (socket, theirs) = connection();
    let mut all = everything();
    all.push(format!("AuthorizedKeysFile {}", authorized.display()));
    all.extend(options.iter().map(|option| (*option).to_owned()));
    let sshd = sshd(keys, &all, theirs);
    let mut config = Config::client();
    change(&mut config);
    let mut link = Link::new(config, socket, &keys.keys);
    link.transport.payload(SERVICE_REQUEST);
    link.until_kex_done().unwrap();
    assert_eq!(link.until_packet().unwrap(), SERVICE_ACCEPT);

    let key = &keys.keys[0];
    let mut request = vec![50];
    for text in [user, "ssh-connection", "publickey"] {
        request.put_string(text.as_bytes());
    }
    request.put_bool(true);
    request.put_string(b"ssh-ed25519");
    request.put_string(key.public().blob());
    let mut signed = Vec::new();
    signed.put_string(link.transport.session_id().unwrap());
    signed.put_bytes(&request);
    request.put_string(&key.sign("ssh-ed25519", &signed).unwrap());
    link.transport.payload(&request);
    assert_eq!(link.until_packet().unwrap(), [52], "USERAUTH_SUCCESS");
    link.transport.set_authenticated();
    (link, sshd)
}

#[test]
fn sshd_rekeys_while_data_flows() {
    if missing(SSHD) || missing(SSH) {
        return;
    }
    let keys = Keys::new();
    let limit = Some(256 * 1024);
    for (cipher, options, bytes) in [
        ("aes128-gcm@openssh.com", &["RekeyLimit 256K"][..], limit),
        ("chacha20-poly1305@openssh.com", &["RekeyLimit 256K"], None),
        ("aes256-ctr", &[], limit),
        ("aes128-cbc", &["RekeyLimit 256K"], None),
        ("3des-cbc", &[], limit),
    ] {
        let (mut link, _sshd) = log_in(&keys, options, |config| {
            only(&mut config.algorithms.cipher_c2s, cipher);
            only(&mut config.algorithms.cipher_s2c, cipher);
            config.rekey.bytes = bytes;
        });
        let id = link.transport.session_id().unwrap().to_vec();
        let exchanges = converse(&mut link, 100);
        assert!((5..30).contains(&exchanges), "{cipher}: {exchanges} exchanges for 3 MB");
        assert_eq!(link.transport.session_id(), Some(&id[..]));
        link.transport.request_rekey();
        converse(&mut link, 3);
    }
}

/// Covers: wire zlib@openssh.com
#[test]
fn sshd_with_compression() {
    if missing(SSHD) || missing(SSH) {
        return;
    }
    let keys = Keys::new();
    let (mut link, _sshd) = log_in(&keys, &["Compression yes", "RekeyLimit 256K"], |config| {
        only(&mut config.algorithms.compression_c2s, "zlib@openssh.com");
        only(&mut config.algorithms.compression_s2c, "zlib@openssh.com");
    });
    let before = link.transport.bytes_out();
    converse(&mut link, 20);
    assert!(link.transport.bytes_out() - before < 100_000, "600 kB of dots compress well");
    link.transport.request_rekey();
    converse(&mut link, 20);
}

#[test]
fn thawed_connection_continues_with_sshd() {
    if missing(SSHD) || missing(SSH) {
        return;
    }
    let keys = Keys::new();
    let (mut link, _sshd) = log_in(&keys, &[], |_| {});
    for _ in 0..3 {
        converse(&mut link, 5);
        let frozen = link.transport.freeze().unwrap();
        link.transport =
            Transport::thaw(&frozen, Config::client(), Box::new(SystemRandom), Instant::now()).unwrap();
        converse(&mut link, 5);
        link.transport.request_rekey();
    }
}

fn only(list: &mut Vec<String>, name: &str) {
    *list = vec![name.to_owned()];
}

#[test]
fn sshd_with_every_kex_method() {
    if missing(SSHD) || missing(SSH) {
        return;
    }
    let keys = Keys::new();
    let theirs = available(SSH, "kex");
    let mut done = 0;
    for kex in lh_crypto::KexAlgorithm::ALL {
        if !theirs.iter().any(|name| name == kex.name()) {
            lh_testkit::skip_unavailable(kex.name(), "this sshd lacks it");
            continue;
        }
        let names = talk_to_sshd(&keys, |config| only(&mut config.algorithms.kex, kex.name())).unwrap();
        assert_eq!(names.kex, kex.name());
        done += 1;
    }
    assert!(done >= 8, "only {done} methods in common");
}

#[test]
fn sshd_with_every_host_key() {
    if missing(SSHD) || missing(SSH) {
        return;
    }
    let keys = Keys::new();
    for key in &keys.keys {
        for algorithm in key.public().signature_algorithms() {
            let names =
                talk_to_sshd(&keys, |config| only(&mut config.algorithms.host_key, algorithm)).unwrap();
            assert_eq!(names.host_key, *algorithm);
        }
    }
}

#[test]
fn sshd_with_every_cipher_and_mac() {
    if missing(SSHD) || missing(SSH) {
        return;
    }
    let keys = Keys::new();
    let (ciphers, macs) = (available(SSH, "cipher"), available(SSH, "mac"));
    for cipher in lh_crypto::Cipher::ALL {
        if !ciphers.iter().any(|name| name == cipher.name) {
            lh_testkit::skip_unavailable(cipher.name, "this sshd lacks it");
            continue;
        }
        for mac in lh_crypto::Mac::ALL {
            if !macs.iter().any(|name| name == mac.name) {
                lh_testkit::skip_unavailable(mac.name, "this sshd lacks it");
                continue;
            }
            let names = talk_to_sshd(&keys, |config| {
                only(&mut config.algorithms.cipher_c2s, cipher.name);
                only(&mut config.algorithms.cipher_s2c, cipher.name);
                only(&mut config.algorithms.mac_c2s, mac.name);
                only(&mut config.algorithms.mac_s2c, mac.name);
            })
            .unwrap();
            assert_eq!(names.cipher_c2s, cipher.name);
            if cipher.is_aead() {
                break;
            }
        }
    }
}

#[test]
fn sshd_without_a_common_cipher() {
    if missing(SSHD) {
        return;
    }
    let keys = Keys::new();
    let (socket, theirs) = connection();
    let _sshd = sshd(&keys, &["Ciphers aes192-ctr".to_owned()], theirs);
    let mut config = Config::client();
    only(&mut config.algorithms.cipher_c2s, "aes128-ctr");
    let mut link = Link::new(config, socket, &keys.keys);
    let error = link.until_kex_done().unwrap_err();
    assert_eq!(error.to_string(), "no matching cipher found. Their offer: aes192-ctr");
}

/// Lets the system's client log in and exchanges data while keys are renewed.
fn talk_to_ssh(keys: &Keys, options: &[String], rounds: usize) -> Result<Negotiated, TransportError> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut command = Command::new(SSH);
    command.args(["-N", "-v", "-F", "/dev/null", "-p", &port, "-o", "StrictHostKeyChecking=no"]);
    command.args(["-o", "BatchMode=yes", "-o", "UserKnownHostsFile=/dev/null"]);
    command.args(["-o", "IdentityFile=none", "-o", "IdentityAgent=none"]);
    for option in options {
        command.args(["-o", option]);
    }
    command.args(["x@127.0.0.1"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(peer_log());
    let _ssh = Running(command.spawn().unwrap());
    let socket = listener.accept().unwrap().0;
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let host_keys = keys.keys.iter().map(|key| HostKey {
        algorithms: key.public().signature_algorithms().iter().map(|name| (*name).to_owned()).collect(),
        blob: key.public().blob().to_vec(),
    });
    let mut config = Config::server(host_keys.collect());
    // Algorithms outside the default lists are enabled too.
    let algorithms = &mut config.algorithms;
    algorithms.kex = lh_crypto::KexAlgorithm::ALL.iter().map(|kex| kex.name().to_owned()).collect();
    for list in [&mut algorithms.cipher_c2s, &mut algorithms.cipher_s2c] {
        *list = lh_crypto::Cipher::ALL.iter().map(|cipher| cipher.name.to_owned()).collect();
    }
    for list in [&mut algorithms.mac_c2s, &mut algorithms.mac_s2c] {
        *list = lh_crypto::Mac::ALL.iter().map(|mac| mac.name.to_owned()).collect();
    }
    algorithms.host_key.push("ssh-rsa".to_owned());
    config.rekey.bytes = Some(200 * 1024);
    let mut link = Link::new(config, socket, &keys.keys);
    let names = link.until_kex_done()?;
    assert_eq!(link.until_packet()?, SERVICE_REQUEST);
    link.transport.payload(SERVICE_ACCEPT);
    assert_eq!(link.until_packet()?[0], 50, "USERAUTH_REQUEST");
    link.transport.payload(&[52]);
    link.transport.set_authenticated();
    let exchanges = converse(&mut link, rounds);
    assert!(exchanges >= rounds * 30_000 / (250 * 1024), "{exchanges} exchanges");
    Ok(names)
}

#[test]
fn ssh_rekeys_while_data_flows() {
    if missing(SSH) {
        return;
    }
    let keys = Keys::new();
    talk_to_ssh(&keys, &["RekeyLimit=100K".to_owned()], 100).unwrap();
}

#[test]
fn ssh_with_every_kex_method() {
    if missing(SSH) {
        return;
    }
    let keys = Keys::new();
    let theirs = available(SSH, "kex");
    for kex in lh_crypto::KexAlgorithm::ALL {
        if !theirs.iter().any(|name| name == kex.name()) {
            lh_testkit::skip_unavailable(kex.name(), "this ssh lacks it");
            continue;
        }
        let names = talk_to_ssh(&keys, &[format!("KexAlgorithms={}", kex.name())], 10).unwrap();
        assert_eq!(names.kex, kex.name());
    }
}

#[test]
fn ssh_with_every_host_key_cipher_and_mac() {
    if missing(SSH) {
        return;
    }
    let keys = Keys::new();
    for key in &keys.keys {
        for algorithm in key.public().signature_algorithms() {
            let names = talk_to_ssh(&keys, &[format!("HostKeyAlgorithms={algorithm}")], 10).unwrap();
            assert_eq!(names.host_key, *algorithm);
        }
    }
    let (ciphers, macs) = (available(SSH, "cipher"), available(SSH, "mac"));
    for cipher in
        lh_crypto::Cipher::ALL.iter().filter(|cipher| ciphers.iter().any(|name| name == cipher.name))
    {
        for mac in lh_crypto::Mac::ALL.iter().filter(|mac| macs.iter().any(|name| name == mac.name)) {
            let options = [format!("Ciphers={}", cipher.name), format!("MACs={}", mac.name)];
            let names = talk_to_ssh(&keys, &options, 10).unwrap();
            assert_eq!(names.cipher_s2c, cipher.name);
            if cipher.is_aead() {
                break;
            }
        }
    }
}
