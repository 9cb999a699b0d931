//! Values that only `sshd_config` has.

mod admission;
mod agent_socket;
mod authentication;
mod listen;
mod quota;
mod resumption;

use crate::line::Arguments;
use crate::table::Value;
use crate::value_error::{Part, Syntax, ValueError};

pub use admission::{GraceTime, MaxStartups, NetBlockSize, Penalties};
pub use agent_socket::AgentSocketPath;
pub use authentication::{AuthenticationMethods, PermitUserEnvironment, PubkeyAuthOptions};
pub use listen::{ListenAddress, ListenAddresses, Networks, Ports};
pub use quota::{NumberOrNone, QuotaOrNone, TransferQuota};
pub use resumption::{ResumeGrace, ResumeMaxMemory, ResumeMaxSessions};

/// `RDomain`: no process has a routing domain on the systems that this server runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoRoutingDomain;

impl Value for NoRoutingDomain {
    const KIND: &'static str = "none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self);
        }
        Err(args.malformed(Syntax::ProcessDomain, &word))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} none"));
    }
}

/// `Subsystem` lines: name and command with arguments, quoted for a shell where necessary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subsystems(pub Vec<(String, String)>);

impl Subsystems {
    /// Returns the command of a subsystem.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, command)| command.as_str())
    }
}

impl Value for Subsystems {
    const KIND: &'static str = "name and command, may be repeated";
    const ACCUMULATES: bool = true;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let name = args.required_part(Part::SubsystemName)?;
        let words = args.remaining();
        if words.first().is_none_or(String::is_empty) {
            return Err(args.missing(Part::SubsystemCommand));
        }
        // A shell will split the text again, so the words are quoted again.
        Ok(Self(vec![(name, crate::line::join_words(&words))]))
    }
    fn append(&mut self, later: Self) {
        for (name, command) in later.0 {
            // The loader refuses duplicates within one layer; an earlier definition is kept.
            if self.find(&name).is_none() {
                self.0.push((name, command));
            }
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.extend(self.0.iter().map(|(subsystem, command)| format!("{name} {subsystem} {command}")));
    }
}
