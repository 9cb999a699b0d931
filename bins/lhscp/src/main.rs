//! `lhscp`: files and folders between hosts, with the command line, the messages and the exit statuses of scp(1).
//!
//! The copy itself is `lh_transfer`; here are the words of the command line ([`place`], [`command_line`]), who is
//! connected to whom ([`copy`]), and what a person sees ([`show`]).

mod command_line;
mod copy;
mod place;
mod show;

use std::process::ExitCode;

use lh_cli::flags::SCP;
use lh_client::local_account;

/// Exit status when something was not copied.
const FAILURE: u8 = 1;

/// Exit status when there was no connection, or it was lost: what `ssh` says, and so does `scp`.
const NO_CONNECTION: u8 = 255;

fn main() -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::signals::ignore_sigpipe();
    ExitCode::from(start())
}

fn start() -> u8 {
    let parsed = match SCP.parse(std::env::args_os().skip(1)) {
        Ok(parsed) => parsed,
        Err(stop) => return stop.print(),
    };
    let account = match local_account() {
        Ok(account) => account,
        Err(why) => {
            eprintln!("lhscp: {why}");
            return FAILURE;
        }
    };
    match command_line::interpret(&parsed, account) {
        Ok(arguments) => copy::run(&arguments),
        Err(stop) => stop.print(),
    }
}
