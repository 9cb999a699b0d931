//! Checks that a type whose methods stand in several files can be read bottom up: cycles through
//! `self.method()` are the same tangle as cycles of imports, and imports do not show them. And that types
//! with many methods do not grow.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Expr, ImplItem, Item, ItemImpl, ItemMod, Type};

use super::cycles::cycles;
use super::source::{Files, is_test};
use crate::workspace::shown;

/// Number of files with inherent `impl` blocks of one type from which its methods are checked.
const SEVERAL: usize = 4;

/// Types whose files still call each other in cycles: crate, type, and the number of files in cycles. A
/// number may only decrease: a change that removes files from a cycle lowers it, and removes the row at 0.
const STILL_IN_CYCLES: &[(&str, &str, usize)] = &[];

/// Inherent methods from which on a type needs a row in [`STILL_LARGE`]. No type had as many when the last
/// row was removed; it may be lowered when the largest type has become smaller.
const LARGE: usize = 104;

/// Types with that many inherent methods or more: crate, type, and their number. A number may only fall:
/// parts of such a type that have a state of their own become types of their own.
const STILL_LARGE: &[(&str, &str, usize)] = &[];

/// The inherent methods of a type in one file, and what their code calls of `self`.
#[derive(Debug, Default)]
struct Methods {
    defined: BTreeSet<String>,
    called: BTreeSet<String>,
}

/// Files with methods, for each type of a crate by its name.
type Types = BTreeMap<String, BTreeMap<PathBuf, Methods>>;

/// Adds differences from the table to `wrong`. Returns the number of files in cycles.
pub(super) fn check(name: &str, files: &Files, wrong: &mut Vec<String>) -> Result<usize, String> {
    let mut types = Types::new();
    for file in files.sources() {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        read(&parsed, file, &mut types);
    }
    for (of, files) in &types {
        compare_size(STILL_LARGE, name, of, files.values().map(|methods| methods.defined.len()).sum(), wrong);
    }
    let mut in_cycles = 0;
    let mut seen = BTreeSet::new();
    for (of, files) in types.iter().filter(|(_, files)| files.len() >= SEVERAL) {
        seen.insert(of.as_str());
        in_cycles += compare(name, of, &edges(files), wrong);
    }
    for (_, of, _) in STILL_IN_CYCLES.iter().filter(|(krate, of, _)| *krate == name && !seen.contains(of)) {
        wrong.push(format!("{name}: {of} has methods in few files; remove its row in layers/methods.rs"));
    }
    Ok(in_cycles)
}

/// Compares the number of a type's methods with the table.
fn compare_size(still: &[(&str, &str, usize)], name: &str, of: &str, found: usize, wrong: &mut Vec<String>) {
    let row = still.iter().find(|(krate, each, _)| *krate == name && *each == of);
    match row.map(|(_, _, allowed)| *allowed) {
        None if found >= LARGE => {
            wrong.push(format!("{name}: {of} has {found} methods; types have less than {LARGE}"));
        }
        Some(allowed) if found > allowed => {
            wrong.push(format!("{name}: {of} has {found} methods, {allowed} are allowed"));
        }
        Some(allowed) if found < allowed => {
            let row = if found < LARGE { "remove its row" } else { "lower its number" };
            wrong.push(format!("{name}: {of} has only {found} methods; {row} in layers/methods.rs"));
        }
        _ => {}
    }
}

/// Compares one type with the table. Returns the number of its files in cycles.
fn compare(
    name: &str,
    of: &str,
    edges: &BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    wrong: &mut Vec<String>,
) -> usize {
    let cycles = cycles(edges);
    let found: usize = cycles.iter().map(BTreeSet::len).sum();
    let row = STILL_IN_CYCLES.iter().find(|(krate, each, _)| *krate == name && *each == of);
    let allowed = row.map_or(0, |(_, _, allowed)| *allowed);
    if found > allowed {
        wrong.push(format!(
            "{name}: methods of {of} call each other in cycles of {found} files, {allowed} are allowed:"
        ));
        for cycle in &cycles {
            for (from, to) in cycle.iter().flat_map(|from| edges[*from].iter().map(move |to| (from, to))) {
                if cycle.contains(to.as_path()) {
                    wrong.push(format!("    {} -> {}", shown(from), shown(to)));
                }
            }
        }
    } else if found < allowed {
        wrong.push(format!(
            "{name}: only {found} files of {of} in cycles; lower its {allowed} in layers/methods.rs"
        ));
    }
    found
}

/// Returns, for each file, the other files whose methods it calls. If several files define a name, all of
/// them count.
fn edges(files: &BTreeMap<PathBuf, Methods>) -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
    let defining = |method: &String, from: &PathBuf| -> Vec<PathBuf> {
        let others = files.iter().filter(|(file, methods)| *file != from && methods.defined.contains(method));
        others.map(|(file, _)| file.clone()).collect()
    };
    files
        .iter()
        .map(|(from, methods)| {
            let elsewhere = methods.called.iter().filter(|method| !methods.defined.contains(*method));
            (from.clone(), elsewhere.flat_map(|method| defining(method, from)).collect())
        })
        .collect()
}

/// Adds the inherent methods of a file.
fn read(parsed: &syn::File, file: &Path, types: &mut Types) {
    Reader { file, types }.visit_file(parsed);
}

struct Reader<'a> {
    file: &'a Path,
    types: &'a mut Types,
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if let Item::Fn(function) = item
            && is_test(&function.attrs)
        {
            return;
        }
        syn::visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        let Type::Path(of) = &*block.self_ty else { return };
        let Some(name) = of.path.segments.last().filter(|_| block.trait_.is_none() && !is_test(&block.attrs))
        else {
            return;
        };
        let files = self.types.entry(name.ident.to_string()).or_default();
        let methods = files.entry(self.file.to_path_buf()).or_default();
        for item in &block.items {
            let ImplItem::Fn(function) = item else { continue };
            if is_test(&function.attrs) {
                continue;
            }
            methods.defined.insert(function.sig.ident.to_string());
            Calls { called: &mut methods.called }.visit_block(&function.block);
        }
    }
}

/// Collects the names in `self.name()` and `Self::name` outside of macros.
struct Calls<'a> {
    called: &'a mut BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Calls<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if matches!(&*call.receiver, Expr::Path(receiver) if receiver.path.is_ident("self")) {
            self.called.insert(call.method.to_string());
        }
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut names = path.segments.iter().map(|segment| segment.ident.to_string());
        if let (Some(first), Some(second)) = (names.next(), names.next())
            && first == "Self"
        {
            self.called.insert(second);
        }
        syn::visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(files: &[(&str, &str)]) -> Types {
        let mut types = Types::new();
        for (name, text) in files {
            read(&syn::parse_file(text).unwrap(), Path::new(name), &mut types);
        }
        types
    }

    fn in_cycles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let types = types(files);
        let edges = edges(&types["T"]);
        let name = |file: &&Path| file.display().to_string();
        cycles(&edges).iter().map(|cycle| cycle.iter().map(name).collect()).collect()
    }

    #[test]
    fn methods_that_call_back_form_a_cycle() {
        let files = [
            ("a.rs", "impl T { fn a(&self) { if x { self.b(1); } } }"),
            ("b.rs", "impl T { fn b(&self) { f(|| Self::c()) } fn own(&self) { self.own() } }"),
            ("c.rs", "impl<'a> crate::T<'a> { fn c() { T::free(); self.a().b() } }"),
            ("d.rs", "impl T { fn d(&self) { self.a() } }"),
        ];
        assert_eq!(in_cycles(&files), [["a.rs", "b.rs", "c.rs"]]);
        // These files form a tree.
        assert!(in_cycles(&files[..2]).is_empty());
    }

    #[test]
    fn fields_traits_and_tests_are_no_calls_of_methods() {
        let files = [
            ("a.rs", "impl T { fn a(&self) { self.b() } }"),
            ("b.rs", "impl T { fn b(&self) { self.field.a(); other.a() } }"),
            ("c.rs", "impl Clone for T { fn clone(&self) { self.a() } }"),
            ("d.rs", "#[cfg(test)] mod tests { impl super::T { fn b2(&self) { self.a() } } }"),
            ("b.rs", "impl T { #[cfg(test)] fn seen(&self) { self.a() } }"),
        ];
        assert!(in_cycles(&files).is_empty());
        assert_eq!(types(&files)["T"].len(), 2);
    }

    #[test]
    fn large_types_only_become_smaller() {
        let most = LARGE + 9;
        let still = [("crates/transfer", "Engine", most)];
        for (of, found, expected) in [
            ("Other", LARGE - 1, ""),
            ("Other", LARGE, "less than"),
            ("Engine", most, ""),
            ("Engine", most + 1, "are allowed"),
            ("Engine", most - 1, "lower its number"),
            ("Engine", LARGE - 1, "remove its row"),
        ] {
            let mut wrong = Vec::new();
            compare_size(&still, "crates/transfer", of, found, &mut wrong);
            assert_eq!(wrong.len(), usize::from(!expected.is_empty()), "{of} {found}: {wrong:?}");
            assert!(wrong.iter().all(|text| text.contains(expected)), "{of} {found}: {wrong:?}");
        }
    }

    #[test]
    fn more_files_in_cycles_than_the_table_has_are_a_fault() {
        let edges = |pairs: &[(&str, &str)]| {
            let pairs =
                pairs.iter().map(|(from, to)| (PathBuf::from(from), BTreeSet::from([PathBuf::from(to)])));
            pairs.collect::<BTreeMap<_, _>>()
        };
        let mut wrong = Vec::new();
        assert_eq!(compare("crates/none", "T", &edges(&[("a", "b"), ("b", "a")]), &mut wrong), 2);
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong[0].contains("cycles of 2 files, 0 are allowed"), "{wrong:?}");
        wrong.clear();
        assert_eq!(compare("crates/none", "T", &edges(&[("a", "b"), ("b", "c")]), &mut wrong), 0);
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
