//! What is measured in each round.

use std::path::PathBuf;

use lh_client::{Options, SystemEnvironment};

use super::child::{Client, Job};
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

/// A way to set up a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) table: &'static str,
    pub(super) name: String,
    pub(super) keywords: Vec<(&'static str, String)>,
}

const KEX: &[&str] = &[
    "mlkem768x25519-sha256",
    "curve25519-sha256",
    "sntrup761x25519-sha512",
    "ecdh-sha2-nistp256",
    "diffie-hellman-group14-sha256",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group18-sha512",
];
const HOST_KEYS: &[&str] = &["ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512"];

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

/// The cells of a run.
pub(super) fn cells(options: &Options, quick: bool, clients: &[Client], has_port: bool) -> Vec<Cell> {
    let most = if quick { 3 } else { SUITES.len() };
    let suites = SUITES.iter().copied().take(most);
    let mut all = vec![Cell::Latency];
    for suite in suites.clone() {
        all.extend(Direction::BOTH.map(|direction| Cell::Stream(suite, direction)));
    }
    all.extend(Direction::BOTH.map(if has_port { Cell::Tcp } else { Cell::Open }));
    all.extend(suites.map(Cell::Seal));
    all.extend(setups(options, quick).into_iter().map(Cell::Setup));
    for job in Job::ALL {
        if quick && job.is_long() {
            continue;
        }
        all.extend(clients.iter().map(|client| Cell::Child(client.clone(), job)));
    }
    all.push(Cell::Disks);
    all
}

fn setups(options: &Options, quick: bool) -> Vec<Setup> {
    let one = |table, keyword, name: &str| Setup {
        table,
        name: name.to_owned(),
        keywords: vec![(keyword, name.to_owned())],
    };
    let most = if quick { 2 } else { KEX.len() };
    let kex = KEX.iter().take(most).map(|name| one("session set-up by key exchange", "KexAlgorithms", name));
    let mut all: Vec<Setup> = kex.collect();
    if quick {
        return all;
    }
    all.extend(HOST_KEYS.iter().map(|name| {
        let mut setup = one("session set-up by host key", "HostKeyAlgorithms", name);
        // A key of a type that is not known yet is not a question to ask now.
        setup
            .keywords
            .extend([("StrictHostKeyChecking", "yes".to_owned()), ("UpdateHostKeys", "no".to_owned())]);
        setup
    }));
    for file in options.config.identity_files(&SystemEnvironment).unwrap_or_default() {
        if let Some(name) = key_type(&file.path) {
            all.push(Setup {
                table: "session set-up by user key",
                name,
                keywords: vec![
                    ("IdentityFile", file.path.display().to_string()),
                    ("IdentitiesOnly", "yes".to_owned()),
                    ("PreferredAuthentications", "publickey".to_owned()),
                ],
            });
        }
    }
    all
}

/// Type of a key that exists, from its public file, with the file's name.
fn key_type(path: &std::path::Path) -> Option<String> {
    if !path.exists() {
        return None;
    }
    let mut public = path.as_os_str().to_owned();
    public.push(".pub");
    let text = std::fs::read_to_string(PathBuf::from(public)).unwrap_or_default();
    let kind = text.split_whitespace().next().unwrap_or("key").to_owned();
    Some(format!("{kind} ({})", path.file_name()?.to_string_lossy()))
}
