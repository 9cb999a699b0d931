//! SSH servers built on third-party libraries, as scripts below `interop/peers`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Lab, bin_dir};

/// Returns the path of a script or source file below `interop/peers`, as text for command lines.
pub fn peer_script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name).to_string_lossy().into_owned()
}

/// Directory in which `cargo xtask peers` installs the peers that Debian does not package: below cargo's
/// target directory.
pub fn fetched_peers() -> PathBuf {
    bin_dir().parent().unwrap_or(Path::new("target")).join("peers")
}

/// A server that prints its port on its first line and ends when its standard input closes.
pub struct ForeignServer {
    child: Child,
    /// Port of 127.0.0.1 that the server listens on.
    pub port: u16,
    log: PathBuf,
}

impl ForeignServer {
    /// Starts `program` with these arguments, which must make it use the lab's host keys.
    pub fn start<S: AsRef<std::ffi::OsStr>>(lab: &Lab, program: &Path, args: &[S]) -> Self {
        let log = lab.path("foreign-server.log");
        let stderr = std::fs::File::create(&log).unwrap();
        let mut child = Command::new(program)
            .args(args)
            .current_dir(lab.dir())
            .env("HOME", lab.path("home"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let read = out.read_line(&mut line);
        // Some servers log to standard output, and would end if nothing read it.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        let Ok(port) = line.trim().parse() else {
            let _ = child.kill();
            let _ = child.wait();
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            panic!("{} printed no port ({read:?}, {line:?}):\n{text}", program.display());
        };
        lab.know(port);
        Self { child, port, log }
    }
}

impl Drop for ForeignServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- server log\n{}", std::fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}
