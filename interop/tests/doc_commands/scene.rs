//! Runs commands of pages in the worlds that the pages describe.

use std::fmt::Write as _;

use lh_interop::recipe::{RECIPE, Recipe};
use lh_interop::shown::Command;

use crate::pages;

/// Who runs a command.
#[derive(Clone, Copy)]
pub(crate) enum By {
    Me,
    Root,
}

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

/// Our programs and server beside OpenSSH's, as the packages install them: the service listens on port 2222.
const BESIDE: &str = concat!(
    r#"
for name in lhssh lhscp lhsftp lhssh-keygen lhssh-agent lhssh-add lhssh-keyscan longhaul; do
    ln -s /opt/longhaul/$name /usr/bin/
done
ln -s /opt/longhaul/lhsshd /usr/sbin/
mkdir /etc/ssh/lhsshd_config.d
echo 'PrometheusListen 127.0.0.1:9122' >/etc/ssh/lhsshd_config.d/metrics.conf
cat >/etc/ssh/lhsshd_config <<'END'
"#,
    include_str!("../../../packaging/config/lhsshd_config"),
    r#"
END
/usr/sbin/lhsshd -p 2222 -f /etc/ssh/lhsshd_config -o UsePAM=no -E /var/log/service.log
listening 2222
echo '127.0.0.1 host device one two intranet' >>/etc/hosts
account user 2003
cp /world/authorized_keys /home/me/.ssh/authorized_keys
cat >/usr/local/bin/listening <<'END'
#!/bin/sh
exec eventually grep -qi "$(printf :%04X $1) [0-9A-F:]* 0A" /proc/net/tcp /proc/net/tcp6
END
cat >/usr/local/bin/as_me <<'END'
#!/bin/sh
exec setpriv --reuid me --regid me --init-groups env -i HOME=/home/me USER=me LOGNAME=me SHELL=/bin/bash \
    PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games LANG=C.UTF-8 "$@"
END
chmod 755 /usr/local/bin/listening /usr/local/bin/as_me
mkdir /data
chmod 777 /data
cd /home/me
mkdir -p results/raw
printf 'a,b\n1,2\n' >results/run1.csv
head -c 100000 /dev/urandom >results/raw/a.bin
head -c 3000000 /dev/urandom >big.h5
cd /
"#
);

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

/// Begins the lines of the transcript that stand between the outputs.
const MARK: &str = "@@@";

/// Limit of a command, seconds, so that one that hangs is named.
const LIMIT: u32 = 240;

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Returns a shell script that runs a command and prints its status, its output and its messages.
fn step(number: usize, command: &Command, by: By, script: &str) -> String {
    let (shell, home) = match by {
        By::Me => ("as_me", "/home/me"),
        By::Root => ("as_root", "/root"),
    };
    let script = if script.is_empty() { "run" } else { script };
    format!(
        "cat >/tmp/commands <<'END OF SCRIPT'\nset -eu\ncd {home}\ncommand={}\nrun() {{ eval \"$command\"; }}\n\
         fails() {{ if \"$@\"; then echo \"did not fail: $*\" >&2; exit 1; fi; }}\n\
         {script}\nEND OF SCRIPT\n\
         {shell} timeout -k 5 {LIMIT} bash /tmp/commands </dev/null >/tmp/out 2>/tmp/err; echo \"{MARK} {number} $?\"\n\
         cat /tmp/out; echo; echo '{MARK}'; cat /tmp/err; echo\n",
        quoted(&command.text)
    )
}

/// Runs the commands of a scene. Fails with the output of those that do not do what the script demands.
#[track_caller]
pub(crate) fn play(scene: &Scene) {
    let mut steps = String::new();
    let mut names = Vec::new();
    for (page, rows) in scene.commands {
        for &(start, by, script) in *rows {
            for command in pages::commands_that_begin(page, start) {
                steps.push_str(&step(names.len(), &command, by, script));
                names.push(format!("{page}:{}: {}", command.line, command.text));
            }
        }
    }
    let look = format!(
        "as_root() {{ env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \"$@\"; }}\n\
         {steps}echo '{MARK}'\ncat /var/log/service.log >>/var/log/sshd.log\n"
    );
    let setup = format!("{BESIDE}{}\nchown -R me:me /home/me\n", scene.setup);
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let recipe = Recipe { tools: scene.tools, config: HOSTS, setup: leak(setup), look: leak(look), ..RECIPE };
    let Some((seen, log)) = recipe.run_beside() else { return };
    println!("{seen}");
    let mut parts = seen.split(MARK).skip(1);
    let mut wrong = String::new();
    for (number, name) in names.iter().enumerate() {
        let (ran, err) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (status, out) = ran.split_once('\n').unwrap_or_default();
        if status != format!(" {number} 0") {
            let _ = writeln!(wrong, "{name}\nstatus{status}\n{out}{err}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}\n--- server\n{log}");
}
