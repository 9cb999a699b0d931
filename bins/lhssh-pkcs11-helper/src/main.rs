//! `lhssh-pkcs11-helper`: loads a PKCS#11 library, lists the keys of its tokens, and signs with them.
//!
//! Clients, agents and `lhssh-keygen` start it, one process for each library, so that a faulty library harms
//! only this process and never reads an agent's memory. It answers requests on standard input until that
//! ends, and stays logged in to a token meanwhile.
//!
//! It neither hashes nor verifies: its caller does, and has the library for it. So this program links none,
//! which would make it three times as large; `cargo xtask dist` has a limit for its size.
//!
//! Called by the name of `lhssh-sk-helper` it is that program: packages have one file for both helpers that
//! load libraries.

mod error;
mod library;
mod sign;
mod token;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use lh_cli::helper::{own_channels, protect_memory};
use lh_security_key::pkcs11::messages::{Reply, Request, VERSION};
use lh_security_key::program::{receive, send};

use error::{HelperError, TokenError};
use library::Library;
use sign::Signed;

fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    match Path::new(&called).file_name().and_then(OsStr::to_str) {
        Some("lhssh-sk-helper" | "ssh-sk-helper") => lhssh_sk_helper::main(),
        _ => lh_cli::helper::main(run),
    }
}

fn run() -> Result<(), HelperError> {
    protect_memory()?;
    let (mut input, mut output) = own_channels().map_err(HelperError::Channels)?;
    let mut library = None;
    loop {
        let body = receive(&mut input, VERSION).map_err(HelperError::Read)?;
        let Some(body) = body else { return Ok(()) };
        let request = Request::parse(&body).map_err(HelperError::Request)?;
        let reply = answer(&mut library, &request).unwrap_or_else(|error| Reply::Failed(error.to_string()));
        send(&mut output, VERSION, &reply.encode()).map_err(HelperError::Write)?;
    }
}

/// Executes a request. The text of an error is for the caller.
fn answer(library: &mut Option<Library>, request: &Request) -> Result<Reply, TokenError> {
    match request {
        Request::Open { provider, pin } => {
            let library = match library {
                Some(library) => library,
                None => library.insert(Library::load(provider)?),
            };
            library.open(pin.as_ref().map(|pin| pin.as_str()))
        }
        Request::Sign { key, algorithm, data, digest, pin } => {
            let library = library.as_mut().ok_or(TokenError::NotLoaded)?;
            library.sign(key, algorithm, &Signed { data, digest }, pin.as_ref().map(|pin| pin.as_str()))
        }
    }
}
