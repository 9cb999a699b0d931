//! The programs of other people that the tests talk to, as Debian packages.

use std::process::Command;

use crate::{Outcome, call};

/// Shows that what programs need to be built with Kerberos is there.
pub(crate) const KERBEROS_HEADER: &str = "/usr/include/gssapi/gssapi_krb5.h";

/// Program that shows that the package is there, and the package.
const PACKAGES: &[(&str, &str)] = &[
    ("/usr/bin/ssh", "openssh-client"),
    ("/usr/sbin/sshd", "openssh-server"),
    ("/usr/include/openssl/evp.h", "libssl-dev"),
    ("/usr/lib/openssh/sftp-server", "openssh-sftp-server"),
    ("/usr/lib/openssh/regress", "openssh-tests"),
    ("/usr/sbin/dropbear", "dropbear-bin"),
    ("/usr/bin/plink", "putty-tools"),
    ("/usr/bin/ansible", "ansible-core"),
    ("/usr/bin/sshpass", "sshpass"),
    ("/usr/bin/rsync", "rsync"),
    ("/usr/bin/git", "git"),
    ("/usr/bin/curl", "curl"),
    ("/usr/bin/lftp", "lftp"),
    ("/usr/bin/sshfs", "sshfs"),
    ("/usr/bin/fusermount3", "fuse3"),
    ("/usr/bin/python3", "python3"),
    ("/usr/lib/python3/dist-packages/paramiko", "python3-paramiko"),
    ("/usr/lib/python3/dist-packages/asyncssh", "python3-asyncssh"),
    ("/usr/share/gocode/src/golang.org/x/crypto/ssh", "golang-golang-x-crypto-dev"),
    ("/usr/share/gocode/src/github.com/pkg/sftp", "golang-github-pkg-sftp-dev"),
    ("/usr/bin/c++", "g++"),
    ("/usr/include/security/pam_appl.h", "libpam0g-dev"),
    (KERBEROS_HEADER, "libkrb5-dev"),
    ("/usr/sbin/krb5kdc", "krb5-kdc"),
    ("/usr/sbin/kadmin.local", "krb5-admin-server"),
    ("/usr/bin/kinit", "krb5-user"),
    ("/usr/sbin/ip", "iproute2"),
    ("/usr/sbin/munged", "munge"),
    ("/usr/sbin/slurmctld", "slurm-wlm"),
    ("/usr/bin/groff", "groff-base"),
    ("/usr/bin/chromium-headless-shell", "chromium-headless-shell"),
    ("/usr/bin/xauth", "xauth"),
    ("/usr/bin/Xvfb", "xvfb"),
    ("/usr/bin/xdpyinfo", "x11-utils"),
];

fn missing() -> Vec<&'static str> {
    let mut missing: Vec<_> = PACKAGES
        .iter()
        .filter(|(sign, _)| !std::path::Path::new(sign).exists())
        .map(|(_, package)| *package)
        .collect();
    // Any Go compiler does.
    if lh_interop::find("go").is_none() {
        missing.push("golang-go");
    }
    missing
}

/// Installs what is missing. Only root can; others are told the command.
pub(crate) fn install() -> Outcome {
    let missing = missing();
    if missing.is_empty() {
        println!("peers: all {} packages are installed", PACKAGES.len());
        return Ok(());
    }
    if !lh_interop::is_root() {
        return Err(format!("peers are missing; as root: apt-get install {}", missing.join(" ")));
    }
    if lh_interop::find("apt-get").is_none() {
        return Err(format!(
            "not a Debian-like machine (no apt-get); install by hand: {}",
            missing.join(" ")
        ));
    }
    println!("peers: installing {}", missing.join(" "));
    call(Command::new("apt-get").args(["-q", "update"]))?;
    call(
        Command::new("apt-get")
            .args(["-q", "-y", "--no-install-recommends", "install"])
            .args(&missing)
            .env("DEBIAN_FRONTEND", "noninteractive")
            // The packages' own servers must not start: the tests bring theirs.
            .env("RUNLEVEL", "1"),
    )
}
