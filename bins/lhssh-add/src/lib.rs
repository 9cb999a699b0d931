//! `lhssh-add`: adds keys to an agent, lists and removes them, with the command line, messages and exit
//! statuses of ssh-add(1).

mod add;
mod console;
mod destination;
mod list;
mod lock;
mod remove;
mod resident;
mod settings;
mod token;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lh_agent::{Constraints, Request};
use lh_cli::flags::{ADD, Parsed};
use lh_client::agent::Agent;
use lh_crypto::FingerprintHash;

use crate::console::say;
use crate::settings::AddSettings;

/// Exit status when a request was refused or a key not found, and when the agent has no keys.
const FAILURE: u8 = 1;
/// Exit status when there is no agent.
const NO_AGENT: u8 = 2;
/// Exit status of fatal errors in ssh-add's sense.
const FATAL: u8 = 255;

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

/// Why the program stops before any request.
struct Stop {
    text: String,
    status: u8,
}

fn fatal(text: impl Into<String>) -> Stop {
    Stop { text: text.into(), status: FATAL }
}

/// The parsed command line.
struct Plan {
    action: Action,
    files: Vec<PathBuf>,
    how: AddSettings,
}

enum Action {
    Add,
    Remove,
    RemoveAll,
    List { public: bool },
    Lock,
    Unlock,
    Test,
    Extensions,
    AddToken(String),
    AddResidents(String),
    RemoveToken(String),
}

impl Plan {
    fn new(parsed: &Parsed) -> Result<Self, Stop> {
        let fingerprint = match parsed.text('E') {
            None => FingerprintHash::Sha256,
            Some(name) => FingerprintHash::by_name(&name)
                .ok_or_else(|| fatal(format!("Invalid hash algorithm \"{name}\"")))?,
        };
        let lifetime = match parsed.text('t') {
            None => None,
            Some(text) => match lh_config::units::parse_time(&text).and_then(|n| u32::try_from(n).ok()) {
                Some(seconds) => Some(seconds).filter(|seconds| *seconds > 0),
                None => return Err(Stop { text: "Invalid lifetime".to_owned(), status: FAILURE }),
            },
        };
        let lists = parsed.has('l') || parsed.has('L');
        if parsed.has('l') && parsed.has('L') {
            return Err(fatal("-l flag already specified"));
        }
        let locks = parsed.has('x') || parsed.has('X');
        if [locks, lists, parsed.has('D')].into_iter().filter(|each| *each).count() > 1 {
            return Err(fatal("Invalid combination of actions"));
        }
        let provider = parsed
            .text('S')
            .or_else(|| std::env::var("SSH_SK_PROVIDER").ok())
            .unwrap_or_else(|| lh_security_key::INTERNAL.to_owned());
        let action = if locks {
            if parsed.has('x') { Action::Lock } else { Action::Unlock }
        } else if lists {
            Action::List { public: parsed.has('L') }
        } else if parsed.has('D') {
            Action::RemoveAll
        } else if parsed.has('Q') {
            Action::Extensions
        } else if parsed.has('T') {
            if parsed.operands.is_empty() {
                return Err(fatal("no keys to test"));
            }
            Action::Test
        } else if let Some(provider) = parsed.text('s') {
            Action::AddToken(provider)
        } else if let Some(provider) = parsed.text('e') {
            Action::RemoveToken(provider)
        } else if parsed.has('K') {
            Action::AddResidents(provider.clone())
        } else if parsed.has('d') {
            Action::Remove
        } else {
            Action::Add
        };
        let hosts: Vec<String> = parsed.values('h').map(|text| text.to_string_lossy().into_owned()).collect();
        let files: Vec<PathBuf> = parsed.values('H').map(PathBuf::from).collect();
        let constraints = Constraints {
            lifetime,
            confirm: parsed.has('c'),
            destinations: destination::constraints(&hosts, &files)
                .map_err(|error| fatal(error.to_string()))?,
            sk_provider: Some(provider),
            associated_certs: None,
        };
        Ok(Self {
            action,
            files: parsed.operands.iter().map(PathBuf::from).collect(),
            how: AddSettings {
                quiet: parsed.has('q'),
                verbose: parsed.has('v'),
                fingerprint,
                keys_only: parsed.has('k'),
                certificates_only: parsed.has('C'),
                limit_certificates: !parsed.has('N'),
                skip_pin: parsed.has('P'),
                constraints,
            },
        })
    }
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
