//! `lhssh-keygen`: make, change and show SSH keys, and manage known_hosts files, with the command line, the dialogues, the
//! messages and the exit statuses of ssh-keygen(1), so that scripts written for it go on working.
//!
//! One room per group of commands; [`talk`] holds what is said and asked, [`files`] what is read and written.

mod arguments;
mod certificate;
mod change;
mod convert;
mod files;
mod fingerprint;
mod generate;
mod hosts;
mod talk;

use std::process::ExitCode;

use lh_cli::flags::{KEYGEN, Parsed};

use arguments::Arguments;
use talk::{Outcome, error};

fn main() -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::signals::ignore_sigpipe();
    let parsed = match KEYGEN.parse(std::env::args_os().skip(1)) {
        Ok(parsed) => parsed,
        Err(stop) => return ExitCode::from(stop.print()),
    };
    match run(parsed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            talk::warn(&failure.text);
            ExitCode::from(failure.status)
        }
    }
}

/// Does the one thing that was asked for. Where flags ask for several, the order is ssh-keygen's.
fn run(parsed: Parsed) -> Outcome {
    let usage = |message: &str| error(format!("{message}\n{}", KEYGEN.usage()));
    let arguments = Arguments::check(parsed)?;
    let find = arguments.parsed.text('F');
    let remove = arguments.parsed.text('R');
    if !arguments.parsed.operands.is_empty() {
        return Err(usage("Too many arguments."));
    }
    if arguments.has('p') && arguments.has('c') {
        return Err(usage("Can only have one of -p and -c."));
    }
    if arguments.has('L') {
        return certificate::show(&arguments);
    }
    if find.is_some() && remove.is_some() {
        return Err(usage("Can only have one of -F and -R."));
    }
    if let Some(host) = find {
        hosts::find(&arguments, &host)
    } else if let Some(host) = remove {
        hosts::remove(&arguments, &host)
    } else if arguments.has('H') {
        hosts::hash(&arguments)
    } else if arguments.has('l') {
        fingerprint::show(&arguments)
    } else if arguments.has('p') {
        change::passphrase(&arguments)
    } else if arguments.has('c') {
        change::comment(&arguments)
    } else if arguments.has('e') {
        convert::export(&arguments)
    } else if arguments.has('i') {
        convert::import(&arguments)
    } else if arguments.has('y') {
        change::public(&arguments)
    } else if arguments.has('A') {
        generate::host_keys(&arguments)
    } else {
        generate::one(&arguments)
    }
}
