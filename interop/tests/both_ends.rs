//! Longhaul's client with Longhaul's server, and the messages that users see on errors.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use lh_interop::{
    Lab, Lhsshd, TestUser, assert_same_file, assert_same_tree, is_root, link_directory, make_blob, make_tree,
    me, our, peers, skip,
};

struct BothEndsSetup {
    // First, so that a failing test can still print the server's log from the lab's directory.
    server: Lhsshd,
    lab: Lab,
}

impl BothEndsSetup {
    fn new(config: &str) -> Self {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, config);
        Self { server, lab }
    }

    fn ssh(&self, options: &[&str], command: &[&str]) -> Vec<String> {
        let mut args: Vec<String> = options.iter().map(|&each| each.to_owned()).collect();
        args.extend(self.lab.client_options());
        args.extend(["-p".into(), self.server.port_arg(), format!("{}@127.0.0.1", me())]);
        args.extend(command.iter().map(|&each| each.to_owned()));
        args
    }

    fn scp(&self, flags: &[&str], paths: &[&str]) -> lh_interop::Ran {
        let mut args: Vec<String> = flags.iter().map(|&each| each.to_owned()).collect();
        args.extend(self.lab.client_options());
        args.extend(["-P".into(), self.server.port_arg()]);
        args.extend(paths.iter().map(|&each| each.to_owned()));
        self.lab.run(&our("lhscp"), &args)
    }

    fn remote(&self, name: &str) -> String {
        format!("{}@127.0.0.1:{}", me(), self.lab.arg(name))
    }
}

#[test]
fn files_trees_and_pipes_arrive_whole() {
    let setup = BothEndsSetup::new("RekeyLimit 16M");
    make_blob(&setup.lab.path("blob"), 64 << 20);
    make_tree(&setup.lab.path("tree"), 2000);
    link_directory(&setup.lab.path("tree"));
    for cipher in
        ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes256-ctr"]
    {
        setup.scp(&["-c", cipher], &[&setup.lab.arg("blob"), &setup.remote("up")]).ok(cipher);
        assert_same_file(&setup.lab.path("blob"), &setup.lab.path("up"));
        std::fs::remove_file(setup.lab.path("up")).unwrap();
    }
    setup.scp(&["-r"], &[&setup.lab.arg("tree"), &setup.remote("tree.up")]).ok("tree up");
    setup.scp(&["-r"], &[&setup.remote("tree.up"), &setup.lab.arg("tree.down")]).ok("tree down");
    assert_same_tree(&setup.lab.path("tree"), &setup.lab.path("tree.down"));
    let stdin = Stdio::from(File::open(setup.lab.path("blob")).unwrap());
    let echoed =
        setup.lab.run_with(&our("lhssh"), &setup.ssh(&["-o", "RekeyLimit=1M"], &["cat"]), stdin).ok("cat");
    assert!(echoed.out == std::fs::read(setup.lab.path("blob")).unwrap(), "the echo differs");
    setup
        .scp(&[], &[&format!("{}*.dat", setup.remote("tree/many/0000")), &setup.lab.arg("home")])
        .ok("remote glob");
    assert_same_file(&setup.lab.path("tree/many/00007.dat"), &setup.lab.path("home/00007.dat"));
}

/// Covers: wire eow@openssh.com
#[test]
fn closing_the_reader_ends_the_command() {
    let setup = BothEndsSetup::new("");
    let shell = setup.lab.shell_command(&our("lhssh"), setup.server.port);
    let ran = setup.lab.sh(&format!("set +o pipefail; {shell} {}@127.0.0.1 yes | head -n 1", me()));
    assert_eq!(ran.ok("yes | head").text(), "y\n");
}

#[test]
fn a_hundred_commands_one_after_the_other() {
    let setup = BothEndsSetup::new("MaxStartups 200");
    let args = setup.ssh(&[], &["true"]);
    for _ in 0..100 {
        setup.lab.run(&our("lhssh"), &args).ok("true");
    }
}

#[test]
fn exit_codes_and_messages_that_scripts_match() {
    let setup = BothEndsSetup::new("");
    let lhssh = our("lhssh");
    let run = |options: &[&str], command: &[&str]| setup.lab.run(&lhssh, &setup.ssh(options, command));
    assert_eq!(run(&[], &["exit 42"]).code, 42);
    assert_eq!(run(&[], &["kill -KILL $$"]).code, 255);

    // A port without a listener.
    let closed = lh_interop::tunnel::free_port().to_string();
    let ran = setup.lab.run(&lhssh, &["-F", "none", "-p", &closed, "127.0.0.1", "true"]);
    assert_eq!(ran.code, 255);
    assert_eq!(ran.err.trim(), format!("ssh: connect to host 127.0.0.1 port {closed}: Connection refused"));

    let ran = setup.lab.run(&lhssh, &["-F", "none", "no-such-host.invalid", "true"]);
    assert_eq!(ran.code, 255);
    assert!(ran.err.starts_with("ssh: Could not resolve hostname no-such-host.invalid: "), "{}", ran.err);

    let ran = run(&["-o", "NoSuchOption=1"], &["true"]);
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("command-line: line 0: Bad configuration option: nosuchoption"), "{}", ran.err);

    let ran = run(&["-o", "Ciphers=3des-cbc"], &["true"]);
    assert_eq!(ran.code, 255, "{}", ran.err);

    // A key that the server does not accept.
    setup.lab.sh("ssh-keygen -q -t ed25519 -N '' -f unauthorized").ok("ssh-keygen");
    let identity = format!("IdentityFile={}", setup.lab.arg("unauthorized"));
    let ran = run(&["-o", &identity, "-o", "PreferredAuthentications=publickey"], &["true"]);
    // The lab's own key is first only if the command line gives it first.
    assert_eq!(ran.code, 0, "both identities are tried: {}", ran.err);
    let mut args = setup.ssh(&[], &["true"]);
    for arg in &mut args {
        if arg.starts_with("IdentityFile=") {
            arg.clone_from(&identity);
        }
    }
    let ran = setup.lab.run(&lhssh, &args);
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains(&format!("{}@127.0.0.1: Permission denied (publickey", me())), "{}", ran.err);
}

#[test]
fn host_keys_are_asked_for_remembered_and_refused_when_changed() {
    let setup = BothEndsSetup::new("");
    let lab = &setup.lab;
    let base = |known: &str, strict: &str| {
        vec![
            "-F".to_owned(),
            "none".into(),
            "-o".into(),
            format!("UserKnownHostsFile={}", lab.arg(known)),
            "-o".into(),
            "GlobalKnownHostsFile=/dev/null".into(),
            "-o".into(),
            format!("StrictHostKeyChecking={strict}"),
            "-i".into(),
            lab.arg("user_ed25519"),
            "-o".into(),
            "BatchMode=yes".into(),
            "-p".into(),
            setup.server.port_arg(),
            format!("{}@127.0.0.1", me()),
            "true".into(),
        ]
    };
    let lhssh = our("lhssh");
    let unknown = lab.run(&lhssh, &base("new_hosts", "yes"));
    assert_eq!(unknown.code, 255);
    assert!(unknown.err.contains("Host key verification failed."), "{}", unknown.err);
    let first = lab.run(&lhssh, &base("new_hosts", "accept-new")).ok("accept-new");
    assert!(first.err.contains("Warning: Permanently added '[127.0.0.1]:"), "{}", first.err);
    lab.run(&lhssh, &base("new_hosts", "yes")).ok("remembered");

    // Another key under the same host name.
    let wrong = lab.read("user_ed25519.pub");
    let words: Vec<&str> = wrong.split_whitespace().collect();
    lab.write("changed", &format!("[127.0.0.1]:{} {} {}\n", setup.server.port, words[0], words[1]));
    let changed = lab.run(&lhssh, &base("changed", "yes"));
    assert_eq!(changed.code, 255);
    for text in [
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
        "IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!",
        "Host key verification failed.",
        &format!("Offending ED25519 key in {}:1", lab.arg("changed")),
    ] {
        assert!(changed.err.contains(text), "no {text:?} in:\n{}", changed.err);
    }
    let host = lab.read("host_ed25519.pub");
    lab.write("revoked", &format!("@revoked * {host}[127.0.0.1]:{} {host}", setup.server.port));
    let revoked = lab.run(&lhssh, &base("revoked", "no"));
    assert_eq!(revoked.code, 255, "{}", revoked.err);
}

#[test]
fn copy_errors_name_the_file_and_fail() {
    let setup = BothEndsSetup::new("");
    std::fs::write(setup.lab.path("good"), b"good").unwrap();
    let expect = |ran: lh_interop::Ran, name: &str, text: &str| {
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.contains(name) && ran.err.contains(text), "no {name} and {text:?} in {}", ran.err);
    };
    expect(
        setup.scp(&[], &[&setup.lab.arg("missing"), &setup.remote("x")]),
        "missing",
        "No such file or directory",
    );
    expect(
        setup.scp(&[], &[&setup.remote("absent"), &setup.lab.arg("x")]),
        "absent",
        "No such file or directory",
    );
    expect(
        setup.scp(&[], &[&setup.lab.arg("good"), &setup.remote("no/such/dir/x")]),
        "no/such/dir",
        "No such file",
    );
    expect(setup.scp(&[], &[&setup.lab.arg("home"), &setup.remote("x")]), "home", "not a regular file");
    // One unreadable file does not stop the others.
    let dir = setup.lab.arg("target");
    std::fs::create_dir_all(&dir).unwrap();
    let ran = setup.scp(&[], &[&setup.lab.arg("missing"), &setup.lab.arg("good"), &setup.remote("target")]);
    assert_eq!(ran.code, 1);
    assert_same_file(&setup.lab.path("good"), Path::new(&dir).join("good").as_path());
}

#[test]
fn a_full_disk_is_an_error_on_either_side() {
    if !is_root() {
        return skip("a_full_disk", "needs root to mount a small tmpfs");
    }
    let setup = BothEndsSetup::new("");
    make_blob(&setup.lab.path("blob"), 8 << 20);
    std::fs::create_dir_all(setup.lab.path("tiny")).unwrap();
    setup.lab.sh("mount -t tmpfs -o size=2m none tiny").ok("mount");
    let up = setup.scp(&[], &[&setup.lab.arg("blob"), &setup.remote("tiny/up")]);
    setup.lab.sh("rm -f tiny/*").ok("rm");
    let down = setup.scp(&[], &[&setup.remote("blob"), &setup.lab.arg("tiny/down")]);
    setup.lab.sh("umount -l tiny").ok("umount");
    assert_eq!(up.code, 1, "{}", up.err);
    assert!(up.err.contains("tiny/up"), "{}", up.err);
    assert_eq!(down.code, 1, "{}", down.err);
    assert!(down.err.contains("tiny/down") && down.err.contains("No space left on device"), "{}", down.err);
}

#[test]
fn a_dropped_connection_is_an_error() {
    let setup = BothEndsSetup::new("");
    make_blob(&setup.lab.path("blob"), 64 << 20);
    // The remote command kills the server's session process, which cuts the connection.
    let ran = setup.lab.run(&our("lhssh"), &setup.ssh(&[], &["kill -9 $PPID; sleep 5"]));
    assert_eq!(ran.code, 255, "{}", ran.err);
}

#[test]
fn keys_interchange_with_ssh_keygen() {
    let Some([keygen]) = peers("keys_interchange", ["ssh-keygen"]) else { return };
    let lab = Lab::new();
    let ours = our("lhssh-keygen");
    for (kind, bits) in [("ed25519", None), ("ecdsa", Some("521")), ("rsa", Some("3072"))] {
        for (maker, reader, name) in [(&ours, &keygen, "a"), (&keygen, &ours, "b")] {
            for pass in ["", "a passphrase"] {
                let file = lab.arg(&format!("{name}_{kind}_{}", pass.len()));
                let mut args = vec!["-q", "-t", kind, "-N", pass, "-C", "some comment", "-f", &file];
                args.extend(bits.map(|bits| ["-b", bits]).into_iter().flatten());
                lab.run(maker, &args).ok("generate");
                let public = lab.run(reader, &["-y", "-P", pass, "-f", &file]).ok("-y").text();
                let made = std::fs::read_to_string(format!("{file}.pub")).unwrap();
                let words =
                    |text: &str| text.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>();
                assert_eq!(words(&public), words(&made), "{kind} by {}", maker.display());
                let a = lab.run(maker, &["-l", "-f", &file]).ok("-l").text();
                let b = lab.run(reader, &["-l", "-f", &file]).ok("-l").text();
                assert_eq!(a, b);
                lab.run(reader, &["-p", "-P", pass, "-N", "another one", "-f", &file]).ok("-p");
                lab.run(maker, &["-y", "-P", "another one", "-f", &file]).ok("-y after -p");
            }
        }
    }
}

#[test]
fn passwords_users_and_permissions() {
    if !is_root() {
        return skip("passwords_users_and_permissions", "needs root to add a user with a password");
    }
    let setup = BothEndsSetup::new("PasswordAuthentication yes");
    let user = TestUser::new(&setup.lab);
    let lab = &setup.lab;
    lab.write("askpass", &format!("#!/bin/sh\necho '{}'\n", user.password));
    lab.sh("chmod 700 askpass").ok("chmod");
    let login = |askpass: &str, name: &str, command: &str| {
        lab.sh(&format!(
            "SSH_ASKPASS={} SSH_ASKPASS_REQUIRE=force {} -F none -o UserKnownHostsFile={} -o StrictHostKeyChecking=yes \
             -o PreferredAuthentications=password -p {} {name}@127.0.0.1 '{command}'",
            lab.arg(askpass),
            our("lhssh").display(),
            lab.arg("known_hosts"),
            setup.server.port
        ))
    };
    let ran = login("askpass", &user.name, "id -un; id -Gn; pwd; umask; echo $HOME $USER $LOGNAME $SHELL")
        .ok("password");
    let home = user.home.display().to_string();
    let text = ran.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], user.name);
    assert_eq!(lines[1], user.name, "no group of root's stays");
    assert_eq!(lines[2], home);
    assert_eq!(lines[4], format!("{home} {0} {0} /bin/bash", user.name));
    let denied = login("askpass", &user.name, "cat /etc/shadow");
    assert_ne!(denied.code, 0, "the session runs as the user");
    lab.write("bad", "#!/bin/sh\necho wrong\n");
    lab.sh("chmod 700 bad").ok("chmod");
    for name in [user.name.as_str(), "nobody-by-this-name"] {
        let wrong = login("bad", name, "true");
        assert_eq!(wrong.code, 255);
        assert!(wrong.err.contains("Permission denied ("), "{}", wrong.err);
    }
    let log = setup.server.log();
    assert!(log.contains(&format!("Accepted password for {} from 127.0.0.1 port ", user.name)), "{log}");
    assert!(log.contains(&format!("Failed password for {} from 127.0.0.1 port ", user.name)), "{log}");
    assert!(
        log.contains("Failed password for invalid user nobody-by-this-name from 127.0.0.1 port "),
        "{log}"
    );
    assert!(!log.contains(user.password), "a password in the log");
}
