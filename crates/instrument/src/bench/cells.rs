//! What is measured in each round.

use super::child::{Client, Job};
use super::setup::Setup;
use crate::flow::Direction;

/// A cipher with its MAC, where it needs one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Suite {
    pub(super) cipher: &'static str,
    pub(super) mac: Option<&'static str>,
}

/// HPN-SSH's NONE: no encryption behind the login. Only where both ends permit it.
pub(super) const NONE: Suite = suite("none", None);

/// Ciphers and MACs of a full run; a quick one takes the first three.
pub(super) const SUITES: &[Suite] = &[
    suite("aes128-gcm@openssh.com", None),
    suite("chacha20-poly1305@openssh.com", None),
    suite("aes128-ctr", Some("hmac-sha2-256-etm@openssh.com")),
    suite("aes256-gcm@openssh.com", None),
    suite("aes256-ctr", Some("hmac-sha2-512-etm@openssh.com")),
    suite("aes128-ctr", Some("umac-64-etm@openssh.com")),
    suite("aes128-ctr", Some("umac-128-etm@openssh.com")),
    suite("aes128-ctr", Some("hmac-sha1-etm@openssh.com")),
];

const fn suite(cipher: &'static str, mac: Option<&'static str>) -> Suite {
    Suite { cipher, mac }
}

impl Suite {
    /// Short name for tables.
    pub(super) fn name(self) -> String {
        let short = |name: &'static str| name.trim_end_matches("@openssh.com");
        match self.mac {
            None => short(self.cipher).to_owned(),
            Some(mac) => format!("{} {}", short(self.cipher), short(mac)),
        }
    }

    /// Keywords that negotiate it.
    pub(super) fn keywords(self) -> Vec<(&'static str, String)> {
        if self == NONE {
            return ["NoneEnabled", "NoneSwitch"].map(|keyword| (keyword, "yes".to_owned())).to_vec();
        }
        let mut all = vec![("Ciphers", self.cipher.to_owned())];
        all.extend(self.mac.map(|mac| ("MACs", mac.to_owned())));
        all
    }
}

/// One thing that is measured once in a round.
#[derive(Debug, Clone)]
pub(super) enum Cell {
    Stream(Suite, Direction),
    /// TCP alone, to the port that the user allows.
    Tcp(Direction),
    /// Without encryption, where both ends permit it.
    Open(Direction),
    Setup(Setup),
    Latency,
    Child(Client, Job),
    Disks,
    Seal(Suite),
}

impl Cell {
    /// What is measured, for people.
    pub(super) fn what(&self) -> String {
        match self {
            Self::Stream(suite, direction) => format!("{} {}", suite.name(), direction.name()),
            Self::Tcp(direction) => format!("TCP alone, {}", direction.name()),
            Self::Open(direction) => format!("SSH without encryption, {}", direction.name()),
            Self::Setup(setup) => format!("set-up with {}", setup.name),
            Self::Latency => "latency".to_owned(),
            Self::Child(client, job) => format!("{} ({})", job.table(), client.name),
            Self::Disks => "disks".to_owned(),
            Self::Seal(suite) => format!("{} alone", suite.name()),
        }
    }
}

/// The cells of a run.
pub(super) fn cells(setups: Vec<Setup>, quick: bool, clients: &[Client], has_port: bool) -> Vec<Cell> {
    let most = if quick { 3 } else { SUITES.len() };
    let suites = SUITES.iter().copied().take(most);
    let mut all = vec![Cell::Latency];
    for suite in suites.clone() {
        all.extend(Direction::BOTH.map(|direction| Cell::Stream(suite, direction)));
    }
    all.extend(Direction::BOTH.map(if has_port { Cell::Tcp } else { Cell::Open }));
    all.extend(suites.map(Cell::Seal));
    all.extend(setups.into_iter().map(Cell::Setup));
    for job in Job::ALL {
        if quick && job.is_long() {
            continue;
        }
        all.extend(clients.iter().map(|client| Cell::Child(client.clone(), job)));
    }
    all.push(Cell::Disks);
    all
}
