//! The contestants, and the command lines for their tasks.

mod movers;
mod suites;
mod task;

pub(crate) use movers::rsync_over;
pub(crate) use suites::client_options;
pub(crate) use task::{Mover, Task, Variation};

use std::path::{Path, PathBuf};

use lh_interop::{find, is_root};

use crate::bench::Bench;
use crate::job::{Client, Server};
use crate::table::Role;

/// Programs of one contestant.
#[derive(Clone)]
pub(crate) enum Kind {
    /// Longhaul, or a suite with OpenSSH's command lines.
    Suite { ours: bool, ssh: PathBuf, scp: PathBuf, sshd: PathBuf },
    /// dropbear: only with a test user, because it reads `authorized_keys` in the home directory only.
    Dropbear { dbclient: PathBuf, dropbear: PathBuf },
    /// A mover, with the system's OpenSSH.
    Mover { which: Mover, program: PathBuf, ssh: PathBuf, sshd: PathBuf },
}

/// One contestant.
#[derive(Clone)]
pub(crate) struct Contestant {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Version that the program prints.
    pub(crate) version: String,
}

impl Contestant {
    pub(crate) const fn role(&self) -> Role {
        if matches!(self.kind, Kind::Suite { ours: true, .. }) { Role::Ours } else { Role::Peer }
    }

    /// True for complete suites, which take part with every cipher.
    pub(crate) const fn is_suite(&self) -> bool {
        !matches!(self.kind, Kind::Mover { .. }) || self.is_mscp()
    }

    const fn is_mscp(&self) -> bool {
        matches!(self.kind, Kind::Mover { which: Mover::Mscp, .. })
    }

    /// True when the contestant supports the variation. Only Longhaul takes part without encryption, and with
    /// sessions that outlive their connections.
    fn can(&self, with: &Variation) -> bool {
        (with.resume.is_none() || self.role() == Role::Ours)
            && with.suite.is_none_or(|suite| {
                suite.cipher.encrypts() || (self.role() == Role::Ours && suite.is_negotiable())
            })
    }

    /// The server for a variation; `None` where the contestant does not support it.
    pub(crate) fn server(&self, bench: &Bench, with: &Variation) -> Option<Server> {
        if !self.can(with) {
            return None;
        }
        match &self.kind {
            Kind::Suite { ours, sshd, .. } => Some(suites::server(bench, *ours, sshd, with)),
            Kind::Mover { sshd, .. } => Some(suites::server(bench, false, sshd, with)),
            Kind::Dropbear { dropbear, .. } => suites::dropbear_server(bench, dropbear, with),
        }
    }

    /// These clients with OpenSSH's server.
    pub(crate) fn with_stock_server(&self, sshd: PathBuf) -> Option<Self> {
        let Kind::Suite { ssh, scp, .. } = &self.kind else { return None };
        let kind = Kind::Suite { ours: false, ssh: ssh.clone(), scp: scp.clone(), sshd };
        let name = format!("{} to openssh's sshd", self.name);
        Some(Self { name, kind, version: self.version.clone() })
    }

    /// Transfer of a tree through `tar` at both ends of a session; `None` where it is not supported.
    pub(crate) fn tar(&self, bench: &Bench, with: &Variation, task: &Task<'_>) -> Option<Client> {
        match &self.kind {
            Kind::Suite { ssh, .. } if self.can(with) => suites::tar(bench, ssh, with, task),
            _ => None,
        }
    }

    /// `ls PATTERN` of `sftp`, with its output in a file; `None` where it is not supported.
    pub(crate) fn listing(
        &self,
        bench: &Bench,
        with: &Variation,
        pattern: &Path,
        to: &Path,
    ) -> Option<Client> {
        match &self.kind {
            Kind::Suite { scp, .. } if self.can(with) => suites::listing(bench, scp, with, pattern, to),
            _ => None,
        }
    }

    /// The client for a task; `None` where the contestant does not support it.
    pub(crate) fn client(&self, bench: &Bench, with: &Variation, task: &Task<'_>) -> Option<Client> {
        if !self.can(with) {
            return None;
        }
        match &self.kind {
            Kind::Suite { ssh, scp, .. } => Some(suites::client(bench, ssh, scp, with, task)),
            Kind::Dropbear { dbclient, .. } => suites::dropbear_client(bench, dbclient, with, task),
            Kind::Mover { which, program, ssh, .. } => {
                movers::client(bench, *which, program, ssh, with, task)
            }
        }
    }
}

/// The contestants of a run.
pub(crate) struct Contestants {
    /// Ours first, then the peers.
    pub(crate) all: Vec<Contestant>,
}

impl Contestants {
    /// Finds Longhaul and all installed peers that are not excluded.
    ///
    /// # Errors
    /// When a peer that the options name is incomplete.
    pub(crate) fn find(bench: &Bench) -> Result<Self, String> {
        Ok(Self { all: installed(bench)? })
    }

    /// Longhaul.
    pub(crate) fn ours(&self) -> &Contestant {
        &self.all[0]
    }

    /// Our clients with OpenSSH's server, where that is installed, whether or not its clients take part.
    pub(crate) fn ours_with_stock_server(&self) -> Option<Contestant> {
        self.ours().with_stock_server(find("sshd")?)
    }

    /// Names with versions.
    pub(crate) fn versions(&self) -> Vec<(String, String)> {
        self.all.iter().map(|who| (who.name.clone(), who.version.clone())).collect()
    }
}

fn installed(bench: &Bench) -> Result<Vec<Contestant>, String> {
    let bins = lh_interop::bin_dir();
    let mut field =
        vec![suite("longhaul".to_owned(), true, bins.join("lhssh"), bins.join("lhscp"), bins.join("lhsshd"))];
    let wanted = |name: &str| !bench.options.peers.without.iter().any(|other| other == name);
    let given = |name: &str| {
        bench.options.peers.named.iter().find(|(other, _)| other == name).map(|(_, path)| path.clone())
    };
    let system = match (find("ssh"), find("scp"), find("sshd")) {
        (Some(ssh), Some(scp), Some(sshd)) => Some((ssh, scp, sshd)),
        _ => {
            eprintln!(
                "lh-bench: OpenSSH is not installed: no comparison with it nor with what needs its server"
            );
            None
        }
    };
    if let Some((ssh, scp, sshd)) = system.clone().filter(|_| wanted("openssh")) {
        field.push(suite("openssh".to_owned(), false, ssh, scp, sshd));
    }
    for (name, path) in &bench.options.peers.named {
        if !["mscp", "rclone", "lftp", "rsync", "dropbear"].contains(&name.as_str()) {
            field.push(other_suite(name, path)?);
        }
    }
    if bench.options.peers.named.iter().all(|(name, _)| name != "hpn")
        && wanted("hpn")
        && let (Some(ssh), Some(scp), Some(sshd)) = (find("hpnssh"), find("hpnscp"), find("hpnsshd"))
    {
        field.push(suite("hpn".to_owned(), false, ssh, scp, sshd));
    }
    if let Some((ssh, _, sshd)) = system {
        for (name, which, flag) in [
            ("mscp", Mover::Mscp, "-h"),
            ("rsync", Mover::Rsync, "--version"),
            ("rclone", Mover::Rclone, "--version"),
            ("lftp", Mover::Lftp, "--version"),
        ] {
            if let Some(program) = given(name).or_else(|| find(name)).filter(|_| wanted(name)) {
                let version = crate::machine::version(&program, flag);
                let kind = Kind::Mover { which, program, ssh: ssh.clone(), sshd: sshd.clone() };
                field.push(Contestant { name: name.to_owned(), kind, version });
            }
        }
    }
    if wanted("dropbear")
        && is_root()
        && let (Some(dropbear), Some(dbclient)) =
            (given("dropbear").or_else(|| find("dropbear")), find("dbclient"))
        && suites::dropbear_keys(bench)
    {
        let version = crate::machine::version(&dropbear, "-V");
        let kind = Kind::Dropbear { dbclient, dropbear };
        field.push(Contestant { name: "dropbear".to_owned(), kind, version });
    }
    Ok(field)
}

fn suite(name: String, ours: bool, ssh: PathBuf, scp: PathBuf, sshd: PathBuf) -> Contestant {
    let version = crate::machine::version(&ssh, "-V");
    Contestant { name, kind: Kind::Suite { ours, ssh, scp, sshd }, version }
}

/// A suite below a directory given with `--peer`.
fn other_suite(name: &str, directory: &Path) -> Result<Contestant, String> {
    let program = |names: [&str; 2]| {
        let candidates =
            names.iter().flat_map(|name| ["bin", "sbin", ""].map(|dir| directory.join(dir).join(name)));
        // sshd must be started by its full path.
        let found = candidates.into_iter().find(|path| path.is_file()).map(std::fs::canonicalize);
        found.and_then(Result::ok).ok_or_else(|| format!("no {} below {}", names[0], directory.display()))
    };
    let (ssh, scp) = (program(["ssh", "hpnssh"])?, program(["scp", "hpnscp"])?);
    Ok(suite(name.to_owned(), false, ssh, scp, program(["sshd", "hpnsshd"])?))
}
