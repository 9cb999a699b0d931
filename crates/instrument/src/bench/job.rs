//! The tasks that clients are given, and their tables.

use super::child::{Bench, Figure};
use super::client::Client;
use super::keeper::KEPT;
use crate::far_end::ForwardMethod;
use crate::fault::Fault;
use crate::flow::Direction;

/// Task of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    Login,
    Up,
    Down,
    Local,
    Socks,
    Jump,
    /// Through the jump host of the configuration, and to it alone.
    Through,
    ToJumpHost,
    Keystroke,
    FileUp,
    FileDown,
    FilesUp,
    FilesDown,
    List,
    /// In place of [`Login`](Self::Login) where the server runs no commands.
    SftpStart,
}

impl Job {
    const ALL: [Self; 14] = [
        Self::Login,
        Self::Up,
        Self::Down,
        Self::Local,
        Self::Socks,
        Self::Jump,
        Self::Through,
        Self::ToJumpHost,
        Self::Keystroke,
        Self::FileUp,
        Self::FileDown,
        Self::FilesUp,
        Self::FilesDown,
        Self::List,
    ];

    /// The jobs that need no commands at the server.
    pub(super) const OVER_SFTP: [Self; 6] =
        [Self::SftpStart, Self::FileUp, Self::FileDown, Self::FilesUp, Self::FilesDown, Self::List];

    /// Lists the jobs of a server behind a jump host; a server without one is its own jump host.
    pub(super) fn all(has_jump_host: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |job| match job {
            Self::Jump => !has_jump_host,
            Self::Through | Self::ToJumpHost => has_jump_host,
            _ => true,
        })
    }

    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::Login => "clients: login and a command that does nothing",
            Self::Up | Self::Down => "clients: through a pipe",
            Self::Local | Self::Socks | Self::Jump => "clients: through -L, -D and -J to the server itself",
            Self::Through | Self::ToJumpHost => "clients: through the jump host, and to it alone",
            Self::Keystroke => "clients: latency of a keystroke, echoed by a terminal at the server",
            Self::FileUp | Self::FileDown => "clients: one file over SFTP, with the login",
            Self::FilesUp | Self::FilesDown => "clients: 100 files of 4 KiB, with the login",
            Self::List => "clients: wildcard in a directory of 2000 entries, with the login",
            Self::SftpStart => "clients: login and an SFTP session that does nothing",
        }
    }

    /// Name of the client's row.
    pub(super) fn row(self, client: &Client) -> String {
        match self {
            Self::Local => format!("{} -L", client.name),
            Self::Socks => format!("{} -D", client.name),
            Self::Jump | Self::Through => format!("{} -J", client.name),
            Self::ToJumpHost => format!("{} to the jump host", client.name),
            _ => client.name.clone(),
        }
    }

    /// Slices of time that it takes.
    pub(super) const fn slices(self) -> u32 {
        match self {
            Self::Login | Self::SftpStart => 0,
            Self::Keystroke => 3,
            Self::Local | Self::Socks | Self::Jump | Self::Through | Self::ToJumpHost => 2,
            _ => 1,
        }
    }

    /// Returns whether the client has the program for it.
    pub(super) const fn is_possible(self, client: &Client) -> bool {
        match self {
            Self::FileUp | Self::FileDown | Self::FilesUp | Self::FilesDown => client.scp.is_some(),
            Self::List | Self::SftpStart => client.sftp.is_some(),
            _ => true,
        }
    }

    /// Runs it once; without a figure where the client lacks the program.
    ///
    /// # Errors
    /// The client failed: its words.
    pub(super) fn run(self, client: &Client, bench: &Bench<'_>) -> Result<Vec<Figure>, Fault> {
        match (self, client.scp.as_deref(), client.sftp.as_deref()) {
            (Self::FileUp, Some(scp), _) => bench.copy_file(scp, Direction::Up, &[]),
            (Self::FileDown, Some(scp), _) => bench.copy_file(scp, Direction::Down, &[]),
            (Self::FilesUp, Some(scp), _) => {
                let to = bench.remote(&format!("small-{}", client.name));
                bench.copy_files(scp, Direction::Up, &bench.local("small"), &to)
            }
            (Self::FilesDown, Some(scp), _) => {
                let back = bench.local(&format!("back-{}", bench.serial()));
                bench.copy_files(scp, Direction::Down, &bench.remote(KEPT), &back)
            }
            (Self::List, _, Some(sftp)) => bench.list(sftp),
            _ if self.is_possible(client) => self.run_ssh(client, bench),
            _ => Ok(Vec::new()),
        }
    }

    fn run_ssh(self, client: &Client, bench: &Bench<'_>) -> Result<Vec<Figure>, Fault> {
        match self {
            Self::Up => bench.up(&client.ssh, &[]),
            Self::Down => bench.down(&client.ssh, &[]),
            Self::Local => bench.forward(&client.ssh, ForwardMethod::Local),
            Self::Socks => bench.forward(&client.ssh, ForwardMethod::Socks),
            Self::Jump => bench.jump(&client.ssh),
            Self::Through => bench.both_ways(&client.ssh, &[]),
            Self::ToJumpHost => bench.to_jump_host(&client.ssh),
            Self::Keystroke => bench.keystrokes(&client.ssh),
            _ => bench.login(client),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn peer_programs_are_beside_its_ssh() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["ssh", "scp"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let peer = Client::peer("x", &directory.path().join("ssh"));
        assert_eq!((peer.scp.as_deref(), &peer.sftp), (Some(&*directory.path().join("scp")), &None));
        let lacking: Vec<String> = peer.lacking().collect();
        assert_eq!(lacking, ["wildcards and SFTP sessions of x: there is no sftp beside it"]);
        // Without a program a job would take no time, and have round after round.
        assert!(Job::FileUp.is_possible(&peer) && !Job::List.is_possible(&peer));
    }
}
