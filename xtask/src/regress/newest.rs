//! A Debian system with the newest OpenSSH, for its regression tests (`cargo xtask regress --newest`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::names::PROGRAMS;
use crate::workspace::{Outcome, call, target_dir};

/// Debian release that gets each OpenSSH version within weeks.
const RELEASE: &str = "unstable";

/// Mirror from which packages are downloaded.
const MIRROR: &str = "http://deb.debian.org/debian";

/// Packages that the suite needs, besides those of every system. They include other implementations that the
/// suite tests against.
const PACKAGES: &[&str] = &[
    "openssh-client",
    "openssh-server",
    "openssh-tests",
    "openssl",
    "sudo",
    "procps",
    "iproute2",
    "netcat-openbsd",
    "python3-twisted",
    "putty-tools",
    "dropbear-bin",
    "softhsm2",
    "opensc",
    "libpam0g",
    "libgssapi-krb5-2",
    "libfido2-1",
    "rsync",
    "tmux",
];

/// Directory of the tests' copies, inside the system.
pub(super) const WORK: &str = "/srv/regress";

/// Returns the system, and creates it if it is missing. To get a newer OpenSSH, remove the directory.
///
/// # Errors
/// It cannot be created: this requires root, `debootstrap` and a mirror of Debian.
pub(super) fn system() -> Result<PathBuf, String> {
    if !lh_interop::is_root() {
        return Err("--newest needs root: it makes a Debian system to run the tests in".to_owned());
    }
    let root = target_dir().join("openssh-newest");
    if !root.join("complete").exists() {
        let _ = fs::remove_dir_all(&root);
        println!("regress: making a system of Debian {RELEASE} in {}", root.display());
        let mut bootstrap = Command::new("debootstrap");
        bootstrap.args(["--variant=minbase", "--include=ca-certificates", RELEASE]);
        call(bootstrap.arg(&root).arg(MIRROR))?;
        let _ = fs::copy("/etc/resolv.conf", root.join("etc/resolv.conf"));
        let mut install = Command::new("unshare");
        install.args(["--mount", "--pid", "--fork", "sh", "-c", SCRIPT, "sh"]).arg(&root).args(["/", "1800"]);
        install.args(["apt-get", "install", "--yes", "--quiet", "--no-install-recommends"]).args(PACKAGES);
        call(install.env("DEBIAN_FRONTEND", "noninteractive").envs(VARIABLES.iter().copied()))?;
        fs::write(root.join("complete"), "").map_err(|error| format!("{}: {error}", root.display()))?;
    }
    let mut version = Command::new("chroot");
    version.arg(&root).args(["dpkg-query", "-W", "-f=${Version}", "openssh-tests"]);
    println!("regress: openssh-tests {}", text_of(&mut version)?);
    Ok(root)
}

fn text_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Copies our programs into the system, with links from OpenSSH's names. Returns the links' directory as the
/// system sees it.
pub(super) fn install(root: &Path, bins: &Path) -> Result<PathBuf, String> {
    let (programs, names) = (root.join("srv/programs"), root.join("srv/openssh-names"));
    let problem = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("{path}: {error}")
    };
    for directory in [&programs, &names] {
        let _ = fs::remove_dir_all(directory);
        fs::create_dir_all(directory).map_err(problem(directory))?;
    }
    let others = [("ssh-pkcs11-helper", "lhssh-pkcs11-helper")];
    for (name, ours) in PROGRAMS.iter().map(|row| (row.0, row.1)).chain(others) {
        let from = bins.join(ours);
        fs::copy(&from, programs.join(ours)).map_err(problem(&from))?;
        let link = names.join(name);
        // The path is absolute, because a test creates a hard link to the link in another directory.
        std::os::unix::fs::symlink(Path::new("/srv/programs").join(ours), &link).map_err(problem(&link))?;
    }
    // OpenSSH's sshd needs its empty directory.
    fs::create_dir_all(root.join("run/sshd")).map_err(problem(root))?;
    Ok(PathBuf::from("/srv/openssh-names"))
}

/// Prepares the namespaces of a test: the shell's arguments are the system's root, the directory to start in,
/// and the arguments of `timeout`.
pub(super) const SCRIPT: &str = "ip link set lo up 2>/dev/null
    root=$1; directory=$2; shift 2
    mount --bind \"$root\" \"$root\"
    mount --rbind /dev \"$root/dev\"
    mount -t proc proc \"$root/proc\"
    mount -t sysfs sys \"$root/sys\"
    chroot \"$root\" env -C \"$directory\" timeout -k 5 \"$@\"
    exit $?";

/// Variables with the paths of the system's programs that have no counterpart of ours, or that test ours.
pub(super) const VARIABLES: &[(&str, &str)] = &[
    ("TEST_SSH_SSHD_AUTH", "/usr/lib/openssh/sshd-auth"),
    ("TEST_SSH_SSHD_SESSION", "/usr/lib/openssh/sshd-session"),
    ("TEST_SSH_CONCH", "/usr/bin/conch3"),
    ("TEST_SSH_DROPBEAR", "/usr/sbin/dropbear"),
    ("TEST_SSH_DROPBEARKEY", "/usr/bin/dropbearkey"),
    ("TEST_SSH_DROPBEARCONVERT", "/usr/bin/dropbearconvert"),
    ("TEST_SSH_DBCLIENT", "/usr/bin/dbclient"),
    ("TEST_SSH_PLINK", "/usr/bin/plink"),
    ("TEST_SSH_PUTTYGEN", "/usr/bin/puttygen"),
    ("HOME", "/root"),
    ("USER", "root"),
    ("LOGNAME", "root"),
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
];

/// Adapts the suite: it copies OpenSSH's `ssh` as test data. Ours has debug symbols and many times the size,
/// so only its first `size` bytes are used.
pub(super) fn calm(suite: &Path, size: usize) -> Outcome {
    let script = suite.join("test-exec.sh");
    let problem = |error: std::io::Error| format!("{}: {error}", script.display());
    let text = fs::read_to_string(&script).map_err(problem)?;
    let (all, part) = ("cat ${SSH_BIN} >", format!("head -c {size} ${{SSH_BIN}} >"));
    if !text.contains(all) {
        return Err(format!("{}: unexpected version of the suite", script.display()));
    }
    fs::write(&script, text.replace(all, &part)).map_err(problem)
}
