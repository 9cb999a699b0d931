//! States of a file, from the first look at it to its end. Each state owns the data that it alone needs.
//!
//! ```text
//! Comparing ─┐ (its contents at both ends; it may not be copied at all)
//! Probing → Opening → Opened → Copying → Closing → Verifying → Placing → Verifying → Cutting → the end
//!              └→ Resuming ─┘                     (all of it)            (samples)
//! ```
//!
//! A file that failed goes to `Closing` from any state before that. Nothing goes back behind `Closing`, and
//! the end takes the [`File`](crate::task::File) out of the table: a file is closed once and ends once.

use crate::changed::Changed;
use crate::end::{Change, Fault};
use crate::task::check::Check;
use crate::task::preserve::Preserved;
use crate::task::probe::{OpeningPart, Probe};
use crate::task::proof::ProofStage;
use crate::task::source_after::SourceAfter;

/// The state of a file.
#[derive(Debug)]
pub(crate) enum State {
    /// Its contents are compared at both ends, once these are open: it may need no copy.
    Comparing(Option<Check>),
    /// The source is looked at and opened, and the name that the copy grows under is chosen.
    Probing(Probe),
    /// The target is being opened.
    Opening(Opening),
    /// Both ends are open. What the target has already is compared with the source.
    Resuming(Resuming),
    /// Both ends are open. Where the source has holes may be asked first.
    Opened(Target),
    /// The data move.
    Copying(Copying),
    /// Attributes and CLOSE are on their way.
    Closing(Closing),
    /// The copy is closed, and is read back.
    Verifying(Verifying),
    /// The copy is being given its final name, or removed.
    Placing(Closed),
    /// The copy failed after CLOSE: what is not known to be right is cut off.
    Cutting(Closed),
}

/// How a target is opened, and under which name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Opening {
    /// Under its final name.
    InPlace(Access),
    Part(OpeningPart),
}

/// Opening of a target under its final name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    ReadWrite,
    /// Like `ReadWrite`; the existing file was compared before.
    Compared,
    /// The end refused to open it for reading too.
    WriteOnly,
    /// Like scp: an existing file is emptied.
    Emptied,
}

/// State of an open target before any data were copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A part file, or a file that an earlier attempt has left: a failure leaves it as it is.
    Part,
    /// The file with the final name, which OPEN may have made or cut.
    InPlace,
}

/// Comparing what the target has already.
#[derive(Debug)]
pub(crate) struct Resuming {
    pub(crate) check: Check,
    pub(crate) of: Found,
}

/// The existing file that is compared with the source before it is continued.
#[derive(Debug)]
pub(crate) enum Found {
    Part,
    /// The file with the final name, which may be our copy already; else the part file's name is still to be
    /// opened.
    Adopted(Probe),
    /// The file with the final name, which is open for writing.
    InPlace,
    /// The file with the final name, which is open for reading alone.
    ToContinue,
}

/// Queries about a file while its data move.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    /// Attributes that need requests of their own.
    pub(crate) preserved: Preserved,
    /// Whether the source changed while it was read.
    pub(crate) source_after: SourceAfter,
}

/// Facts about a copy whose data have moved, up to its end.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    /// Bytes of the copy.
    pub(crate) size: u64,
    /// Sum over its content, for [`crate::Reporting::sums`].
    pub(crate) sum: Option<Vec<u8>>,
    /// How the source changed while it was read.
    pub(crate) changed: Option<Changed>,
    /// The target's previous content was compared, or there was none.
    pub(crate) examined: bool,
    /// The target is no plain file: a device does not give back what it was given.
    pub(crate) special: bool,
    /// The wrong part was cut off or removed, or cannot be.
    pub(crate) cut: bool,
    /// Message for users about a copy that has its final name but not all of its attributes.
    pub(crate) flaw: Option<String>,
}

/// Closing both ends.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    pub(crate) closed: Closed,
    /// Attributes to set.
    pub(crate) change: Change,
    /// Why it could not be set on the open file.
    pub(crate) refused: Option<Fault>,
}

/// Reading back a copy that is closed.
#[derive(Debug)]
pub(crate) struct Verifying {
    pub(crate) closed: Closed,
    pub(crate) stage: ProofStage,
    /// Ends that are not open yet.
    pub(crate) opening: u8,
    pub(crate) check: Option<Check>,
}

/// The states of a file that is closed, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Closing,
    VerifyingAll,
    Placing,
    VerifyingNamed,
    Cutting,
}

impl Default for State {
    fn default() -> Self {
        Self::Probing(Probe::default())
    }
}

impl State {
    /// Returns the stage of a closed file; `None` before CLOSE.
    pub(crate) const fn stage(&self) -> Option<Stage> {
        Some(match self {
            Self::Closing(_) => Stage::Closing,
            Self::Verifying(Verifying { stage: ProofStage::Written, .. }) => Stage::VerifyingAll,
            Self::Placing(_) => Stage::Placing,
            Self::Verifying(Verifying { stage: ProofStage::Named, .. }) => Stage::VerifyingNamed,
            Self::Cutting(_) => Stage::Cutting,
            Self::Comparing(_)
            | Self::Probing(_)
            | Self::Opening(_)
            | Self::Resuming(_)
            | Self::Opened(_)
            | Self::Copying(_) => return None,
        })
    }

    /// Returns true once CLOSE was sent.
    pub(crate) const fn is_closed(&self) -> bool {
        self.stage().is_some()
    }

    /// Returns true once the target may have been changed under its final name, or data were copied.
    pub(crate) const fn has_begun(&self) -> bool {
        match self {
            Self::Comparing(_) | Self::Probing(_) | Self::Opening(_) => false,
            Self::Resuming(resuming) => matches!(resuming.of, Found::InPlace),
            Self::Opened(target) => matches!(target, Target::InPlace),
            Self::Copying(_)
            | Self::Closing(_)
            | Self::Verifying(_)
            | Self::Placing(_)
            | Self::Cutting(_) => true,
        }
    }

    /// Returns true where what was at the target before is compared, or there was nothing.
    pub(crate) fn is_examined(&self) -> bool {
        matches!(self, Self::Copying(_)) || self.closed().is_some_and(|closed| closed.examined)
    }

    /// Facts about a copy that is closed.
    pub(crate) const fn closed(&self) -> Option<&Closed> {
        match self {
            Self::Closing(Closing { closed, .. })
            | Self::Verifying(Verifying { closed, .. })
            | Self::Placing(closed)
            | Self::Cutting(closed) => Some(closed),
            _ => None,
        }
    }

    pub(crate) const fn closed_mut(&mut self) -> Option<&mut Closed> {
        match self {
            Self::Closing(Closing { closed, .. })
            | Self::Verifying(Verifying { closed, .. })
            | Self::Placing(closed)
            | Self::Cutting(closed) => Some(closed),
            _ => None,
        }
    }

    /// Facts about a copy that ends; `None` before CLOSE.
    pub(crate) fn into_closed(mut self) -> Option<Closed> {
        self.closed_mut().map(std::mem::take)
    }

    /// Goes on to a later state of a closed file. False before CLOSE.
    pub(crate) fn advance(&mut self, make: impl FnOnce(Closed) -> Self) -> bool {
        let Some(closed) = self.closed_mut().map(std::mem::take) else { return false };
        *self = make(closed);
        true
    }

    /// The comparison that goes on.
    pub(crate) const fn check(&self) -> Option<&Check> {
        match self {
            Self::Resuming(resuming) => Some(&resuming.check),
            Self::Comparing(check) | Self::Verifying(Verifying { check, .. }) => check.as_ref(),
            _ => None,
        }
    }

    pub(crate) const fn check_mut(&mut self) -> Option<&mut Check> {
        match self {
            Self::Resuming(resuming) => Some(&mut resuming.check),
            Self::Comparing(check) | Self::Verifying(Verifying { check, .. }) => check.as_mut(),
            _ => None,
        }
    }

    /// Returns true if the compared file has its final name and is to be continued there.
    pub(crate) const fn continues_final(&self) -> bool {
        matches!(self, Self::Resuming(Resuming { of: Found::InPlace | Found::ToContinue, .. }))
    }

    /// Entries under the names at the target, until one of them is opened.
    pub(crate) const fn probe(&self) -> Option<&Probe> {
        match self {
            Self::Probing(probe) => Some(probe),
            _ => None,
        }
    }

    pub(crate) const fn probe_mut(&mut self) -> Option<&mut Probe> {
        match self {
            Self::Probing(probe) => Some(probe),
            _ => None,
        }
    }

    /// Queries while the data move.
    pub(crate) const fn copying_mut(&mut self) -> Option<&mut Copying> {
        match self {
            Self::Copying(copying) => Some(copying),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_file_goes_forward_only() {
        let mut state = State::Copying(Copying::default());
        assert!(!state.advance(State::Placing), "not before CLOSE");
        assert!(state.is_examined() && state.stage().is_none());
        let closed = Closed { size: 7, examined: true, ..Closed::default() };
        state = State::Closing(Closing { closed, ..Closing::default() });
        let mut stages = vec![state.stage()];
        let verifying =
            |stage| move |closed| State::Verifying(Verifying { closed, stage, opening: 2, check: None });
        assert!(state.advance(verifying(ProofStage::Written)));
        stages.push(state.stage());
        assert!(state.advance(State::Placing));
        stages.push(state.stage());
        assert!(state.advance(verifying(ProofStage::Named)));
        stages.push(state.stage());
        assert!(state.advance(State::Cutting));
        stages.push(state.stage());
        assert!(stages.is_sorted() && stages.iter().all(Option::is_some));
        assert!(state.is_examined());
        assert_eq!(state.into_closed().map(|closed| closed.size), Some(7));
    }

    #[test]
    fn only_what_is_written_in_place_has_begun_before_data() {
        assert!(!State::Probing(Probe::default()).has_begun());
        assert!(!State::Opened(Target::Part).has_begun());
        assert!(State::Opened(Target::InPlace).has_begun());
        assert!(State::Copying(Copying::default()).has_begun());
        assert!(State::Placing(Closed::default()).has_begun());
    }
}
