//! Sessions that are resumed over a new connection after their connection breaks (`Resume`, `ResumeGrace`).

mod carried;
mod copies;
mod endings;
mod sessions;

use std::process::{Child, Command, Stdio};

use lh_interop::cuts::{Break, Cuts};
use lh_interop::{Lab, Lhsshd, Ran, me, our};

const MB: u64 = 1 << 20;

/// A server whose sessions wait, and a relay in front of it.
struct Broken {
    lab: Lab,
    server: Lhsshd,
    cuts: Cuts,
}

impl Broken {
    fn new(config: &str, plan: &[(u64, Break)]) -> Self {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, config);
        let cuts = Cuts::to(server.port, plan.to_vec());
        lab.know(cuts.port);
        Self { lab, server, cuts }
    }

    fn args(&self, options: &[&str], command: &str) -> Vec<String> {
        let mut args = self.lab.client_options();
        // Silence is noticed within seconds.
        for option in ["ServerAliveInterval=1", "ServerAliveCountMax=3"].iter().chain(options) {
            args.extend(["-o".to_owned(), (*option).to_owned()]);
        }
        args.extend(["-p".to_owned(), self.cuts.port.to_string(), format!("{}@127.0.0.1", me())]);
        args.push(command.to_owned());
        args
    }

    fn run(&self, options: &[&str], command: &str, stdin: Stdio) -> Ran {
        self.lab.run_with(&our("lhssh"), &self.args(options, command), stdin)
    }

    /// Starts a client with pipes.
    fn start(&self, options: &[&str], command: &str) -> Child {
        Command::new(our("lhssh"))
            .args(self.args(options, command))
            .env("HOME", self.lab.path("home"))
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn resumptions(&self) -> usize {
        self.server.resumptions()
    }

    /// Options of a copy through the relay.
    fn copy_options(&self, options: &[&str]) -> Vec<String> {
        let mut args = self.lab.client_options();
        for option in ["ServerAliveInterval=1", "ServerAliveCountMax=3"].iter().chain(options) {
            args.extend(["-o".to_owned(), (*option).to_owned()]);
        }
        args.extend(["-P".to_owned(), self.cuts.port.to_string()]);
        args
    }

    fn logins(&self) -> usize {
        self.server.log().matches("Accepted publickey for ").count()
    }

    fn remote(&self, name: &str) -> String {
        format!("{}@127.0.0.1:{}", me(), self.lab.arg(name))
    }
}

const PLAN: [(u64, Break); 5] = [
    (MB, Break::Reset),
    (2 * MB + 17, Break::Silence),
    (3 * MB, Break::End),
    (20_000, Break::Reset),
    (MB + 1, Break::Reset),
];
