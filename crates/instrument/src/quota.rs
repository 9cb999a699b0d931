//! Limits that a control group sets to the processor time of an SSH process, and how often it was stopped for
//! them.
//!
//! Both versions of control groups are read with a script of `sh`, at either end: the shell's parent is the
//! SSH process. A group's own limit and those of the groups around it count (cgroups(7), `cpu.stat`).

use std::collections::HashMap;

/// A function `G` of `sh` that prints the directory of all groups. In a namespace of `ip netns exec`, whose
/// `/sys` has none, root sees those of the process around it.
pub(crate) const ROOT: &str = r#"G() { s=/sys/fs/cgroup; q=$PPID; while set -- $s/*; [ ! -e "$1" ]; do
q=$(sed -n "s/^PPid:[^0-9]*//p" /proc/$q/status); [ "${q:-0}" -gt 0 ] || break; s=/proc/$q/root/sys/fs/cgroup; done 2>/dev/null; echo $s; }"#;

/// A function `c` of `sh` that prints a line for each group of the shell's parent with a limit, innermost
/// first: `PATH|LIMIT|COUNTERS`, with a semicolon in place of each end of line. `LIMIT` is `cpu.max`, or the
/// two files of version 1; `COUNTERS` are the words of `cpu.stat`. Needs [`ROOT`].
pub(crate) const FUNCTION: &str = r#"c() { s=$(G); while IFS=: read -r i n p; do r=$s
case ",$n," in ,,) [ -d $r/unified ] && r=$r/unified;; *,cpu,*) [ -d "$r/$n" ] && r=$r/$n || r=$r/cpu;; *) continue;; esac
p=${p%/}; while :; do f=$r$p; if [ -r "$f/cpu.stat" ]; then
l=$(cat "$f/cpu.max" 2>/dev/null || cat "$f/cpu.cfs_quota_us" "$f/cpu.cfs_period_us" 2>/dev/null)
echo "$f|"$l"|"$(cat "$f/cpu.stat"); fi; [ -n "$p" ] || break; p=${p%/*}; done
done 2>/dev/null </proc/$PPID/cgroup | tr "\n" ";"; }"#;

/// A limit, and what it cost in a span of time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quota {
    /// Directory of the group.
    pub(crate) group: String,
    /// The group is one of version 2 of control groups.
    pub(crate) is_version_2: bool,
    /// Processor time that the group may use in each period, and the period, microseconds.
    pub(crate) limit: [u64; 2],
    /// Periods in which the group ran, and those of them in which it was stopped.
    pub(crate) periods: u64,
    pub(crate) throttled: u64,
    /// Time for which it was stopped, added up over the processors, seconds.
    pub(crate) seconds: f64,
}

impl Quota {
    /// Cores that the group may use.
    pub(crate) fn cores(&self) -> f64 {
        let [time, period] = self.limit;
        time as f64 / period.max(1) as f64
    }

    /// Part of the periods in which the group was stopped.
    pub(crate) fn share(&self) -> f64 {
        self.throttled as f64 / self.periods.max(1) as f64
    }
}

/// Counters of groups with a limit, by their directory.
pub(crate) type Groups = HashMap<String, Quota>;

/// Reads what the script has printed. Groups without a limit, and what is not understood, are left out.
pub(crate) fn groups(text: &str) -> Groups {
    text.split(';').filter_map(group).map(|quota| (quota.group.clone(), quota)).collect()
}

fn group(line: &str) -> Option<Quota> {
    let mut parts = line.split('|');
    let (group, limit, counters) = (parts.next()?, parts.next()?, parts.next()?);
    // `max` and -1 are no limit.
    let mut limit = limit.split_whitespace().map(|word| word.parse::<u64>().ok());
    let limit = [limit.next()??, limit.next()??];
    let words: Vec<&str> = counters.split_whitespace().collect();
    let value = |name: &str| {
        let at = words.iter().step_by(2).position(|word| *word == name)?;
        words.get(2 * at + 1)?.parse::<u64>().ok()
    };
    // Version 1 counts nanoseconds.
    let of_version_2 = value("throttled_usec");
    let micros = of_version_2.or_else(|| value("throttled_time").map(|nanos| nanos / 1000))?;
    let group = lh_client::sanitise(outside(group));
    let (periods, throttled) = (value("nr_periods")?, value("nr_throttled")?);
    let (is_version_2, seconds) = (of_version_2.is_some(), micros as f64 / 1e6);
    Some(Quota { group, is_version_2, limit, periods, throttled, seconds })
}

/// Returns the directory of a group as it is called outside of the namespace that hides it.
pub(crate) fn outside(group: &str) -> &str {
    let seen =
        group.strip_prefix("/proc/").and_then(|rest| rest.split_once("/root/sys/")).map(|(_, path)| path);
    seen.and_then(|path| group.get(group.len() - path.len() - "/sys/".len()..)).unwrap_or(group)
}

/// The limit that stopped the process longest between two looks.
pub(crate) fn between(before: &Groups, after: &Groups) -> Option<Quota> {
    let grown = after.values().filter_map(|now| {
        let then = before.get(&now.group)?;
        Some(Quota {
            periods: now.periods.checked_sub(then.periods)?,
            throttled: now.throttled.checked_sub(then.throttled)?,
            seconds: (now.seconds - then.seconds).max(0.0),
            ..now.clone()
        })
    });
    grown.filter(|quota| quota.throttled > 0).max_by(|a, b| a.seconds.total_cmp(&b.seconds))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn both_versions_of_control_groups_are_read() {
        let before = groups(
            "/sys/fs/cgroup/a/b|max 100000|usage_usec 5 nr_periods 0 nr_throttled 0 throttled_usec 0;\
             /sys/fs/cgroup/a|20000 100000|usage_usec 5 user_usec 3 nr_periods 10 nr_throttled 4 throttled_usec 70000;\
             /sys/fs/cgroup||usage_usec 7;",
        );
        assert_eq!(before.len(), 1, "{before:?}");
        let after = groups(
            "/sys/fs/cgroup/a|20000 100000|usage_usec 9 nr_periods 50 nr_throttled 42 throttled_usec 3070000;",
        );
        let got = between(&before, &after).unwrap();
        assert_eq!((got.periods, got.throttled, got.seconds), (40, 38, 3.0), "{got:?}");
        assert_eq!((got.cores(), got.share(), got.is_version_2), (0.2, 0.95, true), "{got:?}");

        let line = |stopped: u64, nanos: u64| {
            format!(
                "/sys/fs/cgroup/cpu,cpuacct/x|15000 100000|nr_periods 99 nr_throttled {stopped} throttled_time {nanos};\
                 /sys/fs/cgroup/cpu,cpuacct|-1 100000|nr_periods 0 nr_throttled 0 throttled_time 0;"
            )
        };
        let got = between(&groups(&line(7, 0)), &groups(&line(9, 500_000_000))).unwrap();
        assert_eq!((got.cores(), got.seconds, got.is_version_2), (0.15, 0.5, false), "{got:?}");
        // Below the directory of a process around a namespace it is the same one.
        let seen = "/proc/42/root/sys/fs/cgroup/a|20000 100000|nr_periods 1 nr_throttled 1 throttled_usec 7;";
        assert!(groups(seen).contains_key("/sys/fs/cgroup/a"));
        // It was not stopped meanwhile; it is another group; nothing is understood.
        assert_eq!(between(&after, &after), None);
        assert_eq!(between(&Groups::new(), &after), None);
        assert!(groups("a;b|c;|1 2|nr_periods;;").is_empty());
    }

    #[test]
    fn groups_that_a_namespace_hides_are_those_around_it() {
        let directory = tempfile::tempdir().unwrap();
        let [empty, first] = ["empty", "first"].map(|name| directory.path().join(name));
        std::fs::create_dir(&empty).unwrap();
        let root = first.join(empty.strip_prefix("/").unwrap());
        let service = root.join("system.slice/ssh.service");
        std::fs::create_dir_all(&service).unwrap();
        std::fs::write(service.join("cpu.max"), "20000 100000\n").unwrap();
        std::fs::write(service.join("cpu.stat"), "nr_periods 50\nnr_throttled 42\nthrottled_usec 7\n")
            .unwrap();
        let of_process = directory.path().join("cgroup");
        std::fs::write(&of_process, "0::/system.slice/ssh.service\n").unwrap();
        let function = format!("{ROOT}\n{FUNCTION}")
            .replace("/proc/$q/root", &first.display().to_string())
            .replace("/sys/fs/cgroup", &empty.display().to_string())
            .replace("/proc/$PPID/cgroup", &of_process.display().to_string());
        let done = Command::new("/bin/sh").args(["-c", &format!("{function}\nc")]).output().unwrap();
        let groups = groups(&String::from_utf8_lossy(&done.stdout));
        let [quota] = groups.values().collect::<Vec<_>>()[..] else { panic!("{groups:?}") };
        assert_eq!((quota.group.as_str(), quota.throttled), (&*service.display().to_string(), 42));
    }

    #[test]
    fn function_is_understood_by_the_shell() {
        let script = format!("{ROOT}\n{FUNCTION}\nc; echo done");
        let done = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(out.trim_end().ends_with("done") && err.is_empty(), "{out}{err}");
    }
}
