//! Preparations at both ends before the first round of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::keeper::{Content, FILE_LEN, FILES, KEPT, WorkDirectory};
use super::results::Plan;
use super::server_cpu::Acceptor;
use crate::command::quoted;
use crate::far_end::FarEnd;
use crate::fault::Fault;
use crate::sftp::{OnStop, Outcome, Sftp};
use crate::target::{Remote, Target};
use crate::task::LATE;

/// What is not measured where the server offers SFTP alone.
const NEEDS_COMMANDS: &str = "without them there are no transfers through a pipe, latency beside an upload \
     and a download, -L, -D, -J, keystrokes, TCP alone, SSH without encryption, processor time and disk of \
     the server";

/// Starts the TCP end at the server. Also returns why there is none, or what is not measured with it.
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

/// Asks the server whether it runs commands. Returns why not, where it refuses them or another program
/// answers.
///
/// # Errors
/// A command does not end in time, which may have any cause, or there is no connection.
pub(super) fn refusal_of_commands(target: &Target, first: &mut Remote) -> Result<Option<Fault>, Fault> {
    match first.system().map_err(|fault| (Answer::of(&fault), fault)) {
        Ok(_) => Ok(None),
        Err((Answer::Refusal, fault)) => Ok(Some(fault)),
        Err((Answer::Late, _)) => Err(late()),
        Err((Answer::Unclear, _)) => {
            // A server that ends the connection each time refuses in its way. A path does not break so often.
            first.client.close();
            *first = target.connect(&[])?;
            match first.system() {
                Ok(_) => Ok(None),
                Err(fault) if Answer::of(&fault) == Answer::Late => Err(late()),
                Err(fault) => Ok(Some(fault)),
            }
        }
    }
}

/// Reports a command that took too long; that is not a refusal.
fn late() -> Fault {
    Fault::Late(LATE).during("a short command at the server")
}

/// What the failure of a command tells about the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The server refuses commands, or runs another program in their place.
    Refusal,
    Late,
    /// The channel was not opened, or the connection was lost.
    Unclear,
}

impl Answer {
    fn of(fault: &Fault) -> Self {
        let Fault::NoCommands(words) = fault else { return Self::Unclear };
        let is_refusal = words.ends_with("request failed on channel 0")
            || ["commands give no output", "another program answers"]
                .iter()
                .any(|start| words.starts_with(start));
        match (words == LATE, is_refusal) {
            (true, _) => Self::Late,
            (_, true) => Self::Refusal,
            _ => Self::Unclear,
        }
    }
}

/// Makes a directory at a server that runs no commands, and returns what the run lacks without them, and
/// whether there are files to copy. `directory` is what has to be removed at the end.
///
/// # Errors
/// The server has no SFTP either.
pub(super) fn directory_over_sftp(
    target: &Target,
    plan: &Plan,
    remote: &mut Remote,
    no_commands: &Fault,
    stop: &dyn Fn() -> bool,
    directory: &mut Option<WorkDirectory>,
) -> Result<(bool, Vec<String>), Fault> {
    let mut missing = vec![format!("{no_commands}; {NEEDS_COMMANDS}")];
    let mut sftp = match Sftp::start(remote, stop, OnStop::End) {
        Ok(sftp) => sftp,
        Err(_) if stop() => return Ok((false, missing)),
        Err(why) => {
            return Err(Fault::Server(format!("{no_commands}; nor is there SFTP to measure: {why}")));
        }
    };
    let made = directory.insert(WorkDirectory::over_sftp(target, &plan.remote_directory));
    let content = if plan.quick { Content::Nothing } else { Content::Files };
    let refusal = match made.make_over_sftp(&mut sftp).map(Outcome::all_done) {
        Ok(Ok(())) => made.fill_over_sftp(&mut sftp, content).err().map(|why| why.to_string()),
        Ok(Err(refusal)) => {
            *directory = None;
            Some(format!("{refusal} (--remote-dir names a directory in which the user may make another)"))
        }
        Err(lost) => Some(lost.to_string()),
    };
    let has_files = refusal.is_none();
    missing.extend(refusal.filter(|_| !stop()).map(|why| format!("files over SFTP: {why}")));
    Ok((has_files, missing))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_makes_a_server_one_of_sftp_alone() {
        let answer = |words: &str| Answer::of(&Fault::NoCommands(words.to_owned()));
        for refusal in [
            "exec request failed on channel 0",
            "commands give no output (status 0)",
            "another program answers in place of the shell: \"This service allows sftp connections only.\"",
        ] {
            assert_eq!(answer(refusal), Answer::Refusal, "{refusal}");
        }
        assert_eq!(answer(LATE), Answer::Late);
        assert_eq!(answer("Connection to h closed by remote host."), Answer::Unclear);
    }
}
