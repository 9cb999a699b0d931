//! `lhscp`: files and directories between hosts, with the command line, the messages and the exit statuses of
//! scp(1).
//!
//! The copy itself is `lh_transfer`, for SFTP and for the old protocol; here are the words of the command
//! line ([`lh_ssh_transfer::place`], `command_line`), who is connected to whom (`copy`), the ways to get
//! there (`inside` this process, `pipes` to another program, `direct` from host to host), the old protocol
//! over each of them (`legacy`), its remote side (`remote_side`), copies that survive (`durable`), what a
//! person sees (`show`) and what a program does (`events`, from the first to the last: `frame`), what limited
//! a copy (`limits`), what the whole command did (`record`), and the files that it leaves for programs
//! (`outputs`).

mod command_line;
mod copy;
mod direct;
mod durable;
mod events;
mod frame;
mod inside;
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
    if parsed.has('t') || parsed.has('f') {
        return remote_side::run(&parsed);
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

/// The event `start`, where programs read.
fn frame(for_programs: bool) -> Option<Frame> {
    for_programs.then(Frame::begin)
}

/// A command line that makes no sense may have the flag nevertheless.
fn asks_for_json() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// Does what the command line says; returns the exit status.
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
                port: arguments.port,
                shard: arguments.options.select.shard,
            };
            if arguments.outputs.finish(&run) { status } else { status.max(FAILURE) }
        }
        Err(stop) => stop.print(),
    }
}
