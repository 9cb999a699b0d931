//! The measurements of the doctor, in their order.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use lh_client::{Pty, SessionSetup, Start};
use lh_sys::errno_text;

use super::facts::{Facts, Home, OtherControl, Shell, Wanted};
use super::jump;
use super::losses::{LEAST_RESENT, losses_may_limit};
use super::marks;
use super::transfers::{FLOW, SHORT_FLOW, TOGETHER, one_flow, short_flow, together};
use crate::disk::{Disk, disk_here, disk_there};
use crate::fault::Fault;
use crate::flow::{Direction, Flow, MANY_REKEYS};
use crate::probe::{largest_segment, reach};
use crate::shell::{SHORT, System, quoted};
use crate::stage::Stage;
use crate::target::{NoConnection, Remote, Target};
use crate::task::{Data, Opens, PING_COUNT, PING_EVERY, Shown, Task};

/// Further flows of that length where too few segments were lost for a verdict, at most.
const MORE_FLOWS: usize = 2;
/// Time after which a login that neither fails nor succeeds is given up.
const LOGIN_LIMIT: Duration = Duration::from_secs(45);
const LOGIN_LATE: &str = "the login was not complete after 45 s";
/// Runs of a shell, and of those that are slow: the fastest one counts, and a loaded machine has slow moments.
const SHELLS: [usize; 2] = [2, 4];
/// A shell that takes longer than this beyond a round trip has its start-up files traced, seconds.
const SLOW_SHELL: f64 = 0.3;

/// Measures everything; says on the way what it does.
pub(crate) fn gather(target: &Target, wanted: &Wanted, tell: &mut dyn FnMut(&str)) -> Result<Facts, Fault> {
    let target = &target.patient();
    let options = target.options(&[])?;
    let mut facts = Facts { host: options.config.host.clone(), here: System::here(), ..Facts::default() };
    facts.rate_limit = options.rate_limit.map(|rate| rate as f64);
    if options.config.is_direct() {
        tell("path");
        let reached = reach(&options.config.host, options.config.port())?;
        facts.refused = reached.refused;
        facts.segments = largest_segment(reached.address);
        facts.reached = Some(reached);
        // A login would wait for packets that never arrive.
        if facts.segments.is_some_and(|segments| segments.is_black_hole()) {
            facts.no_login = Some("not tried: its packets would be lost".to_owned());
            return Ok(facts);
        }
    } else {
        facts.is_proxied = true;
        facts.missing.push("the path below TCP: the host is reached through a proxy".to_owned());
    }
    tell("login");
    let first = match first_login(target) {
        Ok((stages, offers)) => {
            facts.offers = offers;
            stages
        }
        Err(failure) => {
            if !failure.is_path {
                return Err(failure.fault);
            }
            facts.no_login = Some(match failure.slowest {
                Some(stage) => format!("{} (while waiting for {})", failure.fault, stage.words()),
                None => failure.fault.to_string(),
            });
            facts.refused += target.refused();
            return Ok(facts);
        }
    };
    facts.logins.push(first);
    let mut remote = log_in(target, &mut facts)?;
    {
        let transport = remote.client.driver().link().transport_ref();
        facts.server = lh_client::sanitise(transport.peer_identification().unwrap_or_default());
        facts.cipher = transport.negotiated().map(|names| names.cipher_c2s.clone()).unwrap_or_default();
    }
    // A third login tells a hiccup from a habit, if there is time.
    if facts.logins.iter().flatten().map(|(_, seconds)| seconds).sum::<f64>() < 8.0 {
        remote = log_in(target, &mut facts)?;
    }
    facts.refused += target.refused();
    facts.idle = remote.ping(PING_COUNT, PING_EVERY);
    match remote.system() {
        Ok(system) => facts.there = system,
        Err(why) => {
            facts.missing.push(format!(
                "what needs a command at the server, transfers among it: {why}. What holds up copies over SFTP, lhscp -v \
                 says at their end"
            ));
            return Ok(facts);
        }
    }
    tell("shell");
    shell(&mut remote, &mut facts);
    if let Err(why) = flows(target, &mut facts, tell) {
        facts.missing.push(format!("some of the transfers: {why}"));
    }
    if facts.is_proxied {
        tell("the jump host");
        jump::measure(target, &mut facts);
    }
    tell("disks");
    disks(target, wanted, &mut facts);
    Ok(facts)
}

/// Logs in on a thread of its own, so that a path that swallows packets does not hold up the doctor.
fn first_login(target: &Target) -> Result<(Vec<(Stage, f64)>, usize), NoConnection> {
    let (send, receive) = channel();
    let target = target.clone();
    std::thread::spawn(move || {
        let result = target.connect(&[]).map(|mut remote| {
            let stages = with_session(&mut remote);
            remote.client.close();
            (stages, remote.offers)
        });
        let _ = send.send(result);
    });
    match receive.recv_timeout(LOGIN_LIMIT) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Err(NoConnection { fault: Fault::Late(LOGIN_LATE), is_path: true, slowest: None })
        }
    }
}

/// Adds the stages after the login.
fn with_session(remote: &mut Remote) -> Vec<(Stage, f64)> {
    let shown = remote.script(":", SHORT);
    let mut stages = remote.stages.clone();
    let opened = shown.opened.unwrap_or(0.0);
    stages.push((Stage::Session, opened));
    stages.push((Stage::Command, (shown.ended.unwrap_or(opened) - opened).max(0.0)));
    stages
}

fn log_in(target: &Target, facts: &mut Facts) -> Result<Remote, Fault> {
    let mut remote = target.connect(&[])?;
    facts.logins.push(with_session(&mut remote));
    facts.offers = facts.offers.max(remote.offers);
    Ok(remote)
}

/// A shell with a terminal, which ends at once.
fn interactive(remote: &mut Remote) -> Option<f64> {
    let mut setup = SessionSetup::new(Start::Shell);
    setup.pty = Some(Pty { term: "dumb".to_owned(), columns: 80, rows: 24, ..Pty::default() });
    let shown = remote.run(Task {
        opens: Opens::Session(setup),
        data: Data::Keep,
        input: b"exit\n".to_vec(),
        sample: None,
        ping: None,
        limit: SHORT,
        hold: None,
    });
    let took = shown.ended? - shown.opened?;
    shown.failure.is_none().then_some(took)
}

fn shell(remote: &mut Remote, facts: &mut Facts) {
    let mut found = Shell::default();
    let round_trip = facts.round_trip();
    for run in 0..SHELLS[1] {
        let is_slow = found.interactive.iter().all(|took| *took > SLOW_SHELL + round_trip);
        if run >= SHELLS[0] && !is_slow {
            break;
        }
        let shown = remote.script(":", SHORT);
        found.command.extend(shown.ended.zip(shown.opened).map(|(ended, opened)| ended - opened));
        match interactive(remote) {
            Some(took) => found.interactive.push(took),
            None => facts.missing.push("the start of an interactive shell: it did not end".to_owned()),
        }
        if facts.missing.iter().any(|text| text.contains("interactive shell")) {
            break;
        }
    }
    let slow = found.interactive.iter().chain(&found.command).all(|took| *took > SLOW_SHELL + round_trip)
        || found.interactive.iter().all(|took| *took > SLOW_SHELL + round_trip);
    if slow && !found.interactive.is_empty() {
        found.slowest = slowest_line(remote, &facts.there);
    }
    facts.shell = Some(found);
    facts.sftp = sftp_starts(remote, round_trip);
    facts.home = home(remote);
    // Servers that look up the client's name (UseDNS, PAM, TCP wrappers) wait as long as this takes.
    let shown =
        remote.script("set -- $SSH_CONNECTION; echo begin; getent hosts $1 >/dev/null; echo end", SHORT);
    facts.reverse_lookup = at(&shown, "end").zip(at(&shown, "begin")).map(|(end, begin)| end - begin);
}

/// Seconds from the acceptance of an SFTP session to its first answer, of those that answered; further ones only where
/// the first is slow.
fn sftp_starts(remote: &mut Remote, round_trip: f64) -> Vec<f64> {
    /// SSH_FXP_INIT of version 3.
    const INIT: &[u8] = &[0, 0, 0, 5, 1, 0, 0, 0, 3];
    let mut all = Vec::new();
    for _ in 0..SHELLS[1] {
        let shown = remote.run(Task {
            opens: Opens::Session(SessionSetup::new(Start::Subsystem("sftp".to_owned()))),
            // Some servers end without an answer where the input has ended.
            data: Data::Hold,
            input: INIT.to_vec(),
            sample: None,
            ping: None,
            limit: SHORT,
            hold: Some(Box::new(<[u8]>::is_empty)),
        });
        let answered = shown.pieces.first().map(|(at, _)| *at);
        let Some(took) = answered.zip(shown.opened).map(|(answered, opened)| answered - opened) else {
            break;
        };
        all.push(took);
        if took < SLOW_SHELL + 2.0 * round_trip {
            break;
        }
    }
    all
}

/// When the output with this word came, seconds.
fn at(shown: &Shown, word: &str) -> Option<f64> {
    let has = |piece: &[u8]| piece.windows(word.len()).any(|part| part == word.as_bytes());
    shown.pieces.iter().find(|(_, piece)| has(piece)).map(|(at, _)| *at)
}

/// Opens the files of the home directory that a login reads, then as many of `/etc`, and says what it has opened.
/// Between the two, the output says how far it is.
const OPEN_FILES: &str = r#"cd || exit
all=".ssh/authorized_keys .ssh/rc .profile .bash_profile .bash_login .bashrc .zshenv .zprofile .zshrc .zlogin .kshrc"
set -- /etc/passwd /etc/group /etc/hosts /etc/profile /etc/services /etc/protocols /etc/nsswitch.conf
d=$(pwd); s=$(stat -f -c %T . 2>/dev/null); f=$(df -P . 2>/dev/null | { read x; read x y; echo "$x"; }); n=0
echo "begin"
for x in $all; do [ $n -lt 4 ] && { true <$x; } 2>/dev/null && n=$((n+1)); done
echo "middle"
i=0
while [ $i -lt $n ]; do { true <$1; } 2>/dev/null; shift; i=$((i+1)); done
echo "end"
echo "directory=$d"; echo "files=$n"; echo "system=$s, $f""#;

/// Times the files of the home directory. Once more where it is slow: an automounter may have been at work.
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
        };
        best = best.filter(|best| best.seconds <= now.seconds).or(Some(now));
        if best.as_ref().is_some_and(|best| best.seconds < SLOW_SHELL / 2.0) {
            break;
        }
    }
    best
}

/// Has the shell show the lines of its start-up files as it runs them. The line after which nothing came for
/// longest is the slow one.
fn slowest_line(remote: &mut Remote, system: &System) -> Option<(String, Option<String>, f64)> {
    let shell = system.text("shell")?;
    let kind = Path::new(shell).file_name()?.to_str()?;
    ["bash", "sh", "dash", "zsh", "ksh", "ash"].contains(&kind).then_some(())?;
    let script = format!("export PS4='+ '; {shell} -lixc exit 2>&1");
    let shown = remote.script(&script, SHORT);
    let mut last: Option<(f64, String)> = None;
    let mut slowest: Option<(String, f64)> = None;
    for (at, piece) in &shown.pieces {
        if let Some((before, line)) = &last {
            let took = at - before;
            if slowest.as_ref().is_none_or(|(_, most)| took > *most) {
                slowest = Some((line.clone(), took));
            }
        }
        let text = String::from_utf8_lossy(piece);
        let line = text.lines().rfind(|line| line.starts_with('+'));
        if let Some(line) = line {
            let line = line.trim_start_matches('+').trim();
            // zsh names the place before the line.
            let line = line.split_once("> ").map_or(line, |(_, line)| line);
            last = Some((*at, lh_client::sanitise(line)));
        }
    }
    let (line, took) = slowest.filter(|(line, took)| *took > SLOW_SHELL / 2.0 && !line.is_empty())?;
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
    Some((line, place.map(|place| lh_client::sanitise(&place)), took))
}

fn flows(target: &Target, facts: &mut Facts, tell: &mut dyn FnMut(&str)) -> Result<(), Fault> {
    for direction in Direction::BOTH {
        tell(direction.name());
        let mut flow = one_flow(target, &[], direction, FLOW)?;
        // A handful of lost segments may be chance.
        for _ in 0..MORE_FLOWS {
            let is_in_doubt = (1.0..LEAST_RESENT).contains(&flow.resent());
            if !is_in_doubt || !losses_may_limit(&flow, facts.round_trip()) {
                break;
            }
            tell(&format!("{}, again", direction.name()));
            let Ok(again) = one_flow(target, &[], direction, FLOW) else { break };
            flow.add_losses(&again);
        }
        match direction {
            Direction::Up => facts.up = Some(flow),
            Direction::Down => facts.down = Some(flow),
        }
    }
    for direction in Direction::BOTH {
        tell(&format!("{} over {TOGETHER} connections", direction.name()));
        let rate = together(target, direction, short_flow(facts.round_trip()));
        if rate.is_none() {
            facts.missing.push(format!(
                "{}s over {TOGETHER} connections at a time, with which each is compared: one was refused or broke off \
                 (MaxStartups, PerSourceMaxStartups, a firewall)",
                direction.name()
            ));
        }
        match direction {
            Direction::Up => facts.up_together = rate,
            Direction::Down => facts.down_together = rate,
        }
    }
    if *target.options(&[])?.config.compression {
        tell("compression");
        let with = [("Compression", "yes")];
        let rates = [
            one_flow(target, &with, Direction::Up, SHORT_FLOW),
            one_flow(target, &with, Direction::Up, SHORT_FLOW),
        ];
        // The better one, so that a moment's load is no fault of it.
        facts.compressed =
            rates.into_iter().flatten().filter(Flow::is_significant).map(|flow| flow.rate).reduce(f64::max);
    }
    if facts.up.as_ref().is_some_and(|flow| flow.rekeys >= MANY_REKEYS) {
        tell("fewer key exchanges");
        let other = one_flow(target, &[("RekeyLimit", "default none")], Direction::Up, SHORT_FLOW);
        // The server's limit counts as before.
        let is_fewer = |flow: &Flow| flow.is_significant() && flow.rekeys < MANY_REKEYS;
        facts.without_rekeys = other.ok().filter(is_fewer).map(|flow| flow.rate);
    }
    let lossy = facts.up.as_ref().and_then(Flow::loss).is_some_and(|loss| loss > 0.0005);
    let uses = facts.up.as_ref().and_then(|flow| flow.sender.as_ref()?.congestion_control.clone());
    if lossy && facts.here.has_congestion_control("bbr") && uses.as_deref() != Some("bbr") {
        tell("another congestion control");
        let other = one_flow(target, &[("TcpCongestion", "bbr")], Direction::Up, FLOW);
        facts.other_control = other.ok().filter(Flow::is_significant).and_then(|flow| {
            let name = "bbr".to_owned();
            let used = flow.sender?.congestion_control?;
            let is_used = used == name;
            Some(if is_used {
                OtherControl::Measured { name, rate: flow.rate }
            } else {
                OtherControl::Overruled { name }
            })
        });
    }
    tell("packet marks");
    marks::measure(target, facts)?;
    let used = |flow: &Flow| flow.client_cpu.unwrap_or(0.0).max(flow.server_cpu.unwrap_or(0.0));
    const FASTEST: &str = "aes128-gcm@openssh.com";
    if facts.up.as_ref().map_or(0.0, used) > 0.8 && facts.cipher != FASTEST {
        tell("another cipher");
        let other = one_flow(target, &[("Ciphers", FASTEST)], Direction::Up, SHORT_FLOW);
        facts.other_cipher =
            other.ok().filter(Flow::is_significant).map(|flow| (FASTEST.to_owned(), flow.rate));
    }
    Ok(())
}

fn disks(target: &Target, wanted: &Wanted, facts: &mut Facts) {
    let [up, down] = Direction::BOTH.map(|direction| facts.best_rate(direction).unwrap_or(0.0));
    match quieter(|| disk_here(&wanted.local_directory), down, up) {
        Ok(disk) => facts.disk_here = Some(disk),
        Err(error) => facts.missing.push(format!("the disk of this machine: {}", errno_text(&error))),
    }
    let there = target.connect(&[]).map_err(Fault::from);
    let measured =
        there.and_then(|mut remote| quieter(|| disk_there(&mut remote, &wanted.remote_directory), up, down));
    match measured {
        Ok(disk) => facts.disk_there = Some(disk),
        Err(error) => facts.missing.push(format!("the disk of the server: {error}")),
    }
}

/// Measures a disk; once more where it is slower than the path that brings and takes data, and keeps the better
/// figures: what else writes now is no fault of the disk.
fn quieter<E>(mut measure: impl FnMut() -> Result<Disk, E>, brings: f64, takes: f64) -> Result<Disk, E> {
    let mut disk = measure()?;
    if (disk.rate < brings || disk.read_rate.is_some_and(|rate| rate < takes))
        && let Ok(again) = measure()
    {
        disk.rate = disk.rate.max(again.rate);
        disk.read_rate = [disk.read_rate, again.read_rate].into_iter().flatten().reduce(f64::max);
    }
    Ok(disk)
}
