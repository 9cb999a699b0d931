//! Attributes of a file's source after reading it.

use crate::changed::Changed;

/// Attributes of a file's source after reading it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceAfter {
    #[default]
    Unasked,
    /// `outdated`: something was read after that.
    Asked {
        outdated: bool,
    },
    Known(Option<Changed>),
}

impl SourceAfter {
    /// More is read after all.
    pub(crate) const fn read_more(&mut self) {
        *self = match self {
            Self::Asked { .. } => Self::Asked { outdated: true },
            Self::Unasked | Self::Known(_) => Self::Unasked,
        };
    }

    pub(crate) const fn changed(self) -> Option<Changed> {
        match self {
            Self::Known(changed) => changed,
            Self::Unasked | Self::Asked { .. } => None,
        }
    }
}
