//! Processor time of the server's processes for logins.
//!
//! A login costs several processes, most of which end with it. The time of processes that have ended is added to that
//! of their parent (proc(5), `cutime`), and so at last to the process that accepts the connections: its counters
//! before and after some logins tell what these have cost.

use crate::shell::SHORT;
use crate::target::Remote;

/// Prints the ancestors of the shell's parent, the next one first. A general process 1 is left out: its children are
/// those of the whole system.
const ANCESTORS: &str = r#"p=$PPID; while [ "${p:-0}" -gt 0 ]; do
if [ $p = 1 ]; then case $(cat /proc/1/comm) in systemd|init) break;; esac; fi
echo $p; read -r s </proc/$p/stat || break; s=${s##*) }; set -- $s; p=$2; done 2>/dev/null"#;

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

    /// Processor time of the process and of all its children that have ended, seconds.
    pub(super) fn cpu(&self, remote: &mut Remote) -> Option<f64> {
        total_of_stat(&remote.script(&format!("cat /proc/{}/stat", self.pid), SHORT).text())
    }
}

fn ancestors(text: &str) -> Vec<u32> {
    text.lines().map_while(|line| line.trim().parse().ok()).collect()
}

/// The sum of a process's own times and those of its children in a line of `/proc/PID/stat`, seconds.
fn total_of_stat(line: &str) -> Option<f64> {
    /// Unit of the times for programs on Linux (`USER_HZ`), per second.
    const TICKS: f64 = 100.0;
    let (_, rest) = line.rsplit_once(')')?;
    let fields: Vec<f64> =
        rest.split_whitespace().skip(11).take(4).map_while(|word| word.parse().ok()).collect();
    (fields.len() == 4).then(|| fields.iter().sum::<f64>() / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_children_that_have_ended_count() {
        let line = "12 (sshd: a) b) S 1 1 1 0 -1 4194560 1 0 0 0 150 25 1000 25 20 0 1 0 9 0 0";
        assert_eq!(total_of_stat(line), Some(12.0));
        assert_eq!(total_of_stat("12 (x) S 1 1"), None);
    }

    #[test]
    fn ancestors_of_a_shell_begin_with_its_parent() {
        let done = std::process::Command::new("/bin/sh").args(["-c", ANCESTORS]).output().unwrap();
        assert_eq!(ancestors(&String::from_utf8_lossy(&done.stdout)).first(), Some(&std::process::id()));
        assert_eq!(ancestors("7\n5\nodd\n1\n"), [7, 5]);
    }
}
