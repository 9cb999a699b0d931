//! Reading RFC 4251 types from a borrowed slice.

use crate::{Result, WireError};

/// A cursor over bytes that came from outside. Nothing is copied: what it returns borrows from the input.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts reading at the first byte of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes have not been read.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// True when everything has been read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes all that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// Ends the reading; bytes that nobody asked for are an error.
    pub const fn finish(self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::TrailingBytes { count: self.rest.len() }) }
    }

    /// `byte[n]`.
    pub const fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(WireError::Truncated { what: "bytes" }),
        }
    }

    /// `byte[N]` for an `N` known when compiling.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, tail) =
            self.rest.split_first_chunk::<N>().ok_or(WireError::Truncated { what: "bytes" })?;
        self.rest = tail;
        Ok(*head)
    }

    /// `byte`.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    /// `boolean`: zero is false, every other value true.
    pub fn boolean(&mut self) -> Result<bool> {
        Ok(self.u8()? != 0)
    }

    /// `uint32`.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// `uint64`.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// `string`: a length and that many bytes.
    pub fn string(&mut self) -> Result<&'a [u8]> {
        let mut probe = self.clone();
        let len = probe.u32()? as usize;
        let bytes = probe.bytes(len).map_err(|_| WireError::Truncated { what: "string" })?;
        *self = probe;
        Ok(bytes)
    }

    /// `string` that the protocol defines as text.
    pub fn text(&mut self) -> Result<&'a str> {
        core::str::from_utf8(self.string()?).map_err(|_| WireError::NotUtf8)
    }

    /// `mpint` that must not be negative. Accepts only the canonical form.
    pub fn mpint(&mut self) -> Result<Mpint<'a>> {
        Mpint::from_content(self.string()?)
    }

    /// `name-list`.
    pub fn name_list(&mut self) -> Result<NameList<'a>> {
        NameList::from_content(self.string()?)
    }
}

/// A non-negative `mpint`, held as its magnitude: big-endian, no leading zero, empty for zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mpint<'a>(&'a [u8]);

impl<'a> Mpint<'a> {
    /// Reads the bytes inside the `string` of an `mpint`.
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

    /// Big-endian bytes without leading zeros.
    pub const fn magnitude(&self) -> &'a [u8] {
        self.0
    }

    /// How many bits the number needs.
    pub fn bits(&self) -> usize {
        self.0.first().map_or(0, |first| self.0.len() * 8 - first.leading_zeros() as usize)
    }
}

/// A comma-separated list of names (RFC 4251 section 5), checked for its character set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameList<'a>(&'a str);

impl<'a> NameList<'a> {
    /// Reads the bytes inside the `string` of a `name-list`. Empty names are allowed, against the RFC, and skipped: libssh
    /// 0.10 ends its list of ciphers with a comma.
    pub fn from_content(content: &'a [u8]) -> Result<Self> {
        let text = core::str::from_utf8(content).map_err(|_| WireError::BadNameList)?;
        if content.iter().all(|byte| (0x21..0x7f).contains(byte)) {
            Ok(Self(text))
        } else {
            Err(WireError::BadNameList)
        }
    }

    /// The names in order of preference.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.0.split(',').filter(|name| !name.is_empty())
    }

    /// True when `name` is in the list.
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|each| each == name)
    }

    /// The list as it stands on the wire.
    pub const fn as_str(&self) -> &'a str {
        self.0
    }
}
