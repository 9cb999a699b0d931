//! `publickey` (RFC 4252 section 7): chooses the next key, and whether to offer it or to sign at once.

use lh_crypto::PublicKey;

use super::exchange::Exchange;
use crate::identity::{Identities, SignFailure};
use crate::log::Log;

/// The method's name.
pub(super) const METHOD: &str = "publickey";

/// The keys of a login, and how many of them have been tried.
#[derive(Default)]
pub(super) struct PublicKeys {
    /// Found when the method is first tried, so that the agent and the disk are not read in vain.
    identities: Option<Identities>,
    next: usize,
    /// The identity of the last request.
    used: Option<usize>,
}

impl PublicKeys {
    /// Sends the first key after the first request (`none`), without waiting for a reply. It does so only if
    /// the user has configured the key for this host, or the server has announced that it accepts keys: other
    /// servers count it as a failure. Returns false if no key was sent.
    pub(super) fn send_first(&mut self, exchange: &mut Exchange<'_>, log: &mut Log<'_>) -> bool {
        let config = exchange.config;
        if config.methods.first().is_none_or(|first| first != METHOD) {
            return false;
        }
        let identities =
            self.identities.get_or_insert_with(|| Identities::gather(config.identities.clone(), log));
        // The user must not be asked for a passphrase before the server is known to want the key.
        let wanted = exchange.packets.wants_keys();
        let hopeless = identities.list.iter().take_while(|identity| identity.is_hopeless()).count();
        let Some(first) = identities.list.get(hopeless).filter(|first| first.explicit || wanted) else {
            return false;
        };
        // The server may send its algorithms for this user only with the reply to `none`. For RSA keys they
        // decide how to sign; for other key types, whether to sign.
        let server = exchange.packets.server_sig_algs();
        let one_way = first.public.as_ref().is_some_and(|public| {
            public.plain().key_type() != "ssh-rsa"
                && choose_algorithm(public, &config.pubkey_algorithms, server.as_deref()).is_some()
        });
        if !one_way {
            return false;
        }
        // These keys only report the errors of their files.
        for _ in 0..hopeless {
            self.offer_one(exchange, log);
        }
        self.offer_one(exchange, log)
    }

    /// True if a signature has needed the user.
    pub(super) fn needed_user(&self) -> bool {
        self.identities.as_ref().is_some_and(Identities::needed_user)
    }

    /// Adds an accepted key from a file to the agent, where that is configured.
    pub(super) fn on_accepted(&self, log: &mut Log<'_>) {
        if let (Some(index), Some(identities)) = (self.used, &self.identities) {
            identities.add_to_agent(index, log);
        }
    }

    /// Offers the next usable key. False if none is left.
    pub(super) fn offer(&mut self, exchange: &mut Exchange<'_>, log: &mut Log<'_>) -> bool {
        let config = exchange.config;
        let count = self
            .identities
            .get_or_insert_with(|| Identities::gather(config.identities.clone(), log))
            .list
            .len();
        while self.next < count {
            if self.offer_one(exchange, log) {
                return true;
            }
        }
        false
    }

    /// Offers the next key, or signs with it at once if that needs no user. False if the key is unusable.
    fn offer_one(&mut self, exchange: &mut Exchange<'_>, log: &mut Log<'_>) -> bool {
        let config = exchange.config;
        let server = exchange.packets.server_sig_algs();
        exchange.machine.bind_host_key(exchange.packets.bound_host_key().as_deref());
        let Some(identities) = &mut self.identities else { return false };
        let index = self.next;
        self.next += 1;
        let Some(identity) = identities.list.get(index) else { return false };
        if identity.public.is_none() {
            log.debug(|| format!("Trying private key: {}", identity.name));
            // No passphrase helps with a broken file, so its error is reported in batch mode too.
            let asks = !identity.is_hopeless();
            if (asks && log.is_batch()) || identities.load(index, log).is_err() {
                return false;
            }
        }
        let Some(identity) = identities.list.get(index) else { return false };
        let Some(public) = identity.public.clone() else { return false };
        if public.plain().key_type() == "ssh-rsa" && public.bits() < config.required_rsa_size as usize {
            log.debug(|| format!("Skipping key {}: RSA key too small", identity.name));
            return false;
        }
        let Some(algorithm) = choose_algorithm(&public, &config.pubkey_algorithms, server.as_deref()) else {
            log.debug(|| {
                format!("Skipping {} key {} - no mutual algorithm", public.key_type(), identity.name)
            });
            return false;
        };
        if identities.signer(index).is_none() {
            log.debug(|| format!("no private key for certificate \"{}\"", identity.name));
            return false;
        }
        log.debug(|| format!("Offering public key: {}", identity.describe(config.identities.fingerprint)));
        if identities.is_ready(index) {
            log.debug2(|| format!("signing at once with key {}", identity.name));
            let data = exchange.machine.signature_data(&algorithm, public.blob());
            match identities.sign(index, &algorithm, &data, log) {
                Ok(signature) => {
                    exchange.machine.signed_key(
                        &algorithm,
                        public.blob(),
                        &signature,
                        exchange.packets.sink(),
                    );
                    exchange.packets.send_early_data();
                }
                Err(SignFailure::Skip) => return false,
            }
        } else {
            exchange.machine.offer_key(&algorithm, public.blob(), exchange.packets.sink());
        }
        self.used = Some(index);
        true
    }

    /// Signs with the key that was offered last, which the server accepts. False if that is not possible.
    pub(super) fn sign_accepted(
        &mut self,
        algorithm: &str,
        key: &[u8],
        exchange: &mut Exchange<'_>,
        log: &mut Log<'_>,
    ) -> bool {
        let hash = exchange.config.identities.fingerprint;
        if let (Some(index), Some(identities)) = (self.used, &mut self.identities) {
            let identity = identities.list.get(index);
            let offered = identity.is_some_and(|i| i.public.as_ref().is_some_and(|p| p.blob() == key));
            if let (Some(identity), true) = (identity, offered) {
                log.debug(|| format!("Server accepts key: {}", identity.describe(hash)));
                let data = exchange.machine.signature_data(algorithm, key);
                if let Ok(signature) = identities.sign(index, algorithm, &data, log) {
                    exchange.machine.signed_key(algorithm, key, &signature, exchange.packets.sink());
                    exchange.packets.send_early_data();
                    return true;
                }
            }
        }
        false
    }
}

/// Returns the signature algorithm for `key`: the first one that the configuration permits and, for RSA, the
/// server announces (RFC 8308 section 3.1; the plain name covers a certificate). A server without an
/// announcement is old and knows only the key's own name. For RSA that is SHA-1, so a SHA-2 algorithm is
/// tried unless the configuration asks for SHA-1. Other keys have one algorithm, which is offered even if the
/// server does not list it.
pub(super) fn choose_algorithm(key: &PublicKey, allowed: &[String], server: Option<&str>) -> Option<String> {
    let mut usable =
        key.signature_algorithms().iter().copied().filter(|name| allowed.iter().any(|each| each == name));
    match server {
        Some(list) if key.plain().key_type() == "ssh-rsa" => usable.find(|name| {
            let plain = lh_crypto::key_algorithms::plain(name);
            list.split(',').any(|each| each == *name || each == plain)
        }),
        Some(_) => usable.next(),
        None => {
            let all: Vec<&str> = usable.collect();
            all.iter().copied().find(|name| *name == key.key_type()).or_else(|| all.first().copied())
        }
    }
    .map(str::to_owned)
}
