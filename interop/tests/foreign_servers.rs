//! `lhscp` and `lhsftp` with the SFTP servers of libraries and appliances; files are compared byte by byte.

use std::fs;
use std::path::Path;

use lh_interop::foreign_setup::{ForeignServerSetup, Targets};
use lh_interop::{
    ForeignServer, Inetd, Lab, Lhsshd, TestUser, assert_same_file, assert_same_tree, build_from_debian_s_go,
    is_root, make_blob, maven_class_path, me, newer_python, npm_modules, our, peer_script, peers, russh_peer,
    safe_directory, skip,
};

const PYTHON: &str = "/usr/bin/python3";

fn has_module(lab: &Lab, module: &str) -> bool {
    lab.run(Path::new(PYTHON), &["-W", "ignore", "-c", &format!("import {module}")]).code == 0
}

#[test]
fn erlang_server_copies_and_links() {
    let Some([escript]) = peers("erlang_server", ["escript"]) else { return };
    let lab = Lab::new();
    let server = ForeignServer::start(&lab, &escript, &[peer_script("erlang_server.escript"), lab.arg("")]);
    ForeignServerSetup::new(&lab, server.port).exercise(Targets::MadeAbsolute);
}

#[test]
fn node_ssh2_server_copies_and_links() {
    let Some([node]) = peers("node_ssh2_server", ["node"]) else { return };
    let Some(modules) = npm_modules("node_ssh2_server", "ssh2") else { return };
    let lab = Lab::new();
    let words = [peer_script("node_server.js"), lab.arg(""), modules.to_string_lossy().into_owned()];
    let server = ForeignServer::start(&lab, &node, &words);
    ForeignServerSetup::new(&lab, server.port).exercise(Targets::Kept);
}

/// The server carries out requests in parallel: data must be written before their file is closed.
#[test]
fn node_server_without_order_gets_whole_files() {
    let Some([node]) = peers("node_without_order", ["node"]) else { return };
    let Some(modules) = npm_modules("node_without_order", "ssh2") else { return };
    let lab = Lab::new();
    let modules = modules.to_string_lossy().into_owned();
    let words = [peer_script("node_server.js"), lab.arg(""), modules, "unordered".to_owned()];
    let server = ForeignServer::start(&lab, &node, &words);
    fs::create_dir(lab.path("tree")).unwrap();
    for n in 0..40 {
        make_blob(&lab.path("tree").join(n.to_string()), n * 997);
    }
    let mut args = lab.client_options();
    let target = format!("127.0.0.1:{}", lab.arg("there"));
    args.extend(["-P".to_owned(), server.port.to_string(), "-r".to_owned(), lab.arg("tree"), target]);
    lab.run(&our("lhscp"), &args).ok("lhscp");
    assert_same_tree(&lab.path("tree"), &lab.path("there"));
}

/// The server rejects FSETSTAT and changes attributes by path alone.
#[test]
fn twisted_server_copies_and_links() {
    let lab = Lab::new();
    if !has_module(&lab, "twisted.conch") {
        return skip("twisted_server", "Debian's python3-twisted is not installed");
    }
    let words = ["-W", "ignore", &peer_script("twisted_server.py"), &lab.arg("")];
    let server = ForeignServer::start(&lab, Path::new(PYTHON), &words);
    ForeignServerSetup::new(&lab, server.port).exercise(Targets::MadeAbsolute);
}

#[test]
fn asyncssh_server_copies_and_links() {
    let lab = Lab::new();
    if !has_module(&lab, "asyncssh") {
        return skip("asyncssh_server", "Debian's python3-asyncssh is not installed");
    }
    let words = ["-W", "ignore", &peer_script("asyncssh_server.py"), &lab.arg("")];
    let server = ForeignServer::start(&lab, Path::new(PYTHON), &words);
    ForeignServerSetup::new(&lab, server.port).exercise(Targets::Kept);
    // It looks for OpenSSH's name anywhere in the client's line, and reads OpenSSH's order then.
    let addendum = ForeignServerSetup::new(&lab, server.port)
        .with_options(&["-oVersionAddendum=OpenSSH_9.2-compatible"]);
    fs::remove_dir_all(lab.path("far")).unwrap();
    fs::create_dir(lab.path("far")).unwrap();
    addendum.make_links(Targets::Kept);
    addendum.copy_links(Targets::Kept);
}

/// The current releases, which Debian does not have yet.
#[test]
fn newer_asyncssh_and_paramiko_servers_copy_and_link() {
    let Some(python) = newer_python("newer_python_servers") else { return };
    for script in ["asyncssh_server.py", "paramiko_server.py"] {
        let lab = Lab::new();
        let words = ["-W", "ignore", &peer_script(script), &lab.arg("")];
        let server = ForeignServer::start(&lab, &python, &words);
        let setup = ForeignServerSetup::new(&lab, server.port);
        setup.exercise(Targets::Kept);
        setup.resume();
    }
}

#[test]
fn gliderlabs_server_copies_and_links() {
    let Some([go]) = peers("gliderlabs_server", ["go"]) else { return };
    if !Path::new("/usr/share/gocode/src/github.com/gliderlabs/ssh").is_dir() {
        return skip("gliderlabs_server", "Debian's golang-github-gliderlabs-ssh-dev is not installed");
    }
    let lab = Lab::new();
    let program = lab.path("goserver");
    build_from_debian_s_go(&go, &peer_script("go_server/main.go"), &program);
    let server = ForeignServer::start(&lab, &program, &[lab.arg("")]);
    ForeignServerSetup::new(&lab, server.port).exercise(Targets::Kept);
}

/// The server answers out of order, with threads. It knows versions 3 to 6 of the protocol.
#[test]
fn gesftpserver_copies_and_links() {
    let Some([sshd]) = peers("gesftpserver", ["sshd"]) else { return };
    let program = "/usr/libexec/gesftpserver";
    if !Path::new(program).exists() {
        return skip("gesftpserver", "Debian's gesftpserver is not installed");
    }
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, &format!("ForceCommand {program}"));
    let setup = ForeignServerSetup::new(&lab, server.port);
    setup.exercise(Targets::Kept);
    setup.resume();
}

/// With the defaults, and with bulk: where about 100 messages wait for it (`channel_buffer_size`), russh's
/// server stops for good.
#[test]
fn russh_server_copies_and_links() {
    let Some(russh) = russh_peer("russh_server") else { return };
    let lab = Lab::new();
    let server = ForeignServer::start(&lab, &russh, &["server".to_owned(), lab.arg("")]);
    ForeignServerSetup::new(&lab, server.port).exercise(Targets::Kept);
    make_blob(&lab.path("bulk"), 8 << 20);
    let options = lab.client_options();
    for round in 0..4 {
        let (up, down) = (lab.arg(&format!("up{round}")), lab.arg(&format!("down{round}")));
        let at = |path: &str| format!("scp://{}@127.0.0.1:{}/{path}", me(), server.port);
        for words in [[lab.arg("bulk"), at(&up)], [at(&up), down]] {
            lab.run(&our("lhscp"), &[&options[..], &words].concat()).ok("bulk");
        }
        for name in ["up", "down"] {
            assert_same_file(&lab.path("bulk"), &lab.path(&format!("{name}{round}")));
        }
    }
    // So do comparisons of several files at a time.
    fs::create_dir(lab.path("tree")).unwrap();
    (0..6).for_each(|n| make_blob(&lab.path(&format!("tree/{n}")), 6 << 20));
    let at = format!("scp://{}@127.0.0.1:{}/{}", me(), server.port, lab.arg("mirror"));
    for _ in 0..2 {
        let words = ["--sync", "--checksum", &lab.arg("tree/"), &at].map(str::to_owned);
        lab.run(&our("lhscp"), &[&options[..], &words].concat()).ok("compared");
    }
}

#[test]
fn apache_mina_server_copies_and_links() {
    let Some([java]) = peers("apache_mina_server", ["java"]) else { return };
    let Some(class_path) = maven_class_path("apache_mina_server") else { return };
    let lab = Lab::new();
    let words = ["-cp".to_owned(), class_path, peer_script("MinaServer.java"), lab.arg("")];
    let server = ForeignServer::start(&lab, &java, &words);
    ForeignServerSetup::new(&lab, server.port).exercise(Targets::Kept);
}

/// Maverick Synergy permits fifty files to be open at once. The targets of links that it makes lead to other
/// places than was asked for.
#[test]
fn maverick_server_copies() {
    let Some([java]) = peers("maverick_server", ["java"]) else { return };
    let Some(class_path) = maven_class_path("maverick_server") else { return };
    let lab = Lab::new();
    let words = ["-cp".to_owned(), class_path, peer_script("MaverickServer.java"), lab.arg(""), me()];
    let server = ForeignServer::start(&lab, &java, &words);
    let setup = ForeignServerSetup::new(&lab, server.port);
    setup.exercise_data();
    fs::create_dir(lab.path("many")).unwrap();
    for n in 0..300 {
        make_blob(&lab.path(&format!("many/{n}")), 1000 + n);
    }
    setup.scp(&["-r"], &lab.arg("many"), &setup.far("many")).ok("300 files up");
    setup.check(&[], "many", "many");
}

#[test]
fn proftpd_server_copies_and_links() {
    let Some([proftpd, keygen]) = peers("proftpd_server", ["proftpd", "ssh-keygen"]) else { return };
    if !Path::new("/usr/lib/proftpd/mod_sftp.so").exists() {
        return skip("proftpd_server", "Debian's proftpd-mod-crypto is not installed");
    }
    if !is_root() {
        return skip("proftpd_server", "needs root: proftpd becomes the user");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let public: String = ["user_ed25519.pub", "user_rsa.pub", "user_ecdsa.pub"]
        .map(|name| {
            lab.run(&keygen, &["-e", "-m", "RFC4716", "-f", &lab.arg(name)]).ok("ssh-keygen -e").text()
        })
        .concat();
    lab.write("proftpd.keys", &public);
    lab.sh("chmod 644 proftpd.keys").ok("chmod");
    let text = format!(
        "LoadModule mod_sftp.c\nServerName lab\nServerType inetd\nDefaultServer on\nUseReverseDNS off\nUseIPv6 off\n\
         User root\nGroup root\nRequireValidShell off\nAuthPAM off\nScoreboardFile {lab}/scoreboard\n\
         WtmpLog off\nTransferLog none\nSystemLog {lab}/proftpd.log\nSFTPLog {lab}/mod_sftp.log\nAllowOverwrite on\n\
         AllowStoreRestart on\nSFTPEngine on\nSFTPAuthorizedUserKeys file:{lab}/proftpd.keys\nSFTPAuthMethods publickey\n\
         SFTPHostKey {lab}/host_ecdsa\nSFTPHostKey {lab}/host_ed25519\nSFTPHostKey {lab}/host_rsa\n",
        lab = lab.dir().display()
    );
    lab.write("proftpd.conf", &text);
    let server = Inetd::start(&lab, &proftpd, &["-n".into(), "-c".into(), lab.arg("proftpd.conf")]);
    ForeignServerSetup::of_user(&lab, server.port, user).exercise(Targets::Kept);
}

#[test]
fn tinysshd_server_copies_and_links() {
    let names = ["tinysshd", "tinysshd-makekey"];
    let Some([tinysshd, makekey]) = peers("tinysshd_server", names) else { return };
    if !is_root() {
        return skip(
            "tinysshd_server",
            "needs root: tinysshd reads authorized_keys from the home of the user",
        );
    }
    let sftp = "/usr/lib/openssh/sftp-server";
    if !Path::new(sftp).exists() {
        return skip("tinysshd_server", "Debian's openssh-sftp-server is not installed");
    }
    let lab = Lab::new();
    let mut user = TestUser::new(&lab);
    // Only root may be able to write to directories above the home.
    let safe = safe_directory();
    user.move_home(&lab, safe.path());
    lab.run(&makekey, &[lab.arg("tiny")]).ok("tinysshd-makekey");
    // Debian's tinysshd predates strict key exchange; it has one host key, which it makes itself.
    let args = ["-x".to_owned(), format!("sftp={sftp}"), lab.arg("tiny")];
    let server = Inetd::start(&lab, &tinysshd, &args);
    let options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"];
    let setup = ForeignServerSetup::of_user(&lab, server.port, user).with_options(&options);
    setup.exercise(Targets::Kept);
}

/// The server handles one message of each CHANNEL_DATA: a request that shares a packet is not answered.
/// Covers: sftp reput; sftp reget
#[test]
fn libssh_server_copies_and_links() {
    let Some([cc]) = peers("libssh_server", ["cc"]) else { return };
    if !Path::new("/usr/include/libssh/server.h").exists() {
        return skip("libssh_server", "Debian's libssh-dev is not installed");
    }
    let lab = Lab::new();
    let (source, program) = (peer_script("libssh_server.c"), lab.arg("libssh_server"));
    lab.run(&cc, &["-O1", "-Wall", "-o", &program, &source, "-lssh"]).ok("cc");
    let server = ForeignServer::start(&lab, Path::new(&program), &[lab.arg("")]);
    let setup = ForeignServerSetup::new(&lab, server.port);

    make_blob(&lab.path("tiny"), 1500);
    let commands = format!("put {} {}\n", lab.arg("tiny"), lab.arg("far/tiny"));
    setup.sftp(&commands).ok("lhsftp put of 1,500 bytes");
    assert_same_file(&lab.path("tiny"), &lab.path("far/tiny"));
    setup.scp(&[], &lab.arg("tiny"), &setup.far("tiny.scp")).ok("lhscp of 1,500 bytes");
    assert_same_file(&lab.path("tiny"), &lab.path("far/tiny.scp"));

    setup.exercise(Targets::Kept);
    setup.resume();
    setup.scp(&["-r", "--links"], &setup.far("links"), &lab.arg("links")).ok("lhscp of links, down");
    for (link, target) in [("dangling", "nowhere"), ("relative", "../up")] {
        Targets::Kept.check(&lab.path("links").join(link), target);
    }
}

/// Over a program of the user's choice `lhsftp` sees no identification; it checks the links that it made.
#[test]
fn links_on_an_unidentified_server_are_corrected() {
    let Some([node]) = peers("links_without_a_name", ["node"]) else { return };
    let Some(modules) = npm_modules("links_without_a_name", "ssh2") else { return };
    let lab = Lab::new();
    let words = [peer_script("node_server.js"), lab.arg(""), modules.to_string_lossy().into_owned()];
    let server = ForeignServer::start(&lab, &node, &words);
    let setup =
        ForeignServerSetup::new(&lab, server.port).with_options(&["-S", &our("lhssh").to_string_lossy()]);
    make_blob(&lab.path("far/up"), 1000);
    setup.make_links(Targets::Kept);
}

/// OpenSSH's server and ours run any program as their SFTP server: the identification says nothing about it.
#[test]
fn links_behind_another_programs_server_are_not_reversed() {
    let Some([sshd]) = peers("links_behind_a_server", ["sshd"]) else { return };
    let lab = Lab::new();
    let liar = env!("CARGO_BIN_EXE_lh-lying-sftp");
    let script = format!("#!/bin/sh\ncd '{}' && exec {liar} LinkFirst NoExtensions\n", lab.arg(""));
    lab.write("behind", &script);
    lab.sh("chmod 755 behind").ok("chmod");
    let config = format!("ForceCommand {}", lab.arg("behind"));
    let (theirs, ours) = (Inetd::openssh(&lab, &sshd, &config), Lhsshd::start(&lab, &config));
    for port in [theirs.port, ours.port] {
        let setup = ForeignServerSetup::new(&lab, port);
        make_blob(&lab.path("far/up"), 1000);
        setup.make_links(Targets::Kept);
        let entries = || fs::read_dir(lab.dir()).unwrap().flatten().filter(|entry| entry.path().is_symlink());
        assert_eq!(entries().count(), 0, "a link was made elsewhere");
        fs::create_dir_all(lab.path("tree/sub")).unwrap();
        let links = [("one", "file"), ("two", "../up")];
        for (link, to) in links {
            std::os::unix::fs::symlink(to, lab.path("tree/sub").join(link)).unwrap();
        }
        setup.scp(&["-r", "--links"], &lab.arg("tree"), &setup.far("tree")).ok("lhscp of links");
        for (link, to) in links {
            Targets::Kept.check(&lab.path("far/tree/sub").join(link), to);
        }
        assert_eq!(entries().count(), 0, "a link was made elsewhere");
        for dir in ["far", "tree"] {
            fs::remove_dir_all(lab.path(dir)).unwrap();
        }
    }
}
