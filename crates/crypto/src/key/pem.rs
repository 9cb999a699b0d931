//! PEM private keys: PKCS#1 and SEC1 (also with OpenSSL's old encryption), and PKCS#8, plain or encrypted
//! (PBES2).

use super::PrivateKey;
use super::der::{Der, DerError, NULL, SEQUENCE};
use super::file_cipher::{cbc_decrypt, unpad};
use super::oid::{AES_CBC, EC_PUBLIC_KEY, ED25519, HMAC_WITH, PBES2, PBKDF2, RSA_ENCRYPTION};
use crate::KeyFileError;
use aws_lc_rs::pbkdf2;
use base64ct::{Base64, Encoding};
use core::num::NonZeroU32;
use md5::{Digest, Md5};
use zeroize::Zeroizing;

/// Limit of PBKDF2 iterations run for a file: about ten seconds.
const MAX_ITERATIONS: u32 = 20_000_000;

const FORMAT: fn(DerError) -> KeyFileError = |DerError| KeyFileError::InvalidFormat;

/// A block from `-----BEGIN label-----` to `-----END label-----`.
pub(super) struct Block<'a> {
    pub(super) label: &'a str,
    /// `DEK-Info`, when `Proc-Type` marks the block as encrypted.
    dek_info: Option<&'a str>,
    lines: Vec<&'a str>,
}

impl<'a> Block<'a> {
    /// Returns the first block of a file that contains a private key; certificates and parameters before it
    /// are skipped.
    pub(super) fn find(text: &'a str) -> Result<Self, KeyFileError> {
        let mut lines = text.lines().map(str::trim_end);
        loop {
            let label = loop {
                let line = lines.next().ok_or(KeyFileError::InvalidFormat)?;
                let label = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"));
                if let Some(label) = label {
                    break label;
                }
            };
            let mut block = Self { label, dek_info: None, lines: Vec::new() };
            let mut encrypted = false;
            loop {
                let line = lines.next().ok_or(KeyFileError::InvalidFormat)?;
                if let Some(end) = line.strip_prefix("-----END ").and_then(|rest| rest.strip_suffix("-----"))
                {
                    if end != label {
                        return Err(KeyFileError::InvalidFormat);
                    }
                    break;
                }
                match line.split_once(':') {
                    Some(("Proc-Type", value)) => encrypted = value.trim() == "4,ENCRYPTED",
                    Some(("DEK-Info", value)) => block.dek_info = Some(value.trim()),
                    Some(_) => {}
                    None => block.lines.push(line),
                }
            }
            if encrypted != block.dek_info.is_some() {
                return Err(KeyFileError::InvalidFormat);
            }
            if label.ends_with("PRIVATE KEY") {
                return Ok(block);
            }
        }
    }

    pub(super) fn decode(&self) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
        let len = self.lines.iter().map(|line| line.len()).sum();
        let mut joined = Zeroizing::new(String::with_capacity(len));
        for line in &self.lines {
            joined.extend(line.chars().filter(|each| !each.is_ascii_whitespace()));
        }
        let bytes = Base64::decode_vec(&joined).map_err(|_| KeyFileError::InvalidFormat)?;
        Ok(Zeroizing::new(bytes))
    }
}

/// Parses a block with any label except OpenSSH's own.
pub(super) fn parse(block: &Block<'_>, passphrase: Option<&[u8]>) -> Result<PrivateKey, KeyFileError> {
    let mut der = block.decode()?;
    let mut encrypted = false;
    if let Some(dek_info) = block.dek_info {
        let passphrase = passphrase.ok_or(KeyFileError::PassphraseNeeded)?;
        der = decrypt_traditional(dek_info, &der, passphrase)?;
        encrypted = true;
    } else if block.label == "ENCRYPTED PRIVATE KEY" {
        der = decrypt_pbes2(&der, passphrase)?;
        encrypted = true;
    }
    let parsed = match block.label {
        "PRIVATE KEY" | "ENCRYPTED PRIVATE KEY" => parse_pkcs8(&der),
        "RSA PRIVATE KEY" => PrivateKey::from_rsa_der(&der),
        "EC PRIVATE KEY" => PrivateKey::from_ecdsa_der(&der),
        other => Err(KeyFileError::Unsupported { what: other.escape_default().to_string() }),
    };
    // With a wrong passphrase the padding is valid once in 256 times.
    match parsed {
        Err(KeyFileError::InvalidFormat | KeyFileError::InvalidKey { .. }) if encrypted => {
            Err(KeyFileError::WrongPassphrase)
        }
        other => other,
    }
}

/// Parses `PrivateKeyInfo` (RFC 5958).
fn parse_pkcs8(der: &[u8]) -> Result<PrivateKey, KeyFileError> {
    let mut info = Der::new(der).sequence().map_err(FORMAT)?;
    info.small().map_err(FORMAT)?;
    let algorithm = info.sequence().map_err(FORMAT)?.object_id().map_err(FORMAT)?;
    let inner = info.octets().map_err(FORMAT)?;
    match algorithm {
        RSA_ENCRYPTION => PrivateKey::from_rsa_der(inner),
        EC_PUBLIC_KEY => PrivateKey::from_ecdsa_der(der),
        ED25519 => {
            // RFC 8410 section 7: an OCTET STRING within the OCTET STRING.
            let seed = Der::new(inner).octets().map_err(FORMAT)?;
            PrivateKey::from_ed25519_seed(seed.try_into().map_err(|_| KeyFileError::InvalidFormat)?)
        }
        _ => Err(KeyFileError::Unsupported { what: "type of key in PKCS#8".into() }),
    }
}

/// Decrypts `EncryptedPrivateKeyInfo` with PBES2, PBKDF2 and AES-CBC (RFC 8018), the scheme that OpenSSL and
/// ssh-keygen write.
fn decrypt_pbes2(der: &[u8], passphrase: Option<&[u8]>) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    let unsupported = |what: &str| KeyFileError::Unsupported { what: what.to_owned() };
    let mut info = Der::new(der).sequence().map_err(FORMAT)?;
    let mut algorithm = info.sequence().map_err(FORMAT)?;
    let mut data = Zeroizing::new(info.octets().map_err(FORMAT)?.to_vec());
    if algorithm.object_id().map_err(FORMAT)? != PBES2 {
        return Err(unsupported("PKCS#8 encryption other than PBES2"));
    }
    let mut parameters = algorithm.sequence().map_err(FORMAT)?;
    let mut kdf = parameters.sequence().map_err(FORMAT)?;
    let mut scheme = parameters.sequence().map_err(FORMAT)?;

    let key_len = match scheme.object_id().map_err(FORMAT)?.strip_prefix(AES_CBC) {
        Some([2]) => 16,
        Some([22]) => 24,
        Some([42]) => 32,
        _ => return Err(unsupported("PKCS#8 cipher other than AES-CBC")),
    };
    let iv = scheme.octets().map_err(FORMAT)?;

    if kdf.object_id().map_err(FORMAT)? != PBKDF2 {
        return Err(unsupported("PKCS#8 key derivation other than PBKDF2"));
    }
    let mut kdf = kdf.sequence().map_err(FORMAT)?;
    let salt = kdf.octets().map_err(FORMAT)?;
    let iterations = kdf.small().map_err(FORMAT)?;
    if kdf.peek().is_some_and(|tag| tag != SEQUENCE) && kdf.small().map_err(FORMAT)? as usize != key_len {
        return Err(KeyFileError::InvalidFormat);
    }
    let mut hash = pbkdf2::PBKDF2_HMAC_SHA1;
    if !kdf.is_empty() {
        let mut prf = kdf.sequence().map_err(FORMAT)?;
        hash = match prf.object_id().map_err(FORMAT)?.strip_prefix(HMAC_WITH) {
            Some([7]) => pbkdf2::PBKDF2_HMAC_SHA1,
            Some([9]) => pbkdf2::PBKDF2_HMAC_SHA256,
            Some([10]) => pbkdf2::PBKDF2_HMAC_SHA384,
            Some([11]) => pbkdf2::PBKDF2_HMAC_SHA512,
            _ => return Err(unsupported("hash in PBKDF2")),
        };
        if !prf.is_empty() {
            prf.value(NULL).map_err(FORMAT)?;
        }
    }
    let iterations = NonZeroU32::new(iterations).ok_or(KeyFileError::InvalidFormat)?;
    if iterations.get() > MAX_ITERATIONS {
        return Err(unsupported("number of PBKDF2 iterations"));
    }
    let passphrase = passphrase.ok_or(KeyFileError::PassphraseNeeded)?;
    let mut key = Zeroizing::new([0; 32]);
    let key = &mut key[..key_len];
    pbkdf2::derive(hash, iterations, salt, passphrase, key);
    cbc_decrypt(key, iv, &mut data)?;
    let len = unpad(&data)?.len();
    data.truncate(len);
    Ok(data)
}

/// Decrypts a block with `DEK-Info: AES-128-CBC,<IV in hex>` (RFC 1421, as OpenSSL used it before PKCS#8).
fn decrypt_traditional(
    dek_info: &str,
    data: &[u8],
    passphrase: &[u8],
) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    let (cipher, iv) = dek_info.split_once(',').ok_or(KeyFileError::InvalidFormat)?;
    let key_len = match cipher {
        "AES-128-CBC" => 16,
        "AES-192-CBC" => 24,
        "AES-256-CBC" => 32,
        other => {
            return Err(KeyFileError::Unsupported { what: format!("cipher {}", other.escape_default()) });
        }
    };
    let mut iv_bytes = [0; 16];
    if iv.len() != 32 || !iv.is_ascii() {
        return Err(KeyFileError::InvalidFormat);
    }
    for (at, byte) in iv_bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&iv[2 * at..2 * at + 2], 16).map_err(|_| KeyFileError::InvalidFormat)?;
    }
    let key = traditional_key(passphrase, &iv_bytes, key_len);
    let mut data = Zeroizing::new(data.to_vec());
    cbc_decrypt(&key, &iv_bytes, &mut data)?;
    let len = unpad(&data)?.len();
    data.truncate(len);
    Ok(data)
}

/// Derives the key of OpenSSL's old encryption: MD5 over the passphrase and the first half of the IV,
/// extended as needed.
pub(super) fn traditional_key(passphrase: &[u8], iv: &[u8; 16], key_len: usize) -> Zeroizing<Vec<u8>> {
    let mut key = Zeroizing::new(Vec::with_capacity(key_len + 16));
    let mut previous: Zeroizing<Vec<u8>> = Zeroizing::new(Vec::new());
    while key.len() < key_len {
        let digest =
            Md5::new().chain_update(&*previous).chain_update(passphrase).chain_update(&iv[..8]).finalize();
        previous = Zeroizing::new(digest.to_vec());
        key.extend_from_slice(&previous);
    }
    key.truncate(key_len);
    key
}
