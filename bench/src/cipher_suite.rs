//! A cipher with its MAC, as written on the command line.

use lh_crypto::{Cipher, Direction, Mac, PacketKey};

/// A cipher that can be negotiated, with a MAC where it needs one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CipherSuite {
    pub(crate) cipher: &'static Cipher,
    pub(crate) mac: Option<&'static Mac>,
}

impl CipherSuite {
    /// Reads `CIPHER` or `CIPHER+MAC`; `@openssh.com` and `@longhaul` may be left out. What does not encrypt can be measured here
    /// and nowhere else: programs have it after their login, and not by naming it.
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
            Some(name) => {
                let found = Mac::by_name(name).or_else(|| Mac::by_name(&long(name)));
                Some(found.ok_or_else(|| format!("unknown MAC {name}"))?)
            }
        };
        match (cipher.is_aead(), mac) {
            (true, None) | (false, Some(_)) => Ok(Self { cipher, mac }),
            (true, Some(_)) => Err(format!("{} needs no MAC", cipher.name)),
            (false, None) => Err(format!("{} needs a MAC: {0}+MAC", cipher.name)),
        }
    }

    /// The name as it is written here: short.
    pub(crate) fn name(&self) -> String {
        match self.mac {
            None => short(self.cipher.name).to_owned(),
            Some(mac) => format!("{}+{}", short(self.cipher.name), short(mac.name)),
        }
    }

    /// `-o` options that make an OpenSSH-like client use this suite.
    pub(crate) fn options(&self) -> Vec<String> {
        let mut options = vec!["-o".to_owned(), format!("Ciphers={}", self.cipher.name)];
        if let Some(mac) = self.mac {
            options.extend(["-o".to_owned(), format!("MACs={}", mac.name)]);
        }
        options
    }

    /// A key of this suite, the same in every process.
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
        assert_eq!(ctr.options().last().map(String::as_str), Some("MACs=umac-64-etm@openssh.com"));
        let gmac = CipherSuite::parse("aes128-gmac").unwrap();
        assert_eq!((gmac.cipher, gmac.name().as_str()), (Cipher::INTEGRITY_ONLY, "aes128-gmac"));
        assert_eq!(CipherSuite::parse("none+umac-64-etm").unwrap().name(), "none+umac-64-etm");
        for wrong in ["aes128-ctr", "aes128-gcm+hmac-sha2-256", "rot13", "none", "aes128-ctr+crc32"] {
            assert!(CipherSuite::parse(wrong).is_err(), "{wrong}");
        }
    }
}
