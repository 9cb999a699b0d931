//! The monitor's rules, and the questions of a process that has been taken over.

use super::*;
use lh_auth::KeyRequest;
use lh_auth::server::PublicKeyAttempt;

use lh_crypto::{KeyType, PrivateKey};

/// A monitor for whoever runs the tests, with the key that lets him in.
struct Scene {
    monitor: Monitor,
    key: PrivateKey,
    user: String,
    log: Log,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new(lines: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let private = |name: &str| {
            let key = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, key.to_openssh("", None).unwrap().as_bytes()).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            (key, path)
        };
        let host_keys =
            vec![HostKey::load(&private("one").1).unwrap(), HostKey::load(&private("two").1).unwrap()];
        let (key, _) = private("user");
        let authorized = folder.path().join("authorized");
        std::fs::write(&authorized, key.public().to_openssh_line("")).unwrap();
        let config = crate::testing::config(&format!(
            "StrictModes no\nPermitRootLogin yes\nAuthorizedKeysFile {}\n{lines}",
            authorized.display()
        ));
        let log = Log::lines(crate::log::Level::Info);
        let peer = ([127, 0, 0, 1], 7).into();
        let monitor = Monitor::new(config, host_keys, peer, peer, log.clone());
        let user = users::current().unwrap().unwrap().name;
        Self { monitor, key, user, log, _folder: folder }
    }

    fn decide(&mut self, method: Method) -> Result<Verdict, Unexpected> {
        let attempt = Attempt { user: self.user.clone(), method };
        self.monitor.decide(&attempt).map(|decision| decision.verdict)
    }

    /// An attempt with a signature over what a client of the session `session_id` signs.
    fn signed(&self, session_id: &[u8], user: &str, host_key: Option<&[u8]>) -> Method {
        let key = self.key.public().blob();
        let request = KeyRequest { algorithm: "ssh-ed25519", key, host_key };
        let data = lh_auth::signed_data(session_id, user.as_bytes(), &request);
        Method::PublicKey(PublicKeyAttempt {
            algorithm: "ssh-ed25519".into(),
            key: key.to_vec(),
            signature: Some(self.key.sign("ssh-ed25519", &data).unwrap()),
            // A liar's claim, which counts for nothing.
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

#[test]
fn a_signature_counts_for_this_session_user_and_host_key() {
    let id = [3; 32];
    for hostbound in [false, true] {
        let mut scene = Scene::new("MaxAuthTries 20");
        assert_eq!(scene.decide(Method::None).unwrap_err(), Unexpected::Time);
        scene.monitor.sign_first(1, "ssh-ed25519", &id).unwrap().unwrap();
        let shown = scene.monitor.host_keys[1].public().blob().to_vec();
        let other = scene.monitor.host_keys[0].public().blob().to_vec();
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
        // Nothing more is decided, and the connection moves once.
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
