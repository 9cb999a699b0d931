//! Stubs for systems whose network reports this program does not support. The types have no values.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::NetworkChange;

/// The kernel's reports, which are supported on Linux only.
#[derive(Debug)]
pub struct NetworkChanges(Infallible);

impl NetworkChanges {
    /// Always fails: only Linux is supported.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn watch() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called: no value of this type can be created.
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

/// Detection of system suspend, which is supported on Linux only.
#[derive(Debug)]
pub struct Sleeps(Infallible);

impl Sleeps {
    /// Always fails: only Linux is supported.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn watch() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called: no value of this type can be created.
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
