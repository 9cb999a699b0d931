//! `lhssh-keygen`: generates, changes and shows SSH keys, and manages known_hosts files. Command line,
//! dialogues, messages and exit statuses are those of ssh-keygen(1), so that scripts written for it work.
//!
//! There is one module per group of commands. `talk` has prompts and messages, `files` reads and writes
//! key files.

mod arguments;
mod certificate;
mod certify;
mod change;
mod convert;
mod dns;
mod enroll;
mod files;
mod fingerprint;
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
mod talk;
mod times;
mod token;

use std::path::PathBuf;
use std::process::ExitCode;

use lh_cli::flags::{KEYGEN, Parsed};

use arguments::Arguments;
use talk::{Outcome, error};

/// The whole program: reads the command line of the process and returns its exit status.
pub fn main() -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::signals::ignore_sigpipe();
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
            talk::warn(&failure.text);
            ExitCode::from(failure.status)
        }
    }
}

/// Runs the requested command. Where flags request several, the order is ssh-keygen's.
fn run(parsed: Parsed) -> Outcome {
    let wrong = |message: &str| error(format!("{message}\n{}", usage()));
    let arguments = Arguments::check(parsed)?;
    let has = |flag| arguments.has(flag);
    let text = |flag| arguments.parsed.text(flag);
    if let Some(task) = text('Y') {
        let unknown = || wrong(&format!("Unsupported operation for -Y: \"{}\"", lh_client::sanitise(&task)));
        return sshsig::run(&arguments, &task).unwrap_or_else(|| Err(unknown()));
    }
    let authority = arguments.parsed.value('s').map(PathBuf::from);
    let operands = !arguments.parsed.operands.is_empty();
    if authority.is_some() && !operands && !has('k') {
        return Err(wrong("Too few arguments."));
    }
    if operands && authority.is_none() && !has('k') && !has('Q') && text('M').is_none() {
        return Err(wrong("Too many arguments."));
    }
    if has('p') && has('c') {
        return Err(wrong("Can only have one of -p and -c."));
    }
    if has('l') && (has('H') || text('R').is_some()) {
        return Err(wrong("Cannot use -l with -H or -R."));
    }
    if has('k') {
        return revoke::make(&arguments);
    }
    if has('Q') {
        return revoke::ask(&arguments);
    }
    if let Some(authority) = authority {
        return certify::sign(&arguments, &authority);
    }
    if has('L') {
        return certificate::show(&arguments);
    }
    if let Some(host) = text('R') {
        hosts::remove(&arguments, &host)
    } else if let Some(host) = text('F') {
        hosts::find(&arguments, &host)
    } else if has('H') {
        hosts::hash(&arguments)
    } else if let Some(library) = text('D') {
        token::show(&arguments, &library)
    } else if has('K') {
        enroll::download(&arguments)
    } else if has('l') || has('B') {
        fingerprint::show(&arguments)
    } else if has('p') {
        change::passphrase(&arguments)
    } else if has('c') {
        change::comment(&arguments)
    } else if has('e') {
        convert::export(&arguments)
    } else if has('i') || has('X') {
        convert::import(&arguments)
    } else if has('y') {
        change::public(&arguments)
    } else if let Some(host) = text('r') {
        dns::records(&arguments, &host)
    } else if let Some(task) = text('M') {
        moduli::run(&arguments, &task)
    } else if has('A') {
        generate::host_keys(&arguments)
    } else {
        generate::one(&arguments)
    }
}

/// The forms of the command line.
fn usage() -> String {
    let program = talk::program();
    let mut out = String::new();
    for (position, form) in lh_cli::flags::KEYGEN_FORMS.iter().enumerate() {
        let head = if position == 0 { "usage: " } else { "       " };
        out.push_str(&format!("{head}{program} {form}\n"));
    }
    out
}
