//! Paths of programs: Longhaul's own and those of peers.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Directory of Longhaul's own binaries: `LH_BIN_DIR`, or cargo's directory for this test's profile.
pub fn bin_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("LH_BIN_DIR") {
        return PathBuf::from(dir);
    }
    // target/<profile>/deps/<test> → target/<profile>
    let exe = std::env::current_exe().unwrap_or_default();
    exe.ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default()
}

/// Returns the path of one of Longhaul's own programs.
///
/// # Panics
/// If the program is not built; the message names the command that builds it.
pub fn our(name: &str) -> PathBuf {
    let path = bin_dir().join(name);
    assert!(
        path.is_file(),
        "{} is not built: run `cargo xtask test`, or `cargo build --workspace --bins` first",
        path.display()
    );
    path
}

/// Returns a command that runs a program with the default actions of the signals that end programs. Under
/// nohup(1), and in the background of a shell, the tests inherit some of them as ignored, and programs keep
/// that. `env` executes the program in its own process, so the process id is the program's.
pub fn with_default_signals(program: &Path) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=TERM,INT,HUP,QUIT").arg(program);
    command
}
