//! Jump hosts: chains of Longhaul's server and OpenSSH's, for both clients. Each hop has its own host keys
//! and accepts its own user key.

use std::path::Path;
use std::process::{Command, Stdio};

use lh_interop::process::below;
use lh_interop::tunnel::{free_port, round_trip, sum_server};
use lh_interop::{Inetd, Lab, Lhsshd, Ran, eventually, me, our, peers};

/// Three hosts, `one` to `three`; the client's files are in the lab of the first.
struct Chain {
    labs: [Lab; 3],
    servers: (Lhsshd, Option<Inetd>, Lhsshd),
}

impl Chain {
    /// Starts the chain. The host in the middle is OpenSSH's where that is installed.
    fn new(test: &str) -> Self {
        let labs = [Lab::new(), Lab::new(), Lab::new()];
        let first = Lhsshd::start(&labs[0], "");
        let middle = peers(test, ["sshd"]).map(|[sshd]| Inetd::openssh(&labs[1], &sshd, ""));
        let last = Lhsshd::start(&labs[2], "");
        let chain = Self { labs, servers: (first, middle, last) };
        let known: String = chain.labs.iter().map(|lab| lab.read("known_hosts")).collect();
        chain.labs[0].write("known", &known);
        chain
    }

    fn ports(&self) -> [u16; 3] {
        let (first, middle, last) = &self.servers;
        [first.port, middle.as_ref().map_or(first.port, |middle| middle.port), last.port]
    }

    /// The hops by name.
    const fn hops(&self) -> &'static str {
        if self.servers.1.is_some() { "one,two" } else { "one" }
    }

    /// Returns the arguments of a client whose configuration knows the hosts; `more` is added to the last
    /// host's block.
    fn args(&self, more: &str, given: &[&str]) -> Vec<String> {
        let lab = &self.labs[0];
        let mut text = format!(
            "Host three\n {more}\nHost *\n HostName 127.0.0.1\n User {}\n UserKnownHostsFile {}\n GlobalKnownHostsFile /dev/null\n \
             StrictHostKeyChecking yes\n IdentitiesOnly yes\n BatchMode yes\n LogLevel ERROR\n",
            me(),
            lab.arg("known")
        );
        for ((name, lab), port) in ["one", "two", "three"].iter().zip(&self.labs).zip(self.ports()) {
            let key = lab.arg("user_ed25519");
            text.push_str(&format!("Host {name}\n Port {port}\n IdentityFile {key}\n"));
        }
        lab.write("config", &text);
        let config = lab.arg("config");
        ["-F", &config].iter().chain(given).map(|&word| word.to_owned()).collect()
    }

    fn run(&self, client: &Path, more: &str, given: &[&str]) -> Ran {
        self.labs[0].run(client, &self.args(more, given))
    }
}

/// Runs `check` with our client and with OpenSSH's.
fn each_client(test: &str, check: impl Fn(&Chain, &Path)) {
    let chain = Chain::new(test);
    check(&chain, &our("lhssh"));
    // OpenSSH's client starts itself for each hop, by the name it was started with.
    if let Some([ssh]) = peers(test, ["ssh"]) {
        check(&chain, &ssh);
    }
}

/// Covers: ssh -J; ssh_config ProxyJump; wire direct-tcpip
#[test]
fn each_hop_is_logged_in_to_as_its_own_host() {
    each_client("each_hop", |chain, client| {
        let ran = chain.run(client, "", &["-J", chain.hops(), "three", "echo $SSH_CONNECTION"]).ok("-J");
        assert!(ran.text().trim().ends_with(&format!(" 127.0.0.1 {}", chain.ports()[2])), "{}", ran.text());
        // The chain from the configuration, with bulk data and a forward.
        let jump = format!("ProxyJump {}", chain.hops());
        let data: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(chain.labs[0].path("bulk"), &data).unwrap();
        let stdin = Stdio::from(std::fs::File::open(chain.labs[0].path("bulk")).unwrap());
        let ran = chain.labs[0].run_with(client, &chain.args(&jump, &["three", "cat"]), stdin).ok("bulk");
        assert!(ran.out == data, "the data came back changed");
        let (port, target) = (free_port(), sum_server());
        let forward = format!("127.0.0.1:{port}:127.0.0.1:{target}");
        let mut tunnel = Command::new(client)
            .args(chain.args(&jump, &["-N", "-L", &forward, "three"]))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        eventually("it listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        round_trip(port, 4_000_000);
        let helpers = below(tunnel.id());
        tunnel.kill().unwrap();
        tunnel.wait().unwrap();
        eventually("the hops' servers end with the client", || {
            helpers.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists())
        });
    });
}

/// Covers: ssh -J; ssh_config ProxyJump
#[test]
fn a_hop_with_a_wrong_key_ends_the_chain() {
    each_client("a_hop_that_is_not", |chain, client| {
        let lab = &chain.labs[0];
        let known = lab.read("known");
        let connections = || chain.servers.2.log().matches("Connection from").count();
        for (index, name) in ["one", "two", "three"]
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != 1 || chain.servers.1.is_some())
        {
            // Another host's keys under its name.
            let other = chain.labs[(index + 1) % 3].read("host_ed25519.pub");
            let at = format!("[127.0.0.1]:{} ", chain.ports()[index]);
            let changed: Vec<String> = known
                .lines()
                .filter(|line| !line.starts_with(&at))
                .map(|line| format!("{line}\n"))
                .chain([format!("{at}{other}")])
                .collect();
            lab.write("known", &changed.concat());
            let before = connections();
            let ran = chain.run(client, "", &["-J", chain.hops(), "three", "echo in"]);
            assert_eq!((ran.code, ran.text().as_str()), (255, ""), "{name}: {}", ran.err);
            assert!(ran.err.contains("Host key verification failed."), "{name}: {}", ran.err);
            if index < 2 {
                assert_eq!(connections(), before, "no connection got this far");
            }
        }
        lab.write("known", &known);
        // A key that the next host accepts is refused by this one.
        for (index, name) in [(0, "one"), (2, "three")] {
            let authorized = chain.labs[index].read("authorized_keys");
            chain.labs[index].write("authorized_keys", &chain.labs[1].read("authorized_keys"));
            let ran = chain.run(client, "", &["-J", chain.hops(), "three", "echo in"]);
            assert!(
                ran.code == 255 && ran.err.contains("Permission denied (publickey"),
                "{name}: {}",
                ran.err
            );
            chain.labs[index].write("authorized_keys", &authorized);
        }
        chain.run(client, "", &["-J", chain.hops(), "three", "true"]).ok("as it was");
    });
}

/// A configuration may name such hops, as with OpenSSH, but no connection uses them.
///
/// Covers: ssh_config ProxyJump
#[test]
fn hops_that_are_shell_syntax_are_not_used() {
    let chain = Chain::new("odd_hops");
    for (hop, told) in [
        ("host;with;semicolon", "hostname contains invalid characters"),
        ("us;er@one", "remote username contains invalid characters"),
        ("\"o'ne,one\"", "command-line line 0: Invalid ProxyJump \"o'ne\""),
    ] {
        let ran = chain.run(&our("lhssh"), &format!("ProxyJump {hop}"), &["three", "true"]);
        assert_eq!((ran.code, ran.err.trim_end()), (255, told), "{hop}");
    }
}
