//! Standard error of `ssh` as other programs parse it: with `-v`, and for errors in the command line.

use std::path::Path;
use std::process::Stdio;

use lh_interop::tunnel::free_port;
use lh_interop::{Lab, Lhsshd, me, our, peers};

/// Both programs print these lines in this order; parts that differ from run to run are left out.
///
/// Covers: ssh -v; ssh -T; ssh -D; ssh -L; ssh -R; ssh_config SetEnv; ssh_config LogLevel
#[test]
fn verbose_lines_that_tools_parse_match_openssh() {
    let Some([ssh]) = peers("lines_that_tools_wait_for", ["ssh"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "AcceptEnv FROM_TEST\n");
    let [local, dynamic] = [free_port(), free_port()].map(|port| port.to_string());
    lab.write("script", "printf %s \"$FROM_TEST\"; exit 3\n");
    let options: String = lab
        .client_options()
        .chunks(2)
        .filter(|pair| pair[0] == "-o" && !pair[1].contains("WarnWeakCrypto"))
        .map(|pair| format!("  {}\n", pair[1]))
        .collect();
    let port = server.port;
    lab.write(
        "config",
        &format!("Host *.example !not.example\n  HostName 127.0.0.1\n  Port {port}\n{options}"),
    );
    let talk = |program: &Path| {
        let (forward, user) = (format!("127.0.0.1:{local}:localhost:1"), me());
        let flags =
            ["-v", "-F", &lab.arg("config"), "-T", "-D", &dynamic, "-L", &forward, "-R", "0:localhost:2"];
        let to = [
            &flags[..],
            &["-l", &user, "-o", "SendEnv=NO_SUCH", "-o", "SetEnv=FROM_TEST=here", "dev.example", "bash"],
        ]
        .concat();
        let ran = lab.run_with(program, &to, Stdio::from(std::fs::File::open(lab.path("script")).unwrap()));
        assert_eq!((ran.code, ran.text().as_str()), (3, "here"), "{}", ran.err);
        ran.err.replace('\r', "")
    };
    let expected = [
        format!("debug1: Reading configuration data {}", lab.arg("config")),
        format!("debug1: {} line 1: Applying options for *.example", lab.arg("config")),
        format!("debug1: Connecting to 127.0.0.1 [127.0.0.1] port {port}."),
        "debug1: Connection established.".to_owned(),
        format!("debug1: Authenticating to 127.0.0.1:{port} as '{}'", me()),
        "debug1: Authentications that can continue: publickey,password,keyboard-interactive".to_owned(),
        "debug1: Next authentication method: publickey".to_owned(),
        format!("Authenticated to 127.0.0.1 ([127.0.0.1]:{port}) using \"publickey\"."),
        "debug1: Entering interactive session.".to_owned(),
        "debug1: Sending environment.".to_owned(),
        "setting env FROM_TEST = \"here\"".to_owned(),
        "debug1: Sending command: bash".to_owned(),
        "rtype exit-status reply 0".to_owned(),
        "\nTransferred: sent ".to_owned(),
        "\nBytes per second: sent ".to_owned(),
        "debug1: Exit status 3".to_owned(),
    ];
    let somewhere = [
        "debug1: SSH2_MSG_KEXINIT sent".to_owned(),
        "debug1: SSH2_MSG_KEXINIT received".to_owned(),
        "debug1: kex: algorithm: ".to_owned(),
        "debug1: kex: host key algorithm: ssh-ed25519".to_owned(),
        "debug1: SSH2_MSG_NEWKEYS sent".to_owned(),
        // Our client need not wait for the list of methods.
        format!("debug1: Offering public key: {} ED25519 SHA256:", lab.arg("user_ed25519")),
        format!("debug1: Local connections to LOCALHOST:{dynamic} forwarded to remote address socks:0"),
        format!("debug1: Local connections to 127.0.0.1:{local} forwarded to remote address localhost:1"),
        format!("debug1: Local forwarding listening on 127.0.0.1 port {local}."),
        "debug1: Remote connections from LOCALHOST:0 forwarded to local address localhost:2".to_owned(),
        "debug1: remote forward success for: listen 0, connect localhost:2".to_owned(),
        "\nAllocated port ".to_owned(),
    ];
    for program in [&ssh, &our("lhssh")] {
        let said = talk(program);
        let mut rest = said.as_str();
        for line in &expected {
            let Some(at) = rest.find(line) else { panic!("{}: no {line:?} in\n{said}", program.display()) };
            rest = &rest[at..];
        }
        for line in &somewhere {
            assert!(said.contains(line), "{}: no {line:?} in\n{said}", program.display());
        }
    }
}

/// Connections to a forward are logged while the session runs.
///
/// Covers: ssh -v; ssh -L
#[test]
fn connections_to_a_forward_are_logged() {
    let Some([ssh]) = peers("connections_to_a_forward", ["ssh"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    for program in [ssh, our("lhssh")] {
        let port = free_port();
        let mut words = lab.client_options();
        words.extend(["-v", "-p", &server.port_arg(), "-L"].map(str::to_owned));
        words.extend([format!("127.0.0.1:{port}:127.0.0.1:{}", server.port), format!("{}@127.0.0.1", me())]);
        // The server's own banner comes back through the forward.
        words.push("cat".to_owned());
        let line: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let ran = lab.sh(&format!(
            "(for i in $(seq 3000); do sleep .02; (exec 3<>/dev/tcp/127.0.0.1/{port} && head -c 7 <&3) 2>/dev/null && break; done) | {} {}",
            program.display(),
            line.join(" ")
        ));
        assert_eq!((ran.code, &*ran.text()), (0, "SSH-2.0"), "{}", ran.err);
        let text = format!(
            "debug1: Connection to port {port} forwarding to 127.0.0.1 port {} requested.",
            server.port
        );
        assert!(ran.err.contains(&text), "{}: {}", program.display(), ran.err);
    }
}

/// Programs probe for options with command lines that are meant to fail: Ansible and Emacs test
/// `ControlPersist` so.
///
/// Covers: ssh -o; ssh -p; ssh -E; ssh -F; ssh -e; ssh -b; ssh -B (wrong values)
#[test]
fn option_probes_get_openssh_error_messages() {
    let Some([ssh]) = peers("questions_by_command_lines", ["ssh"]) else { return };
    let lab = Lab::new();
    let nowhere = lab.arg("none/log");
    for words in [
        &["-o", "ControlPersist"][..],
        &["-o", "ControlMaster=auto", "-o", "ControlPath"],
        &["-o", "NoSuchOption=1"],
        &["-o", "NoSuchOption=1", "-G", "host"],
        &["-o", "Compression=perhaps", "host"],
        &["-p", "99999", "host"],
        &["-p", "0", "host"],
        &["-E", &nowhere, "host"],
        &["-F", &nowhere, "host"],
        &["-L", "word", "host"],
        &["-W", "word", "host"],
        &["-Q", "word"],
        &["-e", "xx", "host"],
        &["-e", "^?", "host"],
        &["-e", "", "host"],
        &["-o", "EscapeChar=^?", "host"],
        &["-b", "192.0.2.1", "127.0.0.1", "true"],
        &["-b", "::1", "127.0.0.1", "true"],
        &["-B", "none-such", "127.0.0.1", "true"],
    ] {
        let said = |program: &Path| {
            let ran = lab.run(program, words);
            (ran.code, ran.text(), ran.err.replace('\r', ""))
        };
        assert_eq!(said(&our("lhssh")), said(&ssh), "{words:?}");
    }
    for (words, status) in
        [(&["-G", "-F", "none", "host"][..], 0), (&["-V"], 0), (&[], 255), (&["-o", "User=x"], 255)]
    {
        for program in [&our("lhssh"), &ssh] {
            assert_eq!(lab.run(program, words).code, status, "{} {words:?}", program.display());
        }
    }
}

/// A flag takes back an earlier one (of an alias) and stands above `-o`; those of names and places are the
/// first.
///
/// Covers: ssh -A; ssh -a; ssh -X; ssh -x; ssh -Y; ssh -4; ssh -6; ssh -C; ssh -c; ssh -m; ssh -e; ssh -b; ssh -B; ssh -M; ssh -n; ssh -w; ssh -K; ssh -k; ssh -g; ssh -I; ssh -v; ssh -q; ssh -l; ssh -p; ssh -S (several)
#[test]
fn the_last_flag_wins_over_options() {
    let Some([ssh]) = peers("the_last_flag_wins", ["ssh"]) else { return };
    let lab = Lab::new();
    for (words, keywords) in [
        ("-A -a", &["forwardagent"][..]),
        ("-o ForwardAgent=no -a -A", &["forwardagent"]),
        ("-X -x", &["forwardx11"]),
        ("-Y -x -o ForwardX11=yes", &["forwardx11"]),
        ("-4 -6", &["addressfamily"]),
        ("-o AddressFamily=inet -6", &["addressfamily"]),
        ("-o Compression=no -C", &["compression"]),
        ("-c aes128-ctr -c aes256-ctr", &["ciphers"]),
        ("-o MACs=hmac-sha1 -m hmac-sha2-256", &["macs"]),
        ("-o EscapeChar=a -e b -e c", &["escapechar"]),
        ("-b 192.0.2.1 -b 192.0.2.2", &["bindaddress"]),
        ("-o BindInterface=a -B b", &["bindinterface"]),
        ("-o ControlMaster=no -M", &["controlmaster"]),
        ("-o StdinNull=no -n", &["stdinnull"]),
        ("-o TunnelDevice=5 -w 1 -w 2", &["tunneldevice", "tunnel"]),
        ("-K -k", &["gssapidelegatecredentials"]),
        ("-o GatewayPorts=no -g", &["gatewayports"]),
        ("-o PKCS11Provider=/a -I /b", &["pkcs11provider"]),
        ("-o LogLevel=ERROR -v", &["loglevel"]),
        ("-v -q -o LogLevel=INFO", &["loglevel"]),
        ("-S /a -o ControlPath=/b -S /c", &["controlpath"]),
        ("-o User=a -l b -l c", &["user"]),
        ("-o Port=1 -p 2 -p 3", &["port"]),
    ] {
        let values = |program: &Path| {
            let args: Vec<&str> =
                ["-G", "-F", "none"].into_iter().chain(words.split(' ')).chain(["host"]).collect();
            let dump = lab.run(program, &args).ok(words).text();
            let is_about = |line: &&str| line.split(' ').next().is_some_and(|name| keywords.contains(&name));
            dump.lines().filter(is_about).map(str::to_owned).collect::<Vec<String>>()
        };
        let expected = values(&ssh);
        assert!(!expected.is_empty(), "{words}");
        assert_eq!(values(&our("lhssh")), expected, "{words}");
    }
}
