//! A connection from the first byte to the login: key exchange and authentication. Runs in the pre-auth
//! process (`preauth.rs`).

use std::time::{Duration, Instant};

use lh_auth::server::{Attempt, Method, Server};
use lh_config::enums::WarnWeakCrypto;
use lh_crypto::{KexAlgorithm, KexFamily};
use lh_driver::{Link, LinkError};
use lh_transport::{Event, TransportError};
use lh_wire::msg::disconnect;
use zeroize::Zeroizing;

use super::common::Address;
use super::names;
use crate::hosts::{shown_endpoint, shown_ip};
use crate::log::{Log, debug, error, info, shown_reason};
use crate::monitor_ipc::{Decision, MonitorRequest, MonitorSocket, MonitorSocketError};
use crate::verdict::Verdict;

/// Longest time for sending the reason of a refusal to the client.
const GOODBYE: Duration = Duration::from_secs(2);

/// Largest amount of channel data before the login, bytes (`first-flight@longhaul`): the first channel's
/// window, sent after each of several keys.
const MOST_EARLY: usize = 256 << 10;

/// Why there was no login. The reason has been logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoLogin {
    /// `LoginGraceTime` is over.
    GraceTime,
    /// The client left, was refused, or broke the protocol.
    Ended,
}

/// The pre-auth process's side of the exchange with the monitor.
pub(super) struct MonitorClient {
    ipc: MonitorSocket,
    /// The client's name in log lines.
    client: Option<String>,
}

impl MonitorClient {
    pub(super) const fn new(ipc: MonitorSocket) -> Self {
        Self { ipc, client: None }
    }

    fn decide(&mut self, attempt: Attempt, log: &Log) -> Result<Decision, MonitorSocketError> {
        let answer = self.ipc.ask(&MonitorRequest::Decide(attempt))?;
        let decision = Decision::decode(&answer)?;
        log.set_level(decision.level);
        self.client.clone_from(&decision.client);
        Ok(decision)
    }

    /// Hands the connection over to the user session process: the last message.
    pub(super) fn hand_over(&self, state: Zeroizing<Vec<u8>>) -> Result<(), MonitorSocketError> {
        self.ipc.send(&MonitorRequest::HandOver(state).encode())
    }
}

/// The client's name and address, for log lines.
struct Client<'a> {
    monitor: &'a MonitorClient,
    address: &'a Address,
}

impl std::fmt::Display for Client<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(name) = &self.monitor.client {
            write!(f, "{name} ")?;
        }
        let peer = self.address.peer;
        shown_endpoint(peer).fmt(f)
    }
}

/// Returns false for key exchange methods that a future quantum computer may break in recorded traffic.
fn is_post_quantum(kex: &str) -> bool {
    KexAlgorithm::by_name(kex).is_some_and(|method| method.family() == KexFamily::Hybrid)
}

/// Runs the first key exchange, and lets the monitor decide about the client's attempts.
pub(super) fn log_in(
    link: &mut Link,
    monitor: &mut MonitorClient,
    address: &Address,
    deadline: Option<Instant>,
    warn: WarnWeakCrypto,
) -> Result<(), NoLogin> {
    let log = address.log.preauth();
    let mut server: Option<Server> = None;
    let mut acknowledged = None;
    loop {
        // Only if bytes have been received since: one read may cause several events.
        let received = link.bytes_in();
        if address.known && acknowledged != Some(received) {
            acknowledged = Some(received);
            let _ = lh_sys::socket::acknowledge_now(link.stream().read_fd());
        }
        let event = match link.next_event(deadline) {
            Ok(event) => event,
            Err(problem) => return Err(failed(link, monitor, address, problem)),
        };
        match event {
            Event::PeerIdentification(line) => {
                debug!(
                    log,
                    "Client protocol version 2.0; client software version {}",
                    names::software(&line)
                );
            }
            // The monitor signs one exchange before the login. sshd does not exchange keys again either.
            Event::SignExchangeHash { .. } if server.is_some() => {
                let text = "keys are not exchanged again before authentication";
                info!(log, "Disconnecting {}: {text}", Client { monitor, address });
                link.disconnect(disconnect::PROTOCOL_ERROR, text, GOODBYE);
                return Err(NoLogin::Ended);
            }
            Event::SignExchangeHash { algorithm, key_index, data } => {
                let signature = match monitor.ipc.ask_signature(&MonitorRequest::Sign {
                    key_index,
                    algorithm,
                    hash: data,
                }) {
                    Ok(signature) => signature,
                    Err(problem) => {
                        error!(log, "host key signature failed: {problem}");
                        link.disconnect(
                            disconnect::KEY_EXCHANGE_FAILED,
                            "host key signature failed",
                            GOODBYE,
                        );
                        return Err(NoLogin::Ended);
                    }
                };
                if link.exchange_hash_signed(&signature).is_err() {
                    return Err(NoLogin::Ended);
                }
            }
            Event::KexDone { first, names } => {
                let (kex, key, cipher) = (&names.kex, &names.host_key, &names.cipher_c2s);
                debug!(
                    log,
                    "kex: algorithm: {kex}, host key algorithm: {key}, client->server cipher: {cipher}"
                );
                if first {
                    let client = Client { monitor, address };
                    if warn == WarnWeakCrypto::Yes && !is_post_quantum(kex) {
                        info!(
                            log,
                            "WARNING: connection from {client} is not using a post-quantum key exchange algorithm: \
                             \"{kex}\""
                        );
                    }
                    let session_id = link.session_id().unwrap_or_default();
                    let host_key = link.host_key().unwrap_or_default();
                    server.insert(Server::new(session_id, host_key)).allow_early_data(MOST_EARLY);
                }
            }
            Event::Packet(payload) => {
                let Some(server) = &mut server else { continue };
                let attempt = match server.handle(&payload, link.sink()) {
                    Ok(None) => continue,
                    Ok(Some(attempt)) => with_export(attempt, link),
                    Err(problem) => {
                        let client = Client { monitor, address };
                        error!(log, "Disconnecting {client}: {problem}");
                        link.disconnect(problem.disconnect_reason(), &problem.to_string(), GOODBYE);
                        return Err(NoLogin::Ended);
                    }
                };
                let Decision { verdict, banner, algorithms, error_token, .. } =
                    match monitor.decide(attempt, &log) {
                        Ok(decision) => decision,
                        Err(problem) => {
                            error!(log, "the monitor does not answer: {problem}");
                            return Err(NoLogin::Ended);
                        }
                    };
                if !algorithms.is_empty() {
                    link.announce_signature_algorithms(&algorithms);
                }
                if let Some(text) = banner {
                    server.banner(&text, link.sink());
                }
                server.gss_error_token(&error_token, link.sink());
                match verdict {
                    Verdict::Accept => {
                        server.accept(link.sink());
                        link.set_authenticated();
                        return Ok(());
                    }
                    Verdict::Resume(answer) => {
                        link.send(&answer);
                        server.accept(link.sink());
                        link.set_authenticated();
                        return Ok(());
                    }
                    Verdict::Later => {
                        link.disconnect(disconnect::BY_APPLICATION, "the session does not answer", GOODBYE);
                        return Err(NoLogin::Ended);
                    }
                    Verdict::KeyOk => server.key_ok(link.sink()),
                    Verdict::Gss(reply) => server.gss_reply(&reply, link.sink()),
                    Verdict::Prompt(prompts) => {
                        let prompts: Vec<(&str, bool)> =
                            prompts.iter().map(|(text, echo)| (text.as_str(), *echo)).collect();
                        server.prompts("", "", &prompts, link.sink());
                    }
                    Verdict::Reject { methods, partial } => {
                        let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
                        server.reject(&methods, partial, link.sink());
                    }
                    Verdict::Denied(text) => {
                        if !text.is_empty() {
                            server.banner(text.as_bytes(), link.sink());
                        }
                        let user = String::from_utf8_lossy(server.user().unwrap_or_default()).into_owned();
                        error!(log, "fatal: Access denied for user {user} by PAM account configuration");
                        link.finish(GOODBYE);
                        return Err(NoLogin::Ended);
                    }
                    Verdict::TooMany | Verdict::NoMethods => {
                        let text = match verdict {
                            Verdict::NoMethods => "no authentication methods enabled",
                            _ => "Too many authentication failures",
                        };
                        info!(log, "Disconnecting {}: {text}", Client { monitor, address });
                        link.disconnect(disconnect::PROTOCOL_ERROR, text, GOODBYE);
                        return Err(NoLogin::Ended);
                    }
                }
            }
            Event::Disconnected { reason, description } => {
                let peer = address.peer;
                let from = shown_endpoint(peer);
                let description = shown_reason(&description);
                info!(log, "Received disconnect from {from}:{reason}: {description}");
                info!(log, "Disconnected from {}", Client { monitor, address });
                return Err(NoLogin::Ended);
            }
            Event::Debug { text, .. } => debug!(log, "client says: {}", String::from_utf8_lossy(&text)),
            _ => {}
        }
    }
}

/// Adds the new connection's key material to a claim on a session; only this process has it.
fn with_export(mut attempt: Attempt, link: &Link) -> Attempt {
    if let Method::Resume(claim) = &mut attempt.method
        && let Some(handle) = claim.fields.first_chunk::<16>()
        && let Some(export) = link.export(lh_resume::NAME, handle)
    {
        claim.export = Zeroizing::new(export.to_vec());
    }
    attempt
}

/// Logs the end of a connection in OpenSSH's words.
fn failed(link: &mut Link, monitor: &MonitorClient, address: &Address, problem: LinkError) -> NoLogin {
    let log = &address.log.preauth();
    let client = Client { monitor, address };
    match problem {
        LinkError::TimedOut => {
            let (peer, local) = (address.peer, address.local);
            let pid = std::process::id();
            error!(
                log,
                "Timeout before authentication for connection from {} to {}, pid = {pid}",
                shown_ip(peer),
                shown_ip(local)
            );
            return NoLogin::GraceTime;
        }
        LinkError::Closed { .. } => info!(log, "Connection closed by {client}"),
        LinkError::Io { source, .. } => {
            if source.raw_os_error() == Some(rustix::io::Errno::CONNRESET.raw_os_error()) {
                info!(log, "Connection reset by {client}");
            } else {
                info!(log, "Connection with {client} failed: {source}");
            }
        }
        LinkError::Transport(TransportError::Closed { .. }) => info!(log, "Connection closed by {client}"),
        LinkError::Transport(
            problem @ (TransportError::NotSsh(_) | TransportError::BadIdentification(_)),
        ) => {
            let peer = address.peer;
            let from = shown_endpoint(peer);
            info!(log, "banner exchange: Connection from {from}: invalid format: {problem}");
        }
        LinkError::Transport(problem @ TransportError::NoMatch { .. }) => {
            error!(log, "Unable to negotiate with {client}: {problem}");
        }
        LinkError::Transport(problem) => error!(log, "Disconnecting {client}: {problem}"),
    }
    link.finish(GOODBYE);
    NoLogin::Ended
}
