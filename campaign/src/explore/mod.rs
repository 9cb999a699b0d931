//! Differential state exploration with well-formed and slightly wrong sequences of messages. In memory the
//! peers are Longhaul's state machines. Over sockets they are lhsshd and OpenSSH's sshd, and lhssh and
//! OpenSSH's ssh; the reactions of each pair are compared.

pub mod clients;
pub mod lying;
pub mod memory;
pub mod message;
mod play;
mod reviewed;
pub mod sequence;
pub mod sockets;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lh_crypto::PrivateKey;
use lh_interop::{Inetd, Lab, Lhsshd, find, me};
use lh_testkit::Seeded;

use crate::faults::mixed;
use clients::Bait;
use memory::Keys;
use reviewed::{CLIENTS, Reviewed, SERVERS};
use sequence::Sequence;

/// Sizes of a CI run: sequences in memory, sequences of a client over sockets, and sequences of a server.
/// These are numbers, not times, so that each run has equal sequences on any machine.
const SHORT: (usize, usize, usize) = (150_000, 160, 80);

/// Configuration lines of our server: it gets as many connections at a time as there are cores, all from one
/// address.
const OURS: &str = "MaxStartups 500\nMaxAuthTries 20\nUsePAM no\n";
const THEIRS: &str = "MaxStartups 500\nMaxAuthTries 20\n";

/// Runs the campaign.
///
/// # Errors
/// A rule was broken, or a difference is not on the reviewed list.
pub fn campaign(plan: &Plan) -> Result<(), String> {
    if plan.only.is_none() {
        in_memory(plan.duration, plan.seed)?;
    }
    let servers = if plan.peers == Some(Peers::Clients) { Ok(()) } else { over_sockets(plan) };
    let clients = if plan.peers == Some(Peers::Servers) { Ok(()) } else { with_clients(plan) };
    match (servers, clients) {
        (Err(one), Err(other)) => Err(format!("{one}\n{other}")),
        (one, other) => one.and(other),
    }
}

/// Peers of the sequences over sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peers {
    /// Sequences of a client, to servers.
    Servers,
    /// Sequences of a server, to clients.
    Clients,
}

/// Settings of the campaign.
#[derive(Debug, Default)]
pub struct Plan {
    /// Duration of the runs in memory, after which every sequence with one insertion runs over sockets.
    /// `None`: a short run.
    pub duration: Option<Duration>,
    /// Seed of the random sequences.
    pub seed: u64,
    /// Runs only sequences over sockets whose text contains this, and shows both reactions.
    pub only: Option<String>,
    /// Runs sequences over sockets only to these peers; `None`: to both.
    pub peers: Option<Peers>,
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs every sequence with one insertion against the state machines, then random sequences. Ends after the
/// given time, or without one after the number of a short run.
fn in_memory(duration: Option<Duration>, seed: u64) -> Result<(), String> {
    let keys = Keys::generate();
    let start = Instant::now();
    let is_over = |number: usize| match duration {
        Some(duration) => start.elapsed() >= duration,
        None => number >= SHORT.0,
    };
    let (count, completed) = (AtomicU64::new(0), AtomicU64::new(0));
    let broken = Mutex::new(Vec::<String>::new());
    let classes = Mutex::new(BTreeMap::<String, u64>::new());
    let singles: Vec<Sequence> = Sequence::singles().collect();
    let next = AtomicUsize::new(0);
    // Panics are counted; their texts would hide the report.
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(|| {
                let mut seen = BTreeMap::<String, u64>::new();
                loop {
                    // The server's and the client's state machines take turns.
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if is_over(number) {
                        break;
                    }
                    // A sequence depends on its number, not on the core that plays it.
                    let mut random = Seeded::new(mixed(mixed(seed).wrapping_add(number as u64)));
                    let sequence = match singles.get(number / 2) {
                        Some(sequence) => sequence.clone(),
                        None => Sequence::random(&mut random),
                    };
                    let check = if number.is_multiple_of(2) { memory::check } else { lying::check };
                    let outcome = check(&keys, &sequence, random.next_u64());
                    count.fetch_add(1, Ordering::Relaxed);
                    if let Some(reaction) = &outcome.reaction {
                        completed.fetch_add(u64::from(reaction.end.is_ok()), Ordering::Relaxed);
                        let class = reaction.class();
                        let class = class.split('[').next().unwrap_or_default().to_owned();
                        *seen.entry(class).or_default() += 1;
                    }
                    if let (false, Ok(mut broken)) = (outcome.broken.is_empty(), broken.lock()) {
                        let side = if number.is_multiple_of(2) { "server" } else { "client" };
                        broken.push(format!("{side}: {}: {}", sequence.text(), outcome.broken.join("; ")));
                    }
                }
                if let Ok(mut classes) = classes.lock() {
                    seen.into_iter().for_each(|(class, n)| *classes.entry(class).or_default() += n);
                }
            });
        }
    });
    let _ = std::panic::take_hook();
    let (count, completed) = (count.into_inner(), completed.into_inner());
    println!(
        "explore: {count} sequences in memory in {} s, {completed} came to their end",
        start.elapsed().as_secs()
    );
    for (class, count) in classes.into_inner().map_err(|error| error.to_string())? {
        println!("explore:   {class}: {count}");
    }
    let broken = broken.into_inner().map_err(|error| error.to_string())?;
    match broken.is_empty() {
        true => Ok(()),
        false => {
            Err(format!("{} sequences broke a rule (seed {seed}):\n{}", broken.len(), broken.join("\n")))
        }
    }
}

/// Sequences with one insertion against both servers: all of them, or a sample.
fn over_sockets(plan: &Plan) -> Result<(), String> {
    let Some(sshd) = find("sshd") else {
        println!("explore: SKIPPED over sockets: sshd is not installed");
        return Ok(());
    };
    let lab = Lab::new();
    let key = std::fs::read(lab.path("user_ed25519")).map_err(|error| error.to_string())?;
    let (key, _) = PrivateKey::parse(&key, None).map_err(|error| error.to_string())?;
    let ours = Lhsshd::start(&lab, OURS);
    let theirs = Inetd::openssh(&lab, &sshd, THEIRS);
    let user = me();
    // Clients wait for servers most of the time, so more of them than cores can run.
    compare(
        "lhsshd and sshd",
        chosen(plan, SHORT.1),
        plan,
        Reviewed::read(&SERVERS)?,
        cores() * 2,
        |sequence| {
            let react = |port| {
                sockets::react(port, &user, &key, sequence)
                    .map_or_else(|error| error.to_string(), |reaction| reaction.class())
            };
            (react(ours.port), react(theirs.port))
        },
    )
}

/// Sequences with one insertion against both clients: all of them, or a sample.
fn with_clients(plan: &Plan) -> Result<(), String> {
    let (lhssh, Some(ssh)) = clients::programs() else {
        println!("explore: SKIPPED clients over sockets: ssh is not installed");
        return Ok(());
    };
    let lab = Lab::new();
    let key = std::fs::read(lab.path("host_ed25519")).map_err(|error| error.to_string())?;
    let (key, _) = PrivateKey::parse(&key, None).map_err(|error| error.to_string())?;
    // There is a listener for each simultaneous client, so that no client gets the connection of another.
    let workers = cores() * 2;
    let baits = (0..workers).map(|_| Bait::new(&lab, &key)).collect::<Result<Vec<_>, _>>();
    let baits = baits.map_err(|error| format!("a listener: {error}"))?;
    baits.iter().for_each(|bait| lab.know(bait.port()));
    let free = Mutex::new(baits);
    compare("lhssh and ssh", chosen(plan, SHORT.2), plan, Reviewed::read(&CLIENTS)?, workers, |sequence| {
        let bait = free.lock().unwrap_or_else(PoisonError::into_inner).pop().expect("one for each worker");
        let react =
            |client: &Path| bait.react(client, sequence).unwrap_or_else(|error| format!("failed: {error}"));
        let reactions = (react(&lhssh), react(&ssh));
        free.lock().unwrap_or_else(PoisonError::into_inner).push(bait);
        reactions
    })
}

/// Returns the sequences over sockets: those of the plan, or a sample of this size, and honest ones.
fn chosen(plan: &Plan, sample: usize) -> Vec<Sequence> {
    let mut sequences: Vec<Sequence> = Sequence::singles().collect();
    if let Some(only) = &plan.only {
        sequences.retain(|sequence| sequence.text().contains(only.as_str()));
    } else if plan.duration.is_none() {
        let mut random = Seeded::new(plan.seed);
        sequences = (0..sample).map(|_| sequences[random.below(sequences.len())].clone()).collect();
    }
    sequences.extend([Sequence::honest(true), Sequence::honest(false)]);
    sequences
}

/// Plays every sequence to our program and to the peer's. Fails if their reactions differ and the difference
/// is not on the list.
fn compare(
    programs: &str,
    sequences: Vec<Sequence>,
    plan: &Plan,
    mut list: Reviewed,
    workers: usize,
    react: impl Fn(&Sequence) -> (String, String) + Sync,
) -> Result<(), String> {
    let start = Instant::now();
    let (next, differences) = (AtomicUsize::new(0), Mutex::new(Vec::<String>::new()));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(sequence) = sequences.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (mut our, mut their) = react(sequence);
                    let text =
                        |our: &str, their: &str| format!("{} ours={our} theirs={their}", sequence.text());
                    // On a busy machine an answer may have arrived too late.
                    for _ in 0..2 {
                        if our != their && !list.has(&text(&our, &their)) {
                            (our, their) = react(sequence);
                        }
                    }
                    if plan.only.is_some() {
                        println!("{}", text(&our, &their));
                    }
                    if let (true, Ok(mut differences)) = (our != their, differences.lock()) {
                        differences.push(text(&our, &their));
                    }
                }
            });
        }
    });
    let mut differences = differences.into_inner().map_err(|error| error.to_string())?;
    differences.sort();
    println!(
        "explore: {} sequences over sockets against {programs} in {} s, {} differences",
        sequences.len(),
        start.elapsed().as_secs(),
        differences.len()
    );
    review(differences, &mut list, plan)
}

/// Fails for differences that are not on the list.
fn review(differences: Vec<String>, list: &mut Reviewed, plan: &Plan) -> Result<(), String> {
    let unknown: Vec<String> = differences.into_iter().filter(|difference| !list.knows(difference)).collect();
    if !unknown.is_empty() {
        return Err(format!(
            "{} differences are not in {} (seed {}):\n{}",
            unknown.len(),
            list.name(),
            plan.seed,
            unknown.join("\n")
        ));
    }
    // The differences that occur depend on the peer's version, and slightly on the machine, so an unused line
    // is no failure.
    for unused in list.unused().filter(|_| plan.duration.is_some()) {
        println!("explore: no difference needs this line of {}: {unused}", list.name());
    }
    Ok(())
}
