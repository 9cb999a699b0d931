//! What a session carries goes on: forwards, shared connections, jump hosts, other programs.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use lh_interop::cuts::{Break, Cuts};
use lh_interop::tunnel::free_port;
use lh_interop::{assert_same_file, eventually, make_blob, me, our, peers};

use super::{Broken, MB};

/// Forwarded connections, both ways, and a client without a session.
///
/// Covers: ssh_config Resume; ssh -L; ssh -R; ssh -N
#[test]
fn forwards_survive_broken_connections() {
    let setup = Broken::new("ResumeGrace 2m\n", &[(MB, Break::Reset), (MB, Break::Silence)]);
    let target = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (near, back) = (free_port(), free_port());
    let port = target.local_addr().unwrap().port();
    let mut args = setup.args(&["Resume=yes", "ExitOnForwardFailure=yes"], "");
    args.pop();
    args.insert(0, "-N".to_owned());
    args.extend(["-L".to_owned(), format!("127.0.0.1:{near}:127.0.0.1:{port}")]);
    args.extend(["-R".to_owned(), format!("127.0.0.1:{back}:127.0.0.1:{port}")]);
    let mut client = Command::new(our("lhssh"))
        .args(args)
        .env("HOME", setup.lab.path("home"))
        .env_remove("SSH_AUTH_SOCK")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    for forwarded in [near, back] {
        let mut socket = None;
        eventually("the forward is there", || {
            socket = TcpStream::connect(("127.0.0.1", forwarded)).ok();
            socket.is_some()
        });
        let mut socket = socket.unwrap();
        let (mut far, _) = target.accept().unwrap();
        let sent: Vec<u8> = (0..3 * MB).map(|at| (at % 251) as u8).collect();
        let data = sent.clone();
        let sender = std::thread::spawn(move || far.write_all(&data).unwrap());
        let mut came = Vec::new();
        lh_interop::uninterrupted(|| socket.read_to_end(&mut came)).unwrap();
        sender.join().unwrap();
        assert!(came == sent, "{} of {} bytes", came.len(), sent.len());
    }
    assert_eq!(setup.cuts.broken(), 2);
    client.kill().unwrap();
    client.wait().unwrap();
}

/// The passengers of a shared connection survive with it.
///
/// Covers: ssh_config Resume; ssh_config ControlMaster
#[test]
fn a_shared_connection_survives_with_its_mux_clients() {
    let setup = Broken::new("ResumeGrace 2m\n", &[(2 * MB, Break::Reset), (MB, Break::End)]);
    let path = format!("ControlPath={}", setup.lab.arg("master"));
    make_blob(&setup.lab.path("blob"), 3 << 20);
    let mut master = setup.start(&["Resume=yes", "ControlMaster=yes", &path], "echo up; cat");
    let mut line = [0; 3];
    master.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    let command = format!("cat {}; exit 4", setup.lab.arg("blob"));
    let clients: Vec<_> =
        (0..3).map(|_| setup.start(&["Resume=yes", "ControlMaster=no", &path], &command)).collect();
    let blob = std::fs::read(setup.lab.path("blob")).unwrap();
    for client in clients {
        let done = client.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(4), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(done.stdout == blob, "{} bytes", done.stdout.len());
    }
    assert_eq!(setup.cuts.broken(), 2);
    drop(master.stdin.take());
    assert!(master.wait().unwrap().success());
}

/// The server's listener is started again while a session waits.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn sessions_survive_a_restart_of_the_listener() {
    let setup = Broken::new("ResumeGrace 2m\n", &[(MB, Break::Silence), (MB, Break::Reset)]);
    make_blob(&setup.lab.path("blob"), 4 << 20);
    let command = format!("cat {}", setup.lab.arg("blob"));
    let client = setup.start(&["Resume=yes"], &command);
    eventually("the connection is broken", || setup.cuts.broken() == 1);
    let listener = rustix::process::Pid::from_raw(setup.server.pid().cast_signed()).unwrap();
    rustix::process::kill_process(listener, rustix::process::Signal::HUP).unwrap();
    let done = client.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.stdout == std::fs::read(setup.lab.path("blob")).unwrap(), "{} bytes", done.stdout.len());
    assert!(setup.server.log().contains("Received SIGHUP; restarting."));
}

/// The connection breaks in front of a jump host, or below a command that leads to the server.
///
/// Covers: ssh_config Resume; ssh_config ProxyJump; ssh_config ProxyCommand
#[test]
fn sessions_behind_jump_hosts_and_commands_survive() {
    let command = format!("ProxyCommand {} -F @config -W %h:%p near", our("lhssh").display());
    for way in ["ProxyJump near", &command] {
        let setup = Broken::new("ResumeGrace 2m\n", &[(MB, Break::Reset), (MB, Break::Silence)]);
        let lab = &setup.lab;
        let (near, far) = (setup.cuts.port, setup.server.port);
        let config = lab.arg("config");
        lab.write(
            "config",
            &format!(
                "Host near\n Port {near}\nHost far\n Port {far}\n Resume yes\n {}\nHost *\n HostName 127.0.0.1\n \
                 User {}\n UserKnownHostsFile {}\n GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n \
                 IdentitiesOnly yes\n IdentityFile {}\n BatchMode yes\n LogLevel ERROR\n WarnWeakCrypto no\n \
                 ServerAliveInterval 1\n ServerAliveCountMax 3\n",
                way.replace("@config", &config),
                me(),
                lab.arg("known_hosts"),
                lab.arg("user_ed25519")
            ),
        );
        make_blob(&lab.path("blob"), 4 << 20);
        let cat = format!("cat {}; exit 6", lab.arg("blob"));
        let ran = lab.run(&our("lhssh"), &["-F", &config, "far", &cat]);
        assert_eq!(ran.code, 6, "{way}: {}", ran.err);
        assert!(ran.out == std::fs::read(lab.path("blob")).unwrap(), "{way}: {} bytes", ran.out.len());
        assert_eq!(setup.cuts.broken(), 2, "{way}");
    }
}

/// The path to the jump host falls silent, the session goes on over another connection, and ends. What reads
/// the client's standard error need not wait for the silent connection.
///
/// Covers: ssh_config Resume; ssh_config ProxyJump
#[test]
fn a_silent_hop_ends_with_its_session() {
    let setup = Broken::new("", &[(MB, Break::Silence)]);
    let lab = &setup.lab;
    let (near, far) = (setup.cuts.port, setup.server.port);
    lab.write(
        "config",
        &format!(
            "Host near\n Port {near}\nHost far\n Port {far}\n ProxyJump near\nHost *\n HostName 127.0.0.1\n \
             User {}\n UserKnownHostsFile {}\n GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n \
             IdentitiesOnly yes\n IdentityFile {}\n BatchMode yes\n LogLevel ERROR\n WarnWeakCrypto no\n",
            me(),
            lab.arg("known_hosts"),
            lab.arg("user_ed25519")
        ),
    );
    let command = "head -c 3000000 /dev/zero; exit 6";
    let ran = lab.run(&our("lhssh"), &["-F", &lab.arg("config"), "far", command]);
    assert_eq!((ran.code, ran.out.len()), (6, 3_000_000), "{}", ran.err);
    assert_eq!((setup.cuts.broken(), setup.cuts.connections()), (1, 2));
    // Up, the silent connection takes nothing of what the session has left for it.
    let setup = Broken { cuts: Cuts::to(setup.server.port, vec![(MB, Break::Silence)]), ..setup };
    setup.lab.know(setup.cuts.port);
    let moved =
        setup.lab.read("config").replace(&format!(" Port {near}\n"), &format!(" Port {}\n", setup.cuts.port));
    setup.lab.write("config", &moved);
    let blob = setup.lab.path("blob");
    make_blob(&blob, 16 << 20);
    let input = File::open(&blob).unwrap().into();
    let ran =
        setup.lab.run_with(&our("lhssh"), &["-F", &setup.lab.arg("config"), "far", "wc -c; exit 6"], input);
    assert_eq!((ran.code, ran.text().trim()), (6, "16777216"), "{}", ran.err);
    assert_eq!((setup.cuts.broken(), setup.cuts.connections()), (1, 2));
}

/// Covers: ssh_config Resume
#[test]
fn rsync_and_git_survive_broken_connections() {
    let plan = [(2 * MB, Break::Reset), (MB, Break::End), (MB, Break::Silence)];
    let Some([rsync, git]) = peers("rsync_and_git_survive_broken_connections", ["rsync", "git"]) else {
        return;
    };
    let setup = Broken::new("ResumeGrace 2m\n", &plan);
    let lab = &setup.lab;
    let shell = format!(
        "{} -o Resume=yes -o ServerAliveInterval=1 -o ServerAliveCountMax=3",
        lab.shell_command(&our("lhssh"), setup.cuts.port)
    );
    std::fs::create_dir(lab.path("tree")).unwrap();
    for number in 0..8 {
        make_blob(&lab.path(&format!("tree/blob{number}")), (1 << 20) + number);
    }
    let to = format!("{}@127.0.0.1:{}", me(), lab.arg("copy"));
    lab.run(&rsync, &["-a", "-e", &shell, "tree/", &to]).ok("rsync");
    lh_interop::assert_same_tree(&lab.path("tree"), &lab.path("copy"));
    assert_eq!(setup.cuts.broken(), plan.len());
    let setup = Broken::new("ResumeGrace 2m\n", &plan);
    let there = &setup.lab;
    make_blob(&there.path("blob"), 8 << 20);
    let made = "git init -q repository && mv blob repository && cd repository && git add blob && \
         git -c user.name=a -c user.email=a@b commit -q -m blob";
    there.sh(made).ok("git commit");
    let shell = format!(
        "GIT_SSH_COMMAND={} -o Resume=yes -o ServerAliveInterval=1 -o ServerAliveCountMax=3",
        there.shell_command(&our("lhssh"), setup.cuts.port)
    );
    let from = format!("ssh://{}@127.0.0.1:{}{}", me(), setup.cuts.port, there.arg("repository"));
    there.run_env(&[shell], &git, &["clone", "-q", &from, "clone"]).ok("git clone");
    assert_same_file(&there.path("repository/blob"), &there.path("clone/blob"));
    assert_eq!(setup.cuts.broken(), plan.len());
}
