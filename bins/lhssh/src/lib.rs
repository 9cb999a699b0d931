//! `lhssh`: a command or a shell on another host, with the command line, messages and exit statuses of
//! ssh(1).

mod background;
mod command_line;
mod command_prompt;
mod errors;
mod escapes;
mod keystrokes;
mod master;
mod mux_client;
mod plan;
mod query;
mod report;
mod run;
mod session;

use std::io::Write;
use std::process::ExitCode;

use lh_cli::flags::SSH;
use lh_client::{Options, local_account};
use lh_config::ConfigFault;
use lh_terminal::TerminalUi;

use crate::command_line::{Arguments, interpret};
use crate::plan::CommandLineSettings;
use crate::report::FAILURE;

/// The whole program: reads the command line of the process and returns its exit status.
pub fn main() -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::signals::ignore_write_signals();
    ExitCode::from(start())
}

fn start() -> u8 {
    let parsed = match SSH.parse(std::env::args_os().skip(1)) {
        Ok(parsed) => parsed,
        Err(stop) => return stop.print(),
    };
    if parsed.has('V') {
        // On standard error, like ssh.
        eprintln!("{}", SSH.version());
        return 0;
    }
    if let Some(query) = parsed.text('Q') {
        return match query::answer(&query) {
            Some(lines) => print(&lines.into_iter().map(|line| format!("{line}\n")).collect::<String>()),
            None => fail(&format!("Unsupported query \"{query}\"")),
        };
    }
    let account = match local_account() {
        Ok(account) => account,
        Err(error) => return fail(&error.to_string()),
    };
    match interpret(&parsed, account) {
        Ok(arguments) => go(arguments),
        Err(error) => fail(error.to_string().trim_end()),
    }
}

fn go(arguments: Arguments) -> u8 {
    let mut ui = TerminalUi::default();
    let loaded = match Options::load(&arguments.request) {
        // As in ssh, a wrong `-o` ends the program before it opens the log file.
        Err(error) if error.fault == ConfigFault::Option => return fail(error.to_string().trim_end()),
        loaded => loaded,
    };
    if let Some(path) = &arguments.log_file
        && let Err(error) = ui.log_to(path)
    {
        let why = lh_sys::errno_text(&error);
        fail(&format!("Couldn't open logfile {}: {why}", path.display()));
        // Not 255: no connection has been tried.
        return 1;
    }
    let mut options = match loaded {
        Ok(options) => options,
        // The log file and the log level of the command line hold for mistakes in files.
        Err(error) => {
            if let Some(text) = error.logged() {
                ui.say(text.trim_end());
            }
            return FAILURE;
        }
    };
    if arguments.syslog {
        ui.log_to_syslog(&program_name(), options.config.syslog_facility.word());
    }
    let switch_forbidden = arguments.encrypted && *options.config.none_switch;
    if switch_forbidden {
        options.config.none_switch.force(false);
    }
    for warning in &arguments.warnings {
        ui.say(warning);
    }
    if arguments.print_config {
        lh_client::log_configuration(&options, &mut ui);
        return print(&options.config.dump(&lh_client::default_algorithms));
    }
    if switch_forbidden {
        ui.say("NONE cipher switch disabled by -T");
    }
    if arguments.list_keys {
        return match lh_client::public_keys(&options, &mut ui) {
            Ok(lines) => print(&lines.concat()),
            Err(error) => fail(&error.to_string()),
        };
    }
    let log_file = arguments.log_file.clone();
    let wanted = CommandLineSettings {
        command: arguments.command,
        stdio: arguments.stdio,
        control: arguments.control,
        log_file,
    };
    run::run(&options, wanted, &mut ui)
}

/// Name by which this program was called, for the system's log.
fn program_name() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&path).file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "lhssh".to_owned())
}

/// Prints to standard output; a closed pipe is no failure.
fn print(text: &str) -> u8 {
    let _ = std::io::stdout().write_all(text.as_bytes());
    0
}

/// Prints an error on standard error and returns the failure status.
fn fail(text: &str) -> u8 {
    eprintln!("{}", lh_wire::printable_lines(text));
    FAILURE
}
