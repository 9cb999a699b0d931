//! The workspace: its directories, and cargo and other commands run in it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What a command of this program ends with; the text is for a person.
pub(crate) type Outcome = Result<(), String>;

/// The directory of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo itself, as it called us.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs a command and turns every way it can fail into a text.
pub(crate) fn call(command: &mut Command) -> Outcome {
    let shown = format!("{command:?}").replace('"', "");
    let status = command.status().map_err(|error| format!("{shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}

/// Shows that what programs need to be built with Kerberos is there.
pub(crate) const KERBEROS_HEADER: &str = "/usr/include/gssapi/gssapi_krb5.h";

/// Flags of cargo for the features whose libraries this machine has: `UsePAM` needs libpam's development files,
/// `GSSAPIAuthentication` MIT's of Kerberos.
pub(crate) fn features() -> Vec<&'static str> {
    [
        ("/usr/include/security/pam_appl.h", "lhsshd/pam"),
        (KERBEROS_HEADER, "lhsshd/gssapi,lhssh/gssapi,lhscp/gssapi,lhsftp/gssapi"),
    ]
    .into_iter()
    .filter(|(header, _)| Path::new(header).exists())
    .flat_map(|(_, features)| ["--features", features])
    .collect()
}

/// Builds the programs as users get them and returns their directory.
pub(crate) fn build_release() -> Result<PathBuf, String> {
    let build = ["build", "--release", "--locked", "--bins", "--workspace", "--exclude", "xtask"];
    call(cargo().args(build).args(features()))?;
    Ok(target_dir().join("release"))
}

/// Returns whether the standard library for a target is installed.
pub(crate) fn has_library(target: &str) -> Result<bool, String> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let printed = rustc.args(["--print", "target-libdir", "--target", target]).output();
    let printed = printed.map_err(|error| format!("rustc: {error}"))?;
    if !printed.status.success() {
        return Err(format!("rustc: {}\n{}", printed.status, String::from_utf8_lossy(&printed.stderr)));
    }
    Ok(Path::new(String::from_utf8_lossy(&printed.stdout).trim()).is_dir())
}

/// Shows a path below the root of the workspace.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
