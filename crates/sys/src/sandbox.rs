//! Sandbox for a process that parses input from untrusted peers.
//!
//! [`confine`] is meant for a freshly forked process, before its first byte from the network. It changes the
//! root directory, drops to ids without rights, and forbids new processes and files. Finally it installs a
//! filter that permits only the system calls for computing and for reading and writing open descriptors.
//! Calls that open or inspect files fail with `EACCES` (libraries try some of them); every other call ends
//! the process.

use std::io;
use std::path::PathBuf;

use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::ids::{self, Ids};

/// Signal that ends a process after a forbidden system call.
pub const VIOLATION: i32 = libc::SIGSYS;

/// Reaction to a forbidden system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnViolation {
    /// The process ends with [`VIOLATION`].
    Kill,
    /// The kernel's audit log names the call, and the call proceeds. For finding out what a new library
    /// needs.
    Report,
}

/// Settings of [`confine`].
#[derive(Debug)]
pub struct Confinement {
    /// The new root directory and ids. Only root can change them; other users keep theirs.
    pub elsewhere: Option<(PathBuf, Ids)>,
    /// Reaction to a forbidden system call.
    pub on_violation: OnViolation,
}

/// Memory that the process may allocate beyond what it has when it is confined, bytes. A key exchange and a
/// login need about 2 MiB, the buffers of the connection less than 4. The limit stops bugs that would let a
/// client fill the host's memory.
const MEMORY: u64 = 32 << 20;

/// Assumed current memory where the kernel does not report it, bytes: more than any of our builds has at
/// start.
const MEMORY_IN_USE: u64 = 256 << 20;

/// Memory that counts towards `RLIMIT_DATA` now, bytes: private and writable.
fn data_in_use() -> u64 {
    let status = crate::proc_file::read("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(MEMORY_IN_USE, |kib| kib.saturating_mul(1024))
}

/// Confines this process permanently. Open descriptors stay open.
///
/// # Errors
/// A restriction could not be applied. The caller must exit: it still has rights that it must not have.
pub fn confine(confinement: &Confinement) -> io::Result<()> {
    let data = data_in_use();
    if let Some((root, ids)) = &confinement.elsewhere {
        rustix::process::chdir(root)?;
        rustix::process::chroot(root)?;
        rustix::process::chdir("/")?;
        ids::become_permanently(ids)?;
    }
    // Other processes with these ids must not read this memory, and no core file may contain it.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // The monitor decides for this process; without it, the process must end.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let limit = |resource, value| {
        rustix::process::setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
    };
    limit(Resource::Fsize, 0)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Nproc, 0)?;
    // poll(2) refuses more descriptors than this limit in one call, and a connection may have two pipes.
    limit(Resource::Nofile, 2)?;
    limit(Resource::Data, data.saturating_add(MEMORY))?;
    rustix::thread::set_no_new_privs(true)?;
    filter_system_calls(confinement.on_violation)
}

/// Installs the system call filter alone, for the calling thread.
///
/// # Errors
/// The kernel has no such filters, or this architecture has no list of calls.
pub fn filter_system_calls(on_violation: OnViolation) -> io::Result<()> {
    let violation = match on_violation {
        OnViolation::Kill => SeccompAction::KillProcess,
        OnViolation::Report => SeccompAction::Log,
    };
    let (allowed, refused) = (allowed()?, refused());
    let mut rules = allowed;
    rules.extend(refused.iter().map(|&call| (call, Vec::new())));
    let refused = refused.into_iter().map(|call| (call, Vec::new())).collect();
    let denied = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    // The strictest result of all filters applies. The first filter still permits installing the second.
    install(SeccompFilter::new(refused, SeccompAction::Allow, denied, machine()?))?;
    install(SeccompFilter::new(rules.into_iter().collect(), violation, SeccompAction::Allow, machine()?))
}

fn machine() -> io::Result<seccompiler::TargetArch> {
    std::env::consts::ARCH.try_into().map_err(other)
}

fn install(filter: Result<SeccompFilter, seccompiler::BackendError>) -> io::Result<()> {
    let program: BpfProgram = filter.map_err(other)?.try_into().map_err(other)?;
    seccompiler::apply_filter(&program).map_err(other)
}

fn other(problem: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(problem)
}

/// System calls that libraries try and can do without.
fn refused() -> Vec<i64> {
    let mut calls = vec![
        libc::SYS_openat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_faccessat,
        libc::SYS_readlinkat,
        libc::SYS_fstat,
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend([libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink]);
    calls.push(libc::SYS_shmget);
    calls
}

/// Permitted system calls, with constraints on their arguments where those matter.
fn allowed() -> io::Result<Vec<(i64, Vec<SeccompRule>)>> {
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "these have fewer calls"))]
    let mut plain = vec![
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_ppoll,
        libc::SYS_restart_syscall,
        libc::SYS_close,
        libc::SYS_shutdown,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_brk,
        libc::SYS_futex,
        libc::SYS_getrandom,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_gettimeofday,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_getppid,
        libc::SYS_getuid,
        libc::SYS_geteuid,
        libc::SYS_sched_yield,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];
    #[cfg(target_arch = "x86_64")]
    plain.extend([libc::SYS_poll, libc::SYS_time]);
    let mut calls: Vec<_> = plain.into_iter().map(|call| (call, Vec::new())).collect();
    let is = |argument, value: i32| condition(argument, SeccompCmpOp::Eq, value);
    let without = |argument, bits: i32| condition(argument, SeccompCmpOp::MaskedEq(unsigned(bits)), 0);
    let with = |argument, bits: i32| condition(argument, SeccompCmpOp::MaskedEq(unsigned(bits)), bits);
    // Anonymous memory without execute permission.
    calls.push((
        libc::SYS_mmap,
        vec![rule(vec![without(2, libc::PROT_EXEC)?, with(3, libc::MAP_ANONYMOUS)?])?],
    ));
    calls.push((libc::SYS_mprotect, vec![rule(vec![without(2, libc::PROT_EXEC)?])?]));
    let advice = [
        libc::MADV_NORMAL,
        libc::MADV_DONTNEED,
        libc::MADV_FREE,
        libc::MADV_DONTDUMP,
        libc::MADV_WIPEONFORK,
        libc::MADV_HUGEPAGE,
        libc::MADV_NOHUGEPAGE,
    ];
    let advice = advice.into_iter().map(|each| rule(vec![is(2, each)?])).collect::<io::Result<_>>()?;
    calls.push((libc::SYS_madvise, advice));
    // Inspection of open descriptors by the standard library, and options for a peer's handshake.
    let flags = [libc::F_GETFD, libc::F_GETFL];
    let flags = flags.into_iter().map(|each| rule(vec![is(1, each)?])).collect::<io::Result<_>>()?;
    calls.push((libc::SYS_fcntl, flags));
    let quick = rule(vec![is(1, libc::IPPROTO_TCP)?, is(2, libc::TCP_QUICKACK)?])?;
    calls.push((libc::SYS_setsockopt, vec![quick]));
    // Variants of read and write for sockets, without an address.
    for call in [libc::SYS_sendto, libc::SYS_recvfrom] {
        let no_address = SeccompCondition::new(4, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0);
        calls.push((call, vec![rule(vec![no_address.map_err(other)?])?]));
    }
    Ok(calls)
}

fn rule(conditions: Vec<SeccompCondition>) -> io::Result<SeccompRule> {
    SeccompRule::new(conditions).map_err(other)
}

fn condition(argument: u8, compare: SeccompCmpOp, value: i32) -> io::Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, unsigned(value)).map_err(other)
}

/// Flags and option numbers are small and positive.
fn unsigned(value: i32) -> u64 {
    u64::from(value.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    const CASE: &str = "LH_SYS_TEST_SANDBOX";

    /// Runs one case in a process of its own, which is this test binary again, because the filter is
    /// permanent.
    fn try_call(case: &str) -> std::process::ExitStatus {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sandbox::tests::inside", "--nocapture", "--test-threads=1"])
            .env(CASE, case)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap()
    }

    #[test]
    #[expect(unsafe_code, reason = "calls that must not succeed are made by hand")]
    fn inside() {
        let Some(case) = std::env::var_os(CASE) else { return };
        let (reader, writer) = std::io::pipe().unwrap();
        filter_system_calls(OnViolation::Kill).unwrap();
        let fine = match case.to_str().unwrap() {
            "compute" => {
                let memory = vec![7_u8; 8 << 20];
                rustix::io::write(&writer, &memory[..100]).unwrap();
                rustix::io::read(&reader, &mut [0; 200]) == Ok(100)
            }
            "open" => std::fs::File::open("/etc/passwd")
                .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied),
            "stat" => std::fs::metadata("/etc/passwd").is_err(),
            "socket" => std::net::UdpSocket::bind("127.0.0.1:0").is_ok(),
            "thread" => std::thread::Builder::new().spawn(|| ()).is_ok(),
            "exec" => std::process::Command::new("/bin/true").status().is_ok(),
            "kill" => rustix::process::kill_process(rustix::process::getpid(), Signal::USR1).is_ok(),
            "unlink" => std::fs::remove_file("/no/such/file").is_ok(),
            "ids" => ids::become_permanently(&Ids { uid: 0, gid: 0, groups: vec![] }).is_ok(),
            "executable memory" => {
                // SAFETY: a new mapping, which nothing uses.
                let page = unsafe {
                    let prot = libc::PROT_READ | libc::PROT_EXEC;
                    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                    libc::mmap(std::ptr::null_mut(), 4096, prot, flags, -1, 0)
                };
                page != libc::MAP_FAILED
            }
            "ptrace" => {
                // SAFETY: no memory is involved.
                unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == 0 }
            }
            _ => false,
        };
        // A forbidden call that did not end the process must not look like a success.
        crate::background::leave(if fine { 0 } else { 1 });
    }

    #[test]
    fn forbidden_calls_end_the_process() {
        for case in ["compute", "open", "stat"] {
            assert_eq!(try_call(case).code(), Some(0), "{case}");
        }
        let forbidden = ["socket", "thread", "exec", "kill", "unlink", "ids", "executable memory", "ptrace"];
        for case in forbidden {
            assert_eq!(try_call(case).signal(), Some(VIOLATION), "{case}");
        }
    }
}
