//! Systems whose reports this program does not understand. The types have no values.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::NetworkChange;

/// The kernel's reports: nowhere but on Linux.
#[derive(Debug)]
pub struct NetworkChanges(Infallible);

impl NetworkChanges {
    /// Asks for reports.
    ///
    /// # Errors
    /// `Unsupported`, always.
    pub fn watch() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reads the reports that have come.
    ///
    /// # Errors
    /// None.
    pub fn read(&self) -> io::Result<Vec<NetworkChange>> {
        match self.0 {}
    }
}

impl AsFd for NetworkChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

/// The end of the machine's sleep: nowhere but on Linux.
#[derive(Debug)]
pub struct Sleeps(Infallible);

impl Sleeps {
    /// Watches from now on.
    ///
    /// # Errors
    /// `Unsupported`, always.
    pub fn watch() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// True if the machine has slept since the last call.
    ///
    /// # Errors
    /// None.
    pub fn read(&mut self) -> io::Result<bool> {
        match self.0 {}
    }
}

impl AsFd for Sleeps {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}
