//! Limits that stop an SSH process: memory of a control group, sizes of files; and a server without SFTP.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lh_interop::{Lab, Lhsshd, TestUser, is_root, our, script, skip};

use super::path_setup::{PathSetup, Plan, diagnosis, first, spec};

/// A group of version 1 of control groups with a limit of this file; removed when dropped.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn new(name: &str, file: &str, bytes: u64) -> Result<Self, String> {
        let group = Self(Path::new("/sys/fs/cgroup/memory").join(format!("{name}-{}", std::process::id())));
        std::fs::create_dir(&group.0).map_err(|error| format!("{}: {error}", group.0.display()))?;
        std::fs::write(group.0.join(file), bytes.to_string()).map_err(|error| format!("{file}: {error}"))?;
        Ok(group)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Processes that end leave the group a moment later.
        let end = Instant::now() + Duration::from_secs(10);
        while std::fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A diagnosis of `lhsshd`, which begins with this line of `sh`, from this machine. A group's limit of TCP
/// is that of the process that accepts the connection, so the whole server belongs to the group.
fn examine(before: &str, cause: &str) -> serde_json::Value {
    let lab = Lab::new();
    // Start-up files of the shell are another cause.
    let user = TestUser::new(&lab);
    let keys = user.home.join(".ssh/authorized_keys");
    let program = lab.path("lhsshd-within");
    script(&program, &format!("{before} && exec '{}' \"$@\"", our("lhsshd").display()));
    let config = format!("AuthorizedKeysFile {}\n", keys.display());
    let server = Lhsshd::start_program(&program, &lab, &config, &[]);
    let mut command = Command::new(our("longhaul"));
    command.args(["doctor", "--json", "--local-dir", &lab.arg(".")]);
    command.args(lab.client_options()).args(["-P", &server.port_arg()]);
    diagnosis(command.arg(format!("{}@127.0.0.1", user.name)), cause)
}

/// The line that puts a process into a new group, or `None` where there is none, which is noted.
fn within(test: &str, file: &str, bytes: u64) -> Option<(MemoryGroup, String)> {
    if !is_root() {
        skip(test, "control groups need root");
        return None;
    }
    match MemoryGroup::new("longhaul-doctor", file, bytes) {
        Ok(group) => {
            let line = format!("echo $$ >'{}/cgroup.procs'", group.0.display());
            Some((group, line))
        }
        Err(why) => {
            lh_interop::skip_unavailable(test, &why);
            None
        }
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_memory_limit_of_tcp() {
    let test = "doctor_names_a_memory_limit_of_tcp";
    let Some((group, line)) = within(test, "memory.kmem.tcp.limit_in_bytes", 64 << 10) else { return };
    let diagnosis = examine(&line, "memory_limit");
    let place = group.0.to_string_lossy().into_owned();
    first(&diagnosis, "memory_limit", &["all its TCP connections to 65.5 kB together", &place]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_limit_of_file_sizes_and_a_server_without_sftp() {
    let prefix = ["sh", "-c", "ulimit -f 1024; exec \"$@\"", "sh"];
    let config = "Subsystem other internal-sftp";
    let plan = Plan { spec: spec(40, 20), config, prefix: &prefix, ..Plan::default() };
    let test = "doctor_names_a_limit_of_file_sizes_and_a_server_without_sftp";
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let diagnosis = setup.examine(&[], "file_size_limit");
    first(&diagnosis, "file_size_limit", &["file sizes on the server", "524 kB", "LimitFSIZE"]);
    let limit = diagnosis["measured"]["disk_there"]["full"]["file_limit_bytes"].as_f64();
    assert_eq!(limit, Some(524_288.0), "{diagnosis:#}");
    let all = diagnosis["findings"].as_array().unwrap();
    assert!(all.iter().any(|finding| finding["cause"] == "no_sftp"), "{diagnosis:#}");
}
