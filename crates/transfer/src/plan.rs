//! The items of the command line, until they have been looked up.

pub(crate) mod first_flight;
pub(crate) mod patterns;
pub(crate) mod preparing;

use crate::Plan;
use crate::end::{Fault, FaultKind, Outcome, path_of};
use crate::plan::first_flight::FirstFlight;
use crate::plan::patterns::{Found, Patterns};

/// State of the preparation.
#[derive(Debug)]
pub(crate) struct Prepare {
    /// Requests sent before it was known that they are right.
    pub(crate) first_flight: FirstFlight,
    begun: bool,
    /// The target could not be made, and was looked at once more.
    looked_again: bool,
    /// A symbolic link is at the target's path: what STAT does not find there cannot be made there.
    target_is_link: bool,
    target: Target,
    sources: Vec<Source>,
    /// Sources before this one have been handed on.
    next: usize,
    pub(crate) patterns: Patterns,
}

#[derive(Debug)]
enum Target {
    Waiting,
    Known {
        path: Vec<u8>,
        exists: bool,
        dir: bool,
    },
    /// No source can be copied.
    Failed,
}

#[derive(Debug)]
struct Source {
    /// Path as typed, with `~` resolved.
    path: Vec<u8>,
    state: SourceState,
}

#[derive(Debug)]
enum SourceState {
    Waiting,
    Found(Found),
    Failed,
}

impl Prepare {
    pub(crate) fn new(plan: &Plan) -> Self {
        let source = |path: &Vec<u8>| Source { path: path.clone(), state: SourceState::Waiting };
        Self {
            first_flight: FirstFlight::default(),
            begun: false,
            looked_again: false,
            target_is_link: false,
            target: Target::Waiting,
            sources: plan.sources.iter().map(source).collect(),
            next: 0,
            patterns: Patterns::default(),
        }
    }

    /// Everything that will be copied has been handed on.
    pub(crate) fn finished(&self) -> bool {
        self.next >= self.sources.len()
    }

    /// Gives up; returns how many sources had not been handed on.
    pub(crate) fn abandon(&mut self) -> usize {
        let left = self.sources.len().saturating_sub(self.next);
        self.next = self.sources.len();
        left
    }

    /// The path without symlinks of something the command line names, if it is known.
    pub(crate) fn known_real(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.first_flight.sources.iter().flatten().find(|source| source.path == path)?.real.clone()
    }

    /// Remembers that there is nothing, if that is so.
    fn note_absent(&mut self, path: Vec<u8>, outcome: &Outcome) {
        if let Err(Fault { kind: FaultKind::NotFound, .. }) = outcome {
            self.first_flight.absent.push(path);
        }
    }

    fn source_real(&mut self, at: usize, outcome: Outcome) {
        if let Some(Some(source)) = self.first_flight.sources.get_mut(at) {
            source.real = path_of(outcome).ok();
        }
    }
}
