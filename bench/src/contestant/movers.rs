//! Command lines of programs that transfer data over SSH, here with the system's OpenSSH server.

use std::path::Path;

use super::suites;
use super::task::{Mover, Task, Variation, remote};
use crate::bench::Bench;
use crate::job::{Client, Commands, Program};

/// The client for a task; `None` where the mover does not support it.
pub(super) fn client(
    bench: &Bench,
    which: Mover,
    program: &Path,
    ssh: &Path,
    with: &Variation,
    task: &Task<'_>,
) -> Option<Client> {
    let client = match which {
        Mover::Rsync => rsync(bench, program, &shell(bench, ssh, with), task)?,
        Mover::Lftp => lftp(bench, program, &shell(bench, ssh, with), task)?,
        Mover::Rclone => rclone(bench, program, with, task)?,
        Mover::Mscp => mscp(bench, program, with, task)?,
    };
    // rclone and mscp contain SSH themselves. The others start `ssh`, and rsync also starts itself on the
    // server.
    let is_ssh = matches!(which, Mover::Rclone | Mover::Mscp);
    let commands = if is_ssh { Commands::None } else { Commands::Unknown };
    Some(Client { commands, ..Client::new(client) })
}

/// The command line of `ssh` with its options, as one text.
fn shell(bench: &Bench, ssh: &Path, with: &Variation) -> String {
    let mut words = vec![ssh.display().to_string()];
    words.extend(suites::options(bench, Path::new(ssh), with));
    words.extend(["-p".to_owned(), "{port}".to_owned()]);
    words.join(" ")
}

/// rsync over a suite's `ssh`.
pub(crate) fn rsync_over(
    bench: &Bench,
    program: &Path,
    ssh: &Path,
    with: &Variation,
    task: &Task<'_>,
) -> Option<Client> {
    rsync(bench, program, &shell(bench, ssh, with), task).map(Client::new)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// rsync with whole files, because the target has no data to compare with.
fn rsync(bench: &Bench, program: &Path, shell: &str, task: &Task<'_>) -> Option<Program> {
    // The contents of a directory go into a directory that rsync creates.
    let inside = |path: &Path| format!("{}/", path.display());
    let (flags, from, to) = match task {
        Task::Get(from, to) => ("-W", remote(bench, from), text(to)),
        Task::Put(from, to) => ("-W", text(from), remote(bench, to)),
        Task::GetTree(from, to) => ("-rW", remote(bench, &from.join("")), inside(to)),
        Task::PutTree(from, to) => ("-rW", inside(from), remote(bench, to)),
        _ => return None,
    };
    Some(Program::new(program, [flags.to_owned(), "-e".to_owned(), shell.to_owned(), from, to]))
}

fn lftp(bench: &Bench, program: &Path, shell: &str, task: &Task<'_>) -> Option<Program> {
    let job = match task {
        Task::Get(from, to) => format!("get {} -o {}", text(from), text(to)),
        Task::Put(from, to) => format!("put {} -o {}", text(from), text(to)),
        Task::GetTree(from, to) => format!("mirror --no-perms {} {}", text(from), text(to)),
        Task::PutTree(from, to) => format!("mirror -R --no-perms {} {}", text(from), text(to)),
        _ => return None,
    };
    let script = format!(
        "set cmd:fail-exit yes; set net:max-retries 1; set sftp:connect-program \"{shell} -a -x\"; \
         open -u {},x sftp://{{address}}:{{port}}; {job}",
        bench.user()
    );
    Some(Program::new(program, ["--norc".to_owned(), "-c".to_owned(), script]))
}

/// rclone uses Go's own SSH, so it takes part only with its preferred suite, AES-128-GCM.
fn rclone(bench: &Bench, program: &Path, with: &Variation, task: &Task<'_>) -> Option<Program> {
    if with.suite.is_some_and(|suite| suite.cipher.name != "aes128-gcm@openssh.com") {
        return None;
    }
    let there = |path: &Path| format!("b:{}", path.display());
    let (verb, from, to) = match task {
        Task::Get(from, to) => ("copyto", there(from), text(to)),
        Task::Put(from, to) => ("copyto", text(from), there(to)),
        Task::GetTree(from, to) => ("copy", there(from), text(to)),
        Task::PutTree(from, to) => ("copy", text(from), there(to)),
        _ => return None,
    };
    let mut program = Program::new(program, ["--config", "", "--ignore-checksum", verb, &from, &to]);
    program.env = [
        ("TYPE", "sftp"),
        ("HOST", "{address}"),
        ("PORT", "{port}"),
        ("USER", &bench.user()),
        ("KEY_FILE", &bench.lab.arg(&format!("user_{}", with.user_key()))),
        ("SHELL_TYPE", "none"),
        ("DISABLE_HASHCHECK", "true"),
    ]
    .map(|(name, value)| (format!("RCLONE_CONFIG_B_{name}"), value.to_owned()))
    .to_vec();
    Some(program)
}

/// mscp with its default number of parallel connections.
fn mscp(bench: &Bench, program: &Path, with: &Variation, task: &Task<'_>) -> Option<Program> {
    let (from, to) = match task {
        Task::Get(from, to) | Task::GetTree(from, to) => (remote(bench, from), text(to)),
        Task::Put(from, to) | Task::PutTree(from, to) => (text(from), remote(bench, to)),
        _ => return None,
    };
    bench.lab.write(
        "mscp.conf",
        "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  GlobalKnownHostsFile /dev/null\n",
    );
    let mut args = vec!["-q".to_owned(), "-F".to_owned(), bench.lab.arg("mscp.conf")];
    args.extend(["-i".to_owned(), bench.lab.arg(&format!("user_{}", with.user_key()))]);
    args.extend(["-P".to_owned(), "{port}".to_owned()]);
    if let Some(suite) = &with.suite {
        args.extend(["-c".to_owned(), suite.cipher.name.to_owned()]);
        if let Some(mac) = suite.mac {
            args.extend(["-M".to_owned(), mac.name.to_owned()]);
        }
    }
    args.extend([from, to]);
    Some(Program::new(program, args))
}
