//! The handles of a file on additional channels.

use crate::end::Handle;

/// How far requests may be ahead of what is confirmed without a gap, in a file that goes over several channels.
pub(crate) const SPAN: u64 = 32 << 20;

/// What is known of a file on one of the additional channels.
#[derive(Debug, Default)]
pub(crate) enum Stripe {
    #[default]
    Unknown,
    /// Being opened, not to be had, or closed.
    Without,
    Open(Handle),
}

/// Whether a file may go over several channels.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plain {
    #[default]
    Unknown,
    /// Not, or not known yet.
    No,
    Yes,
}
