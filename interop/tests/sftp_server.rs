//! Administrators' flags of the SFTP server, with equal effects in `lhsftp-server` and `internal-sftp`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use lh_interop::{
    Inetd, Lab, Lhsshd, Ran, assert_same_tree, eventually, is_root, make_tree, me, our, peers, skip,
    uninterrupted,
};

/// How the server with its flags is started.
enum Server {
    /// `lhsftp-server`, on pipes.
    Program,
    /// `Subsystem sftp internal-sftp …` of `lhsshd`.
    Subsystem,
    /// `ForceCommand internal-sftp …` of `lhsshd`.
    Forced,
}

/// Runs a batch through a server with `flags`; the server's log is appended to the client's messages.
fn batch(lab: &Lab, server: &Server, flags: &str, script: &str) -> Ran {
    lab.write("script", script);
    let sftp = our("lhsftp");
    let mut args = vec!["-b".to_owned(), "script".to_owned()];
    let config = match server {
        Server::Program => {
            args.extend(["-D".to_owned(), format!("{} {flags}", our("lhsftp-server").display())]);
            return lab.run(&sftp, &args);
        }
        Server::Subsystem => format!("Subsystem sftp internal-sftp {flags}\n"),
        Server::Forced => format!("ForceCommand internal-sftp {flags}\n"),
    };
    let server = Lhsshd::start(lab, &config);
    args.extend(lab.client_options());
    args.extend(["-P".to_owned(), server.port_arg(), format!("{}@127.0.0.1", me())]);
    let mut ran = lab.run(&sftp, &args);
    // The last lines are written after the client's end.
    eventually("the session ends", || server.log().contains(" ended: "));
    ran.err.push_str(&server.log());
    ran
}

fn everywhere(test: impl Fn(&Lab, &Server)) {
    let lab = Lab::new();
    for server in [Server::Program, Server::Subsystem, Server::Forced] {
        lab.sh("rm -rf work; mkdir -p work/inside; echo text > work/file; chmod 644 work/file").ok("files");
        test(&lab, &server);
    }
}

/// Covers: sftp-server -R; sshd_config Subsystem; sshd_config ForceCommand
#[test]
fn a_read_only_server_changes_nothing() {
    everywhere(|lab, server| {
        let work = lab.path("work").display().to_string();
        for change in [
            "put script new",
            "rm file",
            "mkdir x",
            "rmdir inside",
            "rename file x",
            "ln -s a b",
            "chmod 600 file",
            "cp file x",
        ] {
            let ran = batch(lab, server, "-R", &format!("cd {work}\n{change}\n"));
            assert_eq!(ran.code, 1, "{change}: {}", ran.err);
        }
        let ran = batch(lab, server, "-R", &format!("cd {work}\nls -l\nget file {}\n", lab.arg("read")));
        assert_eq!(ran.ok("reading").code, 0);
        assert_eq!(fs::read(lab.path("read")).unwrap(), b"text\n");
        assert_eq!(lab.sh("ls work").text(), "file\ninside\n");
    });
}

/// Covers: sftp-server -P; sftp-server -p
#[test]
fn requests_are_allowed_and_denied_by_name() {
    everywhere(|lab, server| {
        let work = lab.path("work").display().to_string();
        let ran = batch(
            lab,
            server,
            "-P remove,rmdir",
            &format!("-rm {work}/file\n-rmdir {work}/inside\nmkdir {work}/x\n"),
        );
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(ran.err.matches("Permission denied").count(), 2, "{}", ran.err);
        assert!(
            lab.path("work/file").exists() && lab.path("work/inside").exists() && lab.path("work/x").exists()
        );
        // Of two lists it is not known which one is meant.
        for flags in ["-P remove -P rmdir", "-p realpath -p realpath,remove"] {
            assert_ne!(batch(lab, server, flags, "pwd\n").code, 0, "{flags}");
        }
        let allowed = "-p realpath,stat,lstat,opendir,readdir,close";
        let ran = batch(lab, server, allowed, &format!("ls {work}\n-get {work}/file got\n-mkdir {work}/y\n"));
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.text().contains("inside") && !lab.path("got").exists() && !lab.path("work/y").exists());
        // Files are accepted although their attributes may not be set.
        let allowed = "-p realpath,stat,lstat,open,close,write";
        batch(lab, server, allowed, &format!("put script {work}/new\n")).ok("no fsetstat");
        assert_eq!(fs::read(lab.path("work/new")).unwrap(), fs::read(lab.path("script")).unwrap());
        // No old tail remains: OPEN truncates the file.
        lab.sh("head -c 1000 /dev/zero > work/new").ok("head");
        batch(lab, server, allowed, &format!("put script {work}/new\n")).ok("over a longer file");
        assert_eq!(fs::read(lab.path("work/new")).unwrap(), fs::read(lab.path("script")).unwrap());
    });
}

/// Covers: sftp-server -u; sftp-server -d
#[test]
fn umask_and_start_directory_hold() {
    everywhere(|lab, server| {
        let work = lab.path("work").display().to_string();
        let ran = batch(lab, server, &format!("-u 027 -d {work}"), "pwd\nmkdir made\nput script put\n")
            .ok("a batch");
        assert!(ran.text().contains(&format!("Remote working directory: {work}\n")), "{}", ran.text());
        let mode =
            |name: &str| fs::metadata(lab.path("work").join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("made"), mode("put")), (0o750, 0o600));
        lab.sh("chmod 666 script").ok("chmod");
        let ran = batch(lab, server, &format!("-u 027 -d {work}"), "cp file copy\n");
        assert_eq!((ran.ok("a copy").code, mode("copy")), (0, 0o640));
        let ran = batch(lab, server, "-d /no/such/dir", "pwd\n").ok("another directory than asked for");
        assert!(ran.text().contains("Remote working directory: /"));
    });
}

/// Covers: sftp-server -l; sftp-server -e
#[test]
fn sftp_server_log_has_openssh_format() {
    everywhere(|lab, server| {
        let work = lab.path("work").display().to_string();
        let script = format!("put script {work}/new\nget {work}/new got\nmkdir {work}/x\nrm {work}/new\n");
        let to_stderr = if matches!(server, Server::Program) { "-e" } else { "" };
        let ran = batch(lab, server, &format!("{to_stderr} -l INFO"), &script).ok("a batch");
        let size = fs::metadata(lab.path("got")).unwrap().len();
        for line in [
            format!("session opened for local user {} from [", me()),
            format!("open \"{work}/new\" flags WRITE,CREATE mode 0600"),
            format!("close \"{work}/new\" bytes read 0 written {size}"),
            format!("open \"{work}/new\" flags READ mode 0666"),
            format!("close \"{work}/new\" bytes read {size} written 0"),
            format!("mkdir name \"{work}/x\" mode 0777"),
            format!("remove name \"{work}/new\""),
            format!("session closed for local user {} from [", me()),
        ] {
            assert!(ran.err.contains(&line), "{line}\n{}", ran.err);
        }
        assert!(!ran.err.contains("realpath \""), "{}", ran.err);
        let ran = batch(lab, server, &format!("{to_stderr} -l VERBOSE"), "pwd\n").ok("a batch");
        assert!(ran.err.contains("realpath \".\""), "{}", ran.err);
        let ran = batch(lab, server, to_stderr, &format!("get {work}/file got\n")).ok("a batch");
        assert!(!ran.err.contains("open \""), "{}", ran.err);
    });
}

/// With `-e` the log of an `internal-sftp` goes to the client.
#[test]
fn a_log_on_standard_error_reaches_the_client() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "Subsystem sftp internal-sftp -e -l INFO\n");
    lab.write("script", "ls /\n");
    let mut args = vec!["-b".to_owned(), "script".to_owned()];
    args.extend(lab.client_options());
    args.extend(["-P".to_owned(), server.port_arg(), format!("{}@127.0.0.1", me())]);
    let ran = lab.run(&our("lhsftp"), &args).ok("a batch");
    assert!(ran.err.contains("opendir \"/\"") && ran.err.contains("closedir \"/\""), "{}", ran.err);
    assert!(!server.log().contains("opendir"), "{}", server.log());
}

/// Covers: sftp-server -f
#[test]
fn the_system_s_log_has_the_facility_asked_for() {
    // A machine has one socket for the system log: the test can use it only where no logger listens.
    let socket = std::path::Path::new("/dev/log");
    if !is_root() || socket.exists() {
        return skip(
            "the_system_s_log_has_the_facility_asked_for",
            "needs root and no syslog of the machine",
        );
    }
    let lab = Lab::new();
    let log = std::os::unix::net::UnixDatagram::bind(socket).unwrap();
    log.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let line = || {
        let mut line = [0; 4096];
        let read = uninterrupted(|| log.recv(&mut line));
        read.map(|read| String::from_utf8_lossy(&line[..read]).into_owned())
    };
    batch(&lab, &Server::Program, "-f LOCAL3 -l INFO", "ls /\n").ok("a batch");
    let first = line();
    fs::remove_file(socket).unwrap();
    let first = first.unwrap();
    // LOCAL3 is 19, INFO is 6.
    assert!(first.starts_with("<158>sftp-server["), "{first}");
    assert!(first.contains("session opened for local user"), "{first}");
}

/// Covers: sftp-server -Q; sftp-server -h
#[test]
fn sftp_server_answers_queries_and_bad_input() {
    let lab = Lab::new();
    let server = our("lhsftp-server");
    let ran = lab.run(&server, &["-Q", "requests"]).ok("-Q requests");
    let theirs = std::path::Path::new("/usr/lib/openssh/sftp-server");
    if theirs.exists() {
        let theirs = lab.run(theirs, &["-Q", "requests"]).ok("-Q requests of theirs");
        for name in theirs.text().lines() {
            assert!(ran.text().lines().any(|line| line == name), "{name} is missing");
        }
    } else {
        skip("sftp_server_requests_beside_openssh", "OpenSSH's sftp-server is not installed");
    }
    assert_eq!(lab.run(&server, &["-Q", "nonsense"]).code, 1);
    for wrong in [&["-Z"][..], &["-u", "999"], &["-l", "loud"], &["-f", "nowhere"], &["operand"], &["-h"]] {
        let ran = lab.run(&server, wrong);
        assert_eq!(ran.code, 1, "{wrong:?}");
        assert!(!ran.err.is_empty(), "{wrong:?}");
    }
    // Not SFTP.
    lab.write("nonsense", &"x".repeat(100));
    let ran = lab.run_with::<&str>(&server, &["-e"], fs::File::open(lab.path("nonsense")).unwrap().into());
    assert_eq!((ran.code, ran.err.trim()), (11, "bad message: 2021161080 bytes long"));
}

/// Who may only transfer files must not write to the server's own memory, and so run code.
///
/// Covers: sftp-server (/proc/self/mem)
#[test]
fn the_server_s_own_memory_is_closed() {
    let lab = Lab::new();
    // Root may open everything: the program runs as another user, who may not be able to reach ours.
    let program = lab.path("lhsftp-server");
    lab.run(Path::new("cp"), &[our("lhsftp-server"), program.clone()]).ok("cp");
    let mut server = Command::new(&program);
    if is_root() {
        server.uid(65_534).gid(65_534);
    }
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut requests = vec![0, 0, 0, 5, 1, 0, 0, 0, 3];
    for (id, path) in (7_u8..).zip(["/proc/self/mem", "/proc/self/status"]) {
        let mut open = vec![3, 0, 0, 0, id, 0, 0, 0, path.len() as u8];
        open.extend(path.as_bytes());
        let flags = if path.ends_with("mem") { 3 } else { 1 };
        open.extend([0, 0, 0, flags, 0, 0, 0, 0]);
        requests.extend([0, 0, 0, open.len() as u8]);
        requests.extend(open);
    }
    server.stdin.take().unwrap().write_all(&requests).unwrap();
    let mut replies = Vec::new();
    server.stdout.take().unwrap().read_to_end(&mut replies).unwrap();
    server.wait().unwrap();
    // STATUS with PERMISSION_DENIED, and a HANDLE.
    let has = |wanted: &[u8]| replies.windows(wanted.len()).any(|bytes| bytes == wanted);
    assert!(has(&[101, 0, 0, 0, 7, 0, 0, 0, 3]), "{replies:?}");
    assert!(has(&[102, 0, 0, 0, 8]), "{replies:?}");
}

/// Covers: sshd_config Subsystem
#[test]
fn lhsftp_server_works_with_openssh_programs() {
    let test = "lhsftp_server_works_with_openssh_programs";
    let Some([sshd, sftp]) = peers(test, ["sshd", "sftp"]) else { return };
    let lab = Lab::new();
    make_tree(&lab.path("tree"), 200);
    fs::remove_file(lab.path("tree/link to a file")).unwrap();
    let own = format!("Subsystem sftp {} -l ERROR", our("lhsftp-server").display());
    // OpenSSH refuses a subsystem that is defined twice, so the test writes its own configuration.
    lab.write(
        "sshd.conf",
        &format!(
            "HostKey {}\nAuthorizedKeysFile {}\nPermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile none\n{own}\n",
            lab.arg("host_ed25519"),
            lab.arg("authorized_keys")
        ),
    );
    let _ = fs::create_dir_all("/run/sshd");
    let server = Inetd::start(&lab, &sshd, &["-i".into(), "-e".into(), "-f".into(), lab.arg("sshd.conf")]);
    let work = lab.dir().display();
    lab.write("script", &format!("cd {work}\nput -rp tree up\nget -rp up down\n"));
    for client in [sftp, our("lhsftp")] {
        let mut args = vec!["-b".to_owned(), "script".to_owned()];
        args.extend(lab.client_options());
        args.extend(["-P".to_owned(), server.port_arg(), format!("{}@127.0.0.1", me())]);
        lab.run(&client, &args).ok("a batch");
        assert_same_tree(&lab.path("tree"), &lab.path("down"));
        lab.sh("rm -rf up down").ok("rm");
    }
    if let Some([lftp]) = peers(test, ["lftp"]) {
        let ssh = lab.shell_command(&lh_interop::find("ssh").unwrap_or_default(), server.port);
        let program = ssh.replace(&format!(" -p {}", server.port), "");
        let commands = format!(
            "set sftp:auto-confirm yes; set sftp:connect-program '{program} -a -x'; \
             open -p {} -u {},x sftp://127.0.0.1; mirror -R {work}/tree {work}/up; mirror {work}/up {work}/down; bye",
            server.port,
            me()
        );
        lab.run(&lftp, &["-c", &commands]).ok("lftp");
        assert_same_tree(&lab.path("tree"), &lab.path("down"));
    }
}
