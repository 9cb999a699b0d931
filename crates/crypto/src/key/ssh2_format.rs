//! Reader for private keys in the format of SSH Communications' SSH2, which other old programs write too.
//!
//! No standard describes it. The fields are those that OpenSSH's `ssh-keygen -i` reads: a magic number, the
//! total length, the key type, the cipher, and the length of the part that may be encrypted. That part begins
//! with the length of the numbers. A number is its size in bits, followed by the bytes for that size. For RSA
//! they are e, d, n, `q^-1 mod p`, q and p.

use base64ct::{Base64, Encoding};
use lh_wire::{Reader, WireError};
use zeroize::Zeroizing;

use super::PrivateKey;
use super::rsa::{RsaKey, RsaNumbers};
use crate::KeyFileError;

/// First line of such a file.
pub const SSH2_PRIVATE_BEGIN: &str = "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----";
const END: &str = "---- END SSH2 ENCRYPTED PRIVATE KEY ----";
const MAGIC: u32 = 0x3f6f_f9eb;
/// Prefix of RSA key types.
const RSA: &str = "if-modn{";

const FORMAT: fn(WireError) -> KeyFileError = |_| KeyFileError::InvalidFormat;

impl PrivateKey {
    /// Parses an unencrypted RSA key in SSH2's private key format. Lines may end with a carriage return.
    ///
    /// # Errors
    /// The text has another format, or the key is encrypted or of another type.
    pub fn from_ssh2(text: &str) -> Result<Self, KeyFileError> {
        let bytes = decoded(text)?;
        let mut reader = Reader::new(&bytes);
        if reader.u32().map_err(FORMAT)? != MAGIC {
            return Err(KeyFileError::InvalidFormat);
        }
        let _everything = reader.u32().map_err(FORMAT)?;
        let kind = reader.text().map_err(FORMAT)?;
        let cipher = reader.text().map_err(FORMAT)?;
        // Names come from a file: escape control characters.
        let unsupported = |what: String| KeyFileError::Unsupported { what };
        if cipher != "none" {
            return Err(unsupported(format!("cipher {}", cipher.escape_default())));
        }
        if !kind.starts_with(RSA) {
            return Err(unsupported(format!("key type {}", kind.escape_default())));
        }
        let payload = reader.string().map_err(FORMAT)?;
        reader.finish().map_err(FORMAT)?;
        let mut numbers = Reader::new(Reader::new(payload).string().map_err(FORMAT)?);
        let mut number = || number(&mut numbers);
        let (e, d, n) = (number()?, number()?, number()?);
        let (q_inverse, q, p) = (number()?, number()?, number()?);
        Self::from_rsa(RsaKey::from_numbers(RsaNumbers { n: n.to_vec(), e: e.to_vec(), d, p, q, q_inverse })?)
    }
}

/// Returns the bytes between the first line and the last, without headers. A header that ends in a backslash
/// continues in the next line (as in RFC 4716 section 3.3).
fn decoded(text: &str) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != SSH2_PRIVATE_BEGIN).skip(1);
    let mut encoded = Zeroizing::new(String::with_capacity(text.len()));
    let mut is_header = false;
    loop {
        let line = lines.next().ok_or(KeyFileError::InvalidFormat)?;
        if line == END {
            let bytes = Base64::decode_vec(&encoded).map_err(|_| KeyFileError::InvalidFormat)?;
            return Ok(Zeroizing::new(bytes));
        }
        if is_header || line.contains(':') {
            is_header = line.ends_with('\\');
        } else {
            encoded.push_str(line);
        }
    }
}

/// Reads a number: its size in bits, and its bytes, returned without leading zeros.
fn number(reader: &mut Reader<'_>) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    let bits = reader.u32().map_err(FORMAT)?;
    let bytes = reader.bytes(bits.div_ceil(8) as usize).map_err(FORMAT)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Ok(Zeroizing::new(bytes.get(zeros..).unwrap_or_default().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyType, PemFormat};
    use lh_wire::{Mpint, Writer};
    use proptest::prelude::*;

    fn file(kind: &str, cipher: &str, numbers: &[&[u8]], end: &str) -> String {
        let mut inner = Vec::new();
        for magnitude in numbers {
            inner.put_u32(u32::try_from(Mpint::from_magnitude(magnitude).bits()).unwrap());
            inner.extend_from_slice(magnitude);
        }
        let mut payload = Vec::new();
        payload.put_string(&inner);
        let mut all = Vec::new();
        all.put_u32(MAGIC);
        all.put_u32(0);
        all.put_string(kind.as_bytes());
        all.put_string(cipher.as_bytes());
        all.put_string(&payload);
        let encoded = Base64::encode_string(&all);
        let mut lines = vec![SSH2_PRIVATE_BEGIN.to_owned(), "Comment: \"one \\".into(), "two\"".into()];
        lines.extend(encoded.as_bytes().chunks(70).map(|line| String::from_utf8_lossy(line).into_owned()));
        lines.push(END.to_owned());
        lines.iter().map(|line| format!("{line}{end}")).collect()
    }

    #[test]
    fn rsa_key_is_read_with_either_line_ending() {
        let key = PrivateKey::generate(KeyType::Rsa, Some(2048)).unwrap();
        let wire = key.to_wire();
        let mut reader = Reader::new(&wire);
        reader.string().unwrap();
        let fields: Vec<Vec<u8>> = (0..6).map(|_| reader.mpint().unwrap().magnitude().to_vec()).collect();
        let [n, e, d, q_inverse, p, q] = fields.try_into().unwrap();
        let numbers = [&e[..], &d, &n, &q_inverse, &q, &p];
        let kind = "if-modn{sign{rsa-pkcs1-sha1},encrypt{rsa-pkcs1v2-oaep}}";
        for end in ["\n", "\r\n"] {
            let read = PrivateKey::from_ssh2(&file(kind, "none", &numbers, end)).unwrap();
            let pem = |key: &PrivateKey| key.to_pem(PemFormat::Traditional, None).unwrap();
            assert_eq!(pem(&read), pem(&key));
        }
        let error = |text: &str| PrivateKey::from_ssh2(text).err().map(|error| error.to_string());
        let encrypted = file(kind, "3des-cbc\u{1b}", &numbers, "\n");
        assert_eq!(error(&encrypted).unwrap(), "unsupported key: cipher 3des-cbc\\u{1b}");
        let dsa = file("dl-modp{sign{dsa-nist-sha1},dh{plain}}", "none", &numbers, "\n");
        assert!(error(&dsa).unwrap().starts_with("unsupported key: key type dl-modp"));
        // Numbers that do not belong together.
        assert!(error(&file(kind, "none", &[&e, &d, &n, &q_inverse, &p, &p], "\n")).is_some());
        assert!(error(&file(kind, "none", &numbers[..5], "\n")).is_some());
    }

    proptest! {
        #[test]
        fn parsing_any_text_never_panics(text in "(---- (BEGIN|END) SSH2 ENCRYPTED PRIVATE KEY ----\n|AAAA|P2/56w|[:\\\\\n]|\\PC){0,20}") {
            let _ = PrivateKey::from_ssh2(&text);
        }
    }
}
