//! A process that has to read what strangers send, and may do little else.
//!
//! [`confine`] is meant for a fresh copy of a process, before its first byte from the network: another root, ids
//! without rights, no new processes or files, and in the end a filter that lets through the system calls that
//! computing and talking over open descriptors need. What opens or looks at files is answered with `EACCES` (libraries try
//! that here and there); every other call ends the process.

use std::io;
use std::path::PathBuf;

use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::ids::{self, Ids};

/// The signal that ends a process for a forbidden system call.
pub const VIOLATION: i32 = libc::SIGSYS;

/// What happens at a forbidden system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnViolation {
    /// The process ends with [`VIOLATION`].
    Kill,
    /// The kernel's audit log names the call, and it is made. For finding out what a new library needs.
    Report,
}

/// Where to and as whom [`confine`] goes.
#[derive(Debug)]
pub struct Cage {
    /// The new root, and the ids to take. Root alone can change them; everybody else stays who he is.
    pub elsewhere: Option<(PathBuf, Ids)>,
    /// What happens at a forbidden system call.
    pub on_violation: OnViolation,
}

/// Memory that the process may take beyond what it has when it is confined, bytes. A key exchange and a login
/// need about 2 MiB, the buffers of the connection less than 4; this is for mistakes that would let a client
/// fill the host's memory.
const MEMORY: u64 = 32 << 20;

/// Where the kernel does not say how much there is already: more than any build of ours has when it starts.
const MEMORY_IN_USE: u64 = 256 << 20;

/// What counts towards `RLIMIT_DATA` now, bytes: memory that is private and can be written.
fn data_in_use() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(MEMORY_IN_USE, |kib| kib.saturating_mul(1024))
}

/// Goes into the cage, for good. What is open stays open.
///
/// # Errors
/// A wall could not be put up. The caller must end: it has some of the rights it should not have.
pub fn confine(cage: &Cage) -> io::Result<()> {
    let data = data_in_use();
    if let Some((root, ids)) = &cage.elsewhere {
        rustix::process::chdir(root)?;
        rustix::process::chroot(root)?;
        rustix::process::chdir("/")?;
        ids::become_permanently(ids)?;
    }
    // Others with the same ids must not look into this memory, and no core file may hold it.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // Whoever decides for us is gone: so are we.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let limit = |resource, value| {
        rustix::process::setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
    };
    limit(Resource::Fsize, 0)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Nproc, 0)?;
    // poll(2) refuses to wait for more descriptors than this at a time: a connection may be two pipes.
    limit(Resource::Nofile, 2)?;
    limit(Resource::Data, data.saturating_add(MEMORY))?;
    rustix::thread::set_no_new_privs(true)?;
    filter_system_calls(cage.on_violation)
}

/// The last wall alone; holds for the calling thread.
///
/// # Errors
/// The kernel has no such filters, or this kind of machine has no list.
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
    // The strictest answer of all filters counts. The first one still lets the second be installed.
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

/// Calls that libraries try and can do without.
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

/// Calls that are made, with the arguments they must have where that matters.
fn allowed() -> io::Result<Vec<(i64, Vec<SeccompRule>)>> {
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
    // Memory, but none that can be executed and none of files.
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
    // What the standard library and a peer's handshake ask of descriptors that are open.
    let flags = [libc::F_GETFD, libc::F_GETFL];
    let flags = flags.into_iter().map(|each| rule(vec![is(1, each)?])).collect::<io::Result<_>>()?;
    calls.push((libc::SYS_fcntl, flags));
    let quick = rule(vec![is(1, libc::IPPROTO_TCP)?, is(2, libc::TCP_QUICKACK)?])?;
    calls.push((libc::SYS_setsockopt, vec![quick]));
    // Standing in for read and write on sockets: never to an address.
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

    /// The filter is for ever: each call is tried in a process of its own, which is this test binary again.
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
        // What was forbidden and did not end the process must not look like a success.
        crate::background::leave(if fine { 0 } else { 1 });
    }

    #[test]
    fn what_is_not_needed_ends_the_process() {
        for case in ["compute", "open", "stat"] {
            assert_eq!(try_call(case).code(), Some(0), "{case}");
        }
        let forbidden = ["socket", "thread", "exec", "kill", "unlink", "ids", "executable memory", "ptrace"];
        for case in forbidden {
            assert_eq!(try_call(case).signal(), Some(VIOLATION), "{case}");
        }
    }
}
