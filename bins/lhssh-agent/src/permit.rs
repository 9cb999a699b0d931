//! For which hosts a key may be used (OpenSSH's PROTOCOL.agent sections 1 and 2).
//!
//! A client that wants to use the agent for a session first *binds* its connection to it: it shows the host's signature
//! from the key exchange. When the connection itself is forwarded from host to host, each client on the way adds a
//! binding, so that the list is the path from here to where a key is to be used, and no host on it can leave itself out.

use std::time::{SystemTime, UNIX_EPOCH};

use lh_agent::{Destination, Hop, SessionBind};
use lh_config::pattern::wildcard;
use lh_crypto::{CertificateKind, PublicKey, key_algorithms};
use lh_wire::{Reader, WireError};

/// Longest session identifier that is taken, bytes: OpenSSH's limit.
const MOST_ID: usize = 128;
/// Most bindings of one connection: OpenSSH's limit.
const MOST_BINDINGS: usize = 16;

/// One host on the way.
#[derive(Debug, Clone)]
struct Binding {
    session: Vec<u8>,
    host: PublicKey,
    /// What follows comes from that host; otherwise the connection is for logging in there.
    forwarding: bool,
}

/// The way from here to where a connection's requests are for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bindings {
    list: Vec<Binding>,
    attempted: bool,
}

/// Whom a login request is for.
pub(crate) struct LoginRequest<'a> {
    pub(crate) user: &'a str,
    session: &'a [u8],
    /// The host key in the request (`publickey-hostbound-v00@openssh.com`).
    host: Option<PublicKey>,
}

impl Bindings {
    /// Adds a binding.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn bind(&mut self, bind: &SessionBind<'_>) -> Result<(), String> {
        self.attempted = true;
        if bind.session_id.len() > MOST_ID {
            return Err("session identifier too long".to_owned());
        }
        let host = PublicKey::from_blob(bind.host_key).map_err(|error| format!("host key: {error}"))?;
        let algorithm = Reader::new(bind.signature).text().map_err(|error| format!("signature: {error}"))?;
        host.plain()
            .verify(algorithm, bind.session_id, bind.signature)
            .map_err(|error| format!("signature: {error}"))?;
        for known in &self.list {
            if !known.forwarding {
                return Err("connection is already bound for authentication".to_owned());
            }
            match (known.session == bind.session_id, known.host == host) {
                (true, true) => return Ok(()),
                (true, false) => return Err("session recorded with another host key".to_owned()),
                // Several sessions with one host are nothing special.
                (false, _) => {}
            }
        }
        if self.list.len() >= MOST_BINDINGS {
            return Err("too many sessions recorded".to_owned());
        }
        self.list.push(Binding { session: bind.session_id.to_vec(), host, forwarding: bind.forwarding });
        Ok(())
    }

    /// True when requests come from another host.
    pub(crate) fn is_remote(&self) -> bool {
        !self.list.is_empty()
    }

    /// Whether a key with these constraints may be seen, or, with a user, be used to log in as that one at the end of the
    /// way.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn permit(&self, constraints: &[Destination], user: Option<&str>) -> Result<(), &'static str> {
        if constraints.is_empty() {
            return Ok(());
        }
        let Some(last) = self.list.last() else {
            // A failed binding means that something is there which would rather not be seen.
            return if self.attempted { Err("an earlier binding failed") } else { Ok(()) };
        };
        let mut from = None;
        for (index, hop) in self.list.iter().enumerate() {
            let is_last = index + 1 == self.list.len();
            match (is_last, hop.forwarding) {
                (true, true) if user.is_some() => return Err("the connection is bound for forwarding"),
                (false, false) => return Err("forwarded behind a connection bound for authentication"),
                _ => {}
            }
            let user = user.filter(|_| is_last);
            if !constraints.iter().any(|each| allows(each, from, Some(&hop.host), user)) {
                return Err("not permitted on this way");
            }
            from = Some(&hop.host);
        }
        // A key that may be used to get to a host, but not from there on, is not to be seen there.
        if last.forwarding
            && user.is_none()
            && !constraints.iter().any(|each| allows(each, Some(&last.host), None, None))
        {
            return Err("permitted at the host but not beyond");
        }
        Ok(())
    }

    /// Whether a key with constraints may sign `data`, which must be a login request for the end of the way. Returns whom
    /// it is for.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn permit_signature<'d>(
        &self,
        constraints: &[Destination],
        key: &PublicKey,
        data: &'d [u8],
    ) -> Result<LoginRequest<'d>, &'static str> {
        let Some(last) = self.list.last() else {
            return Err("the connection is not bound to a session");
        };
        let request = LoginRequest::parse(data, key).map_err(|_| "this is no login request")?;
        self.permit(constraints, Some(request.user))?;
        if request.session != last.session {
            return Err("the login request is for another session");
        }
        match &request.host {
            Some(host) if *host != last.host => Err("the login request names another host key"),
            // Beyond the first hop the host on the way could pass on a request that is meant for another.
            None if self.list.len() > 1 => Err("the login request does not name its host key"),
            _ => Ok(request),
        }
    }
}

impl<'a> LoginRequest<'a> {
    /// Reads what is signed to log in (RFC 4252 section 7), for this key and nothing else.
    pub(crate) fn parse(data: &'a [u8], key: &PublicKey) -> Result<Self, WireError> {
        const REQUEST: u8 = 50;
        let bad = |what| WireError::Invalid { what };
        let mut reader = Reader::new(data);
        let session = reader.string()?;
        let number = reader.u8()?;
        let user = reader.text()?;
        let service = reader.text()?;
        let method = reader.text()?;
        let signed = reader.boolean()?;
        let _algorithm = reader.text()?;
        let blob = reader.string()?;
        let host = match method {
            "publickey" => None,
            "publickey-hostbound-v00@openssh.com" => Some(PublicKey::from_blob(reader.string()?)?),
            _ => return Err(bad("method")),
        };
        reader.finish()?;
        if number != REQUEST || service != "ssh-connection" || !signed || session.is_empty() {
            return Err(bad("login request"));
        }
        if blob != key.blob() {
            return Err(bad("key"));
        }
        Ok(Self { user, session, host })
    }
}

/// Whether one constraint covers this step. No `from` is here; no `to` asks whether anything may follow.
fn allows(each: &Destination, from: Option<&PublicKey>, to: Option<&PublicKey>, user: Option<&str>) -> bool {
    let from_fits = match from {
        None => each.from.host.is_empty() && each.from.keys.is_empty(),
        Some(key) => is_host(key, &each.from),
    };
    let to_fits = to.is_none_or(|key| is_host(key, &each.to));
    let user_fits =
        each.to.user.is_empty() || user.is_none_or(|user| wildcard(user.as_bytes(), each.to.user.as_bytes()));
    from_fits && to_fits && user_fits
}

/// Whether a host that showed `key` is the one that is meant.
fn is_host(key: &PublicKey, hop: &Hop) -> bool {
    hop.keys.iter().any(|known| match key.certificate() {
        None => !known.is_ca && known.key == *key,
        Some(certificate) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
            known.is_ca
                && *certificate.authority() == known.key
                && certificate.verify(&key_algorithms::PLAIN).is_ok()
                && certificate.check(CertificateKind::Host, &hop.host, now, &[]).is_ok()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_agent::HopKey;
    use lh_crypto::{KeyType, PrivateKey};
    use lh_wire::Writer as _;

    struct Host {
        key: PrivateKey,
        name: &'static str,
    }

    impl Host {
        fn new(name: &'static str) -> Self {
            Self { key: PrivateKey::generate(KeyType::Ed25519, None).expect("a key"), name }
        }

        fn hop(&self, user: &str) -> Hop {
            let keys = vec![HopKey { key: self.key.public().clone(), is_ca: false }];
            Hop { user: user.to_owned(), host: self.name.to_owned(), keys }
        }

        fn bind(&self, session: &[u8], forwarding: bool, bindings: &mut Bindings) -> Result<(), String> {
            let signature = self.key.sign("ssh-ed25519", session).expect("signs");
            bindings.bind(&SessionBind {
                host_key: self.key.public().blob(),
                session_id: session,
                signature: &signature,
                forwarding,
            })
        }
    }

    fn login(session: &[u8], user: &str, key: &PublicKey, host: Option<&Host>) -> Vec<u8> {
        let mut data = Vec::new();
        data.put_string(session);
        data.put_u8(50);
        data.put_string(user.as_bytes());
        data.put_string(b"ssh-connection");
        data.put_string(if host.is_some() { b"publickey-hostbound-v00@openssh.com" } else { b"publickey" });
        data.put_bool(true);
        data.put_string(b"ssh-ed25519");
        data.put_string(key.blob());
        if let Some(host) = host {
            data.put_string(host.key.public().blob());
        }
        data
    }

    #[test]
    fn a_key_for_one_host_is_of_use_there_only() {
        let (here, elsewhere, user_key) = (Host::new("a"), Host::new("b"), Host::new(""));
        let key = user_key.key.public();
        let only = [Destination { from: Hop::default(), to: here.hop("m*") }];
        let unbound = Bindings::default();
        assert!(unbound.permit(&only, None).is_ok(), "listed to the user's own programs");
        assert!(unbound.permit_signature(&only, key, &login(b"s1", "me", key, None)).is_err());
        let mut bound = Bindings::default();
        here.bind(b"s1", false, &mut bound).expect("bound");
        assert!(bound.permit_signature(&only, key, &login(b"s1", "me", key, None)).is_ok());
        assert!(bound.permit_signature(&only, key, &login(b"s1", "me", key, Some(&here))).is_ok());
        for (why, request) in [
            ("another user", login(b"s1", "root", key, None)),
            ("another session", login(b"s2", "me", key, None)),
            ("another host", login(b"s1", "me", key, Some(&elsewhere))),
            ("another key", login(b"s1", "me", here.key.public(), None)),
            ("no login", b"anything".to_vec()),
        ] {
            assert!(bound.permit_signature(&only, key, &request).is_err(), "{why}");
        }
        let mut wrong = Bindings::default();
        elsewhere.bind(b"s1", false, &mut wrong).expect("bound");
        assert!(wrong.permit(&only, None).is_err());
    }

    #[test]
    fn beyond_a_hop_only_where_the_way_is_permitted() {
        let (a, b, user_key) = (Host::new("a"), Host::new("b"), Host::new(""));
        let key = user_key.key.public();
        let way = [
            Destination { from: Hop::default(), to: a.hop("") },
            Destination { from: a.hop(""), to: b.hop("") },
        ];
        let mut bound = Bindings::default();
        a.bind(b"s1", true, &mut bound).expect("bound");
        assert!(bound.permit(&way, None).is_ok(), "seen at a, where it is needed");
        assert!(bound.permit(&way[..1], None).is_err(), "a key for a alone is not seen there");
        assert!(bound.permit(&way, Some("me")).is_err(), "no login over a forwarding");
        b.bind(b"s2", false, &mut bound).expect("bound");
        assert!(bound.permit_signature(&way, key, &login(b"s2", "me", key, Some(&b))).is_ok());
        assert!(bound.permit_signature(&way, key, &login(b"s2", "me", key, None)).is_err());
        assert!(a.bind(b"s3", true, &mut bound).is_err(), "nothing follows a login");
    }

    #[test]
    fn a_binding_must_be_signed_and_a_failed_one_is_remembered() {
        let (a, b) = (Host::new("a"), Host::new("b"));
        let mut bindings = Bindings::default();
        let signature = b.key.sign("ssh-ed25519", b"s1").expect("signs");
        let lie = SessionBind {
            host_key: a.key.public().blob(),
            session_id: b"s1",
            signature: &signature,
            forwarding: false,
        };
        assert!(bindings.bind(&lie).is_err());
        let only = [Destination { from: Hop::default(), to: a.hop("") }];
        assert!(bindings.permit(&only, None).is_err());
        assert!(bindings.permit(&[], None).is_ok());
        let mut many = Bindings::default();
        for number in 0..MOST_BINDINGS {
            a.bind(&[number as u8], true, &mut many).expect("room");
        }
        assert!(a.bind(b"one more", true, &mut many).is_err());
        assert!(a.bind(&[0], true, &mut many).is_ok(), "known already");
        assert!(b.bind(&[0], true, &mut many).is_err(), "another host for a known session");
    }
}
