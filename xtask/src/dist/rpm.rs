//! RPM packages, created with `rpmbuild`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::layout::{Parts, System};
use super::source::{Source, failed, output};
use super::tree::{Item, What, settle, write};
use crate::workspace::Outcome;

/// Name of the description that all packages are created from.
const SPEC: &str = "longhaul.spec";

/// Directories that are removed with the package, if they are empty then.
const DIRECTORIES: [&str; 7] = [
    super::layout::LIB,
    "usr/share/fish",
    "usr/share/fish/vendor_completions.d",
    "usr/share/licenses/longhaul",
    "usr/share/longhaul",
    "usr/share/zsh",
    "usr/share/zsh/site-functions",
];

/// Creates all packages from one description.
pub(super) fn make(source: &Source, parts: &Parts) -> Outcome {
    let top = source.scratch("rpm")?;
    let tree = top.join("tree");
    let mut client = parts.client().to_vec();
    client.push(Item::text("usr/share/licenses/longhaul/THIRD-PARTY-LICENCES.txt", parts.licences.as_str()));
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let path = source.root.join(licence);
        let text = fs::read(&path).map_err(failed(&path))?;
        client.push(Item::text(format!("usr/share/licenses/longhaul/{licence}"), text));
    }
    client.push(Item::text("usr/share/longhaul/longhaul.fc", parts.file("selinux/longhaul.fc")?));
    let packages = [("", &client), ("-n longhaul-server", &parts.server(System::RedHat)?)];
    let mut spec = parts.file("rpm/longhaul.spec")?;
    for (name, items) in packages {
        let mut items = items.clone();
        for item in &mut items {
            item.path = item.path.replace("/zsh/vendor-completions/", "/zsh/site-functions/");
        }
        write(&items, &tree)?;
        let _ = write!(spec, "\n%files {name}\n{}", files(&items));
    }
    // The third package contains only links, which its scripts create in the place of OpenSSH's programs.
    let names: String = super::layout::OPENSSH.iter().map(|(name, _)| format!("{name} ")).collect();
    spec.push_str("\n%files -n longhaul-openssh-names\n");
    let (week, day, month, year) = super::source::date(source.epoch);
    let _ = write!(
        spec,
        "\n%changelog\n* {week} {month} {day:02} {year:04} The Longhaul authors <longhaul@invalid.example> - {0}-1\n\
         - Version {0}\n",
        source.version()
    );
    settle(&tree, source.epoch)?;
    let spec = spec
        .replace("@VERSION@", source.version())
        .replace("@TREE@", &tree.display().to_string())
        .replace("@NAMES@", names.trim_end())
        // rpm would read a single one as the start of a macro.
        .replace("@LISTENER@\n", &parts.file("listener.sh")?.replace('%', "%%"));
    super::source::write(&top.join(SPEC), &spec)?;
    build(source, &top, SPEC, &source.out)
}

/// Creates all packages again in the directory `to`, from the files of the last [`make`], with a newer
/// version.
pub(super) fn make_next(source: &Source, to: &Path) -> Outcome {
    const NEXT: &str = "next.spec";
    let top = source.scratch_path("rpm");
    let spec = fs::read_to_string(top.join(SPEC)).map_err(failed(&top.join(SPEC)))?;
    let version = format!("Version: {}", source.version());
    super::source::write(&top.join(NEXT), &spec.replacen(&version, &format!("{version}+next"), 1))?;
    build(source, &top, NEXT, to)
}

/// Runs `rpmbuild` for a description in the directory `top`; the packages are created in `out`.
fn build(source: &Source, top: &Path, spec: &str, out: &Path) -> Outcome {
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--quiet", "--target", "x86_64"]);
    for (name, value) in [
        ("_topdir", top.display().to_string()),
        ("_rpmdir", out.display().to_string()),
        ("_build_name_fmt", "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm".to_owned()),
        ("_buildhost", "longhaul".to_owned()),
        ("_dbpath", top.join("db").display().to_string()),
        ("use_source_date_epoch_as_buildtime", "1".to_owned()),
        ("clamp_mtime_to_source_date_epoch", "1".to_owned()),
        ("_build_id_links", "none".to_owned()),
        ("_binary_payload", format!("w{}.xzdio", source.compression())),
    ] {
        build.arg("--define").arg(format!("{name} {value}"));
    }
    output(build.arg(top.join(spec)).env("SOURCE_DATE_EPOCH", source.epoch.to_string())).map(drop)
}

/// Returns the `%files` list of a package.
fn files(items: &[Item]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        let path = &item.path;
        lines.push(match (&item.what, item.is_config) {
            (What::Directory, _) => format!("%dir /{path}\n"),
            (_, true) => format!("%config(noreplace) /{path}\n"),
            _ if path.starts_with("usr/share/licenses/") => format!("%license /{path}\n"),
            _ => format!("/{path}\n"),
        });
    }
    // Other packages that have them too may not be installed.
    for directory in DIRECTORIES {
        if items.iter().any(|item| item.path.starts_with(&format!("{directory}/"))) {
            lines.push(format!("%dir /{directory}\n"));
        }
    }
    lines.sort();
    lines.dedup();
    lines.concat()
}
