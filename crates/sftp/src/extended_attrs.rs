//! Attributes that version 3 has no fields for: times with nanoseconds, identities of files, holes, and
//! extended attributes. `docs/protocol.md` has the layouts.

use lh_wire::{Reader, Result, WireError, Writer};

/// Name of the pair that holds [`FileTimes`].
pub const TIMES: &str = "times@longhaul";
/// Name of the pair that holds an [`Inode`].
pub const INODE: &str = "inode@longhaul";
/// Name of the pair that holds the number of bytes that a file occupies on its disk.
pub const STORAGE: &str = "storage@longhaul";

/// `full-attrs@longhaul`: ask for [`TIMES`] in the server's ATTRS.
pub const WANT_TIMES: u32 = 1;
/// `full-attrs@longhaul`: ask for [`INODE`], for files with several hard links.
pub const WANT_INODE: u32 = 2;
/// `full-attrs@longhaul`: ask for [`STORAGE`], for files with holes.
pub const WANT_STORAGE: u32 = 4;

/// `get-xattrs@longhaul`: the attributes `user.*`, `trusted.*` and `security.capability`.
pub const XATTRS: u32 = 1;
/// `get-xattrs@longhaul`: access control lists (`system.posix_acl_access`, `system.posix_acl_default`).
pub const ACLS: u32 = 2;

/// Largest size in bytes of all extended attributes of a file in a message.
pub const MAX_XATTRS: usize = 192 * 1024;

/// Largest number of ranges in one answer.
pub const MAX_RANGES: usize = 4096;

/// Access and modification time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileTimes {
    /// Access time: seconds since 1970, and nanoseconds.
    pub access: (i64, u32),
    /// Modification time: seconds since 1970, and nanoseconds.
    pub modification: (i64, u32),
}

impl FileTimes {
    /// Appends both times.
    pub fn write(&self, out: &mut Vec<u8>) {
        for (seconds, nanoseconds) in [self.access, self.modification] {
            out.put_u64(seconds.cast_unsigned());
            out.put_u32(nanoseconds);
        }
    }

    /// Reads both times.
    ///
    /// # Errors
    /// A field is missing, or a nanoseconds field is a billion or more.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let mut time = || {
            let time = (reader.u64()?.cast_signed(), reader.u32()?);
            (time.1 < 1_000_000_000).then_some(time).ok_or(WireError::Invalid { what: "nanoseconds" })
        };
        Ok(Self { access: time()?, modification: time()? })
    }
}

/// Identity of a file on its host, and its number of hard links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inode {
    /// Device number of the file system.
    pub device: u64,
    /// Inode number.
    pub number: u64,
    /// Number of hard links.
    pub links: u32,
}

impl Inode {
    /// Appends the fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_u64(self.device);
        out.put_u64(self.number);
        out.put_u32(self.links);
    }

    /// Reads the fields.
    ///
    /// # Errors
    /// A field is missing.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { device: reader.u64()?, number: reader.u64()?, links: reader.u32()? })
    }
}

/// Ranges of a file that hold data: the answer to `data-ranges@longhaul`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranges {
    /// Start and end offset of each range, in ascending order, with holes between them.
    pub ranges: Vec<(u64, u64)>,
    /// Offset from which the client has to ask again. `None` if the answer reaches the end of the file.
    pub next: Option<u64>,
}

impl Ranges {
    /// Appends the reply's fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_bool(self.next.is_some());
        out.put_u64(self.next.unwrap_or(0));
        out.put_u32(u32::try_from(self.ranges.len()).unwrap_or(u32::MAX));
        for (from, to) in &self.ranges {
            out.put_u64(*from);
            out.put_u64(*to);
        }
    }

    /// Reads the reply's fields.
    ///
    /// # Errors
    /// There are too many ranges, they are not in order, or a field is missing.
    pub fn read(fields: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(fields);
        let more = reader.boolean()?;
        let next = reader.u64()?;
        let count = reader.u32()? as usize;
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for _ in 0..count {
            let (from, to) = (reader.u64()?, reader.u64()?);
            if ranges.len() == MAX_RANGES || from >= to || ranges.last().is_some_and(|last| from < last.1) {
                return Err(WireError::Invalid { what: "ranges of data" });
            }
            ranges.push((from, to));
        }
        let next = more.then_some(next);
        if next.is_some_and(|next| ranges.last().is_none_or(|last| next < last.1)) {
            return Err(WireError::Invalid { what: "ranges of data" });
        }
        Ok(Self { ranges, next })
    }
}

/// Extended attributes: names and values.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns true if an attribute with this name belongs to `wanted` (bits [`XATTRS`] and [`ACLS`]). Attributes
/// that the kernel or a security module sets by itself (`system.`, `security.selinux` …) belong to neither.
pub fn is_wanted(name: &[u8], wanted: u32) -> bool {
    let acl = matches!(name, b"system.posix_acl_access" | b"system.posix_acl_default");
    let own = name.starts_with(b"user.") || name.starts_with(b"trusted.") || name == b"security.capability";
    (acl && wanted & ACLS != 0) || (own && wanted & XATTRS != 0)
}

/// Appends extended attributes.
pub fn write_xattrs(xattrs: &[(Vec<u8>, Vec<u8>)], out: &mut Vec<u8>) {
    out.put_u32(u32::try_from(xattrs.len()).unwrap_or(u32::MAX));
    for (name, value) in xattrs {
        out.put_string(name);
        out.put_string(value);
    }
}

/// Reads extended attributes up to the end of `fields`.
///
/// # Errors
/// A field is missing, or bytes follow the last attribute.
pub fn read_xattrs(fields: &[u8]) -> Result<Xattrs> {
    let mut reader = Reader::new(fields);
    let count = reader.u32()?;
    let mut xattrs = Vec::new();
    for _ in 0..count {
        xattrs.push((reader.string()?.to_vec(), reader.string()?.to_vec()));
    }
    reader.finish()?;
    Ok(xattrs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Attrs, mode};

    proptest! {
        #[test]
        fn pairs_survive_the_wire(
            seconds in any::<(i64, i64)>(),
            nanoseconds in (0..1_000_000_000_u32, 0..1_000_000_000_u32),
            steps in proptest::collection::vec((1..1_000_u64, 1..1_000_u64), 1..20),
            xattrs in proptest::collection::vec(any::<(Vec<u8>, Vec<u8>)>(), 0..5),
        ) {
            let times = FileTimes { access: (seconds.0, nanoseconds.0), modification: (seconds.1, nanoseconds.1) };
            let inode = Inode { device: 1, number: 2, links: 3 };
            let attrs = Attrs { full_times: Some(times), inode: Some(inode), storage: Some(9), ..Attrs::NONE };
            let mut out = Vec::new();
            attrs.write(&mut out);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(Attrs::read(&mut reader).unwrap(), attrs);
            prop_assert!(reader.is_empty());
            let mut at = 0;
            let ranges = steps.iter().map(|(hole, data)| {
                let from = at + hole;
                at = from + data;
                (from, at)
            });
            let ranges = Ranges { ranges: ranges.collect(), next: seconds.0.is_positive().then_some(1 << 40) };
            let mut out = Vec::new();
            ranges.write(&mut out);
            prop_assert_eq!(Ranges::read(&out).unwrap(), ranges);
            let mut out = Vec::new();
            write_xattrs(&xattrs, &mut out);
            prop_assert_eq!(read_xattrs(&out).unwrap(), xattrs);
        }

        #[test]
        fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Ranges::read(&bytes);
            let _ = read_xattrs(&bytes);
            let _ = FileTimes::read(&mut Reader::new(&bytes));
        }
    }

    #[test]
    fn ranges_go_forward() {
        for ranges in [vec![(5, 5)], vec![(5, 9), (8, 12)], vec![(9, 5)]] {
            let mut out = Vec::new();
            Ranges { ranges, next: None }.write(&mut out);
            Ranges::read(&out).unwrap_err();
        }
        let mut out = Vec::new();
        // A client would repeat its request without end.
        Ranges { ranges: vec![(0, 9)], next: Some(3) }.write(&mut out);
        Ranges::read(&out).unwrap_err();
    }

    #[test]
    fn pairs_are_sent_on_request_unless_usual() {
        let times = FileTimes { access: (1, 2), modification: (3, 4) };
        let inode = |links| Some(Inode { device: 1, number: 2, links });
        let plain = Attrs { size: Some(100), permissions: Some(mode::REGULAR | 0o644), ..Attrs::NONE };
        let full = Attrs { full_times: Some(times), inode: inode(2), storage: Some(50), ..plain };
        assert_eq!(full.told(0), plain);
        assert_eq!(full.told(7), full);
        let one_name = Attrs { inode: inode(1), storage: Some(100), ..full };
        assert_eq!(one_name.told(7), Attrs { full_times: Some(times), ..plain });
    }

    #[test]
    fn system_attributes_are_kept() {
        assert!(is_wanted(b"user.mime", XATTRS) && !is_wanted(b"user.mime", ACLS));
        assert!(
            is_wanted(b"system.posix_acl_access", ACLS) && !is_wanted(b"system.posix_acl_access", XATTRS)
        );
        assert!(
            !is_wanted(b"security.selinux", XATTRS | ACLS) && !is_wanted(b"system.nfs4_acl", XATTRS | ACLS)
        );
    }
}
