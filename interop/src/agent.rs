//! Key agents that run for one test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Lab, Ran, our};

/// A running foreground agent: ours, OpenSSH's or another.
pub struct Agent {
    child: Child,
    /// Socket that the agent listens on.
    pub socket: PathBuf,
}

impl Agent {
    /// Starts `lhssh-agent` with these flags.
    pub fn ours(lab: &Lab, name: &str, flags: &[&str]) -> Self {
        Self::start(lab, &our("lhssh-agent"), name, flags, &[])
    }

    /// Starts an agent that accepts ssh-agent's flags, with these variables in its environment.
    pub fn start(lab: &Lab, program: &Path, name: &str, flags: &[&str], env: &[(&str, &str)]) -> Self {
        let socket = lab.path(name);
        let child = Command::new(program)
            .arg("-D")
            .arg("-a")
            .arg(&socket)
            .args(flags)
            .envs(env.iter().copied())
            .env("HOME", lab.path("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut agent = Self { child, socket };
        for _ in 0..6000 {
            if std::os::unix::net::UnixStream::connect(&agent.socket).is_ok() {
                return agent;
            }
            assert!(agent.child.try_wait().unwrap().is_none(), "{} ended at once", program.display());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{} does not listen", program.display());
    }

    /// Process id of the agent.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs a program that uses the agent.
    pub fn run<S: AsRef<std::ffi::OsStr>>(&self, lab: &Lab, program: &Path, args: &[S]) -> Ran {
        self.run_env(lab, &[], program, args)
    }

    /// Like [`run`](Self::run), with additional variables, `NAME=value`.
    pub fn run_env<S: AsRef<std::ffi::OsStr>>(
        &self,
        lab: &Lab,
        env: &[&str],
        program: &Path,
        args: &[S],
    ) -> Ran {
        let mut words = vec![std::ffi::OsString::from(format!("SSH_AUTH_SOCK={}", self.socket.display()))];
        words.extend(env.iter().map(Into::into));
        words.push(program.into());
        words.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        lab.run(Path::new("env"), &words)
    }

    /// Waits up to a minute for the end of an agent that was told to end; true when it ended.
    pub fn ended(&mut self) -> bool {
        (0..6000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            matches!(self.child.try_wait(), Ok(Some(_)))
        })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
