//! CBOR (RFC 8949), as far as CTAP 2 uses it.

/// A data item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Int(i64),
    Bytes(Vec<u8>),
    Text(String),
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Bool(bool),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

/// Returns a map with these keys and values.
pub(super) fn map<K: Into<Value>>(entries: impl IntoIterator<Item = (K, Value)>) -> Value {
    Value::Map(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

impl Value {
    /// The value of a key; `None` for other types, too.
    pub(super) fn get(&self, key: impl Into<Self>) -> Option<&Self> {
        let key = key.into();
        match self {
            Self::Map(entries) => entries.iter().find(|(found, _)| *found == key).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        if let Self::Bytes(bytes) = self { bytes } else { panic!("not bytes: {self:?}") }
    }

    pub(super) fn text(&self) -> &str {
        if let Self::Text(text) = self { text } else { panic!("not text: {self:?}") }
    }

    pub(super) fn int(&self) -> i64 {
        if let Self::Int(number) = self { *number } else { panic!("not a number: {self:?}") }
    }

    pub(super) fn list(&self) -> &[Self] {
        if let Self::List(list) = self { list } else { panic!("not a list: {self:?}") }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Int(number @ 0..) => head(&mut out, 0, number.unsigned_abs()),
            Self::Int(number) => head(&mut out, 1, number.unsigned_abs() - 1),
            Self::Bytes(bytes) => {
                head(&mut out, 2, bytes.len() as u64);
                out.extend(bytes);
            }
            Self::Text(text) => {
                head(&mut out, 3, text.len() as u64);
                out.extend(text.bytes());
            }
            Self::List(list) => {
                head(&mut out, 4, list.len() as u64);
                out.extend(list.iter().flat_map(Self::encode));
            }
            Self::Map(entries) => {
                head(&mut out, 5, entries.len() as u64);
                out.extend(entries.iter().flat_map(|(key, value)| [key.encode(), value.encode()].concat()));
            }
            Self::Bool(value) => out.push(0xf4 + u8::from(*value)),
        }
        out
    }

    /// Decodes one item and moves `from` behind it.
    pub(super) fn decode(from: &mut &[u8]) -> Self {
        let first = take(from, 1)[0];
        let number = match first & 31 {
            small @ 0..24 => u64::from(small),
            long => take(from, 1 << (long - 24)).iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        };
        let (length, signed) = (usize::try_from(number).unwrap(), i64::try_from(number).unwrap());
        match first >> 5 {
            0 => Self::Int(signed),
            1 => Self::Int(-1 - signed),
            2 => Self::Bytes(take(from, length).to_vec()),
            3 => Self::Text(String::from_utf8(take(from, length).to_vec()).unwrap()),
            4 => Self::List((0..length).map(|_| Self::decode(from)).collect()),
            5 => Self::Map((0..length).map(|_| (Self::decode(from), Self::decode(from))).collect()),
            _ => Self::Bool(first == 0xf5),
        }
    }
}

fn take<'a>(from: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = from.split_at(length);
    *from = rest;
    taken
}

fn head(out: &mut Vec<u8>, kind: u8, number: u64) {
    let bytes = number.to_be_bytes();
    match number {
        0..24 => out.push(kind << 5 | bytes[7]),
        24..0x100 => out.extend([kind << 5 | 24, bytes[7]]),
        0x100..0x1_0000 => out.extend([kind << 5 | 25, bytes[6], bytes[7]]),
        _ => {
            out.push(kind << 5 | 27);
            out.extend(bytes);
        }
    }
}
