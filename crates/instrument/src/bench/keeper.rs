//! A directory at the server for as long as the run lasts.
//!
//! The command that removes it waits for the end of its input. It runs when the connection ends, however
//! this process ended.

use crate::command::quoted;
use crate::fault::Fault;
use crate::held::Held;
use crate::target::Target;

/// Entries of the large directory.
pub(crate) const MANY: usize = 2000;

/// The directory; removed when dropped.
pub(crate) struct WorkDirectory {
    /// Its path, as SFTP and shells understand it.
    pub(crate) path: String,
    _command: Held,
}

impl WorkDirectory {
    /// Makes the directory below `parent`, with a subdirectory `many` of this number of entries.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn start(target: &Target, parent: &str, many: usize) -> Result<Self, Fault> {
        let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let name = format!(".longhaul-bench-{}-{}", std::process::id(), stamp.as_millis());
        let path =
            if parent == "." { name.clone() } else { format!("{}/{name}", parent.trim_end_matches('/')) };
        let quoted = quoted(&path);
        let script = format!(
            "trap '' HUP INT TERM PIPE; mkdir -m 700 {quoted} && mkdir {quoted}/many || exit 1\n\
             i=0; while [ $i -lt {many} ]; do : >{quoted}/many/file$i.dat; i=$((i+1)); done\n\
             echo ready; cat >/dev/null; rm -rf {quoted}"
        );
        let (command, _) = Held::start(target, script, Vec::new(), "the directory was not made in time")?;
        Ok(Self { path, _command: command })
    }
}
