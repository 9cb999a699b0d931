//! Programs that use `ssh` every day: remote development tools, file systems, and servers started by ordinary
//! users.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::{Command, Stdio};

use lh_interop::tunnel::{free_port, round_trip_after, sum_server};
use lh_interop::{
    Lab, Lhsshd, TestUser, assert_same_tree, eventually, has_pam, is_root, make_tree, me, our, peers, script,
    skip,
};

/// The client under OpenSSH's name, and a server.
fn pair() -> (Lab, Lhsshd) {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    std::os::unix::fs::symlink(our("lhssh"), lab.path("ssh")).unwrap();
    (lab, server)
}

/// Starts a session as VS Code and similar tools do. They read the version, then feed a script to a remote
/// shell, over a connection whose SOCKS proxy they use once the script has answered. The user's RemoteCommand
/// must not interfere.
///
/// Covers: ssh -V; ssh -D; ssh -T; ssh -F; ssh_config RemoteCommand; ssh_config ConnectTimeout; ssh_config DynamicForward
#[test]
fn a_remote_development_tool_gets_its_shell_and_its_proxy() {
    let (lab, server) = pair();
    let version = lab.run(&lab.path("ssh"), &["-V"]).ok("-V");
    assert!(version.err.starts_with("OpenSSH_") && version.out.is_empty(), "{}", version.err);
    let options: String = lab
        .client_options()
        .chunks(2)
        .filter(|pair| pair[0] == "-o")
        .map(|pair| format!("  {}\n", pair[1]))
        .collect();
    lab.write(
        "config",
        &format!(
            "Host dev\n  HostName 127.0.0.1\n  Port {}\n  User {}\n  RemoteCommand tmux new -A\n  RequestTTY force\n\
             {options}Host *\n  ForwardAgent yes\n  ServerAliveInterval 30\n",
            server.port,
            me()
        ),
    );
    let (proxy, target) = (free_port(), sum_server());
    let proxy_arg = proxy.to_string();
    let flags = ["-v", "-T", "-D", &proxy_arg, "-F", &lab.arg("config"), "-o", "RemoteCommand=none"];
    let mut client = Command::new(lab.path("ssh"))
        .args(flags)
        .args(["-o", "ConnectTimeout=15", "dev", "bash"])
        .env("HOME", lab.path("home"))
        .env_remove("SSH_AUTH_SOCK")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(lab.path("said")).unwrap())
        .spawn()
        .unwrap();
    let mut shell = client.stdin.take().unwrap();
    let script = b"echo \"ready: $(tty)\"\nread -r answer; echo \"heard: $answer\"; exit 4\n";
    shell.write_all(script).unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut line = || lines.next().and_then(Result::ok).unwrap_or_else(|| panic!("{}", lab.read("said")));
    assert_eq!(line(), "ready: not a tty");
    let mut stream = TcpStream::connect(("127.0.0.1", proxy)).unwrap();
    let [high, low] = target.to_be_bytes();
    stream.write_all(&[4, 1, high, low, 127, 0, 0, 1, b'm', 0]).unwrap();
    round_trip_after(stream, 8, 100_000);
    shell.write_all(b"go on\n").unwrap();
    assert_eq!(line(), "heard: go on");
    drop(shell);
    assert_eq!(client.wait().unwrap().code(), Some(4), "{}", lab.read("said"));
}

/// Covers: ssh_config LogVerbose
#[test]
fn log_verbose_works_without_verbose_flags() {
    let (lab, server) = pair();
    let said = |places: &str| {
        let mut args = vec!["-o".to_owned(), format!("LogVerbose={places}")];
        args.extend(lab.client_options());
        args.extend(["-p".to_owned(), server.port_arg(), "127.0.0.1".to_owned(), "true".to_owned()]);
        lab.run(&our("lhssh"), &args).ok(places).err
    };
    let login = said("*:lh_client::login():*");
    assert!(login.contains("mod.rs:lh_client::login():"), "{login}");
    assert!(login.contains(" Authentications that can continue: "), "{login}");
    assert!(!login.contains("Connecting to") && login.contains("debug1: "), "{login}");
    let connect = said("mod.rs:nothing,*:lh_client::reach*");
    assert!(connect.contains("Connecting to") && !connect.contains("can continue"), "{connect}");
    assert_eq!(said("none"), "");
    assert_eq!(said("packet.c:*"), "");
}

/// Locks, renames over existing files, links and modes, as a program does them that knows nothing of SFTP.
#[test]
fn git_works_on_a_mounted_directory() {
    let Some([sshfs, fusermount, git]) = peers("git_on_sshfs", ["sshfs", "fusermount3", "git"]) else {
        return;
    };
    if fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return skip("git_on_sshfs", "/dev/fuse cannot be opened");
    }
    let (lab, server) = pair();
    make_tree(&lab.path("tree"), 60);
    // git stores no empty directories.
    fs::remove_dir(lab.path("tree/empty dir")).unwrap();
    for name in ["mnt", "export"] {
        fs::create_dir_all(lab.path(name)).unwrap();
    }
    let mount = lab.arg("mnt");
    let command = format!("ssh_command={}", lab.shell_command(&lab.path("ssh"), server.port));
    let from = format!("{}@127.0.0.1:{}", me(), lab.arg("export"));
    lab.run(&sshfs, &[from.as_str(), &mount, "-o", &command, "-o", "reconnect,idmap=user"]).ok("sshfs");
    let git = git.display();
    let work = lab.sh(&format!(
        "set -e; export GIT_CONFIG_GLOBAL=/dev/null; g='{git} -c user.name=a -c user.email=a@b -c init.defaultBranch=main'\n\
         $g init -q work; cp -r tree/. work/; (cd work; $g add -A; $g commit -q -m one)\n\
         $g clone -q --no-local work mnt/clone; cd mnt/clone; echo more >more; chmod +x more; ln -s more link\n\
         $g add -A; $g commit -q -m two; $g gc -q; $g fsck --strict; $g checkout -q HEAD~1; $g checkout -q main\n\
         test -x more; test \"$(readlink link)\" = more; test -z \"$($g status --porcelain)\"; rm more link\n\
         cd ../..; {git} -C mnt/clone log --oneline | wc -l"
    ));
    lab.run(&fusermount, &["-u", &mount]).ok("fusermount3 -u");
    assert_eq!(work.ok("git on the mount").text().trim(), "2");
    fs::remove_dir_all(lab.path("export/clone/.git")).unwrap();
    assert_same_tree(&lab.path("tree"), &lab.path("export/clone"));
}

/// A server that an ordinary user starts accepts that user's password too, where PAM is built in: PAM's
/// modules have a helper for files that only root may read.
///
/// Covers: sshd_config UsePAM; sshd_config PasswordAuthentication; sshd -i
#[test]
fn an_unprivileged_server_checks_its_user_by_pam() {
    let test = "pam_of_an_ordinary_user";
    if !is_root() {
        return skip(test, "only root can add the user whose password is known");
    }
    let lab = Lab::new();
    if !has_pam(&lab) {
        return skip(test, "lhsshd is built without PAM");
    }
    let user = TestUser::new(&lab);
    fs::copy(our("lhsshd"), user.home.join("lhsshd")).unwrap();
    fs::copy(lab.path("host_ed25519"), user.home.join("host")).unwrap();
    let (uid, gid) = user.ids();
    for (file, mode) in [("lhsshd", 0o755), ("host", 0o600)] {
        fs::set_permissions(user.home.join(file), fs::Permissions::from_mode(mode)).unwrap();
        chown(user.home.join(file), Some(uid), Some(gid)).unwrap();
    }
    let home = user.home.display();
    script(
        &lab.path("server"),
        &format!(
            "cd {home} && exec setpriv --reuid {uid} --regid {gid} --clear-groups ./lhsshd -i -e -f none -h {home}/host \
             -o UsePAM=yes -o PasswordAuthentication=yes -o AuthenticationMethods=\"$1\" 2>>{log}",
            log = lab.arg("server.log")
        ),
    );
    script(&lab.path("askpass"), &format!("echo '{}'", user.password));
    script(&lab.path("wrong"), "echo wrong");
    let login = |method: &str, answers: &str| {
        lab.sh(&format!(
            "SSH_ASKPASS={} SSH_ASKPASS_REQUIRE=force {} -F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
             -o NumberOfPasswordPrompts=1 -o PreferredAuthentications={method} -o 'ProxyCommand={} {method}' {}@there 'id -un'",
            lab.arg(answers),
            our("lhssh").display(),
            lab.arg("server"),
            user.name
        ))
    };
    for method in ["password", "keyboard-interactive"] {
        let ran = login(method, "askpass");
        assert_eq!(ran.text().trim(), user.name, "{method}: {}{}", ran.err, lab.read("server.log"));
        assert_eq!(login(method, "wrong").code, 255, "{method}");
    }
    eventually("a refusal in the log", || lab.read("server.log").contains("Failed password for"));
}
