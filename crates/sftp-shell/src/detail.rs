//! Detail of a listing's entries.

/// Attributes that a directory's listing must have of each entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Names only.
    Names,
    /// Names and attributes.
    Attrs,
    /// Names, attributes and, where the server sends them, the lines of `ls -l`.
    Lines,
}
