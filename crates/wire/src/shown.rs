//! Text that somebody else chose, before a person sees it (RFC 4251 section 9.2): nothing in it may drive the terminal, and
//! nothing may pass for other text than it is.

use std::fmt::Write as _;

/// Whether a character acts on the text around it and has nothing to show: control characters of ASCII and Latin 1, what
/// reorders, joins or hides, and the separators that some programs take for the end of a line.
pub const fn is_hidden(character: char) -> bool {
    character.is_ascii_control()
        || matches!(character, '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// A name or a text as it may be shown: each byte of a hidden character, or of what is no UTF-8, becomes `\ooo`.
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

/// The same for text of several lines: newlines and tabs stay, a CR goes, as it is only a network's end of a line.
pub fn printable_lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let cells = line.split('\t').map(|cell| printable(cell.replace('\r', "").as_bytes()));
        cells.collect::<Vec<_>>().join("\t")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// [`printable_lines`] for text that arrives in pieces: a character may be cut anywhere.
#[derive(Debug, Default)]
pub struct PrintableStream {
    /// The beginning of a character whose rest has not come.
    cut: Vec<u8>,
}

impl PrintableStream {
    /// The next piece, as it may be shown on a terminal.
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

    /// What came of a character that never became whole.
    pub fn finish(&mut self) -> String {
        printable(&std::mem::take(&mut self.cut))
    }
}

/// Bytes at the end that may be the beginning of a character.
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
    fn a_name_cannot_drive_the_terminal() {
        assert_eq!(printable(b"a\x1b[2Jb\nc\xff"), "a\\033[2Jb\\012c\\377");
        assert_eq!(printable("na\u{202e}ev-ü-漢".as_bytes()), "na\\342\\200\\256ev-ü-漢");
        assert_eq!(printable("\u{9b}2J".as_bytes()), "\\302\\2332J");
    }

    #[test]
    fn text_in_any_pieces_is_shown_alike() {
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
    fn text_of_several_lines_keeps_them() {
        assert_eq!(printable_lines("a\r\n\tb\x07\n"), "a\n\tb\\007\n");
        assert_eq!(printable_lines(""), "");
    }
}
