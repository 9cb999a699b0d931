//! The greetings, with the protocol's version and extensions.

use lh_wire::{Reader, Result, WireError, Writer};

use super::numbers::HELLO;

/// The protocol's version.
pub const VERSION: u32 = 4;

/// The greeting's extension of a master that answers requests for information.
pub(super) const INFORMATION: &[u8] = b"info";

/// Returns the greeting of a client.
pub fn hello() -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u32(HELLO);
    out.put_u32(VERSION);
    out
}

/// Returns the greeting of a master.
pub fn master_hello() -> Vec<u8> {
    let mut out = hello();
    out.put_string(INFORMATION);
    out.put_string(b"0");
    out
}

/// Returns the version in a client's greeting.
///
/// # Errors
/// The message is not a greeting.
pub fn read_hello(message: &[u8]) -> Result<u32> {
    let mut reader = Reader::new(message);
    if reader.u32()? != HELLO {
        return Err(WireError::Invalid { what: "greeting" });
    }
    let version = reader.u32()?;
    while !reader.is_empty() {
        let _extension = (reader.string()?, reader.string()?);
    }
    Ok(version)
}
