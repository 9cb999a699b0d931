//! Owner, group, extended attributes and access control lists of the files in `put-files@longhaul` and
//! `get-files@longhaul`.
//!
//! Servers that know these flags announce two names in VERSION (`put-kept@longhaul`, `get-kept@longhaul`). A
//! client does not send the flags to other servers.

use lh_wire::{Reader, Result, Writer};

use crate::batch::{Got, bounded, read_one};
use crate::extended_attrs::{self, Xattrs};

/// `put-files@longhaul`: set the owner and the group in ATTRS (`u32::MAX` leaves the existing value).
pub const PUT_OWNER: u32 = 16;

/// `put-files@longhaul`: the data of each file is followed by all its extended attributes.
pub const PUT_XATTRS: u32 = extended_attrs::XATTRS << 5;

/// `put-files@longhaul`: like [`PUT_XATTRS`], for access control lists.
pub const PUT_ACLS: u32 = extended_attrs::ACLS << 5;

/// `get-files@longhaul`: in the reply, the data of each file are followed by its extended attributes of these
/// kinds.
pub const GET_KINDS: u32 = extended_attrs::XATTRS | extended_attrs::ACLS;

/// Largest number of bytes of a file's extended attributes in one of these messages. Longer ones are copied
/// by separate requests.
pub const MOST: usize = 1024;

/// Returns the flags of `put-files@longhaul` for these kinds (bits of [`extended_attrs`]).
pub const fn put_flags(kinds: u32) -> u32 {
    (kinds & GET_KINDS) << 5
}

/// Returns the kinds (bits of [`extended_attrs`]) in flags of `put-files@longhaul`.
pub const fn put_kinds(flags: u32) -> u32 {
    flags >> 5 & GET_KINDS
}

/// Appends all extended attributes of a file. Returns false, and appends nothing, when they take more than
/// [`MOST`] bytes.
pub fn write(xattrs: &Xattrs, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    out.nested(|out| extended_attrs::write_xattrs(xattrs, out));
    let fits = out.len() - start <= MOST;
    if !fits {
        out.truncate(start);
    }
    fits
}

/// Reads the attributes that [`write()`] has appended.
///
/// # Errors
/// The attributes take more than [`MOST`] bytes, or have another layout.
pub fn read(reader: &mut Reader<'_>) -> Result<Xattrs> {
    let fields = reader.string()?;
    if fields.len() > MOST {
        return Err(lh_wire::WireError::Invalid { what: "extended attributes of a small file" });
    }
    extended_attrs::read_xattrs(fields)
}

/// Appends the attributes of one file to a `get-files@longhaul` reply. If they are `None` or take more than
/// [`MOST`] bytes, the reply tells the client to ask for them with `get-xattrs@longhaul`.
pub fn write_got(xattrs: Option<&Xattrs>, out: &mut Vec<u8>) {
    let start = out.len();
    out.put_bool(true);
    if !xattrs.is_some_and(|xattrs| write(xattrs, out)) {
        out.truncate(start);
        out.put_bool(false);
    }
}

/// Reads the reply to `get-files@longhaul` with one of [`GET_KINDS`]: each file as
/// [`crate::batch::read_got`] returns it, and its attributes if the reply has them.
///
/// # Errors
/// The fields do not have the extension's layout.
pub fn read_got(fields: &[u8]) -> Result<Vec<(Got<'_>, Option<Xattrs>)>> {
    let mut reader = Reader::new(fields);
    let count = bounded(reader.u32()?)?;
    let mut files = Vec::new();
    for _ in 0..count {
        let got = read_one(&mut reader)?;
        let told = got.is_ok() && reader.boolean()?;
        let xattrs = if told { Some(read(&mut reader)?) } else { None };
        files.push((got, xattrs));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::batch::{GotFile, write_got as write_file};
    use crate::{Attrs, StatusCode};

    proptest! {
        #[test]
        fn attributes_survive_the_wire(
            xattrs in proptest::collection::vec(any::<(Vec<u8>, Vec<u8>)>(), 0..9),
            cut in 1..20_usize,
        ) {
            let file: Got<'_> = Ok(GotFile { attrs: Attrs::with_permissions(0o640), whole: true, data: b"text" });
            let failed: Got<'_> = Err((StatusCode::FAILURE, "no".to_owned()));
            let mut out = Vec::new();
            out.put_u32(3);
            write_file(&file, &mut out);
            write_got(Some(&xattrs), &mut out);
            write_file(&failed, &mut out);
            write_file(&file, &mut out);
            write_got(None, &mut out);
            let size = 4 + xattrs.iter().map(|(name, value)| name.len() + value.len() + 8).sum::<usize>();
            let told = (size + 4 <= MOST).then_some(xattrs);
            let read = read_got(&out).unwrap();
            prop_assert_eq!(read, [(file.clone(), told), (failed, None), (file, None)]);
            let short = &out[..out.len() - cut];
            prop_assert!(read_got(short).is_err());
        }

        #[test]
        fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_got(&bytes);
            let _ = read(&mut Reader::new(&bytes));
        }
    }

    #[test]
    fn kinds_are_bits_of_the_flags() {
        assert_eq!(put_flags(extended_attrs::XATTRS | extended_attrs::ACLS), PUT_XATTRS | PUT_ACLS);
        assert_eq!(put_kinds(PUT_ACLS | PUT_OWNER), extended_attrs::ACLS);
        let known = crate::batch::PUT_PERMISSIONS | crate::batch::PUT_PLACED | crate::batch::PUT_COMPARED;
        assert_eq!((PUT_OWNER | PUT_XATTRS | PUT_ACLS) & (known | crate::batch::PUT_OVER_LINKS), 0);
    }
}
