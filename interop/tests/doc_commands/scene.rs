//! Runs commands of pages in the worlds that the pages describe.

use std::fmt::Write as _;

use lh_interop::page_machine::{By, PROGRAMS, SERVICE, Transcript};
use lh_interop::recipe::{RECIPE, Recipe};
use lh_interop::shown::Command;

use crate::pages;

/// The beginning of a command, who runs it, and how.
///
/// The script is for Bash with `set -eu`. In it `run` runs the command as the page shows it, `$command` is
/// its text, and `fails COMMAND` demands that another one fails. An empty script runs the command alone.
/// Directories and variables are those of a new login.
pub(crate) type Row = (&'static str, By, &'static str);

/// A world, and the commands that run in it, in this order.
pub(crate) struct Scene {
    /// Programs that the commands need besides ours.
    pub(crate) tools: &'static [&'static str],
    /// Runs before the servers start; see [`Recipe::setup`].
    pub(crate) setup: &'static str,
    /// Pages with their commands.
    pub(crate) commands: &'static [(&'static str, &'static [Row])],
}

/// Counters of the service.
const METRICS: &str = "
mkdir -p /etc/ssh/lhsshd_config.d
echo 'PrometheusListen 127.0.0.1:9122' >/etc/ssh/lhsshd_config.d/metrics.conf
";

/// Accounts, names and files beside the service, which listens on port 2222 beside OpenSSH's server.
const BESIDE: &str = r#"
echo '127.0.0.1 host device one two intranet' >>/etc/hosts
account user 2003
cp /world/authorized_keys /home/me/.ssh/authorized_keys
cat >/usr/local/bin/listening <<'END'
#!/bin/sh
exec eventually grep -qi "$(printf :%04X $1) [0-9A-F:]* 0A" /proc/net/tcp /proc/net/tcp6
END
chmod 755 /usr/local/bin/listening
mkdir /data
chmod 777 /data
cd /home/me
mkdir -p results/raw
printf 'a,b\n1,2\n' >results/run1.csv
head -c 100000 /dev/urandom >results/raw/a.bin
head -c 3000000 /dev/urandom >big.h5
cd /
"#;

/// Hosts of the user `me`: `device` and `two` are servers of their own, the others the service.
const HOSTS: &str = "\
Host device
  Port 2200
Host two
  Port 2202
Match host one,host,server,localhost exec true
  Port 2222
Host *
  StrictHostKeyChecking accept-new
";

/// Limit of a command, seconds, so that one that hangs is named.
const LIMIT: u32 = 240;

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Returns the script of a step that runs a command as its row says.
fn script_of(command: &Command, script: &str) -> String {
    let script = if script.is_empty() { "run" } else { script };
    format!(
        "set -eu\ncommand={}\nrun() {{ eval \"$command\"; }}\n\
         fails() {{ if \"$@\"; then echo \"did not fail: $*\" >&2; exit 1; fi; }}\n{script}",
        quoted(&command.text)
    )
}

/// Runs the commands of a scene. Fails with the output of those that do not do what the script demands.
#[track_caller]
pub(crate) fn play(scene: &Scene) {
    let mut steps = Transcript::default();
    let mut names = Vec::new();
    let shell = format!("timeout -k 5 {LIMIT} bash");
    for (page, rows) in scene.commands {
        for &(start, by, script) in *rows {
            for command in pages::commands_that_begin(page, start) {
                steps.add(by, &shell, &script_of(&command, script));
                names.push(format!("{page}:{}: {}", command.line, command.text));
            }
        }
    }
    let look = format!("{}cat /var/log/service.log >>/var/log/sshd.log\n", steps.commands());
    let setup = format!("{METRICS}{PROGRAMS}{SERVICE}{BESIDE}{}\nchown -R me:me /home/me\n", scene.setup);
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let recipe = Recipe { tools: scene.tools, config: HOSTS, setup: leak(setup), look: leak(look), ..RECIPE };
    let Some((seen, log)) = recipe.run_beside() else { return };
    println!("{seen}");
    let mut wrong = String::new();
    for (name, step) in names.iter().zip(steps.read(&seen)).filter(|(_, step)| step.status != "0") {
        let _ = writeln!(wrong, "{name}\nstatus {}\n{}{}", step.status, step.out, step.err);
    }
    assert!(wrong.is_empty(), "{wrong}\n--- server\n{log}");
}
