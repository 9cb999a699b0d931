//! The crates of the packaged programs, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::source::{Source, failed, output};
use crate::workspace::cargo;

/// Cargo packages of the packaged programs.
pub(super) const PACKAGES: [&str; 3] = ["longhaul-multi", "lhssh-pkcs11-helper", "lhssh-keysign"];

/// Target for which packages are built.
pub(super) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A crate.
#[derive(Debug)]
pub(super) struct Crate {
    pub name: String,
    pub version: String,
    /// Licence as an SPDX expression.
    pub licence: String,
    pub repository: String,
    pub directory: PathBuf,
    /// False for crates of this workspace.
    pub from_registry: bool,
    /// SHA-256 of the archive in the registry.
    pub checksum: Option<String>,
    /// False for crates that only run during the build: their code is not in the programs.
    pub is_linked: bool,
    /// Dependencies, as indices into [`Graph::crates`].
    pub needs: Vec<usize>,
}

/// All crates, sorted by name and version, so that an index is equal on every machine.
#[derive(Debug)]
pub(super) struct Graph {
    pub crates: Vec<Crate>,
    /// Cargo packages of the packaged programs.
    pub roots: Vec<&'static str>,
    /// Cargo's directory of unpacked crates.
    pub sources: Option<PathBuf>,
}

/// Reads the crates of [`PACKAGES`], including those that are only needed for the build.
pub(super) fn read(source: &Source) -> Result<Graph, String> {
    let mut command = cargo();
    let metadata = ["metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET];
    command.args(metadata).current_dir(&source.root);
    let metadata: Value = serde_json::from_str(&output(&mut command)?).map_err(|error| error.to_string())?;
    let lock = source.root.join("Cargo.lock");
    let checksums = checksums(&fs::read_to_string(&lock).map_err(failed(&lock))?);
    graph(&metadata, &checksums).ok_or_else(|| "cargo metadata: not in the form that is expected".to_owned())
}

/// Returns the checksums of `Cargo.lock` by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let start = format!("{key} = \"");
        block.lines().find_map(|line| Some(line.strip_prefix(&start)?.strip_suffix('"')?.to_owned()))
    };
    let blocks = lock.split("[[package]]").skip(1);
    blocks
        .filter_map(|block| {
            Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?))
        })
        .collect()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn graph(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Option<Graph> {
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()?
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let packages: BTreeMap<&str, &Value> = metadata["packages"]
        .as_array()?
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let is_local = |id: &str| packages[id]["source"].is_null();
    let mut roots = Vec::new();
    let mut start = Vec::new();
    for name in PACKAGES {
        let found = packages.keys().find(|id| packages[**id]["name"] == name && is_local(id));
        match found {
            Some(id) => {
                roots.push(name);
                start.push(*id);
            }
            None => return None,
        }
    }
    let edges = |id: &str, linked_only: bool| -> Vec<&str> {
        let deps = nodes.get(id).map_or(&[][..], |node| array(&node["deps"]));
        let wanted = |dep: &&Value| {
            let kinds = array(&dep["dep_kinds"]);
            kinds.iter().any(|kind| kind["kind"].is_null() || (!linked_only && kind["kind"] == "build"))
        };
        deps.iter().filter(wanted).filter_map(|dep| dep["pkg"].as_str()).collect()
    };
    let is_macro = |id: &str| {
        let targets = packages[id]["targets"].as_array();
        targets.is_some_and(|all| all.iter().any(|one| one["kind"][0] == "proc-macro"))
    };
    let reach = |linked_only: bool| {
        let mut seen: BTreeSet<&str> = start.iter().copied().collect();
        let mut waiting = start.clone();
        while let Some(id) = waiting.pop() {
            // The dependencies of a macro run in the compiler, so they are not linked.
            let next = edges(id, linked_only).into_iter().filter(|id| !linked_only || !is_macro(id));
            waiting.extend(next.filter(|id| seen.insert(id)));
        }
        seen
    };
    let (linked, all) = (reach(true), reach(false));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut ids: Vec<&str> = all.into_iter().collect();
    ids.sort_by_key(|id| (text(&packages[id]["name"]), text(&packages[id]["version"])));
    let index: BTreeMap<&str, usize> = ids.iter().enumerate().map(|(index, id)| (*id, index)).collect();
    let mut sources = None;
    let mut crates = Vec::new();
    for id in &ids {
        let package = packages[id];
        let directory = PathBuf::from(package["manifest_path"].as_str()?).parent()?.to_path_buf();
        if !is_local(id) {
            sources = directory.parent().map(PathBuf::from);
        }
        let mut needs: Vec<usize> =
            edges(id, false).into_iter().filter_map(|need| index.get(need).copied()).collect();
        needs.sort_unstable();
        needs.dedup();
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        crates.push(Crate {
            licence: text(&package["license"]).replace('/', " OR "),
            repository: text(&package["repository"]),
            directory,
            from_registry: !is_local(id),
            checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
            is_linked: linked.contains(id),
            needs,
            name,
            version,
        });
    }
    Some(Graph { crates, roots, sources })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, source: Value) -> Value {
        serde_json::json!({
            "id": name, "name": name, "version": "1.0.0", "source": source, "license": "MIT/Apache-2.0",
            "repository": null, "manifest_path": format!("/x/{name}/Cargo.toml"), "targets": [{"kind": ["lib"]}],
        })
    }

    #[test]
    fn crates_that_only_build_are_not_linked() {
        let node = |name: &str, deps: Value| serde_json::json!({"id": name, "deps": deps});
        let needs = |name: &str, kind: Value| serde_json::json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = serde_json::json!({
            "packages": [
                package("longhaul-multi", Value::Null), package("lhssh-pkcs11-helper", Value::Null),
                package("lhssh-keysign", Value::Null), package("used", "registry".into()),
                package("builder", "registry".into()), package("tester", "registry".into()),
            ],
            "resolve": {"nodes": [
                node("longhaul-multi", serde_json::json!([
                    needs("used", Value::Null), needs("tester", "dev".into())])),
                node("used", serde_json::json!([needs("builder", "build".into())])),
            ]},
        });
        let lock = "[[package]]\nname = \"used\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n";
        let graph = graph(&metadata, &checksums(lock)).unwrap();
        let found: Vec<_> = graph.crates.iter().map(|one| (one.name.as_str(), one.is_linked)).collect();
        let expected = [
            ("builder", false),
            ("lhssh-keysign", true),
            ("lhssh-pkcs11-helper", true),
            ("longhaul-multi", true),
            ("used", true),
        ];
        assert_eq!(found, expected);
        let used = &graph.crates[4];
        assert_eq!((used.checksum.as_deref(), used.licence.as_str()), (Some("ab"), "MIT OR Apache-2.0"));
        assert_eq!((&used.needs[..], &graph.crates[3].needs[..]), (&[0][..], &[4][..]));
        assert_eq!(graph.roots, PACKAGES);
    }
}
