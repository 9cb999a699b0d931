use std::path::PathBuf;

use lh_agent::{IdentityEntry, Reply, Request};
use lh_config::special::AddKeysToAgent;
use lh_crypto::{FingerprintHash, KeyType, PrivateKey};
use lh_wire::{Reader, Writer};

use super::*;
use crate::testing::FakeUi;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A key file with its `.pub` file.
    fn key(&self, name: &str) -> PrivateKey {
        use std::os::unix::fs::PermissionsExt as _;
        let key = PrivateKey::generate(KeyType::Ed25519, None).expect("a key");
        let text = key.to_openssh(name, None).expect("a file");
        std::fs::write(self.path(name), text.as_bytes()).expect("written");
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o600)).expect("mode");
        self.public(&format!("{name}.pub"), key.public());
        key
    }

    fn public(&self, name: &str, key: &PublicKey) {
        std::fs::write(self.path(name), key.to_openssh_line(name)).expect("written");
    }

    fn config(&self, files: &[&str]) -> IdentityConfig {
        IdentityConfig {
            files: files.iter().map(|name| self.path(name)).collect(),
            explicit: true,
            certificates: Vec::new(),
            only: false,
            agent: None,
            session: None,
            add: AddKeysToAgent::default(),
            passphrase_tries: 3,
            provider: "internal".to_owned(),
            token_library: None,
            fingerprint: FingerprintHash::Sha256,
        }
    }
}

/// A certificate with an invalid signature: servers would refuse it, but the selection does not check it.
fn certificate(key: &PublicKey, kind: u32) -> PublicKey {
    let mut fields = Reader::new(key.blob());
    let plain = fields.text().expect("a type").trim_end_matches("@openssh.com").to_owned();
    let mut blob = Vec::new();
    blob.put_string(format!("{plain}-cert-v01@openssh.com").as_bytes());
    blob.put_string(b"nonce");
    blob.put_bytes(fields.rest());
    blob.put_u64(1);
    blob.put_u32(kind);
    blob.put_string(b"id");
    blob.put_string(b"");
    blob.put_u64(0);
    blob.put_u64(u64::MAX);
    for _ in 0..3 {
        blob.put_string(b"");
    }
    blob.put_string(key.blob());
    blob.put_string(b"signature");
    PublicKey::from_blob(&blob).expect("a certificate")
}

fn entry(key: &PublicKey, comment: &str) -> IdentityEntry {
    IdentityEntry { blob: key.blob().to_vec(), comment: comment.to_owned() }
}

fn gather(config: IdentityConfig) -> (Identities, FakeUi) {
    let mut ui = FakeUi::default();
    let identities = Identities::gather(config, &mut Log::new(&mut ui, LogLevel::Info, false));
    (identities, ui)
}

fn shown(identities: &Identities) -> Vec<(String, &'static str)> {
    let kind = |identity: &Identity| match identity.from {
        Source::Agent(_) => "agent",
        Source::File(..) => "file",
        Source::Loaded(..) => "loaded",
        Source::Token => "token",
        Source::Certificate => "certificate",
        Source::Broken(_) => "broken",
        Source::Useless => "useless",
    };
    let name = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    identities.list.iter().map(|each| (name(&each.name), kind(each))).collect()
}

fn words(list: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
    list.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect()
}

#[test]
fn order_is_certificates_then_agent_keys_then_files() {
    let place = Place::new();
    let (a, b) = (place.key("a"), place.key("b"));
    let other = PrivateKey::generate(KeyType::EcdsaP256, None).expect("a key");
    place.public("named-cert.pub", &certificate(a.public(), 1));
    let replies = vec![Reply::Identities(vec![entry(other.public(), "other"), entry(b.public(), "b")])];
    let peer = crate::agent::scripted(&place.path("agent"), replies);
    let mut config = place.config(&["a", "b"]);
    config.certificates = vec![place.path("named-cert.pub")];
    config.agent = Some(place.path("agent"));
    let (identities, _) = gather(config);
    assert_eq!(
        shown(&identities),
        words(&[("named-cert.pub", "certificate"), ("b", "agent"), ("other", "agent"), ("a", "loaded")])
    );
    // The certificate signs with the file of its key.
    assert_eq!(identities.signer(0), Some(3));
    assert!(identities.is_ready(0) && !identities.is_ready(1));
    drop(identities);
    peer.join().expect("agent");
}

#[test]
fn a_certificate_beside_a_key_file_follows_it() {
    let place = Place::new();
    let (a, b) = (place.key("a"), place.key("b"));
    place.public("a-cert.pub", &certificate(a.public(), 1));
    place.public("b-cert.pub", &certificate(b.public(), 2));
    let (identities, _) = gather(place.config(&["a", "b"]));
    // A host certificate is ignored.
    assert_eq!(shown(&identities), words(&[("a", "loaded"), ("a", "certificate"), ("b", "loaded")]));
    assert_eq!(identities.signer(1), Some(0));
}

#[test]
fn certificate_in_the_pub_file_replaces_the_plain_key() {
    let place = Place::new();
    let (a, b, c) = (place.key("a"), place.key("b"), place.key("c"));
    let shown_for_a = certificate(a.public(), 1);
    place.public("a.pub", &shown_for_a);
    // A certificate for another key, or for hosts, is ignored.
    place.public("b.pub", &certificate(a.public(), 1));
    place.public("c.pub", &certificate(c.public(), 2));
    let mut config = place.config(&["a", "b", "c"]);
    let mut other = shown_for_a.blob().to_vec();
    if let Some(last) = other.last_mut() {
        *last ^= 1;
    }
    let other = PublicKey::from_blob(&other).expect("a certificate");
    place.public("other-cert.pub", &other);
    config.certificates = vec![place.path("other-cert.pub")];
    let (identities, _) = gather(config);
    let publics: Vec<&PublicKey> = identities.list.iter().filter_map(|each| each.public.as_ref()).collect();
    assert_eq!(publics, [&other, &shown_for_a, b.public(), c.public()]);
    // Both certificates sign with the key `a`.
    assert_eq!((identities.signer(0), identities.signer(1)), (Some(1), Some(1)));
}

#[test]
fn identities_only_limits_the_agent_to_named_keys() {
    let place = Place::new();
    let (named, other) = (place.key("named"), place.key("other"));
    let mut fields = Vec::new();
    fields.put_string(b"sk-ssh-ed25519@openssh.com");
    fields.put_string(&[7; 32]);
    fields.put_string(b"ssh:");
    let security = PublicKey::from_blob(&fields).expect("a key");
    place.public("sk.pub", &security);
    std::fs::remove_file(place.path("named")).expect("gone");
    let keys = vec![entry(other.public(), "other"), entry(&security, "sk"), entry(named.public(), "named")];
    let peer = crate::agent::scripted(&place.path("agent"), vec![Reply::Identities(keys)]);
    let mut config = place.config(&["named.pub", "sk"]);
    config.agent = Some(place.path("agent"));
    config.only = true;
    let (identities, ui) = gather(config);
    assert_eq!(shown(&identities), words(&[("sk", "agent"), ("named.pub", "agent")]));
    assert!(ui.messages.is_empty(), "{:?}", ui.messages);
    drop(identities);
    peer.join().expect("agent");
}

#[test]
fn agent_is_bound_to_the_session_first() {
    let place = Place::new();
    let peer =
        crate::agent::scripted(&place.path("agent"), vec![Reply::Failure, Reply::Identities(Vec::new())]);
    let mut config = place.config(&[]);
    config.agent = Some(place.path("agent"));
    config.session = Some(SessionProof {
        host_key: b"host".to_vec(),
        session_id: b"session".to_vec(),
        signature: b"signature".to_vec(),
    });
    // An agent without the extension is used anyway.
    let (identities, _) = gather(config);
    drop(identities);
    let asked = peer.join().expect("agent");
    match Request::parse(&asked[0]) {
        Ok(Request::Extension(lh_agent::Extension::SessionBind(bind))) => {
            assert_eq!(
                (bind.host_key, bind.session_id, bind.signature),
                (&b"host"[..], &b"session"[..], &b"signature"[..])
            );
            assert!(!bind.forwarding);
        }
        _ => panic!("another request first"),
    }
    assert!(matches!(Request::parse(&asked[1]), Ok(Request::Identities)));
}

#[test]
fn add_keys_to_agent_adds_keys_that_logged_in() {
    let place = Place::new();
    let key = place.key("a");
    let add = |config: AddKeysToAgent, answers: &[&str]| {
        let path = place.path("agent");
        let _ = std::fs::remove_file(&path);
        let replies = vec![Reply::Identities(Vec::new())];
        let asking = crate::agent::scripted(&path, replies);
        let mut identity_config = place.config(&["a"]);
        identity_config.agent = Some(path.clone());
        identity_config.add = config;
        let mut ui = FakeUi::answering(answers);
        let mut log = Log::new(&mut ui, LogLevel::Info, false);
        let identities = Identities::gather(identity_config, &mut log);
        std::fs::remove_file(&path).expect("socket");
        let adding = crate::agent::scripted(&path, vec![Reply::Success]);
        identities.add_to_agent(0, &mut log);
        drop(identities);
        asking.join().expect("agent");
        // Ends the wait of an agent that got no connection.
        let _ = std::os::unix::net::UnixStream::connect(&path);
        (adding.join().expect("agent"), ui.asked)
    };
    let yes = AddKeysToAgent { add: true, ..AddKeysToAgent::default() };
    let (asked, questions) = add(yes, &[]);
    assert!(questions.is_empty());
    match Request::parse(&asked[0]) {
        Ok(Request::Add { key: added, comment, constraints }) => {
            assert_eq!((added.public(), comment.as_str()), (key.public(), "a"));
            assert!(constraints.is_empty());
        }
        _ => panic!("not added"),
    }
    let (asked, _) = add(AddKeysToAgent { confirm: true, lifetime: Some(60), ..yes }, &[]);
    match Request::parse(&asked[0]) {
        Ok(Request::Add { constraints, .. }) => {
            assert_eq!((constraints.confirm, constraints.lifetime), (true, Some(60)));
        }
        _ => panic!("not added"),
    }
    assert!(add(AddKeysToAgent::default(), &[]).0.is_empty());
    let ask = AddKeysToAgent { ask: true, ..yes };
    let (asked, questions) = add(ask, &["no"]);
    assert!(asked.is_empty());
    assert_eq!(questions, [format!("Add key {0} (a) to agent?", place.path("a").display())]);
    assert_eq!(add(ask, &["yes"]).0.len(), 1);
}

/// Like OpenSSH: an error in a file is reported when its key is needed, and not before.
#[test]
fn broken_files_are_reported_when_needed() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let (open, cut, alone) = (place.key("open"), place.key("cut"), place.key("alone"));
    place.key("good");
    let mode = |name: &str, mode| {
        std::fs::set_permissions(place.path(name), std::fs::Permissions::from_mode(mode)).expect("mode");
    };
    mode("open", 0o644);
    std::fs::write(place.path("cut"), "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb").expect("written");
    std::fs::remove_file(place.path("alone")).expect("gone");
    std::fs::create_dir(place.path("directory")).expect("a directory");
    mode("directory", 0o755);
    mode("alone.pub", 0o644);
    let names = ["open", "cut", "alone.pub", "directory", "missing", "good"];
    let mut ui = FakeUi::default();
    let mut log = Log::new(&mut ui, LogLevel::Info, false);
    let mut identities = Identities::gather(place.config(&names), &mut log);
    let publics: Vec<Option<PublicKey>> = identities.list.iter().map(|each| each.public.clone()).collect();
    let known = [&open, &cut, &alone].map(|key| Some(key.public().clone()));
    assert_eq!(publics[..3], known, "their public halves are offered");
    assert_eq!(publics[3..5], [None, None]);
    let hopeless: Vec<bool> = identities.list.iter().map(Identity::is_hopeless).collect();
    assert_eq!(hopeless, [false, false, false, true, true, false]);
    for index in 0..3 {
        assert!(identities.sign(index, "ssh-ed25519", b"data", &mut log).is_err());
    }
    for index in 3..5 {
        assert!(identities.load(index, &mut log).is_err());
    }
    assert!(identities.sign(5, "ssh-ed25519", b"data", &mut log).is_ok());
    let told: Vec<&str> = ui.messages.iter().filter_map(|text| text.lines().last()).collect();
    let load = |name: &str, why: &str| format!("Load key \"{}\": {why}", place.path(name).display());
    let missing = format!("no such identity: {}: No such file or directory", place.path("missing").display());
    let expected = [
        load("open", "bad permissions"),
        load("cut", "invalid format"),
        load("alone.pub", "bad permissions"),
        load("directory", "bad permissions"),
        missing,
    ];
    assert_eq!(told, expected);
}

/// A public key file names a key of the agent; the private key beside it is not used.
#[test]
fn public_key_files_name_keys_of_the_agent() {
    let place = Place::new();
    let (held, _) = (place.key("held"), place.key("beside"));
    std::fs::remove_file(place.path("held")).expect("gone");
    let replies = vec![Reply::Identities(vec![entry(held.public(), "held")])];
    let peer = crate::agent::scripted(&place.path("agent"), replies);
    let mut config = place.config(&["beside.pub", "held.pub", "held.pub"]);
    config.agent = Some(place.path("agent"));
    let (identities, ui) = gather(config);
    assert_eq!(shown(&identities), words(&[("held.pub", "agent"), ("beside.pub", "broken")]));
    assert!(ui.messages.is_empty(), "{:?}", ui.messages);
    drop(identities);
    peer.join().expect("agent");
}
