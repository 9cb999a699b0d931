//! Reading files of `/proc` with few system calls.

use std::fs::File;
use std::io::{self, Read as _};

/// Initial buffer size, bytes: holds most files, so that the kernel generates the text only once.
const USUAL: usize = 8 << 10;

/// Returns the content of a file. [`std::fs::read_to_string`] relies on the announced size, which is 0 in
/// `/proc`, and begins with reads of 32 bytes. [`io::Read::take`] hides the size, which saves two system
/// calls.
pub(crate) fn read(path: &str) -> io::Result<String> {
    let mut text = String::with_capacity(USUAL);
    File::open(path)?.take(u64::MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    #[test]
    fn files_of_proc_come_whole() {
        let stat = super::read("/proc/self/maps").unwrap();
        assert!(stat.lines().count() > 10 && stat.ends_with('\n'));
        assert!(super::read("/proc/self/lh-no-such-file").is_err());
    }
}
