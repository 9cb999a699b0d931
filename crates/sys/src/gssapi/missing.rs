//! The interface without the library: no context can be started, so the other methods are never called.

use std::convert::Infallible;
use std::path::Path;

use zeroize::Zeroizing;

use super::{GssError, Step};

fn not_built_in() -> GssError {
    GssError::new("GSSAPI is not built in")
}

/// See [`Initiator::new`].
#[derive(Debug)]
pub struct Initiator(Infallible);

impl Initiator {
    /// Always fails: this build has no GSSAPI.
    pub fn new(_host: &str, _delegate: bool) -> Result<Self, GssError> {
        Err(not_built_in())
    }

    /// Never called: no value of this type can be created.
    pub fn step(&mut self, _token: &[u8]) -> Result<Step, GssError> {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn mic(&self, _data: &[u8]) -> Result<Vec<u8>, GssError> {
        match self.0 {}
    }
}

/// See [`Acceptor::new`].
#[derive(Debug)]
pub struct Acceptor(Infallible);

impl Acceptor {
    /// Always fails: this build has no GSSAPI.
    pub fn new(_host: Option<&str>) -> Result<Self, GssError> {
        Err(not_built_in())
    }

    /// Never called: no value of this type can be created.
    pub fn step(&mut self, _token: &[u8]) -> Result<Step, GssError> {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn is_mic(&self, _data: &[u8], _mic: &[u8]) -> bool {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn principal(&self) -> Result<String, GssError> {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn delegated(&self) -> Result<Option<Zeroizing<Vec<u8>>>, GssError> {
        match self.0 {}
    }
}

/// Always fails: this build has no GSSAPI.
pub fn load() -> Result<(), GssError> {
    Err(not_built_in())
}

/// Always fails: this build has no GSSAPI.
pub fn may_log_in(_principal: &str, _user: &str) -> Result<bool, GssError> {
    Err(not_built_in())
}

/// Always fails: this build has no GSSAPI.
pub fn store(_exported: &[u8], _file: &Path) -> Result<(), GssError> {
    Err(not_built_in())
}
