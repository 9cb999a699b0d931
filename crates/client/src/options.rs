//! What to connect to and how.

/// Everything [`connect`](crate::connect()) needs to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// The host as the user named it; messages use it.
    pub host: String,
}
