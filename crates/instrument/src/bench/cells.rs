//! The measurements of a round.

use super::client::Client;
use super::job::Job;
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

/// Ciphers and MACs of a long run. A quick one takes that of the connection and another.
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
    /// One file over SFTP, copied by a client with this cipher and MAC.
    File(Client, Suite, Direction),
    Disks,
    Seal(Suite),
}

impl Cell {
    /// Name of the measurement, for people.
    pub(super) fn what(&self) -> String {
        match self {
            Self::Stream(suite, direction) => format!("{} {}", suite.name(), direction.name()),
            Self::Tcp(direction) => format!("TCP alone, {}", direction.name()),
            Self::Open(direction) => format!("SSH without encryption, {}", direction.name()),
            Self::Setup(setup) => format!("set-up with {}", setup.name),
            Self::Latency => "latency".to_owned(),
            Self::Child(client, job) => format!("{} ({})", job.table(), client.name),
            Self::File(_, suite, direction) => {
                format!("one file with {}, {}", suite.name(), direction.name())
            }
            Self::Disks => "disks".to_owned(),
            Self::Seal(suite) => format!("{} alone", suite.name()),
        }
    }
}

/// The cells of a run, and how many of the first ones it is about: the others have the time that these leave.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) all: Vec<Cell>,
    pub(super) main: usize,
}

/// Note about measurements that a quick run omits.
pub(super) const LEFT_TO_LONG_RUN: &str = "left to a run without --quick: further ciphers and MACs, host \
     keys, user keys, forwards, keystrokes, small files, ceilings, disks";

/// Like [`LEFT_TO_LONG_RUN`], where the server offers SFTP and runs no commands.
pub(super) const LEFT_TO_LONG_SFTP_RUN: &str = "left to a run without --quick: further ciphers and MACs, \
     host keys, user keys, small files, a wildcard, each cipher alone, the disk of this machine";

/// Like [`LEFT_TO_LONG_SFTP_RUN`], where there is no directory for files.
pub(super) const LEFT_TO_LONG_RUN_WITHOUT_FILES: &str =
    "left to a run without --quick: host keys, user keys, each cipher alone, the disk of this machine";

/// The cells of a long run.
pub(super) fn long(setups: Vec<Setup>, clients: &[Client], has_port: bool, has_jump_host: bool) -> Cells {
    let mut all = vec![Cell::Latency];
    for suite in SUITES.iter().copied() {
        all.extend(Direction::BOTH.map(|direction| Cell::Stream(suite, direction)));
    }
    all.extend(Direction::BOTH.map(if has_port { Cell::Tcp } else { Cell::Open }));
    all.extend(SUITES.iter().copied().map(Cell::Seal));
    all.extend(setups.into_iter().map(Cell::Setup));
    for job in Job::all(has_jump_host) {
        all.extend(of_clients(clients, job));
    }
    all.extend(SUITES.iter().flat_map(|suite| files(clients, *suite)));
    all.push(Cell::Disks);
    Cells { all, main: 0 }
}

/// Returns a job for each client that has the program for it.
fn of_clients(clients: &[Client], job: Job) -> impl Iterator<Item = Cell> {
    let able = clients.iter().filter(move |client| job.is_possible(client));
    able.map(move |client| Cell::Child(client.clone(), job))
}

/// Returns the cell of one file in both directions with a cipher and MAC, copied by our client: an older peer
/// may copy without SFTP.
fn files(clients: &[Client], suite: Suite) -> Vec<Cell> {
    let copier = clients.iter().find(|client| client.is_ours && client.scp.is_some());
    let file =
        |client: &Client| Direction::BOTH.map(|direction| Cell::File(client.clone(), suite, direction));
    copier.map(file).into_iter().flatten().collect()
}

/// Returns the cells of a run where the server offers SFTP and runs no commands; without those about files
/// where there is no directory for them. A quick run is about the suite that both ends have agreed on.
pub(super) fn over_sftp(
    setups: Vec<Setup>,
    clients: &[Client],
    quick_as: Option<Suite>,
    has_files: bool,
) -> Cells {
    let of_clients = |job: Job| of_clients(clients, job);
    let mut setups = setups.into_iter().map(Cell::Setup);
    let mut all = vec![Cell::Latency];
    let Some(usual) = quick_as else {
        if has_files {
            all.extend(SUITES.iter().flat_map(|suite| files(clients, *suite)));
        }
        all.extend(SUITES.iter().copied().map(Cell::Seal));
        all.extend(setups);
        let needs_none = |job: &Job| *job == Job::SftpStart;
        all.extend(
            Job::OVER_SFTP.into_iter().filter(|job| has_files || needs_none(job)).flat_map(of_clients),
        );
        all.push(Cell::Disks);
        return Cells { all, main: 0 };
    };
    if has_files {
        all.extend(files(clients, usual));
    }
    all.extend(setups.next());
    all.extend(of_clients(Job::SftpStart));
    if has_files && clients.len() > 1 {
        all.extend([Job::FileUp, Job::FileDown].into_iter().flat_map(of_clients));
    }
    let main = all.len();
    all.extend(setups);
    if has_files {
        let other = SUITES.iter().copied().find(|suite| *suite != usual);
        all.extend(other.into_iter().flat_map(|suite| files(clients, suite)));
    }
    Cells { all, main }
}

/// The cells of a quick run: few enough for rounds from which something follows. `usual` is the suite that
/// both ends have agreed on.
pub(super) fn quick(
    setups: Vec<Setup>,
    clients: &[Client],
    has_port: bool,
    has_jump_host: bool,
    usual: Suite,
) -> Cells {
    let stream = |suite: Suite| Direction::BOTH.map(|direction| Cell::Stream(suite, direction));
    let of_clients = |job: Job| of_clients(clients, job);
    let mut setups = setups.into_iter().map(Cell::Setup);
    let mut all = vec![Cell::Latency];
    all.extend(stream(usual));
    all.extend([Job::FileUp, Job::FileDown].into_iter().flat_map(of_clients));
    all.extend(setups.next());
    all.extend(of_clients(Job::Login));
    // Other clients are there to be compared.
    if clients.len() > 1 {
        all.extend([Job::Up, Job::Down].into_iter().flat_map(of_clients));
    }
    let main = all.len();
    if has_jump_host {
        all.extend([Job::Through, Job::ToJumpHost].into_iter().flat_map(of_clients));
    }
    if has_port {
        all.extend(Direction::BOTH.map(Cell::Tcp));
    }
    all.extend(setups);
    all.extend(SUITES.iter().copied().find(|suite| *suite != usual).into_iter().flat_map(stream));
    Cells { all, main }
}

/// The suite of a connection, where it is one of [`SUITES`]; else the first of them.
pub(super) fn usual(cipher: &str, mac: &str) -> Suite {
    let is_it = |suite: &&Suite| suite.cipher == cipher && suite.mac.is_none_or(|name| name == mac);
    *SUITES.iter().find(is_it).unwrap_or(&SUITES[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_run_begins_with_the_cipher_of_the_connection() {
        assert_eq!(usual("chacha20-poly1305@openssh.com", "<implicit>"), SUITES[1]);
        assert_eq!(usual("aes128-ctr", "umac-64-etm@openssh.com"), SUITES[5]);
        assert_eq!(usual("aes192-ctr", "hmac-sha2-256"), SUITES[0]);
        let Cells { all, main } = quick(Vec::new(), &[], false, false, SUITES[1]);
        assert!(matches!(all[1], Cell::Stream(suite, Direction::Up) if suite == SUITES[1]), "{all:?}");
        // Another one to compare, where there is time.
        assert!(matches!(all[main], Cell::Stream(suite, Direction::Up) if suite == SUITES[0]), "{all:?}");
        assert_eq!((main, all.len()), (3, 5));
    }

    #[test]
    fn sftp_alone_needs_no_command() {
        let client = Client {
            name: "c".to_owned(),
            ssh: "ssh".into(),
            scp: Some("scp".into()),
            sftp: Some("sftp".into()),
            unsupported: Vec::new(),
            is_ours: true,
        };
        let needs_command = |cell: &Cell| match cell {
            Cell::Stream(..) | Cell::Tcp(_) | Cell::Open(_) => true,
            Cell::Child(_, job) => !Job::OVER_SFTP.contains(job),
            _ => false,
        };
        let needs_directory = |cell: &Cell| match cell {
            Cell::File(..) => true,
            Cell::Child(_, job) => *job != Job::SftpStart,
            _ => false,
        };
        let clients = [client];
        for quick_as in [None, Some(SUITES[1])] {
            let Cells { all, .. } = over_sftp(Vec::new(), &clients, quick_as, true);
            assert!(!all.iter().any(needs_command) && all.iter().any(needs_directory), "{all:?}");
            let Cells { all, .. } = over_sftp(Vec::new(), &clients, quick_as, false);
            assert!(!all.iter().any(needs_command) && !all.iter().any(needs_directory), "{all:?}");
        }
        // Files by cipher are those of our client.
        let peer = [Client { is_ours: false, ..clients[0].clone() }];
        assert!(files(&peer, SUITES[0]).is_empty() && files(&clients, SUITES[0]).len() == 2);
        // A quick run is about the cipher of the connection.
        let Cells { all, main } = over_sftp(Vec::new(), &clients, Some(SUITES[1]), true);
        let suites = |cells: &[Cell]| {
            let suite = |cell: &Cell| if let Cell::File(_, suite, _) = cell { Some(*suite) } else { None };
            cells.iter().filter_map(suite).collect::<Vec<_>>()
        };
        assert_eq!((suites(&all[..main]), suites(&all[main..])), (vec![SUITES[1]; 2], vec![SUITES[0]; 2]));
    }
}
