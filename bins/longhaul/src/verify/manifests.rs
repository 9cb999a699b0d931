//! The manifests of one copy: one, or one for each share.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use lh_sys::errno_text;
use lh_transfer::Shard;
use lh_transfer::manifest_file::{Header, Reader};

use super::report::Findings;

/// The outcome of a copy that has all its files.
const COMPLETE: &str = "complete";

pub(super) type Manifest = Reader<BufReader<File>>;

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
    pub(super) fn open(names: &[OsString], together: bool) -> Result<Self, String> {
        let header = |name: &OsString| {
            let path = PathBuf::from(name);
            let header = open(&path)?.header().clone();
            Ok::<_, String>((path, header))
        };
        let manifests = Self { files: names.iter().map(header).collect::<Result<_, _>>()?, together };
        let counts: BTreeSet<u32> = manifests.shards().map(|shard| shard.of).collect();
        if let (Some(few), Some(many)) = (counts.first(), counts.last())
            && few != many
        {
            return Err(format!("the manifests are of copies in {few} and in {many} shares"));
        }
        Ok(manifests)
    }

    fn shards(&self) -> impl Iterator<Item = Shard> {
        self.files.iter().filter_map(|(_, header)| header.shard)
    }

    /// Where the first one says that the copy is.
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
        mut check: impl FnMut(&mut Manifest, &mut Findings) -> Result<(), String>,
    ) -> Result<(), String> {
        for (path, header) in &self.files {
            let mut manifest = open(path)?;
            check(&mut manifest, findings)?;
            let outcome = manifest.end().map_or("", |end| &end.outcome);
            if self.together && outcome != COMPLETE {
                let name = header.shard.map_or_else(|| path.display().to_string(), |shard| shard.to_string());
                findings.add_share(&name, &format!("its copy is not complete ({outcome})"));
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<Manifest, String> {
    let file = File::open(path).map_err(|error| errno_text(&error));
    let reader = file.and_then(|file| Reader::new(BufReader::new(file)));
    reader.map_err(|why| format!("{}: {why}", path.display()))
}
