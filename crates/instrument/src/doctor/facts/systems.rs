//! The two machines: their systems and their disks.

use crate::disk::Disk;
use crate::flow::Direction;
use crate::memory::MemoryGroups;
use crate::shell::System;

/// Systems of both machines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Systems {
    /// This machine.
    pub(crate) here: System,
    /// The server, before the transfers.
    pub(crate) there: System,
    /// The memory groups of the server's process after the last transfer.
    pub(crate) memory_at_end: MemoryGroups,
}

impl Systems {
    /// The system of the end that sends.
    pub(crate) const fn sending(&self, direction: Direction) -> &System {
        match direction {
            Direction::Up => &self.here,
            Direction::Down => &self.there,
        }
    }

    /// The system of the end that receives.
    pub(crate) const fn receiving(&self, direction: Direction) -> &System {
        match direction {
            Direction::Up => &self.there,
            Direction::Down => &self.here,
        }
    }
}

/// Rates of writing and reading a file, and where.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disks {
    /// This machine's.
    pub(crate) here: Option<Disk>,
    /// The server's.
    pub(crate) there: Option<Disk>,
    /// Directories in which no file could be made.
    pub(crate) unwritable: Vec<Unwritable>,
}

/// A directory in which the user may not make files.
#[derive(Debug, Clone)]
pub(crate) struct Unwritable {
    /// The server, or this machine.
    pub(crate) end: &'static str,
    pub(crate) directory: String,
    /// The system's words.
    pub(crate) said: &'static str,
}
