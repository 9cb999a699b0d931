//! Decoder for RFC 4251 types from a borrowed slice.

use crate::{Result, WireError};

/// A cursor over untrusted bytes. It copies nothing: the values it returns borrow from the input.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts reading at the first byte of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the number of unread bytes.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns true when all bytes are read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns all unread bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// Ends the decoding; unread bytes are an error.
    pub const fn finish(self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::TrailingBytes { count: self.rest.len() }) }
    }

    /// Reads `byte[n]`.
    pub const fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(WireError::Truncated { what: "bytes" }),
        }
    }

    /// Reads `byte[N]`, with `N` known at compile time.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, tail) =
            self.rest.split_first_chunk::<N>().ok_or(WireError::Truncated { what: "bytes" })?;
        self.rest = tail;
        Ok(*head)
    }

    /// Reads a `byte`.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    /// Reads a `boolean`: zero is false, every other value is true.
    pub fn boolean(&mut self) -> Result<bool> {
        Ok(self.u8()? != 0)
    }

    /// Reads a `uint32`.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Reads a `uint64`.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Reads a `string`: a length and that many bytes.
    pub fn string(&mut self) -> Result<&'a [u8]> {
        let mut probe = self.clone();
        let len = probe.u32()? as usize;
        let bytes = probe.bytes(len).map_err(|_| WireError::Truncated { what: "string" })?;
        *self = probe;
        Ok(bytes)
    }

    /// Reads a `string` that the protocol defines as text.
    pub fn text(&mut self) -> Result<&'a str> {
        core::str::from_utf8(self.string()?).map_err(|_| WireError::NotUtf8)
    }

    /// Reads an `mpint`, which must not be negative. Accepts only the canonical form.
    pub fn mpint(&mut self) -> Result<Mpint<'a>> {
        Mpint::from_content(self.string()?)
    }

    /// Reads a `name-list`.
    pub fn name_list(&mut self) -> Result<NameList<'a>> {
        NameList::from_content(self.string()?)
    }
}

/// A non-negative `mpint`, held as its magnitude: big-endian, no leading zero, empty for zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mpint<'a>(&'a [u8]);

impl<'a> Mpint<'a> {
    /// Decodes the content of an `mpint`'s `string`.
    pub const fn from_content(content: &'a [u8]) -> Result<Self> {
        match content {
            [] => Ok(Self(content)),
            [0, rest @ ..] => match rest {
                [first, ..] if *first & 0x80 != 0 => Ok(Self(rest)),
                _ => Err(WireError::BadMpint),
            },
            [first, ..] if *first & 0x80 == 0 => Ok(Self(content)),
            _ => Err(WireError::BadMpint),
        }
    }

    /// Wraps an unsigned big-endian number, dropping leading zeros.
    pub const fn from_magnitude(mut magnitude: &'a [u8]) -> Self {
        while let [0, rest @ ..] = magnitude {
            magnitude = rest;
        }
        Self(magnitude)
    }

    /// Returns the number as big-endian bytes without leading zeros.
    pub const fn magnitude(&self) -> &'a [u8] {
        self.0
    }

    /// Returns the bit length of the number.
    pub fn bits(&self) -> usize {
        self.0.first().map_or(0, |first| self.0.len() * 8 - first.leading_zeros() as usize)
    }
}

/// A comma-separated list of names (RFC 4251 section 5), checked for its character set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameList<'a>(&'a str);

impl<'a> NameList<'a> {
    /// Decodes the content of a `name-list`'s `string`. Empty names are accepted, against the RFC, and
    /// skipped: libssh 0.10 ends its list of ciphers with a comma.
    pub fn from_content(content: &'a [u8]) -> Result<Self> {
        let text = core::str::from_utf8(content).map_err(|_| WireError::BadNameList)?;
        if content.iter().all(|byte| (0x21..0x7f).contains(byte)) {
            Ok(Self(text))
        } else {
            Err(WireError::BadNameList)
        }
    }

    /// Iterates over the names, in order of preference.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.0.split(',').filter(|name| !name.is_empty())
    }

    /// Returns true when `name` is in the list.
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|each| each == name)
    }

    /// Returns the list in wire form, comma-separated.
    pub const fn as_str(&self) -> &'a str {
        self.0
    }
}
