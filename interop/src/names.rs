//! Our programs under OpenSSH's names, for other people's programs that look for `ssh` on PATH.

use std::path::PathBuf;

use crate::{Lab, our};

impl Lab {
    /// A folder of the lab in which these names (`ssh`, `scp` …) lead to our programs, and the `PATH=…` that has it in front.
    pub fn openssh_names(&self, names: &[&str]) -> (PathBuf, String) {
        let folder = self.path("openssh-names");
        std::fs::create_dir_all(&folder).unwrap();
        for name in names {
            let path = folder.join(name);
            if path.symlink_metadata().is_err() {
                std::os::unix::fs::symlink(our(&format!("lh{name}")), path).unwrap();
            }
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let variable = format!("PATH={}:{path}", folder.display());
        (folder, variable)
    }
}
