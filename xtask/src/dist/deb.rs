//! Debian packages, created with `dpkg-deb`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::layout::{LIB, OPENSSH, Parts, System};
use super::source::{Source, failed, output};
use super::tree::{Item, What, gzip, settle, write};
use crate::workspace::Outcome;

/// Revision of the packaging of one version.
const REVISION: u32 = 1;

/// Fields of `control` that do not depend on the files.
struct Control {
    name: &'static str,
    section: &'static str,
    depends: &'static str,
    recommends: &'static str,
    suggests: &'static str,
    about: &'static str,
    description: &'static str,
}

const PACKAGES: [Control; 3] = [
    Control {
        name: "longhaul",
        section: "net",
        depends: "",
        // Loaded for GSSAPIAuthentication, and for security keys.
        recommends: "libgssapi-krb5-2, libfido2-1",
        suggests: "longhaul-server, longhaul-openssh-names",
        about: "SSH client programs for moving data fast",
        description: "lhssh, lhscp, lhsftp and the programs for keys and agents, written in Rust. They take the\n\
            flags, the files and the configuration of OpenSSH's programs, and are installed beside them.\n\
            \n\
            Receive windows grow with the path, many files are in flight at a time, and a copy that was\n\
            cut off continues.",
    },
    Control {
        name: "longhaul-server",
        section: "net",
        depends: "longhaul (= @VERSION@), passwd, libpam0g, libpam-modules, libpam-runtime",
        recommends: "libpam-systemd",
        suggests: "",
        about: "SSH server for moving data fast",
        description: "lhsshd runs beside OpenSSH's sshd, on port 2222 until it is told another. It reads\n\
            /etc/ssh/sshd_config behind its own file and uses the host keys that are there; it makes some\n\
            only where there are none.",
    },
    Control {
        name: "longhaul-openssh-names",
        section: "net",
        depends: "longhaul (= @VERSION@)",
        recommends: "",
        suggests: "",
        about: "Longhaul's SSH programs under OpenSSH's names",
        description: "With this package ssh, scp, sftp, ssh-keygen, ssh-agent, ssh-add and ssh-keyscan are\n\
            Longhaul's programs. OpenSSH's stay reachable as ssh.openssh and so on, and get their names\n\
            back when this package is removed.",
    },
];

/// Creates all packages.
pub(super) fn make(source: &Source, parts: &Parts) -> Outcome {
    let version = format!("{}-{REVISION}", source.version());
    for control in &PACKAGES {
        let (mut items, libraries) = match control.name {
            "longhaul" => (parts.client().to_vec(), true),
            "longhaul-server" => (parts.server(System::Debian)?, false),
            _ => (parts.names().to_vec(), false),
        };
        if control.name == "longhaul-server" && manager_is_old() {
            for_old_manager(&mut items, &parts.file("systemd/reload-before-253.conf")?);
        }
        items.extend(documents(source, parts, control.name, &version)?);
        items.extend(overrides(parts, control.name));
        let directory = source.scratch(&format!("deb-{}", control.name))?;
        write(&items, &directory)?;
        let depends = control.depends.replace("@VERSION@", &version);
        let libraries = if libraries { libraries_of(&directory)? } else { String::new() };
        let depends = [libraries, depends].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
        write(&control_files(parts, control, &items, &version, &depends.join(", "))?, &directory)?;
        settle(&directory, source.epoch)?;
        let mut pack = Command::new("dpkg-deb");
        pack.args(["--root-owner-group", "-Zxz", "--threads-max=1"]);
        pack.arg(format!("-z{}", source.compression())).arg("--build").arg(&directory);
        pack.arg(source.out.join(format!("{}_{version}_amd64.deb", control.name)));
        output(pack.env("SOURCE_DATE_EPOCH", source.epoch.to_string()))?;
    }
    Ok(())
}

/// Returns true if the systemd of this system, for which the package is made, does not support
/// `Type=notify-reload`.
pub(super) fn manager_is_old() -> bool {
    let shown = output(Command::new("systemctl").arg("--version")).unwrap_or_default();
    let version = shown.split_whitespace().nth(1).and_then(|text| text.parse::<u32>().ok());
    // Without systemd here, this is a container, so the Debian release decides.
    let of_release = || fs::read_to_string("/etc/debian_version").is_ok_and(|text| text.starts_with("12"));
    version.map_or_else(of_release, |version| version < 253)
}

/// Replaces `Type=notify-reload` by reload settings that an old systemd supports. A drop-in file beside the
/// unit would do that too, but would cause a warning about the unit in the journal.
pub(super) fn for_old_manager(items: &mut [Item], settings: &str) {
    let settings = settings.split_once("[Service]\n").map_or("", |(_, settings)| settings);
    for item in items.iter_mut().filter(|item| item.path.ends_with("/lhsshd.service")) {
        if let What::Text(text, _) = &mut item.what {
            *text = String::from_utf8_lossy(text).replace("Type=notify-reload\n", settings).into_bytes();
        }
    }
}

/// Returns the files that Debian requires below `/usr/share/doc`.
fn documents(source: &Source, parts: &Parts, name: &str, version: &str) -> Result<Vec<Item>, String> {
    let below = format!("usr/share/doc/{name}");
    let (week, day, month, year) = super::source::date(source.epoch);
    let changes = format!(
        "longhaul ({version}) unstable; urgency=medium\n\n  * New version; changelog.gz says what it changes.\n\n \
         -- {MAINTAINER}  {week}, {day:02} {month} {year:04} 00:00:00 +0000\n"
    );
    let copyright = format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: longhaul\n\n\
         Files: *\nCopyright: The Longhaul authors\nLicense: MIT or Apache-2.0\n\n\
         License: MIT\n{}\n\nLicense: Apache-2.0\n On Debian systems, the text is in\n \
         /usr/share/common-licenses/Apache-2.0.\n",
        fs::read_to_string(source.root.join("LICENSE-MIT"))
            .map_err(failed(&source.root.join("LICENSE-MIT")))?
            .lines()
            .map(|line| if line.trim().is_empty() { " .".to_owned() } else { format!(" {line}") })
            .collect::<Vec<_>>()
            .join("\n"),
    );
    let mut items = vec![
        Item::text(format!("{below}/changelog.Debian.gz"), gzip(changes.as_bytes())?),
        Item::text(format!("{below}/changelog.gz"), gzip(parts.changelog.as_bytes())?),
        Item::text(format!("{below}/copyright"), copyright),
    ];
    if name == "longhaul" {
        items.push(Item::text(
            format!("{below}/THIRD-PARTY-LICENCES.txt.gz"),
            gzip(parts.licences.as_bytes())?,
        ));
    }
    Ok(items)
}

const MAINTAINER: &str = "The Longhaul authors <longhaul@invalid.example>";

fn overrides(parts: &Parts, name: &str) -> Option<Item> {
    let text = parts.file(&format!("debian/{name}.lintian-overrides")).ok()?;
    Some(Item::text(format!("usr/share/lintian/overrides/{name}"), text))
}

/// Returns the packages that contain the programs' libraries, with versions.
fn libraries_of(directory: &Path) -> Result<String, String> {
    let stub = tempfile::tempdir().map_err(|error| error.to_string())?;
    let debian = stub.path().join("debian");
    fs::create_dir(&debian).map_err(failed(&debian))?;
    let text = "Source: longhaul\n\nPackage: longhaul\nArchitecture: any\n";
    fs::write(debian.join("control"), text).map_err(failed(&debian))?;
    let mut command = Command::new("dpkg-shlibdeps");
    command.arg("-O").current_dir(stub.path());
    let programs = fs::read_dir(directory.join(LIB)).map_err(failed(directory))?.flatten();
    let mut files: Vec<_> = programs
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let text = output(command.args(files))?;
    let depends = text.trim().strip_prefix("shlibs:Depends=").map(str::to_owned);
    depends.ok_or_else(|| format!("dpkg-shlibdeps: {text}"))
}

fn control_files(
    parts: &Parts,
    control: &Control,
    items: &[Item],
    version: &str,
    depends: &str,
) -> Result<Vec<Item>, String> {
    let mut size = 0;
    let mut sums = String::new();
    let mut configs = String::new();
    let mut sorted: Vec<&Item> = items.iter().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    for item in sorted {
        let bytes = match &item.what {
            What::Text(text, _) => text.clone(),
            What::Copy(file, _) => fs::read(file).map_err(failed(file))?,
            What::Link(_) | What::Directory => continue,
        };
        size += bytes.len().div_ceil(1024);
        if item.is_config {
            let _ = writeln!(configs, "/{}", item.path);
        } else {
            let _ = writeln!(sums, "{}  {}", md5(&bytes)?, item.path);
        }
    }
    let mut text = format!(
        "Package: {}\nSource: longhaul\nVersion: {version}\nArchitecture: amd64\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {size}\n",
        control.name
    );
    for (field, value) in
        [("Depends", depends), ("Recommends", control.recommends), ("Suggests", control.suggests)]
    {
        if !value.is_empty() {
            let _ = writeln!(text, "{field}: {value}");
        }
    }
    let _ =
        writeln!(text, "Section: {}\nPriority: optional\nDescription: {}", control.section, control.about);
    text.push_str(&described(control.description));
    let mut files = vec![Item::text("DEBIAN/control", text), Item::text("DEBIAN/md5sums", sums)];
    if !configs.is_empty() {
        files.push(Item::text("DEBIAN/conffiles", configs));
    }
    for script in ["preinst", "postinst", "prerm", "postrm"] {
        if let Ok(text) = parts.file(&format!("debian/{}.{script}", control.name)) {
            let text = text.replace("@DIVERTED@", &diverted());
            let text = text.replace("@LISTENER@\n", &parts.file("listener.sh")?);
            files.push(Item::script(format!("DEBIAN/{script}"), text));
        }
    }
    Ok(files)
}

/// Returns the long description, in lines of at most 79 columns.
fn described(text: &str) -> String {
    let mut out = String::new();
    for (index, paragraph) in text.split("\n\n").enumerate() {
        if index > 0 {
            out.push_str(" .\n");
        }
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if line.len() + 1 + word.len() > 79 {
                let _ = writeln!(out, "{line}");
                line.clear();
            }
            let _ = write!(line, " {word}");
        }
        let _ = writeln!(out, "{line}");
    }
    out
}

/// Returns every path that OpenSSH's packages contain too.
fn diverted() -> String {
    let paths = OPENSSH
        .iter()
        .flat_map(|(theirs, _)| [format!("/usr/bin/{theirs}"), format!("/usr/share/man/man1/{theirs}.1.gz")]);
    paths.collect::<Vec<_>>().join(" ")
}

fn md5(bytes: &[u8]) -> Result<String, String> {
    let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    fs::write(file.path(), bytes).map_err(failed(file.path()))?;
    let text = output(Command::new("md5sum").arg(file.path()))?;
    text.split_whitespace().next().map(str::to_owned).ok_or_else(|| "md5sum: prints nothing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_managers_get_settings_that_they_know() {
        let read = |path: &str| fs::read_to_string(crate::workspace::root().join(path)).unwrap();
        let unit = read("packaging/systemd/lhsshd.service");
        let mut items = [Item::text("usr/lib/systemd/system/lhsshd.service", unit.as_str())];
        for_old_manager(&mut items, &read("packaging/systemd/reload-before-253.conf"));
        let What::Text(text, _) = &items[0].what else { panic!("a text") };
        let text = String::from_utf8_lossy(text);
        assert!(!text.contains("notify-reload"), "{text}");
        assert!(text.contains("[Service]\nType=notify\nExecReload=/bin/kill -HUP $MAINPID\nEnv"), "{text}");
    }

    #[test]
    fn descriptions_are_wrapped() {
        let text = described(&format!("{}\n\nlast", "word ".repeat(20)));
        assert!(text.lines().all(|line| line.starts_with(' ') && line.len() < 80), "{text}");
        assert!(text.ends_with(" .\n last\n"), "{text}");
    }
}
