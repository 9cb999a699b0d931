//! The ways in which `lhsftp` connects to a server.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lh_interop::{
    Inetd, Lab, Lhsshd, assert_same_file, assert_same_tree, make_blob, make_tree, me, our, peers,
};

use super::{prepare, ssh_flags};

fn over_ssh(lab: &Lab, port: u16) {
    let sftp = our("lhsftp");
    prepare(lab);
    make_blob(&lab.path("blob"), 20_000_000);
    let host = format!("{}@127.0.0.1", me());
    let run = |flags: &[&str], place: &[&str], script: &str| {
        lab.write("script", script);
        let mut args: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        args.extend(ssh_flags(lab, port));
        args.extend(place.iter().map(|&word| word.to_owned()));
        lab.run_with(&sftp, &args, fs::File::open(lab.path("script")).unwrap().into())
    };
    let (blob, up) = (lab.arg("blob"), lab.arg("up"));
    // Several copies and requests over one channel.
    let script = format!("put {blob} {up}\nls -l {up}\nget {up} down\nrm {up}\ndf\n");
    let ran = run(&[], &[&host], &script).ok("a session");
    assert!(ran.err.starts_with("Connected to 127.0.0.1."), "{}", ran.err);
    assert!(ran.text().contains(&format!("Fetching {up} to down")), "{}", ran.text());
    assert_same_file(&lab.path("blob"), &lab.path("down"));
    assert!(!lab.path("up").exists());

    run(&["-b", "script"], &[&host], "pwd\n").ok("a batch");
    assert_eq!(run(&["-b", "script"], &[&host], "ls /nope\n").code, 1);

    let file = format!("{host}:{}", lab.arg("r/f 2"));
    run(&[], &[&file], "").ok("one file, to here");
    assert_same_file(&lab.path("r/f 2"), &lab.path("f 2"));
    run(&[], &[&file, "named"], "").ok("one file, to a name");
    assert_same_file(&lab.path("r/f 2"), &lab.path("named"));
    assert_eq!(run(&[], &[&format!("{host}:/nope")], "").code, 1);

    let dir = format!("{host}:{}/", lab.arg("r/d"));
    let ran = run(&[], &[&dir], "pwd\nls -1\n").ok("a directory");
    assert!(ran.text().contains(&format!("Remote working directory: {}", lab.arg("r/d"))), "{}", ran.text());
    let uri = format!("sftp://{host}:{port}/{}", lab.arg("r/d").replace(' ', "%20"));
    assert!(run(&[], &[&uri], "ls -1\n").ok("a URI").text().contains("sub"));

    // A command and a subsystem of another name.
    let server = our("lhsftp-server").to_string_lossy().into_owned();
    assert!(run(&["-s", &server], &[&host], "pwd\n").ok("-s").text().contains("Remote working"));
    let ran = run(&["-s", "no-such-subsystem"], &[&host], "pwd\n");
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("subsystem request failed on channel 0"), "{}", ran.err);
    assert!(ran.err.trim_end().ends_with("Connection closed"), "{}", ran.err);
    let ran = run(&["-s", "/bin/false/"], &[&host], "pwd\n");
    assert_eq!((ran.code, ran.err.trim_end().ends_with("Connection closed")), (255, true), "{}", ran.err);
}

/// Covers: sftp -s; sftp -P; sftp -F; sftp -o
#[test]
fn lhsftp_works_with_openssh_server() {
    let Some([sshd]) = peers("lhsftp_works_with_openssh_server", ["sshd"]) else { return };
    let lab = Lab::new();
    over_ssh(&lab, Inetd::openssh(&lab, &sshd, "").port);
}

#[test]
fn lhsftp_works_with_our_server() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    over_ssh(&lab, server.port);
}

/// Covers: sftp -S; sftp -4; sftp -C; sftp -c; sftp -i; sftp -v; sftp -J
#[test]
fn lhsftp_connects_with_all_its_flags() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let place = format!("{}@127.0.0.1", me());
    lab.write("script", "pwd\n");
    let run = |flags: &[&str], place: &str| {
        let mut args = ssh_flags(&lab, server.port);
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        args.push(place.to_owned());
        lab.run_with(&our("lhsftp"), &args, fs::File::open(lab.path("script")).unwrap().into())
    };
    let lhssh = our("lhssh").to_string_lossy().into_owned();
    let ran = run(&["-S", &lhssh], &place).ok("-S lhssh");
    assert!(ran.text().contains("Remote working directory: /"), "{}", ran.text());
    if let Some([ssh]) = peers("lhsftp_connects_with_all_its_flags", ["ssh"]) {
        run(&["-S", &ssh.to_string_lossy(), "-C"], &place).ok("-S ssh");
    }
    run(&["-4C", "-c", "aes256-ctr", "-i", &lab.arg("user_rsa")], &place).ok("flags of the connection");
    assert!(run(&["-v"], &place).err.contains("debug1: "));
    let key = lab.arg("user_ed25519");
    lab.write(
        "config",
        &format!(
            "Host *\nUserKnownHostsFile {}\nIdentityFile {key}\nIdentitiesOnly yes\nStrictHostKeyChecking yes\n",
            lab.arg("known_hosts")
        ),
    );
    let hop = format!("{place}:{}", server.port);
    let port = server.port.to_string();
    let args = ["-F", &lab.arg("config"), "-J", &hop, "-P", &port, &place].map(str::to_owned);
    let ran = lab.run_with(&our("lhsftp"), &args, fs::File::open(lab.path("script")).unwrap().into());
    assert!(ran.ok("-J").text().contains("Remote working directory: /"));
}

/// Covers: sftp -A
#[test]
fn the_agent_is_forwarded_when_asked_for() {
    let lab = Lab::new();
    // Any listener will do: the test only checks that the remote side can connect to it.
    let agent = lab.path("agent");
    let listener = std::os::unix::net::UnixListener::bind(&agent).unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let server = Lhsshd::start(&lab, "");
    let command =
        format!("echo \"[$SSH_AUTH_SOCK]\" > {}; exec {}", lab.arg("seen"), our("lhsftp-server").display());
    lab.write("script", "pwd\n");
    for (flags, forwarded) in [(&["-A"][..], true), (&[], false), (&["-o", "ForwardAgent=yes"], true)] {
        let mut args: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        args.extend(ssh_flags(&lab, server.port));
        args.extend(["-o".into(), format!("IdentityAgent={}", agent.display())]);
        args.extend(["-s".into(), command.clone(), format!("{}@127.0.0.1", me())]);
        lab.run_with(&our("lhsftp"), &args, fs::File::open(lab.path("script")).unwrap().into()).ok("pwd");
        assert_eq!(lab.read("seen") != "[]\n", forwarded, "{flags:?}: {}", lab.read("seen"));
    }
}

#[test]
fn no_connection_is_status_255() {
    let lab = Lab::new();
    let closed = lh_interop::tunnel::free_port().to_string();
    let ran = lab.run(&our("lhsftp"), &["-F", "none", "-P", &closed, "127.0.0.1"]);
    assert_eq!(ran.code, 255);
    let text = format!("ssh: connect to host 127.0.0.1 port {closed}: Connection refused\nConnection closed");
    assert_eq!(ran.err.replace('\r', "").trim(), text);
    let ran = lab.run(&our("lhsftp"), &["-D", "/bin/false"]);
    assert_eq!((ran.code, ran.err.trim()), (255, "Connection closed"));
    // The connection is lost in the middle of a session.
    lab.write("dies", "#!/bin/sh\nexec timeout 6 \"$@\"\n");
    fs::set_permissions(lab.path("dies"), fs::Permissions::from_mode(0o755)).unwrap();
    let command = format!("{} {}", lab.arg("dies"), our("lhsftp-server").display());
    let ran = lab.sh(&format!("sleep 15 | {} -D '{command}'", our("lhsftp").display()));
    assert_eq!(ran.code, 255, "{}", ran.err);
    assert!(ran.err.ends_with("\rConnection closed.  \nConnection closed\r\n"), "{:?}", ran.err);
}

/// Covers: wire SFTP server with OpenSSH's client
#[test]
fn openssh_s_sftp_uses_our_programs() {
    let Some([sftp]) = peers("openssh_s_sftp_uses_our_programs", ["sftp"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    prepare(&lab);
    make_tree(&lab.path("tree"), 200);
    fs::remove_file(lab.path("tree/link to a file")).unwrap();
    lab.write("script", "put -rp tree up\nget -rp up down\nls -l up\ndf\nreget up/empty e\n");
    let direct = our("lhsftp-server").to_string_lossy().into_owned();
    lab.run(&sftp, &["-b", "script", "-D", &direct]).ok("sftp -D lhsftp-server");
    assert_same_tree(&lab.path("tree"), &lab.path("down"));
    lab.sh("rm -rf up down e").ok("rm");
    let lhssh = our("lhssh").to_string_lossy().into_owned();
    let home = lab.dir().display();
    lab.write("script", &format!("cd {home}\nput -rp tree up\nget -rp up down\n"));
    let mut args = ssh_flags(&lab, server.port);
    args.extend(["-S", &lhssh, "-b", "script"].map(str::to_owned));
    args.push(format!("{}@127.0.0.1", me()));
    lab.run(&sftp, &args).ok("sftp -S lhssh");
    assert_same_tree(&lab.path("tree"), &lab.path("down"));
}
