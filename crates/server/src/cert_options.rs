//! What a certificate allows, alone and together with the line that trusts its authority, and whether a login
//! under these options may go on.

use std::net::IpAddr;

use lh_config::cidr;
use lh_config::pattern::ListMatch;
use lh_crypto::Certificate;

use crate::hosts::{self, ShownIp, known_ip};
use crate::key_options::KeyOptions;
use crate::log::Level;

/// The origin and time of a login, which options are checked against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoginOrigin<'a> {
    pub(crate) user: &'a str,
    pub(crate) address: IpAddr,
    /// The host name, where `UseDNS` has found one.
    pub(crate) name: Option<&'a str>,
    /// The current time, seconds since 1970.
    pub(crate) now: i64,
}

/// Why a certificate's options cannot be used. `Display` is the line for the log.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CertificateOptionError {
    /// The value is not valid UTF-8, or contains a NUL byte.
    #[error("Unable to parse certificate option \"{0}\"")]
    Unparsable(String),
    #[error("Certificate source-address contents invalid")]
    SourceAddress,
    /// An unknown critical option.
    #[error("Certificate critical option \"{0}\" is not supported")]
    Unsupported(String),
}

/// Returns whether the text is a valid `source-address` value: addresses and networks, separated by commas.
/// An empty entry, an exception (`!`) or a pattern makes the certificate invalid, as in OpenSSH.
fn is_source_address(list: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_hexdigit() || b".:/,".contains(&byte);
    list.bytes().all(is_plain) && cidr::is_network_list(list)
}

/// The certificate and the line that trusts it force different commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("forced command options do not match")]
pub(crate) struct CommandsDiffer;

impl KeyOptions {
    /// Options that allow nothing: the start for a certificate, whose extensions add rights.
    fn nothing() -> Self {
        Self {
            pty: false,
            port_forwarding: false,
            agent_forwarding: false,
            x11_forwarding: false,
            user_rc: false,
            ..Self::default()
        }
    }

    /// Returns what a user's certificate allows and forces.
    ///
    /// # Errors
    /// A critical option is unknown, or its value is invalid.
    pub(crate) fn of_certificate(certificate: &Certificate) -> Result<Self, CertificateOptionError> {
        let mut options = Self::nothing();
        let text = |name: &str, value: &[u8]| {
            let text = std::str::from_utf8(value).ok().filter(|text| !text.contains('\0'));
            text.map(str::to_owned).ok_or_else(|| CertificateOptionError::Unparsable(name.to_owned()))
        };
        for (name, value) in certificate.critical_options() {
            match name.as_str() {
                "verify-required" => options.verify_required = true,
                "force-command" => options.command = Some(text(name, value)?),
                "source-address" => {
                    let list = text(name, value)?;
                    if !is_source_address(&list) {
                        return Err(CertificateOptionError::SourceAddress);
                    }
                    options.source_address = Some(list);
                }
                name => {
                    return Err(CertificateOptionError::Unsupported(name.to_owned()));
                }
            }
        }
        for (name, _) in certificate.extensions() {
            match name.as_str() {
                "no-touch-required" => options.no_touch_required = true,
                "permit-X11-forwarding" => options.x11_forwarding = true,
                "permit-agent-forwarding" => options.agent_forwarding = true,
                "permit-port-forwarding" => options.port_forwarding = true,
                "permit-pty" => options.pty = true,
                "permit-user-rc" => options.user_rc = true,
                // Unknown extensions may be ignored, unlike unknown critical options.
                _ => {}
            }
        }
        Ok(options)
    }

    /// Returns options that allow what both allow and force what either forces. `self` is from a line in a
    /// file, or from an earlier method.
    ///
    /// # Errors
    /// They force different commands.
    pub(crate) fn merged(&self, other: &Self) -> Result<Self, CommandsDiffer> {
        let command = match (&self.command, &other.command) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                return Err(CommandsDiffer);
            }
            (ours, theirs) => ours.clone().or_else(|| theirs.clone()),
        };
        let first = |ours: &Option<String>, theirs: &Option<String>| ours.clone().or_else(|| theirs.clone());
        let list = |ours: &Vec<String>, theirs: &Vec<String>| {
            if ours.is_empty() { theirs.clone() } else { ours.clone() }
        };
        Ok(Self {
            pty: self.pty && other.pty,
            port_forwarding: self.port_forwarding && other.port_forwarding,
            agent_forwarding: self.agent_forwarding && other.agent_forwarding,
            x11_forwarding: self.x11_forwarding && other.x11_forwarding,
            user_rc: self.user_rc && other.user_rc,
            cert_authority: false,
            command,
            environment: if self.environment.is_empty() {
                other.environment.clone()
            } else {
                self.environment.clone()
            },
            from: first(&self.from, &other.from),
            source_address: first(&self.source_address, &other.source_address),
            expires: [self.expires, other.expires].into_iter().flatten().min(),
            permit_open: list(&self.permit_open, &other.permit_open),
            permit_listen: list(&self.permit_listen, &other.permit_listen),
            principals: None,
            tunnel: first(&self.tunnel, &other.tunnel),
            no_touch_required: self.no_touch_required && other.no_touch_required,
            verify_required: self.verify_required || other.verify_required,
        })
    }

    /// Checks whether a login under these options may go on. `authorities` is set where `cert-authority` is
    /// allowed. `Err` holds the line for the log, in OpenSSH's words.
    pub(crate) fn authorise(
        &self,
        place: &str,
        origin: &LoginOrigin<'_>,
        authorities: bool,
    ) -> Result<(), (Level, String)> {
        let LoginOrigin { user, address, name, now } = *origin;
        if let Some(expires) = self.expires.filter(|expires| now >= *expires) {
            let when = lh_sys::time::local_text(expires);
            return Err((Level::Debug1, format!("{place}: entry expired at {when}")));
        }
        if self.principals.is_some() && !self.cert_authority {
            return Err((Level::Debug1, format!("{place}: principals on non-CA key")));
        }
        if self.cert_authority && !authorities {
            return Err((Level::Debug1, format!("{place}: cert-authority flag invalid here")));
        }
        if let Some(from) = &self.from
            && !hosts::matches(from, address, name)
        {
            let ip = ShownIp::from(address);
            let host = name.map_or_else(|| ip.to_string(), str::to_owned);
            return Err((
                Level::Info,
                format!(
                    "{place}: Authentication tried for {user} with correct key but not from a permitted host \
                     (host={host}, ip={ip}, required={from})."
                ),
            ));
        }
        let is_listed = |list: &String| match known_ip(address) {
            Some(address) => cidr::match_list(address, list),
            None => Ok(ListMatch::No),
        };
        match self.source_address.as_ref().map(is_listed) {
            None | Some(Ok(ListMatch::Yes)) => Ok(()),
            Some(Ok(_)) => Err((
                Level::Info,
                format!(
                    "{place}: Authentication tried for {user} with valid certificate but not from a permitted \
                     source address ({}).",
                    ShownIp::from(address)
                ),
            )),
            Some(Err(())) => Err((Level::Error, format!("{place}: Certificate source-address invalid"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options(text: &str) -> KeyOptions {
        KeyOptions::parse(text).unwrap()
    }

    fn origin(address: &str, now: i64) -> LoginOrigin<'static> {
        LoginOrigin { user: "ada", address: address.parse().unwrap(), name: None, now }
    }

    #[test]
    fn where_from_and_until_when() {
        let key = options(r#"from="10.0.0.0/8,!10.1.*",expiry-time="20300102Z""#);
        let check =
            |address, now| key.authorise("keys:3", &origin(address, now), true).map_err(|(_, text)| text);
        assert_eq!(check("10.2.0.1", 0), Ok(()));
        assert_eq!(
            check("10.1.0.1", 0),
            Err("keys:3: Authentication tried for ada with correct key but not from a permitted host \
                 (host=10.1.0.1, ip=10.1.0.1, required=10.0.0.0/8,!10.1.*)."
                .to_owned())
        );
        assert!(check("10.2.0.1", 1_893_542_400).unwrap_err().starts_with("keys:3: entry expired at "));
        let certificate = KeyOptions { source_address: Some("192.0.2.0/24".into()), ..KeyOptions::default() };
        assert!(certificate.authorise("cert", &origin("192.0.2.7", 0), false).is_ok());
        let refused = certificate.authorise("cert", &origin("192.0.3.7", 0), false).unwrap_err().1;
        assert!(refused.contains("valid certificate but not from a permitted source address (192.0.3.7)"));
    }

    #[test]
    fn source_addresses_are_addresses_and_networks_alone() {
        for list in ["192.0.2.0/24", "192.0.2.7", "::1", "10.0.0.0/8,2001:db8::/32,0.0.0.0/0"] {
            assert!(is_source_address(list), "{list}");
        }
        for list in [
            "",
            ",",
            "192.0.2.0/24,",
            ",192.0.2.0/24",
            "*",
            "192.0.2.*",
            "host.example.org",
            "!192.0.2.0/24",
            "0.0.0.0/0,!192.0.2.7",
            "192.0.2.0/24 ",
            " 192.0.2.7",
            "192.0.2.0/+24",
            "192.0.2.1/24",
            "192.0.2.0/33",
            "192.0.2.0/",
            "192.0.2.0/24/24",
            "fe80::1%eth0",
            "cafe",
        ] {
            assert!(!is_source_address(list), "{list}");
        }
    }

    #[test]
    fn options_in_the_wrong_place() {
        let nobody = origin("10.2.0.1", 0);
        assert!(options("principals=\"ada\"").authorise("x", &nobody, true).is_err());
        assert!(options("cert-authority").authorise("x", &nobody, true).is_ok());
        assert!(options("cert-authority").authorise("x", &nobody, false).is_err());
    }

    #[test]
    fn the_stricter_side_wins() {
        let line = options(r#"restrict,pty,permitopen="h:1",environment="A=b",verify-required"#);
        let other =
            options(r#"no-pty,command="date",expiry-time="20300102Z",permitopen="h:2",no-touch-required"#);
        let both = line.merged(&other).unwrap();
        assert!(!both.pty && !both.user_rc && both.verify_required && !both.no_touch_required);
        assert_eq!(both.command.as_deref(), Some("date"));
        assert_eq!(both.permit_open, ["h:1"]);
        assert_eq!(both.environment, line.environment);
        assert_eq!(both.expires, other.expires);
        assert!(both.merged(&options("command=\"date\"")).is_ok());
        assert_eq!(
            both.merged(&options("command=\"id\"")).unwrap_err().to_string(),
            "forced command options do not match"
        );
    }

    proptest! {
        #[test]
        fn merging_never_allows_more(one in any::<[bool; 5]>(), two in any::<[bool; 5]>()) {
            let make = |[pty, port_forwarding, agent_forwarding, x11_forwarding, user_rc]: [bool; 5]| KeyOptions {
                pty, port_forwarding, agent_forwarding, x11_forwarding, user_rc, ..KeyOptions::default()
            };
            let both = make(one).merged(&make(two)).unwrap();
            let flags = [
                both.pty, both.port_forwarding, both.agent_forwarding, both.x11_forwarding, both.user_rc,
            ];
            for (flag, (one, two)) in flags.into_iter().zip(one.into_iter().zip(two)) {
                prop_assert_eq!(flag, one && two);
            }
        }
    }
}
