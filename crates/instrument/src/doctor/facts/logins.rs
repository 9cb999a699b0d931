//! The logins of a run, and what the server reads and asks for each of them.

use lh_wire::peer::Peer;

use crate::stage::Stage;
use crate::stats::median;

/// What both ends agreed on in the first login.
#[derive(Debug, Clone, Default)]
pub(crate) struct Negotiated {
    /// The server's identification (RFC 4253, section 4.2).
    pub(crate) server: String,
    pub(crate) cipher: String,
    /// Empty where the cipher authenticates by itself.
    pub(crate) mac: String,
}

impl Negotiated {
    /// Returns whether the server is `lhsshd`.
    pub(crate) fn server_is_longhaul(&self) -> bool {
        Peer::of(&self.server) == Peer::Longhaul
    }

    /// The cipher, with the MAC where it needs one.
    pub(crate) fn suite(&self) -> String {
        if self.mac.is_empty() { self.cipher.clone() } else { format!("{} with {}", self.cipher, self.mac) }
    }
}

/// The logins, and what holds them up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Logins {
    /// Stages of each login that was timed, seconds.
    pub(crate) timed: Vec<Vec<(Stage, f64)>>,
    /// Most keys that a login offered to the server, the right one included.
    pub(crate) offers: usize,
    /// Seconds that this machine's agent needs to sign, where a login waits long after a key of it was
    /// offered.
    pub(crate) agent_signing: Option<f64>,
    /// Least processor time of this machine for keys in a login, seconds.
    pub(crate) key_work: Option<f64>,
    /// Time of the server's reverse lookup of this machine's address, seconds.
    pub(crate) reverse_lookup: Option<f64>,
    /// Time of the server's lookup of the user and its groups, seconds.
    pub(crate) user_lookup: Option<f64>,
    /// How fast the server opens files of the user's home directory.
    pub(crate) home: Option<Home>,
    /// Why the login failed, where it did.
    pub(crate) failure: Option<String>,
    /// The socket of this machine's authentication agent, where logins wait for it in vain.
    pub(crate) silent_agent: Option<String>,
}

impl Logins {
    /// Median of a stage over the logins, seconds.
    pub(crate) fn stage(&self, stage: Stage) -> Option<f64> {
        let of = |login: &Vec<(Stage, f64)>| {
            login.iter().find(|(each, _)| *each == stage).map(|(_, seconds)| *seconds)
        };
        median(self.timed.iter().filter_map(of))
    }

    /// Time of all stages of all logins, seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.timed.iter().flatten().map(|(_, seconds)| seconds).sum()
    }

    /// Median of the time of a whole login, seconds.
    pub(crate) fn median(&self) -> Option<f64> {
        median(self.timed.iter().map(|login| login.iter().map(|(_, seconds)| seconds).sum()))
    }
}

/// The files of the home directory that a login reads, beside as many of `/etc`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Home {
    pub(crate) directory: String,
    /// Type of the file system and its source, where the server tells.
    pub(crate) file_system: Option<String>,
    /// Files that were opened in each of the directories.
    pub(crate) files: usize,
    /// Seconds for those of the home directory: the fastest run.
    pub(crate) seconds: f64,
    /// Seconds for those of `/etc`.
    pub(crate) elsewhere: f64,
    /// Size of the user's authorized keys, bytes.
    pub(crate) keys_bytes: Option<f64>,
}
