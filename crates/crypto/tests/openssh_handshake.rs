//! Tests of every key exchange, packet suite and host key against the system's `sshd`, over pipes.
//!
//! The client here is the smallest that gets as far as a refused login. It does not use the transport crate
//! on purpose: a failing handshake then shows wrong arithmetic, not a wrong state machine. `sshd -i` needs no
//! port.

use lh_crypto::{
    Cipher, Direction, EphemeralKey, KexAlgorithm, KexFamily, Mac, PacketIndex, PacketKey, PublicKey,
    derive_key,
};
use lh_wire::{Mpint, Reader, Writer};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SSHD: &str = "/usr/sbin/sshd";
const OUR_VERSION: &[u8] = b"SSH-2.0-LonghaulCryptoTest";

/// Key and position of one direction.
struct Stream {
    key: PacketKey,
    index: PacketIndex,
}

impl Stream {
    const fn new() -> Self {
        Self { key: PacketKey::plain(), index: PacketIndex { seq: 0, invocation: 0, offset: 0 } }
    }

    fn switch(&mut self, key: PacketKey) {
        self.key = key;
        self.index.invocation = 0;
        self.index.offset = 0;
    }

    fn advance(&mut self, total_without_tag: usize) {
        self.index.offset += self.key.encrypted_len(total_without_tag);
        self.index.seq = self.index.seq.wrapping_add(1);
        self.index.invocation += 1;
    }
}

struct Client {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    sending: Stream,
    receiving: Stream,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    fn start(host_key: &Path, names: &Names) -> Self {
        // sshd run as root requires this directory, which is missing where it never ran.
        let _ = std::fs::create_dir_all("/run/sshd");
        let mut child = Command::new(SSHD)
            .args(["-i", "-e", "-q", "-f", "/dev/null", "-h"])
            .arg(host_key)
            .arg(format!("-oKexAlgorithms={}", names.kex.name()))
            .arg(format!("-oHostKeyAlgorithms={}", names.host_key))
            .arg(format!("-oCiphers={}", names.cipher.name))
            .arg(format!("-oMACs={}", names.mac.map_or("hmac-sha2-256", |mac| mac.name)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from, sending: Stream::new(), receiving: Stream::new() }
    }

    fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        let key = &self.sending.key;
        let covered = 1 + payload.len() + if key.length_is_padded() { 4 } else { 0 };
        let mut padding = key.block_len() - covered % key.block_len();
        if padding < 4 {
            padding += key.block_len();
        }
        let mut packet = Vec::new();
        packet.put_u32(u32::try_from(1 + payload.len() + padding).unwrap());
        packet.put_u8(u8::try_from(padding).unwrap());
        packet.put_bytes(payload);
        packet.resize(packet.len() + padding, 0);
        let total = packet.len();
        packet.resize(total + key.tag_len(), 0);
        key.seal(&self.sending.index, &mut packet).unwrap();
        self.sending.advance(total);
        self.to.write_all(&packet)
    }

    /// Returns the next payload that is not IGNORE or DEBUG.
    fn receive(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let stream = &mut self.receiving;
            let mut packet = vec![0; stream.key.head_len()];
            self.from.read_exact(&mut packet)?;
            let length = stream.key.packet_length(&stream.index, &packet) as usize;
            assert!((1..40_000).contains(&length), "{length}");
            packet.resize(4 + length + stream.key.tag_len(), 0);
            self.from.read_exact(&mut packet[stream.key.head_len()..])?;
            stream.key.open(&stream.index, &mut packet).unwrap();
            stream.advance(4 + length);
            let padding = usize::from(packet[4]);
            let payload = packet[5..4 + length - padding].to_vec();
            assert_ne!(payload[0], 1, "disconnected: {}", String::from_utf8_lossy(&payload));
            if payload[0] != 2 && payload[0] != 4 {
                return Ok(payload);
            }
        }
    }
}

struct Names {
    kex: KexAlgorithm,
    host_key: &'static str,
    cipher: &'static Cipher,
    mac: Option<&'static Mac>,
}

/// Runs a key exchange, a few packets each way, and a login that is refused.
fn handshake(host_key: &Path, names: &Names) {
    lh_testkit::again_if_closed(|| one_handshake(host_key, names)).unwrap();
}

fn one_handshake(host_key: &Path, names: &Names) -> io::Result<()> {
    let mut client = Client::start(host_key, names);
    client.to.write_all(&[OUR_VERSION, b"\r\n"].concat())?;
    let mut their_version = String::new();
    client.from.read_line(&mut their_version)?;

    let mut our_kexinit = vec![20];
    our_kexinit.extend([7; 16]);
    let mac = names.mac.map_or("hmac-sha2-256", |mac| mac.name);
    for list in [names.kex.name(), names.host_key, names.cipher.name, names.cipher.name, mac, mac] {
        our_kexinit.put_name_list([list]);
    }
    for list in ["none", "none", "", ""] {
        our_kexinit.put_string(list.as_bytes());
    }
    our_kexinit.put_bytes(&[0; 5]);
    client.send(&our_kexinit)?;
    let their_kexinit = client.receive()?;
    assert_eq!(their_kexinit[0], 20);

    let mut hashed = Vec::new();
    hashed.put_string(OUR_VERSION);
    hashed.put_string(their_version.trim_end().as_bytes());
    hashed.put_string(&our_kexinit);
    hashed.put_string(&their_kexinit);
    let (secret, host_key) = exchange(&mut client, names.kex, &mut hashed)?;

    let hash = names.kex.hash();
    let h = hash.digest(&[&hashed]);
    let (key, signature) = host_key;
    key.verify(names.host_key, h.as_ref(), &signature).unwrap();

    client.send(&[21])?;
    assert_eq!(client.receive()?, [21]);
    let derive = |letter, len| derive_key(hash, &secret, h.as_ref(), letter, h.as_ref(), len);
    let packet_key = |direction, letters: [u8; 3]| {
        let (cipher, mac_len) = (names.cipher, names.mac.map_or(0, |mac| mac.key_len));
        let iv = derive(letters[0], cipher.iv_len);
        let key = derive(letters[1], cipher.key_len);
        PacketKey::new(direction, cipher, names.mac, &key, &iv, &derive(letters[2], mac_len)).unwrap()
    };
    client.sending.switch(packet_key(Direction::Seal, *b"ACE"));
    client.receiving.switch(packet_key(Direction::Open, *b"BDF"));

    for size in [0, 1, 100, 1000, 1500, 30_000] {
        let mut ignore = vec![2];
        ignore.put_string(&vec![b'x'; size]);
        client.send(&ignore)?;
    }
    let mut request = vec![5];
    request.put_string(b"ssh-userauth");
    client.send(&request)?;
    assert_eq!(client.receive()?[0], 6, "SERVICE_ACCEPT");
    for _ in 0..2 {
        let mut none = vec![50];
        none.put_string(b"nobody");
        none.put_string(b"ssh-connection");
        none.put_string(b"none");
        client.send(&none)?;
        assert_eq!(client.receive()?[0], 51, "USERAUTH_FAILURE");
    }
    Ok(())
}

/// The shared secret, the host key, and its signature.
type Exchanged = (Vec<u8>, (PublicKey, Vec<u8>));

/// Exchanges the key exchange messages; appends to the hashed data. Returns K, the host key and its
/// signature.
fn exchange(client: &mut Client, kex: KexAlgorithm, hashed: &mut Vec<u8>) -> io::Result<Exchanged> {
    let is_mpint = matches!(kex.family(), KexFamily::DhGroup | KexFamily::DhGex);
    let put =
        |out: &mut Vec<u8>, value: &[u8]| if is_mpint { out.put_mpint(value) } else { out.put_string(value) };
    let mut group = Vec::new();
    let (ours, init, reply) = if kex.family() == KexFamily::DhGex {
        let mut request = vec![34];
        group.put_u32(2048);
        group.put_u32(2048);
        group.put_u32(8192);
        request.put_bytes(&group);
        client.send(&request)?;
        let answer = client.receive()?;
        assert_eq!(answer[0], 31);
        group.put_bytes(&answer[1..]);
        let mut reader = Reader::new(&answer[1..]);
        let (p, g) = (reader.mpint().unwrap(), reader.mpint().unwrap());
        (EphemeralKey::generate_dh(p.magnitude(), g.magnitude()).unwrap(), 32, 33)
    } else {
        (EphemeralKey::generate(kex).unwrap(), 30, 31)
    };
    let mut message = vec![init];
    put(&mut message, ours.public());
    client.send(&message)?;

    let answer = client.receive()?;
    assert_eq!(answer[0], reply);
    let mut reader = Reader::new(&answer[1..]);
    let host_key = reader.string().unwrap();
    let value = reader.string().unwrap();
    let value = if is_mpint { Mpint::from_content(value).unwrap().magnitude() } else { value };
    let signature = reader.string().unwrap().to_vec();
    reader.finish().unwrap();

    hashed.put_string(host_key);
    hashed.put_bytes(&group);
    put(hashed, ours.public());
    put(hashed, value);
    let secret = ours.agree(value).unwrap().encoded().to_vec();
    hashed.put_bytes(&secret);
    Ok((secret, (PublicKey::from_blob(host_key).unwrap(), signature)))
}

/// Returns the algorithms that the system's OpenSSH offers; reports when it is missing.
fn offered(test: &str, what: &str) -> Option<Vec<String>> {
    let output = Command::new("ssh").args(["-Q", what]).output();
    match output {
        Ok(output) if output.status.success() && Path::new(SSHD).exists() => {
            Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
        }
        _ => {
            lh_testkit::skip(
                test,
                &format!("no {SSHD} on this machine (Debian: apt-get install openssh-server)"),
            );
            None
        }
    }
}

/// Copies a throw-away host key with the permissions that sshd requires.
fn host_key(directory: &Path, name: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join(name);
    std::fs::copy(format!("{}/tests/keys/{name}.key", env!("CARGO_MANIFEST_DIR")), &path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn names(kex: &str, host_key: &'static str, cipher: &'static Cipher, mac: Option<&'static Mac>) -> Names {
    Names { kex: KexAlgorithm::by_name(kex).unwrap(), host_key, cipher, mac }
}

#[test]
fn every_key_exchange_agrees_with_sshd() {
    let Some(offered) = offered("every_key_exchange_agrees_with_sshd", "kex") else { return };
    let directory = tempfile::tempdir().unwrap();
    let host_key = host_key(directory.path(), "ed25519");
    let cipher = Cipher::by_name("aes128-gcm@openssh.com").unwrap();
    let mut done = 0;
    for kex in KexAlgorithm::ALL {
        if !offered.iter().any(|name| name == kex.name()) {
            lh_testkit::skip_unavailable(kex.name(), "this OpenSSH does not know it");
            continue;
        }
        // Exponent and secret have leading zeros once in 256 times, so the cheap methods are tried several
        // times.
        let tries = if kex.family() == KexFamily::Ecdh { 3 } else { 1 };
        for _ in 0..tries {
            handshake(&host_key, &names(kex.name(), "ssh-ed25519", cipher, None));
        }
        done += 1;
    }
    assert!(done >= 9, "{done}");
}

#[test]
fn every_suite_works_with_sshd() {
    const TEST: &str = "every_suite_works_with_sshd";
    let Some((ciphers, macs)) = offered(TEST, "cipher").zip(offered(TEST, "mac")) else { return };
    let known = |names: &[String], name: &str| {
        let known = names.iter().any(|each| each == name);
        if !known {
            lh_testkit::skip_unavailable(name, "this OpenSSH does not know it");
        }
        known
    };
    let macs: Vec<&Mac> = Mac::ALL.iter().filter(|mac| known(&macs, mac.name)).collect();
    assert!(macs.len() >= 10, "every MAC we have is in OpenSSH's defaults");
    let directory = tempfile::tempdir().unwrap();
    let host_key = host_key(directory.path(), "ed25519");
    for cipher in Cipher::ALL.iter().filter(|cipher| known(&ciphers, cipher.name)) {
        let macs: Vec<Option<&'static Mac>> =
            if cipher.is_aead() { vec![None] } else { macs.iter().copied().map(Some).collect() };
        for mac in macs {
            handshake(&host_key, &names("curve25519-sha256", "ssh-ed25519", cipher, mac));
        }
    }
}

#[test]
fn every_host_key_of_sshd_is_verified() {
    if offered("every_host_key_of_sshd_is_verified", "key").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (file, algorithm) in [
        ("ed25519", "ssh-ed25519"),
        ("ecdsa256", "ecdsa-sha2-nistp256"),
        ("ecdsa384", "ecdsa-sha2-nistp384"),
        ("ecdsa521", "ecdsa-sha2-nistp521"),
        ("rsa2048", "rsa-sha2-256"),
        ("rsa2048", "rsa-sha2-512"),
        ("rsa2048", "ssh-rsa"),
    ] {
        let host_key = host_key(directory.path(), file);
        let cipher = Cipher::by_name("aes256-gcm@openssh.com").unwrap();
        handshake(&host_key, &names("curve25519-sha256", algorithm, cipher, None));
    }
}
