//! Which algorithms a server offers.

use crate::target::Target;

/// A host key algorithm for tokens that users touch: no server has such a key.
const NO_HOST_KEY: &str = "sk-ssh-ed25519@openssh.com";
/// A key exchange method that servers no longer offer.
const NO_KEX: &str = "diffie-hellman-group1-sha1";

/// The algorithms that a server offers; `None` where it does not tell.
#[derive(Debug, Clone, Default)]
pub(super) struct Offer {
    kex: Option<Vec<String>>,
    host_keys: Option<Vec<String>>,
}

impl Offer {
    /// Asks with two connections whose negotiation fails: the failure names what the server offers.
    pub(super) fn of(target: &Target) -> Self {
        let told = |keyword: &str, name: &str| match target.connect(&[(keyword, name)]) {
            Ok(mut remote) => {
                remote.client.close();
                None
            }
            Err(failure) => offered(&failure.fault.to_string()),
        };
        Self { kex: told("KexAlgorithms", NO_KEX), host_keys: told("HostKeyAlgorithms", NO_HOST_KEY) }
    }

    /// Returns whether the method is offered, or may be.
    pub(super) fn has_kex(&self, name: &str) -> bool {
        has(self.kex.as_ref(), name)
    }

    /// Returns whether the algorithm is offered, or may be.
    pub(super) fn has_host_key(&self, name: &str) -> bool {
        has(self.host_keys.as_ref(), name)
    }

    /// Creates an offer of these algorithms.
    #[cfg(test)]
    pub(super) fn new(kex: &[&str], host_keys: &[&str]) -> Self {
        let [kex, host_keys] = [kex, host_keys].map(|names| names.iter().map(|name| (*name).to_owned()));
        Self { kex: Some(kex.collect()), host_keys: Some(host_keys.collect()) }
    }
}

fn has(offered: Option<&Vec<String>>, name: &str) -> bool {
    offered.is_none_or(|all| all.iter().any(|each| each == name))
}

/// The names in the message about a negotiation that failed.
fn offered(message: &str) -> Option<Vec<String>> {
    let (_, names) = message.rsplit_once("Their offer: ")?;
    Some(names.trim().split(',').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offer_is_read_from_the_failure() {
        let message =
            "Unable to negotiate with h port 22: no matching key exchange method found. Their offer: a,b@c";
        assert_eq!(offered(message), Some(vec!["a".to_owned(), "b@c".to_owned()]));
        assert_eq!(offered("Connection refused"), None);
    }
}
