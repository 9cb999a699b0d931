//! State that all contestants and scenarios share: options, keys, data, and the user of the sessions.

pub(crate) mod groups;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use lh_interop::{Lab, TestUser, find, is_root, make_blob, me};

use crate::args::Options;

/// Host key alias of all servers.
pub(crate) const HOST_ALIAS: &str = "lhbench";

/// Name of a copy of this program that the sessions' user can run.
pub(crate) const FAR_PROGRAM: &str = "lh-bench";

/// Key types with the arguments of `ssh-keygen`. All scenarios except `setup` use the first.
pub(crate) const KEY_KINDS: &[(&str, &str, &str)] = &[
    ("ed25519", "ed25519", "256"),
    ("ecdsa-256", "ecdsa", "256"),
    ("ecdsa-384", "ecdsa", "384"),
    ("ecdsa-521", "ecdsa", "521"),
    ("rsa-1024", "rsa", "1024"),
    ("rsa-2048", "rsa", "2048"),
    ("rsa-3072", "rsa", "3072"),
    ("rsa-4096", "rsa", "4096"),
    ("rsa-8192", "rsa", "8192"),
    ("mldsa44-ed25519", "mldsa44-ed25519", "256"),
];

/// State that scenarios use.
pub(crate) struct Bench {
    pub(crate) options: Options,
    /// Keys and configuration files.
    pub(crate) lab: Lab,
    /// Directory for data: in memory, where the machine has `/dev/shm`.
    data: tempfile::TempDir,
    /// Path of this program, which is also started as a helper.
    pub(crate) me: PathBuf,
    /// Test user without start-up files for the shell, created where root measures. Removed at the end.
    made: Option<TestUser>,
    counter: AtomicUsize,
}

impl Bench {
    pub(crate) fn new(options: Options) -> Result<Self, String> {
        let me = std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let data = tempfile::Builder::new()
            .prefix("longhaul-bench-")
            .tempdir_in(&place)
            .map_err(|error| format!("{}: {error}", place.display()))?;
        // The sessions' user reads and writes here.
        set_mode(data.path(), 0o777)?;
        let mut bench = Self { options, lab: Lab::new(), data, me, made: None, counter: AtomicUsize::new(0) };
        bench.make_keys()?;
        let far = bench.lab.path(FAR_PROGRAM);
        std::fs::copy(&bench.me, &far).map_err(|error| format!("{}: {error}", far.display()))?;
        if is_root() {
            let user = TestUser::new(&bench.lab);
            // Without start-up files the shell costs equally much on every machine.
            for file in [".bashrc", ".profile", ".bash_logout"] {
                remove(&user.home.join(file));
            }
            bench.made = Some(user);
        }
        Ok(bench)
    }

    fn make_keys(&self) -> Result<(), String> {
        let keygen = find("ssh-keygen").unwrap_or_else(|| lh_interop::our("lhssh-keygen"));
        let (mut known, mut authorized) = (String::new(), self.lab.read("authorized_keys"));
        let wanted = if self.options.scenarios.iter().any(|name| name == "setup") && !self.options.smoke {
            KEY_KINDS
        } else {
            &KEY_KINDS[..1]
        };
        for (kind, algorithm, bits) in wanted {
            for role in ["host", "user"] {
                let file = self.lab.path(&format!("{role}_{kind}"));
                if !file.exists() {
                    let make = |keygen: &Path| {
                        let mut command = Command::new(keygen);
                        command
                            .args(["-q", "-t", algorithm, "-b", bits, "-N", "", "-C", kind, "-f"])
                            .arg(&file)
                            .stdin(Stdio::null())
                            .stderr(Stdio::null());
                        command.status().is_ok_and(|done| done.success())
                    };
                    // Longhaul's lhssh-keygen makes keys of types that the system's ssh-keygen does not know.
                    let ours = lh_interop::our("lhssh-keygen");
                    if !make(&keygen) && !make(&ours) {
                        return Err(format!("{}: no key of type {algorithm}", ours.display()));
                    }
                }
                let public = self.lab.read(&format!("{role}_{kind}.pub"));
                match role {
                    "host" => known.push_str(&format!("{HOST_ALIAS} {public}")),
                    _ => authorized.push_str(&public),
                }
            }
        }
        self.lab.write("known_hosts", &known);
        self.lab.write("authorized_keys", &authorized);
        // Servers read it with the rights of the session's user.
        set_mode(&self.lab.path("authorized_keys"), 0o644)
    }

    /// Name of the user of the sessions.
    pub(crate) fn user(&self) -> String {
        self.made.as_ref().map_or_else(me, |user| user.name.clone())
    }

    /// Description of that user for the report.
    pub(crate) fn user_text(&self) -> &'static str {
        match self.made {
            Some(_) => "Sessions run as an ordinary user made for it, with no start-up files for its shell.",
            None => {
                "Sessions run as the user who measures; what that user's shell does at its start is part of every session."
            }
        }
    }

    /// Path for a data file.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.data.path().join(name)
    }

    /// A file of `size` bytes that do not compress.
    pub(crate) fn blob(&self, size: u64) -> Result<PathBuf, String> {
        let path = self.data(&format!("blob-{size}"));
        if !path.exists() {
            make_blob(&path, usize::try_from(size).map_err(|_| "too large")?);
        }
        Ok(path)
    }

    /// An unused path in the lab.
    pub(crate) fn fresh(&self, name: &str) -> PathBuf {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        self.lab.path(&format!("{name}-{number}"))
    }

    /// Sets the environment of a measured program: none of the user's own configuration.
    pub(crate) fn set_environment(&self, command: &mut Command) {
        command
            .current_dir(self.lab.dir())
            .env("HOME", self.lab.path("home"))
            .env_remove("SSH_AUTH_SOCK")
            .env_remove("SSH_ASKPASS")
            .env_remove("LS_COLORS");
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes a file or directory, if it exists.
pub(crate) fn remove(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}
