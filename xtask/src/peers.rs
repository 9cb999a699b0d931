//! Installs the peer programs of the tests: Debian's packages, and those of npm, Maven, crates.io and Go's
//! module proxy if Debian has none.

use std::process::Command;

use crate::workspace::{Outcome, call, cargo, root, target_dir};

/// Debian packages, each with a program whose presence shows that it is installed.
const PACKAGES: &[(&str, &str)] = &[
    ("/usr/bin/ssh", "openssh-client"),
    ("/usr/sbin/sshd", "openssh-server"),
    ("/usr/include/openssl/evp.h", "libssl-dev"),
    ("/usr/share/doc/libfido2-1", "libfido2-1"),
    ("/usr/lib/openssh/sftp-server", "openssh-sftp-server"),
    ("/usr/lib/openssh/regress", "openssh-tests"),
    ("/usr/sbin/dropbear", "dropbear-bin"),
    ("/usr/bin/plink", "putty-tools"),
    ("/usr/bin/ansible", "ansible-core"),
    ("/usr/bin/sshpass", "sshpass"),
    ("/usr/bin/rsync", "rsync"),
    ("/usr/bin/git", "git"),
    ("/usr/bin/curl", "curl"),
    ("/usr/bin/jq", "jq"),
    ("/usr/bin/lftp", "lftp"),
    ("/usr/bin/sshfs", "sshfs"),
    ("/usr/bin/fusermount3", "fuse3"),
    ("/usr/bin/python3", "python3"),
    ("/usr/share/doc/python3-venv", "python3-venv"),
    ("/usr/lib/python3/dist-packages/paramiko", "python3-paramiko"),
    ("/usr/lib/python3/dist-packages/asyncssh", "python3-asyncssh"),
    ("/usr/share/gocode/src/golang.org/x/crypto/ssh", "golang-golang-x-crypto-dev"),
    ("/usr/share/gocode/src/github.com/pkg/sftp", "golang-github-pkg-sftp-dev"),
    ("/usr/share/gocode/src/github.com/gliderlabs/ssh", "golang-github-gliderlabs-ssh-dev"),
    ("/usr/lib/python3/dist-packages/twisted/conch", "python3-twisted"),
    ("/usr/bin/escript", "erlang-base"),
    ("/usr/share/doc/erlang-ssh", "erlang-ssh"),
    ("/usr/lib/proftpd/mod_sftp.so", "proftpd-mod-crypto"),
    ("/usr/sbin/tinysshd", "tinysshd"),
    ("/usr/include/libssh/libssh.h", "libssh-dev"),
    ("/usr/libexec/gesftpserver", "gesftpserver"),
    ("/usr/bin/php", "php-cli"),
    ("/usr/share/php/phpseclib/autoload.php", "php-phpseclib"),
    ("/usr/share/php/phpseclib3/autoload.php", "php-phpseclib3"),
    ("/usr/share/perl5/Net/SFTP/Foreign.pm", "libnet-sftp-foreign-perl"),
    ("/usr/share/doc/libnet-ssh2-perl", "libnet-ssh2-perl"),
    ("/usr/share/doc/ruby-net-sftp", "ruby-net-sftp"),
    ("/usr/share/java/jsch.jar", "libjsch-java"),
    ("/usr/bin/restic", "restic"),
    ("/usr/bin/borg", "borgbackup"),
    ("/usr/bin/unison", "unison"),
    ("/usr/bin/c++", "g++"),
    ("/usr/bin/aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("/usr/sbin/krb5kdc", "krb5-kdc"),
    ("/usr/sbin/kadmin.local", "krb5-admin-server"),
    ("/usr/bin/kinit", "krb5-user"),
    ("/usr/sbin/ip", "iproute2"),
    ("/usr/sbin/munged", "munge"),
    ("/usr/sbin/slurmctld", "slurm-wlm"),
    ("/usr/bin/groff", "groff-base"),
    ("/usr/bin/mmdebstrap", "mmdebstrap"),
    ("/usr/bin/dpkg-shlibdeps", "dpkg-dev"),
    ("/usr/bin/lintian", "lintian"),
    ("/usr/bin/rpmbuild", "rpm"),
    ("/usr/bin/rpmlint", "rpmlint"),
    ("/usr/bin/minisign", "minisign"),
    ("/usr/sbin/apparmor_parser", "apparmor"),
    ("/usr/sbin/logrotate", "logrotate"),
    ("/usr/bin/podman", "podman"),
    ("/usr/bin/crun", "crun"),
    ("/usr/lib/podman/netavark", "netavark"),
    ("/usr/sbin/iptables", "iptables"),
    ("/usr/bin/chromium-headless-shell", "chromium-headless-shell"),
    ("/usr/bin/xauth", "xauth"),
    ("/usr/bin/Xvfb", "xvfb"),
    ("/usr/bin/xdpyinfo", "x11-utils"),
    ("/usr/bin/google-authenticator", "libpam-google-authenticator"),
    ("/usr/bin/rsnapshot", "rsnapshot"),
    ("/usr/bin/rclone", "rclone"),
    ("/usr/bin/autossh", "autossh"),
    ("/usr/bin/socat", "socat"),
    ("/usr/bin/sudo", "sudo"),
    ("/usr/bin/parallel", "parallel"),
    ("/usr/bin/pdsh", "pdsh"),
    ("/usr/bin/parallel-ssh", "pssh"),
    ("/usr/bin/clush", "clustershell"),
    ("/usr/bin/git-annex", "git-annex"),
    ("/usr/bin/tmux", "tmux"),
    ("/usr/bin/mosh", "mosh"),
    ("/usr/bin/sshuttle", "sshuttle"),
    ("/usr/sbin/iptables", "iptables"),
    ("/usr/bin/duplicity", "duplicity"),
    ("/usr/lib/python3/dist-packages/pexpect", "python3-pexpect"),
    ("/usr/bin/rdiff-backup", "rdiff-backup"),
    ("/usr/lib/python3/dist-packages/fsspec", "python3-fsspec"),
    ("/usr/bin/faketime", "faketime"),
    ("/bin/nc.openbsd", "netcat-openbsd"),
    ("/usr/bin/script", "bsdutils"),
    ("/usr/bin/softhsm2-util", "softhsm2"),
    ("/usr/bin/pkcs11-tool", "opensc"),
    ("/usr/bin/zsh", "zsh"),
    ("/usr/bin/fish", "fish"),
    ("/usr/bin/expect", "expect"),
    ("/usr/bin/svn", "subversion"),
    ("/usr/bin/hg", "mercurial"),
    ("/usr/bin/cvs", "cvs"),
    ("/usr/bin/git-lfs", "git-lfs"),
];

/// Programs of which any version anywhere on PATH suffices, and their packages.
const ANY: &[(&str, &str)] = &[
    ("go", "golang-go"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("javac", "default-jdk-headless"),
    ("mvn", "maven"),
    ("qemu-aarch64", "qemu-user"),
];

/// npm packages, with the version for which the tests were written.
const NPM: &[(&str, &str)] = &[
    ("ssh2", "1.17.0"),
    ("@microsoft/dev-tunnels-ssh", "3.12.42"),
    ("@microsoft/dev-tunnels-ssh-keys", "3.12.12"),
    ("@microsoft/dev-tunnels-ssh-tcp", "3.12.42"),
];

/// Packages of the Python Package Index, newer than Debian's.
const PYPI: [&str; 3] = ["paramiko==5.1.0", "asyncssh==2.24.1", "sshfs==2026.8.0"];

fn missing() -> Vec<&'static str> {
    let mut missing: Vec<_> = PACKAGES
        .iter()
        .filter(|(sign, _)| !std::path::Path::new(sign).exists())
        .map(|(_, package)| *package)
        .collect();
    missing.extend(
        ANY.iter().filter(|(program, _)| lh_interop::find(program).is_none()).map(|(_, package)| package),
    );
    missing
}

/// Installs missing peers. Only root can install Debian's packages; for others the error names the command.
pub(crate) fn install() -> Outcome {
    let debian = install_from_debian();
    // A failure of npm must not prevent the other peers.
    let npm = if lh_interop::find("npm").is_some() { install_from_npm() } else { Ok(()) };
    if lh_interop::find("mvn").is_some() {
        install_from_maven()?;
    }
    install_from_pypi();
    build_russh()?;
    if lh_interop::find("go").is_some() {
        build_opkssh();
        build_go_servers();
    }
    debian.and(npm)
}

/// Installs packages of the Python Package Index into an environment of their own below cargo's target
/// directory. Where they cannot be had, the tests with them report that they are skipped.
fn install_from_pypi() {
    let into = target_dir().join("peers/python");
    let (stamp, wanted) = (into.join("packages"), PYPI.join("\n"));
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return;
    }
    println!("peers: installing {} of the Python Package Index", PYPI.join(" "));
    let limited = |program: &std::path::Path, args: &[&str]| {
        let status = Command::new("timeout").arg("180").arg(program).args(args).status();
        status.is_ok_and(|status| status.success())
    };
    let place = into.to_string_lossy();
    let mut install = vec!["-m", "pip", "--quiet", "--disable-pip-version-check", "install"];
    // A network that drops packets must not cost the whole limit.
    install.extend(["--retries", "1", "--timeout", "15"]);
    install.extend(PYPI);
    let installed = limited(std::path::Path::new("python3"), &["-m", "venv", "--clear", &place])
        && limited(&into.join("bin/python"), &install)
        && std::fs::write(&stamp, wanted).is_ok();
    if !installed {
        println!("peers: SKIPPED: {} cannot be installed here (python3-venv?)", PYPI.join(" "));
    }
}

/// Builds opkssh from Go's module proxy. If it cannot be fetched, the recipe that needs it reports that it is
/// skipped.
fn build_opkssh() {
    build_go("opkssh", &["github.com/openpubkey/opkssh"], "300");
}

/// Builds the servers of `interop/peers/go_modules` from Go's module proxy. If some modules are missing
/// there, the tests of these servers report that they are skipped.
fn build_go_servers() {
    build_go("go_modules", &["./request_server", "./wish_server"], "180");
}

/// Builds packages of the module `interop/peers/MODULE` into the directory of that name among the fetched
/// peers. Modules that cannot be fetched must not cost the run more than `limit` seconds.
fn build_go(module: &str, packages: &[&str], limit: &str) {
    let into = target_dir().join("peers").join(module);
    let build = [limit, "go", "build", "-mod=readonly", "-ldflags=-s -w", "-o"];
    let built = std::fs::create_dir_all(&into).is_ok()
        && Command::new("timeout")
            .args(build)
            .arg(&into)
            .args(packages)
            .current_dir(root().join("interop/peers").join(module))
            .envs(lh_interop::go_variables(&target_dir().join("peers")))
            .status()
            .is_ok_and(|status| status.success());
    if !built {
        println!("peers: SKIPPED: {} cannot be built here", packages.join(" "));
    }
}

/// Downloads the crates of russh and builds the peer, in the directory where `lh_interop::russh_peer` expects
/// it. It is not part of the workspace, so that its 130 crates stay out of `Cargo.lock`.
fn build_russh() -> Outcome {
    let build = ["build", "--quiet", "--locked", "--manifest-path"];
    call(
        cargo()
            .args(build)
            .arg(root().join("interop/peers/russh/Cargo.toml"))
            .arg("--target-dir")
            .arg(target_dir().join("peers/russh")),
    )
}

/// Installs Maven's packages with their dependencies below cargo's target directory.
fn install_from_maven() -> Outcome {
    let into = target_dir().join("peers/java");
    let pom = root().join("interop/peers/java/pom.xml");
    let wanted = std::fs::read_to_string(&pom).map_err(|error| format!("{}: {error}", pom.display()))?;
    let stamp = into.join("pom.xml");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("peers: installing Maven's packages of interop/peers/java/pom.xml");
    let _ = std::fs::remove_dir_all(&into);
    call(
        Command::new("mvn")
            .args(["-q", "-B", "dependency:copy-dependencies", "-f"])
            .arg(&pom)
            .arg(format!("-DoutputDirectory={}", into.display())),
    )?;
    std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
}

/// Installs npm's packages below cargo's target directory, which needs no rights.
fn install_from_npm() -> Outcome {
    let into = target_dir().join("peers");
    let is_installed = |&(name, version): &(&str, &str)| {
        let manifest = into.join("node_modules").join(name).join("package.json");
        let text = std::fs::read_to_string(manifest).unwrap_or_default();
        text.contains(&format!("\"version\": \"{version}\""))
    };
    if NPM.iter().all(is_installed) {
        return Ok(());
    }
    // npm removes what it is not asked for.
    let wanted: Vec<String> = NPM.iter().map(|(name, version)| format!("{name}@{version}")).collect();
    println!("peers: installing {} of npm's", wanted.join(" "));
    std::fs::create_dir_all(&into).map_err(|error| format!("{}: {error}", into.display()))?;
    // The packages' build steps compile optional native modules.
    call(
        Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefix"])
            .arg(&into)
            .args(&wanted),
    )
}

fn install_from_debian() -> Outcome {
    let missing = missing();
    if missing.is_empty() {
        println!("peers: all {} packages are installed", PACKAGES.len() + ANY.len());
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
            // Prevents the packages' own servers from starting: the tests start theirs.
            .env("RUNLEVEL", "1"),
    )
}
