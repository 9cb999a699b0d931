//! OpenSSH's private key format (`openssh-key-v1`, OpenSSH's PROTOCOL.key).

use super::file_cipher::{BLOCK_LEN, FileCipher};
use super::{PrivateKey, PublicKey};
use crate::{CryptoError, KeyFileError, Random, SystemRandom};
use lh_wire::{Reader, WireError, Writer};
use zeroize::Zeroizing;

pub(super) const LABEL: &str = "OPENSSH PRIVATE KEY";

const MAGIC: &[u8] = b"openssh-key-v1\0";
const SALT_LEN: usize = 16;

/// Upper limit of bcrypt rounds, for reading and writing: OpenSSH's, which take hours. The file contains the
/// number; one that would take months is an attack or an accident.
const MAX_ROUNDS: u32 = 1 << 20;

const FORMAT: fn(WireError) -> KeyFileError = |_| KeyFileError::InvalidFormat;

/// Encryption of a private key file in OpenSSH's format.
#[derive(Clone, Copy)]
pub struct Encryption<'a> {
    /// The passphrase, which must not be empty.
    pub passphrase: &'a [u8],
    /// Number of bcrypt rounds; ssh-keygen's default is 32.
    pub rounds: u32,
    /// SSH name of the cipher; ssh-keygen's default is `aes256-ctr`.
    pub cipher: &'a str,
}

impl Encryption<'_> {
    /// Returns true when private key files can be encrypted with this cipher.
    pub fn is_cipher(name: &str) -> bool {
        FileCipher::by_name(name).is_some()
    }
}

/// The outer layer of the file, which is not encrypted.
struct Envelope<'a> {
    cipher: &'a str,
    kdf: &'a str,
    kdf_options: &'a [u8],
    public: PublicKey,
    private: &'a [u8],
    /// The tag after the structure, for authenticated ciphers.
    tag: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, KeyFileError> {
        let mut reader = Reader::new(bytes.strip_prefix(MAGIC).ok_or(KeyFileError::InvalidFormat)?);
        let cipher = reader.text().map_err(FORMAT)?;
        let kdf = reader.text().map_err(FORMAT)?;
        let kdf_options = reader.string().map_err(FORMAT)?;
        if reader.u32().map_err(FORMAT)? != 1 {
            return Err(KeyFileError::InvalidFormat);
        }
        let public = PublicKey::from_blob(reader.string().map_err(FORMAT)?).map_err(FORMAT)?;
        let private = reader.string().map_err(FORMAT)?;
        Ok(Self { cipher, kdf, kdf_options, public, private, tag: reader.rest() })
    }
}

pub(super) fn parse_public(bytes: &[u8]) -> Result<PublicKey, KeyFileError> {
    Envelope::open(bytes).map(|envelope| envelope.public)
}

/// Returns the decrypted private section, starting with the key type, and the public key in the file.
pub(super) fn private_section(
    bytes: &[u8],
    passphrase: Option<&[u8]>,
) -> Result<(Zeroizing<Vec<u8>>, PublicKey), KeyFileError> {
    /// Length of a random number stored twice: the format's check for the right passphrase.
    const CHECK: usize = 8;
    let envelope = Envelope::open(bytes)?;
    let mut private = Zeroizing::new(envelope.private.to_vec());
    let encrypted = match (envelope.cipher, envelope.kdf) {
        ("none", "none") => false,
        ("none", _) | (_, "none") => return Err(KeyFileError::InvalidFormat),
        _ => true,
    };
    if encrypted {
        decrypt(&envelope, &mut private, passphrase.ok_or(KeyFileError::PassphraseNeeded)?)?;
    } else if !envelope.tag.is_empty() {
        return Err(KeyFileError::InvalidFormat);
    }

    let mut reader = Reader::new(&private);
    if reader.u32().map_err(FORMAT)? != reader.u32().map_err(FORMAT)? {
        return Err(if encrypted { KeyFileError::WrongPassphrase } else { KeyFileError::InvalidFormat });
    }
    private.copy_within(CHECK.., 0);
    let left = private.len() - CHECK;
    private.get_mut(left..).into_iter().for_each(|rest| rest.fill(0));
    private.truncate(left);
    Ok((private, envelope.public))
}

pub(super) fn parse(bytes: &[u8], passphrase: Option<&[u8]>) -> Result<(PrivateKey, String), KeyFileError> {
    let (private, public) = private_section(bytes, passphrase)?;
    let mut reader = Reader::new(&private);
    let key = PrivateKey::from_wire(&mut reader)?;
    let comment = String::from_utf8_lossy(reader.string().map_err(FORMAT)?).into_owned();
    let padding = reader.rest();
    if padding.iter().zip(1u8..).any(|(byte, expected)| *byte != expected) || padding.len() > 255 {
        return Err(KeyFileError::InvalidFormat);
    }
    if *key.public() != public {
        return Err(KeyFileError::InvalidKey { why: "private and public key do not match" });
    }
    Ok((key, comment))
}

fn decrypt(envelope: &Envelope<'_>, data: &mut [u8], passphrase: &[u8]) -> Result<(), KeyFileError> {
    let unsupported = |what: &str| KeyFileError::Unsupported { what: what.escape_default().to_string() };
    let cipher = FileCipher::by_name(envelope.cipher)
        .ok_or_else(|| unsupported(&format!("cipher {}", envelope.cipher)))?;
    if envelope.kdf != "bcrypt" {
        return Err(unsupported(&format!("key derivation {}", envelope.kdf)));
    }
    if envelope.tag.len() != cipher.tag_len() {
        return Err(KeyFileError::InvalidFormat);
    }
    let mut options = Reader::new(envelope.kdf_options);
    let salt = options.string().map_err(FORMAT)?;
    let rounds = options.u32().map_err(FORMAT)?;
    options.finish().map_err(FORMAT)?;
    if salt.is_empty() || rounds == 0 || !data.len().is_multiple_of(BLOCK_LEN) {
        return Err(KeyFileError::InvalidFormat);
    }
    if rounds > MAX_ROUNDS {
        return Err(unsupported(&format!("more than {MAX_ROUNDS} bcrypt rounds")));
    }
    if passphrase.is_empty() {
        return Err(KeyFileError::WrongPassphrase);
    }
    let material = derive(passphrase, salt, rounds, cipher.key_len + cipher.iv_len())
        .ok_or(KeyFileError::InvalidFormat)?;
    let (key, iv) = material.split_at_checked(cipher.key_len).ok_or(KeyFileError::InvalidFormat)?;
    cipher.decrypt(key, iv, data, envelope.tag)
}

/// Returns a file that contains the private section `numbers` (type and fields) of the key `public`.
pub(super) fn write(
    public: &PublicKey,
    numbers: &[u8],
    comment: &str,
    encrypt: Option<&Encryption<'_>>,
) -> Result<Zeroizing<String>, CryptoError> {
    const FAILED: CryptoError = CryptoError::Library { what: "encrypt a key" };
    let mut check = [0; 4];
    SystemRandom.fill(&mut check);
    // Reserved in full, here and below: a growing buffer would leave copies of the key behind.
    let mut private = Zeroizing::new(Vec::with_capacity(numbers.len() + comment.len() + 64));
    private.put_bytes(&check);
    private.put_bytes(&check);
    private.put_bytes(numbers);
    private.put_string(comment.as_bytes());
    // "none" counts as a cipher with blocks of 8 bytes.
    let block = if encrypt.is_some() { BLOCK_LEN } else { 8 };
    let padding = private.len().next_multiple_of(block) - private.len();
    private.extend((1u8..).take(padding));

    let mut kdf_options = Vec::new();
    let mut tag = Vec::new();
    if let Some(&Encryption { passphrase, rounds, cipher }) = encrypt {
        let cipher = FileCipher::by_name(cipher)
            .ok_or(CryptoError::Unsupported { what: "this cipher for private keys" })?;
        if passphrase.is_empty() || rounds == 0 {
            return Err(CryptoError::Unsupported { what: "an empty passphrase" });
        }
        if rounds > MAX_ROUNDS {
            return Err(CryptoError::Unsupported { what: "more than 1048576 bcrypt rounds" });
        }
        let mut salt = [0; SALT_LEN];
        SystemRandom.fill(&mut salt);
        kdf_options.put_string(&salt);
        kdf_options.put_u32(rounds);
        let material = derive(passphrase, &salt, rounds, cipher.key_len + cipher.iv_len()).ok_or(FAILED)?;
        let (key, iv) = material.split_at_checked(cipher.key_len).ok_or(FAILED)?;
        tag = cipher.encrypt(key, iv, &mut private).map_err(|_| FAILED)?;
    }

    let public = public.blob();
    let mut bytes = Zeroizing::new(Vec::with_capacity(private.len() + public.len() + 128));
    bytes.put_bytes(MAGIC);
    bytes.put_string(encrypt.map_or("none", |encrypt| encrypt.cipher).as_bytes());
    bytes.put_string(if encrypt.is_some() { b"bcrypt" } else { b"none" });
    bytes.put_string(&kdf_options);
    bytes.put_u32(1);
    bytes.put_string(public);
    bytes.put_string(&private);
    bytes.put_bytes(&tag);
    Ok(super::pem_write::armor(LABEL, &[], &bytes, 70))
}

pub(super) fn derive(passphrase: &[u8], salt: &[u8], rounds: u32, len: usize) -> Option<Zeroizing<Vec<u8>>> {
    let mut out = Zeroizing::new(vec![0; len]);
    // The function's internal buffer would not be wiped.
    let mut memory = Zeroizing::new(vec![0; len.next_multiple_of(32)]);
    bcrypt_pbkdf::bcrypt_pbkdf_with_memory(passphrase, salt, rounds, &mut out, &mut memory).ok()?;
    Some(out)
}
