//! X11 forwarding: programs at the server draw on a local X server. Longhaul's client with Longhaul's server,
//! and each of them with OpenSSH.

use std::path::PathBuf;

use lh_interop::tunnel::Pair;
use lh_interop::{Inetd, Lab, Lhsshd, Ran, TestUser, XServer, eventually, is_root, me, our, peers, skip};

/// Makes the remote side write cookies to a file of the lab, not to that of the user who runs the tests.
const CONFIG: &str = "X11Forwarding yes\nSetEnv XAUTHORITY={lab}/remote-authority\n";

/// A client, a server and a display.
struct X11Setup<'a> {
    pair: Pair<'a>,
    x: XServer,
    /// The server's log.
    log: &'a dyn Fn() -> String,
}

impl X11Setup<'_> {
    /// Logs in with these flags and runs a command.
    fn run(&self, flags: &[&str], command: &str) -> Ran {
        let mut words = flags.to_vec();
        words.extend(["@host", command]);
        self.x.run(self.pair.lab, &self.pair.client, &self.pair.args(&words))
    }

    fn start(
        lab: &Lab,
        client: PathBuf,
        port: u16,
        log: &dyn Fn() -> String,
        check: impl FnOnce(&X11Setup<'_>),
    ) {
        let [xvfb, xauth] = peers("x11", ["Xvfb", "xauth"]).unwrap();
        let x = XServer::start(lab, &xvfb, &xauth);
        check(&X11Setup { pair: Pair::new(lab, client, port), x, log });
    }
}

/// Runs `check` with our client and server, and with each of them and OpenSSH's other end.
fn each_stage(test: &str, config: &str, check: impl Fn(&X11Setup<'_>)) {
    if peers(test, ["Xvfb", "xauth", "xdpyinfo"]).is_none() {
        return;
    }
    let config = |lab: &Lab| format!("{CONFIG}{config}").replace("{lab}", &lab.dir().to_string_lossy());
    let with_ours = |client: PathBuf| {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, &config(&lab));
        X11Setup::start(&lab, client, server.port, &|| server.log(), &check);
    };
    println!("{test}: lhssh and lhsshd");
    with_ours(our("lhssh"));
    if let Some([ssh]) = peers(test, ["ssh"]) {
        println!("{test}: ssh and lhsshd");
        with_ours(ssh);
    }
    if let Some([sshd]) = peers(test, ["sshd"]) {
        println!("{test}: lhssh and sshd");
        let lab = Lab::new();
        let server = Inetd::openssh(&lab, &sshd, &config(&lab));
        X11Setup::start(&lab, our("lhssh"), server.port, &|| server.log(), &check);
    }
}

/// Returns the TCP port of a display named like `localhost:10.0`.
fn port_of(display: &str) -> u16 {
    let number = display.trim().strip_prefix("localhost:").and_then(|rest| rest.strip_suffix(".0"));
    6000 + number.and_then(|number| number.parse::<u16>().ok()).unwrap_or_else(|| panic!("{display:?}"))
}

/// Covers: ssh -X; ssh -Y; ssh -x; ssh_config ForwardX11; ssh_config ForwardX11Trusted; ssh_config XAuthLocation; sshd_config X11Forwarding; sshd_config XAuthLocation; wire x11-req
#[test]
fn programs_draw_on_the_display_here() {
    each_stage("x11", "", |setup| {
        let ran = setup.run(&["-Y"], "xdpyinfo && xauth list $DISPLAY && echo $DISPLAY").ok("trusted");
        let text = ran.text();
        assert!(text.contains("64x64 pixels"), "{text}");
        assert!(text.contains("XTEST"), "a trusted client may use everything: {text}");
        let display = text.lines().last().unwrap();
        // The cookie at the server is not the display's.
        assert!(text.contains("MIT-MAGIC-COOKIE-1"), "{text}");
        assert!(!text.contains(setup.x.cookie()), "the real cookie has left the machine");
        let port = port_of(display);
        eventually("the display goes with its session", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
        });
        // Connections without the cookie are rejected.
        let ran = setup.run(&["-Y"], "XAUTHORITY=/nonexistent xdpyinfo").err;
        assert!(ran.contains("X11 connection rejected because of wrong authentication."), "{ran}");
        assert!(ran.contains("unable to open display"), "{ran}");
        // Untrusted programs are isolated from others. (Debian's client trusts all unless told otherwise.)
        let text = setup.run(&["-X", "-o", "ForwardX11Trusted=no"], "xdpyinfo").ok("untrusted").text();
        assert!(text.contains("64x64 pixels") && !text.contains("XTEST"), "{text}");
        assert_eq!(setup.run(&["-x"], "echo at=$DISPLAY").text(), "at=\n");
        let ran = setup.run(
            &["-X", "-o", "ForwardX11Trusted=no", "-o", "XAuthLocation=/nonexistent"],
            "echo at=$DISPLAY",
        );
        assert_eq!(ran.text(), "at=\n");
        assert!(ran.err.contains("untrusted X11 forwarding setup failed"), "{}", ran.err);
    });
}

/// Covers: ssh_config ForwardX11Timeout
#[test]
fn untrusted_x11_access_times_out() {
    each_stage("x11_timeout", "", |setup| {
        if !setup.pair.is_ours() {
            return;
        }
        let loops =
            "xdpyinfo >/dev/null && echo in; while xdpyinfo >/dev/null 2>&1; do sleep 0.1; done; echo out";
        let ran = setup.run(&["-v", "-X", "-o", "ForwardX11Timeout=10"], loops).ok("until refused");
        assert_eq!(ran.text(), "in\nout\n", "{}", ran.err);
        assert!(ran.err.contains("after ForwardX11Timeout expired"), "{}", ran.err);
    });
}

/// Covers: sshd_config X11DisplayOffset; sshd_config X11UseLocalhost
#[test]
fn the_server_chooses_the_display() {
    each_stage("x11_display", "X11DisplayOffset 333\nX11UseLocalhost no\n", |setup| {
        let ran = setup.run(&["-Y"], "xdpyinfo >/dev/null && echo $DISPLAY").ok("display");
        let text = ran.text();
        let (host, number) = text.trim().rsplit_once(':').unwrap();
        assert!(!host.is_empty() && host != "localhost", "{text}");
        let number: u16 = number.strip_suffix(".0").unwrap().parse().unwrap();
        assert!((333..1333).contains(&number), "{text}");
    });
}

/// Covers: sshd_config X11Forwarding; sshd_config DisableForwarding; sshd_config XAuthLocation; file authorized_keys no-X11-forwarding; file authorized_keys X11-forwarding
#[test]
fn server_rules_limit_x11_forwarding() {
    let refused = |config: &str| {
        each_stage("x11_rules", config, |setup| {
            let ran = setup.run(&["-Y"], "echo at=$DISPLAY").ok("refused");
            assert_eq!(ran.text(), "at=\n", "{config}: {}", (setup.log)());
            let text = "X11 forwarding request failed on channel 0";
            assert!(ran.err.contains(text), "{config}: {}", ran.err);
        });
    };
    refused("DisableForwarding yes\n");
    refused("XAuthLocation /nonexistent\n");
    each_stage("x11_key", "", |setup| {
        let lab = setup.pair.lab;
        let keys = lab.read("authorized_keys");
        let with = |options: &str| {
            let lines = keys.lines().map(|line| format!("{options} {line}\n"));
            lab.write("authorized_keys", &lines.collect::<String>());
            setup.run(&["-Y"], "echo at=$DISPLAY").text()
        };
        assert_eq!(with("no-X11-forwarding"), "at=\n");
        assert_eq!(with("restrict"), "at=\n");
        let text = with("restrict,X11-forwarding");
        assert!(text.starts_with("at=localhost:"), "{text}");
    });
}

/// Covers: ssh -X; ssh_config ControlMaster
#[test]
fn mux_clients_share_the_display_of_the_master() {
    each_stage("x11_passengers", "", |setup| {
        let lab = setup.pair.lab;
        let socket = lab.arg("ctl");
        let options = ["-S", socket.as_str(), "-o", "ControlPersist=60"];
        let mut first = options.to_vec();
        first.extend(["-M", "-Y"]);
        setup.run(&first, "xdpyinfo >/dev/null").ok("master");
        let mut other = options.to_vec();
        other.extend(["-o", "ControlMaster=no", "-o", "IdentityFile=/nonexistent"]);
        let mut with = other.clone();
        with.push("-Y");
        assert!(setup.run(&with, "xdpyinfo").ok("mux client").text().contains("64x64 pixels"));
        assert_eq!(setup.run(&other, "echo at=$DISPLAY").ok("another").text(), "at=\n");
        setup.run(&["-S", &socket, "-O", "exit"], "").ok("exit");
    });
}

/// Covers: sshd_config X11Forwarding; file ~/.ssh/rc
#[test]
fn a_script_of_the_user_gets_the_cookie() {
    if !is_root() {
        return skip("x11_rc", "only root can log in as another user");
    }
    let Some([ssh, xvfb, xauth]) = peers("x11_rc", ["ssh", "Xvfb", "xauth"]) else { return };
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let rc = user.home.join(".ssh/rc");
    std::fs::write(&rc, "cat > ~/cookie; echo $DISPLAY > ~/display\n").unwrap();
    lab.run(std::path::Path::new("chown"), &[&format!("{}:", user.name), &*rc.to_string_lossy()]).ok("chown");
    let server = Lhsshd::start(&lab, "X11Forwarding yes\nAuthorizedKeysFile .ssh/authorized_keys\n");
    let x = XServer::start(&lab, &xvfb, &xauth);
    assert_ne!(me(), user.name);
    let mut args = lab.client_options();
    args.extend(["-Y", "-p", &server.port_arg(), &format!("{}@127.0.0.1", user.name)].map(str::to_owned));
    args.push("cat cookie display; test -e .Xauthority || echo none".to_owned());
    let text = x.run(&lab, &ssh, &args).ok("rc").text();
    let lines: Vec<&str> = text.lines().collect();
    let [cookie, display, none] = lines[..] else { panic!("{text}") };
    let cookie = cookie.strip_prefix("MIT-MAGIC-COOKIE-1 ").unwrap_or_else(|| panic!("{text}"));
    assert!(cookie.len() == 32 && cookie.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
    assert!(display.starts_with("localhost:"), "{text}");
    assert_eq!(none, "none", "xauth is the script's business");
}
