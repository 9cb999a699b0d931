//! RPM packages, created with `rpmbuild`.

use std::fmt::Write as _;
use std::process::Command;

use super::layout::{Parts, System};
use super::source::{Source, output};
use super::tree::{Item, What, settle, write};
use crate::workspace::Outcome;

/// Creates all packages from one description.
pub(super) fn make(source: &Source, parts: &Parts) -> Outcome {
    let top = source.scratch("rpm")?;
    let tree = top.join("tree");
    let mut client = parts.client().to_vec();
    client.push(Item::text("usr/share/licenses/longhaul/THIRD-PARTY-LICENCES.txt", parts.licences.as_str()));
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let path = source.root.join(licence);
        let text = std::fs::read(&path).map_err(super::source::failed(&path))?;
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
    let file = top.join("longhaul.spec");
    super::source::write(&file, &spec)?;
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--quiet", "--target", "x86_64"]);
    for (name, value) in [
        ("_topdir", top.display().to_string()),
        ("_rpmdir", source.out.display().to_string()),
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
    output(build.arg(&file).env("SOURCE_DATE_EPOCH", source.epoch.to_string())).map(drop)
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
    if items.iter().any(|item| item.path.starts_with(super::layout::LIB)) {
        lines.push(format!("%dir /{}\n%dir /usr/share/longhaul\n", super::layout::LIB));
    }
    lines.sort();
    lines.dedup();
    lines.concat()
}
