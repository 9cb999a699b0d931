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
    let analyze = |words: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        command.args(words).arg(format!("--root={}", root.display())).env("LC_ALL", "C");
        command.env("SYSTEMD_COLORS", "0").env("SYSTEMD_EMOJI", "0");
        command
    };
    // The tool reports unknown settings but exits with status 0, so its output counts.
    quiet(analyze(&["verify", "--man=no"]).args(&units))?;
    let security = analyze(&["security", "--offline=true", "--no-pager", "lhsshd.service"]).output();
    let text = security.map_err(|error| format!("systemd-analyze: {error}"))?.stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    let score = text.lines().rfind(|line| line.contains("exposure level")).map(str::trim);
    println!("units: {} verified; {}", units.len(), score.unwrap_or("no exposure level"));
    Ok(())
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
        let packaging = crate::workspace::root().join("packaging/systemd");
        let read = |name: &str| fs::read_to_string(packaging.join(name)).unwrap();
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
        verify(root.path()).unwrap();
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
