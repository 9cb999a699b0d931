//! Our programs under OpenSSH's names, for third-party programs that look for `ssh` on PATH.

use std::path::PathBuf;

use crate::{Lab, our};

impl Lab {
    /// Creates a directory in which these names (`ssh`, `scp` …) are links to our programs. Returns it, and a
    /// `PATH=…` that searches it first.
    pub fn openssh_names(&self, names: &[&str]) -> (PathBuf, String) {
        let directory = self.path("openssh-names");
        std::fs::create_dir_all(&directory).unwrap();
        for name in names {
            let path = directory.join(name);
            if path.symlink_metadata().is_err() {
                std::os::unix::fs::symlink(our(&format!("lh{name}")), path).unwrap();
            }
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let variable = format!("PATH={}:{path}", directory.display());
        (directory, variable)
    }
}
