//! Escaping of untrusted text before it is displayed (RFC 4251 section 9.2): it must not control the
//! terminal, and it must not look like other text.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Longest text of a peer in one message to the user, bytes. OpenSSH's lines have 1,023.
pub const LONGEST_TEXT: usize = 1000;

/// Cuts a text after `longest` bytes at most. An ellipsis marks the cut.
pub fn shortened(text: &str, longest: usize) -> Cow<'_, str> {
    match text.get(..text.floor_char_boundary(longest)) {
        Some(start) if start.len() < text.len() => Cow::Owned(format!("{start}…")),
        _ => Cow::Borrowed(text),
    }
}

/// Returns true for characters that are invisible or change the text around them. These are control
/// characters of ASCII and Latin-1, characters that reorder, join or hide, and separators that some programs
/// treat as line ends.
pub const fn is_hidden(character: char) -> bool {
    character.is_ascii_control()
        || matches!(character, '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Escapes a name or text for display: each byte of a hidden character or of invalid UTF-8 becomes `\ooo`.
pub fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_hidden(character) {
                push_octal(&mut out, character.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                out.push(character);
            }
        }
        push_octal(&mut out, chunk.invalid());
    }
    out
}

/// Like [`printable`], for text of several lines: newlines and tabs stay, carriage returns are dropped.
pub fn printable_lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let cells = line.split('\t').map(|cell| printable(cell.replace('\r', "").as_bytes()));
        cells.collect::<Vec<_>>().join("\t")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Like [`printable_lines`], for text that arrives in pieces: a piece may end inside a character.
#[derive(Debug, Default)]
pub struct PrintableStream {
    /// First bytes of a character whose remaining bytes have not arrived.
    cut: Vec<u8>,
}

impl PrintableStream {
    /// Returns the next piece, escaped for display on a terminal.
    pub fn push(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.cut);
        bytes.extend_from_slice(piece);
        let whole = bytes.len() - unfinished(&bytes);
        self.cut = bytes.split_off(whole);
        let mut out = String::with_capacity(bytes.len());
        for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\t' | b'\r')) {
            match part.split_last() {
                Some((b'\r', text)) => out.push_str(&printable(text)),
                Some((end @ (b'\n' | b'\t'), text)) => {
                    out.push_str(&printable(text));
                    out.push(char::from(*end));
                }
                _ => out.push_str(&printable(part)),
            }
        }
        out
    }

    /// Returns the bytes of an incomplete last character, escaped.
    pub fn finish(&mut self) -> String {
        printable(&std::mem::take(&mut self.cut))
    }
}

/// Returns the number of bytes at the end that may begin a character.
fn unfinished(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        match bytes[bytes.len() - back] {
            0x80..=0xbf => {}
            0xc2..=0xdf if back < 2 => return back,
            0xe0..=0xef if back < 3 => return back,
            0xf0..=0xf4 => return back,
            _ => return 0,
        }
    }
    0
}

fn push_octal(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "\\{byte:03o}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_in_names_are_escaped() {
        assert_eq!(printable(b"a\x1b[2Jb\nc\xff"), "a\\033[2Jb\\012c\\377");
        assert_eq!(printable("na\u{202e}ev-ü-漢".as_bytes()), "na\\342\\200\\256ev-ü-漢");
        assert_eq!(printable("\u{9b}2J".as_bytes()), "\\302\\2332J");
    }

    #[test]
    fn result_does_not_depend_on_the_pieces() {
        let text = "a\r\n\tü漢😀\u{202e}\x1b]0;t\x07\n".as_bytes();
        let text = &[text, b"\xff\xe6\xbc", b"x\xf0"].concat()[..];
        let whole = "a\n\tü漢😀\\342\\200\\256\\033]0;t\\007\n\\377\\346\\274x\\360";
        for size in 1..=text.len() {
            let mut stream = PrintableStream::default();
            let mut shown: String = text.chunks(size).map(|piece| stream.push(piece)).collect();
            shown.push_str(&stream.finish());
            assert_eq!(shown, whole, "pieces of {size}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("abcd", 3), "abc…");
        assert_eq!(shortened("ab\u{e4}", 3), "ab…");
        assert_eq!(shortened("", 0), "");
    }

    #[test]
    fn newlines_and_tabs_are_kept() {
        assert_eq!(printable_lines("a\r\n\tb\x07\n"), "a\n\tb\\007\n");
        assert_eq!(printable_lines(""), "");
    }
}
