//! Trees to copy. They are also kept in memory, so that the result of a copy can be compared at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use lh_testkit::Seeded;

/// Shape of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shape {
    /// Two large files.
    Big,
    /// Many small files in a few directories.
    Small,
    /// Some large files, many small ones, deep directories, odd names, empty files.
    Mixed,
}

impl Shape {
    /// All shapes.
    pub(super) const ALL: [Self; 3] = [Self::Big, Self::Small, Self::Mixed];

    /// Name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Big => "big",
            Self::Small => "small",
            Self::Mixed => "mixed",
        }
    }
}

/// Directories and files by their paths relative to the top.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    directories: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

/// Names that have caused errors in programs.
const ODD: [&str; 8] = [
    "with space",
    "-leading-dash",
    "quote'and\"double",
    "dollar$HOME;and`tick`",
    "star*and?and[x]",
    "\u{fc}ml\u{e4}ut \u{65e5}\u{672c}",
    "back\\slash",
    ".hidden",
];

impl Tree {
    /// Generates a tree of this shape. `scale` multiplies sizes and numbers; `version` determines the
    /// contents.
    pub(super) fn new(shape: Shape, scale: usize, version: u64) -> Self {
        let mut random = Seeded::new(version.wrapping_mul(3).wrapping_add(shape as u64));
        let mut tree = Self::default();
        let mut sizes = Seeded::new(shape as u64);
        // Versions differ in sizes too.
        let mut size = |most: usize| sizes.below(most) + 37 * version as usize;
        match shape {
            Shape::Big => {
                for (name, size) in [("first.img", 20 << 20), ("second.img", 5 << 20)] {
                    tree.add(name.into(), random.bytes(size * scale + size / 3 + 11 * version as usize));
                }
            }
            Shape::Small => {
                for number in 0..500 * scale {
                    let name = format!("dir {}/{number:05}.dat", number % 17);
                    tree.add(name.into(), random.bytes(size(5000)));
                }
            }
            Shape::Mixed => {
                for number in 0..150 * scale {
                    tree.add(format!("many/{number:04}").into(), random.bytes(size(30_000)));
                }
                for number in 0..3 {
                    let bytes = random.bytes(size(3 << 20) * scale + 100_000);
                    tree.add(format!("large/{number}/block.bin").into(), bytes);
                }
                for name in ODD {
                    tree.add(Path::new("odd").join(name), random.bytes(size(300)));
                }
                let deep: PathBuf = (0..12).map(|level| format!("level {level}")).collect();
                tree.add(deep.join("bottom"), random.bytes(size(3000)));
                tree.add("empty".into(), Vec::new());
                tree.directory(Path::new("empty directory"));
            }
        }
        tree
    }

    fn directory(&mut self, path: &Path) {
        for path in path.ancestors().filter(|path| !path.as_os_str().is_empty()) {
            self.directories.insert(path.to_owned());
        }
    }

    fn add(&mut self, path: PathBuf, content: Vec<u8>) {
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        self.files.insert(path, content);
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.values().map(|content| content.len() as u64).sum()
    }

    /// The directories, each after its parent.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(PathBuf::as_path)
    }

    /// The files.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.files.iter().map(|(path, content)| (path.as_path(), content.as_slice()))
    }

    /// Writes the tree as `root`.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn write(&self, root: &Path) -> io::Result<()> {
        fs::create_dir_all(root)?;
        for directory in self.directories() {
            fs::create_dir_all(root.join(directory))?;
        }
        for (path, content) in self.files() {
            fs::write(root.join(path), content)?;
        }
        Ok(())
    }

    /// Compares this tree with the files below `root`, including unfinished ones.
    ///
    /// # Errors
    /// The first difference.
    pub(super) fn equals(&self, root: &Path) -> Result<(), String> {
        let found = listing(root)?;
        for path in self.directories.iter().chain(self.files.keys()) {
            if !found.contains_key(path) {
                return Err(format!("{} is missing", path.display()));
            }
        }
        self.look(root, &found, None)
    }

    /// Checks the files that an interrupted copy of this tree has left. Each file under its final name must
    /// have the complete content of this tree or of the earlier version.
    ///
    /// # Errors
    /// A file or directory that must not exist.
    pub(super) fn allows(&self, root: &Path, before: Option<&Self>) -> Result<(), String> {
        let mut found = listing(root)?;
        found.retain(|path, _| path.extension().is_none_or(|end| end != "lhpart"));
        self.look(root, &found, Some(before))
    }

    /// Checks that each file found is in this tree or in the earlier version.
    fn look(
        &self,
        root: &Path,
        found: &BTreeMap<PathBuf, bool>,
        before: Option<Option<&Self>>,
    ) -> Result<(), String> {
        for (path, is_directory) in found {
            if *is_directory {
                if !self.directories.contains(path) {
                    return Err(format!("{} is a directory that the source does not have", path.display()));
                }
                continue;
            }
            let Some(wanted) = self.files.get(path) else {
                return Err(format!("{} is a file that the source does not have", path.display()));
            };
            let content = match fs::read(root.join(path)) {
                Ok(content) => content,
                // An ending session has replaced the file, or its directory is gone.
                Err(error) if error.kind() == io::ErrorKind::NotFound && before.is_some() => continue,
                Err(error) => return Err(format!("{}: {error}", path.display())),
            };
            let old = before.flatten().and_then(|before| before.files.get(path));
            if content != *wanted && old.is_none_or(|old| content != *old) {
                let at = content.iter().zip(wanted).position(|(left, right)| left != right);
                return Err(format!(
                    "{} has {} bytes of {}, wrong from byte {}",
                    path.display(),
                    content.len(),
                    wanted.len(),
                    at.unwrap_or(content.len().min(wanted.len()))
                ));
            }
        }
        Ok(())
    }
}

/// Returns the paths below `root`, and whether each is a directory; empty if `root` does not exist.
fn listing(root: &Path) -> Result<BTreeMap<PathBuf, bool>, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        let failed = |error: io::Error| format!("{}: {error}", directory.display());
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound && directory == root => break,
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let is_directory = entry.file_type().map_err(failed)?.is_dir();
            let path = entry.path();
            found.insert(path.strip_prefix(root).unwrap_or(&path).to_path_buf(), is_directory);
            if is_directory {
                open.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn wrong_trees_are_found() {
        let (new, old) = (Tree::new(Shape::Mixed, 1, 0), Tree::new(Shape::Mixed, 1, 1));
        let dir = directory();
        let root = dir.path().join("tree");
        assert!(new.allows(&root, None).is_ok() && new.equals(&root).is_err());
        new.write(&root).unwrap();
        assert_eq!(new.equals(&root), Ok(()));
        assert_eq!(new.allows(&root, None), Ok(()));
        assert!(old.equals(&root).is_err());

        // An interrupted copy may leave a part file, a complete one must not.
        fs::write(root.join(".x.1.lhpart"), b"half").unwrap();
        assert_eq!(new.allows(&root, None), Ok(()));
        assert!(new.equals(&root).is_err());
        fs::remove_file(root.join(".x.1.lhpart")).unwrap();

        let file = root.join("many/0007");
        fs::write(&file, &old.files[Path::new("many/0007")]).unwrap();
        assert_eq!(new.allows(&root, Some(&old)), Ok(()));
        assert!(new.allows(&root, None).unwrap_err().contains("many/0007"));
        let mut half = new.files[Path::new("many/0007")].clone();
        half.truncate(half.len() / 2);
        fs::write(&file, &half).unwrap();
        assert!(new.allows(&root, Some(&old)).unwrap_err().contains("many/0007"));
        fs::remove_file(&file).unwrap();
        assert_eq!(new.allows(&root, None), Ok(()));
        assert!(new.equals(&root).unwrap_err().contains("many/0007 is missing"));
        new.write(&root).unwrap();
        fs::write(root.join("stray"), b"").unwrap();
        assert!(new.allows(&root, None).unwrap_err().contains("stray"));
    }
}
