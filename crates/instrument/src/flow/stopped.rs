//! Whether the server's SSH process is stopped by signals again and again, or traced (proc(5)).

/// Shell functions: `S` prints until it is ended, after each tenth of a second, in how many of how many looks
/// the parent of this shell was stopped, and the sum of the threads that could run at each; `P` prints what
/// traces it, its number and its name.
///
/// The process of a name with a closing parenthesis is read wrongly only where a blank and `T` follow that.
pub(super) const FUNCTIONS: &str = r#"S() { j=0; k=0; o=0; while sleep 0.1 </dev/null >/dev/null 2>&1 && read -r s </proc/$PPID/stat; do s=${s##*) }; j=$((j+1)); case $s in [Tt]*) k=$((k+1));; esac; read -r x x x s x </proc/loadavg && o=$((o+${s%%/*})); echo "T=$k $j $o"; done 2>/dev/null; }
P() { set -- $(grep ^TracerPid: /proc/$PPID/status 2>/dev/null); [ "${2:-0}" = 0 ] || echo "$2 $(cat /proc/$2/comm 2>/dev/null)"; }"#;

/// Looks for a verdict, and the least of them that found the process stopped.
const LEAST: (u32, u32) = (10, 3);

/// How often a process was found stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// Looks that found it stopped.
    pub(crate) found: u32,
    /// All looks.
    pub(crate) looks: u32,
}

impl Stopped {
    /// Reads what the function `S` prints.
    pub(super) fn of(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace().map_while(|word| word.parse().ok());
        Some(Self { found: words.next()?, looks: words.next()? })
    }

    /// Part of the time for which it was stopped, where there are looks enough.
    pub(crate) fn part(self) -> Option<f64> {
        let (looks, found) = LEAST;
        let is_enough = self.looks >= looks && self.found >= found && self.found <= self.looks;
        is_enough.then(|| f64::from(self.found) / f64::from(self.looks))
    }
}

/// A process that traces another (ptrace(2)): each system call may stop that one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tracer {
    pub(crate) process: u32,
    /// Empty where the system does not tell.
    pub(crate) name: String,
}

impl Tracer {
    /// Reads what the function `P` prints.
    pub(super) fn of(text: &str) -> Option<Self> {
        let (process, name) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let name = lh_client::sanitise(name.trim());
        Some(Self { process: process.parse().ok().filter(|process| *process > 0)?, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_looks_tell_nothing() {
        let part = |text: &str| Stopped::of(text).and_then(Stopped::part);
        assert_eq!((part("12 24"), part("12 24 70")), (Some(0.5), Some(0.5)));
        assert_eq!((part("2 24"), part("3 9"), part("30 20")), (None, None, None));
        assert_eq!((Stopped::of(""), Stopped::of("1"), Stopped::of("a b")), (None, None, None));
    }

    #[test]
    fn tracer_is_read() {
        let of = |text: &str| Tracer::of(text).map(|tracer| (tracer.process, tracer.name));
        assert_eq!(of("4711 strace"), Some((4711, "strace".to_owned())));
        assert_eq!(of("4711"), Some((4711, String::new())));
        assert_eq!((of(""), of("0"), of("x y")), (None, None, None));
    }
}
