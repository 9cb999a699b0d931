//! The manifests of one copy: one, or one for each share.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use lh_transfer::manifest_file::{Entry, Header, ManifestError, Reader};
use lh_transfer::{Shard, SumAlgorithm};

use super::report::Findings;
use crate::fault::{Content, Fault};

/// The outcome of a copy that has all its files.
const COMPLETE: &str = "complete";

type Manifest = Reader<BufReader<File>>;

/// The entries of a manifest.
pub(super) struct Entries<'a> {
    path: &'a Path,
    manifest: &'a mut Manifest,
}

impl Entries<'_> {
    /// The algorithm of its sums.
    pub(super) fn algorithm(&self) -> SumAlgorithm {
        self.manifest.header().algorithm
    }

    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// The manifest is wrong, or cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, Fault> {
        self.manifest.next_entry().map_err(unreadable(self.path))
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Manifests {
    files: Vec<(PathBuf, Header)>,
    /// They are to have all of the copy.
    together: bool,
}

impl Manifests {
    /// Reads the headers. `together`: the manifests are those of all shares, of copies that are complete.
    ///
    /// # Errors
    /// One cannot be read, or they are of copies in different numbers of shares.
    pub(super) fn open(names: &[OsString], together: bool) -> Result<Self, Fault> {
        let header = |name: &OsString| {
            let path = PathBuf::from(name);
            let header = open(&path)?.header().clone();
            Ok::<_, Fault>((path, header))
        };
        let manifests = Self { files: names.iter().map(header).collect::<Result<_, _>>()?, together };
        let counts: BTreeSet<u32> = manifests.shards().map(|shard| shard.of).collect();
        if let (Some(few), Some(many)) = (counts.first(), counts.last())
            && few != many
        {
            let text = format!("the manifests are of copies in {few} and in {many} shares");
            return Err(Fault::Refused(text));
        }
        Ok(manifests)
    }

    fn shards(&self) -> impl Iterator<Item = Shard> {
        self.files.iter().filter_map(|(_, header)| header.shard)
    }

    /// Returns the copy's destination according to the first manifest.
    pub(super) fn destination(&self) -> Vec<u8> {
        self.files.first().map(|(_, header)| header.destination.clone()).unwrap_or_default()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.files.iter().map(|(path, _)| path.display().to_string()).collect()
    }

    /// Reports the shares of which there is no manifest.
    pub(super) fn report_missing(&self, findings: &mut Findings) {
        let there: BTreeSet<u32> = self.shards().map(|shard| shard.number).collect();
        let Some(of) = self.shards().next().map(|shard| shard.of).filter(|_| self.together) else { return };
        for number in (0..of).filter(|number| !there.contains(number)) {
            findings.add_share(&Shard { number, of }.to_string(), "no manifest of it");
        }
    }

    /// Opens one after the other, for `check` to read to its end.
    ///
    /// # Errors
    /// The first of `check`, or of a manifest that cannot be read.
    pub(super) fn each(
        &self,
        findings: &mut Findings,
        mut check: impl FnMut(&mut Entries<'_>, &mut Findings) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        for (path, header) in &self.files {
            let mut manifest = open(path)?;
            check(&mut Entries { path, manifest: &mut manifest }, findings)?;
            let outcome = manifest.end().map_or("", |end| &end.outcome);
            if self.together && outcome != COMPLETE {
                let name = header.shard.map_or_else(|| path.display().to_string(), |shard| shard.to_string());
                findings.add_share(&name, &format!("its copy is not complete ({outcome})"));
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<Manifest, Fault> {
    let file = File::open(path).map_err(Fault::file(path))?;
    if file.metadata().map_err(Fault::file(path))?.is_dir() {
        return Err(Fault::file(path)(rustix::io::Errno::ISDIR.into()));
    }
    Reader::new(BufReader::new(file)).map_err(unreadable(path))
}

/// For `map_err`: the manifest is wrong.
fn unreadable(path: &Path) -> impl FnOnce(ManifestError) -> Fault {
    let path = path.to_owned();
    |error| Fault::Content { path, fault: Content::Manifest(error.to_string()) }
}
