//! Memory limits of the control groups of an SSH process, and what they cost.

use std::collections::HashMap;

use crate::quota;

/// A function `w` of `sh` that prints the memory groups of the parent process that have a limit, each up to a
/// `;`: directory, limit of all memory and of TCP's buffers, bytes, and counters. Both versions of control
/// groups.
///
/// Linux 6.18 does not count where TCP's buffers are at their limit, so what the network name space drops for
/// lack of memory is printed, too (function `k`; the first two lines are those of `TcpExt`). Needs
/// [`ROOT`](crate::quota::ROOT).
pub(crate) const FUNCTION: &str = r#"k() { { read -r n; read -r v; } </proc/net/netstat; set -- $v
for x in $n; do case $x in PruneCalled|RcvPruned|TCPRcvQDrop) echo "$x $1";; esac; shift; done; }
w() { s=$(G); while IFS=: read -r i n p; do r=$s
case ",$n," in ,,) [ -d $r/unified ] && r=$r/unified;; *,memory,*) r=$r/memory;; *) continue;; esac
p=${p%/}; while :; do f=$r$p
if [ -r "$f/memory.max" ]; then echo "$f|"$(cat "$f/memory.max")"|max|"$(cat "$f/memory.events")" full "$(sed -n "s/^full.*total=//p" "$f/memory.pressure")
elif [ -r "$f/memory.limit_in_bytes" ]; then
l=$(cat "$f/memory.kmem.tcp.limit_in_bytes")
echo "$f|"$(cat "$f/memory.limit_in_bytes")"|$l|max "$(cat "$f/memory.failcnt")" "$(grep "^oom_kill " "$f/memory.oom_control")" tcp "$(cat "$f/memory.kmem.tcp.max_usage_in_bytes")" short "$(cat "$f/memory.kmem.tcp.failcnt")" "$([ ${#l} -gt 15 ] || k)
fi; [ -n "$p" ] || break; p=${p%/*}; done
done 2>/dev/null </proc/$PPID/cgroup | tr "\n" ";"; }"#;

/// Limits from here on are none: version 1 shows the largest number in place of one, bytes.
const NO_LIMIT: u64 = 1 << 60;

/// A group with a limit, and its counters since it was made.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MemoryGroup {
    /// Directory of the group.
    pub(crate) group: String,
    /// Limit of all memory, bytes.
    pub(crate) limit: Option<u64>,
    /// Limit of the buffers of TCP alone (version 1), and the most that they used since the group was made,
    /// bytes.
    pub(crate) tcp_limit: Option<u64>,
    pub(crate) tcp_used: u64,
    /// Times that TCP's buffers were at that limit, or that received data were dropped for lack of memory.
    pub(crate) tcp_short: u64,
    /// Times that memory had to be found because the limit was reached.
    pub(crate) reached: u64,
    /// Processes that the kernel has killed for the limit.
    pub(crate) killed: u64,
    /// Time for which all processes of the group waited for memory (version 2), seconds.
    pub(crate) stalled: f64,
}

impl MemoryGroup {
    /// Returns whether TCP's buffers wanted more than they may use. The most that they used alone may be of
    /// another day, and data may be dropped for a buffer of one connection.
    pub(crate) fn is_tcp_short(&self) -> bool {
        self.tcp_limit.is_some_and(|limit| self.tcp_used >= limit) && self.tcp_short > 0
    }

    /// Returns the difference from `before`, an earlier state of the same group.
    fn since(&self, before: &Self) -> Self {
        Self {
            reached: self.reached.saturating_sub(before.reached),
            killed: self.killed.saturating_sub(before.killed),
            tcp_short: self.tcp_short.saturating_sub(before.tcp_short),
            stalled: (self.stalled - before.stalled).max(0.0),
            ..self.clone()
        }
    }

    /// Effects of the limit, the gravest first; time in milliseconds.
    fn cost(&self) -> (u64, bool, u64, u64) {
        (self.killed, self.is_tcp_short(), (self.stalled * 1e3) as u64, self.reached)
    }
}

/// Groups with a limit, by their directory.
pub(crate) type MemoryGroups = HashMap<String, MemoryGroup>;

/// Reads what the function has printed. Groups without a limit, and what is not understood, are left out.
pub(crate) fn groups(text: &str) -> MemoryGroups {
    text.split(';').filter_map(group).map(|found| (found.group.clone(), found)).collect()
}

fn group(line: &str) -> Option<MemoryGroup> {
    let mut parts = line.split('|');
    let (group, all, tcp, counters) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let limit = |text: &str| text.trim().parse::<u64>().ok().filter(|limit| *limit < NO_LIMIT);
    let (limit, tcp_limit) = (limit(all), limit(tcp));
    limit.or(tcp_limit)?;
    let words: Vec<&str> = counters.split_whitespace().collect();
    let value = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1)?.parse::<u64>().ok()
    };
    Some(MemoryGroup {
        group: lh_client::sanitise(quota::outside(group)),
        limit,
        tcp_limit,
        tcp_used: value("tcp").unwrap_or(0),
        tcp_short: ["short", "PruneCalled", "RcvPruned", "TCPRcvQDrop"].into_iter().filter_map(value).sum(),
        reached: value("max").unwrap_or(0) + value("high").unwrap_or(0),
        killed: value("oom_kill").unwrap_or(0),
        stalled: value("full").unwrap_or(0) as f64 / 1e6,
    })
}

/// The group whose limit cost most between two looks.
pub(crate) fn between(before: &MemoryGroups, after: &MemoryGroups) -> Option<MemoryGroup> {
    let changed = after.values().filter_map(|now| Some(now.since(before.get(&now.group)?)));
    changed.filter(|group| group.cost() != (0, false, 0, 0)).max_by_key(MemoryGroup::cost)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::quota::ROOT;

    #[test]
    fn both_versions_of_memory_groups_are_read() {
        let of_version_2 = |reached: u64, killed: u64, micros: u64| {
            format!(
                "/sys/fs/cgroup/a|6291456|max|low 0 high 3 max {reached} oom 1 oom_kill {killed} full {micros};\
                 /sys/fs/cgroup|max|max|low 0 high 0 max 0 oom 0 oom_kill 0 full 9;"
            )
        };
        let (before, after) =
            (groups(&of_version_2(5, 0, 1_000_000)), groups(&of_version_2(90, 2, 2_500_000)));
        assert_eq!(before.len(), 1, "{before:?}");
        let got = between(&before, &after).unwrap();
        assert_eq!((got.limit, got.reached, got.killed, got.stalled), (Some(6_291_456), 85, 2, 1.5));
        assert_eq!(between(&after, &after), None);
        assert_eq!(between(&MemoryGroups::new(), &after), None);

        let of_version_1 = |used: u64, short: u64| {
            groups(&format!(
                "/sys/fs/cgroup/memory/x|9223372036854771712|65536|max 0 oom_kill 0 tcp {used} short 0 \
                 PruneCalled {short} RcvPruned 0 TCPRcvQDrop 7;"
            ))
        };
        let got = between(&of_version_1(0, 0), &of_version_1(581_632, 40)).unwrap();
        assert!(got.is_tcp_short() && got.limit.is_none(), "{got:?}");
        assert_eq!(between(&of_version_1(0, 0), &of_version_1(60_000, 0)), None);
        // The limit was reached before, and what is dropped without it is a matter of one buffer.
        assert_eq!(between(&of_version_1(60_000, 0), &of_version_1(60_000, 40)), None);
        assert_eq!(between(&of_version_1(581_632, 40), &of_version_1(581_632, 40)), None);
        assert!(groups("a;b|c;|1 2|nr_periods;;").is_empty());
    }

    /// Files of version 2 as Linux 6.1 shows them for a service with `MemoryMax=64M`.
    #[test]
    fn version_2_is_read_from_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let service = directory.path().join("system.slice/ssh.service");
        std::fs::create_dir_all(&service).unwrap();
        let write = |name: &str, text: &str| std::fs::write(service.join(name), text).unwrap();
        write("memory.max", "67108864\n");
        write("memory.events", "low 0\nhigh 0\nmax 1823\noom 3\noom_kill 2\noom_group_kill 0\n");
        let of_some = "some avg10=41.20 avg60=12.85 avg300=3.14 total=4211807\n";
        write(
            "memory.pressure",
            &format!("{of_some}full avg10=38.00 avg60=11.90 avg300=2.90 total=3950112\n"),
        );
        let slice = service.parent().unwrap();
        std::fs::write(slice.join("memory.max"), "max\n").unwrap();
        std::fs::write(slice.join("memory.events"), "low 0\nhigh 0\nmax 0\noom 0\noom_kill 2\n").unwrap();
        let of_process = directory.path().join("cgroup");
        std::fs::write(&of_process, "0::/system.slice/ssh.service\n").unwrap();
        let root = directory.path().display().to_string();
        let function = format!("{ROOT}\n{FUNCTION}")
            .replace("/sys/fs/cgroup", &root)
            .replace("/proc/$PPID/cgroup", &of_process.display().to_string());
        let done = Command::new("/bin/sh").args(["-c", &format!("{function}\nw")]).output().unwrap();
        let groups = groups(&String::from_utf8_lossy(&done.stdout));
        let [group] = groups.values().collect::<Vec<_>>()[..] else { panic!("{groups:?}") };
        assert_eq!(group.group, service.display().to_string());
        assert_eq!((group.limit, group.tcp_limit), (Some(67_108_864), None));
        assert_eq!((group.reached, group.killed, group.stalled), (1823, 2, 3.950_112));
    }

    #[test]
    fn function_is_understood_by_the_shell() {
        let script = format!("{ROOT}\n{FUNCTION}\nw; echo done");
        let done = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(out.trim_end().ends_with("done") && err.is_empty(), "{out}{err}");
    }
}
