//! Places in the order in which a tree is started, and who holds them.

use std::sync::{Arc, Weak};

/// Place of an item in the order: one number for each level. Within a directory files come first, then links
/// that may lead to directories, then directories ([`Class`]).
pub(crate) type Place = Vec<u64>;

/// Holds the place of an item until it is decided: dropped with its last clone.
pub(crate) type Turn = Arc<Place>;

/// The upper half of a number in a [`Place`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    File,
    Link,
    Dir,
    /// Behind everything in the directory.
    End,
}

impl Class {
    pub(crate) const fn number(self, begun: u32) -> u64 {
        (self as u64) << 32 | begun as u64
    }
}

/// Places of the items that are started and may still become directories; the first is last.
#[derive(Debug)]
pub(crate) struct Order {
    undecided: Vec<(Place, Weak<Place>)>,
    /// Items of the command line that were started.
    pub(crate) tops: u32,
    pub(crate) rules: OrderRules,
}

/// Which items hold their places.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OrderRules {
    /// Files do, too: what becomes of them is reported in order.
    pub(crate) holds_files: bool,
    /// Symbolic links are not followed below what the command line names.
    pub(crate) keeps_links: bool,
}

impl Order {
    pub(crate) const fn new(rules: OrderRules) -> Self {
        Self { undecided: Vec::new(), tops: 0, rules }
    }

    /// Holds `place` until every clone of the answer is dropped.
    pub(crate) fn hold(&mut self, place: Place, may_be_dir: bool) -> Turn {
        let turn = Arc::new(place.clone());
        if may_be_dir {
            let at = self.undecided.partition_point(|(other, _)| *other > place);
            self.undecided.insert(at, (place, Arc::downgrade(&turn)));
        }
        turn
    }

    /// The first place that is held.
    pub(crate) fn first(&mut self) -> Option<&Place> {
        while self.undecided.pop_if(|(_, turn)| turn.strong_count() == 0).is_some() {}
        self.undecided.last().map(|(place, _)| place)
    }

    pub(crate) const fn held(&self) -> usize {
        self.undecided.len()
    }
}
