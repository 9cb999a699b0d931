//! What is kept of a file by requests of its own.

/// How far it has come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preserved {
    #[default]
    Todo,
    Asked,
    /// `owned`: the copy has the owner of the source.
    Done {
        owned: bool,
    },
}

impl Preserved {
    /// The bits of the mode that may be set: those that lend rights only on a file that has kept its owner.
    pub(crate) const fn mode_mask(self, plain: u32) -> u32 {
        if matches!(self, Self::Done { owned: true }) { 0o7777 } else { plain }
    }
}
