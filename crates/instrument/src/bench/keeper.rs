//! A directory at the server for as long as the run lasts.
//!
//! The command that removes it waits for the end of its input. It runs when the connection ends, however
//! this process ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use lh_client::{SessionSetup, Start};

use crate::shell::{SHORT, quoted, sh};
use crate::target::Target;
use crate::task::{Data, Task};

/// Entries of the large directory.
pub(crate) const MANY: usize = 2000;

/// The directory; removed when dropped.
pub(crate) struct Keeper {
    /// Its path, as SFTP and shells understand it.
    pub(crate) path: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Makes the directory below `parent`, with a subdirectory `many` of [`MANY`] entries.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn start(target: &Target, parent: &str) -> Result<Self, String> {
        let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let name = format!(".longhaul-bench-{}-{}", std::process::id(), stamp.as_millis());
        let path =
            if parent == "." { name.clone() } else { format!("{}/{name}", parent.trim_end_matches('/')) };
        let quoted = quoted(&path);
        let script = format!(
            "trap '' HUP INT TERM PIPE; mkdir -m 700 {quoted} && mkdir {quoted}/many || exit 1\n\
             i=0; while [ $i -lt {MANY} ]; do : >{quoted}/many/file$i.dat; i=$((i+1)); done\n\
             echo ready; cat >/dev/null; rm -rf {quoted}"
        );
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = channel();
        let (ends, target) = (Arc::clone(&stop), target.clone());
        let thread = std::thread::spawn(move || {
            let mut remote = match target.connect(&[]) {
                Ok(remote) => remote,
                Err(failure) => {
                    let _ = send.send(Err(failure.text));
                    return;
                }
            };
            let told = send.clone();
            let shown = remote.run(Task {
                setup: SessionSetup::new(Start::Exec(sh(&script))),
                data: Data::Hold,
                input: Vec::new(),
                sample: None,
                ping: None,
                limit: SHORT,
                hold: Some(Box::new(move |out| {
                    if !out.is_empty() {
                        let _ = told.send(Ok(()));
                    }
                    !ends.load(Ordering::Relaxed)
                })),
            });
            let said = lh_client::sanitise(shown.err_text().trim());
            let _ = send.send(Err(if said.is_empty() { shown.failure.unwrap_or_default() } else { said }));
            remote.client.close();
        });
        let made = receive.recv_timeout(SHORT + Duration::from_secs(30));
        let keeper = Self { path, stop, thread: Some(thread) };
        match made {
            Ok(Ok(())) => Ok(keeper),
            Ok(Err(why)) => Err(why),
            Err(_) => Err("the directory was not made in time".to_owned()),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
