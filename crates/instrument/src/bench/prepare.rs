//! Preparations at both ends before the first round of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::child::{FILE_LEN, FILES};
use super::keeper::{KEPT, WorkDirectory};
use super::results::Plan;
use super::server_cpu::Acceptor;
use crate::command::quoted;
use crate::far_end::FarEnd;
use crate::fault::Fault;
use crate::sftp::Sftp;
use crate::target::{Remote, Target};

/// What is not measured where the server offers SFTP alone.
const NEEDS_COMMANDS: &str = "without them there are no transfers through a pipe, -L, -D, -J, keystrokes, TCP alone, \
     SSH without encryption, processor time and disk of the server";

/// The TCP end at the server, and why there is none, or what is not measured with it.
pub(super) fn far_end(target: &Target, plan: &Plan, first: &Remote) -> (Option<FarEnd>, Option<String>) {
    let started = FarEnd::start(target, plan.tcp_port);
    let no_port =
        "TCP alone: --tcp-port N would measure it through a port that the server's firewall lets pass";
    match (started, plan.tcp_port) {
        (Ok(end), Some(_)) if first.client.address().is_none() => {
            (Some(end), Some("TCP alone: the host is reached through a proxy".to_owned()))
        }
        (Ok(end), Some(_)) => (Some(end), None),
        (Ok(end), None) => (Some(end), Some(no_port.to_owned())),
        (Err(why), _) => (None, Some(format!("TCP alone, -L and -D: {why}"))),
    }
}

/// A directory at a server that runs no commands, and what the run lacks without them. There is none where the
/// server does not let the user make one.
///
/// # Errors
/// The server has no SFTP either.
pub(super) fn directory_over_sftp(
    target: &Target,
    plan: &Plan,
    remote: &mut Remote,
    no_commands: &Fault,
) -> Result<(Option<WorkDirectory>, Vec<String>), Fault> {
    let mut sftp = Sftp::start(remote)
        .map_err(|why| Fault::Server(format!("{no_commands}; nor is there SFTP to measure: {why}")))?;
    let mut missing = vec![format!("{no_commands}; {NEEDS_COMMANDS}")];
    match WorkDirectory::make_over_sftp(target, &mut sftp, &plan.remote_directory, !plan.quick) {
        Ok(made) => Ok((Some(made), missing)),
        Err(why) => {
            missing.push(format!(
                "files over SFTP: {why} (--remote-dir names a directory in which the user may make another)"
            ));
            Ok((None, missing))
        }
    }
}

/// The plan of a run to the jump host alone; `None` without one.
///
/// # Errors
/// The configuration cannot be read.
pub(super) fn jump_host_plan(target: &Target, plan: &Plan) -> Result<Option<Plan>, Fault> {
    let Some(jump_host) = target.jump_host()? else { return Ok(None) };
    // The last one counts.
    let file = plan.client_words.iter().rposition(|word| word == "-F");
    let mut client_words: Vec<String> =
        file.and_then(|at| plan.client_words.get(at..at + 2)).map(<[String]>::to_vec).unwrap_or_default();
    for (keyword, value) in jump_host.flags {
        client_words.extend(["-o".to_owned(), format!("{keyword}={value}")]);
    }
    Ok(Some(Plan { client_words, destination: jump_host.name, ..plan.clone() }))
}

/// The process of the server whose children serve connections.
pub(super) fn acceptor(target: &Target, first: &mut Remote) -> Option<Acceptor> {
    let mut other = target.connect(&[]).ok()?;
    let found = Acceptor::find(first, &mut other);
    other.client.close();
    found
}

/// Makes the files that downloads of small files copy.
pub(super) fn keep_small_files(remote: &mut Remote, there: &str) -> Result<(), Fault> {
    let quoted = quoted(there);
    let script = format!(
        "cd {quoted} && mkdir {KEPT} && head -c {FILE_LEN} /dev/urandom >{KEPT}/file0 && i=1 && \
         while [ $i -lt {FILES} ]; do cp {KEPT}/file0 {KEPT}/file$i; i=$((i+1)); done && echo made"
    );
    let shown = remote.script(&script, Duration::from_secs(30));
    if shown.text().contains("made") {
        return Ok(());
    }
    Err(Fault::Server(lh_client::sanitise(shown.err_text().trim())))
}

/// A directory of this machine, removed when dropped.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    /// Makes it in this directory.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn new(parent: &Path) -> Result<Self, Fault> {
        let path = parent.join(format!(".longhaul-bench-{}", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Self(path)),
            Err(error) => Err(Fault::File { path, error }),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
