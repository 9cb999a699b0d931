//! Logins of an honest client, with the duration of each phase.

use std::time::{Duration, Instant};

use lh_crypto::PrivateKey;
use lh_wire::Writer;

use super::handshake::{exchange_keys, wait_for};
use crate::client::{Client, End};
use crate::explore::sockets::Socket;

/// Phases of a login, in order.
pub(super) const PHASES: [&str; 4] = ["identification", "key exchange", "authentication", "command"];

/// Durations of a login's phases.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Timing {
    /// End of each phase, as the time since the client began to connect.
    ends: [Duration; PHASES.len()],
}

impl Timing {
    /// From the connection to the status of the command.
    pub(super) fn total(&self) -> Duration {
        self.ends[PHASES.len() - 1]
    }

    /// Returns the duration of one phase.
    pub(super) fn phase(&self, phase: usize) -> Duration {
        let begin =
            phase.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
        self.ends.get(phase).copied().unwrap_or_default().saturating_sub(begin)
    }
}

/// Logs in with a key and runs `true`. `start` is the time at which the client began to connect.
pub(super) fn log_in(
    client: &mut Client<Socket>,
    user: &str,
    key: &PrivateKey,
    start: Instant,
) -> Result<Timing, End> {
    let mut timing = Timing::default();
    let mut ended = |phase: usize| timing.ends[phase] = start.elapsed();
    client.identify()?;
    ended(0);
    exchange_keys(client)?;
    ended(1);
    authenticate(client, user, key)?;
    ended(2);
    run_true(client)?;
    ended(3);
    Ok(timing)
}

/// Requests the service, and authenticates with the key.
pub(super) fn authenticate(client: &mut Client<Socket>, user: &str, key: &PrivateKey) -> Result<(), End> {
    let mut service = vec![5];
    service.put_string(b"ssh-userauth");
    client.packet(&service);
    wait_for(client, 6)?;
    let request = client.signed_request(user, key);
    client.packet(&request);
    wait_for(client, 52).map(drop)
}

/// Runs `true` in a session channel, and waits for its status.
fn run_true(client: &mut Client<Socket>) -> Result<(), End> {
    let mut open = vec![90];
    open.put_string(b"session");
    [0, 1 << 20, 32768].iter().for_each(|&number| open.put_u32(number));
    client.packet(&open);
    let opened = wait_for(client, 91)?;
    let channel = opened.get(5..9).ok_or(End::Garbage)?;
    let mut exec = vec![98];
    exec.put_bytes(channel);
    exec.put_string(b"exec");
    exec.put_bool(true);
    exec.put_string(b"true");
    client.packet(&exec);
    while !wait_for(client, 98)?.windows(11).any(|name| name == b"exit-status") {}
    Ok(())
}
