//! Destination constraints: the hosts for which a key may be used (OpenSSH's PROTOCOL.agent sections 1 and
//! 2).
//!
//! A client that uses the agent for a session first *binds* its connection to it, with the host's signature
//! from the key exchange. When the connection is forwarded from host to host, each client on the path adds a
//! binding. So the list is the path from this machine to the host where a key is used, and no host on it can
//! omit itself.

use std::time::{SystemTime, UNIX_EPOCH};

use lh_agent::{Destination, Hop, SessionBind};
use lh_config::pattern::wildcard;
use lh_crypto::{CertificateKind, PublicKey, key_algorithms};
use lh_wire::{Reader, WireError};

use crate::error::{BindError, NotPermitted};

/// Upper limit of a session identifier, bytes; OpenSSH's limit.
const MOST_ID: usize = 128;
/// Upper limit of bindings of one connection; OpenSSH's limit.
const MOST_BINDINGS: usize = 16;

/// One host on the path.
#[derive(Debug, Clone)]
struct Binding {
    session: Vec<u8>,
    host: PublicKey,
    /// The connection is forwarded to that host; otherwise it is for logging in there.
    forwarding: bool,
}

/// The path from this machine to the client of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bindings {
    list: Vec<Binding>,
    attempted: bool,
}

/// A parsed login request.
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
    /// The host has not signed the session, or the binding does not fit the earlier ones.
    pub(crate) fn bind(&mut self, bind: &SessionBind<'_>) -> Result<(), BindError> {
        self.attempted = true;
        if bind.session_id.len() > MOST_ID {
            return Err(BindError::LongSession);
        }
        let host = PublicKey::from_blob(bind.host_key).map_err(BindError::HostKey)?;
        let algorithm = Reader::new(bind.signature).text().map_err(BindError::SignatureForm)?;
        host.plain().verify(algorithm, bind.session_id, bind.signature)?;
        for known in &self.list {
            if !known.forwarding {
                return Err(BindError::BoundForLogin);
            }
            match (known.session == bind.session_id, known.host == host) {
                (true, true) => return Ok(()),
                (true, false) => return Err(BindError::OtherHostKey),
                // Several sessions with one host are permitted.
                (false, _) => {}
            }
        }
        if self.list.len() >= MOST_BINDINGS {
            return Err(BindError::TooMany);
        }
        self.list.push(Binding { session: bind.session_id.to_vec(), host, forwarding: bind.forwarding });
        Ok(())
    }

    /// Records that a binding failed before [`bind`](Self::bind) could check it.
    pub(crate) const fn note_failure(&mut self) {
        self.attempted = true;
    }

    /// Returns whether requests come from another host, or may: only programs that use the agent for a
    /// session try to bind, so a connection with a failed binding is not local either.
    pub(crate) const fn is_remote(&self) -> bool {
        self.attempted
    }

    /// Checks that a key with these constraints may be listed. With a user, checks that it may be used to log
    /// in as that user at the end of the path.
    ///
    /// # Errors
    /// The path is another one, or unknown.
    pub(crate) fn permit(&self, constraints: &[Destination], user: Option<&str>) -> Result<(), NotPermitted> {
        if constraints.is_empty() {
            return Ok(());
        }
        let Some(last) = self.list.last() else {
            return if self.attempted { Err(NotPermitted::BindingFailed) } else { Ok(()) };
        };
        let mut from = None;
        for (index, hop) in self.list.iter().enumerate() {
            let is_last = index + 1 == self.list.len();
            match (is_last, hop.forwarding) {
                (true, true) if user.is_some() => return Err(NotPermitted::BoundForForwarding),
                (false, false) => return Err(NotPermitted::BehindLogin),
                _ => {}
            }
            let user = user.filter(|_| is_last);
            if !constraints.iter().any(|each| allows(each, from, Some(&hop.host), user)) {
                return Err(NotPermitted::OtherPath);
            }
            from = Some(&hop.host);
        }
        // A key that may be used to reach a host, but not from there on, is not listed there.
        if last.forwarding
            && user.is_none()
            && !constraints.iter().any(|each| allows(each, Some(&last.host), None, None))
        {
            return Err(NotPermitted::NotBeyond);
        }
        Ok(())
    }

    /// Checks that a key with constraints may sign `data`, which must be a login request for the end of the
    /// path. Returns the parsed request.
    ///
    /// # Errors
    /// The data are no such request, or the path is another one.
    pub(crate) fn permit_signature<'d>(
        &self,
        constraints: &[Destination],
        key: &PublicKey,
        data: &'d [u8],
    ) -> Result<LoginRequest<'d>, NotPermitted> {
        let last = self.list.last().ok_or(NotPermitted::NotBound)?;
        let request = LoginRequest::parse(data, key).map_err(|_| NotPermitted::NoLogin)?;
        self.permit(constraints, Some(request.user))?;
        if request.session != last.session {
            return Err(NotPermitted::OtherSession);
        }
        match &request.host {
            Some(host) if *host != last.host => Err(NotPermitted::OtherHost),
            None if self.list.len() > 1 => Err(NotPermitted::HostNotNamed),
            _ => Ok(request),
        }
    }
}

impl<'a> LoginRequest<'a> {
    /// Parses the signed data of a login request (RFC 4252 section 7) for exactly this key.
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

/// Returns whether one constraint covers this step. `from` is `None` for this machine; `to` is `None` to ask
/// whether any further step is permitted.
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

/// Returns whether a host that presented `key` is the host of the constraint.
fn is_host(key: &PublicKey, hop: &Hop) -> bool {
    hop.keys.iter().any(|known| match key.certificate() {
        None => !known.is_ca && known.key == *key,
        Some(certificate) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
            known.is_ca
                && *certificate.authority() == known.key
                && certificate.verify(&key_algorithms::AUTHORITY).is_ok()
                && certificate.check(CertificateKind::Host, &hop.host, now, &[]).is_ok()
        }
    })
}

/// Returns the data of a login request (RFC 4252 section 7), with the host's key if there is one. For tests.
#[cfg(any(test, fuzzing))]
pub(crate) fn login_data(session: &[u8], user: &str, key: &PublicKey, host: Option<&PublicKey>) -> Vec<u8> {
    use lh_wire::Writer as _;

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
        data.put_string(host.blob());
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_agent::HopKey;
    use lh_crypto::{KeyType, PrivateKey};

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

        fn bind(&self, session: &[u8], forwarding: bool, bindings: &mut Bindings) -> Result<(), BindError> {
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
        login_data(session, user, key, host.map(|host| host.key.public()))
    }

    #[test]
    fn constrained_key_works_at_its_host_only() {
        let (here, elsewhere, user_key) = (Host::new("a"), Host::new("b"), Host::new(""));
        let key = user_key.key.public();
        let only = [Destination { from: Hop::default(), to: here.hop("m*") }];
        let unbound = Bindings::default();
        assert!(unbound.permit(&only, None).is_ok(), "listed for the user's own programs");
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
    fn second_hop_needs_a_permitted_path() {
        let (a, b, user_key) = (Host::new("a"), Host::new("b"), Host::new(""));
        let key = user_key.key.public();
        let way = [
            Destination { from: Hop::default(), to: a.hop("") },
            Destination { from: a.hop(""), to: b.hop("") },
        ];
        let mut bound = Bindings::default();
        a.bind(b"s1", true, &mut bound).expect("bound");
        assert!(bound.permit(&way, None).is_ok(), "listed at a, where it is needed");
        assert!(bound.permit(&way[..1], None).is_err(), "a key for a alone is not listed there");
        assert!(bound.permit(&way, Some("me")).is_err(), "no login over a forwarding binding");
        b.bind(b"s2", false, &mut bound).expect("bound");
        assert!(bound.permit_signature(&way, key, &login(b"s2", "me", key, Some(&b))).is_ok());
        assert!(bound.permit_signature(&way, key, &login(b"s2", "me", key, None)).is_err());
        assert!(a.bind(b"s3", true, &mut bound).is_err(), "no binding may follow a login");
    }

    #[test]
    fn bindings_are_verified_and_failures_remembered() {
        let (a, b) = (Host::new("a"), Host::new("b"));
        let mut bindings = Bindings::default();
        let signature = b.key.sign("ssh-ed25519", b"s1").expect("signs");
        let lie = SessionBind {
            host_key: a.key.public().blob(),
            session_id: b"s1",
            signature: &signature,
            forwarding: false,
        };
        assert!(!bindings.is_remote());
        assert!(bindings.bind(&lie).is_err());
        assert!(bindings.is_remote());
        let only = [Destination { from: Hop::default(), to: a.hop("") }];
        assert!(bindings.permit(&only, None).is_err());
        assert!(bindings.permit(&[], None).is_ok());
        let mut many = Bindings::default();
        for number in 0..MOST_BINDINGS {
            a.bind(&[number as u8], true, &mut many).expect("bound");
        }
        assert!(a.bind(b"one more", true, &mut many).is_err());
        assert!(a.bind(&[0], true, &mut many).is_ok(), "already bound");
        assert!(b.bind(&[0], true, &mut many).is_err(), "another host for a known session");
    }
}
