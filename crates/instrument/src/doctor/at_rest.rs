//! Measurements on an idle connection: the start of shells and of SFTP, files of the home directory, a
//! lookup.

use std::path::Path;

use lh_client::{Pty, SessionSetup, Start};

use super::delays::{NOTICEABLE, OFTEN};
use super::facts::{CLOSED, Home, Shell};
use super::refusals;
use crate::command::quoted;
use crate::shell::{SHORT, System};
use crate::target::Remote;
use crate::task::{Data, Opens, Shown, Task};

/// Runs of what is slow, at most: the fastest one counts, and a loaded machine has slow moments.
const MOST_RUNS: usize = OFTEN;
/// A shell that takes longer than this beyond a round trip has its start-up files traced, seconds.
pub(super) const SLOW_SHELL: f64 = NOTICEABLE;
/// A line of start-up files that takes longer than this is named, seconds.
const SLOW_LINE: f64 = 0.1;

/// Results of an idle connection.
#[derive(Debug, Clone, Default)]
pub(super) struct AtRest {
    pub(super) shell: Shell,
    /// Seconds until an SFTP server answers, of several sessions.
    pub(super) sftp: Vec<f64>,
    /// Why none answered: the server's words.
    pub(super) sftp_refusal: Option<String>,
    pub(super) home: Option<Home>,
    /// Time of the server's reverse lookup of this machine's address, seconds.
    pub(super) reverse_lookup: Option<f64>,
    /// Time of the server's lookup of the user and its groups, seconds.
    pub(super) user_lookup: Option<f64>,
    /// Why the start of an interactive shell was not measured.
    pub(super) shell_missing: Option<String>,
}

/// Why there is no interactive shell where the server gives no terminal.
const NO_TERMINAL: &str = "the server gives no terminal (PermitTTY, no-pty, restrict)";

/// Returns whether the start of commands and shells is to be measured once more: what is slow, of those that
/// the server permits.
fn is_in_doubt(found: &Shell, lacks_terminal: bool, round_trip: f64) -> bool {
    if lacks_terminal {
        return are_slow(&found.command, round_trip) && !found.command.is_empty();
    }
    are_slow(&found.interactive, round_trip) || are_slow(&found.command, round_trip)
}

/// Returns whether none of the starts, seconds, was quick.
fn are_slow(starts: &[f64], round_trip: f64) -> bool {
    starts.iter().all(|took| *took > SLOW_SHELL + round_trip)
}

/// What ends a shell, and leaves nothing in its history: bash and zsh write none without a file, and others
/// leave out lines that begin with a blank.
const EXIT: &[u8] = b" unset HISTFILE; exit\n";

/// Seconds of a shell with a terminal, which ends at once.
///
/// # Errors
/// Why it was not measured.
fn interactive(remote: &mut Remote) -> Result<f64, String> {
    let mut setup = SessionSetup::new(Start::Shell);
    setup.pty = Some(Pty { term: "dumb".to_owned(), columns: 80, rows: 24, ..Pty::default() });
    let shown = remote.run(Task {
        opens: Opens::Session(setup),
        data: Data::Keep,
        input: EXIT.to_vec(),
        sample: None,
        ping: None,
        limit: SHORT,
        hold: None,
        comparison: None,
    });
    if shown.lacks_terminal {
        return Err(NO_TERMINAL.to_owned());
    }
    let took = shown.ended.zip(shown.opened).filter(|_| shown.failure.is_none());
    let refusal = shown.failure.filter(|why| refusals::is_of_session(why));
    took.map(|(ended, opened)| ended - opened)
        .ok_or_else(|| refusal.unwrap_or_else(|| "it did not end".to_owned()))
}

/// Measures on this connection. What is slow is measured again.
pub(super) fn at_rest(remote: &mut Remote, there: &System, round_trip: f64) -> AtRest {
    let mut found = Shell::default();
    let mut shell_missing = None;
    for _ in 0..MOST_RUNS {
        let shown = remote.script(":", SHORT);
        found.command.extend(shown.ended.zip(shown.opened).map(|(ended, opened)| ended - opened));
        if shell_missing.is_none() {
            match interactive(remote) {
                Ok(took) => found.interactive.push(took),
                Err(why) => shell_missing = Some(why),
            }
        }
        let lacks_terminal = shell_missing.as_deref() == Some(NO_TERMINAL);
        let has_failed = shell_missing.is_some() && !lacks_terminal;
        if has_failed || !is_in_doubt(&found, lacks_terminal, round_trip) {
            break;
        }
    }
    if are_slow(&found.interactive, round_trip) && !found.interactive.is_empty() {
        (found.slowest, found.slowest_file) = slowest_part(remote, there).unwrap_or_default();
    }
    let home = home(remote);
    // Servers that look up the client's name (UseDNS, PAM, TCP wrappers) wait as long as this takes.
    let shown = remote.script(LOOK_UP, SHORT);
    let [begin, middle, end] = ["begin", "middle", "end"].map(|word| at(&shown, word));
    let reverse_lookup = middle.zip(begin).map(|(middle, begin)| middle - begin);
    let user_lookup = end.zip(middle).map(|(end, middle)| end - middle);
    // Last: a server without SFTP may end the connection.
    let (sftp, sftp_refusal) = sftp_starts(remote, round_trip);
    AtRest { shell: found, sftp, sftp_refusal, home, reverse_lookup, user_lookup, shell_missing }
}

/// Seconds from the acceptance of an SFTP session to its first answer, of those that answered; further ones
/// only where the first is slow. Also why the first did not answer, where the server refuses SFTP or its
/// program ends.
fn sftp_starts(remote: &mut Remote, round_trip: f64) -> (Vec<f64>, Option<String>) {
    /// SSH_FXP_INIT of version 3.
    const INIT: &[u8] = &[0, 0, 0, 5, 1, 0, 0, 0, 3];
    let mut all = Vec::new();
    for _ in 0..MOST_RUNS {
        let shown = remote.run(Task {
            opens: Opens::Session(SessionSetup::new(Start::Subsystem("sftp".to_owned()))),
            // Some servers end without an answer where the input has ended.
            data: Data::Hold,
            input: INIT.to_vec(),
            sample: None,
            ping: None,
            limit: SHORT,
            hold: Some(Box::new(<[u8]>::is_empty)),
            comparison: None,
        });
        let answered = shown.pieces.first().map(|(at, _)| *at);
        let Some(took) = answered.zip(shown.opened).map(|(answered, opened)| answered - opened) else {
            let refusal = no_sftp(&shown).filter(|_| all.is_empty());
            return (all, refusal);
        };
        all.push(took);
        if took < SLOW_SHELL + 2.0 * round_trip {
            break;
        }
    }
    (all, None)
}

/// Why a server without SFTP says that it has none.
fn no_sftp(shown: &Shown) -> Option<String> {
    if let Some(failure) = &shown.failure {
        let ends_connection = CLOSED.iter().any(|words| failure.contains(words));
        return match failure.contains("request failed") {
            true => Some(failure.clone()),
            false => ends_connection.then(|| format!("it ends the connection: {failure}")),
        };
    }
    let said = lh_client::sanitise(shown.err_text().lines().next().unwrap_or_default().trim());
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    let status = shown.status.filter(|status| *status != 0)?;
    Some(format!("its program ended with status {status}{said}"))
}

/// Returns when the output with this word came, seconds.
fn at(shown: &Shown, word: &str) -> Option<f64> {
    let has = |piece: &[u8]| piece.windows(word.len()).any(|part| part == word.as_bytes());
    shown.pieces.iter().find(|(_, piece)| has(piece)).map(|(at, _)| *at)
}

/// Looks up what a server asks its name services for at a login.
const LOOK_UP: &str = r#"set -- $SSH_CONNECTION; echo "begin"; getent hosts $1 >/dev/null 2>&1
echo "middle"; id "${LOGNAME:-$USER}" >/dev/null 2>&1; echo "end""#;

/// Opens the files of the home directory that a login reads, then as many of `/etc`, and says what it has
/// opened. Between the two, the output says how far it is.
const OPEN_FILES: &str = r#"cd || exit
all=".ssh/authorized_keys .ssh/rc .profile .bash_profile .bash_login .bashrc .zshenv .zprofile .zshrc .zlogin .kshrc"
set -- /etc/passwd /etc/group /etc/hosts /etc/profile /etc/services /etc/protocols /etc/nsswitch.conf
k=$(wc -c <.ssh/authorized_keys 2>/dev/null); d=$(pwd); s=$(stat -f -c %T . 2>/dev/null); f=$(df -P . 2>/dev/null | { read x; read x y; echo "$x"; }); n=0
echo "begin"
for x in $all; do [ $n -lt 4 ] && { true <$x; } 2>/dev/null && n=$((n+1)); done
echo "middle"
i=0
while [ $i -lt $n ]; do { true <$1; } 2>/dev/null; shift; i=$((i+1)); done
echo "end"
echo "directory=$d"; echo "files=$n"; echo "keys=$k"; echo "system=$s, $f""#;

/// Times opening the files of the home directory. Once more where it is slow: an automounter may have been at
/// work.
fn home(remote: &mut Remote) -> Option<Home> {
    let mut best: Option<Home> = None;
    for _ in 0..2 {
        let shown = remote.script(OPEN_FILES, SHORT);
        let text = shown.text();
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        let [begin, middle, end] = ["begin", "middle", "end"].map(|word| at(&shown, word));
        let (seconds, elsewhere) = (middle? - begin?, end? - middle?);
        let file_system = value("system").map(|text| lh_client::sanitise(text.trim_matches([',', ' '])));
        let now = Home {
            directory: lh_client::sanitise(value("directory")?),
            file_system: file_system.filter(|text| !text.is_empty()),
            files: value("files")?.parse().ok()?,
            seconds,
            elsewhere,
            keys_bytes: value("keys").and_then(|bytes| bytes.trim().parse().ok()),
        };
        best = best.filter(|best| best.seconds <= now.seconds).or(Some(now));
        if best.as_ref().is_some_and(|best| best.seconds < SLOW_SHELL / 2.0) {
            break;
        }
    }
    best
}

/// A line of a start-up file, where it is, and its seconds; a file, and the seconds of its lines together.
type SlowParts = (Option<(String, Option<String>, f64)>, Option<(String, f64)>);

/// Has the shell show the lines of its start-up files as it runs them. The line after which nothing came for
/// longest is the slow one; the file whose lines took longest, where the shell names files.
fn slowest_part(remote: &mut Remote, system: &System) -> Option<SlowParts> {
    let shell = system.text("shell")?;
    let kind = Path::new(shell).file_name()?.to_str()?;
    ["bash", "sh", "dash", "zsh", "ksh", "ash"].contains(&kind).then_some(())?;
    let file = if kind == "bash" { "${BASH_SOURCE-}> " } else { "" };
    let script = format!("export PS4='+ {file}'; {shell} -lixc exit 2>&1");
    let shown = remote.script(&script, SHORT);
    let (slowest, slowest_file) = slowest_of_trace(&shown.pieces);
    let slowest = slowest.map(|(line, took)| {
        let quoted = quoted(&line);
        let find = format!(
            "cd; grep -nsF -m1 -- {quoted} .bashrc .bash_profile .bash_login .profile .zshenv .zprofile .zshrc \
             .zlogin .kshrc /etc/profile /etc/bash.bashrc /etc/bashrc /etc/zsh/* /etc/profile.d/* /dev/null | head -n 1"
        );
        let place = remote.script(&find, SHORT).text();
        let place = place.lines().next().and_then(|line| {
            let mut parts = line.splitn(3, ':');
            Some(format!("{} line {}", parts.next()?, parts.next()?))
        });
        (line, place.map(|place| lh_client::sanitise(&place)), took)
    });
    Some((slowest, slowest_file))
}

/// What was slow, and its seconds.
type Timed = (String, f64);

/// The slowest line of a trace, and the file with the slowest lines, each with its seconds, if it took long.
fn slowest_of_trace(pieces: &[(f64, Vec<u8>)]) -> (Option<Timed>, Option<Timed>) {
    let mut last: Option<(f64, String, String)> = None;
    let mut slowest: Option<Timed> = None;
    let mut files: Vec<Timed> = Vec::new();
    for (at, piece) in pieces {
        if let Some((before, file, line)) = &last {
            let took = at - before;
            if slowest.as_ref().is_none_or(|(_, most)| took > *most) {
                slowest = Some((line.clone(), took));
            }
            match files.iter_mut().find(|(known, _)| known == file) {
                Some((_, sum)) => *sum += took,
                None => files.push((file.clone(), took)),
            }
        }
        let text = String::from_utf8_lossy(piece);
        let line = text.lines().rfind(|line| line.starts_with('+'));
        if let Some(line) = line {
            let line = line.trim_start_matches('+').trim();
            // zsh names the place before the line, and bash is told to.
            let (file, line) = line.split_once("> ").unwrap_or(("", line));
            last = Some((*at, lh_client::sanitise(file), lh_client::sanitise(line)));
        }
    }
    let file = files.into_iter().filter(|(file, took)| *took > SLOW_LINE && !file.is_empty());
    let file = file.max_by(|(_, a), (_, b)| a.total_cmp(b));
    (slowest.filter(|(line, took)| *took > SLOW_LINE && !line.is_empty()), file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_without_sftp_is_told_by_what_it_does() {
        let failed = |words: &str| no_sftp(&Shown { failure: Some(words.to_owned()), ..Shown::default() });
        let refused = "subsystem request failed on channel 0";
        assert_eq!(failed(refused).as_deref(), Some(refused));
        // As tinysshd without `-x sftp`.
        let closed = "Connection to h closed by remote host.";
        assert_eq!(failed(closed), Some(format!("it ends the connection: {closed}")));
        assert_eq!(failed("the command did not end in time"), None);
        let ended = no_sftp(&Shown { status: Some(127), err: b"no sftp".to_vec(), ..Shown::default() });
        assert_eq!(ended.as_deref(), Some("its program ended with status 127: no sftp"));
    }

    #[test]
    fn lines_of_a_trace_are_added_for_their_file() {
        let piece = |at: f64, text: &str| (at, text.as_bytes().to_vec());
        let loop_of = |n: u32| {
            piece(
                0.1 + 0.05 * f64::from(n),
                &format!("++ /home/u/.bashrc> basename {n}\n+ /home/u/.bashrc> x={n}\n"),
            )
        };
        let mut pieces = vec![piece(0.0, "+ /etc/profile> umask 022\n")];
        pieces.extend((0..20).map(loop_of));
        pieces.push(piece(1.1, "+ > exit\n"));
        let (line, file) = slowest_of_trace(&pieces);
        let (name, took) = file.unwrap();
        assert!(
            line.is_none() && name == "/home/u/.bashrc" && (took - 1.0).abs() < 1e-9,
            "{line:?} {name} {took}"
        );
        // One line of a shell that names no files.
        let pieces = [piece(0.0, "+ umask 022\n"), piece(0.1, "+ sleep 1\n"), piece(1.1, "+ exit\n")];
        let (line, file) = slowest_of_trace(&pieces);
        assert_eq!((line, file), (Some(("sleep 1".to_owned(), 1.0)), None));
        // A line that prints is one line.
        let pieces = [piece(0.0, "+ a> make\n"), piece(0.6, "done\n"), piece(0.7, "+ a> exit\n")];
        assert_eq!(slowest_of_trace(&pieces).0.map(|(line, _)| line).as_deref(), Some("make"));
    }

    #[test]
    fn slow_commands_are_timed_again_without_a_terminal() {
        let of = |interactive: &[f64], command: &[f64]| Shell {
            interactive: interactive.to_vec(),
            command: command.to_vec(),
            slowest: None,
            slowest_file: None,
        };
        assert!(is_in_doubt(&of(&[], &[2.0]), true, 0.05));
        assert!(!is_in_doubt(&of(&[], &[0.06]), true, 0.05));
        // No command ends.
        assert!(!is_in_doubt(&of(&[], &[]), true, 0.05));
        assert!(is_in_doubt(&of(&[2.0], &[0.06]), false, 0.05));
        assert!(!is_in_doubt(&of(&[2.0, 0.2], &[0.06]), false, 0.05));
    }
}
