//! `lhscp`: files and directories between hosts, with the command line, the messages and the exit statuses of
//! scp(1).
//!
//! `lh_transfer` makes the copy, by SFTP or by the old protocol. This crate has:
//!
//! | module | what |
//! |---|---|
//! | `command_line`, [`lh_ssh_transfer::place`] | the words of the command line |
//! | `steps`, `copy` | which hosts are connected to each other, and the copies over these connections |
//! | `inside`, `pipes`, `direct` | connections: in this process, by another program, from host to host |
//! | `legacy`, `remote_side` | the old protocol over each of them, and its remote side |
//! | `durable` | options of copies that can be resumed by a later command |
//! | `interrupt` | signals that stop a copy, also where its thread hangs |
//! | `show`, `events`, `frame` | output for people and for programs |
//! | `limits`, `record` | what limited a copy, and totals of the whole command |
//! | `outputs` | files for programs: manifest, list of failures |

mod command_line;
mod copy;
mod direct;
mod durable;
mod events;
mod frame;
mod inside;
mod interrupt;
mod legacy;
mod limits;
mod outcome;
mod outputs;
mod pipes;
mod program;
mod record;
mod remote_side;
mod resumption;
mod retry;
mod retry_limit;
mod show;
mod steps;

use std::process::ExitCode;

use lh_cli::flags::{Parsed, SCP};
use lh_client::local_account;
use lh_ssh_transfer::place;

use crate::frame::Frame;
use crate::outcome::FAILURE;
use crate::record::RunRecord;

/// The whole program: reads the command line of the process and returns its exit status.
pub fn main() -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::fd::reserve(lh_sys::fd::MANY);
    lh_sys::signals::ignore_write_signals();
    ExitCode::from(start())
}

fn start() -> u8 {
    let parsed = match SCP.parse(std::env::args_os().skip(1)) {
        Ok(parsed) => parsed,
        Err(stop) => {
            let frame = frame(stop.status != 0 && asks_for_json());
            let status = stop.print();
            return frame.map_or(status, |frame| frame.end(status));
        }
    };
    if let Some(arguments) = command_line::RemoteArguments::of(&parsed) {
        return remote_side::run(arguments);
    }
    match frame(parsed.has_long("json")) {
        Some(mut frame) => {
            let status = run_command(&parsed, &mut frame.record);
            frame.end(status)
        }
        None => {
            lh_ssh_transfer::take_leave(|_| ());
            run_command(&parsed, &mut RunRecord::new())
        }
    }
}

/// Writes the event `start` if the output is for programs (`--json`).
fn frame(for_programs: bool) -> Option<Frame> {
    for_programs.then(Frame::begin)
}

/// Returns whether the command line contains `--json`. Reads the words themselves: for a command line with an
/// error there is no parsed one, but a program still waits for the events `start` and `end`.
fn asks_for_json() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// Carries out the command line. Returns the exit status.
fn run_command(parsed: &Parsed, record: &mut RunRecord) -> u8 {
    let account = match local_account() {
        Ok(account) => account,
        Err(error) => {
            show::say(&error.to_string());
            return FAILURE;
        }
    };
    match command_line::interpret(parsed, account) {
        Ok(arguments) => {
            let status = copy::run(&arguments, record);
            let run = outputs::Run {
                id: &record.id,
                start: &record.start,
                outcome: record.outcome(status).name(),
                target: &arguments.target,
                port: arguments.login.port,
                shard: arguments.options.select.shard,
            };
            if arguments.outputs.finish(&run) { status } else { status.max(FAILURE) }
        }
        Err(stop) => stop.print(),
    }
}
