//! Available memory of the machine.

/// Memory in bytes that new work can use without swapping, by the kernel's estimate (`MemAvailable`); `None`
/// where that is missing, for example without `/proc`.
pub fn available() -> Option<u64> {
    parse(&crate::proc_file::read("/proc/meminfo").ok()?)
}

fn parse(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_parsed() {
        let text = "MemTotal:       24576000 kB\nMemFree:         1234 kB\nMemAvailable:   20480000 kB\n";
        assert_eq!(parse(text), Some(20_480_000 * 1024));
        assert_eq!(parse("MemTotal: 1 kB\n"), None);
        assert_eq!(parse("MemAvailable: much kB\n"), None);
    }
}
