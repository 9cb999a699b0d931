//! Checks that the modules of a crate form no cycles, so that they can be read bottom up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::source::Files;
use crate::workspace::shown;

/// Crates whose modules still form cycles, with the number of modules in them. A number may only decrease: a
/// change that removes modules from a cycle lowers it, and removes the row at 0.
const STILL_IN_CYCLES: &[(&str, usize)] = &[];

/// Adds differences from the table to `wrong`. Returns the number of modules in cycles.
pub(super) fn check(name: &str, files: &Files, wrong: &mut Vec<String>) -> usize {
    let edges = files.edges();
    let cycles = cycles(&edges);
    let found: usize = cycles.iter().map(BTreeSet::len).sum();
    let allowed = STILL_IN_CYCLES.iter().find(|(of, _)| *of == name).map_or(0, |(_, allowed)| *allowed);
    if found > allowed {
        wrong.push(format!("{name}: {found} modules in cycles, {allowed} are allowed:"));
        for cycle in &cycles {
            for (from, to) in cycle.iter().flat_map(|from| edges[*from].iter().map(move |to| (from, to))) {
                if cycle.contains(to.as_path()) {
                    wrong.push(format!("    {} -> {}", shown(from), shown(to)));
                }
            }
        }
    } else if found < allowed {
        wrong
            .push(format!("{name}: only {found} modules in cycles; lower its {allowed} in layers/cycles.rs"));
    }
    found
}

/// Returns the cycles: groups of files each of which reaches all others of its group.
pub(super) fn cycles(edges: &BTreeMap<PathBuf, BTreeSet<PathBuf>>) -> Vec<BTreeSet<&Path>> {
    let reach: BTreeMap<&Path, BTreeSet<&Path>> =
        edges.keys().map(|file| (file.as_path(), reachable(edges, file))).collect();
    let mut seen = BTreeSet::new();
    let mut groups = Vec::new();
    for (&file, reached) in &reach {
        if !reached.contains(file) || seen.contains(file) {
            continue;
        }
        let group: BTreeSet<&Path> = reached
            .iter()
            .copied()
            .filter(|to| reach.get(to).is_some_and(|back| back.contains(file)))
            .collect();
        seen.extend(group.iter().copied());
        groups.push(group);
    }
    groups
}

/// Returns the files that `from` imports, directly or through others.
fn reachable<'a>(edges: &'a BTreeMap<PathBuf, BTreeSet<PathBuf>>, from: &Path) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(file) = waiting.pop() {
        for to in edges.get(file).into_iter().flatten() {
            if reached.insert(to.as_path()) {
                waiting.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, BTreeSet, Path, PathBuf, cycles};

    #[test]
    fn groups_that_lead_back_are_cycles() {
        let edges: BTreeMap<PathBuf, BTreeSet<PathBuf>> = [("a", "b"), ("b", "c"), ("c", "b"), ("d", "a")]
            .map(|(from, to)| (PathBuf::from(from), BTreeSet::from([PathBuf::from(to)])))
            .into();
        assert_eq!(cycles(&edges), [BTreeSet::from([Path::new("b"), Path::new("c")])]);
    }
}
