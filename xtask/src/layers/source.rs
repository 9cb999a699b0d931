//! Reads a crate's modules, and the names that each takes from the others, as far as paths show them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

/// A path of a module or name from the root of its crate.
pub(super) type Segments = Vec<String>;

/// One name that a `use` brings into a module.
#[derive(Debug)]
struct Import {
    /// Path of the imported item.
    target: Segments,
    /// The import is private: the module itself uses the name.
    private: bool,
}

/// A module, in its own file or inline.
#[derive(Debug, Default)]
struct Module {
    /// File that contains the module.
    file: PathBuf,
    children: BTreeSet<String>,
    items: BTreeSet<String>,
    imports: BTreeMap<String, Import>,
    /// Modules imported with `*`.
    globs: Vec<Segments>,
    /// Paths in its code, from the crate's root.
    paths: Vec<Segments>,
    /// Paths in its code as written; the first segment may be an imported name.
    written: BTreeSet<Segments>,
}

/// The modules of one crate, without its tests.
#[derive(Debug, Default)]
pub(super) struct Files {
    modules: BTreeMap<Segments, Module>,
}

impl Files {
    /// Returns, for each file, the files of the same crate that it takes names from.
    pub(super) fn edges(&self) -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
        let mut edges: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
        for module in self.modules.values() {
            let to = edges.entry(module.file.clone()).or_default();
            let heads: BTreeSet<&str> =
                module.written.iter().filter_map(|path| path.first()).map(String::as_str).collect();
            // A name that is only re-exported is no dependency of the module.
            let used = module
                .imports
                .iter()
                .filter(|(name, import)| import.private || heads.contains(name.as_str()))
                .map(|(_, import)| &import.target);
            for path in used.chain(&module.paths).chain(&module.globs) {
                to.extend(self.file_of(path, 0).filter(|file| *file != module.file));
            }
        }
        edges
    }

    /// Returns the files, each once.
    pub(super) fn sources(&self) -> BTreeSet<&Path> {
        self.modules.values().map(|module| module.file.as_path()).collect()
    }

    /// Returns the paths in the code of each file, with imported names replaced by their full paths.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&Path, String)> {
        self.modules.values().flat_map(|module| {
            let full = module.written.iter().map(|path| {
                let import = path.first().and_then(|head| module.imports.get(head));
                match import {
                    Some(import) => [&import.target[..], &path[1..]].concat().join("::"),
                    None => path.join("::"),
                }
            });
            let imported = module.imports.values().map(|import| import.target.join("::"));
            full.chain(imported).map(|path| (module.file.as_path(), path))
        })
    }

    /// Returns the file that defines `path`; `None` for names of other crates.
    fn file_of(&self, path: &[String], depth: usize) -> Option<PathBuf> {
        // Modules may glob-import each other in a cycle.
        if depth > 8 || path.first().is_none_or(|head| head != "crate") {
            return None;
        }
        let mut at: Segments = Vec::new();
        let mut module = self.modules.get(&at)?;
        for (index, name) in path.iter().enumerate().skip(1) {
            if module.children.contains(name) {
                at.push(name.clone());
                module = self.modules.get(&at)?;
                continue;
            }
            if module.items.contains(name) {
                return Some(module.file.clone());
            }
            let rest = &path[index + 1..];
            if let Some(import) = module.imports.get(name) {
                return self.file_of(&[&import.target[..], rest].concat(), depth + 1);
            }
            return module
                .globs
                .iter()
                .find_map(|glob| self.file_of(&[&glob[..], &path[index..]].concat(), depth + 1));
        }
        Some(module.file.clone())
    }
}

/// Reads the crate whose sources are in `directory`: a library, a program or both.
pub(super) fn read(directory: &Path) -> Result<Files, String> {
    let mut files = Files::default();
    for root in ["lib.rs", "main.rs"] {
        let file = directory.join(root);
        if file.exists() {
            read_file(&file, directory, Vec::new(), &mut files)?;
        }
    }
    Ok(files)
}

fn read_file(file: &Path, below: &Path, at: Segments, files: &mut Files) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    read_items(&parsed.items, file, below, at, files)
}

fn read_items(
    items: &[Item],
    file: &Path,
    below: &Path,
    at: Segments,
    files: &mut Files,
) -> Result<(), String> {
    let module = files.modules.entry(at.clone()).or_default();
    // A program beside a library imports the library by its name. Here both roots are one module.
    if module.file.as_os_str().is_empty() {
        file.clone_into(&mut module.file);
    }
    let mut children = Vec::new();
    for item in items {
        match item {
            Item::Mod(child) if !is_test(&child.attrs) => {
                module.children.insert(child.ident.to_string());
                children.push(child);
            }
            Item::Use(used) if !is_test(&used.attrs) => import(used, &at, module),
            _ => {}
        }
    }
    let mut visitor = Visitor { at: &at, module };
    for item in items {
        visitor.visit_item(item);
    }
    for child in children {
        let name = child.ident.to_string();
        let inside = below.join(&name);
        let next = [&at[..], std::slice::from_ref(&name)].concat();
        match &child.content {
            Some((_, items)) => read_items(items, file, &inside, next, files)?,
            None => {
                let flat = below.join(format!("{name}.rs"));
                let file = if flat.exists() { flat } else { inside.join("mod.rs") };
                read_file(&file, &inside, next, files)?;
            }
        }
    }
    Ok(())
}

/// Returns whether the item exists in tests only.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

fn import(used: &ItemUse, at: &Segments, module: &mut Module) {
    let private = matches!(used.vis, Visibility::Inherited);
    let mut waiting = vec![(Vec::new(), &used.tree)];
    while let Some((mut path, tree)) = waiting.pop() {
        let (target, name) = match tree {
            UseTree::Path(next) => {
                path.push(next.ident.to_string());
                waiting.push((path, &next.tree));
                continue;
            }
            UseTree::Group(group) => {
                waiting.extend(group.items.iter().map(|tree| (path.clone(), tree)));
                continue;
            }
            UseTree::Glob(_) => {
                module.globs.push(absolute(path, at, module));
                continue;
            }
            UseTree::Name(name) => (name.ident.to_string(), name.ident.to_string()),
            UseTree::Rename(renamed) => (renamed.ident.to_string(), renamed.rename.to_string()),
        };
        let name = if target == "self" { path.last().cloned().unwrap_or_default() } else { name };
        if target != "self" {
            path.push(target);
        }
        let target = absolute(path, at, module);
        module.imports.insert(name, Import { target, private });
    }
}

/// Returns the path from the crate's root, with `crate` in front if it is of this crate.
fn absolute(path: Segments, at: &Segments, module: &Module) -> Segments {
    let root = || "crate".to_owned();
    match path.first().map(String::as_str) {
        Some("self") => [&[root()], &at[..], &path[1..]].concat(),
        Some("super") => {
            let up = path.iter().take_while(|segment| *segment == "super").count();
            let parents = &at[..at.len().saturating_sub(up)];
            [&[root()], parents, &path[up..]].concat()
        }
        Some(child) if module.children.contains(child) => [&[root()], &at[..], &path[..]].concat(),
        _ => path,
    }
}

/// Collects the paths of a module's own code, without its inline modules.
struct Visitor<'a> {
    at: &'a Segments,
    module: &'a mut Module,
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (name, attributes) = match item {
            Item::Mod(_) => return,
            // An import inside a function; the module's own imports are known already.
            Item::Use(used) if !is_test(&used.attrs) => return import(used, self.at, self.module),
            Item::Use(_) => return,
            Item::Const(item) => (Some(&item.ident), &item.attrs),
            Item::Enum(item) => (Some(&item.ident), &item.attrs),
            Item::Fn(item) => (Some(&item.sig.ident), &item.attrs),
            Item::Macro(item) => (item.ident.as_ref(), &item.attrs),
            Item::Static(item) => (Some(&item.ident), &item.attrs),
            Item::Struct(item) => (Some(&item.ident), &item.attrs),
            Item::Trait(item) => (Some(&item.ident), &item.attrs),
            Item::Type(item) => (Some(&item.ident), &item.attrs),
            Item::Union(item) => (Some(&item.ident), &item.attrs),
            Item::Impl(item) => (None, &item.attrs),
            _ => return syn::visit::visit_item(self, item),
        };
        if is_test(attributes) {
            return;
        }
        if let Some(name) = name {
            self.module.items.insert(name.to_string());
        }
        syn::visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    /// `pub(in crate::module)` needs nothing of the module.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let written: Segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if written.len() > 1 {
            let full = absolute(written.clone(), self.at, self.module);
            if full.first().is_some_and(|head| head == "crate") {
                self.module.paths.push(full);
            }
        }
        self.module.written.insert(written);
        syn::visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeSet, Files, PathBuf, read_items};

    fn files(modules: &[(&str, &str)]) -> Files {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in modules {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        super::read(directory.path()).unwrap()
    }

    fn names(files: &Files, from: &str) -> BTreeSet<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        let edges = files.edges();
        edges.iter().find(|(file, _)| name(file) == from).unwrap().1.iter().map(name).collect()
    }

    #[test]
    fn re_exports_resolve_to_their_definition() {
        let files = files(&[
            ("lib.rs", "mod a; mod b; pub use self::a::A;"),
            ("a.rs", "pub struct A;"),
            ("b.rs", "use crate::A; fn f(_: A) -> super::a::A { crate::a::A }"),
        ]);
        assert_eq!(names(&files, "b.rs"), ["a.rs".to_owned()].into());
        assert!(names(&files, "lib.rs").is_empty());
    }

    #[test]
    fn tests_are_left_out() {
        let files = files(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "#[cfg(test)] mod tests { use crate::b::B; } #[cfg(test)] use crate::b::B;"),
            ("b.rs", "pub struct B;"),
        ]);
        assert!(names(&files, "a.rs").is_empty());
    }

    #[test]
    fn paths_in_code_count_like_imports() {
        let files = files(&[
            ("lib.rs", "mod a; mod b; fn f() { a::g(); }"),
            ("a.rs", "pub fn g() { use super::b::B; let _ = B; }"),
            ("b.rs", "pub struct B;"),
        ]);
        assert_eq!(names(&files, "lib.rs"), ["a.rs".to_owned()].into());
        assert_eq!(names(&files, "a.rs"), ["b.rs".to_owned()].into());
    }

    #[test]
    fn modules_inside_a_file_belong_to_it() {
        let parsed = syn::parse_file("mod inside { use super::S; } struct S;").unwrap();
        let mut files = Files::default();
        let file = PathBuf::from("lib.rs");
        read_items(&parsed.items, &file, "".as_ref(), Vec::new(), &mut files).unwrap();
        assert!(files.edges()[&file].is_empty());
    }
}
