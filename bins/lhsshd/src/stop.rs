//! Why there is no server.

/// Lines for standard error, and the exit status.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) lines: Vec<String>,
    pub(crate) status: u8,
}

impl Stop {
    pub(crate) fn new(line: impl std::fmt::Display, status: u8) -> Self {
        Self { lines: vec![line.to_string()], status }
    }
}
