//! Causes that make a person wait besides the login: shells, SFTP, disks, compression.

use super::delays::{self, SLOW};
use super::facts::{Disks, Logins, Sftp, Shell, Throughput, Unwritable};
use super::finding::{Finding, weight_of_factor, weight_of_time};
use super::home;
use crate::disk::{Disk, Full};
use crate::flow::Direction;
use crate::shell::System;
use crate::stats::{lowest, rate, size, time};

/// Part of a shell's start that one line must take, for a short start to count as slow: that of shells with
/// many lines is their own, or that of a busy machine.
const OF_LINE: f64 = 0.5;
/// How many times faster the path must be for a disk to be the limit.
const SLOW_DISK: f64 = 1.4;
/// Answers of SFTP servers for a verdict.
const LEAST_ANSWERS: usize = 2;

/// True where each of several starts took longer than this by [`SLOW`], seconds, or a little and alike.
fn are_slow(starts: &[f64], needed: f64, least: usize) -> bool {
    let are_long = starts.len() >= least && starts.iter().all(|took| *took >= SLOW + needed);
    // Packets that wait for an acknowledgement take a further round trip, which is half of that or more.
    let delays: Vec<f64> = starts.iter().map(|took| took - 1.5 * needed).collect();
    are_long || delays::steady(&delays).is_some()
}

/// Finds a shell whose start takes long, over a round trip in seconds.
pub(super) fn shell(shell: &Shell, logins: &Logins, round_trip: f64, out: &mut Vec<Finding>) {
    if shell.interactive.is_empty() {
        out.extend(command(logins, &shell.command, round_trip));
        return;
    }
    // The fastest run counts: what else runs on either machine is no fault of the shell.
    let (Some(interactive), Some(command)) =
        (lowest(shell.interactive.iter().copied()), lowest(shell.command.iter().copied()))
    else {
        return;
    };
    if !are_slow(&shell.interactive, 2.0 * round_trip, 2) {
        return;
    }
    let excess = interactive - 2.0 * round_trip;
    // A slow home directory has its own finding.
    let of_home = home::part_of_shell(logins);
    if of_home > 0.0 && excess - of_home < SLOW {
        return;
    }
    let of_line = shell.slowest.as_ref().map_or(0.0, |(_, _, took)| *took);
    let late = command > 0.6 * interactive && are_slow(&shell.command, round_trip, 1);
    if excess < SLOW && of_line < OF_LINE * excess && !late {
        return;
    }
    let mut evidence = vec![format!(
        "a login shell that ends at once took {}, a command that does nothing {} (the fastest of {})",
        time(interactive),
        time(command),
        shell.interactive.len()
    )];
    let of_file = shell.slowest_file.as_ref().filter(|(_, took)| *took >= OF_LINE * excess);
    let of_line = shell.slowest.as_ref().filter(|_| of_line >= OF_LINE * excess || of_file.is_none());
    let (cause, title, change) = match (of_line, of_file) {
        (Some((line, place, took)), _) => {
            let place = place.as_deref().unwrap_or("its start-up files");
            evidence.push(format!("\"{line}\" in {place} took {}", time(*took)));
            (
                "shell_startup",
                format!("The shell's start-up files take {}: \"{line}\" in {place}.", time(excess)),
                format!("take it out of {place}, or run it in the background"),
            )
        }
        (None, Some((file, took))) => {
            evidence.push(format!("the lines of {file} took {} together", time(*took)));
            (
                "shell_startup",
                format!("The shell's start-up files take {}: many lines of {file} together.", time(excess)),
                if late {
                    format!(
                        "as the first line of {file}, where only shells at a terminal need it: case $- in *i*) ;; *) return ;; esac"
                    )
                } else {
                    format!("take programs that it starts again and again out of {file}: $(…), loops")
                },
            )
        }
        (None, None) if late => {
            ("command_start", late_commands(command - round_trip), WHERE_COMMANDS_START.to_owned())
        }
        (None, None) => (
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

/// Where to look for what starts before each command.
const WHERE_COMMANDS_START: &str =
    "at the server: ForceCommand in sshd_config, command= in authorized_keys, ~/.ssh/rc, /etc/ssh/sshrc";

fn late_commands(seconds: f64) -> String {
    format!(
        "Every command starts {} late (ForceCommand, ~/.ssh/rc, or a file that the shell reads).",
        time(seconds)
    )
}

/// Commands that start late, where the server gives no terminal for a shell.
fn command(logins: &Logins, all: &[f64], round_trip: f64) -> Option<Finding> {
    let took = lowest(all.iter().copied()).filter(|_| are_slow(all, 2.0 * round_trip, 2))?;
    let excess = took - round_trip;
    let of_home = home::part_of_shell(logins);
    if of_home > 0.0 && excess - of_home < SLOW {
        return None;
    }
    Some(Finding {
        cause: "command_start",
        title: late_commands(excess),
        evidence: vec![format!(
            "a command that does nothing took {} (the fastest of {}), without a terminal",
            time(took),
            all.len()
        )],
        gain: format!("a command {} sooner", time(excess)),
        change: vec![WHERE_COMMANDS_START.to_owned()],
        weight: weight_of_time(excess),
    })
}

/// Finds an SFTP server that starts late, over a round trip in seconds.
pub(super) fn sftp(sftp: &Sftp, shell: Option<&Shell>, round_trip: f64, out: &mut Vec<Finding>) {
    let needed = 2.0 * round_trip;
    if !are_slow(&sftp.starts, needed, LEAST_ANSWERS) {
        return;
    }
    let Some(took) = lowest(sftp.starts.iter().copied()) else { return };
    let command = shell.and_then(|shell| lowest(shell.command.iter().copied()));
    // A delay of each command has its own finding.
    let excess = took - needed.max(command.unwrap_or(0.0));
    if excess < delays::NOTICEABLE || (excess < SLOW && sftp.starts.len() < delays::OFTEN) {
        return;
    }
    out.push(Finding {
        cause: "sftp_start",
        title: format!("The server's SFTP starts late: {}, for scp, sftp and lhscp.", time(excess)),
        evidence: vec![format!(
            "the first answer of the subsystem sftp came after {}{} (the fastest of {})",
            time(took),
            command.map_or_else(String::new, |command| format!(", the end of a command that does nothing after {}", time(command))),
            sftp.starts.len()
        )],
        gain: format!("copies {} faster, each", time(excess)),
        change: vec![
            "at the server: Subsystem sftp internal-sftp in sshd_config; else look at the program that it names there"
                .to_owned(),
        ],
        weight: weight_of_time(excess),
    });
}

/// Finds a server without SFTP.
pub(super) fn no_sftp(sftp: &Sftp) -> Option<Finding> {
    let why = sftp.refusal.as_ref()?;
    Some(Finding {
        cause: "no_sftp",
        title: "The server has no SFTP: copies over it (scp, sftp, lhscp) fail.".to_owned(),
        evidence: vec![format!("the subsystem sftp: {why}")],
        gain: "copies that work".to_owned(),
        change: vec![
            "at the server: Subsystem sftp internal-sftp in sshd_config (another server: install the program sftp-server where \
             it looks for it)"
                .to_owned(),
            "or scp -O, which needs the program scp there".to_owned(),
        ],
        weight: 0.6,
    })
}

/// Finds a shell that prints something before each command.
pub(super) fn noise(server: &System) -> Option<Finding> {
    let line = server.noise.as_ref()?;
    Some(Finding {
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
    })
}

/// Finds compression of incompressible data that the configuration asks for.
///
/// `with` is the rate of an upload with compression, bytes/s.
pub(super) fn compression(with: f64, throughput: &Throughput) -> Option<Finding> {
    let without = throughput.flow(Direction::Up)?.rate;
    let factor = without / with.max(1.0);
    if factor < 1.3 {
        return None;
    }
    Some(Finding {
        cause: "compression",
        title: format!("Compression slows uploads of data that do not compress to {}.", rate(with)),
        evidence: vec![
            format!("upload of random data with compression: {} (the better of two)", rate(with)),
            format!("without: {}; all other transfers of this page are without", rate(without)),
        ],
        gain: format!("{factor:.1} times, measured, for archives, media and encrypted files"),
        change: vec!["Compression no in ssh_config, or no -C, for such data".to_owned()],
        weight: weight_of_factor(factor) + 0.1,
    })
}

/// Disks that have no space for a file.
pub(super) fn full_disks(disks: &Disks, out: &mut Vec<Finding>) {
    for (end, disk) in [("the server", &disks.there), ("this machine", &disks.here)] {
        let Some((disk, full)) = disk.as_ref().and_then(|disk| Some((disk, disk.full.as_ref()?))) else {
            continue;
        };
        let Disk { directory, .. } = disk;
        if full.is_of_file {
            out.push(file_size_limit(end, directory, full));
            continue;
        }
        out.push(Finding {
            cause: "disk_full",
            title: format!(
                "The disk of {end} ({directory}) is full, or the user's quota of it: a file of {} does not fit.",
                size(full.wanted)
            ),
            evidence: [
                Some(format!("writing it failed: {}", full.said)),
                full.free.map(|free| format!("df there: {} are free", size(free))),
            ]
            .into_iter()
            .flatten()
            .collect(),
            gain: "copies that end".to_owned(),
            change: vec![
                format!("on {end}: df -h {directory}, df -i {directory} and quota -s; then delete what is not needed"),
                "or copy to another file system (--remote-dir and --local-dir of this command measure it)".to_owned(),
            ],
            weight: 50.0,
        });
    }
}

/// Finds directories in which the user may not make files.
pub(super) fn unwritable(disks: &Disks, out: &mut Vec<Finding>) {
    for Unwritable { end, directory, said } in &disks.unwritable {
        let (name, flag) = match *end {
            "the server" if directory == "." => ("the home directory".to_owned(), "--remote-dir"),
            "the server" => (lh_client::sanitise(directory), "--remote-dir"),
            _ => (directory.clone(), "--local-dir"),
        };
        out.push(Finding {
            cause: "not_writable",
            title: format!("No file can be made in {name} of {end}: {said}."),
            evidence: vec![format!("making a file there failed: {said}")],
            gain: "copies to it that work".to_owned(),
            change: vec![
                format!("on {end}: ls -ld and findmnt -T say who may write there, and whether it is mounted read-only"),
                format!("or copy to another directory ({flag} of this command measures it)"),
            ],
            weight: 0.7,
        });
    }
}

/// Finds a limit of the size of files that the process has reached.
fn file_size_limit(end: &str, directory: &str, full: &Full) -> Finding {
    Finding {
        cause: "file_size_limit",
        title: format!(
            "A limit of file sizes on {end} stops copies: a file of {} was not written in {directory}.",
            size(full.wanted)
        ),
        evidence: [
            Some(format!("writing it failed: {}", full.said)),
            full.limit.map(|limit| format!("ulimit -f there: {}", size(limit))),
        ]
        .into_iter()
        .flatten()
        .collect(),
        gain: "copies that end".to_owned(),
        change: vec![
            format!(
                "on {end}: take the limit away (fsize in /etc/security/limits.conf, LimitFSIZE= of the service, ulimit -f)"
            ),
            "or, where the file system itself cannot hold such a file, copy to another".to_owned(),
        ],
        weight: 50.0,
    }
}

/// Disks that are slower than the path.
pub(super) fn disks(disks: &Disks, throughput: &Throughput, out: &mut Vec<Finding>) {
    for direction in Direction::BOTH {
        let Some(path) = throughput.best_rate(direction) else { continue };
        for use_of in [DiskUse::Writing, DiskUse::Reading] {
            let disk = match (direction, use_of) {
                (Direction::Up, DiskUse::Writing) | (Direction::Down, DiskUse::Reading) => &disks.there,
                (Direction::Up, DiskUse::Reading) | (Direction::Down, DiskUse::Writing) => &disks.here,
            };
            let disk = disk.as_ref().filter(|disk| disk.is_measured());
            out.extend(disk.and_then(|disk| slow_disk(direction, use_of, disk, path)));
        }
    }
}

/// How a copy uses a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskUse {
    Writing,
    Reading,
}

/// Finds a disk that is clearly slower than the path.
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
        change: vec![
            format!("copy with another file system on {end}, or give {directory} a faster disk"),
            "or a higher limit of its control group, if it has one (io.max, blkio.throttle)".to_owned(),
        ],
        weight: weight_of_factor(factor),
    })
}
