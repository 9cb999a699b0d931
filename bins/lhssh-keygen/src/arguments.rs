//! The checked command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use lh_cli::flags::Parsed;
use lh_crypto::{Encryption, FingerprintHash, Zeroizing};

use crate::console::{Outcome, error, fatal, program};

/// Default of `-a`: rounds of bcrypt, as in ssh-keygen.
const ROUNDS: u32 = 32;
/// Default of `-Z`: cipher of private keys, as in ssh-keygen.
const CIPHER: &str = "aes256-ctr";

/// A file format (`-m`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// RFC 4716 public keys; private keys stay in OpenSSH's own format.
    Rfc4716,
    Pkcs8,
    Pem,
    /// Public and private keys in hexadecimal, for reading; private keys stay in OpenSSH's own format.
    Hexdump,
}

/// Flags without a value that change what a command does. Those that choose the command are in
/// [`Command`](crate::command::Command).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switches {
    /// `-l`: show fingerprints, or the contents of a revocation list.
    pub(crate) fingerprints: bool,
    /// `-B`: show fingerprints in words.
    pub(crate) bubblebabble: bool,
    /// `-g`: write DNS records in the generic form (RFC 3597).
    pub(crate) generic_records: bool,
    /// `-h`: certify a host's key.
    pub(crate) host_certificate: bool,
    /// `-H`: hash the names of hosts.
    pub(crate) hash_names: bool,
    /// `-U`: the private key is in an agent.
    pub(crate) in_agent: bool,
    /// `-u`: update a revocation list.
    pub(crate) update: bool,
}

impl Switches {
    fn new(parsed: &Parsed) -> Self {
        Self {
            fingerprints: parsed.has('l'),
            bubblebabble: parsed.has('B'),
            generic_records: parsed.has('g'),
            host_certificate: parsed.has('h'),
            hash_names: parsed.has('H'),
            in_agent: parsed.has('U'),
            update: parsed.has('u'),
        }
    }
}

/// Values of flags that mean something else for each command, unparsed.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    /// `-O`, in the order of the command line. Each command has names of its own.
    pub(crate) options: Vec<OsString>,
    /// `-t`: the type of a new key, or the algorithm of a signature.
    pub(crate) key_type: Option<String>,
    /// `-D`: the library of a token.
    pub(crate) token_library: Option<String>,
    /// `-w`: the library for security keys.
    pub(crate) security_key_library: Option<String>,
    /// `-I`: the key id of a certificate, or the principal of a signature.
    pub(crate) identity: Option<String>,
    /// `-n`: the principals of a certificate, or the namespace of a signature.
    pub(crate) names: Option<String>,
    /// `-s`: the key of an authority, or the file with a signature.
    pub(crate) signer: Option<PathBuf>,
    /// `-r`: the file with revoked keys, for signatures.
    pub(crate) revoked_keys: Option<PathBuf>,
    /// `-V`: the validity of a certificate.
    pub(crate) validity: Option<String>,
    /// `-z`: the serial number of a certificate, or the version of a revocation list.
    pub(crate) serial: Option<String>,
}

impl Values {
    fn new(parsed: &Parsed) -> Self {
        let path = |flag| parsed.value(flag).map(PathBuf::from);
        Self {
            options: parsed.values('O').map(OsString::from).collect(),
            key_type: parsed.text('t'),
            token_library: parsed.text('D'),
            security_key_library: parsed.text('w'),
            identity: parsed.text('I'),
            names: parsed.text('n'),
            signer: path('s'),
            revoked_keys: path('r'),
            validity: parsed.text('V'),
            serial: parsed.text('z'),
        }
    }
}

/// Arguments that all commands share.
pub(crate) struct Arguments {
    pub(crate) switches: Switches,
    pub(crate) values: Values,
    pub(crate) operands: Vec<OsString>,
    pub(crate) file: Option<PathBuf>,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    pub(crate) hash: FingerprintHash,
    pub(crate) rounds: u32,
    pub(crate) bits: Option<u32>,
    pub(crate) format: Option<Format>,
    /// Cipher of private keys with a passphrase.
    pub(crate) cipher: String,
    pub(crate) comment: Option<String>,
    /// `-N`
    pub(crate) new_passphrase: Option<Zeroizing<Vec<u8>>>,
    /// `-P`
    pub(crate) old_passphrase: Option<Zeroizing<Vec<u8>>>,
}

impl Arguments {
    /// Checks the values in ssh-keygen's order.
    pub(crate) fn check(parsed: &Parsed) -> Outcome<Self> {
        let text = |flag| parsed.text(flag);
        let secret = |flag| parsed.value(flag).map(|value: &OsStr| Zeroizing::new(value.as_bytes().to_vec()));
        let bits = match text('b') {
            None => None,
            Some(bits) => Some(
                number(&bits, u32::MAX)
                    .map_err(|why| fatal(format!("Bits has bad value {} ({why})", shown(&bits))))?,
            ),
        };
        let rounds = match text('a') {
            None => ROUNDS,
            Some(rounds) => number(&rounds, i32::MAX.unsigned_abs())
                .map_err(|why| fatal(format!("Invalid number: {} ({why})", shown(&rounds))))?,
        };
        let hash = match text('E') {
            None => FingerprintHash::Sha256,
            Some(name) => FingerprintHash::by_name(&name)
                .ok_or_else(|| fatal(format!("Invalid hash algorithm \"{}\"", shown(&name))))?,
        };
        let format = match text('m').map(|name| name.to_ascii_uppercase()).as_deref() {
            None => None,
            Some("RFC4716" | "SSH2") => Some(Format::Rfc4716),
            Some("PKCS8") => Some(Format::Pkcs8),
            Some("PEM") => Some(Format::Pem),
            Some("HEXDUMP") => Some(Format::Hexdump),
            Some(_) => {
                let name = text('m').unwrap_or_default();
                return Err(fatal(format!("Unsupported conversion format \"{}\"", shown(&name))));
            }
        };
        let cipher = text('Z').unwrap_or_else(|| CIPHER.to_owned());
        if !Encryption::is_cipher(&cipher) {
            return Err(fatal(format!("Invalid OpenSSH-format cipher '{}'", shown(&cipher))));
        }
        let comment = text('C');
        if comment.as_ref().is_some_and(|comment| comment.contains(['\n', '\r'])) {
            return Err(error(format!("{}: a comment is one line", program())));
        }
        Ok(Self {
            switches: Switches::new(parsed),
            values: Values::new(parsed),
            operands: parsed.operands.clone(),
            file: parsed.value('f').map(PathBuf::from),
            quiet: parsed.has('q'),
            verbose: parsed.has('v'),
            hash,
            rounds,
            bits,
            format,
            cipher,
            comment,
            new_passphrase: secret('N'),
            old_passphrase: secret('P'),
        })
    }

    /// The library for security keys.
    pub(crate) fn provider(&self) -> String {
        self.values
            .security_key_library
            .clone()
            .or_else(|| std::env::var("SSH_SK_PROVIDER").ok())
            .unwrap_or_else(|| lh_security_key::INTERNAL.to_owned())
    }
}

/// Parses a number from 1 to `most`; the error is strtonum(3)'s text.
fn number(text: &str, most: u32) -> Result<u32, &'static str> {
    let number: i128 = text.trim_start().parse().map_err(|_| "invalid")?;
    match u32::try_from(number) {
        Ok(0) => Err("too small"),
        Ok(number) if number <= most => Ok(number),
        Err(_) if number < 0 => Err("too small"),
        _ => Err("too large"),
    }
}

fn shown(text: &str) -> String {
    lh_client::sanitise(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_refused_with_a_reason() {
        assert_eq!(number("24", 100), Ok(24));
        assert_eq!(number("0", 100), Err("too small"));
        assert_eq!(number("-3", 100), Err("too small"));
        assert_eq!(number("101", 100), Err("too large"));
        assert_eq!(number("99999999999999", 100), Err("too large"));
        assert_eq!(number("12x", 100), Err("invalid"));
        assert_eq!(number("", 100), Err("invalid"));
    }
}
