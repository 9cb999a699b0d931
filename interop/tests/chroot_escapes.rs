//! Attempts of users to leave their `ChrootDirectory`, with several sessions and with directories that are
//! moved.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use lh_interop::{Lab, Lhsshd, ServerSetup, TestUser, eventually, is_root, peers, skip};

/// Contents of a file outside that the user may read: only the chroot is between them.
const OUTSIDE: &[u8] = b"outside of the chroot";

/// Number of times that names are swapped, each time before requests that go through them.
const ROUNDS: usize = 200;

/// A chroot with a directory of the user, and a directory of the user's outside of it on the same file
/// system.
struct ChrootSetup {
    setup: ServerSetup,
    user: TestUser,
    /// Removed with all that is in it.
    root: PathBuf,
}

impl ChrootSetup {
    /// `None` when the test cannot run. `config` is the user's, with `{root}` for the directory.
    fn new(test: &str, config: &str) -> Option<Self> {
        if !is_root() {
            skip(test, "needs root");
            return None;
        }
        let [ssh, keygen] = peers(test, ["ssh", "ssh-keygen"])?;
        let lab = Lab::new();
        let user = TestUser::new(&lab);
        // Every directory on the way belongs to root, and only root may write to it: /tmp will not do.
        let root = Path::new("/var/lib").join(format!("longhaul-{test}-{}", std::process::id()));
        for (directory, is_users) in [("", false), ("jail", false), ("jail/inside", true), ("out", true)] {
            let path = root.join(directory);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            if is_users {
                let (uid, gid) = user.ids();
                chown(&path, Some(uid), Some(gid)).unwrap();
            }
        }
        fs::write(root.join("out/secret"), OUTSIDE).unwrap();
        let config = config.replace("{root}", &root.to_string_lossy());
        lab.write("match.conf", &format!("Match User {}\n{config}\n", user.name));
        let options = format!("AuthorizedKeysFile .ssh/authorized_keys\nInclude {}", lab.arg("match.conf"));
        let server = Lhsshd::start(&lab, &options);
        Some(Self { setup: ServerSetup { lab, server, ssh, keygen }, user, root })
    }

    fn sftp(&self) -> Sftp {
        let mut args = self.setup.args(&["-s"], &self.user.name, &["sftp"]);
        args.insert(0, "-T".to_owned());
        Sftp::start(Command::new(&self.setup.ssh).args(args))
    }

    /// Names and contents of what is outside.
    fn outside(&self) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.root.join("out")).unwrap().map(Result::unwrap);
        let mut all: Vec<_> = entries
            .map(|entry| {
                let contents = fs::read(entry.path()).unwrap_or_default();
                (entry.file_name().to_string_lossy().into_owned(), contents)
            })
            .collect();
        all.sort();
        all
    }
}

impl Drop for ChrootSetup {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// A client of SFTP version 3 that sends paths as they are.
struct Sftp {
    ssh: Child,
    to: ChildStdin,
    from: ChildStdout,
}

const OPEN: u8 = 3;
const CLOSE: u8 = 4;
const READ: u8 = 5;
const LSTAT: u8 = 7;
const OPENDIR: u8 = 11;
const READDIR: u8 = 12;
const REMOVE: u8 = 13;
const MKDIR: u8 = 14;
const REALPATH: u8 = 16;
const RENAME: u8 = 18;
const SYMLINK: u8 = 20;
const STATUS: u8 = 101;
const HANDLE: u8 = 102;
const DATA: u8 = 103;
const NAME: u8 = 104;

const NO_ATTRIBUTES: &[u8] = &[0; 4];

fn string(text: &[u8]) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text].concat()
}

impl Sftp {
    fn start(command: &mut Command) -> Self {
        let mut ssh = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (ssh.stdin.take().unwrap(), ssh.stdout.take().unwrap());
        let mut sftp = Self { ssh, to, from };
        sftp.send(&[&[1][..], &3_u32.to_be_bytes()].concat());
        assert_eq!(sftp.receive()[0], 2);
        sftp
    }

    fn send(&mut self, packet: &[u8]) {
        self.to.write_all(&string(packet)).unwrap();
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.from.read_exact(&mut length).unwrap();
        let mut packet = vec![0; u32::from_be_bytes(length) as usize];
        self.from.read_exact(&mut packet).unwrap();
        packet
    }

    /// Sends one request and returns the type of the reply, and what follows its id.
    fn ask(&mut self, kind: u8, fields: &[&[u8]]) -> (u8, Vec<u8>) {
        self.send(&[&[kind, 0, 0, 0, 7], &fields.concat()[..]].concat());
        let reply = self.receive();
        (reply[0], reply[5..].to_vec())
    }

    fn path(&mut self, kind: u8, path: &str, rest: &[u8]) -> (u8, Vec<u8>) {
        self.ask(kind, &[&string(path.as_bytes()), rest])
    }

    fn two_paths(&mut self, kind: u8, one: &str, other: &str) -> (u8, Vec<u8>) {
        self.ask(kind, &[&string(one.as_bytes()), &string(other.as_bytes())])
    }

    /// Whether a request with a status as its reply has succeeded.
    fn has_done(reply: &(u8, Vec<u8>)) -> bool {
        assert_eq!(reply.0, STATUS);
        reply.1[..4] == [0; 4]
    }

    /// The contents of a file; `None` when it cannot be opened.
    fn read(&mut self, path: &str) -> Option<Vec<u8>> {
        let (kind, handle) = self.path(OPEN, path, &[&1_u32.to_be_bytes()[..], NO_ATTRIBUTES].concat());
        if kind != HANDLE {
            return None;
        }
        let (kind, data) = self.ask(READ, &[&handle, &0_u64.to_be_bytes(), &100_u32.to_be_bytes()]);
        self.ask(CLOSE, &[&handle]);
        Some(if kind == DATA { data[4..].to_vec() } else { Vec::new() })
    }
}

impl Drop for Sftp {
    fn drop(&mut self) {
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

/// Covers: sshd_config ChrootDirectory (directories that are moved out)
#[test]
fn a_directory_that_is_moved_out_takes_no_session_along() {
    let jailed = "ChrootDirectory {root}/jail\nForceCommand internal-sftp -d /inside/work/deep";
    let Some(chroot) = ChrootSetup::new("moved", jailed) else { return };
    let (uid, gid) = chroot.user.ids();
    for directory in ["jail/inside/work", "jail/inside/work/deep"] {
        fs::create_dir(chroot.root.join(directory)).unwrap();
        chown(chroot.root.join(directory), Some(uid), Some(gid)).unwrap();
    }
    let mut sftp = chroot.sftp();
    let (kind, work) = sftp.path(OPENDIR, ".", &[]);
    assert_eq!(kind, HANDLE);
    // Another process of the user, outside.
    fs::rename(chroot.root.join("jail/inside/work"), chroot.root.join("out/work")).unwrap();
    let before = chroot.outside();
    for path in
        ["../../secret", "../../../out/secret", "/inside/work/../secret", "./../../secret", "/proc/self/cwd"]
    {
        assert_eq!(sftp.read(path), None, "{path}");
        assert_eq!(sftp.path(LSTAT, path, &[]).0, STATUS, "{path}");
    }
    for path in ["../../made", "../made", "made"] {
        assert!(!Sftp::has_done(&sftp.path(MKDIR, path, NO_ATTRIBUTES)), "{path}");
    }
    // A handle of the directory shows what is in it, and leads nowhere else.
    let (kind, names) = sftp.ask(READDIR, &[&work]);
    assert_eq!(kind, NAME);
    assert!(!names.windows(6).any(|window| window == b"secret"));
    let (kind, name) = sftp.path(REALPATH, "../../../../../..", &[]);
    assert!(kind == STATUS || name[4..9] == string(b"/"), "{kind}: {name:?}");
    assert_eq!(chroot.outside(), before);
}

/// Covers: sshd_config ChrootDirectory (names that are swapped)
#[test]
fn names_swapped_by_another_session_lead_nowhere_outside() {
    let jailed = "ChrootDirectory {root}/jail\nForceCommand internal-sftp -d /inside";
    let Some(chroot) = ChrootSetup::new("swapped", jailed) else { return };
    let before = chroot.outside();
    let (mut first, mut second) = (chroot.sftp(), chroot.sftp());
    let out = chroot.root.join("out").to_string_lossy().into_owned();
    assert!(Sftp::has_done(&first.path(MKDIR, "directory", NO_ATTRIBUTES)));
    // OpenSSH's order: the target first.
    for (link, target) in [("absolute", out.clone()), ("relative", format!("../../../../../../..{out}"))] {
        assert!(Sftp::has_done(&first.two_paths(SYMLINK, &target, link)));
    }
    // The first session swaps the names, the second one uses them.
    let swap = std::thread::spawn(move || {
        for round in 0..ROUNDS {
            let other = ["absolute", "relative"][round % 2];
            for (from, to) in [(other, "x"), ("x", other), ("directory", "x"), ("x", "directory")] {
                assert!(Sftp::has_done(&first.two_paths(RENAME, from, to)), "{from} to {to}");
            }
        }
    });
    let create = [&(0x2_u32 | 0x8 | 0x10).to_be_bytes()[..], NO_ATTRIBUTES].concat();
    let mut inside = 0;
    while !swap.is_finished() {
        assert_ne!(second.read("x/secret").as_deref(), Some(OUTSIDE));
        let (kind, handle) = second.path(OPEN, "x/new", &create);
        if kind == HANDLE {
            inside += 1;
            second.ask(CLOSE, &[&handle]);
        }
        second.path(MKDIR, "x/made", NO_ATTRIBUTES);
        second.path(REMOVE, "x/secret", &[]);
        second.two_paths(RENAME, "x/secret", "stolen");
        second.two_paths(RENAME, "x/new", "x/secret");
    }
    swap.join().unwrap();
    eprintln!("{inside} files were made while `x` was the directory");
    assert_eq!(chroot.outside(), before);
}

/// Covers: sshd_config ChrootDirectory (a link to a directory below one of the user)
#[test]
fn a_chroot_below_a_directory_of_the_user_is_refused() {
    let jailed = "ChrootDirectory {root}/link\nForceCommand internal-sftp";
    let Some(chroot) = ChrootSetup::new("linked", jailed) else { return };
    let target = chroot.root.join("out/jail");
    fs::create_dir(&target).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(&target, chroot.root.join("link")).unwrap();
    assert_ne!(chroot.setup.ssh_as(&chroot.user.name, &["-s"], &["sftp"]).code, 0);
    let component =
        format!("bad ownership or modes for chroot directory component \"{}/out/\"", chroot.root.display());
    chroot.setup.logged(&component);
    // What such a user could do otherwise: the root directory passes all checks.
    fs::rename(&target, chroot.root.join("out/aside")).unwrap();
    symlink("/", &target).unwrap();
    assert_ne!(chroot.setup.ssh_as(&chroot.user.name, &["-s"], &["sftp"]).code, 0);
    // The client may hear of the end first.
    eventually("the second login is refused too", || {
        chroot.setup.server.log().matches(&component).count() == 2
    });
}
