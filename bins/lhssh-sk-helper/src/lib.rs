//! `lhssh-sk-helper`: loads libfido2, or another library for FIDO security keys, executes one request with
//! it, and ends.
//!
//! Clients, agents and `lhssh-keygen` start it, so that a faulty library harms only this process. It reads a
//! request on standard input and answers on standard output, in the protocol of OpenSSH's ssh-sk-helper.

mod internal;
mod serve;

use std::io;
use std::process::ExitCode;

use lh_cli::helper::{MemoryUnprotected, own_channels, protect_memory};
use lh_security_key::SkError;
use lh_security_key::messages::{Reply, Request, VERSION};
use lh_security_key::program::{receive, send};

/// The program.
pub fn main() -> ExitCode {
    lh_cli::helper::main(run)
}

/// An end of the program without a reply.
#[derive(Debug, thiserror::Error)]
enum HelperError {
    #[error(transparent)]
    Memory(#[from] MemoryUnprotected),
    #[error(transparent)]
    Channels(io::Error),
    #[error("reading the request: {0}")]
    Read(io::Error),
    /// The caller's request has another form.
    #[error("the request: {0}")]
    Request(SkError),
    #[error("writing the reply: {0}")]
    Write(io::Error),
}

fn run() -> Result<(), HelperError> {
    protect_memory()?;
    let (mut input, mut output) = own_channels().map_err(HelperError::Channels)?;
    let body = receive(&mut input, VERSION)
        .and_then(|body| body.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()))
        .map_err(HelperError::Read)?;
    let reply = match Request::parse(&body) {
        Ok(request) => serve::answer(request).unwrap_or_else(Reply::Failed),
        Err(error) => return Err(HelperError::Request(error)),
    };
    send(&mut output, VERSION, &reply.encode()).map_err(HelperError::Write)
}
