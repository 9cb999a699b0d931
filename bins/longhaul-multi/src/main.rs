//! All programs in one file: the name it is called by chooses the program. Packages install it once, as
//! `longhaul`, with a link for every other name.
//!
//! `longhaul lhscp …` works without links. Helpers that load other people's libraries or run set-uid stay
//! programs of their own.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Name, OpenSSH's name, and what runs.
type Row = (&'static str, &'static str, fn() -> ExitCode);

const PROGRAMS: &[Row] = &[
    ("lhssh", "ssh", lhssh::main),
    ("lhscp", "scp", lhscp::main),
    ("lhsftp", "sftp", lhsftp::main),
    ("lhsftp-server", "sftp-server", lhsftp_server::main),
    ("lhsshd", "sshd", lhsshd::main),
    ("lhssh-keygen", "ssh-keygen", lhssh_keygen::main),
    ("lhssh-agent", "ssh-agent", lhssh_agent::main),
    ("lhssh-add", "ssh-add", lhssh_add::main),
    ("lhssh-keyscan", "ssh-keyscan", lhssh_keyscan::main),
    ("longhaul", "longhaul", longhaul::main),
];

/// Argument 0 of the server's session processes, which execute this file again.
const SESSION: &str = lhsshd::SESSION_NAME;

/// Exit status after a panic, as that of programs that unwind.
const PANICKED: i32 = 101;

fn main() -> ExitCode {
    end_on_panic();
    let mut arguments = std::env::args_os();
    let called = arguments.next().unwrap_or_default();
    if let Some(program) = program(&called) {
        return program();
    }
    match arguments.next() {
        // Programs read their own argument 0: for messages under the name they have, and to start again.
        Some(name) if named(&name).is_some() => run_as(&name, arguments),
        _ => longhaul::main(),
    }
}

/// Lets a panic of any thread end the process, with its message. Packages are built without unwinding, so
/// that nothing catches it; an abort in its place could leave a core file with keys.
fn end_on_panic() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        shown(panic);
        std::process::exit(PANICKED);
    }));
}

/// Returns the program that argument 0 names; `None` for `longhaul` and for unknown names.
fn program(called: &OsStr) -> Option<fn() -> ExitCode> {
    let name = Path::new(called).file_name()?;
    if name == SESSION { Some(lhsshd::main) } else { named(name) }
}

fn named(name: &OsStr) -> Option<fn() -> ExitCode> {
    let row = PROGRAMS.iter().find(|(ours, theirs, _)| name == *ours || name == *theirs)?;
    (row.0 != "longhaul").then_some(row.2)
}

/// Executes this file again under another name. Returns only when that fails.
fn run_as(name: &OsStr, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let error = match std::env::current_exe() {
        Ok(own) => Command::new(own).arg0(name).args(arguments).exec(),
        Err(error) => error,
    };
    eprintln!("longhaul: {}: {error}", name.display());
    ExitCode::from(127)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_row() {
        let tables: Vec<&str> = lh_cli::flags::PROGRAMS.iter().map(|program| program.name).collect();
        let rows: Vec<&str> = PROGRAMS.iter().map(|(ours, ..)| *ours).collect();
        for name in &tables {
            assert!(rows.contains(name), "{name} has no row");
        }
        assert_eq!(tables.len(), rows.len());
    }

    /// The test runs itself in a process of its own, which would end well without the hook.
    #[test]
    fn panic_of_a_thread_ends_the_process() {
        const INSIDE: &str = "LH_TEST_PANICS";
        if std::env::var_os(INSIDE).is_some() {
            end_on_panic();
            let _ = std::thread::spawn(|| panic!("planted")).join();
            std::process::exit(0);
        }
        let own = std::env::current_exe().unwrap();
        let args = ["--exact", "tests::panic_of_a_thread_ends_the_process", "--nocapture"];
        let done = Command::new(own).args(args).env(INSIDE, "1").output().unwrap();
        assert_eq!(done.status.code(), Some(PANICKED));
        assert!(String::from_utf8_lossy(&done.stderr).contains("planted"));
    }

    #[test]
    fn base_name_of_argument_0_chooses() {
        let runs = |called: &str, main: fn() -> ExitCode| {
            program(OsStr::new(called)).is_some_and(|found| std::ptr::fn_addr_eq(found, main))
        };
        assert!(runs("lhssh", lhssh::main) && runs("/usr/bin/ssh", lhssh::main));
        assert!(runs("./scp", lhscp::main) && runs("/usr/sbin/sshd", lhsshd::main));
        assert!(runs("lhsshd-session", lhsshd::main));
        for called in ["longhaul", "/usr/bin/longhaul", "", "lhssh-", "longhaul-multi"] {
            assert!(program(OsStr::new(called)).is_none(), "{called}");
        }
    }
}
