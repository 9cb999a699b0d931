//! The structure of a program's page.

/// Texts of a program's page, besides its flags.
pub(crate) struct Page {
    pub name: &'static str,
    pub description: &'static str,
    /// Sections between the options and the exit status.
    pub parts: &'static [Part],
    pub exit: &'static str,
    pub environment: &'static [(&'static str, &'static str)],
    pub files: &'static [(&'static str, &'static str)],
    pub see_also: &'static [(&'static str, u8)],
}

/// A section with a list.
pub(crate) struct Part {
    pub title: &'static str,
    pub text: &'static str,
    pub rows: &'static [(&'static str, &'static str)],
}
