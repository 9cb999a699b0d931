//! What is in flight, or waits between two remote ends.

/// Counts of requests and bytes that were sent for, or held, and are not done.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    bytes: u64,
    requests: usize,
    /// Ranges of files that a server was asked for, to compare them; their bytes are not counted.
    comparisons: usize,
    /// Between two remote ends: bytes that were read and wait to be written.
    held: u64,
}

impl InFlight {
    /// A request for `len` bytes goes out.
    pub(crate) const fn request(&mut self, len: u64) {
        self.bytes += len;
        self.requests += 1;
    }

    /// A request that was counted has `len` bytes more.
    pub(crate) const fn lengthen(&mut self, len: u64) {
        self.bytes += len;
    }

    /// A request that was counted has `len` bytes less.
    pub(crate) const fn shorten(&mut self, len: u64) {
        self.bytes -= len;
    }

    /// A request for `len` bytes is not in flight any more.
    pub(crate) const fn answered(&mut self, len: u64) {
        self.bytes -= len;
        self.requests -= 1;
    }

    /// `len` bytes wait to be written to the other remote end.
    pub(crate) const fn hold(&mut self, len: u64) {
        self.held += len;
    }

    /// `len` bytes do not wait for that any more.
    pub(crate) const fn release(&mut self, len: u64) {
        self.held -= len;
    }

    /// A server is asked for a range of a file, to compare it.
    pub(crate) const fn compare(&mut self) {
        self.comparisons += 1;
    }

    /// That was answered.
    pub(super) const fn compared(&mut self) {
        self.comparisons -= 1;
    }

    /// Bytes of file data that were requested.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of file data that were requested, or wait to be written.
    pub(super) const fn bytes_with_held(&self) -> u64 {
        self.bytes + self.held
    }

    /// Requests for file data.
    pub(crate) const fn requests(&self) -> usize {
        self.requests
    }

    /// Ranges that are being compared.
    pub(super) const fn comparisons(&self) -> usize {
        self.comparisons
    }
}
