//! `lhssh-keygen`: generates, changes and shows SSH keys, and manages known_hosts files. Command line,
//! dialogues, messages and exit statuses are those of ssh-keygen(1), so that scripts written for it work.
//!
//! There is one module per group of commands. `console` has prompts and messages, `files` reads and writes
//! key files.

mod arguments;
mod certificate;
mod certify;
mod change;
mod command;
mod console;
mod convert;
mod dns;
mod enroll;
mod error;
mod files;
mod fingerprint;
#[cfg(fuzzing)]
pub mod fuzzing;
mod generate;
mod hexdump;
mod hosts;
mod moduli;
mod options;
mod revoke;
mod save;
mod signer;
mod signers;
mod sshsig;
mod times;
mod token;

use std::process::ExitCode;

use lh_cli::flags::{KEYGEN, Parsed};

use arguments::Arguments;
use command::Command;
use console::{Outcome, error};

/// The whole program: reads the command line of the process and returns its exit status.
pub fn main() -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::signals::ignore_write_signals();
    let parsed = match KEYGEN.parse(std::env::args_os().skip(1)) {
        Ok(parsed) => parsed,
        Err(mut stop) => {
            stop.err = stop.err.replace(&KEYGEN.usage(), &usage());
            return ExitCode::from(stop.print());
        }
    };
    match run(parsed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            console::warn(&failure.text);
            ExitCode::from(failure.status)
        }
    }
}

/// Runs the requested command.
fn run(parsed: Parsed) -> Outcome {
    let wrong = |message: &str| error(format!("{message}\n{}", usage()));
    let arguments = &Arguments::check(&parsed)?;
    match Command::choose(&parsed).map_err(|why| wrong(&why.to_string()))? {
        Command::Signature(task) => {
            let task_shown = lh_client::sanitise(&task);
            let unknown = || wrong(&format!("Unsupported operation for -Y: \"{task_shown}\""));
            sshsig::run(arguments, &task).unwrap_or_else(|| Err(unknown()))
        }
        Command::MakeRevocations => revoke::make(arguments),
        Command::AskRevocations => revoke::ask(arguments),
        Command::Certify(authority) => certify::sign(arguments, &authority),
        Command::ShowCertificate => certificate::show(arguments),
        Command::RemoveHost(host) => hosts::remove(arguments, &host),
        Command::FindHost(host) => hosts::find(arguments, &host),
        Command::HashHosts => hosts::hash(arguments),
        Command::ShowToken(library) => token::show(arguments, &library),
        Command::DownloadKeys => enroll::download(arguments),
        Command::Fingerprint => fingerprint::show(arguments),
        Command::ChangePassphrase => change::passphrase(arguments),
        Command::ChangeComment => change::comment(arguments),
        Command::Export => convert::export(arguments),
        Command::Import => convert::import(arguments),
        Command::ShowPublic => change::public(arguments),
        Command::DnsRecords(host) => dns::records(arguments, &host),
        Command::Moduli(task) => moduli::run(arguments, &task),
        Command::GenerateHostKeys => generate::host_keys(arguments),
        Command::Generate => generate::one(arguments),
    }
}

/// The forms of the command line.
fn usage() -> String {
    let program = console::program();
    let mut out = String::new();
    for (position, form) in lh_cli::flags::KEYGEN_FORMS.iter().enumerate() {
        let head = if position == 0 { "usage: " } else { "       " };
        out.push_str(&format!("{head}{program} {form}\n"));
    }
    out
}
