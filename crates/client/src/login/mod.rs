//! The login: chooses methods, keys and answers in OpenSSH's order and words.
//!
//! `lh_auth` has the state machine of the protocol. This module makes the decisions: it records what has been
//! tried, drops each method that has nothing more to offer, and ends with the list of methods that the server
//! still accepts. Each method has a file with its own state.
//!
//! One difference from OpenSSH: with an unencrypted private key in memory it signs at once instead of
//! offering the key first. The signature costs less than the round trip that it saves, above all on long
//! paths.

mod exchange;
mod hostbased;
mod interactive;
mod kerberos;
mod password;
mod publickey;

use lh_auth::client::{Client as Machine, Event};
use lh_auth::gss::GSS_METHOD as KERBEROS;

use crate::error::ClientError;
use crate::log::{Log, sanitise};
use crate::ui::LogLevel;
use exchange::Exchange;
pub(crate) use exchange::{LoginConfig, Packets};
use hostbased::HostBased;
use interactive::Interactive;
use kerberos::{Kerberos, Next};
use password::Passwords;
use publickey::PublicKeys;

/// Whether a login has needed the user, as another one to this host probably would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed {
    /// The login did not need the user: keys without a passphrase, an agent, Kerberos, the host's own key.
    Nobody,
    /// The login needed the user: a password, a passphrase, a code, a touch.
    User,
}

impl Needed {
    /// Returns whether at least one of two logins needed the user.
    pub(crate) const fn and(self, other: Self) -> Self {
        match self {
            Self::Nobody => other,
            Self::User => Self::User,
        }
    }
}

/// Logs in. Returns whether the login needed the user.
///
/// # Errors
/// [`ClientError::Denied`] with the error message, or the error that ended the connection.
pub(crate) fn log_in(
    packets: &mut dyn Packets,
    machine: Machine,
    config: &LoginConfig,
    log: &mut Log<'_>,
) -> Result<Needed, ClientError> {
    Login {
        exchange: Exchange { packets, machine, config },
        spent: Vec::new(),
        offered: Vec::new(),
        method: "none",
        keys: PublicKeys::default(),
        passwords: Passwords::default(),
        interactive: Interactive::default(),
        host_based: None,
        kerberos: Kerberos::default(),
        needed: Needed::Nobody,
        steps: 0,
    }
    .run(log)
}

struct Login<'a> {
    exchange: Exchange<'a>,
    /// Methods with nothing left to try.
    spent: Vec<&'static str>,
    /// The methods in the server's last reply.
    offered: Vec<String>,
    /// The method of the last request.
    method: &'static str,
    keys: PublicKeys,
    passwords: Passwords,
    interactive: Interactive,
    /// The keys left for host-based authentication; found at its first use.
    host_based: Option<HostBased>,
    kerberos: Kerberos,
    /// Whether an accepted method has needed the user.
    needed: Needed,
    /// Partial successes so far.
    steps: u32,
}

/// Largest number of partial successes. No server wants as many methods; one that never has enough would keep
/// the login going for ever.
const MOST_STEPS: u32 = 32;

const PUBLICKEY: &str = publickey::METHOD;
const PASSWORD: &str = "password";
const INTERACTIVE: &str = "keyboard-interactive";
const HOSTBASED: &str = "hostbased";

impl Login<'_> {
    fn run(mut self, log: &mut Log<'_>) -> Result<Needed, ClientError> {
        self.exchange.machine.start(self.exchange.packets.sink());
        let ahead = self.exchange.packets.handles_several_requests(log)?;
        if ahead {
            self.send_first_requests(log);
        }
        loop {
            match self.event(log)? {
                Event::Ready => {
                    log.debug2(|| "service_accept: ssh-userauth".to_owned());
                    if !ahead {
                        self.exchange.machine.none(self.exchange.packets.sink());
                    }
                }
                Event::Methods(methods) => {
                    log.debug(|| {
                        format!("Authentications that can continue: {}", sanitise(&methods.join(",")))
                    });
                    log.debug(|| format!("Next authentication method: {}", self.method));
                    self.offered = methods;
                }
                // `event` shows banners itself.
                Event::Banner(_) => {}
                Event::Success => {
                    self.on_accepted(log);
                    let (peer, method) = (&self.exchange.config.peer, self.method);
                    log.verbose(&format!(
                        "Authenticated to {} ({peer}) using \"{method}\".",
                        self.exchange.config.host
                    ));
                    return Ok(self.needed);
                }
                Event::ChooseMethod { methods, partial_success } => {
                    self.exchange.packets.early_dropped();
                    if partial_success {
                        self.on_accepted(log);
                        log.verbose(&format!(
                            "Authenticated using \"{}\" with partial success.",
                            self.method
                        ));
                        self.steps += 1;
                        if self.steps > MOST_STEPS {
                            self.offered = methods;
                            return Err(self.denied());
                        }
                        // After a partial success a method may be wanted again, with another key or password.
                        self.spent.clear();
                        self.passwords = Passwords::default();
                        self.interactive = Interactive::default();
                    }
                    log.debug(|| {
                        format!("Authentications that can continue: {}", sanitise(&methods.join(",")))
                    });
                    self.offered = methods;
                    self.next_method(log)?;
                }
                Event::KeyAccepted { algorithm, key } => {
                    // Without a signature the server keeps waiting for a request, so the next method is sent
                    // without its reply.
                    if !self.keys.sign_accepted(&algorithm, &key, &mut self.exchange, log) {
                        self.next_method(log)?;
                    }
                }
                Event::Prompts { name, instruction, prompts } => {
                    self.interactive.answer(&name, &instruction, &prompts, &mut self.exchange, log);
                }
                Event::PasswordExpired { prompt } => password::change(&prompt, &mut self.exchange, log)?,
                Event::GssMechanism(mechanism) => {
                    let Exchange { packets, machine, .. } = &mut self.exchange;
                    let next = self.kerberos.on_mechanism(&mechanism, machine, packets.sink(), log);
                    self.after_kerberos(next, log)?;
                }
                Event::GssToken(token) => {
                    let Exchange { packets, machine, .. } = &mut self.exchange;
                    let next = self.kerberos.on_token(&token, machine, packets.sink(), log)?;
                    self.after_kerberos(next, log)?;
                }
                Event::GssError(text) => {
                    log.debug(|| format!("Server GSSAPI Error:\n{}", sanitise(&text)));
                }
            }
        }
    }

    /// Sends the first request (`none`) and the first key without waiting in between: round trips dominate a
    /// login over a long path. Content and order stay unchanged.
    fn send_first_requests(&mut self, log: &mut Log<'_>) {
        let Exchange { packets, machine, .. } = &mut self.exchange;
        machine.ahead(packets.sink());
        if self.keys.send_first(&mut self.exchange, log) {
            self.method = PUBLICKEY;
        }
    }

    /// Handles an accepted request: adds its key to the agent (`AddKeysToAgent`), and records whether it
    /// needed the user.
    fn on_accepted(&mut self, log: &mut Log<'_>) {
        if self.method == PUBLICKEY {
            self.keys.on_accepted(log);
        }
        if matches!(self.method, PASSWORD | INTERACTIVE) || self.keys.needed_user() {
            self.needed = Needed::User;
        }
    }

    /// Returns the next event other than a banner; banners are shown.
    fn event(&mut self, log: &mut Log<'_>) -> Result<Event, ClientError> {
        loop {
            let payload = self.exchange.packets.next(log)?;
            match self.exchange.machine.handle(&payload) {
                Ok(Event::Banner(text)) => log.banner(&text),
                Ok(event) => return Ok(event),
                Err(error) => return Err(ClientError::lost(LogLevel::Error, error.to_string())),
            }
        }
    }

    /// Sends the next request.
    fn next_method(&mut self, log: &mut Log<'_>) -> Result<(), ClientError> {
        for method in &self.exchange.config.methods {
            let Some(known) = [KERBEROS, PUBLICKEY, INTERACTIVE, PASSWORD, HOSTBASED]
                .into_iter()
                .find(|known| known == method)
            else {
                continue;
            };
            // An empty list does not mean that there are no methods; as in ssh, each is tried. ssh2 for
            // Node.js sends an empty one.
            let offered = self.offered.is_empty() || self.offered.contains(method);
            if !offered || self.spent.contains(&known) {
                continue;
            }
            log.debug(|| format!("Next authentication method: {known}"));
            let sent = match known {
                PUBLICKEY => self.keys.offer(&mut self.exchange, log),
                PASSWORD => self.passwords.offer(&mut self.exchange, log),
                HOSTBASED => hostbased::offer(&mut self.host_based, &mut self.exchange, log),
                KERBEROS => {
                    let Exchange { packets, machine, config } = &mut self.exchange;
                    self.kerberos.offer(&config.host, config.delegate, machine, packets.sink(), log)
                }
                _ => self.interactive.offer(&mut self.exchange),
            };
            if sent {
                self.method = known;
                return Ok(());
            }
            self.spent.push(known);
        }
        log.debug(|| "No more authentication methods to try.".to_owned());
        Err(self.denied())
    }

    fn after_kerberos(&mut self, next: Next, log: &mut Log<'_>) -> Result<(), ClientError> {
        match next {
            Next::Wait => Ok(()),
            Next::Method => self.next_method(log),
        }
    }

    fn denied(&self) -> ClientError {
        let LoginConfig { user, host, .. } = self.exchange.config;
        ClientError::Denied(format!(
            "{user}@{host}: Permission denied ({}).",
            sanitise(&self.offered.join(","))
        ))
    }
}

#[cfg(test)]
mod tests;
