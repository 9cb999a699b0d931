//! Names and tags as words of a line.

use std::fmt::Write as _;

/// Names a source in a state: any other file, and the same file changed, has another one.
pub(crate) type Tag = [u8; 16];

/// A name without spaces, line ends and control characters: those become `%` and two digits, as does `%`.
pub(super) fn escaped(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for &byte in name {
        if byte.is_ascii_graphic() && byte != b'%' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02x}");
        }
    }
    out
}

/// Reverses [`escaped`]; `None` for anything else.
pub(super) fn unescaped(word: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte == b'%' {
            let (digits, behind) = rest.split_at_checked(2)?;
            rest = behind;
            out.push(byte_of(digits)?);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

fn byte_of(digits: &[u8]) -> Option<u8> {
    let valid = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| valid)?;
    u8::from_str_radix(text, 16).ok()
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(2 * bytes.len());
    put_hex(bytes, &mut out);
    out.into_iter().map(char::from).collect()
}

/// Appends them: one for each small file, so that formatting would be seen.
pub(super) fn put_hex(bytes: &[u8], out: &mut Vec<u8>) {
    let digit = |half: u8| if half < 10 { b'0' + half } else { b'a' + half - 10 };
    out.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

/// Reverses [`hex`] for a tag.
pub(super) fn tag(word: &[u8]) -> Option<Tag> {
    unhex(word)?.try_into().ok()
}

/// Reverses [`hex`].
pub(crate) fn unhex(word: &[u8]) -> Option<Vec<u8>> {
    word.chunks(2).map(byte_of).collect()
}

/// Longest line of a journal, bytes; a command that does not fit is not noted.
const LONGEST_COMMAND: usize = 32 * 1024;

/// The line for a command; `None` where it would be too long.
pub(super) fn command_line(command: &[Vec<u8>]) -> Option<String> {
    let words: Vec<String> = command.iter().map(|word| escaped(word)).collect();
    let line = format!("command {}\n", words.join(" "));
    (!words.is_empty() && line.len() < LONGEST_COMMAND).then_some(line)
}
