//! Handling of the agent's requests.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use lh_agent::{Extension, IdentityEntry, Reply, Request, SignFlags, algorithm_for, names};
use lh_crypto::Zeroizing;

use crate::error::WorkError;
use crate::hardware::Job;
use crate::keyring::{Held, Keyring, Private, Refused};
use crate::log::Log;
use crate::permit::Bindings;
use crate::token;

/// Result of a request: the reply, or the event that it waits for.
pub(crate) enum Outcome {
    /// The reply is ready.
    Reply(Reply),
    /// The user must confirm first.
    Ask(Signing),
    /// Handle the request again at this time, not before.
    Wait(Instant),
    /// A security key or a token works.
    Hardware(Work),
}

/// Work that may take long and is done in a thread of its own.
pub(crate) enum Work {
    /// A signature by a security key.
    SecurityKey(Job),
    /// A signature by a token.
    Token(token::Signing),
    /// Loads the library of a token.
    Open(token::Opening),
}

/// Result of [`Work`].
pub(crate) enum WorkDone {
    Signature(Result<Vec<u8>, WorkError>),
    Opened(Result<token::Opened, WorkError>),
}

impl Work {
    pub(crate) fn run(self) -> WorkDone {
        match self {
            Self::SecurityKey(job) => WorkDone::Signature(job.run()),
            Self::Token(signing) => WorkDone::Signature(signing.run()),
            Self::Open(opening) => WorkDone::Opened(opening.run()),
        }
    }
}

/// Returns the reply after finished work.
pub(crate) fn after_work(ring: &mut Keyring, done: WorkDone, now: Instant, log: Log) -> Reply {
    let result = match done {
        WorkDone::Signature(Ok(signature)) => return Reply::Signature(signature),
        WorkDone::Signature(Err(why)) => Err(why),
        WorkDone::Opened(Ok(_)) if ring.lock.is_closed() => Err(WorkError::Locked),
        WorkDone::Opened(Ok(opened)) => {
            let library = opened.library.path.clone();
            ring.add_token(opened, now).map_err(|_| WorkError::Full { library })
        }
        WorkDone::Opened(Err(why)) => Err(why),
    };
    match result {
        Ok(()) => Reply::Success,
        Err(why) => {
            log.error(&why.to_string());
            Reply::Failure
        }
    }
}

/// A signature request that waits for the user's confirmation.
pub(crate) struct Signing {
    /// Blob of the key, which may be gone when the answer comes.
    key: Vec<u8>,
    data: Vec<u8>,
    flags: SignFlags,
    /// Text of the question.
    pub(crate) question: String,
}

/// Upper limit of data that is kept while the user is asked or a security key signs, bytes. Login requests
/// are far shorter; longer data is refused, to bound the memory of many requests.
const MOST_DATA_WAITING: usize = 64 * 1024;

/// Handles one request of a connection.
pub(crate) fn answer(
    ring: &mut Keyring,
    bindings: &mut Bindings,
    request: Request<'_>,
    now: Instant,
    log: Log,
) -> Outcome {
    ring.expire(now);
    // A connection that is bound while the agent is locked stays bound when it is unlocked: a refused binding
    // would make a forwarded connection pass for a local one (CVE-2026-73281).
    let when_locked = matches!(request, Request::Unlock(_) | Request::Extension(Extension::SessionBind(_)));
    if ring.lock.is_closed() && !when_locked {
        // A locked agent shows no keys.
        return Outcome::Reply(match request {
            Request::Identities => Reply::Identities(Vec::new()),
            _ => Reply::Failure,
        });
    }
    let done = |ok: bool| Outcome::Reply(if ok { Reply::Success } else { Reply::Failure });
    match request {
        Request::Identities => Outcome::Reply(identities(ring, bindings)),
        Request::Sign { key, data, flags } => sign(ring, bindings, key, data, flags, log),
        Request::Add { key, comment, mut constraints } => {
            let name = log.name(key.public());
            if let Some(named) = &constraints.sk_provider {
                match ring.rules.provider(named, bindings.is_remote()) {
                    Ok(real) => constraints.sk_provider = Some(real),
                    Err(why) => {
                        log.error(&why.to_string());
                        return done(false);
                    }
                }
            }
            let result = ring.add(&key, comment, constraints, now);
            match result {
                Ok(()) => log.debug(|| format!("added {name}")),
                Err(Refused::NotHardware) => log.error(&format!("{name} is not a security key")),
                Err(Refused::Full) => log.error(&format!("{name}: too many keys")),
            }
            done(result.is_ok())
        }
        Request::Remove { key } => {
            let held = ring.find(key).filter(|held| bindings.permit(&held.destinations, None).is_ok());
            let name = held.map(|held| log.name(&held.public));
            let removed = name.is_some() && ring.remove(key);
            log.debug(|| match (&name, removed) {
                (Some(name), true) => format!("removed {name}"),
                _ => "asked to remove a key that is not here".to_owned(),
            });
            done(removed)
        }
        Request::RemoveAll => {
            log.debug(|| "removed all keys".to_owned());
            ring.clear();
            done(true)
        }
        Request::AddToken { provider, pin, constraints } => {
            match ring.rules.token_library(provider, bindings.is_remote()) {
                Ok(path) => {
                    let pin = Zeroizing::new(String::from_utf8_lossy(pin).into_owned());
                    Outcome::Hardware(Work::Open(token::Opening { path, pin, constraints }))
                }
                Err(why) => {
                    log.error(&why.to_string());
                    done(false)
                }
            }
        }
        Request::RemoveToken { provider, .. } => {
            let real = Path::new(provider).canonicalize().ok();
            done(real.and_then(|path| path.to_str().map(|path| ring.remove_token(path))).unwrap_or(false))
        }
        Request::Lock(passphrase) => done(ring.lock.close(passphrase)),
        Request::Unlock(passphrase) => match ring.lock.wait_until(now) {
            Some(at) => Outcome::Wait(at),
            None => done(ring.lock.open(passphrase, now)),
        },
        Request::Extension(Extension::Query) => Outcome::Reply(Reply::extensions(&[names::SESSION_BIND])),
        Request::Extension(Extension::SessionBind(bind)) => match bindings.bind(&bind) {
            Ok(()) => done(true),
            Err(why) => {
                log.error(&format!("{}: {why}", names::SESSION_BIND));
                Outcome::Reply(Reply::ExtensionFailure)
            }
        },
        Request::Extension(Extension::Other { name, .. }) => {
            log.debug(|| format!("unsupported extension \"{name}\""));
            done(false)
        }
        Request::Unknown(number) => {
            // ssh-add still sends requests of protocol 1, which are not worth a log line.
            if number > 10 {
                log.error(&format!("unknown message {number}"));
            }
            done(false)
        }
    }
}

fn identities(ring: &Keyring, bindings: &Bindings) -> Reply {
    let seen = ring.iter().filter(|held| bindings.permit(&held.destinations, None).is_ok());
    let entry =
        |held: &Held| IdentityEntry { blob: held.public.blob().to_vec(), comment: held.comment.clone() };
    Reply::Identities(seen.map(entry).collect())
}

fn sign(
    ring: &Keyring,
    bindings: &Bindings,
    blob: &[u8],
    data: &[u8],
    flags: SignFlags,
    log: Log,
) -> Outcome {
    let Some(held) = ring.find(blob) else {
        log.debug(|| "asked to sign with a key that is not here".to_owned());
        return Outcome::Reply(Reply::Failure);
    };
    let mut login_text = String::new();
    if !held.destinations.is_empty() {
        match bindings.permit_signature(&held.destinations, &held.public, data) {
            Ok(request) => login_text = format!("\nIt is to log in as {}.", request.user.escape_default()),
            Err(why) => {
                log.error(&format!("refused to use {}: {why}", log.name(&held.public)));
                return Outcome::Reply(Reply::Failure);
            }
        }
    }
    if held.confirm {
        if data.len() > MOST_DATA_WAITING {
            log.error("refused to ask for confirmation: too much data");
            return Outcome::Reply(Reply::Failure);
        }
        let fingerprint = log.fingerprint(&held.public);
        let comment: String = held.comment.chars().filter(|&c| !lh_wire::is_hidden(c)).collect();
        let question = format!("Allow use of key {comment}?\nKey fingerprint {fingerprint}.{login_text}");
        return Outcome::Ask(Signing { key: blob.to_vec(), data: data.to_vec(), flags, question });
    }
    signature(ring, held, data, flags, log)
}

/// Continues a signature request after the user's answer.
pub(crate) fn after_question(
    ring: &mut Keyring,
    asked: &Signing,
    allowed: bool,
    now: Instant,
    log: Log,
) -> Outcome {
    ring.expire(now);
    match ring.find(&asked.key) {
        Some(held) if allowed && !ring.lock.is_closed() => {
            signature(ring, held, &asked.data, asked.flags, log)
        }
        _ => {
            log.error("the user refused the key, or it is gone");
            Outcome::Reply(Reply::Failure)
        }
    }
}

fn signature(ring: &Keyring, held: &Held, data: &[u8], flags: SignFlags, log: Log) -> Outcome {
    let name = || log.name(&held.public);
    let algorithm = algorithm_for(held.public.plain().key_type(), flags);
    let key = match &held.private {
        Private::Here(key) => key,
        Private::Hardware(key, provider) => {
            if data.len() > MOST_DATA_WAITING || !ring.rules.permit(key, data) {
                log.error(&format!("{}: web-origin key attempting to sign non-SSH message", name()));
                return Outcome::Reply(Reply::Failure);
            }
            return Outcome::Hardware(Work::SecurityKey(Job {
                key: Box::new(key.clone()),
                provider: provider.clone(),
                data: data.to_vec(),
                fingerprint: log.fingerprint(&held.public),
            }));
        }
        Private::Token(library) => {
            if data.len() > MOST_DATA_WAITING {
                log.error(&format!("{}: too much data for a token", name()));
                return Outcome::Reply(Reply::Failure);
            }
            return Outcome::Hardware(Work::Token(token::Signing {
                library: Arc::clone(library),
                key: held.public.plain().clone(),
                algorithm: algorithm.to_owned(),
                data: data.to_vec(),
            }));
        }
    };
    Outcome::Reply(match key.sign(algorithm, data) {
        Ok(signature) => {
            log.debug(|| format!("signed with {}", name()));
            Reply::Signature(signature)
        }
        Err(error) => {
            log.error(&format!("{}: {error}", name()));
            Reply::Failure
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Rules;
    use lh_agent::{AddedKey, Constraints, Destination, Hop, HopKey, SessionBind};
    use lh_crypto::{FingerprintHash, KeyType, PrivateKey};

    /// The reply to a request that needs no waiting.
    fn reply(ring: &mut Keyring, bindings: &mut Bindings, request: Request<'_>) -> Reply {
        let log = Log::silent(FingerprintHash::Sha256);
        match answer(ring, bindings, request, Instant::now(), log) {
            Outcome::Reply(reply) => reply,
            _ => panic!("no reply"),
        }
    }

    #[test]
    fn connection_bound_while_locked_stays_remote() {
        let key = || PrivateKey::generate(KeyType::Ed25519, None).expect("a key");
        let (user, host, elsewhere) = (key(), key(), key());
        let keys = vec![HopKey { key: host.public().clone(), is_ca: false }];
        let to = Hop { user: String::new(), host: "a".to_owned(), keys };
        let destinations = vec![Destination { from: Hop::default(), to }];
        let mut ring = Keyring::new(None, Rules::default());
        let constraints = Constraints { destinations, ..Constraints::default() };
        ring.add(&AddedKey::Plain(user), String::new(), constraints, Instant::now()).expect("added");
        let mut bindings = Bindings::default();
        assert!(matches!(reply(&mut ring, &mut bindings, Request::Lock(b"secret")), Reply::Success));
        let signature = elsewhere.sign("ssh-ed25519", b"session").expect("signs");
        let bind = Request::Extension(Extension::SessionBind(SessionBind {
            host_key: elsewhere.public().blob(),
            session_id: b"session",
            signature: &signature,
            forwarding: true,
        }));
        assert!(matches!(reply(&mut ring, &mut bindings, bind), Reply::Success));
        let mut local = Bindings::default();
        assert!(matches!(reply(&mut ring, &mut local, Request::Unlock(b"secret")), Reply::Success));
        assert!(bindings.is_remote());
        let mut listed = |bindings: &mut Bindings| match reply(&mut ring, bindings, Request::Identities) {
            Reply::Identities(list) => list.len(),
            _ => panic!("no list"),
        };
        assert_eq!((listed(&mut local), listed(&mut bindings)), (1, 0));
    }
}
