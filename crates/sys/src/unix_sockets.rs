//! The kernel's table of Unix sockets: under which abstract names processes listen.

use std::io;

/// The abstract names of the sockets of this network namespace, without the `@` in front.
#[derive(Debug)]
pub struct AbstractNames(Vec<u8>);

impl AbstractNames {
    /// Reads the kernel's table.
    ///
    /// # Errors
    /// `/proc/net/unix` cannot be read, for instance in a chroot.
    pub fn read() -> io::Result<Self> {
        Ok(Self(std::fs::read("/proc/net/unix")?))
    }

    /// The names in a text like the kernel's table.
    pub fn of_table(table: impl Into<Vec<u8>>) -> Self {
        Self(table.into())
    }

    /// Returns the names that are UTF-8. A name comes again for each accepted connection of its listener.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        // The last field of a line is the address.
        let name = |line: &'_ [u8]| line.iter().rposition(|byte| *byte == b' ').map(|at| at + 1);
        self.0
            .split(|byte| *byte == b'\n')
            .filter_map(move |line| std::str::from_utf8(line.get(name(line)?..)?).ok()?.strip_prefix('@'))
    }
}
