//! Which algorithms a server offers.

use lh_crypto::registry::Kind;

use crate::target::Target;

/// A host key algorithm for tokens that users touch: no server has such a key.
const NO_HOST_KEY: &[&str] = &["sk-ssh-ed25519@openssh.com"];
/// Names that servers no longer offer, or few do; a server that offers the first is asked for the next.
const RARE_KEX: &[&str] =
    &["diffie-hellman-group1-sha1", "diffie-hellman-group-exchange-sha1", "diffie-hellman-group14-sha1"];
const RARE_CIPHERS: &[&str] = &["3des-cbc", "aes192-cbc", "aes128-cbc"];
const RARE_MACS: &[&str] = &["hmac-md5-96", "hmac-md5", "hmac-sha1-96"];

/// Names of one kind that a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Offered {
    /// These and no others.
    All(Vec<String>),
    /// These, and perhaps others: the server does not tell.
    Some(Vec<String>),
}

impl Default for Offered {
    fn default() -> Self {
        Self::Some(Vec::new())
    }
}

impl Offered {
    /// Returns whether the name is offered, or may be.
    pub(super) fn may_have(&self, name: &str) -> bool {
        matches!(self, Self::Some(_)) || self.surely_has(name)
    }

    /// Returns whether the name is known to be offered.
    pub(super) fn surely_has(&self, name: &str) -> bool {
        let (Self::All(names) | Self::Some(names)) = self;
        names.iter().any(|each| each == name)
    }

    /// Asks with a connection whose negotiation fails: the failure, about this `what`, names all that the
    /// server offers. `rare` are the names to try.
    fn of(target: &Target, what: &str, keyword: &str, rare: &[&str], more: &[(&str, &str)]) -> Self {
        let mut known = Vec::new();
        for name in rare {
            match target.connect(&[more, &[(keyword, name)]].concat()) {
                Ok(mut remote) => {
                    remote.client.close();
                    known.push((*name).to_owned());
                }
                Err(failure) => {
                    return named(&failure.fault.to_string(), what).unwrap_or(Self::Some(known));
                }
            }
        }
        Self::Some(known)
    }

    /// An offer of these names alone.
    #[cfg(test)]
    pub(super) fn all(names: &[&str]) -> Self {
        Self::All(names.iter().map(|name| (*name).to_owned()).collect())
    }
}

/// The algorithms that a server offers.
#[derive(Debug, Clone, Default)]
pub(super) struct Offer {
    pub(super) kex: Offered,
    pub(super) host_keys: Offered,
    pub(super) ciphers: Offered,
    pub(super) macs: Offered,
}

impl Offer {
    /// Asks for all that a run compares; a quick one compares key exchange methods.
    pub(super) fn of(target: &Target, quick: bool) -> Self {
        let ask = |kind: Kind, what: &str, keyword: &str, rare: &[&str], more: &[(&str, &str)]| {
            // What this build does not have cannot be asked for.
            let built = kind.names();
            let rare: Vec<&str> = rare.iter().copied().filter(|name| built.contains(name)).collect();
            Offered::of(target, what, keyword, &rare, more)
        };
        let kex = ask(Kind::Kex, "key exchange method", "KexAlgorithms", RARE_KEX, &[]);
        if quick {
            return Self { kex, ..Self::default() };
        }
        Self {
            kex,
            host_keys: ask(Kind::Key, "host key type", "HostKeyAlgorithms", NO_HOST_KEY, &[]),
            ciphers: ask(Kind::Cipher, "cipher", "Ciphers", RARE_CIPHERS, &[]),
            // Others need no MAC.
            macs: ask(Kind::Mac, "MAC", "MACs", RARE_MACS, &[("Ciphers", "aes128-ctr")]),
        }
    }
}

/// The names in the message about a negotiation that failed for lack of a `what`. Long messages are cut, and
/// the last name with them: then there are others.
fn named(message: &str, what: &str) -> Option<Offered> {
    let (_, names) = message.rsplit_once(&format!("no matching {what} found. Their offer: "))?;
    let list = |names: &str| names.split(',').map(str::to_owned).collect();
    let names = names.trim();
    Some(match names.strip_suffix('…') {
        Some(start) => Offered::Some(list(start.rsplit_once(',').map_or("", |(whole, _)| whole))),
        None => Offered::All(list(names)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offer_is_read_from_the_failure() {
        let message =
            "Unable to negotiate with h port 22: no matching key exchange method found. Their offer: a,b@c";
        let offer = named(message, "key exchange method");
        assert_eq!(offer, Some(Offered::all(&["a", "b@c"])));
        assert_eq!((named(message, "MAC"), named("Connection refused", "MAC")), (None, None));
        let cut = named(&format!("{message},d…"), "key exchange method").expect("an offer");
        assert!(cut.surely_has("b@c") && !cut.surely_has("d") && cut.may_have("e"), "{cut:?}");
    }

    #[test]
    fn server_that_does_not_tell_may_have_all() {
        let (all, some) = (Offered::all(&["a"]), Offered::Some(vec!["a".to_owned()]));
        assert!(all.may_have("a") && all.surely_has("a") && !all.may_have("b"));
        assert!(some.surely_has("a") && some.may_have("b") && !some.surely_has("b"));
    }

    #[test]
    fn rare_names_are_those_of_the_registry() {
        for (kind, names) in [
            (Kind::Kex, RARE_KEX),
            (Kind::Key, NO_HOST_KEY),
            (Kind::Cipher, RARE_CIPHERS),
            (Kind::Mac, RARE_MACS),
        ] {
            // A build for FIPS has none of them.
            let known = names.iter().filter(|name| kind.names().contains(*name)).count();
            assert!([names.len(), 0].contains(&known), "{names:?}");
        }
    }
}
