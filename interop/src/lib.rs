//! Shared parts of the interoperability tests: peer programs, servers that run for one test, and data to
//! transfer.
//!
//! Servers listen on loopback ports that the kernel chose, and are stopped by their process id. Peers that
//! cannot request a free port run in inetd mode behind a listener of ours, so that no port is guessed. A test
//! without its peer reports on standard error that it is skipped. With `LH_REQUIRE_PEERS=1` (which `cargo
//! xtask test` sets for root) it fails.

mod agent;
pub mod carrier;
pub mod cuts;
mod data;
mod flights;
mod foreign;
pub mod foreign_setup;
pub mod held_fs;
pub mod kerberos;
mod lab;
pub mod lying;
mod names;
pub mod page_machine;
pub mod pages;
mod pam;
pub mod path;
mod printed;
pub mod process;
mod programs;
mod pty;
pub mod recipe;
mod server;
mod server_setup;
pub mod sharing;
pub mod shown;
pub mod slow_home;
pub mod tunnel;
mod wait;
mod waiting;
mod x11;

pub use agent::Agent;
pub use data::{assert_same_file, assert_same_tree, json_lines, link_directory, make_blob, make_tree};
pub use flights::Flights;
pub use foreign::{
    ForeignServer, build_from_debian_s_go, fetched_peers, go_peer, go_variables, maven_class_path,
    newer_python, npm_modules, peer_script, russh_peer,
};
pub use lab::{Lab, Ran, Shown, TestUser};
pub use lh_testkit::{again_if_closed, dumps, find, peers, skip, skip_unavailable};
pub use pam::PamService;
pub use printed::Printed;
pub use programs::{bin_dir, our, with_default_signals};
pub use pty::Terminal;
pub use server::{Inetd, Lhsshd};
pub use server_setup::{ServerSetup, open_to_all, safe_directory, script, uninterrupted, wait_for_samples};
pub use wait::eventually;
pub use x11::XServer;

use std::path::PathBuf;

/// Returns the SFTP servers to test with: ours, and OpenSSH's if it is installed.
pub fn sftp_servers(test: &str) -> Vec<PathBuf> {
    let theirs = PathBuf::from("/usr/lib/openssh/sftp-server");
    let mut servers = vec![our("lhsftp-server")];
    match theirs.exists() {
        true => servers.push(theirs),
        false => skip(test, "OpenSSH's sftp-server is not installed"),
    }
    servers
}

/// Returns whether our server was built with PAM.
pub fn has_pam(lab: &Lab) -> bool {
    let ask = ["-t", "-f", "none", "-o", "UsePAM yes", "-h", &lab.arg("host_ed25519")];
    !lab.run(&our("lhsshd"), &ask).err.contains("UsePAM")
}

/// Returns whether the tests run as root. Otherwise no test can log in as another user.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// Returns the name of the user that runs the tests.
pub fn me() -> String {
    let out = std::process::Command::new("id").arg("-un").output();
    out.ok().map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default()
}
