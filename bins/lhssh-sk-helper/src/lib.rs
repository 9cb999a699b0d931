//! `lhssh-sk-helper`: loads a middleware library for FIDO security keys, executes one request with it, and
//! ends.
//!
//! Clients, agents and `lhssh-keygen` start it, so that a faulty library harms only this process. It reads a
//! request on standard input and answers on standard output, in the protocol of OpenSSH's ssh-sk-helper.

mod serve;

use std::io;
use std::process::ExitCode;

use lh_cli::helper::{own_channels, protect_memory};
use lh_security_key::messages::{Reply, Request, VERSION};
use lh_security_key::program::{receive, send};

/// The program.
pub fn main() -> ExitCode {
    lh_cli::helper::main(run)
}

fn run() -> Result<(), String> {
    protect_memory()?;
    let (mut input, mut output) = own_channels().map_err(|error| error.to_string())?;
    let body = receive(&mut input, VERSION)
        .and_then(|body| body.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()))
        .map_err(|error| format!("reading the request: {error}"))?;
    let reply = match Request::parse(&body) {
        Ok(request) => serve::answer(request).unwrap_or_else(Reply::Failed),
        Err(error) => return Err(format!("the request: {error}")),
    };
    send(&mut output, VERSION, &reply.encode()).map_err(|error| format!("writing the reply: {error}"))
}
