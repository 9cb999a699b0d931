//! Tunnels between network devices in two namespaces that only an SSH connection joins. Longhaul's client
//! with Longhaul's server, and each of them with OpenSSH.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use lh_interop::tunnel::{Tunnel, round_trip_after, serve_sums};
use lh_interop::{Lab, eventually, is_root, me, our, peers, skip};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace with only its loopback device; removed when dropped.
struct Namespace {
    name: String,
    ip: PathBuf,
}

impl Namespace {
    fn new(lab: &Lab, ip: &Path, letter: char) -> Self {
        let directory = lab.dir().file_name().unwrap().to_string_lossy().into_owned();
        let space = Self { name: format!("{directory}-{letter}"), ip: ip.to_owned() };
        lab.run(ip, &["netns", "add", &space.name]).ok("ip netns add");
        space
    }

    fn ip(&self, lab: &Lab, words: &str) {
        let mut all = vec!["-n", self.name.as_str()];
        all.extend(words.split(' '));
        lab.run(&self.ip, &all).ok(words);
    }

    fn has(&self, lab: &Lab, device: &str) -> bool {
        lab.run(&self.ip, &["-n", &self.name, "link", "show", "dev", device]).code == 0
    }

    /// Runs `work` on a thread inside the namespace.
    fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let enter = || {
                let space = File::open(Path::new("/run/netns").join(&self.name)).unwrap();
                move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            };
            scope.spawn(enter).join().unwrap()
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = std::process::Command::new(&self.ip).args(["netns", "del", &self.name]).status();
    }
}

/// A namespace for the client and one for the server, and the way to log in.
struct TunnelSetup {
    lab: Lab,
    here: Namespace,
    there: Namespace,
    client: PathBuf,
    proxy: String,
}

impl TunnelSetup {
    fn new(client: PathBuf, server: &Path, ip: &Path, config: &str) -> Self {
        let lab = Lab::new();
        let (here, there) = (Namespace::new(&lab, ip, 'c'), Namespace::new(&lab, ip, 's'));
        let _ = std::fs::create_dir_all("/run/sshd");
        let keys = lab.arg("authorized_keys");
        lab.write(
            "sshd.conf",
            &format!(
                "{config}\nHostKey {}\nAuthorizedKeysFile {keys}\nPermitRootLogin yes\nStrictModes no\nPidFile none\n\
                 LogLevel DEBUG1\n",
                lab.arg("host_ed25519")
            ),
        );
        lab.write("known_hosts", &format!("there {}", lab.read("host_ed25519.pub")));
        let proxy = format!(
            "ProxyCommand={} netns exec {} {} -i -f {} -E {}",
            ip.display(),
            there.name,
            server.display(),
            lab.arg("sshd.conf"),
            lab.arg("sshd.log")
        );
        Self { lab, here, there, client, proxy }
    }

    fn start(&self, flags: &[&str]) -> Tunnel {
        let mut args = vec!["netns".to_owned(), "exec".to_owned(), self.here.name.clone()];
        args.push(self.client.to_string_lossy().into_owned());
        args.extend(self.lab.client_options());
        args.extend(["-o".to_owned(), self.proxy.clone(), "-N".to_owned()]);
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        args.push(format!("{}@there", me()));
        Tunnel::start(&self.lab, &self.here.ip, &args)
    }

    /// Transfers data over both versions of IP.
    fn use_it(&self, here: &str, there: &str) {
        eventually("both devices are there", || {
            self.here.has(&self.lab, here) && self.there.has(&self.lab, there)
        });
        for (space, device, last) in [(&self.here, here, 1), (&self.there, there, 2)] {
            space.ip(&self.lab, &format!("addr add 10.99.0.{last}/30 dev {device}"));
            space.ip(&self.lab, &format!("addr add fd99::{last}/64 dev {device} nodad"));
            space.ip(&self.lab, &format!("link set {device} up"));
        }
        for address in ["10.99.0.2", "fd99::2"] {
            let at = SocketAddr::new(address.parse().unwrap(), 0);
            let listener = self.there.within(|| TcpListener::bind(at).unwrap());
            let at = listener.local_addr().unwrap();
            serve_sums(listener);
            let stream = self.here.within(|| TcpStream::connect(at).unwrap());
            round_trip_after(stream, 0, 3_000_000);
        }
    }
}

fn each_pair(test: &str, config: &str, check: impl Fn(&TunnelSetup)) {
    if !is_root() || !Path::new("/dev/net/tun").exists() {
        return skip(test, "network namespaces and devices are root's");
    }
    let Some([ip]) = peers(test, ["ip"]) else { return };
    println!("{test}: lhssh and lhsshd");
    check(&TunnelSetup::new(our("lhssh"), &our("lhsshd"), &ip, config));
    if let Some([ssh, sshd]) = peers(test, ["ssh", "sshd"]) {
        println!("{test}: ssh and lhsshd");
        check(&TunnelSetup::new(ssh, &our("lhsshd"), &ip, config));
        println!("{test}: lhssh and sshd");
        check(&TunnelSetup::new(our("lhssh"), &sshd, &ip, &format!("{config}\nUsePAM no")));
    }
}

/// Covers: ssh -w; ssh_config Tunnel (point-to-point); ssh_config TunnelDevice; sshd_config PermitTunnel; wire tun@openssh.com; token %T
#[test]
fn a_tunnel_joins_two_networks_by_packets() {
    each_pair("tun_packets", "PermitTunnel point-to-point", |setup| {
        let marker = setup.lab.arg("device");
        let local = format!("LocalCommand=echo %T > {marker}");
        let _client = setup.start(&["-w", "5:6", "-o", "PermitLocalCommand=yes", "-o", &local]);
        setup.use_it("tun5", "tun6");
        assert_eq!(setup.lab.read("device"), "tun5\n");
    });
}

/// Covers: ssh_config Tunnel (ethernet); ssh_config TunnelDevice; sshd_config PermitTunnel
#[test]
fn a_tunnel_joins_two_networks_by_frames() {
    each_pair("tun_frames", "PermitTunnel ethernet", |setup| {
        let client = setup.start(&["-o", "Tunnel=ethernet", "-w", "any:3"]);
        setup.use_it("tap0", "tap3");
        drop(client);
        eventually("the devices go with the connection", || {
            !setup.here.has(&setup.lab, "tap0") && !setup.there.has(&setup.lab, "tap3")
        });
    });
}

/// Covers: sshd_config PermitTunnel; ssh_config ExitOnForwardFailure; file authorized_keys tunnel=
#[test]
fn server_rules_limit_tunnels() {
    each_pair("tun_rules", "PermitTunnel ethernet", |setup| {
        let refused = setup.start(&["-o", "ExitOnForwardFailure=yes", "-w", "5:6"]);
        eventually("it is said", || refused.said().contains("Tunnel forwarding failed"));
        assert!(!setup.there.has(&setup.lab, "tun6"));
        // A device that is already in use.
        let _holder = setup.start(&["-o", "Tunnel=ethernet", "-w", "1:1"]);
        eventually("the first one is there", || setup.there.has(&setup.lab, "tap1"));
        let taken = setup.start(&["-o", "Tunnel=ethernet", "-w", "2:1"]);
        eventually("the second is refused", || taken.said().contains("Tunnel forwarding failed"));
    });
    each_pair("tun_key", "PermitTunnel yes", |setup| {
        let keys = setup.lab.read("authorized_keys");
        let lines = keys.lines().map(|line| format!("tunnel=\"4\" {line}\n"));
        setup.lab.write("authorized_keys", &lines.collect::<String>());
        let refused = setup.start(&["-w", "5:6"]);
        eventually("another one is refused", || refused.said().contains("Tunnel forwarding failed"));
        let _given = setup.start(&["-w", "7:any"]);
        eventually("its own is given", || setup.there.has(&setup.lab, "tun4"));
    });
    each_pair("tun_any", "PermitTunnel yes", |setup| {
        let keys = setup.lab.read("authorized_keys");
        let lines = keys.lines().map(|line| format!("tunnel=\"any\" {line}\n"));
        setup.lab.write("authorized_keys", &lines.collect::<String>());
        let refused = setup.start(&["-w", "5:6"]);
        eventually("a choice is refused", || refused.said().contains("Tunnel forwarding failed"));
        assert!(!setup.there.has(&setup.lab, "tun6"));
        let _given = setup.start(&["-w", "7:any"]);
        eventually("any is given", || setup.there.has(&setup.lab, "tun0"));
    });
}

/// A key that may do nothing may not join networks either, as since OpenSSH 10.5 (CVE-2026-73283).
///
/// Covers: file authorized_keys restrict
#[test]
fn restricted_keys_have_no_tunnels() {
    let test = "tun_restrict";
    if !is_root() || !Path::new("/dev/net/tun").exists() {
        return skip(test, "network namespaces and devices are root's");
    }
    let Some([ip]) = peers(test, ["ip"]) else { return };
    let setup = TunnelSetup::new(our("lhssh"), &our("lhsshd"), &ip, "PermitTunnel yes");
    let keys = setup.lab.read("authorized_keys");
    let with = |options: &str| {
        let lines = keys.lines().map(|line| format!("{options} {line}\n"));
        setup.lab.write("authorized_keys", &lines.collect::<String>());
    };
    for options in ["restrict", "restrict,tunnel=\"6\"", "no-port-forwarding"] {
        with(options);
        let refused = setup.start(&["-w", "5:6"]);
        eventually("it is said", || refused.said().contains("Tunnel forwarding failed"));
        assert!(!setup.there.has(&setup.lab, "tun6"), "{options}");
    }
}

/// Covers: ssh -w; sshd_config DisableForwarding; ssh_config ClearAllForwardings
#[test]
fn failed_tunnels_are_reported() {
    let lab = Lab::new();
    let ran = lab.run(&our("lhssh"), &["-w", "1:x", "nowhere"]);
    assert_eq!((ran.code, ran.err.trim()), (255, "Bad tun device '1:x'"));
    each_pair("tun_disabled", "PermitTunnel yes\nDisableForwarding yes", |setup| {
        if setup.proxy.contains("lhsshd") {
            let refused = setup.start(&["-w", "5:6"]);
            eventually("it is said", || refused.said().contains("Tunnel forwarding failed"));
        }
        let cleared = setup.start(&["-v", "-w", "5:6", "-o", "ClearAllForwardings=yes"]);
        eventually("it has logged in", || cleared.said().contains("Entering interactive session"));
        assert!(!setup.here.has(&setup.lab, "tun5"));
    });
}
