//! Packets of the server that the path swallows for their size (an MTU black hole on the way from the server
//! alone).
//!
//! The way to the server is probed before the login ([`crate::probe`]). On the way from there, large packets
//! first show as a key exchange that never ends or a download that never begins.

use std::time::Duration;

use super::facts::Facts;
use super::instruments::{Instruments, Login, PLAIN, Place};
use crate::flow::Flow;
use crate::probe::Segments;
use crate::stage::Stage;
use crate::target::NoConnection;
use crate::task::LATE;

/// Key exchanges whose packets are small.
const SMALL: [&str; 3] = ["curve25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp256"];
/// Time limit of a login with small packets.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The sizes of outputs that are tried: from a least one, in steps. Packets of SSH end at multiples of 8 or
/// 16 bytes.
const LEAST: u64 = 400;
const STEP: u64 = 128;
const LAST_STEP: u64 = 16;
/// Bytes of an SSH packet and its channel message besides their data.
const AROUND: u64 = 40;

/// Waits for a first login. After one that waits for the key exchange in vain, another with small packets
/// shows whether the path swallows larger ones of the server, which is noted.
pub(super) fn first_login<I: Instruments>(
    instruments: &mut I,
    facts: &mut Facts,
    first: &mut I::Connection,
) -> Result<Login, NoConnection> {
    let login = instruments.login(first);
    let is_suspicious = |failure: &NoConnection| {
        failure.is_path && (failure.is_late() || failure.slowest == Some(Stage::KeyExchange))
    };
    if !facts.path.is_proxied && login.as_ref().is_err_and(is_suspicious) {
        instruments.begin_step("login with small packets");
        let mut small = prepare(instruments);
        if instruments.login_within(&mut small, TIMEOUT).is_ok() {
            facts.path.swallowed = largest(instruments, facts, small);
        }
    }
    login
}

fn prepare<I: Instruments>(instruments: &mut I) -> I::Connection {
    // A configuration may name only what this build contains.
    let small = SMALL.into_iter().filter(|name| lh_crypto::KexAlgorithm::by_name(name).is_some());
    let small = small.collect::<Vec<_>>().join(",");
    instruments.prepare(Place::Server, &[&[("KexAlgorithms", small.as_str())], &PLAIN[..]].concat(), false)
}

/// Returns true for a download that was accepted and of which nothing arrived.
pub(super) fn is_silent(flow: &Flow) -> bool {
    flow.rate <= 0.0 && flow.failure.as_deref() == Some(LATE)
}

/// Searches the largest packet of the server that arrives; each of two searches costs a connection. `None`
/// where all do.
pub(super) fn search<I: Instruments>(instruments: &mut I, facts: &mut Facts) -> Option<Segments> {
    instruments.begin_step("packets of the server");
    let connection = prepare(instruments);
    largest(instruments, facts, connection)
}

fn largest<I: Instruments>(
    instruments: &mut I,
    facts: &mut Facts,
    mut connection: I::Connection,
) -> Option<Segments> {
    let whole = facts.path.segments?;
    let most = whole.offered.checked_sub(AROUND)?;
    let sizes = |from: u64, step: usize| (from..=most).step_by(step).chain([most]).collect::<Vec<_>>();
    let (passed, lost) = instruments.arriving(&mut connection, &sizes(LEAST, STEP as usize));
    // What asked for an output may have been lost in place of it.
    let small = instruments.small_packets(&mut connection).filter(|small| small.are_lost());
    if small.is_some() {
        facts.path.small_packets = small;
        return None;
    }
    let (passed, lost) = (passed?, lost?);
    let mut again = prepare(instruments);
    let between: Vec<u64> = (passed..lost).step_by(LAST_STEP as usize).skip(1).collect();
    let (closer, _) = instruments.arriving(&mut again, &between);
    let passes = closer.unwrap_or(passed) + AROUND;
    Some(Segments { passes, offered: whole.offered, headers: whole.headers })
}
