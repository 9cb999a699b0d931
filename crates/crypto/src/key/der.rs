//! A minimal DER reader and writer for keys in PKCS#1, SEC1 and PKCS#8 structures, and ECDSA signatures.
//!
//! The reader accepts definite lengths only and does not enforce minimal lengths (files of old tools should
//! still open). It allocates nothing, and every read is bounded by its parent.

use zeroize::Zeroizing;

/// The input is not the expected DER.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DerError;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OBJECT_ID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
/// Explicit tags `[0]` and `[1]`.
pub(super) const CONTEXT_0: u8 = 0xa0;
pub(super) const CONTEXT_1: u8 = 0xa1;

/// A cursor over the content of a constructed value, or over a whole file.
#[derive(Clone)]
pub(super) struct Der<'a> {
    rest: &'a [u8],
}

impl<'a> Der<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the tag of the next value.
    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Returns the content of the next value, which must have this tag.
    pub(super) fn value(&mut self, tag: u8) -> Result<&'a [u8], DerError> {
        let [found, first_len, after @ ..] = self.rest else { return Err(DerError) };
        if *found != tag {
            return Err(DerError);
        }
        let (len, after) = match *first_len {
            short @ 0..=0x7f => (usize::from(short), after),
            long @ 0x81..=0x84 => {
                let (bytes, after) = after.split_at_checked(usize::from(long & 0x7f)).ok_or(DerError)?;
                (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), after)
            }
            _ => return Err(DerError),
        };
        let (content, rest) = after.split_at_checked(len).ok_or(DerError)?;
        self.rest = rest;
        Ok(content)
    }

    pub(super) fn sequence(&mut self) -> Result<Self, DerError> {
        self.value(SEQUENCE).map(Self::new)
    }

    /// Reads a non-negative INTEGER: big-endian, without leading zeros.
    pub(super) fn unsigned(&mut self) -> Result<&'a [u8], DerError> {
        match self.value(INTEGER)? {
            [] => Err(DerError),
            [first, ..] if *first & 0x80 != 0 => Err(DerError),
            content => Ok(lh_wire::Mpint::from_magnitude(content).magnitude()),
        }
    }

    /// Reads a small non-negative INTEGER.
    pub(super) fn small(&mut self) -> Result<u32, DerError> {
        let bytes = self.unsigned()?;
        if bytes.len() > 4 {
            return Err(DerError);
        }
        Ok(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }

    pub(super) fn octets(&mut self) -> Result<&'a [u8], DerError> {
        self.value(OCTET_STRING)
    }

    pub(super) fn object_id(&mut self) -> Result<&'a [u8], DerError> {
        self.value(OBJECT_ID)
    }

    /// Reads a BIT STRING of whole bytes.
    pub(super) fn bits(&mut self) -> Result<&'a [u8], DerError> {
        self.value(BIT_STRING)?.strip_prefix(&[0]).ok_or(DerError)
    }
}

/// Encodes one value with the contents of `parts`. The result is wiped on drop, because it may contain parts
/// of private keys.
pub(super) fn value(tag: u8, parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Zeroizing::new(Vec::with_capacity(len + 10));
    out.push(tag);
    if len < 0x80 {
        out.push(len as u8);
    } else {
        let bytes = len.to_be_bytes();
        let bytes = lh_wire::Mpint::from_magnitude(&bytes).magnitude();
        out.push(0x80 | bytes.len() as u8);
        out.extend_from_slice(bytes);
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

pub(super) fn sequence(parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    value(SEQUENCE, parts)
}

/// Encodes a non-negative INTEGER from its big-endian bytes.
pub(super) fn unsigned(magnitude: &[u8]) -> Zeroizing<Vec<u8>> {
    let magnitude = lh_wire::Mpint::from_magnitude(magnitude).magnitude();
    match magnitude.first() {
        Some(first) if first & 0x80 == 0 => value(INTEGER, &[magnitude]),
        _ => value(INTEGER, &[&[0], magnitude]),
    }
}

pub(super) fn object_id(content: &[u8]) -> Zeroizing<Vec<u8>> {
    value(OBJECT_ID, &[content])
}

pub(super) fn octets(content: &[u8]) -> Zeroizing<Vec<u8>> {
    value(OCTET_STRING, &[content])
}

pub(super) fn bits(content: &[u8]) -> Zeroizing<Vec<u8>> {
    value(BIT_STRING, &[&[0], content])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_read_in_order() {
        let mut der = Der::new(&[0x30, 0x07, 0x02, 0x01, 0x05, 0x04, 0x02, 0xaa, 0xbb]);
        let mut inner = der.sequence().unwrap();
        assert!(der.is_empty());
        assert_eq!(inner.small(), Ok(5));
        assert_eq!(inner.octets(), Ok(&[0xaa, 0xbb][..]));
        assert!(inner.is_empty());
        assert_eq!(inner.octets(), Err(DerError));
    }

    #[test]
    fn long_and_false_lengths() {
        let long = [&[0x04, 0x82, 0x01, 0x00][..], &[7; 256]].concat();
        assert_eq!(Der::new(&long).octets().map(<[u8]>::len), Ok(256));
        assert_eq!(Der::new(&long[..200]).octets(), Err(DerError));
        assert_eq!(Der::new(&[0x04, 0x84, 0xff, 0xff, 0xff, 0xff]).octets(), Err(DerError));
        assert_eq!(Der::new(&[0x04, 0x80, 0, 0]).octets(), Err(DerError));
        assert_eq!(Der::new(&[0x02, 0x01, 0x80]).unsigned(), Err(DerError));
    }

    #[test]
    fn encoded_der_values_decode() {
        for len in [0, 1, 127, 128, 255, 256, 70_000] {
            let content = vec![7; len];
            let written = octets(&content);
            assert_eq!(Der::new(&written).octets(), Ok(content.as_slice()));
        }
        assert_eq!(unsigned(&[0, 0, 0x80])[..], [0x02, 0x02, 0x00, 0x80]);
        assert_eq!(unsigned(&[])[..], [0x02, 0x01, 0x00]);
        assert_eq!(Der::new(&bits(&[1, 2])).bits(), Ok(&[1, 2][..]));
    }

    proptest! {
        #[test]
        fn reading_any_bytes_terminates(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut der = Der::new(&bytes);
            while let Some(tag) = der.peek() {
                let before = der.rest.len();
                if der.value(tag).is_err() {
                    break;
                }
                prop_assert!(der.rest.len() < before);
            }
        }
    }
}
