//! Processor time of the server's processes for logins.
//!
//! A login costs several processes, most of which end with it. The time of processes that have ended is added
//! to that of their parent (proc(5), `cutime`), and so at last to the process that accepts the connections:
//! its counters before and after some logins tell what these have cost.

use std::time::Duration;

use crate::shell::{SHORT, cpu_with_children_of_stat};
use crate::target::Remote;

/// Prints the ancestors of the shell's parent, the next one first. A general process 1 is left out: its
/// children are those of the whole system.
const ANCESTORS: &str = r#"p=$PPID; while [ "${p:-0}" -gt 0 ]; do
if [ $p = 1 ]; then case $(cat /proc/1/comm) in systemd|init) break;; esac; fi
echo $p; read -r s </proc/$p/stat || break; s=${s##*) }; set -- $s; p=$2; done 2>/dev/null"#;

/// Time limit of a look at the acceptor: that of a command would be most of a quick run.
const LIMIT: Duration = Duration::from_secs(5);

/// The process of the server that accepts connections.
pub(super) struct Acceptor {
    pid: u32,
}

impl Acceptor {
    /// Finds the common ancestor of two connections; `None` where the server's `/proc` does not tell.
    pub(super) fn find(one: &mut Remote, other: &mut Remote) -> Option<Self> {
        let [one, other] = [one, other].map(|remote| ancestors(&remote.script(ANCESTORS, SHORT).text()));
        one.into_iter().find(|pid| other.contains(pid)).map(|pid| Self { pid })
    }

    /// Processor time of the process and of all its children that have ended, seconds; `None` where the
    /// server does not tell.
    pub(super) fn cpu(&self, remote: &mut Remote) -> Option<f64> {
        cpu_with_children_of_stat(&remote.script(&format!("cat /proc/{}/stat", self.pid), LIMIT).text())
    }
}

/// Reads the numbers behind what start-up files of the shell may have printed.
fn ancestors(text: &str) -> Vec<u32> {
    let numbers = text.lines().map(|line| line.trim().parse().ok());
    numbers.skip_while(Option::is_none).map_while(|number| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_of_a_shell_begin_with_its_parent() {
        let done = std::process::Command::new("/bin/sh").args(["-c", ANCESTORS]).output().unwrap();
        assert_eq!(ancestors(&String::from_utf8_lossy(&done.stdout)).first(), Some(&std::process::id()));
        assert_eq!(ancestors("7\n5\nodd\n1\n"), [7, 5]);
        assert_eq!(ancestors("Welcome\n\n7\n5\n"), [7, 5]);
    }
}
