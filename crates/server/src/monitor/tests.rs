//! The monitor's rules, and the requests of a process that an attacker controls.

mod principals;
mod resuming;
mod session_process;
mod tickets;

use std::time::Duration;

use lh_auth::KeyRequest;
use lh_auth::server::PublicKeyAttempt;
use lh_crypto::{KeyType, PrivateKey, PublicKey};
use lh_sys::users;
use lh_wire::Writer as _;

use super::attempts::extra_fail_time;
use super::judge::may_begin_with;
use super::*;

/// A monitor for the user that runs the tests, with an authorized key.
pub(crate) struct Scene {
    pub(crate) monitor: Monitor,
    pub(crate) key: PrivateKey,
    pub(crate) user: String,
    pub(crate) log: Log,
    config: ServerConfig,
    _directory: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new(lines: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let private = |name: &str| {
            let key = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
            let path = directory.path().join(name);
            std::fs::write(&path, key.to_openssh("", None).unwrap().as_bytes()).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            (key, path)
        };
        let host_keys =
            vec![HostKey::load(&private("one").1).unwrap(), HostKey::load(&private("two").1).unwrap()];
        let (key, _) = private("user");
        let authorized = directory.path().join("authorized");
        std::fs::write(&authorized, key.public().to_openssh_line("")).unwrap();
        let config = crate::testing::config(&format!(
            "StrictModes no\nPermitRootLogin yes\nAuthorizedKeysFile {}\n{lines}",
            authorized.display()
        ));
        let log = Log::lines(crate::log::Level::Info);
        let peer = ([127, 0, 0, 1], 7).into();
        let monitor = Monitor::new(config.clone(), host_keys, peer, peer, log.clone());
        let user = users::current().unwrap().unwrap().name;
        Self { monitor, key, user, log, config, _directory: directory }
    }

    /// Returns the paths of the host keys.
    pub(crate) fn host_keys(&self) -> [std::path::PathBuf; 2] {
        ["one", "two"].map(|name| self._directory.path().join(name))
    }

    /// Replaces the monitor by a new one, which does not sleep.
    pub(crate) fn begin_again(&mut self) {
        let host_keys = self.host_keys().map(|path| HostKey::load(&path).unwrap()).into();
        let peer = ([127, 0, 0, 1], 7).into();
        self.monitor = Monitor::new(self.config.clone(), host_keys, peer, peer, self.log.clone());
        self.monitor.attempts.pause = |_| {};
    }

    fn decide(&mut self, method: Method) -> Result<Verdict, Unexpected> {
        let attempt = Attempt { user: self.user.clone(), method };
        self.monitor.decide(&attempt).map(|decision| decision.verdict)
    }

    /// A query whether this key is acceptable.
    pub(crate) fn query(&self, key: &PublicKey) -> Method {
        Method::PublicKey(PublicKeyAttempt {
            algorithm: "ssh-ed25519".into(),
            key: key.blob().to_vec(),
            signature: None,
            signed: Vec::new(),
            hostbound: false,
        })
    }

    /// An attempt with a client's signature for the session `session_id`.
    pub(crate) fn signed(&self, session_id: &[u8], user: &str, host_key: Option<&[u8]>) -> Method {
        let key = self.key.public().blob();
        let request = KeyRequest { algorithm: "ssh-ed25519", key, host_key };
        let data = lh_auth::signed_data(session_id, user.as_bytes(), &request);
        Method::PublicKey(PublicKeyAttempt {
            algorithm: "ssh-ed25519".into(),
            key: key.to_vec(),
            signature: Some(self.key.sign("ssh-ed25519", &data).unwrap()),
            // A false claim of the attacker, which is ignored.
            signed: data,
            hostbound: host_key.is_some(),
        })
    }
}

#[test]
fn one_signature_before_anybody_is_in_and_only_of_hashes() {
    let mut scene = Scene::new("");
    let monitor = &mut scene.monitor;
    assert_eq!(monitor.sign_again(0, "ssh-ed25519", &[1; 32]).unwrap_err(), Unexpected::Time);
    for length in [0, 1, 31, 33, 65, 1000] {
        let refused = monitor.sign_first(0, "ssh-ed25519", &vec![1; length]);
        assert_eq!(refused.unwrap_err(), Unexpected::HashLength(length));
    }
    assert_eq!(monitor.sign_first(2, "ssh-ed25519", &[1; 32]).unwrap_err(), Unexpected::HostKey);
    assert_eq!(monitor.sign_first(0, "rsa-sha2-256", &[1; 32]).unwrap_err(), Unexpected::HostKey);
    assert!(monitor.sign_first(0, "ssh-ed25519", &[1; 32]).unwrap().is_ok());
    assert_eq!(monitor.sign_first(0, "ssh-ed25519", &[1; 32]).unwrap_err(), Unexpected::Time);
    assert_eq!(monitor.prove("ssh-ed25519", b"").unwrap_err(), Unexpected::Time);
    assert!(monitor.grant(Zeroizing::default()).is_err());
}

/// Covers: wire publickey-hostbound-v00@openssh.com
#[test]
fn a_signature_counts_for_this_session_user_and_host_key() {
    let id = [3; 32];
    for hostbound in [false, true] {
        let mut scene = Scene::new("MaxAuthTries 20");
        assert_eq!(scene.decide(Method::None).unwrap_err(), Unexpected::Time);
        scene.monitor.sign_first(1, "ssh-ed25519", &id).unwrap().unwrap();
        let shown = scene.monitor.signer.keys()[1].public().blob().to_vec();
        let other = scene.monitor.signer.keys()[0].public().blob().to_vec();
        let user = scene.user.clone();
        let mut wrong = vec![
            scene.signed(&[4; 32], &user, None),
            scene.signed(&[], &user, None),
            scene.signed(&id, "somebody", None),
            scene.signed(&id, &user, Some(&other)),
        ];
        if let Method::PublicKey(mut attempt) = scene.signed(&id, &user, Some(&shown)) {
            attempt.hostbound = false;
            wrong.push(Method::PublicKey(attempt));
        }
        for method in wrong {
            assert!(matches!(scene.decide(method), Ok(Verdict::Reject { partial: false, .. })));
            assert!(!scene.monitor.accepted());
        }
        let right = scene.signed(&id, &user, hostbound.then_some(&shown[..]));
        assert_eq!(scene.decide(right), Ok(Verdict::Accept));
        // No further attempt is decided, and the connection is handed over once.
        assert_eq!(scene.decide(Method::None).unwrap_err(), Unexpected::Time);
        let grant = scene.monitor.grant(vec![1, 2].into()).unwrap();
        assert_eq!((grant.user.name, grant.session_id, &grant.state[..]), (user, id.to_vec(), &[1, 2][..]));
        assert!(scene.monitor.grant(Zeroizing::default()).is_err());
        assert!(scene.monitor.sign_again(0, "ssh-ed25519", &[1; 64]).unwrap().is_ok());
        assert!(scene.monitor.prove("ssh-ed25519", &other).unwrap().is_ok());
        assert_eq!(scene.monitor.prove("ssh-ed25519", b"x").unwrap_err(), Unexpected::HostKey);
    }
}

#[test]
fn long_names_make_no_long_lines() {
    let mut scene = Scene::new("");
    scene.user = "x".repeat(1024);
    scene.monitor.sign_first(0, "ssh-ed25519", &[1; 32]).unwrap().unwrap();
    for method in [Method::None, Method::Other("m".repeat(100_000)), Method::PasswordChange] {
        scene.decide(method).unwrap();
    }
    let lines = scene.log.taken();
    assert!(lines.iter().any(|line| line.starts_with("Invalid user xxx")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("Failed mmm")), "{lines:?}");
    for line in lines {
        assert!(line.len() < 300 && line.contains(" from 127.0.0.1 port 7"), "{line}");
    }
}

#[test]
fn attempts_are_counted_where_nobody_can_forget_them() {
    let mut scene = Scene::new("MaxAuthTries 3\nPasswordAuthentication no");
    scene.monitor.sign_first(0, "ssh-ed25519", &[3; 32]).unwrap().unwrap();
    let responses = Method::Responses(vec![Zeroizing::new(b"guess".to_vec())]);
    assert_eq!(scene.decide(responses).unwrap_err(), Unexpected::Time);
    assert!(matches!(scene.decide(Method::None), Ok(Verdict::Reject { .. })));
    let attempt = Attempt { user: "another".into(), method: Method::None };
    assert_eq!(scene.monitor.decide(&attempt).unwrap_err(), Unexpected::User);
    let guess = || Method::Password(Zeroizing::new(b"guess".to_vec()));
    assert!(matches!(scene.decide(guess()), Ok(Verdict::Reject { .. })));
    assert!(matches!(scene.decide(guess()), Ok(Verdict::Reject { .. })));
    assert_eq!(scene.decide(guess()), Ok(Verdict::TooMany));
    assert!(scene.log.taken().iter().any(|line| line.contains("maximum authentication attempts exceeded")));
    let right = scene.signed(&[3; 32], &scene.user.clone(), None);
    assert_eq!(scene.decide(right).unwrap_err(), Unexpected::Time);
}

#[test]
fn none_tells_nothing_where_it_is_not_wanted() {
    // A client that has proven nothing cannot tell an account without a password from others.
    let mut scene = Scene::new("PermitEmptyPasswords yes\nAuthenticationMethods publickey");
    scene.monitor.sign_first(0, "ssh-ed25519", &[3; 32]).unwrap().unwrap();
    let methods = vec!["publickey".to_owned()];
    let refused = Ok(Verdict::Reject { methods, partial: false });
    assert_eq!(scene.decide(Method::None), refused);
    let candidate = scene.monitor.candidate.as_ref().unwrap();
    assert!(!may_begin_with(candidate, "none") && may_begin_with(candidate, "publickey"));
    for lines in ["AuthenticationMethods none", "AuthenticationMethods any"] {
        let mut scene = Scene::new(lines);
        scene.monitor.sign_first(0, "ssh-ed25519", &[3; 32]).unwrap().unwrap();
        let _ = scene.decide(Method::None);
        assert!(may_begin_with(scene.monitor.candidate.as_ref().unwrap(), "none"));
    }
}

#[test]
fn a_client_without_methods_is_disconnected() {
    let mut scene = Scene::new("AuthenticationMethods publickey\nMatch all\nPubkeyAuthentication no");
    scene.monitor.sign_first(0, "ssh-ed25519", &[3; 32]).unwrap().unwrap();
    assert_eq!(scene.decide(Method::None), Ok(Verdict::NoMethods));
    assert_eq!(scene.decide(Method::None), Err(Unexpected::Time));
    let lines = scene.log.taken();
    assert!(lines.iter().any(|line| line.contains("No AuthenticationMethods left")), "{lines:?}");
}

#[test]
fn requests_that_do_not_fail_are_counted() {
    let mut scene = Scene::new("AuthenticationMethods any");
    scene.monitor.attempts.pause = |_| {};
    scene.monitor.sign_first(0, "ssh-ed25519", &[3; 32]).unwrap().unwrap();
    let queries: Vec<Method> = (0..129).map(|_| scene.query(scene.key.public())).collect();
    let mut verdicts = Vec::new();
    for (number, method) in queries.into_iter().enumerate() {
        // A prompt in between counts as well.
        let method = if number % 16 == 15 { Method::KeyboardInteractive(String::new()) } else { method };
        verdicts.push(scene.decide(method).unwrap());
    }
    let last = verdicts.pop().unwrap();
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::KeyOk | Verdict::Prompt(_))));
    assert_eq!(last, Verdict::TooMany);
    assert!(scene.log.taken().iter().any(|line| line.contains("without a failure")));
    let right = scene.signed(&[3; 32], &scene.user.clone(), None);
    assert_eq!(scene.decide(right).unwrap_err(), Unexpected::Time);
}

/// Counts as OpenSSH 10.6 does: queries about acceptable keys are no failures, and use up no free query.
///
/// Covers: sshd_config PubkeyAuthOptions (max-pk-ok); sshd_config MaxAuthTries (queries about keys)
#[test]
fn the_first_queries_about_other_keys_are_free() {
    for (lines, answered) in [
        ("MaxAuthTries 3", 8),
        ("MaxAuthTries 6\nPubkeyAuthOptions max-pk-ok:3", 8),
        ("MaxAuthTries 3\nPubkeyAuthOptions none", 2),
        ("MaxAuthTries 3\nPubkeyAuthOptions touch-required", 2),
        ("MaxAuthTries 3\nPubkeyAuthOptions max-pk-ok:0", 2),
        ("MaxAuthTries 3\nPubkeyAuthOptions touch-required max-pk-ok:2", 4),
        ("MaxAuthTries 3\nMatch all\nPubkeyAuthOptions max-pk-ok:1", 3),
    ] {
        let mut scene = Scene::new(lines);
        scene.monitor.attempts.pause = |_| {};
        scene.monitor.sign_first(0, "ssh-ed25519", &[3; 32]).unwrap().unwrap();
        let other = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
        for _ in 0..answered {
            let right = scene.query(&scene.key.public().clone());
            assert_eq!(scene.decide(right), Ok(Verdict::KeyOk), "{lines}");
            let wrong = scene.query(other.public());
            assert!(matches!(scene.decide(wrong), Ok(Verdict::Reject { partial: false, .. })), "{lines}");
            // A client that leaves now has made an attempt, which PerSourcePenalties penalizes.
            assert_eq!(scene.monitor.asked(), Asked::Failed { exists: true }, "{lines}");
        }
        // The usage logs count all attempts.
        assert_eq!(scene.monitor.failures(), answered, "{lines}");
        let wrong = scene.query(other.public());
        assert_eq!(scene.decide(wrong), Ok(Verdict::TooMany), "{lines}");
    }
    // A wrong signature counts as a failure from the first one on.
    let mut scene = Scene::new("MaxAuthTries 1");
    scene.monitor.sign_first(0, "ssh-ed25519", &[3; 32]).unwrap().unwrap();
    let wrong = scene.signed(&[4; 32], &scene.user.clone(), None);
    assert_eq!(scene.decide(wrong), Ok(Verdict::TooMany));
}

#[test]
fn key_files_are_read_once_for_each_connection() {
    let mut scene = Scene::new("");
    scene.monitor.sign_first(0, "ssh-ed25519", &[3; 32]).unwrap().unwrap();
    let attempt = scene.signed(&[4; 32], &scene.user.clone(), None);
    assert!(matches!(scene.decide(attempt), Ok(Verdict::Reject { .. })));
    std::fs::remove_file(scene._directory.path().join("authorized")).unwrap();
    let right = scene.signed(&[3; 32], &scene.user.clone(), None);
    assert_eq!(scene.decide(right), Ok(Verdict::Accept));
}

#[test]
fn large_key_files_are_read_for_each_query() {
    let mut scene = Scene::new("");
    let authorized = scene._directory.path().join("authorized");
    let line = scene.key.public().to_openssh_line("");
    std::fs::write(&authorized, format!("{}{line}", "# comment\n".repeat(200_000))).unwrap();
    scene.monitor.sign_first(0, "ssh-ed25519", &[3; 32]).unwrap().unwrap();
    let query = scene.query(scene.key.public());
    assert!(matches!(scene.decide(query), Ok(Verdict::KeyOk)));
    // Nothing of the file has stayed in memory.
    std::fs::remove_file(authorized).unwrap();
    let right = scene.signed(&[3; 32], &scene.user.clone(), None);
    assert!(matches!(scene.decide(right), Ok(Verdict::Reject { .. })));
}

#[test]
fn signatures_after_the_login_have_a_rate() {
    let mut scene = Scene::new("");
    scene.monitor.sign_first(0, "ssh-ed25519", &[3; 32]).unwrap().unwrap();
    let right = scene.signed(&[3; 32], &scene.user.clone(), None);
    assert_eq!(scene.decide(right), Ok(Verdict::Accept));
    scene.monitor.grant(Zeroizing::default()).unwrap();
    let key = scene.monitor.signer.keys()[0].public().blob().to_vec();
    // However fast this machine signs, the bucket empties: it gains only 64 signatures a second.
    let mut refused = None;
    for _ in 0..1_000_000 {
        let signed = scene.monitor.sign_again(0, "ssh-ed25519", &[1; 32]).map(drop);
        if let Err(problem) = signed.and_then(|()| scene.monitor.prove("ssh-ed25519", &key).map(drop)) {
            refused = Some(problem);
            break;
        }
    }
    assert!(matches!(refused, Some(Unexpected::SigningRate(..))), "{refused:?}");
}

#[test]
fn failures_take_a_time_that_needs_the_secret() {
    let keys = [DelayKey::random(), DelayKey::random()];
    let times = |key: &DelayKey| -> Vec<Duration> {
        ["root", "ada", "nobody-such", ""].map(|user| extra_fail_time(user, key)).to_vec()
    };
    assert_eq!(times(&keys[0]), times(&keys[0]));
    assert_ne!(times(&keys[0]), times(&keys[1]));
    assert!(times(&keys[0]).iter().all(|time| *time < Duration::from_millis(4)));
}

/// A security key in software: an Ed25519 key with freely chosen attestation flags.
struct Token {
    key: PrivateKey,
    blob: Vec<u8>,
}

impl Token {
    const KIND: &str = "sk-ssh-ed25519@openssh.com";

    fn new() -> Self {
        let key = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
        let mut reader = lh_wire::Reader::new(key.public().blob());
        let (_, point) = (reader.string().unwrap(), reader.string().unwrap());
        let mut blob = Vec::new();
        blob.put_string(Self::KIND.as_bytes());
        blob.put_string(point);
        blob.put_string(b"ssh:");
        Self { key, blob }
    }

    fn sign(&self, data: &[u8], flags: u8) -> Vec<u8> {
        let hash = |data: &[u8]| lh_crypto::Hash::Sha256.digest(&[data]).as_ref().to_vec();
        let signed = [&hash(b"ssh:")[..], &[flags, 0, 0, 0, 9], &hash(data)].concat();
        let blob = self.key.sign("ssh-ed25519", &signed).unwrap();
        let mut reader = lh_wire::Reader::new(&blob);
        let (_, signature) = (reader.string().unwrap(), reader.string().unwrap());
        let mut out = Vec::new();
        out.put_string(Self::KIND.as_bytes());
        out.put_string(signature);
        out.put_u8(flags);
        out.put_u32(9);
        out
    }
}

/// Covers: sshd_config PubkeyAuthOptions; authorized_keys no-touch-required; authorized_keys verify-required
#[test]
fn security_keys_must_have_done_what_is_asked() {
    const TOUCHED: u8 = 1;
    const VERIFIED: u8 = 4;
    let id = [3; 32];
    for (config, options, flags, enough) in [
        ("", "", TOUCHED, true),
        ("", "", 0, false),
        ("", "", VERIFIED, false),
        ("", "no-touch-required ", 0, true),
        ("PubkeyAuthOptions touch-required", "no-touch-required ", 0, false),
        ("", "verify-required ", TOUCHED, false),
        ("", "verify-required ", TOUCHED | VERIFIED, true),
        ("PubkeyAuthOptions verify-required", "", TOUCHED, false),
        ("PubkeyAuthOptions verify-required", "", TOUCHED | VERIFIED, true),
    ] {
        let mut scene = Scene::new(config);
        let token = Token::new();
        let line = PublicKey::from_blob(&token.blob).unwrap().to_openssh_line("");
        std::fs::write(scene._directory.path().join("authorized"), format!("{options}{line}\n")).unwrap();
        scene.monitor.sign_first(0, "ssh-ed25519", &id).unwrap().unwrap();
        let request = KeyRequest { algorithm: Token::KIND, key: &token.blob, host_key: None };
        let data = lh_auth::signed_data(&id, scene.user.as_bytes(), &request);
        let method = Method::PublicKey(PublicKeyAttempt {
            algorithm: Token::KIND.into(),
            key: token.blob.clone(),
            signature: Some(token.sign(&data, flags)),
            signed: Vec::new(),
            hostbound: false,
        });
        let verdict = scene.decide(method).unwrap();
        let log = scene.log.taken();
        assert_eq!(verdict == Verdict::Accept, enough, "{config} {options} {flags}: {log:?}");
        let said = log.iter().any(|line| line.contains("requirement not met"));
        assert_eq!(said, !enough, "{config} {options} {flags}: {log:?}");
    }
}
