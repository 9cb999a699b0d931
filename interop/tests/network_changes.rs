//! Sessions with `Resume` whose machine gets another address or temporarily loses its link, or whose
//! connection becomes slow. The keepalive interval is too long to notice it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lh_interop::{
    Lab, Lhsshd, eventually, is_root, make_blob, me, our, peers, safe_directory, script, skip,
    skip_unavailable,
};
use lh_link::netns::within;

/// A client and a server in network namespaces with a link between them.
struct NamespaceSetup {
    lab: Lab,
    server: Lhsshd,
    client: String,
    spaces: Vec<String>,
    ip: PathBuf,
}

impl Drop for NamespaceSetup {
    fn drop(&mut self) {
        for name in &self.spaces {
            let _ = Command::new(&self.ip).args(["netns", "del", name]).status();
        }
    }
}

const HERE: [&str; 2] = ["10.92.0.1", "10.92.0.3"];
const THERE: &str = "10.92.0.2";
const HERE_V6: &str = "fd92::1";
const THERE_V6: &str = "fd92::2";
const PORT: u16 = 2222;

fn ip(ip: &Path, line: &str) -> Result<(), String> {
    let done = Command::new(ip).args(line.split(' ')).output().map_err(|error| error.to_string())?;
    done.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&done.stderr).into_owned())
}

impl NamespaceSetup {
    fn new(test: &str) -> Option<Self> {
        Self::with_addresses(test, &[(HERE[0], 24, THERE)])
    }

    /// `addresses`: the client's, the length of the prefix, and the server's.
    fn with_addresses(test: &str, addresses: &[(&str, u8, &str)]) -> Option<Self> {
        Self::with_config(test, addresses, "")
    }

    /// Like [`with_addresses`](Self::with_addresses), with additional configuration lines of the server.
    fn with_config(test: &str, addresses: &[(&str, u8, &str)], config: &str) -> Option<Self> {
        if !is_root() {
            skip(test, "network namespaces are root's");
            return None;
        }
        let [program] = peers(test, ["ip"])?;
        let lab = Lab::new();
        let directory = lab.dir().file_name()?.to_string_lossy().into_owned();
        let spaces = vec![format!("{directory}-c"), format!("{directory}-s")];
        let [here, there] = [&spaces[0], &spaces[1]];
        let tried = [
            format!("netns add {here}"),
            format!("netns add {there}"),
            format!("-n {here} link add name near type veth peer name far netns {there}"),
            format!("-n {there} link set lo up"),
        ];
        if let Err(why) = tried.iter().try_for_each(|line| ip(&program, line)) {
            spaces.iter().for_each(|name| drop(ip(&program, &format!("netns del {name}"))));
            skip_unavailable(test, &format!("no network namespaces: {why}"));
            return None;
        }
        let mut config = format!("ResumeGrace 5m\n{config}");
        for (from, prefix, to) in addresses {
            for (space, device, address) in [(here, "near", from), (there, "far", to)] {
                // Usable at once: nothing else has the address.
                let check = if address.contains(':') { " nodad" } else { "" };
                let line = format!("-n {space} addr add {address}/{prefix} dev {device}{check}");
                if let Err(why) = ip(&program, &line) {
                    spaces.iter().for_each(|name| drop(ip(&program, &format!("netns del {name}"))));
                    skip_unavailable(test, &format!("no address {address}: {why}"));
                    return None;
                }
            }
            let to = if to.contains(':') { format!("[{to}]") } else { (*to).to_owned() };
            config += &format!("ListenAddress {to}:{PORT}\n");
        }
        for (space, device) in [(here, "near"), (there, "far")] {
            ip(&program, &format!("-n {space} link set {device} up")).unwrap();
        }
        let server = within(there, || Ok(Lhsshd::start(&lab, &config))).unwrap();
        lab.write("known_hosts", &format!("[{THERE}]:{PORT} {}", lab.read("host_ed25519.pub")));
        let client = here.clone();
        Some(Self { lab, server, client, spaces, ip: program })
    }

    fn ip(&self, line: &str) {
        ip(&self.ip, &format!("-n {} {line}", self.client)).unwrap();
    }

    /// Starts a client whose program repeats lines.
    fn start(&self) -> Child {
        self.start_with("exec cat")
    }

    fn start_with(&self, program: &str) -> Child {
        self.start_at(THERE, &[], program)
    }

    /// Starts a client by `starter`, a command with its first arguments.
    fn start_at(&self, host: &str, starter: &[&str], program: &str) -> Child {
        let mut command = Command::new("timeout");
        command.arg("200").args(starter).arg(our("lhssh")).args(self.lab.client_options());
        for option in ["Resume=yes", "ServerAliveInterval=1000", "LogLevel=VERBOSE"] {
            command.args(["-o", option]);
        }
        command.args(["-o", &format!("HostKeyAlias=[{THERE}]:{PORT}")]);
        command.args(["-p", &PORT.to_string(), &format!("{}@{host}", me()), program]);
        command.env("HOME", self.lab.path("home")).env_remove("SSH_AUTH_SOCK");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(std::fs::File::create(self.lab.path("said")).unwrap());
        within(&self.client, || command.spawn()).unwrap()
    }

    fn resumptions(&self) -> usize {
        self.server.resumptions()
    }
}

impl NamespaceSetup {
    /// A command in the server's namespace.
    fn at_server(&self, program: &Path, line: &str) -> Result<(), String> {
        let mut command = Command::new(program);
        command.args(line.split(' '));
        let done = within(&self.spaces[1], || command.output()).unwrap();
        done.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&done.stderr).into_owned())
    }

    /// The client's port of the login.
    fn client_port(&self) -> Option<String> {
        let log = self.server.log();
        let (_, rest) = log.split_once("Accepted publickey for ")?;
        let (_, rest) = rest.split_once(" port ")?;
        Some(rest.split(' ').next()?.to_owned())
    }
}

/// One flow is throttled in one direction, as by one of several paths to a host: the client goes on over
/// another one.
///
/// Covers: ssh_config Resume; wire resume@longhaul
#[test]
fn a_throttled_connection_is_left_for_another() {
    let test = "a_throttled_connection_is_left_for_another";
    let Some([iptables]) = peers(test, ["iptables"]) else { return };
    let Some(setup) = NamespaceSetup::new(test) else { return };
    make_blob(&setup.lab.path("blob"), 8 << 20);
    let command = format!("echo up; read line; cat {}; exit 4", setup.lab.arg("blob"));
    let mut client = setup.start_with(&command);
    let mut output = client.stdout.take().unwrap();
    output.read_exact(&mut [0; 3]).unwrap();
    let port = setup.client_port().unwrap();
    let throttle = format!(
        "-w -A OUTPUT -p tcp --dport {port} -m hashlimit --hashlimit-above 3kb/s --hashlimit-burst 6kb \
         --hashlimit-name stalled -j DROP"
    );
    if let Err(why) = setup.at_server(&iptables, &throttle) {
        client.kill().unwrap();
        client.wait().unwrap();
        return skip_unavailable(test, &format!("no rule for rates: {why}"));
    }
    client.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let mut came = Vec::new();
    output.read_to_end(&mut came).unwrap();
    assert_eq!(client.wait().unwrap().code(), Some(4), "{}", setup.lab.read("said"));
    assert!(came == std::fs::read(setup.lab.path("blob")).unwrap(), "{} bytes", came.len());
    setup.server.await_resumptions(1);
    assert_eq!(setup.resumptions(), 1, "{}", setup.server.log());
}

/// Sends lines through the client, with something between them.
fn lines_pass(setup: &NamespaceSetup, between: &[&dyn Fn()]) {
    lines_pass_through(setup, setup.start(), between);
}

/// Like [`lines_pass`], through this client.
fn lines_pass_through(setup: &NamespaceSetup, mut client: Child, between: &[&dyn Fn()]) {
    let mut input = client.stdin.take().unwrap();
    let mut output = BufReader::new(client.stdout.take().unwrap());
    let mut pass = |text: &str| {
        writeln!(input, "{text}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), text, "{}", setup.lab.read("said"));
    };
    pass("first");
    for (number, action) in between.iter().enumerate() {
        action();
        pass(&format!("line {number}"));
    }
    drop(input);
    assert!(client.wait().unwrap().success(), "{}", setup.lab.read("said"));
}

/// Covers: ssh_config Resume
#[test]
fn another_address_is_noticed_without_keepalives() {
    let Some(setup) = NamespaceSetup::new("another_address_is_noticed_without_keepalives") else { return };
    let exchange = |from: &str, to: &str| {
        setup.ip(&format!("addr del {from}/24 dev near"));
        setup.ip(&format!("addr add {to}/24 dev near"));
    };
    lines_pass(&setup, &[&|| exchange(HERE[0], HERE[1]), &|| exchange(HERE[1], HERE[0])]);
    setup.server.await_resumptions(2);
    assert!(setup.server.log().contains(&format!(" resumed from {}", HERE[1])), "{}", setup.server.log());
}

/// Covers: ssh_config Resume
#[test]
fn a_link_that_is_down_is_noticed_without_keepalives() {
    let Some(setup) = NamespaceSetup::new("a_link_that_is_down_is_noticed_without_keepalives") else {
        return;
    };
    let down = || {
        setup.ip("link set near down");
        eventually("the client has noticed", || {
            setup.lab.read("said").contains("the server does not answer")
        });
        setup.ip("link set near up");
    };
    // The link may carry the session again before another connection does.
    lines_pass(&setup, &[&down]);
}

/// On the new network packets of more than 1,300 bytes vanish without a message, as in some tunnels: the key
/// exchange over usual segments does not end there.
///
/// Covers: ssh_config Resume
#[test]
fn a_session_goes_on_where_long_packets_vanish() {
    let test = "a_session_goes_on_where_long_packets_vanish";
    let Some([iptables]) = peers(test, ["iptables"]) else { return };
    let Some(setup) = NamespaceSetup::new(test) else { return };
    // One segment a packet, so that the rule sees what a wire would carry.
    setup.ip("link set near gso_max_segs 1");
    setup.at_server(&setup.ip, "link set far gso_max_segs 1").unwrap();
    let drop_long = |chain: &str, from: u16| {
        let rule = format!("-w -A {chain} -p tcp -m length --length {from}:65535 -j DROP");
        setup.at_server(&iptables, &rule)
    };
    if let Err(why) = drop_long("INPUT", 65535) {
        return skip_unavailable(test, &format!("no rule for lengths: {why}"));
    }
    let change = || {
        drop_long("INPUT", 1301).and_then(|()| drop_long("OUTPUT", 1301)).unwrap();
        setup.ip(&format!("addr del {}/24 dev near", HERE[0]));
        setup.ip(&format!("addr add {}/24 dev near", HERE[1]));
    };
    lines_pass(&setup, &[&change]);
    setup.server.await_resumptions(1);
}

/// The path is lost before the server's answer to the login. The client would wait for ever: the server's
/// kernel has acknowledged all that it sent.
///
/// Covers: ssh_config TCPKeepAlive
#[test]
fn a_login_ends_when_its_path_is_lost() {
    let test = "a_login_ends_when_its_path_is_lost";
    if !is_root() {
        return skip(test, "network namespaces are root's");
    }
    let directory = safe_directory();
    let keys = directory.path().join("keys");
    let config = format!(
        "AuthorizedKeysFile none\nAuthorizedKeysCommand {}\nAuthorizedKeysCommandUser root\n",
        keys.display()
    );
    let Some(setup) = NamespaceSetup::with_config(test, &[(HERE[0], 24, THERE)], &config) else { return };
    let [cut, key] = ["cut", "user_ed25519.pub"].map(|name| setup.lab.arg(name));
    script(&keys, &format!("{} link set far down && touch {cut}; cat {key}", setup.ip.display()));
    let done = setup.start_at(THERE, &[], "true").wait_with_output().unwrap();
    let said = setup.lab.read("said");
    assert_eq!(done.status.code(), Some(255), "{said}");
    assert!(setup.lab.path("cut").exists(), "{said}");
    assert!(said.contains(&format!("Connection to {THERE} port {PORT}: ")), "{said}");
}

/// The address of the session falls silent, and the host's other one answers, of another family: attempts to
/// resume do not spend their time with the first one. Without `HappyEyes`, which new sessions need for that.
///
/// Covers: ssh_config Resume
#[test]
fn a_session_goes_on_at_the_hosts_other_address() {
    let test = "a_session_goes_on_at_the_hosts_other_address";
    let addresses = [(HERE[0], 24, THERE), (HERE_V6, 64, THERE_V6)];
    let Some(setup) = NamespaceSetup::with_addresses(test, &addresses) else { return };
    // A name with both addresses, for the client alone.
    setup.lab.write("hosts", &format!("{THERE_V6} both-families\n{THERE} both-families\n"));
    let alone = format!("mount --bind '{}' /etc/hosts && exec \"$@\"", setup.lab.arg("hosts"));
    let client = setup.start_at("both-families", &["unshare", "-m", "sh", "-c", &alone, "sh"], "exec cat");
    let log = || setup.server.log();
    let is_from = |what: &str, address: &str| log().contains(&format!("{what} from {address} "));
    let silence = || {
        let way = if is_from(&format!("Accepted publickey for {}", me()), HERE_V6) {
            format!("-6 route add blackhole {HERE_V6}/128")
        } else {
            format!("route add blackhole {}/32", HERE[0])
        };
        setup.at_server(&setup.ip, &way).unwrap();
    };
    lines_pass_through(&setup, client, &[&silence]);
    setup.server.await_resumptions(1);
    let resumed = |address| is_from("resumed", address);
    assert!(resumed(HERE_V6) || resumed(HERE[0]), "{}", log());
}

/// Like `a_session_goes_on_at_the_hosts_other_address`, with the addresses of a jump host.
///
/// Covers: ssh_config Resume; ssh_config ProxyJump
#[test]
fn a_session_goes_on_at_the_jump_hosts_other_address() {
    let test = "a_session_goes_on_at_the_jump_hosts_other_address";
    let addresses = [(HERE[0], 24, THERE), (HERE_V6, 64, THERE_V6)];
    let Some(setup) = NamespaceSetup::with_addresses(test, &addresses) else { return };
    let lab = &setup.lab;
    lab.write("hosts", &format!("{THERE_V6} both-families\n{THERE} both-families\n"));
    let config = format!(
        "Host far\n HostName {THERE}\n ProxyJump both-families\n Resume yes\nHost *\n Port {PORT}\n User {}\n \
         HostKeyAlias [{THERE}]:{PORT}\n UserKnownHostsFile {}\n GlobalKnownHostsFile /dev/null\n \
         StrictHostKeyChecking yes\n IdentitiesOnly yes\n IdentityFile {}\n BatchMode yes\n WarnWeakCrypto no\n",
        me(),
        lab.arg("known_hosts"),
        lab.arg("user_ed25519"),
    );
    lab.write("config", &config);
    let alone = format!("mount --bind '{}' /etc/hosts && exec \"$@\"", lab.arg("hosts"));
    let mut command = Command::new("timeout");
    command.args(["200", "unshare", "-m", "sh", "-c", &alone, "sh"]).arg(our("lhssh"));
    command.args(["-F", &lab.arg("config"), "far", "exec cat"]);
    command.env("HOME", lab.path("home")).env_remove("SSH_AUTH_SOCK");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(std::fs::File::create(lab.path("said")).unwrap());
    let client = within(&setup.client, || command.spawn()).unwrap();
    let is_from = |address: &str| setup.server.log().contains(&format!("for {} from {address} ", me()));
    let silence = || {
        let way = match is_from(HERE_V6) {
            true => format!("-6 route add blackhole {HERE_V6}/128"),
            false => format!("route add blackhole {}/32", HERE[0]),
        };
        setup.at_server(&setup.ip, &way).unwrap();
    };
    lines_pass_through(&setup, client, &[&silence]);
    setup.server.await_resumptions(1);
    assert!(is_from(HERE_V6) && is_from(HERE[0]), "{}", setup.server.log());
}
