//! `lhssh-add`: adds keys to an agent, lists and removes them, with the command line, messages and exit
//! statuses of ssh-add(1).

mod add;
mod command_line;
mod console;
mod destination;
mod exit_status;
mod list;
mod lock;
mod remove;
mod resident;
mod settings;
mod token;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lh_agent::Request;
use lh_cli::flags::ADD;
use lh_client::agent::Agent;

use crate::command_line::{Action, Plan};
use crate::console::say;
use crate::exit_status::{FAILURE, NO_AGENT};

/// Default keys, below `~/.ssh`.
const DEFAULT_KEYS: [&str; 6] =
    ["id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "id_mldsa44_ed25519"];

/// The whole program: reads the command line of the process and returns its exit status.
pub fn main() -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::signals::ignore_write_signals();
    ExitCode::from(start())
}

fn start() -> u8 {
    let parsed = match ADD.parse(std::env::args_os().skip(1)) {
        Ok(parsed) => parsed,
        Err(stop) => return stop.print(),
    };
    let Some(path) = std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty()) else {
        say("Could not open a connection to your authentication agent.");
        return NO_AGENT;
    };
    let mut agent = match Agent::connect(Path::new(&path)) {
        Ok(agent) => agent,
        Err(lh_client::agent::AgentError::Io(error)) => {
            say(&format!("Error connecting to agent: {}", lh_sys::errno_text(&error)));
            return NO_AGENT;
        }
        Err(error) => {
            say(&format!("Error connecting to agent: {error}"));
            return NO_AGENT;
        }
    };
    let plan = match Plan::new(&parsed) {
        Ok(plan) => plan,
        Err(stop) => {
            say(&stop.text);
            return stop.status;
        }
    };
    if execute(&plan, &mut agent) { 0 } else { FAILURE }
}

/// Executes the plan; true on full success.
fn execute(plan: &Plan, agent: &mut Agent) -> bool {
    let how = &plan.how;
    match &plan.action {
        Action::Lock => lock::lock(agent),
        Action::Unlock => lock::unlock(agent),
        Action::List { public } => list::identities(agent, *public, how),
        Action::Extensions => list::extensions(agent),
        Action::Test => all_of(&plan.files, |file| list::test(agent, file, how)),
        Action::AddToken(provider) => token::add(agent, provider, &plan.files, how),
        Action::RemoveToken(provider) => token::remove(agent, provider),
        Action::AddResidents(provider) => resident::add(agent, provider, how),
        Action::RemoveAll => match agent.done(&Request::RemoveAll) {
            Ok(()) => {
                if !how.quiet {
                    say("All identities removed.");
                }
                true
            }
            Err(_) => {
                say("Failed to remove all identities.");
                false
            }
        },
        Action::Remove => each_file(plan, |file| remove::file(agent, file, how)),
        Action::Add => {
            let mut adder = add::Adder::new(how);
            each_file(plan, |file| adder.file(agent, file))
        }
    }
}

/// Calls `work` for every file, also after failures; true when all succeeded.
fn all_of(files: &[PathBuf], mut work: impl FnMut(&Path) -> bool) -> bool {
    let failures = files.iter().filter(|file| !work(file)).count();
    failures == 0
}

/// Calls `work` for every named file, else for the default files that exist. At least one must exist.
fn each_file(plan: &Plan, mut work: impl FnMut(&Path) -> bool) -> bool {
    if !plan.files.is_empty() {
        return all_of(&plan.files, work);
    }
    let home = lh_sys::users::current().ok().flatten().map(|user| user.home).or_else(lh_sys::users::home);
    let Some(home) = home else {
        say("No user found with this uid");
        return false;
    };
    let files = DEFAULT_KEYS.map(|name| home.join(".ssh").join(name));
    let (mut all, mut found) = (true, false);
    for file in files.iter().filter(|file| file.exists()) {
        let done = work(file);
        found |= done;
        all &= done;
    }
    all && found
}
