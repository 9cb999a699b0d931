//! Other clients with `lhsshd`: connect, run commands, transfer 64 MiB each way with key re-exchanges,
//! compare.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use lh_interop::{
    Lab, Lhsshd, TestUser, assert_same_file, assert_same_tree, build_from_debian_s_go, is_root, make_blob,
    make_tree, me, our, peer_script, peers, skip,
};

const SIZE: usize = 64 << 20;
/// The server rekeys every 16 MiB, so that each copy crosses several key exchanges whatever the client does.
const REKEY: &str = "RekeyLimit 16M";

struct OurServerSetup {
    // First, so that a failing test can still print the server's log from the lab's directory.
    server: Lhsshd,
    lab: Lab,
}

impl OurServerSetup {
    fn new(config: &str) -> Self {
        Self::with(&format!("{REKEY}\n{config}"), SIZE)
    }

    /// Rekeys every 256 KiB: a hundred exchanges per copy, started by the server during the peer's transfer.
    fn rekeying_often() -> Self {
        Self::with("RekeyLimit 256K", 24 << 20)
    }

    fn with(config: &str, size: usize) -> Self {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, config);
        make_blob(&lab.path("blob"), size);
        Self { server, lab }
    }

    fn stdin(&self, name: &str) -> Stdio {
        Stdio::from(File::open(self.lab.path(name)).unwrap())
    }

    fn same(&self, name: &str) {
        assert_same_file(&self.lab.path("blob"), &self.lab.path(name));
    }

    fn rekeyed(&self) {
        self.rekeyed_times(2);
    }

    /// Expects fewer rekeys than bytes / limit: data sent during an exchange still count for the old keys.
    fn rekeyed_often(&self) {
        self.rekeyed_times(40);
    }

    fn rekeyed_times(&self, least: usize) {
        let log = self.server.log();
        let times = log.matches("rekey").count();
        assert!(times >= least, "the server's log shows {times} rekeys, not {least}:\n{log}");
    }
}

/// `user@127.0.0.1` for the user that runs the tests.
fn target() -> String {
    format!("{}@127.0.0.1", me())
}

#[test]
fn openssh_ssh_runs_commands_and_pipes_data() {
    let Some([ssh]) = peers("openssh_ssh", ["ssh"]) else { return };
    let setup = OurServerSetup::new("");
    let base = |extra: &[&str], command: &str| {
        let mut args = setup.lab.client_options();
        args.extend(extra.iter().map(|&each| each.to_owned()));
        args.extend(["-p".into(), setup.server.port_arg(), target(), command.to_owned()]);
        args
    };
    let ran = setup.lab.run(&ssh, &base(&[], "echo out; echo err >&2; exit 7"));
    assert_eq!((ran.code, ran.text().as_str(), ran.err.as_str()), (7, "out\n", "err\n"));
    let ran = setup.lab.run(&ssh, &base(&[], "kill -TERM $$"));
    assert_eq!(ran.code, 255, "{}", ran.err);
    for key in ["user_rsa", "user_ecdsa"] {
        let identity = format!("IdentityFile={}", setup.lab.arg(key));
        let mut args = vec!["-o".to_owned(), identity];
        args.extend(base(&[], "true"));
        setup.lab.run(&ssh, &args).ok(key);
    }
    let up = setup.lab.arg("up");
    setup.lab.run_with(&ssh, &base(&[], &format!("cat > {up}")), setup.stdin("blob")).ok("pipe up");
    setup.same("up");
    let down = setup.lab.run(&ssh, &base(&[], &format!("cat {up}"))).ok("pipe down");
    std::fs::write(setup.lab.path("down"), down.out).unwrap();
    setup.same("down");
    setup.rekeyed();
    let tty = setup.lab.run(&ssh, &base(&["-tt"], "tty; stty size; echo $TERM")).ok("pty");
    assert!(tty.text().contains("/dev/pts/"), "{}", tty.text());
}

#[test]
fn openssh_speaks_every_algorithm_of_ours() {
    let Some([ssh]) = peers("openssh_algorithms", ["ssh"]) else { return };
    let setup = OurServerSetup::new(
        "KexAlgorithms +diffie-hellman-group-exchange-sha256,diffie-hellman-group14-sha256,\
         diffie-hellman-group16-sha512,diffie-hellman-group18-sha512\nMACs +hmac-sha1-96,hmac-sha1-96-etm@openssh.com",
    );
    make_blob(&setup.lab.path("small"), 3 << 20);
    let theirs = |kind: &str| setup.lab.run(&ssh, &["-Q", kind]).ok("-Q").text();
    let ours = |kind: &str| setup.lab.run(&our("lhssh"), &["-Q", kind]).ok("-Q").text();
    let mut tried = 0;
    for (kind, keyword) in [("kex", "KexAlgorithms"), ("cipher", "Ciphers"), ("mac", "MACs")] {
        let known = theirs(kind);
        for name in ours(kind).lines().filter(|name| known.lines().any(|each| each == *name)) {
            if name.ends_with("-sha1") && kind == "kex" || name.contains("cbc") || name.contains("md5") {
                continue;
            }
            let mut args = vec!["-o".to_owned(), format!("{keyword}={name}")];
            // An exchange takes OpenSSH up to a second of processor time with large groups.
            let others: &[&str] = match kind {
                "kex" => &["-o", "RekeyLimit=2M"],
                "cipher" => &["-o", "RekeyLimit=1M", "-o", "KexAlgorithms=curve25519-sha256"],
                _ => &[
                    "-o",
                    "RekeyLimit=1M",
                    "-o",
                    "KexAlgorithms=curve25519-sha256",
                    "-o",
                    "Ciphers=aes128-ctr",
                ],
            };
            args.extend(others.iter().map(|&other| other.to_owned()));
            args.extend(setup.lab.client_options());
            args.extend(["-p".into(), setup.server.port_arg(), target(), "cat".into()]);
            let ran = setup.lab.run_with(&ssh, &args, setup.stdin("small")).ok(name);
            assert!(ran.out == std::fs::read(setup.lab.path("small")).unwrap(), "{name}: data differ");
            tried += 1;
        }
    }
    assert!(tried >= 20, "only {tried} algorithms in common");
    for host_key in ["ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256"] {
        let mut args = vec!["-o".to_owned(), format!("HostKeyAlgorithms={host_key}")];
        args.extend(setup.lab.client_options());
        args.extend(["-p".into(), setup.server.port_arg(), target(), "true".into()]);
        setup.lab.run(&ssh, &args).ok(host_key);
    }
}

#[test]
fn openssh_scp_and_sftp_move_files_and_trees() {
    let Some([scp, sftp]) = peers("openssh_scp_sftp", ["scp", "sftp"]) else { return };
    let setup = OurServerSetup::new("");
    make_tree(&setup.lab.path("tree"), 300);
    let remote = |path: &str| format!("{}:{}", target(), setup.lab.arg(path));
    let copy = |from: &str, to: &str, flags: &[&str]| {
        let mut args: Vec<String> = flags.iter().map(|&each| each.to_owned()).collect();
        args.extend(setup.lab.client_options());
        args.extend(["-P".into(), setup.server.port_arg(), from.into(), to.into()]);
        setup.lab.run(&scp, &args).ok("scp");
    };
    copy(&setup.lab.arg("blob"), &remote("up"), &["-p"]);
    setup.same("up");
    copy(&remote("up"), &setup.lab.arg("down"), &["-l", "4000000"]);
    setup.same("down");
    copy(&setup.lab.arg("tree"), &remote("tree.up"), &["-r"]);
    assert_same_tree(&setup.lab.path("tree"), &setup.lab.path("tree.up"));
    copy(&remote("tree.up"), &setup.lab.arg("tree.down"), &["-rp"]);
    assert_same_tree(&setup.lab.path("tree"), &setup.lab.path("tree.down"));
    setup.rekeyed();

    let dir = setup.lab.arg("sftp");
    setup.lab.write(
        "batch",
        &format!(
            "mkdir {dir}\ncd {dir}\nput {blob} one\nrename one two\nln two hard\nln -s two soft\nchmod 600 two\n\
             get soft {blob}.sftp\ndf\nls -la\ncp two three\nrm two\nrm hard\nrm soft\nrm three\ncd ..\nrmdir {dir}\n",
            blob = setup.lab.arg("blob")
        ),
    );
    let mut args = setup.lab.client_options();
    args.extend(["-P".into(), setup.server.port_arg(), "-b".into(), setup.lab.arg("batch"), target()]);
    setup.lab.run(&sftp, &args).ok("sftp");
    setup.same("blob.sftp");
    assert!(!Path::new(&dir).exists(), "rmdir left {dir}");
}

#[test]
fn dropbear_dbclient() {
    let Some([dbclient, convert]) = peers("dropbear_dbclient", ["dbclient", "dropbearconvert"]) else {
        return;
    };
    let setup = OurServerSetup::rekeying_often();
    let key = setup.lab.arg("user.dropbear");
    setup
        .lab
        .run(&convert, &["openssh", "dropbear", &setup.lab.arg("user_ed25519"), &key])
        .ok("dropbearconvert");
    let up = setup.lab.arg("up");
    let args = |command: String| {
        vec![
            "-y".into(),
            "-y".into(),
            "-T".into(),
            "-i".into(),
            key.clone(),
            "-p".into(),
            setup.server.port_arg(),
            target(),
            command,
        ]
    };
    let ran = setup.lab.run(&dbclient, &args("exit 9".into()));
    assert_eq!(ran.code, 9, "{}", ran.err);
    setup.lab.run_with(&dbclient, &args(format!("cat > {up}")), setup.stdin("blob")).ok("pipe up");
    setup.same("up");
    let down = setup.lab.run(&dbclient, &args(format!("cat {up}"))).ok("pipe down");
    std::fs::write(setup.lab.path("down"), down.out).unwrap();
    setup.same("down");
    setup.rekeyed_often();
}

#[test]
fn putty_plink_pscp_psftp() {
    let Some([plink, pscp, psftp, puttygen]) = peers("putty", ["plink", "pscp", "psftp", "puttygen"]) else {
        return;
    };
    let setup = OurServerSetup::rekeying_often();
    let key = setup.lab.arg("user.ppk");
    setup.lab.run(&puttygen, &[&setup.lab.arg("user_ed25519"), "-o", &key, "-O", "private"]).ok("puttygen");
    let fingerprint = setup.lab.sh("ssh-keygen -lf host_ed25519.pub").ok("fingerprint").text();
    let fingerprint = fingerprint.split_whitespace().nth(1).unwrap().to_owned();
    let base = || {
        vec![
            "-batch".to_owned(),
            "-P".into(),
            setup.server.port_arg(),
            "-i".into(),
            key.clone(),
            "-hostkey".into(),
            fingerprint.clone(),
        ]
    };
    let with = |extra: &[&str]| {
        let mut args = base();
        args.extend(extra.iter().map(|&each| each.to_owned()));
        args
    };
    let ran = setup.lab.run(&plink, &with(&[&target(), "echo out; exit 5"]));
    assert_eq!((ran.code, ran.text().as_str()), (5, "out\n"), "{}", ran.err);
    let up = setup.lab.arg("up");
    setup
        .lab
        .run_with(&plink, &with(&[&target(), &format!("cat > {up}")]), setup.stdin("blob"))
        .ok("plink up");
    setup.same("up");
    let blob = setup.lab.arg("blob");
    setup
        .lab
        .run(&pscp, &with(&["-sftp", "-q", &blob, &format!("{}:{}", target(), setup.lab.arg("up2"))]))
        .ok("pscp up");
    setup.same("up2");
    setup
        .lab
        .run(&pscp, &with(&["-sftp", "-q", &format!("{}:{up}", target()), &setup.lab.arg("down")]))
        .ok("pscp down");
    setup.same("down");
    setup.lab.write("script", &format!("get {up} {}\nput {blob} {up}3\nls\nquit\n", setup.lab.arg("down2")));
    setup.lab.run(&psftp, &with(&["-b", &setup.lab.arg("script"), &target()])).ok("psftp");
    setup.same("down2");
    setup.same("up3");
    setup.rekeyed_often();
}

fn python_client(script: &str, module: &str) {
    let python = Path::new("/usr/bin/python3");
    let lab_has = |lab: &Lab| lab.run(python, &["-W", "ignore", "-c", &format!("import {module}")]).code == 0;
    let setup = OurServerSetup::rekeying_often();
    if !lab_has(&setup.lab) {
        return skip(module, &format!("Debian's python3-{module} is not installed"));
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(script);
    setup
        .lab
        .run(
            python,
            &["-W", "ignore", &script.to_string_lossy(), &setup.server.port_arg(), &me(), &setup.lab.arg("")],
        )
        .ok(module);
    for name in ["pipe.up", "pipe.down", "sftp.up", "sftp.down"] {
        setup.same(name);
    }
    setup.rekeyed_often();
}

#[test]
fn paramiko_client() {
    python_client("paramiko_client.py", "paramiko");
}

#[test]
fn asyncssh_client() {
    python_client("asyncssh_client.py", "asyncssh");
}

#[test]
fn go_x_crypto_ssh() {
    let Some([go]) = peers("go_x_crypto_ssh", ["go"]) else { return };
    if !Path::new("/usr/share/gocode/src/golang.org/x/crypto/ssh").is_dir() {
        return skip("go_x_crypto_ssh", "Debian's golang-golang-x-crypto-dev is not installed");
    }
    let setup = OurServerSetup::rekeying_often();
    let client = setup.lab.path("goclient");
    build_from_debian_s_go(&go, &peer_script("go/main.go"), &client);
    let args = [setup.server.port_arg(), me(), setup.lab.arg("")];
    setup.lab.run(&client, &args).ok("go client");
    for name in ["pipe.up", "pipe.down", "sftp.up", "sftp.down"] {
        setup.same(name);
    }
    setup.rekeyed_often();
}

#[test]
fn curl_sftp() {
    let Some([curl]) = peers("curl_sftp", ["curl"]) else { return };
    if !is_root() {
        return skip("curl_sftp", "needs root to add a user with a password");
    }
    // Debian's curl links libssh2 1.10, which signs with SHA-1 RSA only, so it uses the password.
    let setup = OurServerSetup::new(
        "PasswordAuthentication yes\nHostKeyAlgorithms +ssh-rsa\n\
         KexAlgorithms +diffie-hellman-group-exchange-sha256,diffie-hellman-group14-sha256",
    );
    let user = TestUser::new(&setup.lab);
    let up = user.home.join("up").to_string_lossy().into_owned();
    let url = format!("sftp://127.0.0.1:{}{up}", setup.server.port);
    let login = format!("{}:{}", user.name, user.password);
    let blob = setup.lab.arg("blob");
    setup.lab.run(&curl, &["-sS", "--insecure", "-u", &login, "-T", &blob, &url]).ok("curl up");
    assert_same_file(&setup.lab.path("blob"), Path::new(&up));
    setup
        .lab
        .run(&curl, &["-sS", "--insecure", "-u", &login, "-o", &setup.lab.arg("down"), &url])
        .ok("curl down");
    setup.same("down");
    setup.rekeyed();
}

#[test]
fn lftp_mirrors_a_tree() {
    let Some([lftp, ssh]) = peers("lftp", ["lftp", "ssh"]) else { return };
    let setup = OurServerSetup::new("");
    make_tree(&setup.lab.path("tree"), 200);
    let connect = setup.lab.shell_command(&ssh, setup.server.port);
    let script = format!(
        "set cmd:fail-exit yes; set net:max-retries 1; set sftp:connect-program \"{connect} -a -x\"; \
         open sftp://{user}:@127.0.0.1; put {dir}/blob -o {dir}/up; get {dir}/up -o {dir}/down; \
         mirror -R {dir}/tree {dir}/tree.up; mirror {dir}/tree.up {dir}/tree.down; bye",
        user = me(),
        dir = setup.lab.dir().display()
    );
    setup.lab.run(&lftp, &["--norc", "-c", &script]).ok("lftp");
    setup.same("up");
    setup.same("down");
    assert_same_tree(&setup.lab.path("tree"), &setup.lab.path("tree.down"));
    setup.rekeyed();
}

#[test]
fn sshfs_mounts_and_copies() {
    let Some([sshfs, fusermount, ssh]) = peers("sshfs", ["sshfs", "fusermount3", "ssh"]) else { return };
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return skip("sshfs", "/dev/fuse cannot be opened");
    }
    let setup = OurServerSetup::new("");
    make_tree(&setup.lab.path("tree"), 100);
    std::fs::create_dir_all(setup.lab.path("mnt")).unwrap();
    std::fs::create_dir_all(setup.lab.path("export")).unwrap();
    let command = setup.lab.shell_command(&ssh, setup.server.port);
    let mount = setup.lab.arg("mnt");
    setup
        .lab
        .run(
            &sshfs,
            &[
                &format!("{}:{}", target(), setup.lab.arg("export")),
                &mount,
                "-o",
                &format!("ssh_command={command}"),
            ],
        )
        .ok("sshfs");
    let work = setup
        .lab
        .sh("cp blob mnt/up && cp mnt/up down && cp -r tree mnt/tree && mv mnt/up mnt/up2 && ls -l mnt");
    setup.lab.run(&fusermount, &["-u", &mount]).ok("fusermount3 -u");
    work.ok("file operations on the mount");
    setup.same("down");
    setup.same("export/up2");
    assert_same_tree(&setup.lab.path("tree"), &setup.lab.path("export/tree"));
    setup.rekeyed();
}

#[test]
fn rsync_and_git_through_openssh() {
    let Some([ssh, _, _]) = peers("rsync_git", ["ssh", "rsync", "git"]) else { return };
    let setup = OurServerSetup::new("");
    rsync_and_git(&setup.lab, &setup.lab.shell_command(&ssh, setup.server.port));
    setup.rekeyed();
}

/// Runs rsync and git over any remote shell program.
fn rsync_and_git(lab: &Lab, shell: &str) {
    make_tree(&lab.path("tree"), 200);
    let target = target();
    lab.write(
        "work.sh",
        &format!(
            "set -e; cd {dir}; export GIT_SSH_COMMAND='{shell}' GIT_CONFIG_GLOBAL=/dev/null\n\
             rsync -a -e '{shell}' tree/ {target}:{dir}/tree.up/\n\
             rsync -a -e '{shell}' {target}:{dir}/tree.up/ tree.down/\n\
             rsync -a -e '{shell}' blob {target}:{dir}/up\n\
             rsync -a -e '{shell}' {target}:{dir}/up down\n\
             git init -q --bare repo.git; git init -q work; cd work\n\
             git config user.email t@example.org; git config user.name t\n\
             cp ../blob big; cp -r ../tree .; git add -A; git commit -qm one\n\
             git push -q {target}:{dir}/repo.git HEAD:refs/heads/main\n\
             cd ..; git clone -q -b main {target}:{dir}/repo.git clone\n",
            dir = lab.dir().display()
        ),
    );
    lab.run(Path::new("/bin/bash"), &[lab.arg("work.sh")]).ok("rsync and git");
    assert_same_tree(&lab.path("tree"), &lab.path("tree.up"));
    assert_same_tree(&lab.path("tree"), &lab.path("tree.down"));
    assert_same_file(&lab.path("blob"), &lab.path("up"));
    assert_same_file(&lab.path("blob"), &lab.path("down"));
    assert_same_file(&lab.path("blob"), &lab.path("clone/big"));
}

#[test]
fn our_own_shell_serves_rsync_and_git_as_well() {
    let Some([_, _]) = peers("rsync_git_ours", ["rsync", "git"]) else { return };
    let setup = OurServerSetup::new("");
    rsync_and_git(&setup.lab, &setup.lab.shell_command(&our("lhssh"), setup.server.port));
}
