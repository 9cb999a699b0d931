//! A directory at the server for as long as the run lasts.
//!
//! Where the server runs commands, the one that removes the directory waits for the end of its input. It runs
//! when the connection ends, however this process ended. Elsewhere, this process removes it over SFTP.

use std::rc::Rc;

use super::child::{FILE_LEN, FILES};
use crate::command::quoted;
use crate::fault::Fault;
use crate::held::Held;
use crate::sftp::{Sftp, Step};
use crate::target::Target;
use crate::task::random;

/// Entries of the large directory.
pub(crate) const MANY: usize = 2000;
/// Subdirectory of the small files that downloads copy.
pub(super) const KEPT: &str = "small-kept";

/// The directory; removed when dropped.
pub(crate) struct WorkDirectory {
    /// Its path, as SFTP and shells understand it.
    pub(crate) path: String,
    remover: Remover,
}

/// What removes the directory.
enum Remover {
    /// A command at the server, which ends when this is dropped.
    Command {
        _held: Held,
    },
    /// This process, over a new connection.
    Sftp(Target),
    Removed,
}

impl WorkDirectory {
    /// Makes the directory below `parent`, with a subdirectory `many` of this number of entries.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn start(target: &Target, parent: &str, many: usize) -> Result<Self, Fault> {
        let path = path_in(parent);
        let quoted = quoted(&path);
        let script = format!(
            "trap '' HUP INT TERM PIPE; mkdir -m 700 {quoted} && mkdir {quoted}/many || exit 1\n\
             i=0; while [ $i -lt {many} ]; do : >{quoted}/many/file$i.dat; i=$((i+1)); done\n\
             echo ready; cat >/dev/null; rm -rf {quoted}"
        );
        let (command, _) = Held::start(target, script, Vec::new(), "the directory was not made in time")?;
        Ok(Self { path, remover: Remover::Command { _held: command } })
    }

    /// Like [`start`](Self::start), over SFTP. With `has_files`, the subdirectories of many entries and of small
    /// files are there, too.
    ///
    /// # Errors
    /// It cannot be made: the server's words.
    pub(crate) fn make_over_sftp(
        target: &Target,
        sftp: &mut Sftp<'_>,
        parent: &str,
        has_files: bool,
    ) -> Result<Self, Fault> {
        let path = path_in(parent);
        sftp.perform(vec![Step::MakeDirectory(path.clone())])?;
        // From here on it is removed, whatever fails.
        let directory = Self { path: path.clone(), remover: Remover::Sftp(target.clone()) };
        if has_files {
            let [large, small] = ["many", KEPT].map(|name| format!("{path}/{name}"));
            sftp.perform([&large, &small].map(|path| Step::MakeDirectory(path.clone())).to_vec())?;
            let (nothing, data): (Rc<[u8]>, Rc<[u8]>) = (Rc::new([]), random(FILE_LEN).into());
            let entry = |index| Step::MakeFile(format!("{large}/file{index}.dat"), Rc::clone(&nothing));
            let file = |index| Step::MakeFile(format!("{small}/file{index}"), Rc::clone(&data));
            sftp.perform((0..MANY).map(entry).chain((0..FILES).map(file)).collect())?;
        }
        Ok(directory)
    }

    /// Removes the directory.
    ///
    /// # Errors
    /// Its files stay at the server: why.
    pub(crate) fn remove(mut self) -> Result<(), Fault> {
        self.take_away()
    }

    fn take_away(&mut self) -> Result<(), Fault> {
        // A command begins to remove the directory here, and its connection ends after that.
        let Remover::Sftp(target) = std::mem::replace(&mut self.remover, Remover::Removed) else {
            return Ok(());
        };
        let mut remote = target.connect(&[])?;
        let removed = Sftp::start(&mut remote).and_then(|mut sftp| sftp.remove_tree(&self.path));
        remote.client.close();
        removed
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        // Only a run that fails has not called `remove`: its fault is the one to tell.
        let _ = self.take_away();
    }
}

/// A path below `parent` that nothing has yet.
fn path_in(parent: &str) -> String {
    let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let name = format!(".longhaul-bench-{}-{}", std::process::id(), stamp.as_millis());
    if parent == "." { name } else { format!("{}/{name}", parent.trim_end_matches('/')) }
}
