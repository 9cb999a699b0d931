//! SSH clients and servers built on third-party libraries, as scripts and sources below `interop/peers`, and
//! the packages of npm, Maven and crates.io that they need.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Lab, bin_dir, find, skip, skip_unavailable};

/// Returns the path of a script or source file below `interop/peers`, as text for command lines.
pub fn peer_script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name).to_string_lossy().into_owned()
}

/// Directory in which `cargo xtask peers` installs the peers that Debian does not package: below cargo's
/// target directory.
pub fn fetched_peers() -> PathBuf {
    bin_dir().parent().unwrap_or(Path::new("target")).join("peers")
}

/// Returns the directory with npm's packages. Without `package` it reports the skipped test and returns
/// `None`.
pub fn npm_modules(test: &str, package: &str) -> Option<PathBuf> {
    let modules = fetched_peers().join("node_modules");
    if modules.join(package).join("package.json").is_file() {
        return Some(modules);
    }
    skip(test, &format!("npm's {package} is not installed (cargo xtask peers)"));
    None
}

/// Returns the Python with the packages of the Python Package Index that are newer than Debian's. If they are
/// not installed, reports the skipped test and returns `None`.
pub fn newer_python(test: &str) -> Option<PathBuf> {
    let python = fetched_peers().join("python");
    // This file is written when all packages are installed.
    if python.join("packages").is_file() {
        return Some(python.join("bin/python"));
    }
    skip_unavailable(
        test,
        "paramiko and asyncssh of the Python Package Index are not installed (cargo xtask peers)",
    );
    None
}

/// Returns the class path with Maven's packages. If some packages of `peers/java/pom.xml` are not installed,
/// reports the skipped test and returns `None`.
pub fn maven_class_path(test: &str) -> Option<String> {
    let jars = fetched_peers().join("java");
    // This file is written when all packages are installed.
    let installed = std::fs::read_to_string(jars.join("pom.xml"));
    let wanted = std::fs::read_to_string(peer_script("java/pom.xml"));
    if installed.is_ok_and(|installed| wanted.is_ok_and(|wanted| wanted == installed)) {
        return Some(format!("{}/*", jars.display()));
    }
    skip(test, "Maven's packages are not installed (cargo xtask peers)");
    None
}

/// Builds russh's client and server from the crates that cargo has downloaded, and returns the program. If
/// cargo or a crate is missing, reports the skipped test and returns `None`.
///
/// # Panics
/// If the program does not compile.
pub fn russh_peer(test: &str) -> Option<PathBuf> {
    let Some(cargo) = std::env::var_os("CARGO").map(PathBuf::from).or_else(|| find("cargo")) else {
        skip(test, "not installed: cargo");
        return None;
    };
    let target = fetched_peers().join("russh");
    let build = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--offline", "--manifest-path"])
        .arg(peer_script("russh/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&build.stderr);
    if build.status.success() {
        return Some(target.join("debug/lh-russh-peer"));
    }
    assert!(said.contains("offline"), "russh's peer: {said}");
    skip(test, "the crates of russh are not downloaded (cargo xtask peers)");
    None
}

/// Returns variables with which all builds of Go programs share the compiled standard library, which takes
/// two minutes of processor time. `peers` is the directory of fetched peers.
pub fn go_variables(peers: &Path) -> [(&'static str, OsString); 2] {
    [("GOCACHE", peers.join("gocache").into()), ("CGO_ENABLED", "0".into())]
}

/// Builds a Go program from Debian's packages of Go libraries.
///
/// # Panics
/// If the program does not compile.
pub fn build_from_debian_s_go(go: &Path, source: &str, program: &Path) {
    let built = Command::new(go)
        .args(["build", "-o"])
        .arg(program)
        .arg(source)
        .envs(go_variables(&fetched_peers()))
        .envs([("GO111MODULE", "off"), ("GOPATH", "/usr/share/gocode"), ("GOFLAGS", "")])
        .output()
        .expect("go runs");
    assert!(built.status.success(), "{source}: {}", String::from_utf8_lossy(&built.stderr));
}

/// Returns a program of `peers/go_modules`. If it is not built, reports the skipped test and returns `None`.
pub fn go_peer(test: &str, name: &str) -> Option<PathBuf> {
    let program = fetched_peers().join("go_modules").join(name);
    if program.is_file() {
        return Some(program);
    }
    skip_unavailable(test, "the Go programs of interop/peers/go_modules are not built (cargo xtask peers)");
    None
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
        let mut child = command(lab, program, args).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let out = child.stdout.take().unwrap();
        let (port, rest) = port_of(BufReader::new(out), "");
        // Some servers log to standard output, and would block or end if nothing read it.
        std::thread::spawn(move || std::io::copy(&mut { rest }, &mut std::io::sink()));
        Self::new(lab, child, port, log)
    }

    /// Like [`start`](Self::start), for a program that logs its port after the words `before`.
    pub fn start_by_log<S: AsRef<std::ffi::OsStr>>(
        lab: &Lab,
        program: &Path,
        args: &[S],
        before: &str,
    ) -> Self {
        let log = lab.path("foreign-server.log");
        let mut file = std::fs::File::create(&log).unwrap();
        let mut child =
            command(lab, program, args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let err = child.stderr.take().unwrap();
        let (port, rest) = port_of(BufReader::new(err), before);
        std::thread::spawn(move || std::io::copy(&mut { rest }, &mut file));
        Self::new(lab, child, port, log)
    }

    fn new(lab: &Lab, mut child: Child, port: Option<u16>, log: PathBuf) -> Self {
        let Some(port) = port else {
            let _ = child.kill();
            let _ = child.wait();
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            panic!("no port was printed:\n{text}");
        };
        lab.know(port);
        Self { child, port, log }
    }
}

fn command<S: AsRef<std::ffi::OsStr>>(lab: &Lab, program: &Path, args: &[S]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(lab.dir()).env("HOME", lab.path("home")).stdin(Stdio::piped());
    command
}

/// Returns the port after `before` in the first line that contains `before`, and the rest of the output.
fn port_of<R: std::io::Read>(mut out: BufReader<R>, before: &str) -> (Option<u16>, BufReader<R>) {
    let mut line = String::new();
    while out.read_line(&mut line).is_ok_and(|read| read > 0) {
        if let Some((_, port)) = line.split_once(before) {
            return (port.trim().parse().ok(), out);
        }
        line.clear();
    }
    (None, out)
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
