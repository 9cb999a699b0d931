//! The ATTRS structure (draft section 5) and the fixed-layout answers of OpenSSH's extensions.

use lh_wire::{Reader, Writer};

use crate::extended_attrs::{self, FileTimes, Inode};

const FLAG_SIZE: u32 = 0x0000_0001;
const FLAG_UIDGID: u32 = 0x0000_0002;
const FLAG_PERMISSIONS: u32 = 0x0000_0004;
const FLAG_ACMODTIME: u32 = 0x0000_0008;
const FLAG_EXTENDED: u32 = 0x8000_0000;

/// File type bits of [`Attrs::permissions`], with the values POSIX gives `st_mode`.
pub mod mode {
    /// Mask of the type bits.
    pub const TYPE: u32 = 0o170_000;
    /// Socket.
    pub const SOCKET: u32 = 0o140_000;
    /// Symbolic link.
    pub const SYMLINK: u32 = 0o120_000;
    /// Regular file.
    pub const REGULAR: u32 = 0o100_000;
    /// Block device.
    pub const BLOCK: u32 = 0o060_000;
    /// Directory.
    pub const DIRECTORY: u32 = 0o040_000;
    /// Character device.
    pub const CHARACTER: u32 = 0o020_000;
    /// FIFO.
    pub const FIFO: u32 = 0o010_000;
}

/// File attributes (draft section 5). An absent field is not sent, and a request does not change it.
///
/// Reads and writes the extended pairs of [`extended_attrs`]. A server sends them only to clients that asked
/// for them. Reading checks the other pairs and drops them: version 3 defines none, and OpenSSH ignores them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attrs {
    /// Size in bytes.
    pub size: Option<u64>,
    /// Numeric user and group.
    pub ids: Option<(u32, u32)>,
    /// `st_mode`: type bits (see [`mode`]) and permission bits.
    pub permissions: Option<u32>,
    /// Access and modification time, in seconds since 1970.
    pub times: Option<(u32, u32)>,
    /// Times with 64-bit seconds and nanoseconds, as an extended pair.
    pub full_times: Option<FileTimes>,
    /// Identity of the file and its number of hard links, as an extended pair.
    pub inode: Option<Inode>,
    /// Bytes that the file occupies on its disk, as an extended pair: fewer than [`Attrs::size`] if it has
    /// holes.
    pub storage: Option<u64>,
}

impl Attrs {
    /// Attributes without any field.
    pub const NONE: Self = Self {
        size: None,
        ids: None,
        permissions: None,
        times: None,
        full_times: None,
        inode: None,
        storage: None,
    };

    /// Returns attributes with permission bits only.
    pub const fn with_permissions(permissions: u32) -> Self {
        Self { permissions: Some(permissions), ..Self::NONE }
    }

    /// Returns true when the type bits are known and are `kind` (one of [`mode`]'s constants).
    pub fn is(&self, kind: u32) -> bool {
        self.permissions.is_some_and(|bits| bits & mode::TYPE == kind)
    }

    /// Returns true for a directory.
    pub fn is_dir(&self) -> bool {
        self.is(mode::DIRECTORY)
    }

    /// Returns true for a regular file.
    pub fn is_file(&self) -> bool {
        self.is(mode::REGULAR)
    }

    /// Returns true for a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.is(mode::SYMLINK)
    }

    /// Reads the structure and leaves the bytes after it in `reader`.
    pub fn read(reader: &mut Reader<'_>) -> lh_wire::Result<Self> {
        let flags = reader.u32()?;
        let mut attrs = Self::NONE;
        if flags & FLAG_SIZE != 0 {
            attrs.size = Some(reader.u64()?);
        }
        if flags & FLAG_UIDGID != 0 {
            attrs.ids = Some((reader.u32()?, reader.u32()?));
        }
        if flags & FLAG_PERMISSIONS != 0 {
            attrs.permissions = Some(reader.u32()?);
        }
        if flags & FLAG_ACMODTIME != 0 {
            attrs.times = Some((reader.u32()?, reader.u32()?));
        }
        if flags & FLAG_EXTENDED != 0 {
            // Each pair takes at least 8 bytes, so the loop ends with the message even if the count is
            // larger.
            for _ in 0..reader.u32()? {
                let name = reader.string()?;
                let value = reader.string()?;
                attrs.read_pair(name, value)?;
            }
        }
        Ok(attrs)
    }

    /// Appends the structure.
    pub fn write(&self, out: &mut Vec<u8>) {
        let bit = |present: bool, flag: u32| if present { flag } else { 0 };
        out.put_u32(
            bit(self.size.is_some(), FLAG_SIZE)
                | bit(self.ids.is_some(), FLAG_UIDGID)
                | bit(self.permissions.is_some(), FLAG_PERMISSIONS)
                | bit(self.times.is_some(), FLAG_ACMODTIME)
                | bit(self.pairs() > 0, FLAG_EXTENDED),
        );
        if let Some(size) = self.size {
            out.put_u64(size);
        }
        if let Some((user, group)) = self.ids {
            out.put_u32(user);
            out.put_u32(group);
        }
        if let Some(permissions) = self.permissions {
            out.put_u32(permissions);
        }
        if let Some((access, modification)) = self.times {
            out.put_u32(access);
            out.put_u32(modification);
        }
        if self.pairs() > 0 {
            out.put_u32(self.pairs());
            if let Some(times) = &self.full_times {
                out.put_string(extended_attrs::TIMES.as_bytes());
                out.nested(|out| times.write(out));
            }
            if let Some(inode) = &self.inode {
                out.put_string(extended_attrs::INODE.as_bytes());
                out.nested(|out| inode.write(out));
            }
            if let Some(storage) = self.storage {
                out.put_string(extended_attrs::STORAGE.as_bytes());
                out.nested(|out| out.put_u64(storage));
            }
        }
    }

    fn pairs(&self) -> u32 {
        u32::from(self.full_times.is_some())
            + u32::from(self.inode.is_some())
            + u32::from(self.storage.is_some())
    }

    /// Reads one extended pair. A server sets times, so a value of them that has another layout is an error:
    /// it would be answered with success otherwise. Such a value of other pairs is ignored.
    fn read_pair(&mut self, name: &[u8], value: &[u8]) -> lh_wire::Result<()> {
        let mut reader = Reader::new(value);
        match core::str::from_utf8(name) {
            Ok(extended_attrs::TIMES) => {
                self.full_times = Some(FileTimes::read(&mut reader)?);
                reader.finish()?;
            }
            Ok(extended_attrs::INODE) => self.inode = Inode::read(&mut reader).ok(),
            Ok(extended_attrs::STORAGE) => self.storage = reader.u64().ok(),
            _ => {}
        }
        Ok(())
    }

    /// Returns the attributes for a client that has asked for `wanted` (bits of [`extended_attrs`]). A pair
    /// with the usual value is left out.
    #[must_use]
    pub fn told(&self, wanted: u32) -> Self {
        let links = self.inode.is_some_and(|inode| inode.links != 1) && !self.is_dir();
        let holes = self.is_file() && self.storage < self.size;
        Self {
            full_times: self.full_times.filter(|_| wanted & extended_attrs::WANT_TIMES != 0),
            inode: self.inode.filter(|_| wanted & extended_attrs::WANT_INODE != 0 && links),
            storage: self.storage.filter(|_| wanted & extended_attrs::WANT_STORAGE != 0 && holes),
            ..*self
        }
    }
}

macro_rules! u64_record {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: u64,)*
        }

        impl $name {
            /// Reads the content of an EXTENDED_REPLY; bytes after the last known field are ignored.
            pub fn read(reader: &mut Reader<'_>) -> lh_wire::Result<Self> {
                Ok(Self { $($field: reader.u64()?,)* })
            }

            /// Appends the content of an EXTENDED_REPLY.
            pub fn write(&self, out: &mut Vec<u8>) {
                $(out.put_u64(self.$field);)*
            }
        }
    };
}

u64_record! {
    /// The answer to `statvfs@openssh.com` and `fstatvfs@openssh.com`: POSIX `struct statvfs`.
    StatVfs {
        /// Block size for transfers.
        block_size,
        /// The unit of the block counts.
        fragment_size,
        /// Size of the file system in fragments.
        blocks,
        /// Number of free fragments.
        blocks_free,
        /// Number of free fragments for ordinary users.
        blocks_available,
        /// Number of inodes.
        files,
        /// Number of free inodes.
        files_free,
        /// Number of free inodes for ordinary users.
        files_available,
        /// Identifier of the file system.
        id,
        /// 1 = read-only, 2 = no setuid.
        flags,
        /// Longest file name in bytes.
        name_max,
    }
}

impl StatVfs {
    /// Bit of [`StatVfs::flags`]: read-only.
    pub const READ_ONLY: u64 = 1;
    /// Bit of [`StatVfs::flags`]: set-user-id bits have no effect.
    pub const NO_SETUID: u64 = 2;
}

u64_record! {
    /// The reply to `limits@openssh.com`. A field of 0 is unknown.
    Limits {
        /// Largest message in bytes.
        max_packet,
        /// Largest number of bytes that one READ returns.
        max_read,
        /// Largest number of bytes that one WRITE may carry.
        max_write,
        /// Largest number of handles that may be open at once. It does not limit the requests in flight.
        max_handles,
    }
}
