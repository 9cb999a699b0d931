//! Fields that several messages share.

use lh_wire::{Reader, WireError, Writer};

/// Reads text; names of users and files may have any encoding, so invalid UTF-8 is accepted.
pub(crate) fn text(reader: &mut Reader<'_>) -> Result<String, WireError> {
    Ok(String::from_utf8_lossy(reader.string()?).into_owned())
}

pub(crate) fn put_option(out: &mut Vec<u8>, value: Option<&[u8]>) {
    out.put_bool(value.is_some());
    if let Some(value) = value {
        out.put_string(value);
    }
}

pub(crate) fn read_option<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, WireError> {
    if reader.boolean()? { reader.string().map(Some) } else { Ok(None) }
}

pub(crate) fn optional_text(reader: &mut Reader<'_>) -> Result<Option<String>, WireError> {
    if reader.boolean()? { text(reader).map(Some) } else { Ok(None) }
}

pub(crate) fn put_list(out: &mut Vec<u8>, list: &[String]) {
    out.put_u32(u32::try_from(list.len()).unwrap_or(u32::MAX));
    for each in list {
        out.put_string(each.as_bytes());
    }
}

pub(crate) fn read_list(reader: &mut Reader<'_>) -> Result<Vec<String>, WireError> {
    let count = reader.u32()?;
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(text(reader)?);
    }
    Ok(list)
}
