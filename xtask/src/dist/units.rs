//! Checks the units of the packages with systemd's own tool, and the AppArmor profile with its parser.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::source::failed;
use super::tree::{Item, write};
use crate::workspace::Outcome;

/// Directories in which packages install units: of the system, and of users.
const SYSTEM: &str = "usr/lib/systemd/system";
const OF_USERS: &str = "usr/lib/systemd/user";

/// Checks all units below `root`, in which the packages are unpacked. Prints the rating of the server's
/// hardening.
pub(super) fn verify(root: &Path) -> Outcome {
    if lh_interop::find("systemd-analyze").is_none() {
        println!("SKIPPED dist: systemd-analyze is not installed, so the units are not verified");
        return Ok(());
    }
    let system = root.join(SYSTEM);
    // The tool does not verify user units below another root, so they are copied. Longhaul's units contain
    // nothing that is specific to users.
    for unit in files(&root.join(OF_USERS))? {
        let to = system.join(unit.file_name().unwrap_or_default());
        fs::copy(&unit, &to).map_err(failed(&unit))?;
    }
    let units: Vec<String> = files(&system)?
        .iter()
        .filter_map(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
        .collect();
    // The targets that units refer to belong to systemd.
    for target in files(Path::new("/").join(SYSTEM).as_path())? {
        let name = target.file_name().unwrap_or_default();
        if target.extension().is_some_and(|extension| extension == "target") && !system.join(name).exists() {
            fs::copy(&target, system.join(name)).map_err(failed(&target))?;
        }
    }
    // lhsshd.service runs this program of the system if systemd is old.
    let kill = root.join("bin/kill");
    if !kill.exists() {
        write(&[Item::script("bin/kill", "#!/bin/sh\n")], root)?;
    }
    // The tool reports unknown settings but exits with status 0, so its output counts.
    quiet(analyze(root, &["verify", "--man=no"]).args(&units))?;
    println!("units: {} verified; {}", units.len(), exposure(root, "lhsshd.service")?);
    Ok(())
}

/// Returns systemd's tool with these arguments, for the units below `root`.
fn analyze(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("systemd-analyze");
    command.args(words).arg(format!("--root={}", root.display())).env("LC_ALL", "C");
    command.env("SYSTEMD_COLORS", "0").env("SYSTEMD_EMOJI", "0");
    command
}

/// Returns the tool's verdict about the restrictions of a service: its line with the exposure level.
fn exposure(root: &Path, unit: &str) -> Result<String, String> {
    let security = analyze(root, &["security", "--offline=true", "--no-pager", unit]).output();
    let text = security.map_err(|error| format!("systemd-analyze: {error}"))?.stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().rfind(|line| line.contains("exposure level")).map(str::trim);
    line.map(str::to_owned).ok_or_else(|| format!("{unit}: no exposure level"))
}

/// Parses the AppArmor profile below `root`, without loading it.
pub(super) fn parse_profile(root: &Path) -> Outcome {
    if lh_interop::find("apparmor_parser").is_none() {
        println!("SKIPPED dist: apparmor_parser is not installed, so the AppArmor profile is not parsed");
        return Ok(());
    }
    let profile = root.join("etc/apparmor.d/lhsshd");
    let mut parser = Command::new("apparmor_parser");
    parser.args(["--skip-kernel-load", "--skip-cache", "--quiet"]).arg(profile);
    let done = parser.output().map_err(|error| format!("apparmor_parser: {error}"))?;
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
}

/// Runs a command that prints nothing on success. Any output is returned as the error.
fn quiet(command: &mut Command) -> Outcome {
    let done = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if done.status.success() && said.trim().is_empty() { Ok(()) } else { Err(said) }
}

/// Returns the files of a directory, sorted by name; empty if it does not exist.
fn files(directory: &Path) -> Result<Vec<std::path::PathBuf>, String> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(directory)(error)),
    };
    let mut found: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::deb;
    use super::*;

    /// Returns a root directory whose service contains these lines.
    fn root(lines: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let service = format!("[Service]\nType=notify\nExecStart=/usr/sbin/lhsshd -D\n{lines}");
        let socket = "[Socket]\nListenStream=%t/agent.socket\n[Install]\nWantedBy=sockets.target\n";
        let items = [
            Item::text(format!("{SYSTEM}/lhsshd.service"), service),
            Item::text(format!("{OF_USERS}/lhsshd.socket"), socket),
            Item::script("usr/sbin/lhsshd", "#!/bin/sh\n"),
        ];
        write(&items, root.path()).unwrap();
        root
    }

    #[test]
    fn complaints_about_units_are_faults() {
        if lh_interop::find("systemd-analyze").is_none() {
            return lh_interop::skip("complaints_about_units_are_faults", "systemd-analyze is not installed");
        }
        verify(root("").path()).unwrap();
        for (lines, complaint) in
            [("Nonsense=yes\n", "Nonsense"), ("ExecReload=/usr/bin/nothing\n", "/usr/bin/nothing")]
        {
            let said = verify(root(lines).path()).unwrap_err();
            assert!(said.contains(complaint), "{said}");
        }
    }

    #[test]
    fn units_of_the_packages_are_without_fault() {
        if lh_interop::find("systemd-analyze").is_none() {
            return lh_interop::skip(
                "units_of_the_packages_are_without_fault",
                "systemd-analyze is not installed",
            );
        }
        verify(packaged().path()).unwrap();
    }

    /// Directives that the units have, and beginnings of those that they must not have.
    const DIRECTIVES: [(&str, &[&str], &[&str]); 4] = [
        (
            "lhsshd.service",
            &[
                "Type=notify-reload",
                "KillMode=process",
                "Restart=on-failure",
                "RestartPreventExitStatus=1 255",
                "WatchdogSec=60",
                "AppArmorProfile=-lhsshd",
                "OOMPolicy=continue",
            ],
            // Sessions would inherit them.
            &[
                "Capability",
                "Limit",
                "Lock",
                "Memory",
                "NoNew",
                "Private",
                "Protect",
                "ReadOnly",
                "Restrict",
                "Secure",
                "SystemCall",
                "Tasks",
                "UMask",
            ],
        ),
        ("lhsshd.socket", &["Accept=no", "BindIPv6Only=ipv6-only", "FileDescriptorName=lhsshd"], &[]),
        (
            "lhssh-agent.service",
            &[
                "UMask=0077",
                "LimitCORE=0",
                "NoNewPrivileges=yes",
                "LockPersonality=yes",
                "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
                "RestrictRealtime=yes",
                "RestrictSUIDSGID=yes",
                "SystemCallArchitectures=native",
            ],
            // Programs that ask for passphrases may need what these forbid.
            &["MemoryDeny", "Private", "Protect", "RestrictNamespaces"],
        ),
        ("lhssh-agent.socket", &["SocketMode=0600", "DirectoryMode=0700"], &[]),
    ];

    #[test]
    fn units_have_the_directives_that_protect_and_keep_sessions() {
        for (unit, present, absent) in DIRECTIVES {
            let text = fs::read_to_string(packaging().join(unit)).unwrap();
            for directive in present {
                assert!(text.lines().any(|line| line == *directive), "{unit} lacks {directive}");
            }
            for start in absent {
                let is_allowed = |line: &str| !line.starts_with(start) || line.starts_with("RestartPrevent");
                assert!(text.lines().all(is_allowed), "{unit} has {start}");
            }
        }
    }

    /// The page says, for one version of systemd: "9.6 of 10 … (`lhsshd`), 8.5 (`lhssh-agent`)".
    #[test]
    fn exposure_is_what_the_page_says() {
        let test = "exposure_is_what_the_page_says";
        let page = fs::read_to_string(crate::workspace::root().join("docs/install.md")).unwrap();
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, said) = page.split_once("Of 10 points for exposure, systemd ").unwrap();
        let number = |text: &str| text.split([' ', ',']).next().unwrap().to_owned();
        let version = number(said);
        let Ok(tool) = Command::new("systemd-analyze").arg("--version").output() else {
            return lh_interop::skip(test, "systemd-analyze is not installed");
        };
        if !String::from_utf8_lossy(&tool.stdout).starts_with(&format!("systemd {version} ")) {
            return lh_interop::skip(
                test,
                &format!("another systemd than {version}, which counts differently"),
            );
        }
        let root = packaged();
        for unit in ["lhssh-agent", "lhsshd"] {
            let line = exposure(root.path(), &format!("{unit}.service")).unwrap();
            let level = number(line.split_once(".service: ").unwrap().1);
            assert!(said.contains(&format!("`{unit}` {level}")), "docs/install.md: {line}");
        }
    }

    fn packaging() -> std::path::PathBuf {
        crate::workspace::root().join("packaging/systemd")
    }

    /// Returns a root directory with the units of the packages.
    fn packaged() -> tempfile::TempDir {
        let read = |name: &str| fs::read_to_string(packaging().join(name)).unwrap();
        let mut items: Vec<Item> = [(SYSTEM, "lhsshd"), (OF_USERS, "lhssh-agent")]
            .into_iter()
            .flat_map(|(place, name)| ["service", "socket"].map(|kind| (place, format!("{name}.{kind}"))))
            .map(|(place, name)| Item::text(format!("{place}/{name}"), read(&name)))
            .collect();
        if deb::manager_is_old() {
            deb::for_old_manager(&mut items, &read("reload-before-253.conf"));
        }
        items
            .extend(["usr/sbin/lhsshd", "usr/bin/lhssh-agent"].map(|path| Item::script(path, "#!/bin/sh\n")));
        let root = tempfile::tempdir().unwrap();
        write(&items, root.path()).unwrap();
        // As `verify` does, for the tool that looks for units of the system alone.
        for unit in files(&root.path().join(OF_USERS)).unwrap() {
            let to = root.path().join(SYSTEM).join(unit.file_name().unwrap());
            fs::copy(&unit, &to).unwrap();
        }
        root
    }

    #[test]
    fn profile_of_the_server_parses() {
        if lh_interop::find("apparmor_parser").is_none() {
            return lh_interop::skip("profile_of_the_server_parses", "apparmor_parser is not installed");
        }
        let root = tempfile::tempdir().unwrap();
        let text = fs::read_to_string(crate::workspace::root().join("packaging/apparmor/lhsshd")).unwrap();
        let place = |text: &str| write(&[Item::text("etc/apparmor.d/lhsshd", text)], root.path()).unwrap();
        place(&text);
        parse_profile(root.path()).unwrap();
        place(&text.replace("capability chown", "capability nonsense"));
        assert!(parse_profile(root.path()).is_err());
    }
}
