//! `-e -m hexdump`: the wire encoding of a key in hexadecimal, for documents and tests.

use std::fmt::Write as _;

use crate::arguments::Arguments;
use crate::change::{open_key, public_in_line};
use crate::console::{Outcome, fatal, print, shown};
use crate::generate::key_file;

/// Bytes of a line.
const WIDTH: usize = 16;

/// Prints the public key of a file; if the file is a private key, the private key as well.
pub(crate) fn export(arguments: &Arguments) -> Outcome {
    let path = key_file(arguments)?;
    if let Some(key) = public_in_line(&path)? {
        return print(block("Public", &key.display_type(), key.blob()));
    }
    let key = open_key(&path, arguments.old_passphrase.as_ref(), "Enter passphrase: ", |why| {
        fatal(format!("Load key \"{}\": {why}", shown(&path)))
    })?;
    let (public, private) = (key.public(), key.to_wire());
    let kind = public.display_type();
    print(block("Public", &kind, public.blob()))?;
    print("\n")?;
    print(block("Private", &kind, &private))
}

/// A heading, the length, and lines of [`WIDTH`] bytes with their offset and text.
fn block(half: &str, kind: &str, bytes: &[u8]) -> String {
    let mut out = format!("{half} {} key:\nbuffer len = {}\n", lh_client::sanitise(kind), bytes.len());
    for (line, bytes) in bytes.chunks(WIDTH).enumerate() {
        let (mut hex, mut text) = (String::new(), String::new());
        for byte in bytes {
            let _ = write!(hex, "{byte:02x} ");
            text.push(if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' });
        }
        let _ = writeln!(out, "{:04}: {hex:<48} {text}", line * WIDTH);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_have_offset_bytes_and_text() {
        assert_eq!(
            super::block("Public", "RSA", b"\0\0\0\x07ssh-rsa\0\0\0\x03\x01~\xff"),
            "Public RSA key:\nbuffer len = 18\n\
             0000: 00 00 00 07 73 73 68 2d 72 73 61 00 00 00 03 01  ....ssh-rsa.....\n\
             0016: 7e ff                                            ~.\n"
        );
    }
}
