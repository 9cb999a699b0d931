//! The table of requests.

/// A request as the administrator sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestInfo {
    /// The name that `-p`, `-P` and `-Q requests` of sftp-server(8) use.
    pub name: &'static str,
    /// The name of the extension, for those that are one.
    pub extension: Option<&'static str>,
    /// True when it changes the file system, so that a read-only server refuses it. (OPEN looks at its flags.)
    pub writes: bool,
}

/// All requests this server knows, in the order in which sftp-server prints them.
pub fn request_table() -> &'static [RequestInfo] {
    &[]
}
