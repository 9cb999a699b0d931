//! How much a listing asks of each entry.

/// What a directory's listing has to contain of each entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Names only.
    Names,
    /// Names and attributes.
    Attrs,
    /// Names, attributes and, where the server sends them, the lines of `ls -l`.
    Lines,
}
