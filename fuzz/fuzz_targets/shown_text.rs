//! Text of a peer as it is shown on a terminal, whole and in pieces: it cannot drive the terminal.
#![no_main]

use lh_wire::{PrintableStream, is_hidden, printable, printable_lines};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let line = printable(bytes);
    assert!(!line.contains(is_hidden), "{line:?}");
    let text = String::from_utf8_lossy(bytes);
    let lines = printable_lines(&text);
    let drives = |c: char| is_hidden(c) && c != '\n' && c != '\t';
    assert!(!lines.contains(drives), "{lines:?}");
    let pieces = |length: usize| {
        let mut stream = PrintableStream::default();
        bytes.chunks(length).map(|piece| stream.push(piece)).collect::<String>()
    };
    let whole = pieces(bytes.len().max(1));
    assert!(!whole.contains(drives), "{whole:?}");
    assert_eq!(pieces(1), whole);
    assert_eq!(pieces(7), whole);
});
