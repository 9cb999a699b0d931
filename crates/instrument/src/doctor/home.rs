//! A home directory whose file system answers slowly: it holds up the login, which reads the keys in it, and
//! the shell, which reads its start-up files.

use super::facts::{Home, Logins, Shell};
use super::finding::{Finding, weight_of_time};
use crate::command::quoted;
use crate::stage::Stage;
use crate::stats::{lowest, time};

/// Time to open a file from which a home directory counts as slow, seconds.
const SLOW_FILE: f64 = 0.1;
/// How many times slower than `/etc` it must be.
const THAN_ELSEWHERE: f64 = 4.0;
/// Files that a server opens in a stage of the login, and a shell for each of those that were timed, at most.
const OF_STAGE: f64 = 4.0;
const OF_SHELL: f64 = 1.5;

/// The home directory, where it is slow.
fn slow(logins: &Logins) -> Option<(&Home, f64)> {
    let home = logins.home.as_ref().filter(|home| home.files > 0)?;
    let each = home.seconds / home.files as f64;
    (each >= SLOW_FILE && home.seconds > THAN_ELSEWHERE * home.elsewhere).then_some((home, each))
}

/// Returns whether the time of a stage beyond its round trips is that of opening files of the home directory.
pub(super) fn explains_stage(logins: &Logins, stage: Stage, excess: f64) -> bool {
    let reads_keys = matches!(stage, Stage::Credential | Stage::Approval);
    reads_keys && slow(logins).is_some_and(|(_, each)| (0.5 * each..=OF_STAGE * each).contains(&excess))
}

/// Seconds of a shell's start that its files take to open; 0 where the home directory is fast.
pub(super) fn part_of_shell(logins: &Logins) -> f64 {
    slow(logins).map_or(0.0, |(home, _)| OF_SHELL * home.seconds)
}

/// The finding about the home directory. `round_trip` is that of the path, seconds.
pub(super) fn slow_home(logins: &Logins, shell: Option<&Shell>, round_trip: f64) -> Option<Finding> {
    let (home, each) = slow(logins)?;
    let mut evidence = vec![format!(
        "opening {} of its files that logins read took {}, as many of /etc {}",
        home.files,
        time(home.seconds),
        time(home.elsewhere)
    )];
    evidence.extend(home.file_system.as_ref().map(|name| format!("file system and source there: {name}")));
    let mut login = 0.0;
    for stage in [Stage::Credential, Stage::Approval] {
        let Some(took) = logins.stage(stage) else { continue };
        let excess = took - stage.round_trips() * round_trip;
        if explains_stage(logins, stage, excess) {
            login += excess;
            evidence.push(format!("{} took {}", stage.words(), time(took)));
        }
    }
    let shell = shell.and_then(|shell| lowest(shell.interactive.iter().copied()));
    if let Some(shell) = shell.filter(|shell| *shell > each) {
        evidence.push(format!("a login shell that ends at once took {}", time(shell)));
    }
    let shell = shell.map_or(0.0, |took| (took - 2.0 * round_trip).clamp(0.0, OF_SHELL * home.seconds));
    let gain = login + shell.max(each);
    Some(Finding {
        cause: "slow_home",
        title: format!(
            "The home directory of the server ({}) is slow: {} to open a file.",
            home.directory,
            time(each)
        ),
        evidence,
        gain: format!("a login with a shell about {} faster", time(gain)),
        change: vec![
            format!(
                "at the server: time cat {}; then the file server and the path to it, or the mount's options \
                 (nfsstat -m, automounter)",
                quoted(&format!("{}/.profile", home.directory))
            ),
            "for logins without a shell: AuthorizedKeysFile /etc/ssh/authorized_keys/%u in sshd_config, on a local disk"
                .to_owned(),
        ],
        weight: weight_of_time(gain),
    })
}
