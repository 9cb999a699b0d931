//! The archive for a home directory, and the archive of debug symbols.

use super::build::Program;
use super::layout::Parts;
use super::source::{Source, sha256};
use super::tree::{Item, settle, tar, write};
use crate::workspace::Outcome;

/// Makes `longhaul-VERSION-PLATFORM.tar.xz`, with a file of `packaging/tarball` as its README.
pub(super) fn make(source: &Source, parts: &Parts, bill: &str, platform: &str, readme: &str) -> Outcome {
    let name = format!("longhaul-{}-{platform}", source.version());
    let parent = source.scratch("tarball")?;
    let directory = parent.join(&name);
    let mut items: Vec<Item> = Vec::new();
    for item in parts.client() {
        // Units are left out, because they contain absolute paths.
        if let Some(path) = item.path.strip_prefix("usr/").filter(|path| !path.starts_with("lib/systemd")) {
            items.push(Item { path: format!("root/{path}"), ..item.clone() });
        }
    }
    items.push(Item::text("root/share/doc/longhaul/THIRD-PARTY-LICENCES.txt", parts.licences.as_str()));
    items.push(Item::text("root/share/doc/longhaul/CHANGELOG.md", parts.changelog.as_str()));
    items.push(Item::text("root/share/doc/longhaul/sbom.cdx.json", bill));
    items.push(Item::script("install.sh", parts.file("tarball/install.sh")?));
    items.push(Item::text("README", parts.file(&format!("tarball/{readme}"))?));
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let path = source.root.join(licence);
        let text = std::fs::read(&path).map_err(super::source::failed(&path))?;
        items.push(Item::text(format!("root/share/doc/longhaul/{licence}"), text.clone()));
        items.push(Item::text(licence, text));
    }
    write(&items, &directory)?;
    let mut sums: Vec<String> = Vec::new();
    for item in items.iter().filter(|item| !matches!(item.what, super::tree::What::Link(_))) {
        let path = directory.join(&item.path);
        let bytes = std::fs::read(&path).map_err(super::source::failed(&path))?;
        sums.push(format!("{}  {}\n", sha256(&bytes), item.path));
    }
    sums.sort_by(|a, b| a[64..].cmp(&b[64..]));
    super::source::write(&directory.join("SHA256SUMS"), &sums.concat())?;
    settle(&parent, source.epoch)?;
    tar(&parent, &name, source, &source.out.join(format!("{name}.tar.xz")))
}

/// Creates `longhaul-VERSION-x86_64-linux-debug.tar.xz`. It must be unpacked at `/`, where debuggers look for
/// symbols.
pub(super) fn debug_symbols(source: &Source, programs: &[Program]) -> Outcome {
    let parent = source.scratch("debug")?;
    let items: Vec<Item> = programs
        .iter()
        .map(|program| {
            let (first, rest) = program.build_id.split_at(2);
            let mut item =
                Item::program(format!("usr/lib/debug/.build-id/{first}/{rest}.debug"), &program.symbols);
            item.what = super::tree::What::Copy(program.symbols.clone(), 0o644);
            item
        })
        .collect();
    write(&items, &parent)?;
    settle(&parent, source.epoch)?;
    let name = format!("longhaul-{}-x86_64-linux-debug.tar.xz", source.version());
    tar(&parent, "usr", source, &source.out.join(name))
}
