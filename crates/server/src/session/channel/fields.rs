//! Fields of channel requests (RFC 4254 section 6).

use lh_wire::Reader;
use rustix::termios::Winsize;

/// Reads fields that consist of one string.
pub(super) fn one_string(fields: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(fields);
    let text = reader.string().ok()?.to_vec();
    reader.finish().ok()?;
    Some(text)
}

/// Reads fields of one string, and a window's size.
#[cfg(fuzzing)]
pub(super) fn fuzz(fields: &[u8]) {
    let _ = one_string(fields);
    let _ = window_size(&mut Reader::new(fields));
}

/// Reads columns, rows, width and height in pixels. Larger values are cut to the kernel's maximum.
pub(super) fn window_size(reader: &mut Reader<'_>) -> lh_wire::Result<Winsize> {
    let mut number = || reader.u32().map(|value| u16::try_from(value).unwrap_or(u16::MAX));
    let (ws_col, ws_row, ws_xpixel, ws_ypixel) = (number()?, number()?, number()?, number()?);
    Ok(Winsize { ws_row, ws_col, ws_xpixel, ws_ypixel })
}
