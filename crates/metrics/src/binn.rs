//! The subset of the binn format that HPN-SSH uses for its metrics: one object of named values, numbers and
//! (from Longhaul) text.
//!
//! An object is a type byte, a size that covers the whole object, the number of entries, and the entries:
//! length of the name, name, type, value. Sizes and counts are one byte below 128, else four with the top bit
//! set. Numbers are big-endian, in the smallest sufficient width. The three upper bits of a type give the
//! storage of the value, so unknown types can be skipped.

/// Type of an object.
const OBJECT: u8 = 0xe2;
/// Types of unsigned numbers of 1, 2, 4 and 8 bytes.
const NUMBERS: [(u8, usize); 4] = [(0x20, 1), (0x40, 2), (0x60, 4), (0x80, 8)];
/// Type of text: its size, its bytes, and a NUL that the size does not count.
const TEXT: u8 = 0xa0;
/// Upper limit of entries: more than any version of HPN-SSH or Longhaul sends.
const MOST_ENTRIES: usize = 512;

/// A value of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An unsigned number.
    Number(u64),
    /// Text in UTF-8, without NUL bytes.
    Text(String),
}

/// Why bytes are not an object of named values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BinnError {
    /// The bytes end too early.
    #[error("the object is cut short")]
    Short,
    /// The value is not an object.
    #[error("no object (type {0:#04x})")]
    NoObject(u8),
    /// A type that the format does not have.
    #[error("unknown type {0:#04x}")]
    Type(u8),
    /// More entries than the limit.
    #[error("{0} entries")]
    TooMany(usize),
}

/// Encodes an object with these entries. Names longer than 255 bytes are left out, and so is text with a NUL
/// byte.
pub fn encode<'a>(entries: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Vec<u8> {
    let mut body = Vec::with_capacity(2048);
    let mut count = 0;
    for (name, value) in entries {
        let Ok(length) = u8::try_from(name.len()) else { continue };
        if matches!(value, Value::Text(text) if text.contains('\0')) {
            continue;
        }
        body.push(length);
        body.extend_from_slice(name.as_bytes());
        match value {
            Value::Number(number) => put_number(&mut body, *number),
            Value::Text(text) => {
                body.push(TEXT);
                put_size(&mut body, text.len());
                body.extend_from_slice(text.as_bytes());
                body.push(0);
            }
        }
        count += 1;
    }
    let mut counted = Vec::with_capacity(4);
    put_size(&mut counted, count);
    // The size includes its own bytes.
    let around = 1 + counted.len();
    let short = body.len() + around + 1;
    let size = if short < 128 { short } else { body.len() + around + 4 };
    let mut out = Vec::with_capacity(size);
    out.push(OBJECT);
    put_size(&mut out, size);
    out.extend_from_slice(&counted);
    out.extend_from_slice(&body);
    out
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    let needed = 8 - number.leading_zeros() as usize / 8;
    let (kind, width) = NUMBERS.into_iter().find(|(_, width)| *width >= needed).unwrap_or((0x80, 8));
    out.push(kind);
    out.extend_from_slice(number.to_be_bytes().get(8 - width..).unwrap_or_default());
}

fn put_size(out: &mut Vec<u8>, size: usize) {
    match u8::try_from(size) {
        Ok(byte) if byte < 128 => out.push(byte),
        _ => {
            let size = u32::try_from(size).unwrap_or(u32::MAX) | 1 << 31;
            out.extend_from_slice(&size.to_be_bytes());
        }
    }
}

/// Numbers and texts of an object, in its order. Other values are skipped, and so are names and texts that
/// are not UTF-8, and texts with a NUL byte.
///
/// # Errors
/// See [`BinnError`]. Memory is bounded by the length of `bytes`.
pub fn decode(bytes: &[u8]) -> Result<Vec<(String, Value)>, BinnError> {
    let mut bytes = Bytes(bytes);
    match bytes.byte()? {
        OBJECT => {}
        kind => return Err(BinnError::NoObject(kind)),
    }
    bytes.size()?;
    let count = bytes.size()?;
    if count > MOST_ENTRIES {
        return Err(BinnError::TooMany(count));
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let length = usize::from(bytes.byte()?);
        let name = std::str::from_utf8(bytes.take(length)?).ok();
        let kind = bytes.byte()?;
        let value = bytes.value(kind)?;
        if let (Some(name), Some(value)) = (name, value) {
            entries.push((name.to_owned(), value));
        }
    }
    Ok(entries)
}

/// The unread bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], BinnError> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(BinnError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, BinnError> {
        self.take(1)?.first().copied().ok_or(BinnError::Short)
    }

    fn size(&mut self) -> Result<usize, BinnError> {
        let first = self.byte()?;
        if first < 128 {
            return Ok(first.into());
        }
        let rest = self.take(3)?;
        let size = rest.iter().fold(u32::from(first & 0x7f), |size, byte| size << 8 | u32::from(*byte));
        Ok(size as usize)
    }

    /// Reads a value of this type; `None` where it is neither a number nor text.
    fn value(&mut self, kind: u8) -> Result<Option<Value>, BinnError> {
        let width = match kind & 0xe0 {
            0x00 => 0,
            0x20 => 1,
            0x40 => 2,
            0x60 => 4,
            0x80 => 8,
            // Text ends in a NUL that its size does not count.
            0xa0 => self.size()? + 1,
            0xc0 => self.size()?,
            0xe0 => {
                let before = self.0.len();
                let size = self.size()?;
                // The size of a container includes its type and size bytes.
                size.checked_sub(1 + before - self.0.len()).ok_or(BinnError::Short)?
            }
            _ => return Err(BinnError::Type(kind)),
        };
        let bytes = self.take(width)?;
        if kind == TEXT {
            let text = bytes.strip_suffix(b"\0").filter(|bytes| !bytes.contains(&0));
            let text = text.and_then(|bytes| std::str::from_utf8(bytes).ok());
            return Ok(text.map(|text| Value::Text(text.to_owned())));
        }
        let is_number = NUMBERS.iter().any(|(known, _)| *known == kind);
        let number = || bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        Ok(is_number.then(|| Value::Number(number())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encoding_matches_the_documented_format() {
        // The example in the format's own documentation.
        let example = b"\xe2\x11\x01\x05hello\xa0\x05world\x00";
        let world = Value::Text("world".to_owned());
        assert_eq!(encode([("hello", &world)]), example);
        assert_eq!(decode(example), Ok(vec![("hello".to_owned(), world)]));
        let numbers = [1, 300, 70_000, 1 << 40].map(Value::Number);
        let bytes = encode(["a", "b", "c", "d"].into_iter().zip(&numbers));
        let expected = b"\xe2\x1e\x04\x01a\x20\x01\x01b\x40\x01\x2c\x01c\x60\x00\x01\x11\x70\x01d\x80\x00\x00\x01\x00\x00\x00\x00\x00";
        assert_eq!(bytes, expected);
        // Text of the given size that contains a NUL is skipped.
        assert_eq!(decode(b"\xe2\x0d\x01\x01s\xa0\x05a\x00b\x00c\x00"), Ok(vec![]));
        // A list, a float and null among numbers.
        let mixed =
            b"\xe2\x20\x05\x01l\xe0\x05\x01\x20\x07\x01f\x62\x00\x00\x00\x00\x01n\x00\x01a\x20\x09\x01s\xa0\x01x\x00";
        let expected =
            vec![("a".to_owned(), Value::Number(9)), ("s".to_owned(), Value::Text("x".to_owned()))];
        assert_eq!(decode(mixed), Ok(expected));
    }

    #[test]
    fn large_object_uses_four_byte_sizes() {
        let names: Vec<String> = (0..200).map(|n| format!("tcpi_{n}")).collect();
        let bytes = encode(names.iter().map(|name| (name.as_str(), &Value::Number(5))));
        assert_eq!(bytes[1..5], (u32::try_from(bytes.len()).unwrap() | 1 << 31).to_be_bytes());
        assert_eq!(decode(&bytes).unwrap().len(), 200);
        assert_eq!(decode(&bytes[..bytes.len() - 1]), Err(BinnError::Short));
        assert_eq!(decode(b"\xe0\x03\x00"), Err(BinnError::NoObject(0xe0)));
        assert_eq!(decode(b"\xe2\x80\xff\xff\xff\x80\xff\xff\xff"), Err(BinnError::TooMany(0xff_ffff)));
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![any::<u64>().prop_map(Value::Number), "[^\\x00]{0,200}".prop_map(Value::Text)]
    }

    proptest! {
        #[test]
        fn encoded_objects_decode(entries in proptest::collection::vec(("[a-z_]{0,40}", value()), 0..60)) {
            let bytes = encode(entries.iter().map(|(name, value)| (name.as_str(), value)));
            prop_assert_eq!(decode(&bytes).unwrap(), entries);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = OBJECT;
            }
            let _ = decode(&bytes);
        }
    }
}
