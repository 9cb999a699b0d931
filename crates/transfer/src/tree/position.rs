//! How far the directories of a tree are, where it is started in the order of its paths.

use crate::turn::{Class, Place};

/// How far a directory is, where trees are started in the order of their paths.
#[derive(Debug, Default)]
pub(crate) struct Position {
    /// Of the directory itself.
    pub(crate) place: Place,
    /// Entries that were started.
    begun: u32,
    /// Of its entries only directories are left to be started.
    pub(crate) only_subdirs: bool,
}

impl Position {
    /// Place of an entry that is started now.
    pub(crate) fn next_place(&mut self, class: Class) -> Place {
        self.begun += 1;
        self.place_of(class, self.begun)
    }

    fn place_of(&self, class: Class, begun: u32) -> Place {
        let mut place = self.place.clone();
        place.push(class.number(begun));
        place
    }

    /// Where the directory is in the walk.
    pub(crate) fn in_walk(&self) -> Place {
        match self.only_subdirs {
            true => self.place_of(Class::End, 0),
            false => self.place.clone(),
        }
    }

    /// Nothing that is started from now on comes before this place.
    pub(crate) fn next(&self) -> Place {
        self.place_of(if self.only_subdirs { Class::Dir } else { Class::File }, self.begun + 1)
    }
}
