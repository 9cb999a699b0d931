//! What users are told of a copy's progress.

/// What a copy waits for when it can do nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    Window,
    Answers,
}

/// The file whose data move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current<'a> {
    /// Tells files apart.
    pub id: u64,
    /// The last component of the source's name.
    pub name: &'a [u8],
    /// Bytes confirmed by the target, and those that were there before.
    pub done: u64,
    /// Bytes to be copied; grows when the source turns out longer.
    pub size: u64,
    /// Bytes that were there before, of a copy that is resumed.
    pub kept: u64,
}
