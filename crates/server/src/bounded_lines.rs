//! Reads files line by line with bounded memory: users may write them as large as they like, and each
//! unauthenticated connection for that user would have them in memory.

use std::io::{self, BufRead, Read as _};

/// Longest line of a file of keys or principals, bytes; longer ones are skipped, as in OpenSSH. It fits 8 KiB
/// of key and as much of options.
pub(crate) const MAX_LINE: usize = 16 * 1024;

/// Largest sum of the lines that are kept of a large file for one query, bytes. They may have options of
/// 16 KiB each, and the user writes the file.
pub(crate) const MOST_SELECTED: usize = 1 << 20;

/// A file that is read line by line.
pub(crate) struct BoundedLines<R> {
    file: R,
    /// Longest line, bytes, without its end.
    longest: usize,
    line: Vec<u8>,
    number: usize,
}

/// A line of a file.
pub(crate) struct BoundedLine<'a> {
    /// Line number, from 1.
    pub(crate) number: usize,
    /// The line with its end, or the beginning of one that is too long.
    pub(crate) bytes: &'a [u8],
    /// Whether the line is longer than the limit.
    pub(crate) is_too_long: bool,
}

impl<R: BufRead> BoundedLines<R> {
    /// Reads `file`; `longest` is the limit of a line without its end, bytes.
    pub(crate) const fn new(file: R, longest: usize) -> Self {
        Self { file, longest, line: Vec::new(), number: 0 }
    }

    /// Returns the next line; `None` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<BoundedLine<'_>>> {
        // Including "\r\n".
        let limit = self.longest + 2;
        self.line.clear();
        if (&mut self.file).take(limit as u64).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let is_too_long = self.line.len() == limit && self.line.last() != Some(&b'\n');
        if is_too_long {
            self.file.skip_until(b'\n')?;
        }
        Ok(Some(BoundedLine { number: self.number, bytes: &self.line, is_too_long }))
    }
}

/// Returns the lines of a file of any size for which `selects` returns true, at most [`MOST_SELECTED`] bytes
/// of them, without their ends and with their numbers (from 1). Lines longer than [`MAX_LINE`] are skipped.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn selected_lines(
    file: impl BufRead,
    selects: impl Fn(&str) -> bool,
) -> io::Result<Vec<(usize, String)>> {
    let mut lines = BoundedLines::new(file, MAX_LINE);
    let (mut selected, mut size) = (Vec::new(), 0);
    while let Some(line) = lines.next_line()? {
        let text = String::from_utf8_lossy(line.bytes);
        let text = text.trim_end_matches(['\r', '\n']);
        if line.is_too_long || !selects(text) {
            continue;
        }
        size += text.len();
        if size > MOST_SELECTED {
            break;
        }
        selected.push((line.number, text.to_owned()));
    }
    Ok(selected)
}

/// Returns the lines of a text for which `selects` returns true, with their numbers (from 1).
pub(crate) fn lines_of_text<'a>(
    text: &'a str,
    selects: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = (usize, &'a str)> {
    (1..).zip(text.lines()).filter(move |(_, line)| selects(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_recognized() {
        let text = "abc\r\n\nabcde\nabcdef\nabcdefgh\nabcd";
        let mut lines = BoundedLines::new(text.as_bytes(), 4);
        let mut seen = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let text = String::from_utf8_lossy(line.bytes).into_owned();
            seen.push((line.number, text, line.is_too_long));
        }
        let line = |number, text: &str, is_too_long| (number, text.to_owned(), is_too_long);
        // The limit includes a carriage return; the caller does not need the exact limit.
        assert_eq!(
            seen,
            [
                line(1, "abc\r\n", false),
                line(2, "\n", false),
                line(3, "abcde\n", false),
                line(4, "abcdef", true),
                line(5, "abcdef", true),
                line(6, "abcd", false),
            ]
        );
    }

    #[test]
    fn selected_lines_have_a_limit() {
        let line = format!("{}\r\n", "x".repeat(1000));
        let text = format!("# a comment\n{}", line.repeat(10 * MOST_SELECTED / line.len()));
        let selected = selected_lines(text.as_bytes(), |line| line.starts_with('x')).unwrap();
        let size: usize = selected.iter().map(|(_, line)| line.len()).sum();
        assert!((MOST_SELECTED / 2..=MOST_SELECTED).contains(&size), "{size}");
        assert_eq!(selected.first(), Some(&(2, "x".repeat(1000))));
    }
}
