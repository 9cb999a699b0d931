//! The process title: what `ps` and `top` show in place of the command line.
#![expect(unsafe_code, reason = "the kernel reads the title from the memory of the arguments")]

use std::ffi::CString;
use std::ops::Range;
use std::sync::Mutex;

/// Memory of the process's arguments. `None` until [`prepare`] has found it.
static ARGUMENTS: Mutex<Option<Range<usize>>> = Mutex::new(None);

/// Names the process (`ps -o comm`, at most 15 bytes), and finds the memory for [`set`]. To be called by the
/// main thread, before the process changes its root directory, because it reads `/proc`. Without `/proc`,
/// [`set`] has no effect.
pub fn prepare(name: &str) {
    if let Ok(name) = CString::new(name) {
        // Ignored: the name is only shown.
        let _ = rustix::thread::set_name(&name);
    }
    let found = crate::proc_file::read("/proc/self/stat").ok().and_then(|stat| arguments(&stat));
    if let Ok(mut place) = ARGUMENTS.lock() {
        *place = found;
    }
}

/// Sets the title. What exceeds the memory of the arguments is cut off, so a program that sets titles is
/// started with an argument for room. Afterwards [`std::env::args`] returns parts of the title.
pub fn set(title: &str) {
    let Ok(place) = ARGUMENTS.lock() else { return };
    let Some(place) = place.clone() else { return };
    // The last byte stays NUL: otherwise the kernel would also show the environment.
    for (offset, at) in place.clone().enumerate() {
        let byte = if at + 1 == place.end { 0 } else { title.as_bytes().get(offset).copied().unwrap_or(0) };
        // SAFETY: the kernel has mapped the range for the arguments, writable, and it stays mapped as long as
        // the process lives. The standard library's copy of `argv` points to its strings and reads them only
        // in `std::env::args`, one NUL-terminated string each: the last byte of the range is NUL at all
        // times.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(byte) };
    }
}

/// The range of the arguments in a line of `/proc/PID/stat` (fields 48 and 49).
fn arguments(stat: &str) -> Option<Range<usize>> {
    // Field 2 is a name in parentheses, which may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(45);
    let (start, end) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (start != 0 && start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_of_the_arguments_is_found() {
        let fields =
            |start: &str, end: &str| format!("7 (a) b) S {} {start} {end} 9 9 0\n", vec!["1"; 44].join(" "));
        assert_eq!(arguments(&fields("4096", "4128")), Some(4096..4128));
        for (start, end) in [("0", "0"), ("4096", "4096"), ("9", "8"), ("x", "9")] {
            assert_eq!(arguments(&fields(start, end)), None);
        }
        assert_eq!(arguments("7 (a) S 1"), None);
        assert_eq!(arguments(""), None);
        assert!(arguments(&std::fs::read_to_string("/proc/self/stat").unwrap()).is_some());
    }

    #[test]
    fn titles_are_cut_at_the_end_of_the_arguments() {
        let line = || std::fs::read("/proc/self/cmdline").unwrap();
        let room = line().len();
        prepare("a-title-of-more-than-15");
        // The name of a thread is that of the process in the main thread.
        assert_eq!(std::fs::read("/proc/thread-self/comm").unwrap(), b"a-title-of-more\n");
        set(&"x".repeat(room + 100));
        assert_eq!(line(), [vec![b'x'; room - 1], vec![0]].concat());
        set("short");
        assert_eq!(line(), [b"short".to_vec(), vec![0; room - 5]].concat());
    }
}
