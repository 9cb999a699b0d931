//! From flags to the action, its files and the constraints of keys.

use std::path::PathBuf;

use lh_agent::Constraints;
use lh_cli::flags::Parsed;
use lh_crypto::FingerprintHash;

use crate::destination;
use crate::exit_status::{FAILURE, FATAL};
use crate::settings::AddSettings;

/// Why the program stops before any request.
pub(crate) struct Stop {
    pub(crate) text: String,
    pub(crate) status: u8,
}

fn fatal(text: impl Into<String>) -> Stop {
    Stop { text: text.into(), status: FATAL }
}

/// The parsed command line.
pub(crate) struct Plan {
    pub(crate) action: Action,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) how: AddSettings,
}

/// What the program asks the agent for.
pub(crate) enum Action {
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
    pub(crate) fn new(parsed: &Parsed) -> Result<Self, Stop> {
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
