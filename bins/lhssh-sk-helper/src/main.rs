//! `lhssh-sk-helper`: loads a middleware library for FIDO security keys, executes one request with it, and
//! ends.
//!
//! Clients, agents and `lhssh-keygen` start it, so that a faulty library harms only this process. It reads a
//! request on standard input and answers on standard output, in the protocol of OpenSSH's ssh-sk-helper.

mod serve;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use lh_security_key::messages::{MAX_MESSAGE, Reply, Request, VERSION};
use lh_wire::Writer as _;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use zeroize::Zeroizing;

fn main() -> ExitCode {
    lh_cli::helper::main(run)
}

fn run() -> Result<(), String> {
    // PINs are in this process's memory.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .and_then(|()| setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }))
        .map_err(|error| format!("cannot protect the memory of this process: {error}"))?;
    let (mut input, mut output) = own_channels().map_err(|error| error.to_string())?;
    let body = receive(&mut input).map_err(|error| format!("reading the request: {error}"))?;
    let reply = match Request::parse(&body) {
        Ok(request) => serve::answer(request).unwrap_or_else(Reply::Failed),
        Err(error) => return Err(format!("the request: {error}")),
    };
    let body = reply.encode();
    let mut message = Vec::with_capacity(body.len() + 5);
    message.put_u32(u32::try_from(body.len() + 1).map_err(|_| "the reply is too long")?);
    message.put_u8(VERSION);
    message.put_bytes(&body);
    output.write_all(&message).map_err(|error| format!("writing the reply: {error}"))
}

/// Moves standard input and output to other descriptors, so that libraries that read or print cannot disturb
/// the protocol.
fn own_channels() -> io::Result<(File, File)> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let null: OwnedFd = File::options().read(true).write(true).open("/dev/null")?.into();
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((File::from(input), File::from(output)))
}

/// Reads the body of the request.
fn receive(input: &mut File) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut head = [0; 5];
    input.read_exact(&mut head)?;
    let [a, b, c, d, version] = head;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length == 0 || length > MAX_MESSAGE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its length is invalid"));
    }
    if version != VERSION {
        let text = format!("unsupported version: received {version}, expected {VERSION}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut body = Zeroizing::new(vec![0; length - 1]);
    input.read_exact(&mut body)?;
    Ok(body)
}
