//! Encoder for RFC 4251 types, appending to a `Vec<u8>`.

use crate::Mpint;

/// Returns the wire size of a `string` with `content` bytes.
pub const fn string_len(content: usize) -> usize {
    4 + content
}

/// Appends RFC 4251 types. Implemented for `Vec<u8>`.
///
/// A `string` longer than 2^32-1 bytes cannot be encoded. Callers bound their data long before that (the
/// largest packet that either side accepts is 256 KiB), so the length saturates instead of failing.
pub trait Writer {
    /// Appends `byte[n]`, without a length.
    fn put_bytes(&mut self, bytes: &[u8]);

    /// Appends a `byte`.
    fn put_u8(&mut self, value: u8) {
        self.put_bytes(&[value]);
    }

    /// Appends a `boolean`.
    fn put_bool(&mut self, value: bool) {
        self.put_u8(u8::from(value));
    }

    /// Appends a `uint32`.
    fn put_u32(&mut self, value: u32) {
        self.put_bytes(&value.to_be_bytes());
    }

    /// Appends a `uint64`.
    fn put_u64(&mut self, value: u64) {
        self.put_bytes(&value.to_be_bytes());
    }

    /// Appends a `string`.
    fn put_string(&mut self, content: &[u8]) {
        self.put_u32(u32::try_from(content.len()).unwrap_or(u32::MAX));
        self.put_bytes(content);
    }

    /// Appends an `mpint` from an unsigned big-endian magnitude; leading zeros are dropped.
    fn put_mpint(&mut self, magnitude: &[u8]) {
        let magnitude = Mpint::from_magnitude(magnitude).magnitude();
        let sign = magnitude.first().is_some_and(|first| first & 0x80 != 0);
        self.put_u32(u32::try_from(magnitude.len() + usize::from(sign)).unwrap_or(u32::MAX));
        if sign {
            self.put_u8(0);
        }
        self.put_bytes(magnitude);
    }

    /// Appends a `name-list`.
    fn put_name_list<'n>(&mut self, names: impl IntoIterator<Item = &'n str>)
    where
        Self: Sized,
    {
        self.nested(|inner| {
            for (position, name) in names.into_iter().enumerate() {
                if position > 0 {
                    inner.put_u8(b',');
                }
                inner.put_bytes(name.as_bytes());
            }
        });
    }

    /// Appends a `string` whose content `fill` writes; the length is filled in afterwards.
    fn nested(&mut self, fill: impl FnOnce(&mut Self))
    where
        Self: Sized;
}

impl Writer for Vec<u8> {
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn nested(&mut self, fill: impl FnOnce(&mut Self)) {
        let at = self.len();
        self.put_u32(0);
        fill(self);
        let len = u32::try_from(self.len() - at - 4).unwrap_or(u32::MAX);
        if let Some(slot) = self.get_mut(at..at + 4) {
            slot.copy_from_slice(&len.to_be_bytes());
        }
    }
}
