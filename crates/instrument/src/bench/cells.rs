//! The measurements of a round.

use lh_crypto::registry::{CIPHERS, Kind};
use lh_crypto::{Cipher, Mac};

use super::client::Client;
use super::job::Job;
use super::offer::Offer;
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

/// Ciphers and MACs that are compared first, also with files. A quick run takes that of the connection and
/// another.
const USUAL: &[Suite] = &[
    suite("aes128-gcm@openssh.com", None),
    suite("chacha20-poly1305@openssh.com", None),
    suite(MAC_CIPHER, Some(CIPHER_MAC)),
    suite("aes256-gcm@openssh.com", None),
    suite("aes256-ctr", Some("hmac-sha2-512-etm@openssh.com")),
    suite(MAC_CIPHER, Some("umac-64-etm@openssh.com")),
    suite(MAC_CIPHER, Some("umac-128-etm@openssh.com")),
    suite(MAC_CIPHER, Some("hmac-sha1-etm@openssh.com")),
];

/// The cipher that all MACs are measured with, and the MAC that all ciphers are measured with which need one.
const MAC_CIPHER: &str = "aes128-ctr";
const CIPHER_MAC: &str = "hmac-sha2-256-etm@openssh.com";

/// Other names of ciphers that are measured.
const OTHER_NAMES: [&str; 1] = ["chacha20-poly1305-mt@hpnssh.org"];

const fn suite(cipher: &'static str, mac: Option<&'static str>) -> Suite {
    Suite { cipher, mac }
}

/// The ciphers and MACs that both ends have.
#[derive(Debug, Clone)]
pub(super) struct Suites {
    /// Those that are compared first, also with files.
    pub(super) usual: Vec<Suite>,
    /// Each further MAC, with one cipher, and each further cipher.
    pub(super) further: Vec<Suite>,
}

impl Suites {
    /// Those that this build has and the server offers; of further ones, those that it surely offers.
    pub(super) fn of(offer: &Offer) -> Self {
        let is_offered = |suite: &Suite| {
            offer.ciphers.may_have(suite.cipher) && suite.mac.is_none_or(|mac| offer.macs.may_have(mac))
        };
        let is_ours = |suite: &Suite| {
            let has_mac = suite.mac.is_none_or(|mac| Mac::by_name(mac).is_some());
            Cipher::by_name(suite.cipher).is_some() && has_mac
        };
        let macs = Kind::Mac.usable().into_iter().map(|mac| suite(MAC_CIPHER, Some(mac)));
        let macs = macs.filter(|suite| suite.mac.is_some_and(|mac| offer.macs.surely_has(mac)));
        let is_new = |cipher: &&Cipher| {
            let is_known = USUAL.iter().any(|usual| usual.cipher == cipher.name);
            !is_known && !OTHER_NAMES.contains(&cipher.name) && offer.ciphers.surely_has(cipher.name)
        };
        let ciphers = CIPHERS.iter().filter(is_new);
        let ciphers = ciphers.map(|cipher| suite(cipher.name, (!cipher.is_aead()).then_some(CIPHER_MAC)));
        let further = macs.filter(|suite| !USUAL.contains(suite)).chain(ciphers);
        Self {
            usual: USUAL.iter().copied().filter(is_ours).filter(is_offered).collect(),
            further: further.filter(is_ours).filter(is_offered).collect(),
        }
    }

    /// The suite that a quick run is about: that of the connection, where it is one of this build.
    pub(super) fn of_quick_run(&self, agreed: Option<Suite>) -> Suite {
        agreed.or_else(|| self.usual.first().copied()).unwrap_or(USUAL[0])
    }

    fn all(&self) -> impl Iterator<Item = Suite> + '_ {
        self.usual.iter().chain(&self.further).copied()
    }
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

/// The cells of a long run. Further ciphers and MACs have the time that the others leave.
pub(super) fn long(
    setups: Vec<Setup>,
    clients: &[Client],
    has_port: bool,
    has_jump_host: bool,
    suites: &Suites,
) -> Cells {
    let stream = |suite: Suite| Direction::BOTH.map(|direction| Cell::Stream(suite, direction));
    let mut all = vec![Cell::Latency];
    all.extend(suites.usual.iter().copied().flat_map(stream));
    all.extend(Direction::BOTH.map(if has_port { Cell::Tcp } else { Cell::Open }));
    all.extend(suites.usual.iter().copied().map(Cell::Seal));
    all.push(Cell::Disks);
    all.extend(setups.into_iter().map(Cell::Setup));
    for job in Job::all(has_jump_host) {
        all.extend(of_clients(clients, job));
    }
    all.extend(suites.usual.iter().flat_map(|suite| files(clients, *suite)));
    let main = all.len();
    all.extend(suites.further.iter().copied().flat_map(stream));
    all.extend(suites.further.iter().copied().map(Cell::Seal));
    Cells { all, main }
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
    suites: &Suites,
) -> Cells {
    let of_clients = |job: Job| of_clients(clients, job);
    let mut setups = setups.into_iter().map(Cell::Setup);
    let mut all = vec![Cell::Latency];
    let Some(usual) = quick_as else {
        if has_files {
            all.extend(suites.usual.iter().flat_map(|suite| files(clients, *suite)));
        }
        all.extend(suites.all().map(Cell::Seal));
        all.push(Cell::Disks);
        all.extend(setups);
        let needs_none = |job: &Job| *job == Job::SftpStart;
        all.extend(
            Job::OVER_SFTP.into_iter().filter(|job| has_files || needs_none(job)).flat_map(of_clients),
        );
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
        let other = suites.usual.iter().copied().find(|suite| *suite != usual);
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
    suites: &Suites,
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
    all.extend(suites.usual.iter().copied().find(|suite| *suite != usual).into_iter().flat_map(stream));
    Cells { all, main }
}

/// The suite that a connection has agreed on; `None` for names that this build does not have.
pub(super) fn agreed(cipher: &str, mac: &str) -> Option<Suite> {
    let cipher = Cipher::by_name(cipher)?;
    let mac = if cipher.is_aead() { None } else { Some(Mac::by_name(mac)?.name) };
    Some(suite(cipher.name, mac))
}

#[cfg(test)]
mod tests {
    use super::super::offer::Offered;
    use super::*;

    /// All that this build has of the usual ones.
    fn suites() -> Suites {
        Suites::of(&Offer::default())
    }

    #[test]
    fn both_ends_have_the_suites_of_a_run() {
        let of = |ciphers: &[&str], macs: &[&str]| {
            let Suites { usual, further } = Suites::of(&Offer {
                ciphers: Offered::all(ciphers),
                macs: Offered::all(macs),
                ..Offer::default()
            });
            [usual, further].map(|suites| suites.into_iter().map(Suite::name).collect::<Vec<_>>())
        };
        let [usual, further] = of(
            &[
                "aes128-ctr",
                "aes192-ctr",
                "aes128-gcm@openssh.com",
                "chacha20-poly1305-mt@hpnssh.org",
                "rot13",
            ],
            &["hmac-sha2-256-etm@openssh.com", "hmac-sha2-512", "hmac-sha2-256", "crc32"],
        );
        assert_eq!(usual, ["aes128-gcm", "aes128-ctr hmac-sha2-256-etm"]);
        let expected =
            ["aes128-ctr hmac-sha2-256", "aes128-ctr hmac-sha2-512", "aes192-ctr hmac-sha2-256-etm"];
        assert_eq!(further, expected);
        // A server that does not tell is tried with the usual ones alone.
        let [usual, further] = [suites().usual, suites().further];
        assert!(usual.len() > 3 && further.is_empty(), "{usual:?} {further:?}");
    }

    #[test]
    fn each_mac_and_cipher_that_is_offered_has_a_row() {
        let of = |kind: Kind| Offered::all(&kind.names());
        let offer = Offer { ciphers: of(Kind::Cipher), macs: of(Kind::Mac), ..Offer::default() };
        let suites = Suites::of(&offer);
        for mac in Kind::Mac.names() {
            let count = suites.all().filter(|suite| *suite == Suite { cipher: MAC_CIPHER, mac: Some(mac) });
            assert_eq!(count.count(), 1, "{mac}");
        }
        for cipher in Kind::Cipher.names().into_iter().filter(|name| !OTHER_NAMES.contains(name)) {
            assert!(suites.all().any(|suite| suite.cipher == cipher), "{cipher}");
        }
    }

    #[test]
    fn long_run_is_about_the_usual_suites_and_the_ceilings() {
        let offer = Offer { macs: Offered::all(&Kind::Mac.names()), ..Offer::default() };
        let suites = Suites::of(&offer);
        let Cells { all, main } = long(Vec::new(), &[], false, false, &suites);
        let (first, more) = all.split_at(main);
        assert!(first.iter().any(|cell| matches!(cell, Cell::Disks)), "{first:?}");
        let is_further = |cell: &Cell| match cell {
            Cell::Stream(suite, _) | Cell::Seal(suite) => suites.further.contains(suite),
            _ => false,
        };
        assert!(!suites.further.is_empty() && more.iter().all(is_further), "{more:?}");
        assert!(!first.iter().any(is_further), "{first:?}");
    }

    #[test]
    fn quick_run_begins_with_the_cipher_of_the_connection() {
        let gcm = agreed("aes256-gcm@openssh.com", "<implicit>").unwrap();
        assert_eq!((gcm, agreed("rot13", "hmac-sha2-256")), (USUAL[3], None));
        assert_eq!(agreed("aes128-ctr", "hmac-sha2-256"), Some(suite("aes128-ctr", Some("hmac-sha2-256"))));
        let Cells { all, main } = quick(Vec::new(), &[], false, false, gcm, &suites());
        assert!(matches!(all[1], Cell::Stream(suite, Direction::Up) if suite == gcm), "{all:?}");
        // Another one to compare, where there is time.
        assert!(matches!(all[main], Cell::Stream(suite, Direction::Up) if suite == USUAL[0]), "{all:?}");
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
        for quick_as in [None, Some(USUAL[1])] {
            let Cells { all, .. } = over_sftp(Vec::new(), &clients, quick_as, true, &suites());
            assert!(!all.iter().any(needs_command) && all.iter().any(needs_directory), "{all:?}");
            let Cells { all, .. } = over_sftp(Vec::new(), &clients, quick_as, false, &suites());
            assert!(!all.iter().any(needs_command) && !all.iter().any(needs_directory), "{all:?}");
        }
        // Files by cipher are those of our client.
        let peer = [Client { is_ours: false, ..clients[0].clone() }];
        assert!(files(&peer, USUAL[0]).is_empty() && files(&clients, USUAL[0]).len() == 2);
        // A quick run is about the cipher of the connection.
        let Cells { all, main } = over_sftp(Vec::new(), &clients, Some(USUAL[3]), true, &suites());
        let of_cells = |cells: &[Cell]| {
            let suite = |cell: &Cell| if let Cell::File(_, suite, _) = cell { Some(*suite) } else { None };
            cells.iter().filter_map(suite).collect::<Vec<_>>()
        };
        assert_eq!((of_cells(&all[..main]), of_cells(&all[main..])), (vec![USUAL[3]; 2], vec![USUAL[0]; 2]));
    }
}
