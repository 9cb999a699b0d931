//! Fuzz entry point for the bindings of a connection to sessions, which decide where a constrained key may be
//! used.

use std::sync::LazyLock;

use lh_agent::{Destination, Hop, HopKey, SessionBind};
use lh_crypto::{KeyType, PrivateKey, PublicKey};

use crate::permit::{Bindings, LoginRequest, login_data};

/// Public key of the user, which a request has to name. It is fixed, so that a corpus keeps its meaning.
const USER_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOUUus2copXEJMn9bETLhihnSgNKH1VD6Fu98OUK/l/d";
/// Number of hosts. The user's key may be used to log in to the first one, and from there to the second one.
const HOSTS: usize = 3;
/// Longest session identifier that a binding may have, bytes.
const MOST_ID: usize = 128;

struct Fixed {
    user_key: PublicKey,
    hosts: Vec<PrivateKey>,
    constraints: Vec<Destination>,
}

static FIXED: LazyLock<Fixed> = LazyLock::new(|| {
    let (user_key, _) = PublicKey::from_openssh_line(USER_KEY).expect("a key");
    let host = |_| PrivateKey::generate(KeyType::Ed25519, None).expect("a key");
    let hosts: Vec<PrivateKey> = (0..HOSTS).map(host).collect();
    let hop = |index: usize, user: &str| {
        let keys = vec![HopKey { key: hosts[index].public().clone(), is_ca: false }];
        Hop { user: user.to_owned(), host: format!("host{index}"), keys }
    };
    let constraints = vec![
        Destination { from: Hop::default(), to: hop(0, "m*") },
        Destination { from: hop(0, ""), to: hop(1, "") },
    ];
    Fixed { user_key, hosts, constraints }
});

/// A binding that was accepted, as the model of this target knows it.
struct Bound {
    host: usize,
    session: Vec<u8>,
    forwarding: bool,
}

/// Parses bindings and login requests of any bytes. Then carries out steps that the bytes choose: bindings
/// that hosts have signed, right and wrong ones, and signatures. What is permitted is compared with a model.
pub fn bindings(bytes: &[u8]) {
    let Fixed { user_key, hosts, constraints } = &*FIXED;
    let half = bytes.len() / 2;
    let (first, rest) = bytes.split_at(half);
    let any = SessionBind { host_key: first, session_id: rest, signature: bytes, forwarding: half % 2 == 0 };
    let mut unbound = Bindings::default();
    assert!(unbound.bind(&any).is_err() && unbound.is_remote());
    assert!(unbound.permit(constraints, None).is_err());
    if let Ok(request) = LoginRequest::parse(bytes, user_key) {
        assert!(unbound.permit_signature(constraints, user_key, bytes).is_err(), "{}", request.user);
    }

    let mut bindings = Bindings::default();
    let mut path: Vec<Bound> = Vec::new();
    for step in bytes.chunks(4) {
        let [kind, host, session, length, ..] = *step else { continue };
        let host = usize::from(host) % HOSTS;
        let session_id = vec![session; usize::from(length)];
        match kind % 4 {
            0 | 1 => {
                let forwarding = kind % 4 == 0;
                let signature = hosts[host].sign("ssh-ed25519", &session_id).expect("signs");
                let host_key = hosts[host].public().blob();
                let bind =
                    SessionBind { host_key, session_id: &session_id, signature: &signature, forwarding };
                let known = path.iter().any(|one| one.session == session_id);
                if bindings.bind(&bind).is_ok() {
                    assert!(session_id.len() <= MOST_ID);
                    assert!(path.iter().all(|one| one.session != session_id || one.host == host));
                    // A repeated binding changes nothing, as in OpenSSH.
                    if !known {
                        assert!(path.iter().all(|one| one.forwarding));
                        path.push(Bound { host, session: session_id, forwarding });
                    }
                }
            }
            // The signature of another host, or of other data.
            2 => {
                let other = &hosts[(host + 1) % HOSTS];
                let signature = other.sign("ssh-ed25519", &session_id).expect("signs");
                let host_key = hosts[host].public().blob();
                let lie = SessionBind {
                    host_key,
                    session_id: &session_id,
                    signature: &signature,
                    forwarding: true,
                };
                assert!(bindings.bind(&lie).is_err());
            }
            _ => {
                let user = if length % 2 == 0 { "me" } else { "root" };
                let named = (length % 3 != 0).then(|| hosts[host].public());
                let data = login_data(&vec![session; usize::from(length)], user, user_key, named);
                if bindings.permit_signature(constraints, user_key, &data).is_ok() {
                    let last = path.last().expect("an unbound connection gets no signature");
                    assert!(!last.forwarding && last.session == session_id);
                    assert!(named.is_none_or(|key| *key == *hosts[last.host].public()));
                    let way: Vec<usize> = path.iter().map(|one| one.host).collect();
                    match way[..] {
                        [0] => assert_eq!(user, "me"),
                        [0, 1] => assert!(named.is_some() && path[0].forwarding),
                        _ => panic!("a signature behind {way:?}"),
                    }
                }
            }
        }
        assert!(path.len() <= 16);
        let _ = bindings.permit(constraints, None);
    }
}
