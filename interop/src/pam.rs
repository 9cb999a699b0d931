//! PAM services for one test.

use std::fs;
use std::path::Path;

use crate::{Lab, has_pam, is_root, skip};

/// A file of `/etc/pam.d` for one test, removed when dropped.
pub struct PamService {
    /// The service's name.
    pub name: String,
}

impl PamService {
    /// Adds the service. Skips the test and returns `None` if the server has no PAM or the test is not root.
    pub fn new(test: &str, rules: &str) -> Option<Self> {
        if !is_root() {
            skip(test, "needs root to set up a PAM service");
            return None;
        }
        if !Path::new("/etc/pam.d").is_dir() || !has_pam(&Lab::new()) {
            skip(test, "lhsshd is built without PAM");
            return None;
        }
        let name = format!("lhtest-{test}-{}", std::process::id());
        fs::write(Path::new("/etc/pam.d").join(&name), rules).unwrap();
        Some(Self { name })
    }

    /// Replaces the service's rules.
    pub fn rules(&self, rules: &str) {
        fs::write(Path::new("/etc/pam.d").join(&self.name), rules).unwrap();
    }
}

impl Drop for PamService {
    fn drop(&mut self) {
        let _ = fs::remove_file(Path::new("/etc/pam.d").join(&self.name));
    }
}
