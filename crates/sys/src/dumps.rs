//! Keeps keys in a process's memory out of core files and inaccessible to other processes.
#![expect(unsafe_code, reason = "madvise takes addresses")]

use std::io;

use rustix::mm::{Advice, madvise};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// Forbids core files of this process, and ptrace(2) and `/proc/PID/mem` access by other processes of its
/// user. A program that this process executes is accessible again. Returns the limit on core files that was
/// in force, for [`restore_core_limit`].
///
/// # Errors
/// The kernel refuses.
pub fn forbid() -> io::Result<Option<u64>> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let before = getrlimit(Resource::Core);
    setrlimit(Resource::Core, Rlimit { current: Some(0), ..before })?;
    Ok(before.current)
}

/// Restores the limit on core files that the server was started with, for users' programs, which they may
/// debug.
pub fn restore_core_limit(current: Option<u64>) {
    let limit = getrlimit(Resource::Core);
    // Fails where the hard limit has been lowered in the meantime. Then the lower limit stays.
    let _ = setrlimit(Resource::Core, Rlimit { current, ..limit });
}

/// Excludes from core dumps all memory that this process has written and that belongs to no file: heap and
/// stacks, with every key that has been loaded. Memory allocated later is not covered.
///
/// # Errors
/// There is no `/proc`, or the kernel refuses.
pub fn exclude_written_memory() -> io::Result<()> {
    let maps = crate::proc_file::read("/proc/self/maps")?;
    for (start, end) in maps.lines().filter_map(written) {
        // SAFETY: MADV_DONTDUMP changes no byte and no access right, only the content of a core file. For a
        // range that has been unmapped in the meantime, it fails.
        unsafe { madvise(start as *mut _, end - start, Advice::LinuxDontDump) }?;
    }
    Ok(())
}

/// The range of a line of `/proc/PID/maps`, if its memory is private and writable and belongs to no file.
fn written(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?.as_bytes();
    let inode = words.nth(2)?;
    let ours = rights.get(1) == Some(&b'w') && rights.get(3) == Some(&b'p') && inode == "0";
    let range = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    (ours && range.0 < range.1).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_writable_anonymous_ranges_count() {
        let heap = "55d0c0a2b000-55d0c0a4c000 rw-p 00000000 00:00 0                          [heap]";
        assert_eq!(written(heap), Some((0x55d0_c0a2_b000, 0x55d0_c0a4_c000)));
        assert_eq!(written("7f00-8f00 r--p 00000000 00:00 0"), None);
        assert_eq!(written("7f00-8f00 rw-s 00000000 00:01 77 /memfd:x"), None);
        assert_eq!(written("7f00-8f00 rw-p 00001000 fe:00 1234 /usr/lib/libc.so.6"), None);
        assert_eq!(written("nonsense"), None);
    }

    #[test]
    fn core_limit_is_lowered_and_restored() {
        use rustix::process::dumpable_behavior;
        let before = forbid().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        restore_core_limit(before);
        assert_eq!(getrlimit(Resource::Core).current, before);
    }

    #[test]
    fn written_memory_is_excluded_from_dumps() {
        let secret = vec![7_u8; 1 << 20];
        exclude_written_memory().unwrap();
        let at = secret.as_ptr() as usize;
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        let flags = smaps.lines().find(|line| {
            if let Some((start, end)) = written(line) {
                inside = start <= at && at < end;
            }
            inside && line.starts_with("VmFlags:")
        });
        assert!(flags.unwrap().split_ascii_whitespace().any(|flag| flag == "dd"), "{flags:?}");
    }
}
