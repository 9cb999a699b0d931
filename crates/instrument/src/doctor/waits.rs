//! Causes that make a person wait: logins, shells, disks.

use super::facts::Facts;
use super::finding::{Finding, weight_of_factor, weight_of_time};
use super::home;
use crate::disk::Disk;
use crate::flow::Direction;
use crate::stage::Stage;
use crate::stats::{lowest, median, rate, size, time};

/// A stage or shell that takes this much longer than it must counts as slow, seconds.
const SLOW: f64 = 0.4;
/// How many times faster the path must be for a disk to be the limit.
const SLOW_DISK: f64 = 1.4;
/// Logins for a verdict.
const LEAST_LOGINS: usize = 2;

/// Stages of the login that are slow in every login.
pub(super) fn logins(facts: &Facts, out: &mut Vec<Finding>) {
    if facts.logins.len() < LEAST_LOGINS {
        return;
    }
    let of_keys = offered_keys(facts);
    out.extend(of_keys.as_ref().map(|(_, found)| found.clone()));
    let of_keys = of_keys.map_or(0.0, |(seconds, _)| seconds);
    for stage in [
        Stage::Configuration,
        Stage::Proxy,
        Stage::Resolve,
        Stage::Connect,
        Stage::Greeting,
        Stage::KeyExchange,
        Stage::User,
        Stage::Credential,
        Stage::Approval,
        Stage::Session,
    ] {
        let Some(took) = facts.stage(stage) else { continue };
        let other = if stage == Stage::Credential { of_keys } else { 0.0 };
        let needed = stage.round_trips() * facts.round_trip() + other;
        let excess = took - needed;
        let is_slow = |(each, seconds): &(Stage, f64)| *each == stage && *seconds > SLOW + needed;
        let all_slow = facts.logins.iter().all(|login| login.iter().any(is_slow));
        if all_slow && !home::explains_stage(facts, stage, excess) {
            out.push(slow_stage(facts, stage, took, excess));
        }
    }
}

/// Keys from which the wrong ones among them are a cause.
const MANY_KEYS: usize = 3;

/// Keys that the server refuses before it takes one: the seconds that they cost, and the finding.
fn offered_keys(facts: &Facts) -> Option<(f64, Finding)> {
    let took = facts.stage(Stage::Credential)?;
    let wrong = facts.offers.checked_sub(1)? as f64;
    let lost = took * wrong / (wrong + 1.0);
    if facts.offers < MANY_KEYS || lost < SLOW {
        return None;
    }
    let finding = Finding {
        cause: "offered_keys",
        title: format!("{} keys are offered before the one that the server takes: {}.", facts.offers - 1, time(lost)),
        evidence: vec![format!(
            "the server's answers about {} keys took {}, over a round trip of {}",
            facts.offers,
            time(took),
            time(facts.round_trip())
        )],
        gain: format!("logins {} faster", time(lost)),
        change: vec![
            "IdentitiesOnly yes and IdentityFile with the right key, under Host in ssh_config here".to_owned(),
            "or take keys out of the agent (ssh-add -l, ssh-add -d): servers give up after six (MaxAuthTries)"
                .to_owned(),
        ],
        weight: weight_of_time(lost),
    };
    Some((lost, finding))
}

fn slow_stage(facts: &Facts, stage: Stage, took: f64, excess: f64) -> Finding {
    let total: f64 = median(facts.logins.iter().map(|login| login.iter().map(|(_, seconds)| seconds).sum()))
        .unwrap_or(took);
    let mut evidence = vec![format!(
        "{} took {} (median of {} logins; a whole login {})",
        stage.words(),
        time(took),
        facts.logins.len(),
        time(total)
    )];
    let waits_for_server =
        matches!(stage, Stage::Greeting | Stage::User | Stage::Credential | Stage::Approval | Stage::Session);
    let lookup = facts.reverse_lookup.filter(|lookup| waits_for_server && *lookup > 0.5 * excess);
    if let Some(lookup) = lookup {
        evidence.push(format!(
            "the server needs {} for the name of this machine's address (getent hosts)",
            time(lookup)
        ));
        return Finding {
            cause: "reverse_dns",
            title: format!("The server waits {} for a reverse lookup (DNS) at each login.", time(excess)),
            evidence,
            gain: format!("logins {} faster", time(excess)),
            change: vec![
                "UseDNS no in the server's sshd_config".to_owned(),
                "or give this machine's address a name (PTR record), or mend the server's /etc/resolv.conf"
                    .to_owned(),
            ],
            weight: weight_of_time(excess),
        };
    }
    let (cause, title, change): (_, _, &[&str]) = match stage {
        Stage::Configuration => (
            "configuration",
            "This machine needs long to read its configuration of SSH",
            &["time lhssh -G HOST, and look in ssh_config for Match exec and CanonicalizeHostname"],
        ),
        Stage::Proxy => (
            "proxy_start",
            "The jump host or proxy command needs long before the server's greeting arrives",
            &[
                "measure the jump host by itself: longhaul doctor JUMPHOST",
                "or the program of ProxyCommand: time PROGRAM ARGUMENTS </dev/null",
            ],
        ),
        Stage::Resolve => (
            "resolve",
            "This machine needs long to resolve the host's name",
            &["mend /etc/resolv.conf here, or set Hostname to the address in ssh_config"],
        ),
        Stage::Connect => (
            "connect",
            "TCP's handshake takes much longer than a round trip",
            &[
                "look for a lost first packet (firewall, full listen queue: nstat -az TcpExtListenDrops at the server)",
                "AddressFamily inet in ssh_config, if IPv6 leads nowhere",
            ],
        ),
        Stage::Greeting => (
            "greeting",
            "The server needs long to greet",
            &["at the server: look at its load, MaxStartups, inetd or TCP wrappers (hosts.allow with names)"],
        ),
        Stage::KeyExchange => (
            "key_exchange",
            "The key exchange takes long",
            &[
                "KexAlgorithms mlkem768x25519-sha256,curve25519-sha256 in ssh_config: large Diffie-Hellman groups cost most",
            ],
        ),
        Stage::User => (
            "user_lookup",
            "The server needs long before it answers about the user",
            &["at the server: time id USER (name service, LDAP), UseDNS no, GSSAPIAuthentication no"],
        ),
        Stage::Credential | Stage::Approval => (
            "login_approval",
            "The server needs long to approve the login (AuthorizedKeysCommand, PAM's auth and account modules)",
            &[
                "at the server: the auth and account lines of /etc/pam.d/sshd (pam_exec, pam_sss, pam_access), AuthorizedKeysCommand, AllowGroups with a slow name service",
                "IdentitiesOnly yes with the right IdentityFile here: each wrong key costs an answer",
            ],
        ),
        Stage::Session | Stage::Command => (
            "session_opening",
            "The server needs long to open a session (PAM's session modules)",
            &[
                "at the server: the session lines of /etc/pam.d/sshd (pam_exec, pam_systemd, pam_motd, pam_mount)",
            ],
        ),
    };
    Finding {
        cause,
        title: format!("{title}: {}.", time(excess)),
        evidence,
        gain: format!("logins {} faster", time(excess)),
        change: change.iter().map(|text| (*text).to_owned()).collect(),
        weight: weight_of_time(excess),
    }
}

/// A shell whose start takes long.
pub(super) fn shell(facts: &Facts, out: &mut Vec<Finding>) {
    let Some(shell) = &facts.shell else { return };
    // The fastest run counts: what else runs on either machine is no fault of the shell.
    let (Some(interactive), Some(command)) =
        (lowest(shell.interactive.iter().copied()), lowest(shell.command.iter().copied()))
    else {
        return;
    };
    let round_trip = facts.round_trip();
    let limit = SLOW + 2.0 * round_trip;
    if shell.interactive.len() < 2 || shell.interactive.iter().any(|took| *took < limit) {
        return;
    }
    let excess = interactive - 2.0 * round_trip;
    // What the home directory takes is a finding of its own.
    let of_home = home::part_of_shell(facts);
    if of_home > 0.0 && excess - of_home < SLOW {
        return;
    }
    let mut evidence = vec![format!(
        "a login shell that ends at once took {}, a command that does nothing {} (the fastest of {})",
        time(interactive),
        time(command),
        shell.interactive.len()
    )];
    let both = command > SLOW + round_trip && command > 0.6 * interactive;
    let (cause, title, change) = match &shell.slowest {
        Some((line, place, took)) => {
            let place = place.as_deref().unwrap_or("its start-up files");
            evidence.push(format!("\"{line}\" in {place} took {}", time(*took)));
            (
                "shell_startup",
                format!("The shell's start-up files take {}: \"{line}\" in {place}.", time(excess)),
                format!("take it out of {place}, or run it in the background"),
            )
        }
        None if both => (
            "command_start",
            format!("Every command starts {} late (ForceCommand, ~/.ssh/rc, or a file that the shell reads).", time(command - round_trip)),
            "at the server: ForceCommand in sshd_config, command= in authorized_keys, ~/.ssh/rc, /etc/ssh/sshrc".to_owned(),
        ),
        None => (
            "shell_startup",
            format!("The login shell takes {} to start.", time(excess)),
            "look for the slow line at the server: bash -lixc exit 2>&1 | ts -i".to_owned(),
        ),
    };
    out.push(Finding {
        cause,
        title,
        evidence,
        gain: format!("a shell {} sooner", time(excess)),
        change: vec![change],
        weight: weight_of_time(excess),
    });
}

/// An SFTP server that starts late.
pub(super) fn sftp(facts: &Facts, out: &mut Vec<Finding>) {
    let needed = 2.0 * facts.round_trip();
    if facts.sftp.len() < LEAST_LOGINS || facts.sftp.iter().any(|took| *took < SLOW + needed) {
        return;
    }
    let Some(took) = lowest(facts.sftp.iter().copied()) else { return };
    let command = facts.shell.as_ref().and_then(|shell| lowest(shell.command.iter().copied()));
    // What delays each command is a finding of its own.
    let excess = took - needed.max(command.unwrap_or(0.0));
    if excess < SLOW {
        return;
    }
    out.push(Finding {
        cause: "sftp_start",
        title: format!("The server's SFTP starts late: {}, for scp, sftp and lhscp.", time(excess)),
        evidence: vec![format!(
            "the first answer of the subsystem sftp came after {}{} (the fastest of {})",
            time(took),
            command.map_or_else(String::new, |command| format!(", the end of a command that does nothing after {}", time(command))),
            facts.sftp.len()
        )],
        gain: format!("copies {} faster, each", time(excess)),
        change: vec![
            "at the server: Subsystem sftp internal-sftp in sshd_config; else look at the program that it names there"
                .to_owned(),
        ],
        weight: weight_of_time(excess),
    });
}

/// A shell that prints something before each command.
pub(super) fn noise(facts: &Facts, out: &mut Vec<Finding>) {
    let Some(line) = &facts.there.noise else { return };
    out.push(Finding {
        cause: "shell_output",
        title: format!("The shell of the server prints text before the output of each command: \"{line}\"."),
        evidence: vec!["a command that prints one line was answered with this line first".to_owned()],
        gain: "sftp and scp -O through an sftp-server that the shell starts, rsync and git that work".to_owned(),
        change: vec![
            "at the server: print it in interactive shells only (case $- in *i*) … esac) in .bashrc, /etc/bash.bashrc or \
             what the shell reads, or in the command of ForceCommand"
                .to_owned(),
        ],
        weight: 5.0,
    });
}

/// Compression of data that do not compress, which the configuration asks for.
pub(super) fn compression(facts: &Facts, out: &mut Vec<Finding>) {
    let (Some(with), Some(without)) = (facts.compressed, facts.up.as_ref().map(|flow| flow.rate)) else {
        return;
    };
    let factor = without / with.max(1.0);
    if factor < 1.3 {
        return;
    }
    out.push(Finding {
        cause: "compression",
        title: format!("Compression slows uploads of data that do not compress to {}.", rate(with)),
        evidence: vec![
            format!("upload of random data with compression: {} (the better of two)", rate(with)),
            format!("without: {}; all other transfers of this page are without", rate(without)),
        ],
        gain: format!("{factor:.1} times, measured, for archives, media and encrypted files"),
        change: vec!["Compression no in ssh_config, or no -C, for such data".to_owned()],
        weight: weight_of_factor(factor) + 0.1,
    });
}

/// Disks that are slower than the path.
pub(super) fn disks(facts: &Facts, out: &mut Vec<Finding>) {
    for direction in Direction::BOTH {
        let Some(path) = facts.best_rate(direction) else { continue };
        for use_of in [DiskUse::Writing, DiskUse::Reading] {
            let disk = match (direction, use_of) {
                (Direction::Up, DiskUse::Writing) | (Direction::Down, DiskUse::Reading) => &facts.disk_there,
                (Direction::Up, DiskUse::Reading) | (Direction::Down, DiskUse::Writing) => &facts.disk_here,
            };
            out.extend(disk.as_ref().and_then(|disk| slow_disk(direction, use_of, disk, path)));
        }
    }
}

/// What a copy does with a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskUse {
    Writing,
    Reading,
}

/// A disk that is clearly slower than the path.
fn slow_disk(direction: Direction, use_of: DiskUse, disk: &Disk, path: f64) -> Option<Finding> {
    let name = direction.name();
    let (end, reached, verb, evidence) = match use_of {
        DiskUse::Writing => (direction.receiver(), disk.rate, "takes", "writing {} with fsync"),
        DiskUse::Reading => (direction.sender(), disk.read_rate?, "gives", "reading what is not cached"),
    };
    let factor = path / reached.max(1.0);
    if factor < SLOW_DISK {
        return None;
    }
    let Disk { directory, bytes, .. } = disk;
    let reached = rate(reached);
    Some(Finding {
        cause: "disk",
        title: format!(
            "The disk of {end} ({directory}) {verb} {reached}, less than the path carries on {name}s."
        ),
        evidence: vec![
            format!("{}: {reached}", evidence.replace("{}", &size(*bytes))),
            format!("{name}s to memory: {}", rate(path)),
        ],
        gain: format!("up to {factor:.1} times for {name}s of large files"),
        change: vec![format!("copy with another file system on {end}, or give {directory} a faster disk")],
        weight: weight_of_factor(factor),
    })
}
