//! Finds out whether a server leaves a file as it is that is opened once more to be written to.
//!
//! Servers in front of an object store or a cache, as `rclone serve sftp`, empty a file at each OPEN for
//! writing, also where the flags do not say so: opening it on a second channel then costs all that has been
//! written. So before the first file goes over several channels to a server that is not known to keep what it
//! has, the copy stops, waits until everything sent is confirmed, opens the file on one other channel and
//! asks for its size. Once for each copy. The size is asked for where that OPEN is refused, too: copyparty
//! removes what is to be written to before it opens it.
//!
//! Pure: what is known of the server and what it has answered goes in, what may be done comes out.

use crate::table::Key;

/// Whether a second OPEN for writing leaves the file's content as it is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reopening {
    #[default]
    Unknown,
    /// Being found out with this file; no file bytes are sent meanwhile.
    Asking(Key),
    /// The second OPEN of this file was refused; being found out whether it is still there.
    Refused(Key),
    Keeps,
    /// It empties or removes the file, or permits no second OPEN.
    Never,
}

/// What a file has left after its second OPEN, by a STAT of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remains {
    Data,
    /// It is empty.
    Empty,
    /// There is no file any more.
    Removed,
    /// The server does not tell.
    Unknown,
    /// The channel is gone.
    Unanswered,
}

/// Result of the second OPEN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecondOpen {
    Opened,
    Refused,
    /// The channel is gone, or too many files may have been open: nothing is known.
    Unanswered,
}

/// What is known before a file is opened on all channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// The server obeys the flags of OPEN.
    Obeys,
    /// The file has data, which another OPEN must not remove.
    FileHasData,
    /// Nothing: an empty file tells nothing of the server.
    Nothing,
}

impl Reopening {
    /// Returns true where the file `key`, which is being written, may be opened on all channels. Where that
    /// is not known, it is to be found out with this file, if it has data.
    pub(crate) const fn keeps(&mut self, key: Key, known: Known) -> bool {
        match *self {
            Self::Keeps => return true,
            Self::Never => return false,
            Self::Refused(_) => {}
            Self::Asking(asked) if asked == key => {}
            Self::Asking(_) | Self::Unknown if matches!(known, Known::Obeys) => {
                *self = Self::Keeps;
                return true;
            }
            Self::Asking(_) | Self::Unknown if matches!(known, Known::FileHasData) => {
                *self = Self::Asking(key)
            }
            Self::Asking(_) | Self::Unknown => {}
        }
        false
    }

    /// The file that it is being found out with.
    pub(crate) const fn asking(self) -> Option<Key> {
        match self {
            Self::Asking(key) | Self::Refused(key) => Some(key),
            Self::Unknown | Self::Keeps | Self::Never => None,
        }
    }

    /// No channel opens a file once more, or the server refuses to write in the middle of one.
    pub(crate) const fn give_up(&mut self) {
        *self = Self::Never;
    }

    /// Takes the answer to the second OPEN of `key`. Returns true where the file's size is the next question.
    pub(crate) fn opened(&mut self, key: Key, answer: SecondOpen) -> bool {
        if self.asking() != Some(key) {
            return false;
        }
        match answer {
            SecondOpen::Opened => true,
            SecondOpen::Refused => {
                *self = Self::Refused(key);
                true
            }
            SecondOpen::Unanswered => {
                *self = Self::Unknown;
                false
            }
        }
    }

    /// Takes what is left of `key` behind its second OPEN. Returns false where the data are gone.
    pub(crate) fn remains_came(&mut self, key: Key, remains: Remains) -> bool {
        if self.asking() != Some(key) {
            return true;
        }
        let refused = matches!(*self, Self::Refused(_));
        if refused && remains == Remains::Unanswered {
            *self = Self::Unknown;
            return true;
        }
        // Data behind a second OPEN that is not known to keep them count as gone.
        let kept = remains == Remains::Data;
        *self = if kept && !refused { Self::Keeps } else { Self::Never };
        // A server that refuses the OPEN and tells no size most likely did nothing.
        kept || (refused && remains == Remains::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_obeys_flags_is_not_asked() {
        let mut reopening = Reopening::default();
        assert!(reopening.keeps(1, Known::Obeys) && reopening.keeps(2, Known::FileHasData));
        assert_eq!(reopening, Reopening::Keeps);
    }

    #[test]
    fn it_is_found_out_once_with_a_file_that_has_data() {
        let mut reopening = Reopening::default();
        assert!(
            !reopening.keeps(1, Known::Nothing) && reopening.asking().is_none(),
            "an empty file tells nothing"
        );
        assert!(!reopening.keeps(1, Known::FileHasData) && reopening.asking() == Some(1));
        assert!(!reopening.opened(2, SecondOpen::Refused) && reopening.asking() == Some(1), "another file");
        assert!(reopening.opened(1, SecondOpen::Opened));
        assert!(reopening.remains_came(2, Remains::Empty) && reopening.asking() == Some(1), "another file");
        assert!(reopening.remains_came(1, Remains::Data) && reopening.keeps(9, Known::FileHasData));
    }

    #[test]
    fn a_server_that_empties_files_or_refuses_gets_one_channel() {
        use Remains::{Data, Empty, Removed, Unknown};
        use SecondOpen::{Opened, Refused};
        for (answer, remains, kept) in [
            (Opened, Empty, false),
            (Opened, Removed, false),
            (Opened, Unknown, false),
            (Refused, Data, true),
            (Refused, Unknown, true),
            (Refused, Empty, false),
            (Refused, Removed, false),
        ] {
            let mut reopening = Reopening::Asking(1);
            assert!(reopening.opened(1, answer) && reopening.asking() == Some(1));
            assert_eq!(reopening.remains_came(1, remains), kept, "{answer:?} {remains:?}");
            assert_eq!(reopening, Reopening::Never);
            assert!(!reopening.keeps(2, Known::Obeys));
        }
        let mut reopening = Reopening::Asking(1);
        assert!(!reopening.opened(1, SecondOpen::Unanswered));
        assert_eq!(reopening, Reopening::Unknown, "to be found out on another one");
        let mut reopening = Reopening::Refused(1);
        assert!(reopening.remains_came(1, Remains::Unanswered));
        assert_eq!(reopening, Reopening::Unknown, "to be found out on another one");
        let mut reopening = Reopening::Asking(1);
        assert!(!reopening.remains_came(1, Remains::Unanswered), "it was opened, and may be empty");
    }
}
