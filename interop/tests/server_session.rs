//! Sessions of `lhsshd` after the login: environment, start-up files, login records, rules of `Match` blocks,
//! and reloading the configuration.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use lh_interop::{Lab, Lhsshd, ServerSetup, TestUser, eventually, is_root, me, our, peers, skip};

/// Covers: sshd_config PermitUserEnvironment; sshd_config SetEnv; sshd_config AcceptEnv; authorized_keys environment
#[test]
fn session_variables_have_an_order_of_precedence() {
    if !is_root() {
        return skip("variables", "needs root to add a user");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let key = lab.read("user_ed25519.pub");
    let environment = user.home.join(".ssh/environment");
    fs::write(
        &environment,
        "# comment\nFROM_FILE=file\nBOTH=file\nHIDDEN=file\nSERVER=file\nSSH_CLIENT=forged\n",
    )
    .unwrap();
    let keys =
        format!("environment=\"FROM_KEY=key\",environment=\"BOTH=key\",environment=\"HIDDEN=key\" {key}");
    fs::write(user.home.join(".ssh/authorized_keys"), keys).unwrap();
    let config = |permit: &str| {
        format!(
            "AuthorizedKeysFile .ssh/authorized_keys\nPermitUserEnvironment {permit}\nSetEnv SERVER=server OTHER=\"two words\"\n\
             AcceptEnv LC_* SERVER BOTH"
        )
    };
    let show =
        "echo $FROM_KEY,$FROM_FILE,$BOTH,$HIDDEN,$SERVER,$OTHER,$LC_X,$NOT_LC; set -- $SSH_CLIENT; echo $1";
    let options = ["-o", "SetEnv LC_X=client NOT_LC=client SERVER=client BOTH=client"];
    let mut lab = Some(lab);
    for (permit, expected) in [
        ("yes", "key,file,file,file,server,two words,client,\n127.0.0.1\n"),
        ("no", ",,client,,server,two words,client,\n127.0.0.1\n"),
        ("FROM_*,BOTH", "key,file,file,,server,two words,client,\n127.0.0.1\n"),
    ] {
        let Some(setup) = ServerSetup::with_lab("variables", lab.take().unwrap(), &config(permit)) else {
            return;
        };
        assert_eq!(setup.ssh_as(&user.name, &options, &[show]).ok(permit).text(), expected, "{permit}");
        lab = Some(setup.lab);
    }
}

/// Covers: sshd_config PermitUserRC; authorized_keys no-user-rc; wire ~/.ssh/rc
#[test]
fn user_rc_file_runs_before_the_session() {
    if !is_root() {
        return skip("user_rc", "needs root to add a user");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    fs::write(
        user.home.join(".ssh/rc"),
        "echo rc $USER $PWD; read x; echo \"got $x\" >&2; echo $$ >rc.ran\n",
    )
    .unwrap();
    lab.write("rc.conf", "");
    let config = "AuthorizedKeysFile .ssh/authorized_keys\nInclude {lab}/rc.conf";
    let Some(setup) = ServerSetup::with_lab("user_rc", lab, config) else { return };
    let (name, home) = (&user.name, user.home.display());
    let ran = setup.ssh_as(name, &[], &["echo command; cat"]).ok("rc");
    assert_eq!(ran.text(), format!("rc {name} {home}\ncommand\n"));
    assert!(ran.err.contains("got \n"), "{}", ran.err);
    let ran = setup.ssh_as(name, &["-tt"], &["echo command"]).ok("rc at a terminal");
    assert!(ran.text().starts_with(&format!("rc {name} {home}\r\ngot \r\ncommand")), "{}", ran.text());
    // A subsystem would take its output for protocol data.
    let file = user.home.join("rc.ran");
    fs::remove_file(&file).unwrap();
    setup.ssh_as(name, &["-s"], &["sftp"]);
    assert!(!file.exists());
    let key = setup.lab.read("user_ed25519.pub");
    fs::write(user.home.join(".ssh/authorized_keys"), format!("no-user-rc {key}")).unwrap();
    assert_eq!(setup.ssh_as(name, &[], &["echo command"]).ok("no-user-rc").text(), "command\n");
    fs::write(user.home.join(".ssh/authorized_keys"), key).unwrap();
    for line in ["PermitUserRC no", "ForceCommand echo command"] {
        setup.lab.write("rc.conf", line);
        let server = Lhsshd::start(&setup.lab, &config.replace("{lab}", &setup.lab.dir().to_string_lossy()));
        let mut args = setup.lab.client_options();
        args.extend(["-p".into(), server.port_arg(), format!("{name}@127.0.0.1"), "echo command".into()]);
        assert_eq!(setup.lab.run(&setup.ssh, &args).ok(line).text(), "command\n", "{line}");
    }
}

/// Covers: sshd_config PrintLastLog; sshd_config PrintMotd; sshd utmp, wtmp, lastlog
#[test]
fn logins_at_terminals_are_recorded() {
    if !is_root() {
        return skip("records", "needs root to add a user");
    }
    let lastlog = Path::new("/var/log/lastlog");
    let wtmp = Path::new("/var/log/wtmp");
    for file in [lastlog, wtmp] {
        // Without these files nothing is recorded.
        let _ = fs::OpenOptions::new().create(true).append(true).open(file);
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let Some(setup) = ServerSetup::with_lab("records", lab, "AuthorizedKeysFile .ssh/authorized_keys") else {
        return;
    };
    let login = || {
        let mut client = Command::new(&setup.ssh)
            .args(setup.args(&["-tt"], &user.name, &[]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        client.stdin.take().unwrap().write_all(b"who -m; exit\n").unwrap();
        let mut text = String::new();
        client.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        client.wait().unwrap();
        text
    };
    let count = || {
        fs::read(wtmp).unwrap().windows(user.name.len()).filter(|part| *part == user.name.as_bytes()).count()
    };
    let first = login();
    assert!(!first.contains("Last login:"), "{first}");
    assert_eq!(count(), 1);
    let second = login();
    assert!(second.contains("Last login: ") && second.contains(" from 127.0.0.1\r\n"), "{second}");
    assert_eq!(count(), 2);
    fs::write(user.home.join(".hushlogin"), "").unwrap();
    assert!(!login().contains("Last login:"));
    fs::remove_file(user.home.join(".hushlogin")).unwrap();
    // Commands are not recorded as logins, and print no last login.
    let ran = setup.ssh_as(&user.name, &[], &["echo in"]).ok("command");
    assert_eq!((ran.text().as_str(), count()), ("in\n", 3));
    // A killed client leaves no record of a user still logged in.
    let who = setup.lab.sh("who").text();
    assert!(!who.contains(&user.name), "{who}");
}

/// Covers: sshd_config Match (user, group, host, address, localaddress, localport, version, invalid-user, all)
#[test]
fn match_blocks_select_connections() {
    let lab = Lab::new();
    let mut groups = lab.sh("id -gn").text();
    groups.truncate(groups.trim_end().len());
    let criteria = [
        format!("User {}", me()),
        format!("User *,!{}", me()),
        format!("Group {groups}"),
        "Group no-such-group".to_owned(),
        "Address 127.0.0.0/8".to_owned(),
        "Address 10.0.0.0/8".to_owned(),
        "LocalAddress 127.0.0.1".to_owned(),
        "LocalAddress 127.0.0.2".to_owned(),
        "Host 127.0.0.1".to_owned(),
        "Host *.example.org".to_owned(),
        "LocalPort 1".to_owned(),
        "Version Longhaul_*".to_owned(),
        "Version OpenSSH_*".to_owned(),
        "invalid-user".to_owned(),
        "all".to_owned(),
    ];
    let mut text = String::new();
    for (number, criterion) in criteria.iter().enumerate() {
        text.push_str(&format!("Match {criterion}\n  SetEnv HIT=by-{number}\n"));
        lab.write(&format!("match{number}.conf"), &text);
        text.clear();
    }
    for (number, criterion) in criteria.iter().enumerate() {
        let hits = [0, 2, 4, 6, 8, 11, 14].contains(&number);
        let server = Lhsshd::start(&lab, &format!("Include {}", lab.arg(&format!("match{number}.conf"))));
        let Some([ssh]) = peers("match", ["ssh"]) else { return };
        let mut args = lab.client_options();
        args.extend(["-p".into(), server.port_arg(), format!("{}@127.0.0.1", me()), "echo $HIT".into()]);
        let expected = if hits { format!("by-{number}\n") } else { "\n".to_owned() };
        assert_eq!(lab.run(&ssh, &args).ok(criterion).text(), expected, "{criterion}");
    }
}

/// Covers: sshd_config UseDNS; sshd_config Match (host names)
#[test]
fn client_host_names_follow_use_dns() {
    let Some(setup) =
        ServerSetup::new("names", "UseDNS yes\nInclude {lab}/match.conf\nAllowUsers *@localhost *@ip6-*")
    else {
        return;
    };
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    if !hosts.lines().any(|line| line.starts_with("127.0.0.1") && line.contains("localhost")) {
        return skip("names", "/etc/hosts does not name 127.0.0.1");
    }
    setup.lab.write("match.conf", "");
    assert_eq!(setup.ssh(&[], &["echo in"]).ok("by name").text(), "in\n");
    let key = setup.lab.read("user_ed25519.pub");
    setup.lab.write("authorized_keys", &format!("from=\"localhost\" {key}"));
    setup.ssh(&[], &["true"]).ok("from= by name");
    setup.lab.write("authorized_keys", &format!("from=\"*.example.org\" {key}"));
    setup.refused(
        "correct key but not from a permitted host (host=localhost, ip=127.0.0.1, required=*.example.org)",
    );
}

/// Covers: sshd_config VersionAddendum
#[test]
fn server_version_has_an_addendum() {
    let Some(setup) = ServerSetup::new("addendum", "VersionAddendum Site 7 of our company") else { return };
    let mut line = String::new();
    let mut socket =
        std::io::BufReader::new(std::net::TcpStream::connect(("127.0.0.1", setup.server.port)).unwrap());
    std::io::BufRead::read_line(&mut socket, &mut line).unwrap();
    assert!(line.starts_with("SSH-2.0-Longhaul_") && line.ends_with(" Site 7 of our company\r\n"), "{line}");
    assert_eq!(setup.ssh(&[], &["echo in"]).ok("login").text(), "in\n");
}

/// Covers: sshd SIGHUP
#[test]
fn a_hangup_reads_the_configuration_again() {
    let lab = Lab::new();
    lab.write("more.conf", "SetEnv WHICH=old\n");
    let Some(setup) = ServerSetup::with_lab("hangup", lab, "Include {lab}/more.conf") else { return };
    let mut client = Command::new(&setup.ssh)
        .args(setup.args(&[], &me(), &["echo $WHICH; read x; echo $x"]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = client.stdout.take().unwrap();
    let mut first = [0; 4];
    out.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"old\n");
    // After a mistake in the file, the server logs it and keeps its configuration.
    setup.lab.write("more.conf", "NoSuchKeyword yes\n");
    let pid = setup.server.pid().to_string();
    setup.lab.run(Path::new("kill"), &["-HUP", &pid]).ok("kill");
    setup.logged("Bad configuration option: NoSuchKeyword");
    setup.logged("continuing with the old configuration");
    assert_eq!(setup.ssh(&[], &["echo $WHICH"]).ok("after a mistake").text(), "old\n");
    // After the correction the same process restarts with the new configuration.
    setup.lab.write("more.conf", "SetEnv WHICH=new\n");
    setup.lab.run(Path::new("kill"), &["-HUP", &pid]).ok("kill");
    setup.logged("Received SIGHUP; restarting.");
    let listening = "Server listening on 127.0.0.1 port ";
    eventually("it listens again", || setup.server.log().matches(listening).count() == 2);
    // No port is configured, so the server listens on another one.
    let log = setup.server.log();
    let port = log.rsplit(listening).next().unwrap().split('.').next().unwrap();
    setup.lab.know(port.parse().unwrap());
    assert_eq!(setup.ssh(&["-p", port], &["echo $WHICH"]).ok("after the restart").text(), "new\n");
    // The existing session continues.
    client.stdin.take().unwrap().write_all(b"still here\n").unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "still here\n");
    client.wait().unwrap();
}

/// Covers: sshd -t; sshd -T; sshd -C; sshd -G
#[test]
fn the_configuration_in_force() {
    let lab = Lab::new();
    lab.write(
        "conf",
        "Port 2022\nPermitTTY yes\nMatch User ada Address 10.0.0.0/8\n  PermitTTY no\nMatch invalid-user\n  MaxAuthTries 2\n",
    );
    let run = |args: &[&str]| {
        let host = lab.arg("host_ed25519");
        let conf = lab.arg("conf");
        let mut all = vec!["-f", &conf, "-h", &host];
        all.extend(args);
        lab.run(&our("lhsshd"), &all).ok("lhsshd").text().to_ascii_lowercase()
    };
    assert_eq!(run(&["-t"]), "");
    let plain = run(&["-T"]);
    for line in [
        "port 2022\n",
        "permittty yes\n",
        "maxauthtries 6\n",
        "usepam no\n",
        "persourcepenalties crash:90 authfail:5 invaliduser:5 ",
    ] {
        assert!(plain.contains(line), "{line} in {plain}");
    }
    assert!(
        run(&["-T", "-C", "user=ada,host=h,addr=10.1.2.3,laddr=10.0.0.1,lport=22"])
            .contains("permittty no\n")
    );
    assert!(run(&["-T", "-C", "user=ada", "-C", "addr=11.1.2.3"]).contains("permittty yes\n"));
    assert!(run(&["-T", "-C", "user=x,addr=10.1.2.3,invalid-user"]).contains("maxauthtries 2\n"));
    assert_eq!(run(&["-G"]), plain);
}

/// Covers: sshd_config ChannelTimeout
#[test]
fn idle_channels_of_the_server_are_closed() {
    let Some(setup) = ServerSetup::new("idle", "ChannelTimeout session:command=4s session:subsystem:*=100")
    else {
        return;
    };
    // A session with occasional traffic stays.
    let ran = setup.ssh(&[], &["for i in 1 2 3 4 5 6; do echo $i; sleep 0.8; done"]).ok("not idle");
    assert_eq!(ran.text(), "1\n2\n3\n4\n5\n6\n");
    let ran = setup.ssh(&[], &["echo in; sleep 1000"]);
    assert_eq!((ran.code, ran.text().as_str()), (255, "in\n"), "{}", ran.err);
    setup.logged("closing after 4 seconds of inactivity");
}

/// Covers: sshd_config UnusedConnectionTimeout
#[test]
fn connections_without_a_channel_are_closed() {
    let Some(setup) = ServerSetup::new("unused", "UnusedConnectionTimeout 1s") else { return };
    let ran = setup.ssh(&["-N"], &[]);
    assert_eq!(ran.code, 255, "{}", ran.err);
    setup.logged(&format!("terminating inactive connection from user {} 127.0.0.1 port ", me()));
}

/// Covers: sshd_config LogVerbose; sshd_config FingerprintHash
#[test]
fn log_verbose_and_fingerprint_hash_take_effect() {
    let Some(setup) =
        ServerSetup::new("log", "LogLevel ERROR\nLogVerbose keys.rs:*,bind.rs:*\nFingerprintHash md5")
    else {
        return;
    };
    setup.ssh(&[], &["true"]).ok("login");
    let log = setup.server.log();
    assert!(!log.contains("Accepted publickey"), "{log}");
    assert!(
        log.contains("keys.rs:lh_server::monitor::keys():") && log.contains("Accepted key ED25519 MD5:"),
        "{log}"
    );
}

/// Covers: sshd -i (over pipes)
#[test]
fn over_pipes_the_client_has_no_address_as_with_sshd() {
    let Some([ssh, sshd]) = peers("over_pipes", ["ssh", "sshd"]) else { return };
    let lab = Lab::new();
    lab.know(22);
    let known = lab.read("known_hosts").replace("[127.0.0.1]:22", "127.0.0.1");
    lab.write("known_hosts", &known);
    let key = lab.read("user_ed25519.pub");
    // Patterns see the word, and no network has it.
    let keys = format!("from=\"0.0.0.0/0\" {key}from=\"UNKNOWN\" {key}");
    lab.write("keys", &keys);
    let log = |server: &Path, name: &str| {
        let proxy = format!(
            "ProxyCommand=cat | {} -i -E {} -f none -h {} -o LogLevel=VERBOSE -o AuthorizedKeysFile={} \
             -o StrictModes=no -o PermitRootLogin=yes -o UsePAM=no | cat",
            server.display(),
            lab.arg(name),
            lab.arg("host_ed25519"),
            lab.arg("keys")
        );
        let mut args = lab.client_options();
        args.extend(["-o".into(), proxy, format!("{}@127.0.0.1", me()), "echo $SSH_CONNECTION".into()]);
        assert_eq!(lab.run(&ssh, &args).ok("ssh").text(), "UNKNOWN 65535 UNKNOWN 65535\n");
        let beginnings = ["Connection from", "Accepted publickey", "Starting session", "Disconnected from"];
        let text = lab.read(name);
        let lines = text.lines().filter(|line| beginnings.iter().any(|words| line.starts_with(words)));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let ours = log(&our("lhsshd"), "ours.log");
    assert_eq!(ours, log(&sshd, "theirs.log"));
    assert_eq!(ours.iter().filter(|line| line.contains("UNKNOWN port 65535")).count(), 4, "{ours:?}");
}
