//! Common flags and keywords that no other test covers, by their visible effects. Longhaul's clients run with
//! Longhaul's server, and with OpenSSH's if only that shows the effect.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lh_interop::{
    Inetd, Lab, Lhsshd, Ran, ServerSetup, TestUser, eventually, is_root, make_blob, me, our, peers, skip,
};

/// A lab with our server, and arguments for a client that reaches it.
struct Ours {
    lab: Lab,
    server: Lhsshd,
}

impl Ours {
    fn new(config: &str) -> Self {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, config);
        Self { lab, server }
    }

    /// `lhssh FLAGS … -p PORT HOST COMMAND`.
    fn ssh_to(&self, host: &str, flags: &[&str], command: &str) -> Ran {
        let mut args: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        args.extend(self.lab.client_options());
        args.extend(["-p".to_owned(), self.server.port_arg(), host.to_owned(), command.to_owned()]);
        self.lab.run(&our("lhssh"), &args)
    }

    fn ssh(&self, flags: &[&str], command: &str) -> Ran {
        self.ssh_to("127.0.0.1", flags, command)
    }

    fn know_as(&self, name: &str) {
        let text = format!("{name} {}", self.lab.read("host_ed25519.pub"));
        self.lab.write("known_hosts", &text);
    }
}

#[track_caller]
fn has(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in {text}");
}

#[track_caller]
fn lacks(text: &str, part: &str) {
    assert!(!text.contains(part), "{part:?} is in {text}");
}

/// Covers: ssh -4; ssh -6; ssh_config AddressFamily; sshd_config ListenAddress; sshd_config AddressFamily; sshd_config Port; sshd -p; sshd -4; sshd -6; sshd -o
#[test]
fn addresses_are_of_the_family_that_is_asked_for() {
    let ours = Ours::new("");
    ours.know_as(&format!("[localhost]:{}", ours.server.port));
    ours.ssh_to("localhost", &["-4"], "true").ok("-4");
    ours.ssh_to("localhost", &["-o", "AddressFamily=inet"], "true").ok("inet");
    // The server listens on 127.0.0.1 alone.
    for flags in [&["-6"][..], &["-o", "AddressFamily=inet6"]] {
        assert_eq!(ours.ssh_to("localhost", flags, "true").code, 255, "{flags:?}");
        assert_eq!(ours.ssh_to("127.0.0.1", flags, "true").code, 255, "{flags:?}");
    }
    let dump = |flags: &[&str]| {
        let mut args = vec!["-T", "-f", "none", "-h"];
        let key = ours.lab.arg("host_ed25519");
        args.push(&key);
        args.extend(flags);
        let text = ours.lab.run(&our("lhsshd"), &args).ok("-T").text().to_ascii_lowercase();
        text.lines().filter(|line| line.starts_with("listenaddress ")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(dump(&["-4", "-p", "2222"]), "listenaddress 0.0.0.0:2222");
    assert_eq!(dump(&["-6", "-p", "2222"]), "listenaddress [::]:2222");
    assert_eq!(
        dump(&["-o", "AddressFamily=inet", "-o", "Port=1", "-o", "Port=2"]),
        "listenaddress 0.0.0.0:1 listenaddress 0.0.0.0:2"
    );
}

/// Covers: wire zlib@openssh.com; ssh -C; ssh_config Compression; sshd_config Compression; ssh -c; ssh -m; ssh -o; ssh_config LogLevel; ssh_config FingerprintHash; ssh -v; ssh -q; ssh -E; ssh -V; sshd -V
#[test]
fn algorithm_and_log_flags_take_effect() {
    let ours = Ours::new("");
    let verbose = |flags: &[&str]| ours.ssh(&[&["-v"], flags].concat(), "true").ok("login").err;
    has(&verbose(&[]), "compression: none");
    for flags in [&["-C"][..], &["-o", "Compression=yes"]] {
        has(&verbose(flags), "compression: zlib@openssh.com");
    }
    let err = verbose(&["-c", "aes256-ctr", "-m", "hmac-sha2-512"]);
    has(&err, "cipher: aes256-ctr MAC: hmac-sha2-512 ");
    assert!(ours.ssh(&["-c", "rot13"], "true").err.contains("Unknown cipher type 'rot13'"));
    has(&verbose(&["-o", "FingerprintHash=md5"]), "Server host key: ssh-ed25519 MD5:");
    let plain = Ours::new("Compression no");
    has(&plain.ssh(&["-vC"], "true").ok("login").err, "compression: none");
    // More messages, none, and messages in a file.
    lacks(&ours.ssh(&[], "true").err, "debug1:");
    has(&ours.ssh(&["-o", "LogLevel=DEBUG1"], "true").err, "debug1:");
    has(&ours.ssh(&["-vv"], "true").err, "debug2:");
    assert_eq!(ours.ssh(&["-q", "-o", "PubkeyAuthentication=no"], "true").err, "");
    has(&ours.ssh(&["-o", "PubkeyAuthentication=no"], "true").err, "Permission denied");
    let log = ours.lab.arg("client.log");
    assert_eq!(ours.ssh(&["-v", "-E", &log], "true").ok("-E").err, "");
    has(&ours.lab.read("client.log"), "debug1: ");
    for program in ["lhssh", "lhsshd"] {
        let ran = ours.lab.run(&our(program), &["-V"]).ok("-V");
        has(&ran.err, "Longhaul");
    }
}

/// Covers: ssh -l; ssh -i; ssh -x; ssh -o; ssh_config PubkeyAuthentication; ssh_config PasswordAuthentication; ssh_config KbdInteractiveAuthentication; ssh_config NumberOfPasswordPrompts; ssh_config PreferredAuthentications; ssh_config BatchMode
#[test]
fn login_user_and_methods_follow_the_flags() {
    if !is_root() {
        return skip("login_user_and_methods_follow_the_flags", "needs root to add a user with a password");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let ours = Ours {
        server: Lhsshd::start(
            &lab,
            "KbdInteractiveAuthentication yes\nAuthorizedKeysFile .ssh/authorized_keys",
        ),
        lab,
    };
    assert_eq!(
        ours.ssh(&["-l", &user.name, "-x"], "id -un; echo $DISPLAY").ok("-l").text(),
        format!("{}\n\n", user.name)
    );
    assert_eq!(
        ours.ssh_to("other-user@127.0.0.1", &["-l", &user.name], "id -un").ok("-l first").text().trim(),
        user.name
    );
    let key = ours.lab.arg("user_ecdsa");
    ours.ssh(&["-l", &user.name, "-i", &key, "-v"], "true").ok("-i");
    // A user who types a wrong password every time.
    lh_interop::script(&ours.lab.path("askpass"), "echo \"$1\" >>asked; echo wrong");
    let typing = |flags: &[&str]| {
        let _ = std::fs::remove_file(ours.lab.path("asked"));
        let mut words = vec!["-o", "BatchMode=no", "-l", &user.name];
        words.extend(flags);
        let mut args = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>();
        args.extend(ours.lab.client_options().iter().map(|word| format!("'{word}'")));
        let line = format!(
            "SSH_ASKPASS={} SSH_ASKPASS_REQUIRE=force {} {} -p {} 127.0.0.1 true",
            ours.lab.arg("askpass"),
            our("lhssh").display(),
            args.join(" "),
            ours.server.port
        );
        let ran = ours.lab.sh(&line);
        let asked = std::fs::read_to_string(ours.lab.path("asked")).unwrap_or_default();
        (ran.code, asked.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let password = format!("{}@127.0.0.1's password: ", user.name);
    let interactive = format!("({}@127.0.0.1) Password: ", user.name);
    let no_key = ["-o", "PubkeyAuthentication=no"];
    let (code, asked) = typing(&[&no_key[..], &["-o", "NumberOfPasswordPrompts=1"]].concat());
    assert_eq!((code, asked), (255, vec![interactive.clone(), password.clone()]));
    let order =
        ["-o", "PreferredAuthentications=password,keyboard-interactive", "-o", "NumberOfPasswordPrompts=1"];
    assert_eq!(typing(&order).1, [password.clone(), interactive.clone()]);
    let two = ["-o", "NumberOfPasswordPrompts=2"];
    let off = |keyword: &str| {
        [&no_key[..], &two, &["-o", keyword]].concat().iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()
    };
    let words = |list: &[String]| typing(&list.iter().map(String::as_str).collect::<Vec<_>>()).1;
    assert_eq!(words(&off("PasswordAuthentication=no")), [interactive.clone(), interactive]);
    assert_eq!(words(&off("KbdInteractiveAuthentication=no")), [password.clone(), password]);
    assert!(
        words(
            &[
                off("BatchMode=no"),
                vec![
                    "-o".into(),
                    "PasswordAuthentication=no".into(),
                    "-o".into(),
                    "KbdInteractiveAuthentication=no".into()
                ]
            ]
            .concat()
        )
        .is_empty()
    );
    // BatchMode prompts for nothing.
    let ran = ours.ssh(&["-o", "PubkeyAuthentication=no", "-l", &user.name], "true");
    assert_eq!(ran.code, 255);
    has(&ran.err, "Permission denied (");
}

/// Covers: ssh_config HostKeyAlias; ssh_config GlobalKnownHostsFile; ssh_config UserKnownHostsFile; ssh_config StrictHostKeyChecking; ssh_config NoHostAuthenticationForLocalhost; ssh_config VisualHostKey; ssh_config RequiredRSASize; sshd_config RequiredRSASize
#[test]
fn host_key_options_take_effect() {
    let ours = Ours::new("RequiredRSASize 3072");
    let known = ours.lab.read("known_hosts");
    let refused = |flags: &[&str]| {
        let ran = ours.ssh(flags, "true");
        assert_eq!(ran.code, 255, "{flags:?}: {}", ran.err);
        ran.err
    };
    ours.know_as("an-alias");
    has(&refused(&[]), "Host key verification failed.");
    ours.ssh(&["-o", "HostKeyAlias=an-alias"], "true").ok("alias");
    ours.ssh(&["-o", "NoHostAuthenticationForLocalhost=yes"], "true").ok("localhost");
    ours.lab.write("elsewhere", &known);
    let file = format!("GlobalKnownHostsFile=/nonexistent {}", ours.lab.arg("elsewhere"));
    ours.ssh(&["-o", &file], "true").ok("global file");
    let file = format!("UserKnownHostsFile={}", ours.lab.arg("new_hosts"));
    has(&refused(&["-o", &file]), "No ED25519 host key is known for");
    let learned = ours.ssh(&["-o", &file, "-o", "StrictHostKeyChecking=accept-new"], "true").ok("accept-new");
    has(&learned.err, "Permanently added");
    ours.ssh(&["-o", &file], "true").ok("learned");
    let ran = ours.ssh(&["-o", &file, "-o", "VisualHostKey=yes"], "true").ok("picture");
    has(&ran.err, "+--[ED25519 256]--+");
    // A short RSA key is neither accepted from the host nor used for the user; the server has a limit of its
    // own.
    let options = [
        "-o",
        &file,
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "HostKeyAlgorithms=rsa-sha2-256",
        "-o",
        "RequiredRSASize=3072",
    ];
    has(&refused(&options), "Invalid key length");
    let rsa = format!("IdentityFile={}", ours.lab.arg("user_rsa"));
    let rsa = ["-o", &file, "-o", "IdentitiesOnly=yes", "-o", &rsa, "-F", "none"];
    let mut args: Vec<&str> = rsa.to_vec();
    let port = ours.server.port_arg();
    args.extend(["-o", "BatchMode=yes", "-p", &port, "127.0.0.1", "true"]);
    let ran = ours.lab.run(&our("lhssh"), &args);
    assert_eq!(ran.code, 255, "{}", ran.err);
    eventually("the server's line", || ours.server.log().contains("refusing RSA key: Invalid key length"));
}

/// Covers: ssh_config ConnectTimeout; ssh_config ConnectionAttempts; ssh_config ProxyCommand
#[test]
fn connect_timeout_bounds_a_silent_server() {
    let lab = Lab::new();
    // Accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let ran =
        lab.run(&our("lhssh"), &["-F", "none", "-o", "ConnectTimeout=1", "-p", &port, "127.0.0.1", "true"]);
    assert_eq!(ran.code, 255);
    has(&ran.err, "Connection timed out during banner exchange");
    // One that identifies itself and sends nothing more, as behind a path that drops large packets.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let mute_port = mute.local_addr().unwrap().port().to_string();
    let connected = std::thread::spawn(move || {
        let (mut stream, _) = mute.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        // Until the client gives up.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let ran = lab
        .run(&our("lhssh"), &["-F", "none", "-o", "ConnectTimeout=1", "-p", &mute_port, "127.0.0.1", "true"]);
    assert_eq!(ran.code, 255);
    has(&ran.err, "timed out during key exchange");
    connected.join().unwrap();
    // A server that starts after the client's first attempt. The port stays reserved until then.
    let late = lh_interop::tunnel::free_port();
    let refused = "Connection refused";
    let (log, port) = (lab.arg("attempts"), late.to_string());
    let mut args = vec!["-v", "-E", &log, "-F", "none", "-o", "ConnectionAttempts=20"];
    args.extend(["-p", &port, "127.0.0.1", "true"]);
    let ran = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let attempts = || std::fs::read_to_string(lab.path("attempts")).unwrap_or_default();
            eventually("the first attempt", || attempts().contains(refused));
            let listener = TcpListener::bind(("127.0.0.1", late)).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"not SSH at all\r\nSSH-1.5-old\r\n").unwrap();
            let _ = stream.read(&mut [0; 64]);
        });
        let ran = lab.run(&our("lhssh"), &args);
        server.join().unwrap();
        ran
    });
    assert_eq!(ran.code, 255);
    let shown = lab.read("attempts");
    // Only the log for debugging has the attempts that failed.
    assert!(shown.lines().all(|line| line.starts_with("debug1: ") || !line.contains(refused)), "{shown}");
    has(&shown, "rotocol");
}

/// Covers: ssh_config KbdInteractiveDevices; ssh_config KbdInteractiveAuthentication
#[test]
fn the_device_of_keyboard_interactive_is_named() {
    let test = "the_device_of_keyboard_interactive_is_named";
    let Some([sshd]) = peers(test, ["sshd"]) else { return };
    if !is_root() {
        return skip(test, "needs root to add a user with a password");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let config =
        "UsePAM yes\nKbdInteractiveAuthentication yes\nPasswordAuthentication no\nPubkeyAuthentication no\n";
    let server = Inetd::openssh(&lab, &sshd, config);
    lh_interop::script(&lab.path("askpass"), &format!("echo asked >>asked; echo '{}'", user.password));
    let ask = |device: &str| {
        let _ = std::fs::remove_file(lab.path("asked"));
        let options =
            lab.client_options().iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let ran = lab.sh(&format!(
            "SSH_ASKPASS={} SSH_ASKPASS_REQUIRE=force {} -o BatchMode=no -o KbdInteractiveDevices={device} {options} -p {} {}@127.0.0.1 id -un",
            lab.arg("askpass"), our("lhssh").display(), server.port, user.name
        ));
        (ran.text().trim().to_owned(), lab.path("asked").exists())
    };
    assert_eq!(ask("pam"), (user.name.clone(), true));
    // OpenSSH's server lacks this device and does not prompt.
    assert_eq!(ask("bsdauth"), (String::new(), false));
}

/// Covers: ssh_config RekeyLimit; sshd_config RekeyLimit; sshd_config ModuliFile; sshd_config TCPKeepAlive; sshd_config IPQoS
#[test]
fn the_server_s_connection_is_as_configured() {
    let lab = Lab::new();
    // The group of RFC 3526 with 2048 bits, as a moduli file has it, from the system's own file.
    let Ok(moduli) = std::fs::read_to_string("/etc/ssh/moduli") else {
        return skip("the_server_s_connection_is_as_configured", "no /etc/ssh/moduli");
    };
    let one: Vec<&str> =
        moduli.lines().filter(|line| line.split(' ').nth(4) == Some("3071")).take(1).collect();
    let Some(prime) = one.first().and_then(|line| line.split(' ').nth(6)) else {
        return skip("the_server_s_connection_is_as_configured", "no group of 3072 bits");
    };
    lab.write("moduli", &format!("{}\n", one[0]));
    let config = format!(
        "ModuliFile {}\nKexAlgorithms +diffie-hellman-group-exchange-sha256\nRekeyLimit 1M\nTCPKeepAlive no\nIPQoS cs3 cs1",
        lab.arg("moduli")
    );
    let server = Lhsshd::start(&lab, &config);
    let ours = Ours { lab, server };
    make_blob(&ours.lab.path("blob"), 8 << 20);
    let options = ["-v", "-o", "KexAlgorithms=diffie-hellman-group-exchange-sha256"];
    let err = ours.ssh(&options, "head -c 67108864 /dev/zero").ok("bulk").err;
    assert!(err.matches("SSH2_MSG_NEWKEYS sent").count() >= 4, "{err}");
    has(&err, "diffie-hellman-group-exchange-sha256");
    assert!(prime.len() > 700);
    // Without a usable group of that size another file would give another answer: an empty file falls back to
    // the built-in groups.
    let mut session = Command::new(our("lhssh"))
        .args(ours.lab.client_options())
        .args(["-p", &ours.server.port_arg(), "127.0.0.1", "echo up; sleep 60"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut up = [0; 3];
    session.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    // The kernel sends no keepalive probes on the server's side.
    let sockets = ours.lab.run(
        Path::new("ss"),
        &["-tno", "state", "established", &format!("( sport = :{} )", ours.server.port)],
    );
    let _ = session.kill();
    let _ = session.wait();
    if sockets.code == 0 {
        lacks(&sockets.text(), "keepalive");
    }
}

/// Our server, started by hand; killed when dropped.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> String {
    lh_interop::tunnel::free_port().to_string()
}

/// Covers: sshd -d; sshd -e; sshd -E; sshd -f; sshd -g; sshd -h; sshd -q; sshd -o; sshd -p; sshd_config HostKey; sshd_config LogLevel; sshd_config SyslogFacility; sshd_config LoginGraceTime
#[test]
fn the_server_s_flags() {
    let lab = Lab::new();
    let start = |port: &str, flags: &[&str]| {
        let mut command = Command::new(our("lhsshd"));
        command.args([
            "-o",
            "ListenAddress=127.0.0.1",
            "-o",
            "PidFile=none",
            "-o",
            "StrictModes=no",
            "-p",
            port,
        ]);
        command.args([
            "-o",
            &format!("AuthorizedKeysFile={}", lab.arg("authorized_keys")),
            "-o",
            "PermitRootLogin=yes",
        ]);
        command.args(flags).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(std::fs::File::create(lab.path("stderr")).unwrap());
        Started(command.spawn().unwrap())
    };
    let log_in = |port: &str, options: &[&str]| {
        lab.know(port.parse().unwrap());
        let mut args: Vec<String> = options.iter().map(|&each| each.to_owned()).collect();
        args.extend(lab.client_options());
        args.extend(["-p".to_owned(), port.to_owned(), "127.0.0.1".to_owned(), "echo in".to_owned()]);
        lab.run(&our("lhssh"), &args)
    };
    let listening = |port: &str| {
        let port = port.to_owned();
        eventually("a listener", || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok());
    };
    let key = lab.arg("host_ecdsa");
    lab.write("empty", "");
    // -d: foreground, log on standard error, one connection only.
    let port = free_port();
    let mut server = start(&port, &["-d", "-f", "none", "-h", &key]);
    eventually("it listens", || lab.read("stderr").contains("Server listening on 127.0.0.1"));
    let ran = log_in(&port, &["-v"]).ok("-d");
    assert_eq!(ran.text(), "in\n");
    has(&ran.err, "Server host key: ecdsa-sha2-nistp256");
    eventually("the end", || matches!(server.0.try_wait(), Ok(Some(_))));
    has(&lab.read("stderr"), "debug1: ");
    // -e, LogLevel and -g.
    let port = free_port();
    let server =
        start(&port, &["-D", "-e", "-f", &lab.arg("empty"), "-h", &key, "-o", "LogLevel=VERBOSE", "-g", "1"]);
    eventually("it listens", || lab.read("stderr").contains("Server listening on 127.0.0.1"));
    log_in(&port, &[]).ok("-e");
    has(&lab.read("stderr"), "Accepted key ED25519");
    lacks(&lab.read("stderr"), "debug1: ");
    let _idle = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    eventually("-g", || lab.read("stderr").contains("Timeout before authentication"));
    drop(server);
    // -E into a file; -q into none.
    for (flag, some) in [("-D", true), ("-q", false)] {
        let port = free_port();
        let log = lab.arg(&format!("log{flag}"));
        let server = start(&port, &["-D", flag, "-E", &log, "-f", "none", "-h", &key]);
        listening(&port);
        log_in(&port, &[]).ok("-E");
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        assert_eq!((text.contains("Accepted publickey"), lab.read("stderr").as_str()), (some, ""), "{text}");
        drop(server);
    }
    // The facility and the configuration file are checked.
    let check = |flags: &[&str]| {
        let mut args = vec!["-t", "-f", "none", "-h", &key];
        args.extend(flags);
        lab.run(&our("lhsshd"), &args)
    };
    check(&["-o", "SyslogFacility=LOCAL3"]).ok("facility");
    has(&check(&["-o", "SyslogFacility=POST"]).err, "unsupported log facility 'POST'");
    lab.write("wrong", "NoSuchKeyword yes\n");
    let ran = lab.run(&our("lhsshd"), &["-t", "-f", &lab.arg("wrong"), "-h", &key]);
    assert_eq!(ran.code, 255);
    has(&ran.err, "line 1: Bad configuration option: NoSuchKeyword");
    // A subsystem may be defined again, as where the packages' file includes sshd's; only -d tells of it.
    lab.write("twice", "Subsystem sftp internal-sftp\nSubsystem sftp /usr/lib/openssh/sftp-server\n");
    let again = |flags: &[&str]| {
        let file = lab.arg("twice");
        let args = [&["-t", "-f", &file, "-h", &key], flags].concat();
        lab.run(&our("lhsshd"), &args).ok("twice").err
    };
    assert_eq!(again(&[]), "");
    for flags in [&["-d"][..], &["-o", "LogLevel=DEBUG"]] {
        has(&again(flags), "twice line 2: Subsystem 'sftp' already defined.");
    }
}

/// Covers: wire ext-info; wire ext-info-in-auth@openssh.com; sshd_config PubkeyAcceptedAlgorithms; ssh_config PubkeyAcceptedAlgorithms
#[test]
fn client_learns_signature_algorithms_of_its_user() {
    let lab = Lab::new();
    lab.write("for_user", &format!("Match User {}\nPubkeyAcceptedAlgorithms rsa-*\n", me()));
    let config = format!("PubkeyAcceptedAlgorithms ssh-ed25519\nInclude {}", lab.arg("for_user"));
    let ours = Ours { server: Lhsshd::start(&lab, &config), lab };
    let key = |name: &str| format!("IdentityFile={}", ours.lab.arg(name));
    // Before login the server names Ed25519 alone: an RSA key would not even be tried.
    ours.ssh(&["-o", &key("user_rsa")], "true").ok("rsa");
    let only = ["-o", "PubkeyAcceptedAlgorithms=ssh-*", "-o", &key("user_rsa")];
    let ran = ours.ssh(&[&only[..], &["-v"]].concat(), "true");
    assert_eq!(ran.code, 255, "{}", ran.err);
    has(&ran.err, "kex_ext_info: server-sig-algs=<ssh-ed25519>");
    has(&ran.err, "kex_ext_info: server-sig-algs=<rsa-sha2-256,rsa-sha2-512>");
    has(&ran.err, "no mutual algorithm");
}

/// Covers: sshd_config PerSourceMaxStartups
#[test]
fn per_source_max_startups_limits_one_address() {
    let Some(setup) = ServerSetup::new(
        "per_source_max_startups_limits_one_address",
        "PerSourceMaxStartups 2\nMaxStartups 100",
    ) else {
        return;
    };
    let connect = || std::net::TcpStream::connect(("127.0.0.1", setup.server.port)).unwrap();
    let hello = |stream: &mut std::net::TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut start = [0; 4];
        stream.read_exact(&mut start).is_ok() && &start == b"SSH-"
    };
    let mut held = [connect(), connect()];
    assert!(held.iter_mut().all(hello));
    assert!(!hello(&mut connect()));
    drop(held);
    eventually("room again", || setup.ssh(&[], &["true"]).code == 0);
}

/// Covers: scp -4; scp -6; scp -B; scp -C; scp -c; scp -F; scp -i; scp -J; scp -o; scp -P; scp -q; scp -v; sftp -4; sftp -6; sftp -C; sftp -c; sftp -F; sftp -i; sftp -J; sftp -o; sftp -P; sftp -q; sftp -v; sftp -h
#[test]
fn copies_take_the_flags_of_connections() {
    let ours = Ours::new("");
    let port = ours.server.port_arg();
    ours.lab.write("here", "contents");
    // -i is the only key: the file names none.
    let config = format!(
        "Host there 127.0.0.1 hop\n HostName 127.0.0.1\n User {}\n IdentitiesOnly yes\n IdentityFile /nonexistent\n \
         StrictHostKeyChecking yes\n UserKnownHostsFile {}\n GlobalKnownHostsFile /dev/null\nHost hop\n Port {port}\n IdentityFile {}\n",
        me(),
        ours.lab.arg("known_hosts"),
        ours.lab.arg("user_ed25519")
    );
    ours.lab.write("config", &config);
    let (file, key) = (ours.lab.arg("config"), ours.lab.arg("user_rsa"));
    ours.lab.write("batch", &format!("get {} got\n", ours.lab.arg("here")));
    let batch = ours.lab.arg("batch");
    let source = format!("there:{}", ours.lab.arg("here"));
    let copy = |flags: &[&str]| {
        let _ = std::fs::remove_file(ours.lab.path("got"));
        let mut common = vec!["-F", &file, "-P", &port];
        common.extend(flags);
        let scp = ours.lab.run(&our("lhscp"), &[&common[..], &[&source, "got"]].concat());
        assert_eq!(ours.lab.path("got").exists(), scp.code == 0, "{flags:?}: {}", scp.err);
        let _ = std::fs::remove_file(ours.lab.path("got"));
        let sftp = ours.lab.run(&our("lhsftp"), &[&common[..], &["-b", &batch, "there"]].concat());
        assert_eq!(ours.lab.path("got").exists(), sftp.code == 0, "{flags:?}: {}", sftp.err);
        [scp, sftp]
    };
    let all = |ran: [Ran; 2], what: &str| ran.map(|one| one.ok(what));
    for ran in copy(&[]) {
        assert!(ran.code != 0 && ran.err.contains("Permission denied"), "{}", ran.err);
    }
    all(copy(&["-i", &key]), "-i");
    all(copy(&["-4", "-i", &key, "-J", "hop"]), "-J");
    for ran in all(copy(&["-v", "-C", "-c", "aes192-ctr", "-i", &key]), "-v") {
        has(&ran.err, "cipher: aes192-ctr");
        has(&ran.err, "compression: zlib@openssh.com");
    }
    for ran in all(copy(&["-q", "-i", &key]), "-q") {
        assert_eq!(ran.err, "");
    }
    for ran in copy(&["-6", "-i", &key]) {
        assert_ne!(ran.code, 0);
    }
    // A key that is not there is named, and the next one is tried.
    for ran in all(copy(&["-i", "/nonexistent/key", "-i", &key]), "-i twice") {
        has(&ran.err, "Identity file /nonexistent/key not accessible: No such file or directory.");
    }
    let identity = format!("IdentityFile={key}");
    all(copy(&["-o", &identity]), "-o");
    // -B forbids the prompts that a key with a passphrase would need.
    let ran = ours.lab.run(
        &our("lhscp"),
        &[
            "-B",
            "-F",
            &file,
            "-P",
            &port,
            "-o",
            "StrictHostKeyChecking=ask",
            "-o",
            "UserKnownHostsFile=none",
            &source,
            "got",
        ],
    );
    assert_ne!(ran.code, 0);
    has(&ran.err, "Host key verification failed.");
    let ran = ours.lab.run(&our("lhsftp"), &["-h"]);
    has(&ran.err, "usage: ");
}

/// Covers: sshd_config RekeyLimit; sshd_config Match
#[test]
fn a_rekey_limit_may_stand_in_a_match_block() {
    let lab = Lab::new();
    lab.write("rules", &format!("Match User {}\n  RekeyLimit 1M\n", lh_interop::me()));
    let server = Lhsshd::start(&lab, &format!("Include {}", lab.arg("rules")));
    let ours = Ours { lab, server };
    let err = ours.ssh(&["-v"], "head -c 8388608 /dev/zero").ok("bulk").err;
    assert!(err.matches("SSH2_MSG_NEWKEYS sent").count() >= 4, "{err}");
}
