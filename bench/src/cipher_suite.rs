//! A cipher with its MAC, in the notation of the command line.

use lh_crypto::{Cipher, Direction, Mac, PacketKey};

/// A negotiable cipher, with a MAC where it needs one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CipherSuite {
    pub(crate) cipher: &'static Cipher,
    pub(crate) mac: Option<&'static Mac>,
}

impl CipherSuite {
    /// Parses `CIPHER` or `CIPHER+MAC`; the suffixes `@openssh.com` and `@longhaul` may be omitted.
    /// Unencrypted suites are switched on after the login by `NoneEnabled`, not by naming them. `none` alone
    /// also means no MAC. `none` with a MAC can only be measured in memory, because two Longhaul ends
    /// negotiate a better suite.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (cipher, mac) = text.split_once('+').map_or((text, None), |(cipher, mac)| (cipher, Some(mac)));
        let long = |name: &str| format!("{name}@openssh.com");
        let cipher = Cipher::by_name(cipher)
            .or_else(|| Cipher::by_name(&long(cipher)))
            .or_else(|| {
                let unencrypted = [Cipher::INTEGRITY_ONLY, Cipher::NONE];
                unencrypted.into_iter().find(|each| short(each.name) == short(cipher))
            })
            .ok_or_else(|| format!("unknown cipher {cipher}"))?;
        let mac = match mac {
            None => None,
            Some("none") => Some(Mac::NONE),
            Some(name) => {
                let found = Mac::by_name(name).or_else(|| Mac::by_name(&long(name)));
                Some(found.ok_or_else(|| format!("unknown MAC {name}"))?)
            }
        };
        let mac = mac.or_else(|| (cipher == Cipher::NONE).then_some(Mac::NONE));
        if mac == Some(Mac::NONE) && cipher != Cipher::NONE {
            return Err(format!("{}: only the cipher none goes without a MAC", cipher.name));
        }
        match (cipher.is_aead(), mac) {
            (true, None) | (false, Some(_)) => Ok(Self { cipher, mac }),
            (true, Some(_)) => Err(format!("{} needs no MAC", cipher.name)),
            (false, None) => Err(format!("{} needs a MAC: {0}+MAC", cipher.name)),
        }
    }

    /// The short name.
    pub(crate) fn name(&self) -> String {
        match self.mac {
            None | Some(Mac::NONE) => short(self.cipher.name).to_owned(),
            Some(mac) => format!("{}+{}", short(self.cipher.name), short(mac.name)),
        }
    }

    /// `-o` options that make an OpenSSH-like client use this suite.
    pub(crate) fn options(&self) -> Vec<String> {
        if !self.cipher.encrypts() {
            let switches = ["NoneSwitch=yes"].into_iter().chain(self.unencrypted());
            return switches.flat_map(|each| ["-o".to_owned(), each.to_owned()]).collect();
        }
        let mut options = vec!["-o".to_owned(), format!("Ciphers={}", self.cipher.name)];
        if let Some(mac) = self.mac {
            options.extend(["-o".to_owned(), format!("MACs={}", mac.name)]);
        }
        options
    }

    /// Configuration lines for a server that must offer this suite.
    pub(crate) fn server_lines(&self) -> String {
        if self.cipher.encrypts() {
            // Some MACs are not offered by default (hmac-md5).
            let mac = self.mac.map(|mac| format!("MACs +{}\n", mac.name)).unwrap_or_default();
            return format!("Ciphers +{}\n{mac}", self.cipher.name);
        }
        self.unencrypted().map(|each| format!("{}\n", each.replace('=', " "))).collect()
    }

    /// Options of both ends for unencrypted connections.
    fn unencrypted(&self) -> impl Iterator<Item = &'static str> {
        let without_mac = (self.mac == Some(Mac::NONE)).then_some("NoneMacEnabled=yes");
        ["NoneEnabled=yes"].into_iter().chain(without_mac)
    }

    /// True for a suite that two Longhaul ends can negotiate.
    pub(crate) fn is_negotiable(&self) -> bool {
        self.cipher != Cipher::NONE || self.mac == Some(Mac::NONE)
    }

    /// A key of this suite, equal in every process.
    pub(crate) fn key(&self, direction: Direction) -> Result<PacketKey, String> {
        let (key, iv) = (vec![1; self.cipher.key_len], vec![2; self.cipher.iv_len]);
        let mac_key = vec![3; self.mac.map_or(0, |mac| mac.key_len)];
        PacketKey::new(direction, self.cipher, self.mac, &key, &iv, &mac_key)
            .map_err(|error| format!("{}: {error}", self.name()))
    }
}

fn short(name: &str) -> &str {
    name.trim_end_matches("@openssh.com").trim_end_matches("@longhaul")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_long_and_short() {
        let gcm = CipherSuite::parse("aes128-gcm").unwrap();
        assert_eq!(gcm, CipherSuite::parse("aes128-gcm@openssh.com").unwrap());
        assert_eq!(gcm.name(), "aes128-gcm");
        let ctr = CipherSuite::parse("aes128-ctr+umac-64-etm").unwrap();
        assert_eq!(ctr.name(), "aes128-ctr+umac-64-etm");
        assert_eq!(ctr.server_lines(), "Ciphers +aes128-ctr\nMACs +umac-64-etm@openssh.com\n");
        assert_eq!(gcm.server_lines(), "Ciphers +aes128-gcm@openssh.com\n");
        assert_eq!(ctr.options().last().map(String::as_str), Some("MACs=umac-64-etm@openssh.com"));
        let gmac = CipherSuite::parse("aes128-gmac").unwrap();
        assert_eq!((gmac.cipher, gmac.name().as_str()), (Cipher::INTEGRITY_ONLY, "aes128-gmac"));
        assert_eq!(CipherSuite::parse("none+umac-64-etm").unwrap().name(), "none+umac-64-etm");
        let none = CipherSuite::parse("none").unwrap();
        assert_eq!((none.mac, none.name().as_str()), (Some(Mac::NONE), "none"));
        assert!(none.is_negotiable() && !CipherSuite::parse("none+umac-64-etm").unwrap().is_negotiable());
        assert_eq!(none.server_lines(), "NoneEnabled yes\nNoneMacEnabled yes\n");
        assert_eq!(gmac.options(), ["-o", "NoneSwitch=yes", "-o", "NoneEnabled=yes"]);
        for wrong in
            ["aes128-ctr", "aes128-gcm+hmac-sha2-256", "rot13", "aes128-ctr+none", "aes128-ctr+crc32"]
        {
            assert!(CipherSuite::parse(wrong).is_err(), "{wrong}");
        }
    }
}
