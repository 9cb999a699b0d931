//! Detects a source that changed while it was read, by its attributes before and after.
//!
//! A copy holds what was read. Where its source was written to in the meantime, that is not what the source
//! holds now, and perhaps never was: users get a warning, as from `cp` and `tar`.

use crate::end::{Info, Kind};

/// How a source changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    /// It has more bytes than were read of it.
    Grew { read: u64, now: u64 },
    /// It has fewer.
    Shrank { read: u64, now: u64 },
    /// It has the same number of bytes, and was modified.
    Modified,
    /// It has no name any more: something else has its place, or nothing.
    Replaced,
}

/// Resolution of an end's times and other attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    /// Every difference says something: this host, or a Longhaul server.
    Exact,
    /// A time counts only if it is later. Some servers give other times in listings than of open files.
    Later,
}

impl Changed {
    /// Compares what was known before `read` bytes were read with what is known after that.
    pub(crate) fn between(before: &Info, after: &Info, read: u64, precision: Precision) -> Option<Self> {
        if !matches!(after.kind, Kind::File | Kind::Unknown) {
            return None;
        }
        if let Some(now) = after.size {
            // Files in /proc have no size before and after, and something to read.
            let no_size = now == 0 && before.size.unwrap_or(0) == 0;
            match now.cmp(&read) {
                std::cmp::Ordering::Greater => return Some(Self::Grew { read, now }),
                std::cmp::Ordering::Less if !no_size => return Some(Self::Shrank { read, now }),
                _ => {}
            }
        }
        let modified = |info: &Info| info.times.map(|times| times.modification);
        if let (Some(then), Some(now)) = (modified(before), modified(after))
            && (now > then || (now != then && precision == Precision::Exact))
        {
            return Some(Self::Modified);
        }
        // A server of ours leaves out the usual number, which is 1.
        let unlinked = before.links != Some(0) && after.links == Some(0);
        (unlinked && precision == Precision::Exact).then_some(Self::Replaced)
    }

    /// The message, behind the file's name.
    pub(crate) fn text(self) -> String {
        let what = match self {
            Self::Grew { read, now } => format!("it grew to {now} bytes, the copy has the first {read}"),
            Self::Shrank { read, now } => format!("it shrank to {now} bytes, the copy has {read}"),
            Self::Modified => "parts of the copy may be older than others".to_owned(),
            Self::Replaced => "it was replaced or removed, the copy is of the old file".to_owned(),
        };
        format!("file changed while it was copied: {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::end::Times;

    fn info(size: u64, modified: (i64, u32)) -> Info {
        let times = Some(Times { access: (0, 0), modification: modified });
        Info { kind: Kind::File, size: Some(size), times, links: Some(1), ..Info::UNKNOWN }
    }

    #[test]
    fn sizes_and_times_tell_what_changed() {
        let before = info(10, (5, 100));
        let changed = |after: Info, precision| Changed::between(&before, &after, 10, precision);
        for precision in [Precision::Exact, Precision::Later] {
            assert_eq!(changed(before, precision), None);
            assert_eq!(changed(info(12, (5, 100)), precision), Some(Changed::Grew { read: 10, now: 12 }));
            assert_eq!(changed(info(0, (5, 100)), precision), Some(Changed::Shrank { read: 10, now: 0 }));
            assert_eq!(changed(info(10, (5, 101)), precision), Some(Changed::Modified));
            let access = Some(Times { access: (9, 9), modification: (5, 100) });
            assert_eq!(changed(Info { times: access, ..before }, precision), None, "reading is no change");
        }
        assert_eq!(changed(info(10, (4, 0)), Precision::Exact), Some(Changed::Modified));
        assert_eq!(changed(info(10, (4, 0)), Precision::Later), None);
        let unlinked = Info { links: Some(0), ..before };
        assert_eq!(changed(unlinked, Precision::Exact), Some(Changed::Replaced));
        assert_eq!(changed(unlinked, Precision::Later), None);
    }

    #[test]
    fn unknown_attributes_are_no_change() {
        let before = info(10, (5, 100));
        assert_eq!(Changed::between(&before, &Info::UNKNOWN, 10, Precision::Exact), None);
        assert_eq!(Changed::between(&Info::UNKNOWN, &before, 10, Precision::Exact), None);
    }

    #[test]
    fn files_without_a_size_are_whatever_was_read() {
        let before = info(0, (5, 100));
        assert_eq!(Changed::between(&before, &before, 4_000, Precision::Exact), None, "as in /proc");
        assert_eq!(Changed::between(&before, &before, 0, Precision::Exact), None);
        let grown = Changed::Grew { read: 0, now: 7 };
        assert_eq!(Changed::between(&before, &info(7, (6, 0)), 0, Precision::Exact), Some(grown));
        let device = Info { kind: Kind::Special, ..before };
        assert_eq!(Changed::between(&before, &device, 99, Precision::Exact), None);
    }
}
