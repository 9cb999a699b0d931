//! Causes at the processors of both ends: the cipher, a limit of a control group, other programs, other
//! virtual machines.

use super::facts::OtherCipher;
use super::finding::{Finding, weight_of_factor};
use super::judged::{EACH_IS_LIMITED, JudgedDirection, MUCH};
use super::packets;
use crate::flow::{Direction, EndUsage, Flow, Scheduling, Turns};
use crate::stats::{percent, rate};

/// Cores from which a process counts as limited by its processor.
const BUSY_CORE: f64 = 0.85;

/// Round trip under load from which a queue of the path is filled, multiples of the idle one, and seconds
/// more.
const FILLED: (f64, f64) = (1.3, 0.003);
/// Round trip without load from which it is that of a path, seconds. That of shorter ones is the time of the
/// ends' own processors.
const PATH: f64 = 0.001;

/// How many times as much as is under way a congestion window has to permit to be no limit.
const IDLE_WINDOW: f64 = 2.0;

/// Part of the processors' busy time from which a hypervisor that takes it counts.
const STOLEN: f64 = 0.15;

/// Part of the periods from which a control group that is stopped in them is what limits, whatever its
/// processes waited for meanwhile: they used up their time again and again.
const NEARLY_EACH: f64 = 0.9;
/// Part of the limit that the SSH process used by itself from which the limit counts, although it was stopped
/// in few periods: what else runs there makes the stops longer and fewer.
const USED_UP: f64 = 0.85;
/// Part of the periods with a stop, where it used that much.
const SOME: f64 = 0.1;

/// Part of the time for which a process waits for a processor, and part of the time of all processors in
/// which they have nothing to do, from which a limit keeps it from them.
const MOSTLY: f64 = 0.6;
const IDLE: f64 = 0.2;
/// Part of the time for which a process runs that wants to run all the time, below which a limit may be why.
const RARELY: f64 = 0.1;

/// Part of a fair share of the processors up to which a process that waits for most of the time is kept from
/// them by more than other programs.
const UNFAIR: f64 = 0.4;

/// Times that a limited process has less than a core, from which the rate may grow by more: what it does
/// besides sending takes most of so little.
const LITTLE: f64 = 10.0;

/// The gain of a process that would have a whole core, so many times what it has.
fn gain_of_core(factor: f64) -> String {
    if factor < LITTLE {
        format!("up to {factor:.1} times, with a whole core")
    } else {
        format!("{factor:.0} times and more with a whole core, as far as the path carries it")
    }
}

/// Says where a limit of processor time is raised.
fn higher_quota(end: &str) -> String {
    format!(
        "on {end}: a higher limit for the service (systemctl set-property UNIT CPUQuota=) or container \
         (docker update --cpus, resources.limits.cpu of the pod)"
    )
}

impl JudgedDirection<'_> {
    /// The processor, by a limit of a control group, the hypervisor, the cipher, or other programs.
    pub(super) fn any_processor(&self) -> Option<Finding> {
        if let Some(quota) = self.quota().or_else(|| self.unseen_quota()) {
            return Some(quota);
        }
        // A process that waits for its turn costs nothing where the path takes no more.
        let is_full = self.fills_path() || packets::is_policed(self);
        let taken = [self.stolen_processor(), self.shared_processor()];
        let [stolen, shared] = taken.map(|found| found.filter(|_| !is_full));
        // The heavier of the two findings counts.
        let weight = |found: &Option<Finding>| found.as_ref().map_or(0.0, |found| found.weight);
        if weight(&stolen) >= weight(&shared) && stolen.is_some() {
            return stolen;
        }
        self.processor().or(shared)
    }

    /// Returns whether the path is full: one connection fills the queue in front of it, and several are no
    /// faster. A process that waits for its turn meanwhile costs no throughput.
    pub(super) fn fills_path(&self) -> bool {
        let (times, more) = FILLED;
        let idle = self.facts.round_trip();
        let Some(sender) = self.sender().filter(|_| idle >= PATH) else { return false };
        let has_queue = sender.loaded_rtt.is_some_and(|loaded| loaded > times * idle && loaded > idle + more);
        let has_dropped = self.flow.tcp.drops.as_ref().is_some_and(|course| course.is_of_full_queue(idle));
        // An end that is late with taking the data closes a window.
        let is_taken =
            sender.receive_window.is_none_or(|share| share < MUCH) && self.flow.windows.closed < MUCH;
        is_taken && (has_queue || has_dropped) && self.factor().is_some_and(|factor| factor < EACH_IS_LIMITED)
    }

    /// Part of the time for which the process waited for its turn, at the end where it waited longer.
    fn longest_wait(&self) -> Option<(&'static str, Turns)> {
        busier(self.flow, |end| end.turns, |turns| turns.waited)
    }

    /// Finds the end whose process other programs keep longest from the processor that it wants.
    fn kept(&self) -> Option<(&'static str, Turns)> {
        busier(self.flow, |usage| usage.turns.filter(is_kept), |turns| turns.waited)
    }

    /// Returns whether TCP waits for the SSH process of an end, or does not show it. A process that waits for
    /// its turn while TCP has data to send, and space for what arrives, delays nothing.
    fn tcp_waits_for(&self, end: &str) -> bool {
        let Some(sender) = self.sender() else { return true };
        let application = self.flow.application;
        let is_much = |part: Option<f64>| part.is_some_and(|part| part >= MUCH);
        let is_known = application.starved.is_some() || sender.busy.is_some();
        let is_dry = !is_known
            || is_much(application.starved)
            || is_much(sender.busy.map(|busy| 1.0 - busy))
            || self.has_idle_window();
        let is_held =
            is_much(sender.receive_window) || self.flow.windows.closed >= MUCH || is_much(application.unread);
        // The SSH window of a download belongs to the receiving end, and TCP runs dry where it is used up.
        let is_window_unseen = self.direction == Direction::Down;
        if end == self.direction.sender() { is_dry } else { is_held || (is_window_unseen && is_dry) }
    }

    /// Returns whether TCP could have had much more under way: it sends what it is given. It has something to
    /// send at each look where a slow process writes little at a time.
    fn has_idle_window(&self) -> bool {
        let Some(sender) = self.sender() else { return false };
        let under_way = sender.loaded_rtt.map(|loaded| loaded * self.flow.rate);
        let is_idle =
            sender.congestion_window.zip(under_way).is_some_and(|(most, now)| most >= IDLE_WINDOW * now);
        let is_little = |share: Option<f64>| share.is_some_and(|share| share < MUCH);
        // Waiting for the other end's window, or for lost segments, leaves some of it, too.
        let loses = self.flow.loss().is_none_or(|part| part > 0.0);
        is_idle && !loses && is_little(sender.receive_window) && is_little(sender.send_buffer)
    }

    /// Finds a machine that is too busy to tell what limits a connection: several together are faster, and
    /// have more turns at the processors. TCP does not show that it waits for the process.
    pub(super) fn undecided(&self) -> Option<Finding> {
        let (end, turns) = self.kept()?;
        Some(Finding {
            cause: "busy_machine",
            title: format!(
                "Other programs keep {end} too busy to tell what limits {}s of one connection.",
                self.direction.name()
            ),
            evidence: vec![self.measured(), turns_of(end, turns)],
            gain: self.gain(),
            change: vec![format!(
                "measure again while {end} is idle (top shows there what runs), or give what runs a lower priority (renice \
                 -n 10 -p PID)"
            )],
            weight: self.weight(),
        })
    }

    /// Says that the process waited long for its turn, where that does not limit the rate.
    pub(super) fn harmless_wait(&self) -> Option<String> {
        let (end, turns) = self.longest_wait().filter(|(_, turns)| turns.waited >= MUCH)?;
        Some(format!(
            "the SSH process of {end} waited {} of the time for its turn at a processor, which does not limit it",
            percent(turns.waited)
        ))
    }

    /// Finds processors that the hypervisor gives to other virtual machines.
    fn stolen_processor(&self) -> Option<Finding> {
        let of_end = |end: &EndUsage| {
            let stolen = end.stolen.filter(|part| *part >= STOLEN)?;
            // Kernels count what was stolen as time that a thread ran, or not at all.
            let wanted = end.turns?.wanted() / (1.0 - stolen).max(0.05);
            (wanted >= BUSY_CORE).then_some(stolen)
        };
        let (end, stolen) = busier(self.flow, of_end, |stolen| *stolen)?;
        let factor = 1.0 / (1.0 - stolen).max(0.05);
        Some(Finding {
            cause: "processor_stolen",
            title: format!(
                "The hypervisor gives the processors of {end} to other virtual machines {} of the time (steal), which limits {}s.",
                percent(stolen),
                self.direction.name()
            ),
            evidence: vec![
                self.measured(),
                format!("steal is {} of the busy time of all processors of {end} (/proc/stat)", percent(stolen)),
            ],
            gain: format!("about {factor:.1} times, with processors for itself"),
            change: vec![
                format!("on {end}: vmstat 1 shows it (column st)"),
                "ask who runs the virtual machine for reserved processors, another host, or a type without credits".to_owned(),
            ],
            weight: weight_of_factor(factor),
        })
    }

    fn processor(&self) -> Option<Finding> {
        let (end, used) =
            busier(self.flow, Load::of, |load| load.share).filter(|(_, load)| load.share >= BUSY_CORE)?;
        let other = self.facts.other_settings.cipher.as_ref();
        let factor = match other {
            Some(OtherCipher::Measured { rate, .. }) => rate / self.flow.rate.max(1.0),
            Some(OtherCipher::Refused { .. }) | None => 1.0,
        };
        let cores = "copy with lhscp -j, which uses more cores".to_owned();
        let (gain, change) = match other {
            Some(OtherCipher::Measured { name, rate: other }) if factor >= 1.15 => (
                format!("{factor:.1} times, measured: {} with {name}", rate(*other)),
                vec![format!("Ciphers {name} in ssh_config, or -c {name}")],
            ),
            Some(OtherCipher::Refused { name }) => (
                format!("not measured: the server does not offer {name}, which needs least of a processor"),
                vec![format!("at the server: Ciphers +{name} in sshd_config"), format!("or {cores}")],
            ),
            _ => (
                "no cipher that was tried is faster; several connections use more cores".to_owned(),
                vec![cores],
            ),
        };
        Some(Finding {
            cause: "processor",
            title: format!(
                "The processor of {end} limits {}s: {} uses a whole core for {}.",
                self.direction.name(),
                used.what(),
                self.facts.negotiated.suite()
            ),
            evidence: vec![self.measured(), used.evidence(end)],
            gain,
            change,
            weight: weight_of_factor(factor.max(self.factor().unwrap_or(1.0))).max(0.1),
        })
    }

    /// Finds a limit of a control group that keeps the processor from an SSH process that wants it.
    fn quota(&self) -> Option<Finding> {
        let flow = self.flow;
        let held = |(end, usage): (&'static str, &EndUsage)| {
            let (quota, turns) = (usage.quota.clone()?, usage.turns?);
            // Newer kernels do not count the time for which a group is stopped as waiting.
            let stopped = (quota.seconds / flow.seconds.max(0.1)).min(1.0 - turns.ran);
            let wanted = turns.wanted().max(turns.ran + stopped);
            let is_kept = quota.share() >= MUCH && wanted >= BUSY_CORE;
            let is_limit = is_kept || quota.share() >= NEARLY_EACH;
            let is_used_up = !self.fills_path()
                && quota.share() >= SOME
                && usage.cpu.is_some_and(|used| used >= USED_UP * quota.cores());
            let factor = 1.0 / turns.ran.clamp(0.05, 1.0);
            // It costs nothing in the periods without a stop.
            let factor = if is_limit { factor } else { factor.min(1.0 / (1.0 - quota.share()).max(0.05)) };
            (is_limit || is_used_up).then_some((end, quota, turns.ran, factor))
        };
        // The one that was stopped in more of its periods.
        let (end, quota, ran, factor) = flow
            .ends()
            .into_iter()
            .filter_map(held)
            .max_by(|(_, a, ..), (_, b, ..)| a.share().total_cmp(&b.share()))?;
        let [time, period] = quota.limit;
        let file = if quota.is_version_2 {
            format!("{}/cpu.max: 'max {period}' takes the limit away", quota.group)
        } else {
            format!("{}/cpu.cfs_quota_us: -1 takes the limit away", quota.group)
        };
        Some(Finding {
            cause: "processor_quota",
            title: format!(
                "A limit of {:.2} cores for the SSH process of {end} (its control group) limits {}s.",
                quota.cores(),
                self.direction.name()
            ),
            evidence: vec![
                self.measured(),
                format!(
                    "{} may use {time} µs of each {period} µs; it was stopped in {} of {} periods ({})",
                    quota.group,
                    quota.throttled,
                    quota.periods,
                    percent(quota.share())
                ),
                format!("the SSH process of {end} ran {} of the time", percent(ran)),
            ],
            gain: gain_of_core(factor),
            change: vec![higher_quota(end), format!("which the kernel has in {file}")],
            weight: weight_of_factor(factor),
        })
    }

    /// Finds a limit that shows in nothing but this: a process waits for a processor for most of the time,
    /// and processors that it may use have nothing to do, or other programs leave it much more. The files of
    /// its control group are not readable then: a network namespace of `ip netns exec` hides them, as some
    /// containers do.
    fn unseen_quota(&self) -> Option<Finding> {
        let of_end = |end: &EndUsage| {
            let turns = end.turns.filter(|turns| turns.waited >= MOSTLY)?;
            let idle = end.idle.filter(|part| *part >= IDLE).map(Kept::BesideIdle);
            let unfair = || {
                let fair = end.scheduling.fair_share().filter(|_| !end.scheduling.is_low())?;
                let runnable = end.scheduling.runnable?;
                (turns.ran < UNFAIR * fair).then_some(Kept::OfFairShare { fair, runnable })
            };
            Some((turns, idle.or_else(unfair)?))
        };
        let (end, (turns, kept)) = busier(self.flow, of_end, |(turns, _)| turns.waited)?;
        let factor = 1.0 / turns.ran.clamp(0.05, 1.0);
        let (why, weight) = match kept {
            Kept::BesideIdle(idle) => (
                format!(
                    "the processors of {end} had nothing to do for {} of the time: no other program keeps them",
                    percent(idle)
                ),
                "cpu.max, cpu.cfs_quota_us",
            ),
            Kept::OfFairShare { fair, runnable } => (
                format!(
                    "{runnable:.1} threads wanted the processors of {end}, which leaves {} of one to each: other programs alone take less",
                    percent(fair)
                ),
                "cpu.max, cpu.cfs_quota_us; or its weight there, cpu.weight, cpu.shares",
            ),
        };
        Some(Finding {
            cause: "processor_quota",
            title: format!(
                "A limit of processor time for the SSH process of {end}, about {:.2} cores, limits {}s.",
                turns.ran,
                self.direction.name()
            ),
            evidence: vec![
                self.measured(),
                turns_of(end, turns),
                why,
                format!("no files of a control group of this process are readable on {end} (/sys/fs/cgroup)"),
            ],
            gain: gain_of_core(factor),
            change: vec![higher_quota(end), format!("or in the control group of what started it ({weight})")],
            weight: weight_of_factor(factor),
        })
    }

    /// Finds other programs that use the processor.
    fn shared_processor(&self) -> Option<Finding> {
        // If both ends are kept busy, the one that waits longer is the slower one.
        let (end, turns) = self.kept()?;
        if !self.tcp_waits_for(end) {
            return None;
        }
        // The rest of the time it had nothing to do.
        let factor = 1.0 / (1.0 - turns.waited).max(0.05);
        // Programs of the same priority leave more to each.
        let may_be_limit = turns.ran < RARELY && turns.waited >= MOSTLY;
        let limit = may_be_limit.then(|| {
            format!("so little is rarely left by programs alone: a control group may limit it, whose files show that to root on {end}")
        });
        let own = if end == "the server" { self.flow.server.scheduling } else { self.flow.client.scheduling };
        if own.is_low() {
            return Some(self.low_priority(end, turns, own, factor));
        }
        let pinned = own.processors.filter(|(permitted, all)| permitted < all).map(|(permitted, all)| {
            format!(
                "it may use {permitted} of the {all} processors of {end} only (taskset -pc PID shows which)"
            )
        });
        Some(Finding {
            cause: "processor",
            title: format!(
                "Other programs on {end} keep the processor from the SSH process, which limits {}s.",
                self.direction.name()
            ),
            evidence: [self.measured(), turns_of(end, turns)]
                .into_iter()
                .chain(pinned)
                .chain(limit)
                .collect(),
            gain: format!("about {factor:.1} times, with a core for itself"),
            change: vec![
                format!(
                    "on {end}: see with top what else runs; give it a lower priority (renice -n 10 -p PID)"
                ),
                "or a higher limit for the container or service, if it has one (cpu.max, CPUQuota=)"
                    .to_owned(),
            ],
            weight: weight_of_factor(factor),
        })
    }

    /// The finding of a process with a low priority, which other programs keep from the processor.
    fn low_priority(&self, end: &str, turns: Turns, own: Scheduling, factor: f64) -> Finding {
        let (what, restore) = if own.is_idle_policy {
            ("SCHED_IDLE".to_owned(), "chrt --other -p 0 PID of each")
        } else {
            (format!("nice {}", own.nice), "renice -n 0 -p $(pgrep sshd)")
        };
        let restore = match (end, own.is_idle_policy) {
            ("the server", _) => format!(
                "on the server, as root: {restore} (of all SSH processes), and without Nice= and CPUSchedulingPolicy= in the service (systemctl cat ssh)"
            ),
            _ => "on this machine: start the program without nice and chrt".to_owned(),
        };
        Finding {
            cause: "processor",
            title: format!(
                "The SSH process of {end} runs with low priority ({what}) beside other programs, which limits {}s.",
                self.direction.name()
            ),
            evidence: vec![self.measured(), turns_of(end, turns)],
            gain: format!("about {factor:.1} times, with a core for itself"),
            change: vec![restore],
            weight: weight_of_factor(factor),
        }
    }
}

/// What shows that more than other programs keeps a process from the processors.
enum Kept {
    /// Processors have nothing to do for this part of the time.
    BesideIdle(f64),
    /// The process has much less of a processor than each of these threads would have.
    OfFairShare { fair: f64, runnable: f64 },
}

/// Returns whether other programs keep a process from the processor that it wants.
fn is_kept(turns: &Turns) -> bool {
    turns.wanted() >= BUSY_CORE && turns.waited >= MUCH
}

/// The turns of an end's process, as evidence.
fn turns_of(end: &str, turns: Turns) -> String {
    format!(
        "the SSH process of {end} ran {} of the time, and waited {} of it for its turn",
        percent(turns.ran),
        percent(turns.waited)
    )
}

/// Processor time that the SSH process of an end needs, as a share of a core.
struct Load {
    /// Share of its busiest thread, or of all threads where they are not known one by one.
    share: f64,
    /// Name of that thread, where several take part.
    thread: Option<String>,
    /// Cores of the process.
    all: Option<f64>,
}

impl Load {
    fn of(end: &EndUsage) -> Option<Self> {
        let (threads, all) = (end.threads.as_ref(), end.cpu);
        let of_thread = threads.map(|usage| usage.share).or_else(|| end.turns.map(|turns| turns.ran));
        let thread = threads.filter(|usage| usage.taking_part > 1).map(|usage| usage.busiest.clone());
        Some(Self { share: of_thread.or(all)?, thread, all })
    }

    fn what(&self) -> String {
        match &self.thread {
            Some(name) => format!("SSH's thread {name}"),
            None => "the SSH process".to_owned(),
        }
    }

    fn evidence(&self, end: &str) -> String {
        let together = self.all.filter(|_| self.thread.is_some());
        format!(
            "{} of {end} used {} of a core{}",
            self.what(),
            percent(self.share),
            together.map_or_else(String::new, |cores| format!(", all its threads {cores:.1} cores"))
        )
    }
}

/// The end whose process loads its processor more, of those that are known.
fn busier<T>(
    flow: &Flow,
    known: impl Fn(&EndUsage) -> Option<T>,
    load: impl Fn(&T) -> f64,
) -> Option<(&'static str, T)> {
    flow.ends()
        .into_iter()
        .filter_map(|(end, usage)| Some((end, known(usage)?)))
        .max_by(|(_, a), (_, b)| load(a).total_cmp(&load(b)))
}
