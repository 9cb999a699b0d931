//! Three network namespaces in a row: the client's, a router's that translates addresses, and the server's.

use std::fs;
use std::process::{Command, Stdio};

use lh_link::netns;

/// The server's address.
pub(super) const SERVER: &str = "10.91.2.10";
/// The server's port, in a namespace that has no other listeners.
pub(super) const PORT: u16 = 2222;

/// The client's addresses behind the router, one of them at a time.
const NEAR: [&str; 2] = ["10.91.1.2", "10.91.1.3"];
/// The router's addresses on the server's side, one of them at a time.
const OUTSIDE: [&str; 2] = ["10.91.2.1", "10.91.2.77"];
/// The router's address on the client's side.
const GATEWAY: &str = "10.91.1.1";

/// The three namespaces. Dropping it removes them, with the processes in them.
pub(super) struct Network {
    client: String,
    router: String,
    server: String,
    near: usize,
    outside: usize,
    paced: bool,
    /// Client ports of the connections that are throttled.
    throttled: Vec<u16>,
}

fn call(program: &str, words: &[&str]) -> Result<(), String> {
    let done = Command::new(program).args(words).stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("{program}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr).trim()))
}

/// Runs `ip` in a namespace.
fn ip(name: &str, line: &str) -> Result<(), String> {
    let words: Vec<&str> = ["-n", name].into_iter().chain(line.split(' ')).collect();
    call("ip", &words)
}

fn inside(name: &str, line: &str) -> Result<(), String> {
    let words: Vec<&str> = ["netns", "exec", name].into_iter().chain(line.split(' ')).collect();
    call("ip", &words)
}

/// Checks that this kernel and container allow such a network, and that the programs are installed.
///
/// # Errors
/// The missing feature or program.
pub(super) fn supported() -> Result<(), String> {
    let name = format!("{}{}-cuts-t", netns::PREFIX, std::process::id());
    call("ip", &["netns", "add", &name])?;
    let tried = ip(&name, "link add name one type veth peer name two")
        .and_then(|()| inside(&name, "sysctl -q -w net.ipv4.ip_forward=1"))
        .and_then(|()| inside(&name, "iptables -w -t nat -A POSTROUTING -o one -j MASQUERADE"))
        .and_then(|()| inside(&name, "iptables -w -A FORWARD -p tcp -j REJECT --reject-with tcp-reset"))
        .and_then(|()| inside(&name, &throttle("-A", "--sport", 1)));
    let _ = netns::remove(&name);
    tried
}

/// Returns the rule that drops a connection's packets above 3 kB/s.
fn throttle(flag: &str, way: &str, port: u16) -> String {
    format!(
        "iptables -w {flag} FORWARD -p tcp {way} {port} -m hashlimit --hashlimit-above 3kb/s \
         --hashlimit-burst 6kb --hashlimit-name t{way}{port} -j DROP"
    )
}

impl Network {
    /// Creates the namespaces. `rate` is in bits per second, in each direction.
    ///
    /// # Errors
    /// The kernel or the container does not allow it, or a program is missing.
    pub(super) fn up(rate: u64) -> Result<Self, String> {
        netns::remove_stale();
        let name = |letter| format!("{}{}-cuts-{letter}", netns::PREFIX, std::process::id());
        let mut network = Self {
            client: name('c'),
            router: name('r'),
            server: name('s'),
            near: 0,
            outside: 0,
            paced: false,
            throttled: Vec::new(),
        };
        network.build(rate)?;
        Ok(network)
    }

    fn build(&mut self, rate: u64) -> Result<(), String> {
        let (client, router, server) = (&self.client, &self.router, &self.server);
        for name in [client, router, server] {
            call("ip", &["netns", "add", name])?;
            ip(name, "link set lo up")?;
        }
        ip(router, &format!("link add name in type veth peer name near netns {client}"))?;
        ip(router, &format!("link add name out type veth peer name far netns {server}"))?;
        for (name, device, address) in [
            (client, "near", NEAR[0]),
            (router, "in", GATEWAY),
            (router, "out", OUTSIDE[0]),
            (server, "far", SERVER),
        ] {
            ip(name, &format!("addr add {address}/24 dev {device}"))?;
            ip(name, &format!("link set {device} up"))?;
        }
        ip(client, &format!("route add default via {GATEWAY}"))?;
        inside(router, "sysctl -q -w net.ipv4.ip_forward=1")?;
        inside(router, "iptables -w -t nat -A POSTROUTING -o out -j MASQUERADE")?;
        let shape = |device: &str| {
            inside(router, &format!("tc qdisc add dev {device} root tbf rate {rate} burst 32k latency 10ms"))
        };
        self.paced = ["in", "out"].iter().all(|device| shape(device).is_ok());
        Ok(())
    }

    /// True if the kernel can limit the rate.
    pub(super) const fn is_paced(&self) -> bool {
        self.paced
    }

    /// Runs `work` on a thread in the client's namespace.
    ///
    /// # Errors
    /// Those of `work`.
    pub(super) fn at_client<T: Send>(
        &self,
        work: impl FnOnce() -> std::io::Result<T> + Send,
    ) -> Result<T, String> {
        netns::within(&self.client, work)
    }

    /// Runs `work` on a thread in the server's namespace.
    ///
    /// # Errors
    /// Those of `work`.
    pub(super) fn at_server<T: Send>(
        &self,
        work: impl FnOnce() -> std::io::Result<T> + Send,
    ) -> Result<T, String> {
        netns::within(&self.server, work)
    }

    /// Processes in the client's namespace whose program has this name.
    pub(super) fn client_processes(&self, program: &str) -> Vec<u32> {
        let done = Command::new("ip").args(["netns", "pids", &self.client]).output();
        let text = done.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default();
        let pids = text.split_whitespace().filter_map(|word| word.parse().ok());
        pids.filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == program)
        })
        .collect()
    }

    /// Sets whether the router answers every packet of a connection with a reset, like firewalls that lose
    /// their state.
    ///
    /// # Errors
    /// Those of `iptables`.
    pub(super) fn set_resetting(&self, on: bool) -> Result<(), String> {
        let flag = if on { "-I" } else { "-D" };
        for port in ["--dport", "--sport"] {
            let rule = format!("FORWARD -p tcp {port} {PORT} -j REJECT --reject-with tcp-reset");
            inside(&self.router, &format!("iptables -w {flag} {rule}"))?;
        }
        Ok(())
    }

    /// Sets whether the router drops all packets silently.
    ///
    /// # Errors
    /// Those of `iptables`.
    pub(super) fn set_dropping(&self, on: bool) -> Result<(), String> {
        let flag = if on { "-I" } else { "-D" };
        inside(&self.router, &format!("iptables -w {flag} FORWARD -j DROP"))
    }

    /// Drops the packets of the present connections above 3 kB/s in each direction, as on one of several
    /// paths. Later connections get the whole rate. Between TCP's retransmissions such a path is mostly
    /// silent.
    ///
    /// # Errors
    /// Those of `iptables`.
    pub(super) fn throttle(&mut self) -> Result<(), String> {
        for port in self.client_ports() {
            for way in ["--sport", "--dport"] {
                inside(&self.router, &throttle("-I", way, port))?;
            }
            self.throttled.push(port);
        }
        Ok(())
    }

    /// Ends [`throttle`](Self::throttle).
    ///
    /// # Errors
    /// Those of `iptables`.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        for port in std::mem::take(&mut self.throttled) {
            for way in ["--sport", "--dport"] {
                inside(&self.router, &throttle("-D", way, port))?;
            }
        }
        Ok(())
    }

    /// Ports of the client's connections to the server.
    fn client_ports(&self) -> Vec<u16> {
        let table = self.at_client(|| fs::read_to_string("/proc/thread-self/net/tcp")).unwrap_or_default();
        let server = format!(":{PORT:04X}");
        let port = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            let (own, peer, state) = (words.next()?, words.next()?, words.next()?);
            let is_one = peer.ends_with(&server) && state == "01";
            is_one.then(|| u16::from_str_radix(own.rsplit(':').next()?, 16).ok())?
        };
        table.lines().filter_map(port).collect()
    }

    /// Sets the client's link up or down, and its routes with it.
    ///
    /// # Errors
    /// Those of `ip`.
    pub(super) fn set_link(&self, up: bool) -> Result<(), String> {
        if !up {
            return ip(&self.client, "link set near down");
        }
        ip(&self.client, "link set near up")?;
        ip(&self.client, &format!("route add default via {GATEWAY}"))
    }

    /// Gives the client another address, as in another network.
    ///
    /// # Errors
    /// Those of `ip`.
    pub(super) fn move_client(&mut self) -> Result<(), String> {
        let old = NEAR[self.near];
        self.near = 1 - self.near;
        ip(&self.client, &format!("addr del {old}/24 dev near"))?;
        ip(&self.client, &format!("addr add {}/24 dev near", NEAR[self.near]))?;
        ip(&self.client, &format!("route add default via {GATEWAY}"))
    }

    /// Gives the router another address and clears its connection table. With `adopt` it treats packets of
    /// unknown connections as new connections, which the server then resets. Otherwise it forwards them
    /// untranslated, and they are lost.
    ///
    /// # Errors
    /// Those of `ip`.
    pub(super) fn rebind(&mut self, adopt: bool) -> Result<(), String> {
        let loose = u8::from(adopt);
        inside(&self.router, &format!("sysctl -q -w net.netfilter.nf_conntrack_tcp_loose={loose}"))?;
        let old = OUTSIDE[self.outside];
        self.outside = 1 - self.outside;
        ip(&self.router, &format!("addr del {old}/24 dev out"))?;
        ip(&self.router, &format!("addr add {}/24 dev out", OUTSIDE[self.outside]))
    }

    /// Bytes that the client has sent and received over its link.
    pub(super) fn passed(&self) -> u64 {
        let table = self.at_client(|| fs::read_to_string("/proc/thread-self/net/dev")).unwrap_or_default();
        let line = table.lines().find_map(|line| line.trim_start().strip_prefix("near:")).unwrap_or_default();
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        [0, 8].iter().filter_map(|&at: &usize| numbers.get(at)).sum()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.client, &self.server, &self.router] {
            // If `up` has failed, some of them do not exist.
            let _ = netns::remove(name);
        }
    }
}
