//! Tests the packages in new Debian systems: the `.deb` files without OpenSSH and with it, the `.rpm` files
//! with `rpm`, and the `.deb` files where systemd runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::configs;
use super::container;
use super::make::make;
use super::signing;
use super::source::{Source, failed, output, shown_commands};
use super::units;
use crate::workspace::{Outcome, call, target_dir};

/// Debian packages of a bare system: the dependencies of our packages.
const BARE: &str = "libpam-modules,libpam-runtime,init-system-helpers,passwd";

/// A system in which packages are installed.
struct System {
    name: &'static str,
    /// Debian packages in addition to [`BARE`].
    more: &'static str,
    /// Kind of the packages that are installed.
    extension: &'static str,
    /// Script of `packaging/tests` that installs them.
    script: &'static str,
}

/// Name of the system that systemd is booted in.
const SYSTEMD: &str = "systemd";

const SYSTEMS: [System; 4] = [
    System { name: "bare", more: "", extension: "deb", script: "installed.sh" },
    System {
        name: "with-openssh",
        more: ",openssh-client,openssh-server",
        extension: "deb",
        script: "installed.sh",
    },
    System { name: "rpm", more: ",rpm", extension: "rpm", script: "installed_rpm.sh" },
    System {
        name: SYSTEMD,
        more: ",systemd-sysv,libpam-systemd,dbus,openssh-server",
        extension: "deb",
        script: "installed_systemd.sh",
    },
];

/// `cargo xtask dist --test [SUITE]`: tests the packages in systems of this release of Debian (for example,
/// "trixie"), or of the machine's own release.
pub(super) fn test(source: &Source, suite: Option<&str>) -> Outcome {
    if !lh_interop::is_root() {
        println!("SKIPPED dist: only root can install packages");
        return Ok(());
    }
    for program in ["mmdebstrap", "lintian", "rpmbuild"] {
        if lh_interop::find(program).is_none() {
            return Err(format!("{program} is missing: apt-get install mmdebstrap lintian rpm dpkg-dev"));
        }
    }
    make(source)?;
    check(source)?;
    signing::test(source)?;
    for system in &SYSTEMS {
        let include = format!("{BARE}{}", system.more);
        let archive = match suite {
            None => own_archive(system.name, &include)?,
            Some(suite) => archive(&format!("{}-{suite}", system.name), &include, suite, &[])?,
        };
        install(source, system, &archive)?;
    }
    for platform in ["x86_64-linux", "x86_64-linux-static"] {
        home(source, platform)?;
    }
    container::test(source)
}

fn packages(source: &Source, extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(&source.out).map_err(failed(&source.out))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|each| each == extension)).collect();
    found.sort();
    if found.len() == 3 { Ok(found) } else { Err(format!("{} .{extension} files, not 3", found.len())) }
}

/// Checks the packages with lintian, systemd, AppArmor's parser, logrotate and rpmlint.
fn check(source: &Source) -> Outcome {
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error", "--tag-display-limit", "0"]);
    call(lintian.args(packages(source, "deb")?))?;
    let root = tempfile::tempdir().map_err(|error| error.to_string())?;
    for package in packages(source, "deb")? {
        call(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(root.path()))?;
    }
    units::verify(root.path())?;
    units::parse_profile(root.path())?;
    configs::check(root.path())?;
    let rpms = packages(source, "rpm")?;
    if lh_interop::find("rpmlint").is_some() {
        let config = source.root.join("packaging/rpm/rpmlint.toml");
        call(Command::new("rpmlint").arg("--config").arg(config).args(&rpms))?;
    } else {
        println!("SKIPPED dist: rpmlint is not installed, so the .rpm packages are not checked by it");
    }
    for package in rpms {
        let list = output(Command::new("rpm").args(["-qp", "--nosignature", "-l"]).arg(&package))?;
        println!("rpm: {} has {} files", package.display(), list.lines().count());
    }
    Ok(())
}

/// Returns the archive of a new system with this machine's release and mirrors.
fn own_archive(name: &str, include: &str) -> Result<PathBuf, String> {
    let release = fs::read_to_string("/etc/os-release").map_err(failed(Path::new("/etc/os-release")))?;
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let mut mirrors = vec!["/etc/apt/sources.list", "/etc/apt/sources.list.d/debian.sources"];
    mirrors.retain(|path| Path::new(path).exists());
    archive(name, include, suite.unwrap_or("stable"), &mirrors)
}

/// Returns the archive of a new system, and creates it if it is missing. Without `mirrors`, Debian's are
/// used.
fn archive(name: &str, include: &str, suite: &str, mirrors: &[&str]) -> Result<PathBuf, String> {
    let directory = target_dir().join("dist-test");
    fs::create_dir_all(&directory).map_err(failed(&directory))?;
    let file = directory.join(format!("{name}.tar"));
    if !file.exists() {
        let partial = directory.join(format!("{name}.partial.tar"));
        let mut command = Command::new("mmdebstrap");
        command.args(["--quiet", "--mode=root", "--variant=minbase", "--include", include]);
        command.args(["--aptopt=APT::Install-Recommends \"false\"", suite]).arg(&partial).args(mirrors);
        call(&mut command)?;
        fs::rename(&partial, &file).map_err(failed(&partial))?;
    }
    Ok(file)
}

/// Installs, uses and removes the packages in a new system, in separate namespaces.
fn install(source: &Source, system: &System, archive: &Path) -> Outcome {
    let root =
        tempfile::Builder::new().prefix("longhaul-system-").tempdir().map_err(|error| error.to_string())?;
    call(
        Command::new("tar")
            .arg("--extract")
            .arg("--file")
            .arg(archive)
            .arg("--directory")
            .arg(root.path())
            .args(["--exclude=./dev/*", "--numeric-owner"]),
    )?;
    let to = root.path().join("packages");
    fs::create_dir_all(to.join("pages")).map_err(failed(&to))?;
    let tests = source.root.join("packaging/tests");
    let scripts = ["common.sh", "debian.sh", system.script].map(|name| tests.join(name));
    for file in packages(source, system.extension)?.iter().chain(&scripts) {
        let target = to.join(file.file_name().unwrap_or_default());
        fs::copy(file, &target).map_err(failed(file))?;
    }
    for page in ["README.md", "docs/install.md", "docs/beside-sshd.md", "docs/server.md"] {
        let page = source.root.join(page);
        let commands = shown_commands(&page)?;
        let target = to.join("pages").join(page.file_name().unwrap_or_default());
        fs::write(&target, commands).map_err(failed(&target))?;
    }
    if system.extension == "rpm" {
        super::rpm::make_next(source, &to.join("next"))?;
    }
    if system.name == SYSTEMD {
        return boot(&tests.join("boot_systemd.sh"), root.path(), system.script);
    }
    // The network, processes and mounts of this machine are not visible inside. rpm 4.20 runs the packages'
    // scripts in a mount namespace of their own: the root must be a mount point, and must not be below this
    // machine's root, or `/proc/PID/exe` has other names there.
    let inside = "ip link set lo up && mount --bind \"$0\" \"$0\" && mount -t proc proc \"$0/proc\" && mount -t tmpfs -o mode=755 dev \"$0/dev\" \
         && mkdir \"$0/dev/pts\" && mount -t devpts -o newinstance,ptmxmode=0666 devpts \"$0/dev/pts\" \
         && ln -s pts/ptmx \"$0/dev/ptmx\" && ln -s /proc/self/fd \"$0/dev/fd\" \
         && for node in null:3 zero:5 full:7 random:8 urandom:9; do \
            mknod -m 666 \"$0/dev/${node%:*}\" c 1 \"${node#*:}\"; done \
         && cd \"$0\" && pivot_root . . && umount -l . && exec chroot . sh \"/packages/$1\" \"$2\"";
    let namespaces = ["--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child"];
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-ec", inside]).arg(root.path());
    call(command.args([system.script, system.name]))
}

/// Boots systemd in the new system, which runs the script.
fn boot(with: &Path, root: &Path, script: &str) -> Outcome {
    let status = Command::new("sh").arg(with).arg(root).arg(script).status();
    match status.map_err(|error| format!("sh: {error}"))?.code() {
        Some(0) => Ok(()),
        Some(77) => {
            println!(
                "SKIPPED dist: systemd cannot be booted here, so the services of the packages do not run"
            );
            Ok(())
        }
        code => Err(format!("{script}: status {code:?}")),
    }
}

/// Installs the home directory archive as `docs/install.md` says, again into another directory, and removes
/// it.
fn home(source: &Source, platform: &str) -> Outcome {
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let name = format!("longhaul-{}-{platform}", source.version());
    let archive = source.out.join(format!("{name}.tar.xz"));
    if !archive.exists() {
        println!("SKIPPED dist: {} was not made", archive.display());
        return Ok(());
    }
    let link = home.path().join(format!("{name}.tar.xz"));
    std::os::unix::fs::symlink(&archive, &link).map_err(failed(&link))?;
    let commands = shown_commands(&source.root.join("docs/install.md"))?;
    let starts = [format!("tar xf {name}."), format!("{name}/install.sh")];
    let shown: Vec<&str> =
        commands.lines().filter(|line| starts.iter().any(|start| line.starts_with(start))).collect();
    if shown.len() != starts.len() {
        return Err(format!("docs/install.md does not say how {name} is installed: {shown:?}"));
    }
    let in_shell = |line: &str| {
        call(Command::new("sh").args(["-ec", line]).current_dir(home.path()).env("HOME", home.path()))
    };
    in_shell(&shown.join("\n"))?;
    let script = home.path().join(&name).join("install.sh");
    for prefix in [".local", "elsewhere/deep"].map(|directory| home.path().join(directory)) {
        let run =
            |more: &[&str]| call(Command::new("sh").arg(&script).arg("--prefix").arg(&prefix).args(more));
        // In `.local` this is an upgrade.
        run(&[])?;
        for program in ["lhssh", "lhscp", "lhsftp", "longhaul"] {
            call(Command::new(prefix.join("bin").join(program)).arg("--version"))?;
        }
        run(&["--uninstall"])?;
        if prefix.exists() {
            let left = output(Command::new("find").arg(&prefix))?;
            return Err(format!("install.sh --uninstall left\n{left}"));
        }
    }
    Ok(())
}
