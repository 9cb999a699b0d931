//! The programs of a client: ours, or those of another implementation.

use std::path::{Path, PathBuf};

/// A client's programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) name: String,
    pub(super) ssh: PathBuf,
    pub(super) scp: Option<PathBuf>,
    pub(super) sftp: Option<PathBuf>,
    /// Algorithms that it has turned out not to have.
    pub(super) unsupported: Vec<String>,
    /// True for Longhaul's own programs, false for those of another implementation.
    pub(super) is_ours: bool,
}

impl Client {
    /// Finds our own programs, in the directory of the one that runs.
    pub(super) fn ours() -> Option<Self> {
        let directory = std::env::current_exe().ok()?.parent()?.to_path_buf();
        let program = |name: &str| Some(directory.join(name)).filter(|path| path.is_file());
        let ssh = program("lhssh")?;
        Some(Self {
            name: "lhssh".to_owned(),
            ssh,
            scp: program("lhscp"),
            sftp: program("lhsftp"),
            unsupported: Vec::new(),
            is_ours: true,
        })
    }

    /// Describes a peer's programs: `scp` and `sftp` lie beside its `ssh`.
    pub(super) fn peer(name: &str, ssh: &Path) -> Self {
        let beside = |program: &str| {
            let file = ssh.file_name()?.to_str()?;
            let path = ssh.with_file_name(file.replace("ssh", program));
            path.is_file().then_some(path)
        };
        Self {
            name: name.to_owned(),
            ssh: ssh.to_owned(),
            scp: beside("scp"),
            sftp: beside("sftp"),
            unsupported: Vec::new(),
            is_ours: false,
        }
    }

    /// Lists what this client cannot measure, because a program is missing beside its `ssh`.
    pub(super) fn lacking(&self) -> impl Iterator<Item = String> {
        let programs = [
            ("files", "scp", self.scp.is_none()),
            ("wildcards and SFTP sessions", "sftp", self.sftp.is_none()),
        ];
        let lacking = programs.into_iter().filter(|(.., is_missing)| *is_missing);
        lacking.map(|(what, program, _)| format!("{what} of {}: there is no {program} beside it", self.name))
    }
}
