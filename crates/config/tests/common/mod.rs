//! Fake environment and home directory for configuration tests.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use lh_config::algorithms::AlgorithmKind;
use lh_config::client::{self, CommandLine, Request, UserFile};
use lh_config::{Account, ClientConfig, CommandFailure, ConfigError, Environment};

/// An environment with prepared answers.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) variables: HashMap<String, String>,
    /// Commands that succeed.
    pub(crate) true_commands: Vec<String>,
    /// Why no command has a status.
    pub(crate) failure: Option<CommandFailure>,
    /// Commands that were run.
    pub(crate) ran: RefCell<Vec<String>>,
    pub(crate) addresses: Vec<IpAddr>,
    /// Names that the resolver knows, and the targets of their aliases.
    pub(crate) names: HashMap<String, String>,
}

impl Environment for World {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }
    fn run(&self, command: &str) -> Result<bool, CommandFailure> {
        self.ran.borrow_mut().push(command.to_owned());
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        Ok(self.true_commands.iter().any(|known| known == command))
    }
    fn sha1(&self, data: &[u8]) -> [u8; 20] {
        // Not SHA-1, but sufficient to distinguish inputs.
        let mut out = [0_u8; 20];
        for (index, byte) in data.iter().enumerate() {
            out[index % 20] = byte.wrapping_add(out[index % 20].rotate_left(3));
        }
        out
    }
    fn home_of(&self, user: &str) -> Option<PathBuf> {
        (user == "bob").then(|| PathBuf::from("/home/bob"))
    }
    fn knows_algorithm(&self, _kind: AlgorithmKind, name: &str, pattern: bool) -> bool {
        !name.contains("bogus") && (pattern || !name.contains('*'))
    }
    fn matching_algorithms(&self, _kind: AlgorithmKind, pattern: &str) -> Vec<&'static str> {
        let fits = |name: &&str| lh_config::pattern::wildcard(name.as_bytes(), pattern.as_bytes());
        ["a-2", "a-3", "c"].into_iter().filter(fits).collect()
    }
    fn canonical_name(&self, name: &str, _family: lh_config::enums::AddressFamily) -> Option<String> {
        self.names.get(name).cloned()
    }
    fn local_addresses(&self) -> Vec<IpAddr> {
        self.addresses.clone()
    }
}

/// A home directory and a loader for it.
pub(crate) struct Home {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) world: World,
}

impl Home {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join(".ssh")).expect("a directory");
        Self { directory, world: World::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file below the home directory, mode 0600.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("mode set");
        path
    }

    pub(crate) fn account(&self) -> Account {
        use std::os::unix::fs::MetadataExt as _;
        let uid = std::fs::metadata(self.directory.path()).expect("exists").uid();
        Account {
            name: "alice".to_owned(),
            uid,
            home: self.directory.path().to_path_buf(),
            host_name: "box.local".to_owned(),
        }
    }

    pub(crate) fn request(&self, host: &str) -> Request {
        Request { system_file: None, ..Request::new(host, self.account()) }
    }

    pub(crate) fn load(&self, request: &Request) -> Result<ClientConfig, ConfigError> {
        client::load(request, &self.world)
    }

    /// Loads a file with this text for `host`.
    pub(crate) fn with_text(&self, host: &str, text: impl AsRef<[u8]>) -> Result<ClientConfig, ConfigError> {
        let path = self.write("given", text);
        self.load(&Request { user_file: UserFile::Named(path), ..self.request(host) })
    }

    /// Loads these `-o` options.
    pub(crate) fn with_options(&self, options: &[&str]) -> Result<ClientConfig, ConfigError> {
        let command_line = options.iter().map(|text| CommandLine::Option((*text).to_owned())).collect();
        self.load(&Request { command_line, user_file: UserFile::None, ..self.request("host") })
    }
}

pub(crate) fn lines(result: Result<impl Sized, ConfigError>, directory: &Path) -> Vec<String> {
    let error = result.err().expect("an error");
    let directory = format!("{}/", directory.display());
    error.lines.iter().map(|line| line.replace(&directory, "")).collect()
}
