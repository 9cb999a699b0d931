//! The command line of a measurement.

use std::path::PathBuf;
use std::time::Duration;

use lh_link::path::Spec;
use lh_link::units;

use crate::cipher_suite::CipherSuite;

pub(crate) const USAGE: &str = "\
usage: lh-bench [options]   (usually: cargo xtask bench [options])

  --scenario NAME[,NAME…]   pipe copy setup logins small list crypto scale memory keys forward resume
                            connections kills huge-tree busy wan (default: all but the last five, which
                            take long; wan needs root)
  --cipher SUITE[,SUITE…]   CIPHER or CIPHER+MAC, @openssh.com may be left out; what does not
                            encrypt too (none+MAC, aes128-gmac), for suites that can
  --size BYTES              for pipe, copy, connections, scale and resume, with K, M or G (powers of 1024; default 512M); files of wan
                            (default: what the path takes in --duration, as far as memory allows)
  --files N                 for small and kills (default 2000) and huge-tree (default 1000000)
  --file-size BYTES         of each file of small and kills (default 0.5 to 7.5 kB, and 4K)
  --rounds N                rounds of each table (default 3; moments of kills: 20)
  --peer NAME=PATH          mscp, rclone, lftp, rsync, dropbear: the program; any other name: a directory
                            with another OpenSSH-like suite (bin/ssh, bin/scp, sbin/sshd; hpnssh… too)
  --without NAME[,NAME…]    leave these peers out
  --packet BYTES            payload of a packet for the ceilings and crypto (default 32K)
  --option KEYWORD=VALUE    for Longhaul's clients and servers alike; may be repeated
  --workers N               most threads for crypto (default: all CPUs)
  --address IP              where servers listen and clients connect (default 127.0.0.1)
  --server-prefix COMMAND   runs servers, e.g. 'ip netns exec far'
  --client-prefix COMMAND   runs clients
  --duration TIME           wan, busy: how long each contestant sends (default 20s)
  --logins N --parallel N   logins: how many, and how many at the same time (default 100; one for each CPU)
  --sessions N              busy: downloads, and as many uploads (default 200)
  --idle N                  busy: idle terminals (default: five times the downloads, so 1000)
  --only TEXT               wan: only what has this text in WAY: NAME, as `up: longhaul, pipe`; small, kills,
                            huge-tree: tables with this word in their heading, as `up`; may be repeated
  --rtt TIME --rate RATE --loss PART --queue BYTES --mtu BYTES --congestion NAME --tcp-buffer BYTES
  --seed N --link KIND      wan: the path, as for `cargo xtask wan` (default: 2gbit, 50ms, no loss, cubic)
  --out DIR                 where report.md and report.json go (default: target/bench)
  --fold FILE…              alone: prints reports of --scenario scale (report.json) as one Markdown table
  --smoke                   everything once with tiny sizes: does it work?
";

/// All scenarios in the order in which they run.
pub(crate) const SCENARIOS: &[&str] = &[
    "pipe",
    "copy",
    "setup",
    "logins",
    "small",
    "list",
    "crypto",
    "scale",
    "memory",
    "keys",
    "forward",
    "resume",
    "connections",
    "kills",
    "huge-tree",
    BUSY,
    WAN,
];

/// Scenario over an emulated path.
const WAN: &str = "wan";

/// Scenarios that run only when they are named.
const LONG: &[&str] = &["connections", "kills", "huge-tree", BUSY, WAN];

/// Scenario of a busy server: it runs only when named, unless the sizes are tiny.
const BUSY: &str = "busy";

const DEFAULT_SUITES: &[&str] =
    &["aes128-gcm", "chacha20-poly1305", "aes128-ctr+umac-64-etm", "aes128-ctr+hmac-sha2-256-etm"];

/// Settings of a measurement.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) scenarios: Vec<String>,
    pub(crate) suites: Vec<CipherSuite>,
    /// Length of a stream or of one file, bytes.
    pub(crate) size: u64,
    pub(crate) tree: Tree,
    pub(crate) rounds: usize,
    pub(crate) peers: Peers,
    /// Payload of a packet for the ceilings and ciphers, bytes.
    pub(crate) packet: usize,
    /// Most threads for ciphers in memory.
    pub(crate) workers: usize,
    pub(crate) hosts: Hosts,
    /// The emulated path.
    pub(crate) path: Spec,
    pub(crate) load: Load,
    /// Time for which each contestant sends over the path, or loads a server.
    pub(crate) duration: Duration,
    pub(crate) only: Vec<String>,
    /// Options `KEYWORD=VALUE` for both of our ends.
    pub(crate) own: Vec<String>,
    /// Settings that were given, as opposed to defaults.
    pub(crate) given: Given,
    pub(crate) out: PathBuf,
    pub(crate) smoke: bool,
}

/// A tree of small files.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tree {
    /// Number of its files; each scenario has its own default.
    pub(crate) files: Option<usize>,
    /// Length of each file, bytes; each scenario has its own default.
    pub(crate) file_size: Option<u64>,
}

/// Which other programs are measured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peers {
    /// Name and path of peers that were named.
    pub(crate) named: Vec<(String, PathBuf)>,
    /// Names of those that are left out.
    pub(crate) without: Vec<String>,
}

/// Where the programs of a measurement run.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    /// Address of the servers.
    pub(crate) address: String,
    /// Command that runs each server; empty for none.
    pub(crate) server_prefix: String,
    /// Command that runs each client; empty for none.
    pub(crate) client_prefix: String,
}

/// How much a server has to do in the scenarios of many connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) logins: u64,
    /// Logins at the same time; without it, one for each CPU.
    pub(crate) parallel: Option<usize>,
    /// Downloads of the busy server, and as many uploads.
    pub(crate) transfers: usize,
    /// Idle terminals of the busy server; without it, a multiple of its downloads.
    pub(crate) terminals: Option<usize>,
}

/// Flags for the settings that were given.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Given {
    pub(crate) suites: bool,
    pub(crate) size: bool,
    pub(crate) rounds: bool,
}

impl Options {
    pub(crate) fn parse(args: &[String]) -> Result<Self, String> {
        let suites = |names: &[&str]| -> Result<Vec<CipherSuite>, String> {
            names.iter().map(|name| CipherSuite::parse(name)).collect()
        };
        let smoke = args.iter().any(|arg| arg == "--smoke");
        let mut options = Self {
            scenarios: SCENARIOS
                .iter()
                .filter(|&&name| !LONG.contains(&name) || (smoke && name == BUSY))
                .map(|&name| name.to_owned())
                .collect(),
            suites: suites(DEFAULT_SUITES)?,
            size: 512 << 20,
            tree: Tree::default(),
            rounds: 3,
            peers: Peers::default(),
            packet: 32 << 10,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            hosts: Hosts {
                address: "127.0.0.1".to_owned(),
                server_prefix: String::new(),
                client_prefix: String::new(),
            },
            path: Spec::default(),
            load: Load { logins: 100, parallel: None, transfers: 200, terminals: None },
            duration: Duration::from_secs(20),
            only: Vec::new(),
            own: Vec::new(),
            given: Given::default(),
            out: PathBuf::from("target/bench"),
            smoke,
        };
        if options.smoke {
            (options.size, options.rounds) = (4 << 20, 1);
        }
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            if flag == "--smoke" {
                continue;
            }
            if matches!(flag.as_str(), "--help" | "-h" | "help") {
                return Err(USAGE.to_owned());
            }
            let value = args.next().ok_or_else(|| format!("{flag} needs a value\n{USAGE}"))?;
            if options.path.set(flag, value)? {
                continue;
            }
            let list = || value.split(',').filter(|name| !name.is_empty());
            match flag.as_str() {
                "--scenario" => options.scenarios = list().map(str::to_owned).collect(),
                "--cipher" => {
                    options.suites = suites(&list().collect::<Vec<_>>())?;
                    options.given.suites = true;
                }
                "--size" => {
                    options.size = size(value)?;
                    options.given.size = true;
                }
                "--files" => options.tree.files = Some(count(value)?),
                "--file-size" => options.tree.file_size = Some(size(value)?),
                "--logins" => options.load.logins = count(value)? as u64,
                "--parallel" => options.load.parallel = Some(count(value)?),
                "--sessions" => options.load.transfers = count(value)?,
                "--idle" => options.load.terminals = Some(count(value)?),
                "--duration" => options.duration = units::time(value)?,
                "--option" if value.contains('=') => options.own.push(value.clone()),
                "--only" => options.only.push(value.clone()),
                "--rounds" => {
                    options.rounds = count(value)?;
                    options.given.rounds = true;
                }
                "--packet" => options.packet = count(&size(value)?.to_string())?,
                "--workers" => options.workers = count(value)?,
                "--peer" => {
                    let (name, path) =
                        value.split_once('=').ok_or_else(|| format!("{value}: not NAME=PATH"))?;
                    options.peers.named.push((name.to_owned(), PathBuf::from(path)));
                }
                "--without" => options.peers.without.extend(list().map(str::to_owned)),
                "--address" => options.hosts.address.clone_from(value),
                "--server-prefix" => options.hosts.server_prefix.clone_from(value),
                "--client-prefix" => options.hosts.client_prefix.clone_from(value),
                "--out" => options.out = PathBuf::from(value),
                _ => return Err(format!("unknown option {flag}\n{USAGE}")),
            }
        }
        if let Some(unknown) = options.scenarios.iter().find(|name| !SCENARIOS.contains(&name.as_str())) {
            return Err(format!("no scenario {unknown}; known are: {}", SCENARIOS.join(" ")));
        }
        // Every peer supports such packets, and our own slabs hold them.
        if !(16..=256 << 10).contains(&options.packet)
            || options.suites.is_empty()
            || options.size == 0
            || options.duration < Duration::from_secs(1)
        {
            return Err("these values do not permit a measurement".to_owned());
        }
        Ok(options)
    }
}

fn count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| format!("{text}: not a number above 0"))
}

/// Parses bytes, with K, M or G for powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text}: not a size"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text}: too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_parsed() {
        let options =
            parse("--scenario pipe,copy --cipher aes256-gcm --size 2G --rounds 5 --peer hpn=/opt/hpn")
                .unwrap();
        assert_eq!(options.scenarios, ["pipe", "copy"]);
        assert_eq!(options.size, 2 << 30);
        assert_eq!((options.rounds, options.suites.len()), (5, 1));
        assert_eq!(options.peers.named, [("hpn".to_owned(), PathBuf::from("/opt/hpn"))]);
        assert!(!options.smoke);
    }

    #[test]
    fn path_flags_are_parsed() {
        let options =
            parse("--scenario wan --rate 8gbit --rtt 100ms --congestion bbr --duration 5s --only pipe")
                .unwrap();
        assert_eq!((options.path.rate, options.path.rtt), (8_000_000_000, Duration::from_millis(100)));
        assert_eq!((options.path.congestion.as_str(), options.duration), ("bbr", Duration::from_secs(5)));
        assert!(!options.given.size && !options.given.suites);
        assert!(!parse("").unwrap().scenarios.contains(&"wan".to_owned()), "wan must not run by default");
    }

    #[test]
    fn loads_of_a_server_are_parsed() {
        let options =
            parse("--scenario busy,logins --sessions 20 --idle 70 --logins 50 --parallel 3").unwrap();
        assert_eq!((options.load.transfers, options.load.terminals), (20, Some(70)));
        assert_eq!((options.load.logins, options.load.parallel), (50, Some(3)));
        let options = parse("").unwrap();
        assert_eq!(
            (options.load.transfers, options.load.terminals, options.load.parallel),
            (200, None, None)
        );
    }

    #[test]
    fn smoke_flag_applies_at_any_position() {
        assert_eq!(parse("--smoke").unwrap().rounds, 1);
        assert_eq!(parse("--rounds 2 --smoke").unwrap().rounds, 2);
        let runs = |line| parse(line).unwrap().scenarios.contains(&BUSY.to_owned());
        assert!(runs("--smoke") && runs("--scenario busy") && !runs(""));
    }

    #[test]
    fn invalid_options_are_refused() {
        for line in [
            "--scenario nonsense",
            "--size x",
            "--size 99999999999G",
            "--rounds 0",
            "--peer x",
            "--what",
            "--out",
            "--rtt x",
            "--duration 0.1s",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
