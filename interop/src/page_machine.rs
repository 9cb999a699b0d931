//! The machine on which tests follow pages: a recipe's world with our programs where the packages put them,
//! and a transcript of what each step prints.

/// Puts the programs where the packages put them, which is not the place of the other programs in a world.
/// Part of [`Recipe::setup`](crate::recipe::Recipe::setup).
pub const PROGRAMS: &str = r#"
for name in lhssh lhscp lhsftp lhssh-keygen lhssh-agent lhssh-add lhssh-keyscan longhaul; do
    ln -s /opt/longhaul/$name /usr/bin/
done
ln -s /opt/longhaul/lhsshd /usr/sbin/
cat >/usr/local/bin/as_me <<'END'
#!/bin/sh
exec setpriv --reuid me --regid me --init-groups env -i HOME=/home/me USER=me LOGNAME=me SHELL=/bin/bash \
    PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games LANG=C.UTF-8 "$@"
END
cat >/usr/local/bin/as_root <<'END'
#!/bin/sh
exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@"
END
chmod 755 /usr/local/bin/as_me /usr/local/bin/as_root
"#;

/// The service of the package `longhaul-server`, on its port. Part of the setup behind [`PROGRAMS`].
pub const SERVICE: &str = concat!(
    "mkdir -p /etc/ssh/lhsshd_config.d\ncat >/etc/ssh/lhsshd_config <<'END'\n",
    include_str!("../../packaging/config/lhsshd_config"),
    "\nEND\n/usr/sbin/lhsshd -p 2222 -f /etc/ssh/lhsshd_config -o UsePAM=no -E /var/log/service.log\n",
    "listening 2222\n"
);

/// Begins the lines of the transcript that stand between the outputs.
const MARK: &str = "@@@";

/// Who runs a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The user `me`, with Debian's `PATH` of ordinary users.
    Me,
    /// Root.
    Root,
}

/// Steps on the machine, one after the other.
#[derive(Debug, Default)]
pub struct Transcript {
    commands: String,
    steps: usize,
}

/// What a step has printed.
#[derive(Debug)]
pub struct Step<'a> {
    /// Exit status, as text; empty where the step was not reached.
    pub status: &'a str,
    /// Its standard output.
    pub out: &'a str,
    /// Its standard error.
    pub err: &'a str,
}

impl Transcript {
    /// Adds a step: `shell` runs a script in the home directory, with the variables of a new login.
    pub fn add(&mut self, by: By, shell: &str, script: &str) {
        let (login, home) = match by {
            By::Me => ("as_me", "/home/me"),
            By::Root => ("as_root", "/root"),
        };
        let number = self.steps;
        self.steps += 1;
        self.commands.push_str(&format!(
            "cat >/tmp/commands <<'END OF STEP'\ncd {home}\n{script}\nEND OF STEP\n\
             {login} {shell} /tmp/commands </dev/null >/tmp/out 2>/tmp/err; echo \"{MARK} {number} $?\"\n\
             cat /tmp/out; echo; echo '{MARK}'; cat /tmp/err; echo\n"
        ));
    }

    /// Returns the commands that run the steps and print the transcript, for
    /// [`Recipe::look`](crate::recipe::Recipe::look).
    pub fn commands(&self) -> String {
        format!("{}echo '{MARK}'\n", self.commands)
    }

    /// Returns what each step has printed, by the transcript.
    pub fn read<'a>(&self, transcript: &'a str) -> Vec<Step<'a>> {
        let mut parts = transcript.split(MARK).skip(1);
        let step = |number| {
            let (ran, err) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let (status, out) = ran.split_once('\n').unwrap_or_default();
            Step { status: status.strip_prefix(&format!(" {number} ")).unwrap_or_default(), out, err }
        };
        (0..self.steps).map(step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_were_not_reached_have_no_status() {
        let mut transcript = Transcript::default();
        (0..3).for_each(|_| transcript.add(By::Me, "sh", "true"));
        let steps = transcript.read("x\n@@@ 0 0\nout\n\n@@@\nerr\n\n@@@ 1 7\n\n@@@\n");
        let seen: Vec<_> = steps.iter().map(|step| (step.status, step.out.trim(), step.err.trim())).collect();
        assert_eq!(seen, [("0", "out", "err"), ("7", "", ""), ("", "", "")]);
    }
}
