//! SFTP clients of third-party libraries against Longhaul's server; files are compared byte by byte.
//!
//! Each script below `interop/peers` uploads `blob` as `far/up` and downloads it as `down`, uploads and
//! downloads the forty files of `small`, makes the links `link` (to `far/up`) and `link2`, renames one file,
//! removes another, and prints `done`.

use std::fs;
use std::path::{Path, PathBuf};

use lh_interop::{
    Lab, Lhsshd, Ran, assert_same_file, assert_same_tree, make_blob, maven_class_path, me, newer_python,
    npm_modules, our, peer_script, peers, russh_peer, skip,
};

const PYTHON: &str = "/usr/bin/python3";

/// Expected target of `link2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecondLink {
    /// A missing file: only the client's identification shows which string is the link.
    Nowhere,
    /// `far/up`, requested in the other order: the client sends one order to every server, and callers use
    /// both.
    Up,
}

struct ForeignClientSetup {
    lab: Lab,
    server: Lhsshd,
}

impl ForeignClientSetup {
    fn new(config: &str) -> Self {
        let lab = Lab::new();
        for dir in ["far", "small"] {
            fs::create_dir_all(lab.path(dir)).unwrap();
        }
        make_blob(&lab.path("blob"), 8 << 20);
        for number in 0..40_usize {
            make_blob(&lab.path(&format!("small/file{number}")), number * number * 75);
        }
        let server = Lhsshd::start(&lab, config);
        Self { lab, server }
    }

    /// A server that allows the algorithms of old libraries.
    fn with_old_algorithms() -> Self {
        Self::new(
            "KexAlgorithms +diffie-hellman-group-exchange-sha256,diffie-hellman-group14-sha256\n\
             HostKeyAlgorithms +ssh-rsa\nPubkeyAcceptedAlgorithms +ssh-rsa",
        )
    }

    /// Returns the script's arguments: `before`, then port, user and directory, then `more`.
    fn words(&self, before: &[&str], more: &[&str]) -> Vec<String> {
        let mut words: Vec<String> = before.iter().map(|&word| word.to_owned()).collect();
        words.extend([self.server.port_arg(), me(), self.lab.arg("").trim_end_matches('/').to_owned()]);
        words.extend(more.iter().map(|&word| word.to_owned()));
        words
    }

    /// Writes the user's RSA key in the format of older libraries.
    fn write_pem(&self, keygen: &Path) {
        let (pem, public) = (self.lab.path("user_rsa.pem"), self.lab.path("user_rsa.pem.pub"));
        fs::copy(self.lab.path("user_rsa"), &pem).unwrap();
        fs::copy(self.lab.path("user_rsa.pub"), public).unwrap();
        let pem = pem.display().to_string();
        self.lab.run(keygen, &["-q", "-p", "-m", "PEM", "-N", "", "-f", &pem]).ok("ssh-keygen -m PEM");
    }

    fn check(&self, ran: Ran, client: &str, second: SecondLink) {
        let ran = ran.ok(client);
        assert!(ran.text().ends_with("done\n"), "{client}: {}{}", ran.text(), ran.err);
        let lab = &self.lab;
        assert_same_file(&lab.path("blob"), &lab.path("far/up"));
        assert_same_file(&lab.path("blob"), &lab.path("down"));
        assert_same_tree(&lab.path("small"), &lab.path("far/small"));
        let to = |name: &str| fs::read_link(lab.path("far").join(name)).unwrap_or_default();
        assert_eq!(to("link"), lab.path("far/up"), "{client}: link");
        let expected = match second {
            SecondLink::Nowhere => PathBuf::from("nowhere"),
            SecondLink::Up => lab.path("far/up"),
        };
        assert_eq!(to("link2"), expected, "{client}: link2");
        assert_eq!(lab.read("far/moved"), "moved", "{client}: rename");
        for name in ["gone", "moved.from"] {
            assert!(fs::symlink_metadata(lab.path("far").join(name)).is_err(), "{client}: {name}");
        }
    }

    fn has_module(&self, module: &str) -> bool {
        self.lab.run(Path::new(PYTHON), &["-W", "ignore", "-c", &format!("import {module}")]).code == 0
    }
}

/// The current releases, which Debian does not have yet.
#[test]
fn newer_paramiko_and_asyncssh_copy_and_link() {
    let Some(python) = newer_python("newer_python_clients") else { return };
    for (client, script) in [("paramiko", "paramiko_links.py"), ("asyncssh", "asyncssh_links.py")] {
        let setup = ForeignClientSetup::new("");
        let ran = setup.lab.run(&python, &setup.words(&["-W", "ignore", &peer_script(script)], &[]));
        setup.check(ran, client, SecondLink::Nowhere);
    }
    // Commands and pipes, with new keys in between.
    for script in ["paramiko_client.py", "asyncssh_client.py"] {
        let setup = ForeignClientSetup::new("RekeyLimit 16M");
        let words = ["-W", "ignore", &peer_script(script)];
        setup.lab.run(&python, &setup.words(&words, &[])).ok(script);
        for name in ["pipe.up", "pipe.down", "sftp.up", "sftp.down"] {
            assert_same_file(&setup.lab.path("blob"), &setup.lab.path(name));
        }
    }
}

/// Microsoft's SSH library of dev tunnels has no SFTP: commands, pipes and a forward. Its key blobs name the
/// signature algorithm. New keys in the middle of data end its connection, with OpenSSH, too.
#[test]
fn dev_tunnels_client_runs_commands_and_forwards() {
    let Some([node, keygen]) = peers("dev_tunnels", ["node", "ssh-keygen"]) else { return };
    let Some(modules) = npm_modules("dev_tunnels", "@microsoft/dev-tunnels-ssh-tcp") else { return };
    let setup = ForeignClientSetup::new("");
    setup.write_pem(&keygen);
    let words = setup.words(&[&peer_script("dev_tunnels_client.js")], &[&modules.to_string_lossy()]);
    let ran = setup.lab.run(&node, &words).ok("the client of dev tunnels");
    assert_eq!(ran.text(), "done\n");
}

fn python(test: &str, module: &str, script: &str, second: SecondLink) {
    python_with(test, module, script, second, "");
}

fn python_with(test: &str, module: &str, script: &str, second: SecondLink, config: &str) {
    let setup = ForeignClientSetup::new(config);
    if !setup.has_module(module) {
        return skip(test, &format!("Debian's package with Python's {module} is not installed"));
    }
    let ran = setup.lab.run(Path::new(PYTHON), &setup.words(&["-W", "ignore", &peer_script(script)], &[]));
    setup.check(ran, module, second);
}

#[test]
fn asyncssh_copies_and_links() {
    python("asyncssh_links", "asyncssh", "asyncssh_links.py", SecondLink::Nowhere);
}

#[test]
fn paramiko_copies_and_links() {
    python("paramiko_links", "paramiko", "paramiko_links.py", SecondLink::Nowhere);
}

#[test]
fn twisted_copies_and_links() {
    python("twisted_client", "twisted.conch", "twisted_client.py", SecondLink::Up);
}

#[test]
fn node_ssh2_copies_and_links() {
    let Some([node]) = peers("node_ssh2_client", ["node"]) else { return };
    let Some(modules) = npm_modules("node_ssh2_client", "ssh2") else { return };
    let setup = ForeignClientSetup::new("");
    let words = setup.words(&[&peer_script("node_client.js")], &[&modules.to_string_lossy()]);
    setup.check(setup.lab.run(&node, &words), "Node's ssh2", SecondLink::Nowhere);
}

#[test]
fn erlang_copies_and_links() {
    let Some([escript]) = peers("erlang_client", ["escript"]) else { return };
    let setup = ForeignClientSetup::new("");
    let words = setup.words(&[&peer_script("erlang_client.escript")], &[]);
    setup.check(setup.lab.run(&escript, &words), "Erlang", SecondLink::Up);
}

#[test]
fn phpseclib_copies_and_links() {
    let Some([php, keygen]) = peers("phpseclib", ["php", "ssh-keygen"]) else { return };
    for (major, autoload) in [("2", "phpseclib/autoload.php"), ("3", "phpseclib3/autoload.php")] {
        if !Path::new("/usr/share/php").join(autoload).exists() {
            skip("phpseclib", &format!("Debian's package of phpseclib {major} is not installed"));
            continue;
        }
        let setup = ForeignClientSetup::with_old_algorithms();
        setup.write_pem(&keygen);
        let ran = setup.lab.run(&php, &setup.words(&[&peer_script("php_client.php")], &[major]));
        setup.check(ran, "phpseclib", SecondLink::Nowhere);
    }
}

#[test]
fn net_sftp_of_ruby_copies_and_links() {
    let Some([ruby, keygen]) = peers("ruby_net_sftp", ["ruby", "ssh-keygen"]) else { return };
    let setup = ForeignClientSetup::new("");
    setup.write_pem(&keygen);
    if setup.lab.run(&ruby, &["-e", "require 'net/sftp'"]).code != 0 {
        return skip("ruby_net_sftp", "Debian's ruby-net-sftp is not installed");
    }
    let words = setup.words(&[&peer_script("ruby_client.rb")], &[]);
    setup.check(setup.lab.run(&ruby, &words), "net-sftp", SecondLink::Up);
}

fn has_perl_module(setup: &ForeignClientSetup, perl: &Path, module: &str) -> bool {
    setup.lab.run(perl, &[&format!("-M{module}"), "-e1"]).code == 0
}

/// The library starts an SSH client: OpenSSH's and ours.
#[test]
fn net_sftp_foreign_copies_and_links() {
    let Some([perl, ssh]) = peers("net_sftp_foreign", ["perl", "ssh"]) else { return };
    for client in [ssh, our("lhssh")] {
        let setup = ForeignClientSetup::new("");
        if !has_perl_module(&setup, &perl, "Net::SFTP::Foreign") {
            return skip("net_sftp_foreign", "Debian's libnet-sftp-foreign-perl is not installed");
        }
        let lab = &setup.lab;
        let command = lab.shell_command(&client, setup.server.port);
        let mut words = vec![peer_script("perl_foreign.pl"), lab.arg("").trim_end_matches('/').to_owned()];
        words.extend(command.split(' ').map(str::to_owned));
        words.extend([format!("{}@127.0.0.1", me()), "-s".to_owned(), "sftp".to_owned()]);
        setup.check(lab.run(&perl, &words), "Net::SFTP::Foreign", SecondLink::Nowhere);
    }
}

/// libssh2, including its own scp.
#[test]
fn net_ssh2_of_perl_copies_and_links() {
    let Some([perl, keygen]) = peers("net_ssh2", ["perl", "ssh-keygen"]) else { return };
    let setup = ForeignClientSetup::with_old_algorithms();
    if !has_perl_module(&setup, &perl, "Net::SSH2") {
        return skip("net_ssh2", "Debian's libnet-ssh2-perl is not installed");
    }
    setup.write_pem(&keygen);
    let ran = setup.lab.run(&perl, &setup.words(&[&peer_script("perl_ssh2.pl")], &[]));
    setup.check(ran, "Net::SSH2", SecondLink::Nowhere);
}

#[test]
fn libssh_copies_and_links() {
    libssh("libssh_client", "");
}

fn libssh(test: &str, config: &str) {
    let Some([cc]) = peers(test, ["cc"]) else { return };
    if !Path::new("/usr/include/libssh/libssh.h").exists() {
        return skip(test, "Debian's libssh-dev is not installed");
    }
    let setup = ForeignClientSetup::new(config);
    let (source, program) = (peer_script("libssh_client.c"), setup.lab.arg("libssh_client"));
    setup.lab.run(&cc, &["-O1", "-Wall", "-o", &program, &source, "-lssh"]).ok("cc");
    setup.check(setup.lab.run(Path::new(&program), &setup.words(&[], &[])), "libssh", SecondLink::Nowhere);
}

/// asyncssh and libssh look for OpenSSH's name anywhere in the server's line, and send OpenSSH's order then.
/// Covers: sshd_config VersionAddendum
#[test]
fn clients_that_find_openssh_in_the_server_s_line_link_right() {
    let external = format!("Subsystem sftp {}\nLonghaulSftp external", our("lhsftp-server").display());
    for addendum in ["OpenSSH_9.2-compatible", "OpenSSH-like"] {
        for more in ["", &external] {
            let config = format!("VersionAddendum {addendum}\n{more}");
            python_with("asyncssh_addendum", "asyncssh", "asyncssh_links.py", SecondLink::Nowhere, &config);
            libssh("libssh_addendum", &config);
        }
    }
}

#[test]
fn russh_copies_and_links() {
    let Some(russh) = russh_peer("russh_client") else { return };
    let setup = ForeignClientSetup::new("");
    setup.check(setup.lab.run(&russh, &setup.words(&["client"], &[])), "russh", SecondLink::Up);
}

#[test]
fn sshj_copies_and_links() {
    let Some([java]) = peers("sshj", ["java"]) else { return };
    let Some(class_path) = maven_class_path("sshj") else { return };
    let setup = ForeignClientSetup::new("");
    let words = setup.words(&["-cp", &class_path, &peer_script("SshjClient.java")], &[]);
    setup.check(setup.lab.run(&java, &words), "sshj", SecondLink::Up);
}

/// Maverick Synergy, including its scp.
#[test]
fn maverick_copies_and_links() {
    let Some([java]) = peers("maverick", ["java"]) else { return };
    let Some(class_path) = maven_class_path("maverick") else { return };
    let setup = ForeignClientSetup::new("");
    let words = setup.words(&["-cp", &class_path, &peer_script("MaverickClient.java")], &[]);
    setup.check(setup.lab.run(&java, &words), "Maverick Synergy", SecondLink::Nowhere);
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("far/blob"));
}

/// Each tool keeps a repository over OpenSSH's client and over ours; the restored files are equal.
#[test]
fn backups_of_restic_borg_and_unison_come_back() {
    let names = ["restic", "borg", "unison", "ssh"];
    let Some([restic, _, unison, ssh]) = peers("backups", names) else { return };
    for client in [ssh, our("lhssh")] {
        let setup = ForeignClientSetup::new("");
        let lab = &setup.lab;
        let (shell, user) = (lab.shell_command(&client, setup.server.port), me());
        let there = lab.arg("far");
        lab.write("password", "correct horse\n");

        let run = |words: &[&str]| {
            let command = format!("sftp.command={shell} {user}@127.0.0.1 -s sftp");
            let repository = format!("sftp:{user}@127.0.0.1:{there}/restic");
            let mut args = vec!["-q", "-o", &command, "-r", &repository, "-p", "password", "--no-cache"];
            args.extend(words);
            lab.run(&restic, &args).ok(&format!("restic {words:?}"))
        };
        run(&["init"]);
        run(&["backup", "small", "blob"]);
        run(&["check", "--read-data"]);
        run(&["restore", "latest", "--target", "restic.back"]);
        assert_same_tree(&lab.path("small"), &lab.path("restic.back/small"));
        assert_same_file(&lab.path("blob"), &lab.path("restic.back/blob"));

        let url = format!("ssh://{user}@127.0.0.1{there}/borg");
        lab.sh(&format!(
            "set -e; export BORG_RSH='{shell}' BORG_REPO='{url}' BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes\n\
             borg init -e none; borg create ::one small blob; borg check --verify-data\n\
             mkdir borg.back; cd borg.back; borg extract ::one\n"
        ))
        .ok("borg");
        assert_same_tree(&lab.path("small"), &lab.path("borg.back/small"));
        assert_same_file(&lab.path("blob"), &lab.path("borg.back/blob"));

        // unison starts its own server at the other end, over a pipe; it takes the command as one word, the
        // options as another.
        let (program, options) = shell.split_once(' ').unwrap_or((&shell, ""));
        let url = format!("ssh://{user}@127.0.0.1/{there}/unison");
        let small = lab.arg("small");
        let words = ["-batch", "-silent", "-auto", "-sshcmd", program, "-sshargs", options, &small, &url];
        lab.run(&unison, &words).ok("unison");
        assert_same_tree(&lab.path("small"), &lab.path("far/unison"));
        lab.write("far/unison/new", "from there");
        lab.run(&unison, &words).ok("unison back");
        assert_eq!(lab.read("small/new"), "from there");
    }
}

#[test]
fn jsch_copies_and_links() {
    let Some([java, keygen]) = peers("jsch", ["java", "ssh-keygen"]) else { return };
    let jar = "/usr/share/java/jsch.jar";
    if !Path::new(jar).exists() {
        return skip("jsch", "Debian's libjsch-java is not installed");
    }
    let setup = ForeignClientSetup::with_old_algorithms();
    setup.write_pem(&keygen);
    let words = setup.words(&["-cp", jar, &peer_script("JschClient.java")], &[]);
    setup.check(setup.lab.run(&java, &words), "JSch", SecondLink::Nowhere);
}

/// The JSch that is maintained, without old algorithms.
#[test]
fn newer_jsch_copies_and_links() {
    let Some([java, keygen]) = peers("newer_jsch", ["java", "ssh-keygen"]) else { return };
    let Some(class_path) = maven_class_path("newer_jsch") else { return };
    let setup = ForeignClientSetup::new("RekeyLimit 1M");
    setup.write_pem(&keygen);
    let words = setup.words(&["-cp", &class_path, &peer_script("JschClient.java")], &[]);
    setup.check(setup.lab.run(&java, &words), "JSch", SecondLink::Nowhere);
}

/// Clients may close a channel behind their last byte, as libssh2's scp does in PHP: the program still gets
/// everything, also what it had not read yet.
#[test]
fn data_before_close_reaches_the_program() {
    let setup = ForeignClientSetup::new("");
    if !setup.has_module("paramiko") {
        return skip("data_before_close", "Debian's python3-paramiko is not installed");
    }
    let script = "import os, paramiko, sys, time\n\
                  port, user, lab = sys.argv[1:]\n\
                  client = paramiko.SSHClient()\n\
                  client.set_missing_host_key_policy(paramiko.AutoAddPolicy())\n\
                  client.connect('127.0.0.1', int(port), user, key_filename=lab + '/user_rsa', \
                  allow_agent=False, look_for_keys=False)\n\
                  channel = client.get_transport().open_session()\n\
                  channel.exec_command(f'cd {lab}; sleep 1; cat >part; mv part whole')\n\
                  channel.sendall(open(lab + '/start', 'rb').read())\n\
                  channel.close()\n\
                  until = time.monotonic() + 60\n\
                  while not os.path.exists(lab + '/whole') and time.monotonic() < until:\n\
                  \x20   time.sleep(.05)\n";
    // More than a socket holds, less than the window.
    make_blob(&setup.lab.path("start"), 1_500_000);
    let words = setup.words(&["-W", "ignore", "-c", script], &[]);
    setup.lab.run(Path::new(PYTHON), &words).ok("paramiko");
    assert_same_file(&setup.lab.path("start"), &setup.lab.path("whole"));
}
