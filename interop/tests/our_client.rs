//! `lhssh` and `lhscp` with other servers: connect, run commands, transfer 64 MiB each way with key
//! re-exchanges, compare.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lh_interop::{
    Inetd, Lab, Lhsshd, TestUser, assert_same_file, assert_same_tree, is_root, make_blob, make_tree, me, our,
    peers, skip,
};

const SIZE: usize = 64 << 20;

/// A server, and how to log in to it.
struct There<'a> {
    lab: &'a Lab,
    port: u16,
    user: String,
    /// A directory on the server's side that the user may write to.
    dir: String,
}

impl There<'_> {
    fn ssh(&self, options: &[&str], command: &[&str]) -> Vec<String> {
        let mut args: Vec<String> = options.iter().map(|&each| each.to_owned()).collect();
        args.extend(["-o".to_owned(), "RekeyLimit=16M".into()]);
        args.extend(self.lab.client_options());
        args.extend(["-p".into(), self.port.to_string(), format!("{}@127.0.0.1", self.user)]);
        args.extend(command.iter().map(|&each| each.to_owned()));
        args
    }

    fn scp(&self, flags: &[&str], from: &str, to: &str) {
        let mut args: Vec<String> = flags.iter().map(|&each| each.to_owned()).collect();
        args.extend(["-o".to_owned(), "RekeyLimit=16M".into()]);
        args.extend(self.lab.client_options());
        args.extend(["-P".into(), self.port.to_string(), from.into(), to.into()]);
        let ran = self.lab.run(&our("lhscp"), &args).ok("lhscp");
        assert_eq!(ran.text(), "", "no progress without a terminal");
    }

    fn remote(&self, name: &str) -> String {
        format!("{}@127.0.0.1:{}/{name}", self.user, self.dir)
    }

    /// Checks that every server must pass.
    fn exercise(&self) {
        let lhssh = our("lhssh");
        let lab = self.lab;
        let ran = lab.run(&lhssh, &self.ssh(&[], &["echo out; echo err >&2; exit 7"]));
        assert_eq!((ran.code, ran.text().as_str(), ran.err.as_str()), (7, "out\n", "err\n"));
        if !lab.path("blob").exists() {
            make_blob(&lab.path("blob"), SIZE);
            make_tree(&lab.path("tree"), 300);
        }
        let blob = lab.path("blob");
        let stdin = Stdio::from(File::open(&blob).unwrap());
        lab.run_with(&lhssh, &self.ssh(&[], &[&format!("cat > '{}/pipe'", self.dir)]), stdin).ok("pipe up");
        let down = lab.run(&lhssh, &self.ssh(&[], &[&format!("cat '{}/pipe'", self.dir)])).ok("pipe down");
        assert!(down.out == std::fs::read(&blob).unwrap(), "the pipe down changed the data");
        self.scp(&[], &lab.arg("blob"), &self.remote("up"));
        self.scp(&["-p"], &self.remote("up"), &lab.arg("down"));
        assert_same_file(&blob, &lab.path("down"));
        self.scp(&["-r"], &lab.arg("tree"), &self.remote("tree.up"));
        self.scp(&["-rp"], &self.remote("tree.up"), &lab.arg("tree.down"));
        assert_same_tree(&lab.path("tree"), &lab.path("tree.down"));
        std::fs::remove_dir_all(lab.path("tree.down")).unwrap();
    }
}

fn openssh<'a>(lab: &'a Lab, server: &Inetd) -> There<'a> {
    std::fs::create_dir_all(lab.path("far")).unwrap();
    There { lab, port: server.port, user: me(), dir: lab.arg("far") }
}

#[test]
fn openssh_sshd() {
    let Some([sshd]) = peers("openssh_sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    // Both ends start key exchanges.
    let server = Inetd::openssh(&lab, &sshd, "RekeyLimit 20M");
    let there = openssh(&lab, &server);
    there.exercise();
    for key in ["user_rsa", "user_ecdsa"] {
        let identity = format!("IdentityFile={}", lab.arg(key));
        lab.run(&our("lhssh"), &there.ssh(&["-o", &identity], &["true"])).ok(key);
    }
    let tty = lab.run(&our("lhssh"), &there.ssh(&["-tt"], &["tty; echo $TERM"])).ok("pty");
    assert!(tty.text().contains("/dev/pts/"), "{}", tty.text());
    let compressed = lab.run(&our("lhssh"), &there.ssh(&["-C"], &["seq 1 200000"])).ok("compression");
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert!(compressed.text() == expected, "compressed output differs");
}

#[test]
fn openssh_sshd_with_every_algorithm() {
    let Some([sshd, ssh]) = peers("openssh_sshd_algorithms", ["sshd", "ssh"]) else { return };
    let lab = Lab::new();
    let server = Inetd::openssh(
        &lab,
        &sshd,
        "KexAlgorithms +diffie-hellman-group-exchange-sha256,diffie-hellman-group14-sha256,\
         diffie-hellman-group16-sha512,diffie-hellman-group18-sha512",
    );
    let there = openssh(&lab, &server);
    make_blob(&lab.path("small"), 3 << 20);
    let mut tried = 0;
    for (kind, keyword) in [("kex", "KexAlgorithms"), ("cipher", "Ciphers"), ("mac", "MACs")] {
        let theirs = lab.run(&ssh, &["-Q", kind]).ok("-Q").text();
        let ours = lab.run(&our("lhssh"), &["-Q", kind]).ok("-Q").text();
        for name in ours.lines().filter(|name| theirs.lines().any(|each| each == *name)) {
            if name.ends_with("-sha1") && kind == "kex"
                || name.contains("cbc")
                || name.contains("md5")
                || name.contains("sha1-96")
            {
                continue;
            }
            let option = format!("{keyword}={name}");
            let mut options = vec!["-o", &option, "-o", "RekeyLimit=1M"];
            if kind == "mac" {
                options.extend(["-o", "Ciphers=aes256-ctr"]);
            }
            let stdin = Stdio::from(File::open(lab.path("small")).unwrap());
            let ran = lab.run_with(&our("lhssh"), &there.ssh(&options, &["cat"]), stdin).ok(name);
            assert!(ran.out == std::fs::read(lab.path("small")).unwrap(), "{name}: data differ");
            tried += 1;
        }
    }
    assert!(tried >= 20, "only {tried} algorithms in common");
    for host_key in ["ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256"] {
        let option = format!("HostKeyAlgorithms={host_key}");
        lab.run(&our("lhssh"), &there.ssh(&["-o", &option], &["true"])).ok(host_key);
    }
}

#[test]
fn openssh_sshd_rekeying_every_256_kib() {
    let Some([sshd]) = peers("openssh_sshd_rekey", ["sshd"]) else { return };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "RekeyLimit 256K");
    let there = openssh(&lab, &server);
    make_blob(&lab.path("blob"), 16 << 20);
    for cipher in ["aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes128-ctr"] {
        let stdin = Stdio::from(File::open(lab.path("blob")).unwrap());
        let options = ["-c", cipher, "-o", "RekeyLimit=256K"];
        let ran = lab.run_with(&our("lhssh"), &there.ssh(&options, &["cat"]), stdin).ok(cipher);
        assert!(ran.out == std::fs::read(lab.path("blob")).unwrap(), "{cipher}: data differ");
    }
    there.scp(&["-o", "RekeyLimit=256K"], &lab.arg("blob"), &there.remote("up"));
    there.scp(&["-o", "RekeyLimit=256K"], &there.remote("up"), &lab.arg("down"));
    assert_same_file(&lab.path("blob"), &lab.path("down"));
}

#[test]
fn openssh_sshd_copies_between_two_servers() {
    let Some([sshd]) = peers("openssh_remote_to_remote", ["sshd"]) else { return };
    let lab = Lab::new();
    let (one, two) = (Inetd::openssh(&lab, &sshd, ""), Inetd::openssh(&lab, &sshd, ""));
    make_blob(&lab.path("blob"), SIZE);
    let uri =
        |server: &Inetd, name: &str| format!("scp://{}@127.0.0.1:{}/{}", me(), server.port, lab.arg(name));
    let mut args = vec!["-3".to_owned()];
    args.extend(lab.client_options());
    args.extend([uri(&one, "blob"), uri(&two, "copy")]);
    lab.run(&our("lhscp"), &args).ok("remote to remote");
    assert_same_file(&lab.path("blob"), &lab.path("copy"));
}

#[test]
fn openssh_sshd_by_password_agent_and_jump() {
    let Some([sshd, _]) = peers("openssh_password_agent_jump", ["sshd", "ssh-agent"]) else { return };
    if !is_root() {
        return skip("openssh_password_agent_jump", "needs root to add a user with a password");
    }
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "PasswordAuthentication yes\nKbdInteractiveAuthentication no");
    let user = TestUser::new(&lab);
    lab.write("askpass", &format!("#!/bin/sh\necho '{}'\n", user.password));
    lab.sh("chmod 700 askpass").ok("chmod");
    let common = format!(
        "-F none -o UserKnownHostsFile={} -o StrictHostKeyChecking=yes -p {}",
        lab.arg("known_hosts"),
        server.port
    );
    let lhssh = our("lhssh");
    let password = lab.sh(&format!(
        "SSH_ASKPASS={} SSH_ASKPASS_REQUIRE=force {} {common} -o PubkeyAuthentication=no {}@127.0.0.1 id -un",
        lab.arg("askpass"),
        lhssh.display(),
        user.name
    ));
    assert_eq!(password.ok("password").text().trim(), user.name);
    let wrong = lab.sh(&format!(
        "printf '#!/bin/sh\\necho wrong\\n' > bad; chmod 700 bad; SSH_ASKPASS={} SSH_ASKPASS_REQUIRE=force {} {common} \
         -o PubkeyAuthentication=no {}@127.0.0.1 id -un",
        lab.arg("bad"),
        lhssh.display(),
        user.name
    ));
    assert_eq!(wrong.code, 255, "{}", wrong.err);
    assert!(wrong.err.contains("Permission denied, please try again."), "{}", wrong.err);
    assert!(wrong.err.contains(&format!("{}@127.0.0.1: Permission denied (", user.name)), "{}", wrong.err);

    let agent = lab.sh(&format!(
        "eval $(ssh-agent -s) >/dev/null; trap 'kill $SSH_AGENT_PID' EXIT; ssh-add -q user_rsa user_ed25519; \
         {} {common} -o IdentityFile=none {}@127.0.0.1 id -un",
        lhssh.display(),
        me()
    ));
    assert_eq!(agent.ok("agent").text().trim(), me());

    let last = Inetd::openssh(&lab, &sshd, "");
    let mut args = lab.client_options();
    args.extend(["-J".into(), format!("{}@127.0.0.1:{}", me(), server.port), "-p".into(), last.port_arg()]);
    args.extend([format!("{}@127.0.0.1", me()), "echo through".into()]);
    // The jump host's options come from a configuration file: the command line's apply to the last host, as
    // with ssh.
    let config = format!(
        "Host *\n UserKnownHostsFile {}\n StrictHostKeyChecking yes\n IdentitiesOnly yes\n IdentityFile {}\n BatchMode yes\n",
        lab.arg("known_hosts"),
        lab.arg("user_ed25519")
    );
    lab.write("jump.conf", &config);
    let position = args.iter().position(|arg| arg == "none").unwrap();
    args[position] = lab.arg("jump.conf");
    assert_eq!(lab.run(&lhssh, &args).ok("jump").text(), "through\n");
}

#[test]
fn dropbear_server() {
    let Some([dropbear, convert]) = peers("dropbear_server", ["dropbear", "dropbearconvert"]) else { return };
    if !is_root() {
        return skip(
            "dropbear_server",
            "needs root: dropbear reads authorized_keys from the home of the user",
        );
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let server = Inetd::dropbear(&lab, &dropbear, &convert, &[]);
    let dir = user.home.to_string_lossy().into_owned();
    There { lab: &lab, port: server.port, user: user.name.clone(), dir }.exercise();
}

/// An asyncssh server that ends when its standard input closes.
struct Asyncssh {
    child: Child,
    port: u16,
}

impl Drop for Asyncssh {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn asyncssh_server() {
    let lab = Lab::new();
    let python = Path::new("/usr/bin/python3");
    if lab.run(python, &["-W", "ignore", "-c", "import asyncssh"]).code != 0 {
        return skip("asyncssh_server", "Debian's python3-asyncssh is not installed");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/asyncssh_server.py");
    let mut child = Command::new(python)
        .args(["-W", "ignore"])
        .arg(script)
        .arg(lab.dir())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let server = Asyncssh { child, port: line.trim().parse().unwrap() };
    lab.know(server.port);
    std::fs::create_dir_all(lab.path("far")).unwrap();
    There { lab: &lab, port: server.port, user: me(), dir: lab.arg("far") }.exercise();
}

#[test]
fn rsync_git_lftp_and_sshfs_through_our_client() {
    let names = ["sshd", "rsync", "git", "lftp", "sshfs", "fusermount3"];
    let Some([sshd, _, _, lftp, sshfs, fusermount]) = peers("tools_through_lhssh", names) else { return };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "RekeyLimit 16M");
    let shell = lab.shell_command(&our("lhssh"), server.port);
    make_blob(&lab.path("blob"), SIZE);
    make_tree(&lab.path("tree"), 200);
    let (dir, user) = (lab.dir().display(), me());
    lab.sh(&format!(
        "set -e; export GIT_SSH_COMMAND='{shell}' GIT_CONFIG_GLOBAL=/dev/null\n\
         rsync -a -e '{shell}' blob tree {user}@127.0.0.1:{dir}/up/\n\
         rsync -a -e '{shell}' {user}@127.0.0.1:{dir}/up/ down/\n\
         git init -q --bare repo.git; git init -q work; cd work\n\
         git config user.email t@example.org; git config user.name t\n\
         cp ../blob big; git add -A; git commit -qm one\n\
         git push -q {user}@127.0.0.1:{dir}/repo.git HEAD:refs/heads/main\n\
         cd ..; git clone -q -b main {user}@127.0.0.1:{dir}/repo.git clone\n"
    ))
    .ok("rsync and git");
    assert_same_file(&lab.path("blob"), &lab.path("down/blob"));
    assert_same_tree(&lab.path("tree"), &lab.path("down/tree"));
    assert_same_file(&lab.path("blob"), &lab.path("clone/big"));

    let script = format!(
        "set cmd:fail-exit yes; set net:max-retries 1; set sftp:connect-program \"{shell} -a -x\"; \
         open sftp://{user}:@127.0.0.1; put {dir}/blob -o {dir}/lftp.up; get {dir}/lftp.up -o {dir}/lftp.down; bye"
    );
    lab.run(&lftp, &["--norc", "-c", &script]).ok("lftp");
    assert_same_file(&lab.path("blob"), &lab.path("lftp.down"));

    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return skip("sshfs_through_lhssh", "/dev/fuse cannot be opened");
    }
    std::fs::create_dir_all(lab.path("mnt")).unwrap();
    std::fs::create_dir_all(lab.path("export")).unwrap();
    let source = format!("{user}@127.0.0.1:{dir}/export");
    lab.run(&sshfs, &[&source, &lab.arg("mnt"), "-o", &format!("ssh_command={shell}")]).ok("sshfs");
    let work = lab.sh("cp blob mnt/up && cp mnt/up sshfs.down");
    lab.run(&fusermount, &["-u", &lab.arg("mnt")]).ok("fusermount3 -u");
    work.ok("copies on the mount");
    assert_same_file(&lab.path("blob"), &lab.path("sshfs.down"));
}

/// Between two servers, the SFTP server of the target ends in the middle while its connection stays: the copy
/// ends as well.
#[test]
fn relayed_copy_ends_when_a_server_program_ends() {
    let Some([sshd]) = peers("relay_to_a_program_that_ends", ["sshd"]) else { return };
    let lab = Lab::new();
    // The program gets the first 60 reads of what is sent, then the end of its input. dd passes on what it
    // has at once.
    let program = lab.path("ends");
    lab.write(
        "ends",
        &format!("#!/bin/sh\ndd bs=65536 count=60 2>/dev/null | {}\n", our("lhsftp-server").display()),
    );
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let one = Inetd::openssh(&lab, &sshd, "");
    make_blob(&lab.path("blob"), 40_000_000);
    let uri = |port: u16, name: &str| format!("scp://{}@127.0.0.1:{port}/{}", me(), lab.arg(name));
    for two in ["sshd", "lhsshd"] {
        let forced = format!("ForceCommand {}", program.display());
        let (stock, ours);
        let port = if two == "sshd" {
            stock = Inetd::openssh(&lab, &sshd, &forced);
            stock.port
        } else {
            ours = Lhsshd::start(&lab, &forced);
            ours.port
        };
        let mut args = vec!["-3".to_owned(), "--retries".to_owned(), "0".to_owned()];
        args.extend(lab.client_options());
        args.extend([uri(one.port, "blob"), uri(port, "copy")]);
        let ran = lab.run(&our("lhscp"), &args);
        assert_eq!(ran.code, 255, "{two}: {}", ran.err);
        assert!(ran.err.contains("Connection closed"), "{two}: {}", ran.err);
        assert!(!lab.path("copy").exists());
    }
}
