//! Readers of this crate that nothing outside of it needs, for the fuzz targets.

/// Reads a journal, which any process of the user may have changed.
pub fn journal(bytes: &[u8]) {
    crate::journal::fuzz(bytes);
}

/// Reads a line of the protocol of `scp -O`.
pub fn copy_record(line: &[u8]) {
    crate::rcp::fuzz_record(line);
}
