//! `lhscp` and `lhsftp` with the SFTP servers of libraries and appliances; files are compared byte by byte.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use lh_interop::{
    ForeignServer, Inetd, Lab, Ran, TestUser, assert_same_file, assert_same_tree, fetched_peers, is_root,
    make_blob, maven_class_path, me, npm_modules, our, peer_script, peers, russh_peer, safe_directory, skip,
};

const PYTHON: &str = "/usr/bin/python3";

/// How a server stores the target of a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Targets {
    /// Unchanged.
    Kept,
    /// Made absolute, relative to the server's directory.
    MadeAbsolute,
}

impl Targets {
    /// Checks that `link` has the requested target.
    fn check(self, link: &Path, asked: &str) {
        let made = fs::read_link(link).unwrap_or_else(|error| panic!("{}: {error}", link.display()));
        match self {
            Self::Kept => assert_eq!(made, Path::new(asked), "{}", link.display()),
            Self::MadeAbsolute => {
                let end = asked.trim_start_matches("../").trim_start_matches('/');
                assert!(made.is_absolute() && made.ends_with(end), "{}: {}", link.display(), made.display());
            }
        }
    }
}

/// A server, and a directory that it may write to.
struct Site<'a> {
    lab: &'a Lab,
    port: u16,
    user: String,
    dir: PathBuf,
    /// Options for servers that do not have the lab's host keys.
    options: Vec<String>,
    /// Keeps the server's user until the test ends.
    _user: Option<TestUser>,
}

impl<'a> Site<'a> {
    fn new(lab: &'a Lab, port: u16) -> Self {
        fs::create_dir_all(lab.path("far")).unwrap();
        Self { lab, port, user: me(), dir: lab.path("far"), options: Vec::new(), _user: None }
    }

    /// A site with a directory in the home of a user made for it.
    fn of_user(lab: &'a Lab, port: u16, user: TestUser) -> Self {
        let dir = user.home.join("far");
        let (name, path) = (user.name.clone(), dir.display().to_string());
        lab.run(Path::new("install"), &["-d", "-o", &name, &path]).ok("install");
        Self { user: name, dir, _user: Some(user), ..Self::new(lab, port) }
    }

    fn args(&self, flags: &[&str]) -> Vec<String> {
        let mut args = self.options.clone();
        args.extend(self.lab.client_options());
        args.extend(["-P".to_owned(), self.port.to_string()]);
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        args
    }

    fn far(&self, name: &str) -> String {
        format!("{}@127.0.0.1:{}/{name}", self.user, self.dir.display())
    }

    fn scp(&self, flags: &[&str], from: &str, to: &str) -> Ran {
        let mut args = self.args(flags);
        args.extend([from.to_owned(), to.to_owned()]);
        self.lab.run(&our("lhscp"), &args)
    }

    /// Runs the commands as a batch.
    fn sftp(&self, commands: &str) -> Ran {
        self.lab.write("batch", commands);
        let mut args = self.args(&["-b", &self.lab.arg("batch")]);
        args.push(format!("{}@127.0.0.1", self.user));
        self.lab.run(&our("lhsftp"), &args)
    }

    /// Copies of all kinds in both directions, by both programs.
    fn exercise(&self, targets: Targets) {
        let (lab, dir) = (self.lab, &self.dir);
        make_blob(&lab.path("blob"), 8 << 20);
        make_small(&lab.path("small"));

        self.scp(&[], &lab.arg("blob"), &self.far("up")).ok("lhscp up");
        assert_same_file(&lab.path("blob"), &dir.join("up"));
        self.scp(&[], &self.far("up"), &lab.arg("down")).ok("lhscp down");
        assert_same_file(&lab.path("blob"), &lab.path("down"));
        self.scp(&["-rp"], &lab.arg("small"), &self.far("small")).ok("lhscp -r up");
        assert_same_tree(&lab.path("small"), &dir.join("small"));
        self.scp(&["-rp"], &self.far("small"), &lab.arg("small.down")).ok("lhscp -r down");
        assert_same_tree(&lab.path("small"), &lab.path("small.down"));
        for tree in [dir.join("small"), lab.path("small.down")] {
            let meta = fs::metadata(tree.join("file 7")).unwrap();
            assert_eq!((meta.mtime(), meta.mode() & 0o777), (1_600_000_007, 0o640), "{}", tree.display());
        }
        // Over an existing, longer file.
        make_blob(&lab.path("short"), 100_001);
        self.scp(&[], &lab.arg("short"), &self.far("up")).ok("lhscp over a longer file");
        assert_same_file(&lab.path("short"), &dir.join("up"));

        let (here, there) = (lab.dir().display(), dir.display());
        let commands = format!(
            "mkdir {there}/d\n\
             put -p {here}/blob {there}/d/blob\n\
             get -p {there}/d/blob {here}/blob.sftp\n\
             put -R -p {here}/small {there}/d/small\n\
             get -R -p {there}/d/small {here}/small.sftp\n\
             rename {there}/d/blob {there}/d/renamed\n\
             put {here}/short {there}/d/gone\n\
             rm {there}/d/gone\n\
             ls -l {there}/d\n"
        );
        let ran = self.sftp(&commands).ok("lhsftp");
        assert_same_file(&lab.path("blob"), &lab.path("blob.sftp"));
        assert_same_file(&lab.path("blob"), &dir.join("d/renamed"));
        assert_same_tree(&lab.path("small"), &dir.join("d/small"));
        assert_same_tree(&lab.path("small"), &lab.path("small.sftp"));
        let text = ran.text();
        let listed = |name: &str| text.lines().any(|line| !line.starts_with("sftp>") && line.contains(name));
        assert!(listed("renamed") && listed("small") && !listed("gone"), "{text}");
        assert_eq!(part_files(dir), Vec::<PathBuf>::new(), "left over");
        self.make_links(targets);
        self.copy_links(targets);
    }

    /// Completes files of which the first part exists, in both directions.
    fn resume(&self) {
        let (lab, dir) = (self.lab, &self.dir);
        let whole = fs::read(lab.path("blob")).unwrap();
        fs::write(dir.join("half"), &whole[..whole.len() / 2]).unwrap();
        fs::write(lab.path("half"), &whole[..whole.len() / 3]).unwrap();
        let (here, there) = (lab.dir().display(), dir.display());
        let commands = format!("reput {here}/blob {there}/half\nreget {there}/half {here}/half\n");
        self.sftp(&commands).ok("lhsftp reput and reget");
        assert_same_file(&lab.path("blob"), &dir.join("half"));
        assert_same_file(&lab.path("blob"), &lab.path("half"));
    }

    /// Makes links with `lhsftp`, to an existing file and to none.
    fn make_links(&self, targets: Targets) {
        let dir = &self.dir;
        fs::create_dir_all(dir.join("links")).unwrap();
        fs::set_permissions(dir.join("links"), fs::Permissions::from_mode(0o777)).unwrap();
        let there = dir.display();
        let commands = format!(
            "ln -s {there}/up {there}/links/absolute\n\
             ln -s nowhere {there}/links/dangling\n\
             cd {there}/links\n\
             ln -s ../up relative\n\
             ls -l\n"
        );
        self.sftp(&commands).ok("lhsftp ln -s");
        targets.check(&dir.join("links/absolute"), dir.join("up").to_str().unwrap());
        targets.check(&dir.join("links/dangling"), "nowhere");
        targets.check(&dir.join("links/relative"), "../up");
        assert_eq!(fs::read_dir(dir.join("links")).unwrap().count(), 3);
    }

    /// Copies a tree with a link in it with `lhscp`.
    fn copy_links(&self, targets: Targets) {
        let (lab, dir) = (self.lab, &self.dir);
        std::os::unix::fs::symlink("file 1", lab.path("small/link to a file")).unwrap();
        self.scp(&["-r", "--links"], &lab.arg("small"), &self.far("with links")).ok("lhscp with links");
        targets.check(&dir.join("with links/link to a file"), "file 1");
        fs::remove_file(lab.path("small/link to a file")).unwrap();
    }
}

/// Makes forty files of sizes up to 120 KB, each with its own time.
fn make_small(root: &Path) {
    fs::create_dir_all(root.join("below")).unwrap();
    for number in 0..40_u32 {
        let name = if number % 3 == 0 { format!("below/file {number}") } else { format!("file {number}") };
        let path = root.join(name);
        make_blob(&path, (number * number * 75) as usize);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000 + u64::from(number));
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }
}

/// Returns the part files that were not renamed at completion.
fn part_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if hidden {
            found.push(path.clone());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(part_files(&path));
        }
    }
    found
}

fn has_module(lab: &Lab, module: &str) -> bool {
    lab.run(Path::new(PYTHON), &["-W", "ignore", "-c", &format!("import {module}")]).code == 0
}

#[test]
fn erlang_server_copies_and_links() {
    let Some([escript]) = peers("erlang_server", ["escript"]) else { return };
    let lab = Lab::new();
    let server = ForeignServer::start(&lab, &escript, &[peer_script("erlang_server.escript"), lab.arg("")]);
    Site::new(&lab, server.port).exercise(Targets::MadeAbsolute);
}

#[test]
fn node_ssh2_server_copies_and_links() {
    let Some([node]) = peers("node_ssh2_server", ["node"]) else { return };
    let Some(modules) = npm_modules("node_ssh2_server", "ssh2") else { return };
    let lab = Lab::new();
    let words = [peer_script("node_server.js"), lab.arg(""), modules.to_string_lossy().into_owned()];
    let server = ForeignServer::start(&lab, &node, &words);
    Site::new(&lab, server.port).exercise(Targets::Kept);
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
    Site::new(&lab, server.port).exercise(Targets::MadeAbsolute);
}

#[test]
fn asyncssh_server_copies_and_links() {
    let lab = Lab::new();
    if !has_module(&lab, "asyncssh") {
        return skip("asyncssh_server", "Debian's python3-asyncssh is not installed");
    }
    let words = ["-W", "ignore", &peer_script("asyncssh_server.py"), &lab.arg("")];
    let server = ForeignServer::start(&lab, Path::new(PYTHON), &words);
    Site::new(&lab, server.port).exercise(Targets::Kept);
}

#[test]
fn gliderlabs_server_copies_and_links() {
    let Some([go]) = peers("gliderlabs_server", ["go"]) else { return };
    if !Path::new("/usr/share/gocode/src/github.com/gliderlabs/ssh").is_dir() {
        return skip("gliderlabs_server", "Debian's golang-github-gliderlabs-ssh-dev is not installed");
    }
    let lab = Lab::new();
    lab.sh(&format!(
        "GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE={cache} GOFLAGS= {go} build -o {bin} {source}",
        cache = fetched_peers().join("gocache").display(),
        go = go.display(),
        bin = lab.arg("goserver"),
        source = peer_script("go_server/main.go")
    ))
    .ok("go build");
    let server = ForeignServer::start(&lab, &lab.path("goserver"), &[lab.arg("")]);
    Site::new(&lab, server.port).exercise(Targets::Kept);
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
    let site = Site::new(&lab, server.port);
    site.exercise(Targets::Kept);
    site.resume();
}

/// With the defaults, and with bulk: where about 100 messages wait for it (`channel_buffer_size`), russh's server stops for
/// good.
#[test]
fn russh_server_copies_and_links() {
    let Some(russh) = russh_peer("russh_server") else { return };
    let lab = Lab::new();
    let server = ForeignServer::start(&lab, &russh, &["server".to_owned(), lab.arg("")]);
    Site::new(&lab, server.port).exercise(Targets::Kept);
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
}

#[test]
fn apache_mina_server_copies_and_links() {
    let Some([java]) = peers("apache_mina_server", ["java"]) else { return };
    let Some(class_path) = maven_class_path("apache_mina_server") else { return };
    let lab = Lab::new();
    let words = ["-cp".to_owned(), class_path, peer_script("MinaServer.java"), lab.arg("")];
    let server = ForeignServer::start(&lab, &java, &words);
    Site::new(&lab, server.port).exercise(Targets::Kept);
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
    Site::of_user(&lab, server.port, user).exercise(Targets::Kept);
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
    user.home = safe.path().join("home");
    let home = user.home.display().to_string();
    lab.run(Path::new("usermod"), &["-m", "-d", &home, &user.name]).ok("usermod");
    lab.run(&makekey, &[lab.arg("tiny")]).ok("tinysshd-makekey");
    // Debian's tinysshd predates strict key exchange; it has one host key, which it makes itself.
    let args = ["-x".to_owned(), format!("sftp={sftp}"), lab.arg("tiny")];
    let server = Inetd::start(&lab, &tinysshd, &args);
    let options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"];
    let site =
        Site { options: options.map(str::to_owned).to_vec(), ..Site::of_user(&lab, server.port, user) };
    site.exercise(Targets::Kept);
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
    let site = Site::new(&lab, server.port);

    make_blob(&lab.path("tiny"), 1500);
    let commands = format!("put {} {}\n", lab.arg("tiny"), lab.arg("far/tiny"));
    site.sftp(&commands).ok("lhsftp put of 1,500 bytes");
    assert_same_file(&lab.path("tiny"), &lab.path("far/tiny"));
    site.scp(&[], &lab.arg("tiny"), &site.far("tiny.scp")).ok("lhscp of 1,500 bytes");
    assert_same_file(&lab.path("tiny"), &lab.path("far/tiny.scp"));

    site.exercise(Targets::Kept);
    site.resume();
    site.scp(&["-r", "--links"], &site.far("links"), &lab.arg("links")).ok("lhscp of links, down");
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
    let options = ["-S".to_owned(), our("lhssh").to_string_lossy().into_owned()];
    let site = Site { options: options.to_vec(), ..Site::new(&lab, server.port) };
    make_blob(&lab.path("far/up"), 1000);
    site.make_links(Targets::Kept);
}
