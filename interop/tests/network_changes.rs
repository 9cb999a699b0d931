//! Sessions with `Resume` whose machine gets another address, or loses its link for a while. Keepalives are too
//! rare here to notice.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lh_interop::{Lab, Lhsshd, eventually, is_root, me, our, peers, skip, skip_unavailable};
use lh_link::netns::within;

/// A client and a server in network namespaces with a link between them.
struct Scene {
    lab: Lab,
    server: Lhsshd,
    client: String,
    spaces: Vec<String>,
    ip: PathBuf,
}

impl Drop for Scene {
    fn drop(&mut self) {
        for name in &self.spaces {
            let _ = Command::new(&self.ip).args(["netns", "del", name]).status();
        }
    }
}

const HERE: [&str; 2] = ["10.92.0.1", "10.92.0.3"];
const THERE: &str = "10.92.0.2";
const PORT: u16 = 2222;

fn ip(ip: &Path, line: &str) -> Result<(), String> {
    let done = Command::new(ip).args(line.split(' ')).output().map_err(|error| error.to_string())?;
    done.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&done.stderr).into_owned())
}

impl Scene {
    fn new(test: &str) -> Option<Self> {
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
        for (space, device, address) in [(here, "near", HERE[0]), (there, "far", THERE)] {
            ip(&program, &format!("-n {space} addr add {address}/24 dev {device}")).unwrap();
            ip(&program, &format!("-n {space} link set {device} up")).unwrap();
        }
        let config = format!("ListenAddress {THERE}:{PORT}\nResumeGrace 5m\n");
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
        let mut command = Command::new("timeout");
        command.arg("200").arg(our("lhssh")).args(self.lab.client_options());
        for option in ["Resume=yes", "ServerAliveInterval=1000", "LogLevel=VERBOSE"] {
            command.args(["-o", option]);
        }
        command.args(["-p", &PORT.to_string(), &format!("{}@{THERE}", me()), "exec cat"]);
        command.env("HOME", self.lab.path("home")).env_remove("SSH_AUTH_SOCK");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(std::fs::File::create(self.lab.path("said")).unwrap());
        within(&self.client, || command.spawn()).unwrap()
    }

    fn resumptions(&self) -> usize {
        self.server.log().matches(" resumed from ").count()
    }
}

/// Sends lines through the client, with something between them.
fn lines_pass(scene: &Scene, between: &[&dyn Fn()]) {
    let mut client = scene.start();
    let mut input = client.stdin.take().unwrap();
    let mut output = BufReader::new(client.stdout.take().unwrap());
    let mut pass = |text: &str| {
        writeln!(input, "{text}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), text, "{}", scene.lab.read("said"));
    };
    pass("first");
    for (number, action) in between.iter().enumerate() {
        action();
        pass(&format!("line {number}"));
    }
    drop(input);
    assert!(client.wait().unwrap().success(), "{}", scene.lab.read("said"));
}

/// Covers: ssh_config Resume
#[test]
fn another_address_is_noticed_without_keepalives() {
    let Some(scene) = Scene::new("another_address_is_noticed_without_keepalives") else { return };
    let exchange = |from: &str, to: &str| {
        scene.ip(&format!("addr del {from}/24 dev near"));
        scene.ip(&format!("addr add {to}/24 dev near"));
    };
    lines_pass(&scene, &[&|| exchange(HERE[0], HERE[1]), &|| exchange(HERE[1], HERE[0])]);
    assert!(scene.resumptions() >= 2, "{}", scene.server.log());
    assert!(scene.server.log().contains(&format!(" resumed from {}", HERE[1])), "{}", scene.server.log());
}

/// Covers: ssh_config Resume
#[test]
fn a_link_that_is_down_is_noticed_without_keepalives() {
    let Some(scene) = Scene::new("a_link_that_is_down_is_noticed_without_keepalives") else { return };
    let down = || {
        scene.ip("link set near down");
        eventually("the client has noticed", || {
            scene.lab.read("said").contains("the server does not answer")
        });
        scene.ip("link set near up");
    };
    // The link may carry the session again before another connection does.
    lines_pass(&scene, &[&down]);
}
