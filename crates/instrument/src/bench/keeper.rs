//! A directory at the server for as long as the run lasts.
//!
//! Where the server runs commands, the one that removes the directory waits for the end of its input. It runs
//! when the connection ends, however this process ended. Elsewhere, this process removes it over SFTP.

use std::rc::Rc;

use crate::command::quoted;
use crate::fault::Fault;
use crate::held::{BadEnd, Held};
use crate::sftp::{OnStop, Outcome, Sftp, Step};
use crate::target::Target;
use crate::task::random;

/// Entries of the large directory.
pub(super) const MANY: usize = 2000;
/// Small files of a copy, and their length, bytes.
pub(super) const FILES: usize = 100;
pub(super) const FILE_LEN: usize = 4096;
/// Subdirectory of the small files that downloads copy.
pub(super) const KEPT: &str = "small-kept";

/// The directory. [`remove`](Self::remove) removes it.
#[must_use]
pub(super) struct WorkDirectory {
    /// Its path, as SFTP and shells understand it.
    pub(super) path: String,
    remover: Remover,
}

/// What removes the directory.
enum Remover {
    /// A command at the server, which ends when this is dropped.
    Command(Held),
    /// This process, over a new connection.
    Sftp(Box<Target>),
}

/// What is in the directory at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Nothing,
    /// The subdirectories of many entries and of small files.
    Files,
}

impl WorkDirectory {
    /// Makes the directory below `parent`, with a subdirectory `many` of this number of entries.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn start(target: &Target, parent: &str, many: usize) -> Result<Self, Fault> {
        let path = path_in(parent);
        let quoted = quoted(&path);
        let script = format!(
            "trap '' HUP INT TERM PIPE; mkdir -m 700 {quoted} && mkdir {quoted}/many || exit 1\n\
             i=0; while [ $i -lt {many} ]; do : >{quoted}/many/file$i.dat; i=$((i+1)); done\n\
             echo ready; cat >/dev/null; rm -rf {quoted}"
        );
        let (command, _) = Held::start(target, script, Vec::new(), "the directory was not made in time")?;
        Ok(Self { path, remover: Remover::Command(command) })
    }

    /// A directory below `parent` that [`make_over_sftp`](Self::make_over_sftp) makes. It exists before the
    /// first request, because the server may do a request whose answer is lost.
    pub(super) fn over_sftp(target: &Target, parent: &str) -> Self {
        Self { path: path_in(parent), remover: Remover::Sftp(Box::new(target.clone())) }
    }

    /// Makes the directory itself.
    ///
    /// # Errors
    /// Why the session has ended: the directory may be at the server. The server's refusal is in the result.
    pub(super) fn make_over_sftp(&self, sftp: &mut Sftp<'_>) -> Result<Outcome, Fault> {
        sftp.perform(vec![Step::MakeDirectory(self.path.clone())])
    }

    /// Makes what is in it at the beginning.
    ///
    /// # Errors
    /// The server's refusal, or why the session has ended.
    pub(super) fn fill_over_sftp(&self, sftp: &mut Sftp<'_>, content: Content) -> Result<(), Fault> {
        if content == Content::Nothing {
            return Ok(());
        }
        let [large, small] = ["many", KEPT].map(|name| format!("{}/{name}", self.path));
        sftp.perform([&large, &small].map(|path| Step::MakeDirectory(path.clone())).to_vec())?.all_done()?;
        let (nothing, data): (Rc<[u8]>, Rc<[u8]>) = (Rc::new([]), random(FILE_LEN).into());
        let entry = |index| Step::MakeFile(format!("{large}/file{index}.dat"), Rc::clone(&nothing));
        let file = |index| Step::MakeFile(format!("{small}/file{index}"), Rc::clone(&data));
        sftp.perform((0..MANY).map(entry).chain((0..FILES).map(file)).collect())?.all_done()
    }

    /// Returns the text that a user reads while the directory is removed.
    pub(super) fn removal_notice(&self) -> String {
        match self.remover {
            Remover::Command(_) => "cleaning up".to_owned(),
            Remover::Sftp(_) => format!("removing {} at the server; a second ^C leaves it there", self.path),
        }
    }

    /// Removes the directory. `stop` says that the user wants an end: then the server has less time.
    ///
    /// # Errors
    /// The directory, or a part of it, stays at the server, or may stay there: its path, and why.
    pub(super) fn remove(self, stop: &dyn Fn() -> bool) -> Result<(), Fault> {
        let target = match self.remover {
            Remover::Command(held) => {
                let (what, why) = match held.end() {
                    Ok(()) => return Ok(()),
                    Err(BadEnd::Failed(why)) => ("stays at the server", why),
                    // The command finds the end of its input when the server notices that.
                    Err(BadEnd::Unseen(why)) => {
                        ("stays at the server until it notices that the connection was lost", why)
                    }
                };
                return Err(Fault::Server(why).during(format!("{} {what}", self.path)));
            }
            Remover::Sftp(target) => target,
        };
        let remove = || {
            let mut remote = target.connect(&[])?;
            let removed = Sftp::start(&mut remote, stop, OnStop::Hurry)
                .and_then(|mut sftp| sftp.remove_tree(&self.path));
            remote.client.close();
            removed
        };
        remove().map_err(|why: Fault| why.during(format!("{} stays at the server", self.path)))
    }
}

/// Returns a path below `parent` that does not exist yet.
fn path_in(parent: &str) -> String {
    let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let name = format!(".longhaul-bench-{}-{}", std::process::id(), stamp.as_millis());
    if parent == "." { name } else { format!("{}/{name}", parent.trim_end_matches('/')) }
}
