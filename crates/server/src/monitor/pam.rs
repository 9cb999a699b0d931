//! The monitor's side of PAM: sends orders to the process that runs the modules (`modules.rs`) and uses the
//! reported result.

use std::time::Instant;

use zeroize::Zeroizing;

use super::candidate::Candidate;
use super::client::Client;
use crate::log::{Log, debug, error};
use crate::modules::{Order, Outcome, Report};
use crate::monitor_ipc::{MonitorSocket, MonitorSocketError};

/// Sent to PAM in place of the password of a user that may not log in with one: it equals no password, and
/// the check takes equally long.
const JUNK: &[u8] = b"\x08\n\r\x7fINCORRECT";

/// Facts about the login for the modules.
pub(super) struct Facts<'a> {
    pub(super) service: &'a str,
    pub(super) user: &'a str,
    pub(super) remote: String,
    pub(super) connection: String,
}

impl<'a> Facts<'a> {
    pub(super) fn of(client: &Client, candidate: &'a Candidate) -> Self {
        Facts {
            service: candidate.settings.pam_service_name.value.as_deref().unwrap_or("sshd"),
            // For an existing account its name in the user database, because the modules must decide about
            // that account.
            user: match &candidate.user {
                Some(user) => &user.name,
                None => candidate.name.split(':').next().unwrap_or_default(),
            },
            remote: client.origin().to_string(),
            connection: client.endpoints(),
        }
    }
}

/// The result of a step of keyboard-interactive.
pub(super) enum Step {
    Ask(Vec<(String, bool)>),
    Done(bool),
}

/// What decides about a password beside itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct PasswordRules {
    /// The user exists, and may log in with a password.
    pub real: bool,
    /// `PermitEmptyPasswords`.
    pub empty_allowed: bool,
}

/// The connection to the process that runs PAM, until the login is complete.
pub(super) struct Modules {
    ipc: MonitorSocket,
    deadline: Option<Instant>,
    log: Log,
    begun: bool,
    /// A conversation waits for the user's answers.
    asking: bool,
    /// Messages of modules for the user, shown at the login or the refusal.
    said: String,
}

impl Modules {
    pub(super) const fn new(ipc: MonitorSocket, deadline: Option<Instant>, log: Log) -> Self {
        Self { ipc, deadline, log, begun: false, asking: false, said: String::new() }
    }

    /// Returns the modules' messages so far.
    pub(super) fn said(&self) -> &str {
        &self.said
    }

    /// Returns whether a conversation waits for answers.
    pub(super) const fn asking(&self) -> bool {
        self.asking
    }

    fn begin(&mut self, facts: &Facts<'_>) -> Result<(), MonitorSocketError> {
        if self.asking {
            // The client has started another attempt instead of answering.
            self.asking = false;
            self.order(&Order::GiveUp)?;
        }
        if !self.begun {
            self.begun = true;
            let order = Order::Begin {
                service: facts.service.to_owned(),
                user: facts.user.to_owned(),
                remote: facts.remote.clone(),
                connection: facts.connection.clone(),
            };
            self.ipc.send(&order.encode())?;
        }
        Ok(())
    }

    fn order(&mut self, order: &Order) -> Result<Report, MonitorSocketError> {
        self.ipc.send(&order.encode())?;
        let report = Report::decode(&self.ipc.receive_until(self.deadline)?)?;
        if let Report::Done { why, said, .. } = &report {
            debug!(self.log, "PAM: {why}");
            /// Upper bound of all messages, bytes: a login message is a page or two.
            const MOST: usize = 64 * 1024;
            if self.said.len() + said.len() <= MOST {
                self.said.push_str(said);
            }
        }
        Ok(report)
    }

    /// Returns the result, or `wrong` after an error of the socket: a failed conversation counts as, for
    /// instance, a wrong password.
    fn or_wrong<T>(&self, result: Result<T, MonitorSocketError>, wrong: T) -> T {
        result.unwrap_or_else(|problem| {
            error!(self.log, "PAM: {problem}");
            wrong
        })
    }

    /// Checks a password.
    pub(super) fn password(
        &mut self,
        facts: &Facts<'_>,
        password: &[u8],
        PasswordRules { real, empty_allowed }: PasswordRules,
    ) -> bool {
        let password = Some(Zeroizing::new(if real { password } else { JUNK }.to_vec()));
        let result =
            self.begin(facts).and_then(|()| self.order(&Order::Authenticate { empty_allowed, password }));
        let good = result.map(|report| matches!(report, Report::Done { outcome: Outcome::Good, .. }));
        self.or_wrong(good, false) && real
    }

    /// Begins a conversation.
    pub(super) fn ask(
        &mut self,
        facts: &Facts<'_>,
        PasswordRules { real, empty_allowed }: PasswordRules,
    ) -> Step {
        let result = self
            .begin(facts)
            .and_then(|()| self.order(&Order::Authenticate { empty_allowed, password: None }));
        self.step(result, real)
    }

    /// Continues the conversation with the user's answers.
    pub(super) fn answer(&mut self, answers: &[Zeroizing<Vec<u8>>], real: bool) -> Step {
        let answers = answers
            .iter()
            .map(|answer| if real { answer.clone() } else { Zeroizing::new(JUNK.to_vec()) })
            .collect();
        let result = self.order(&Order::Answers(answers));
        self.step(result, real)
    }

    fn step(&mut self, result: Result<Report, MonitorSocketError>, real: bool) -> Step {
        let step = result.map(|report| match report {
            Report::Ask(questions) => Step::Ask(questions),
            Report::Done { outcome, .. } => Step::Done(outcome == Outcome::Good && real),
        });
        let step = self.or_wrong(step, Step::Done(false));
        self.asking = matches!(step, Step::Ask(_));
        step
    }

    /// Returns whether the account may be used now.
    pub(super) fn account(&mut self, facts: &Facts<'_>, proofs: &str) -> Outcome {
        let result =
            self.begin(facts).and_then(|()| self.order(&Order::Account { proofs: proofs.to_owned() }));
        let outcome = result.map(|report| match report {
            Report::Done { outcome, .. } => outcome,
            Report::Ask(_) => Outcome::Bad,
        });
        self.or_wrong(outcome, Outcome::Unavailable)
    }
}
