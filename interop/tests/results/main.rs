//! The results of `longhaul`'s measurements: the members that docs/metrics.md lists, their pages on paper,
//! and paths that another host measures.

mod fleet;
mod printed;
mod schema;

use std::process::{Command, Stdio};

use lh_interop::{Lab, Lhsshd, me, our};
use serde_json::Value;

/// A server, and a directory for the files of each end.
pub(crate) struct Ends {
    pub(crate) lab: Lab,
    pub(crate) server: Lhsshd,
}

impl Ends {
    pub(crate) fn start() -> Self {
        let lab = Lab::new();
        // Its sessions find our programs, and before them what a test puts into `bin`.
        let path = format!("{}:{}:/usr/bin:/bin", lab.arg("bin"), lh_interop::bin_dir().display());
        let server = Lhsshd::start(&lab, &format!("SetEnv PATH={path}\n"));
        for name in ["bin", "here", "there"] {
            std::fs::create_dir(lab.path(name)).unwrap();
        }
        Self { lab, server }
    }

    /// Flags for the connection and the directories.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--local-dir".to_owned(), self.lab.arg("here")];
        flags.extend(["--remote-dir".to_owned(), self.lab.arg("there")]);
        flags.extend(self.lab.client_options());
        flags.extend(["-P".to_owned(), self.server.port_arg()]);
        flags
    }

    /// Runs `longhaul` with these words and the flags; its standard output.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let mut command = Command::new(our("longhaul"));
        command.args(&words[..1]).args(self.flags()).args(&words[1..]);
        let done = command.current_dir(self.lab.dir()).stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert!(!done.stdout.is_empty(), "{words:?}: {err}");
        String::from_utf8(done.stdout).expect("text")
    }

    /// A quick run of `bench`, as JSON.
    pub(crate) fn bench(&self) -> Value {
        let out = self.run(&["bench", "--quick", "--json", &format!("{}@127.0.0.1", me())]);
        serde_json::from_str(&out).expect("JSON")
    }
}
