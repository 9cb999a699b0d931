//! Decides by attributes alone whether two files count as equal.

use crate::end::{Info, Times};

/// Returns true where size and time of modification are known and equal. `full`: both ends have times in
/// full; otherwise one of them has the 32 bits of seconds of SFTP version 3.
pub(crate) fn is_unchanged(source: &Info, target: &Info, full: bool) -> bool {
    let (Some(ours), Some(theirs)) = (source.times, target.times) else { return false };
    source.size.is_some() && source.size == target.size && same_time(ours, theirs, full)
}

/// Returns true for one time of modification. Nanoseconds count where both have them: a zero is taken for a
/// file system without.
pub(crate) fn same_time(ours: Times, theirs: Times, full: bool) -> bool {
    let (ours, theirs) = (ours.modification, theirs.modification);
    let bare = |seconds: i64| if full { seconds } else { seconds.clamp(0, i64::from(u32::MAX)) };
    bare(ours.0) == bare(theirs.0) && (!both_exact(ours, theirs) || ours.1 == theirs.1)
}

/// Returns true where `target` was modified later than `source`.
pub(crate) fn is_newer(target: &Info, source: &Info) -> bool {
    let (Some(theirs), Some(ours)) = (target.times, source.times) else { return false };
    let (theirs, ours) = (theirs.modification, ours.modification);
    theirs.0 > ours.0 || (theirs.0 == ours.0 && both_exact(theirs, ours) && theirs.1 > ours.1)
}

/// Returns true where the time of modification has nanoseconds.
pub(crate) fn has_exact_time(info: &Info) -> bool {
    info.times.is_some_and(|times| times.modification.1 != 0)
}

pub(crate) const fn both_exact(ours: (i64, u32), theirs: (i64, u32)) -> bool {
    ours.1 != 0 && theirs.1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::end::Kind;

    fn info(size: u64, modification: (i64, u32)) -> Info {
        let times = Some(Times { access: (0, 0), modification });
        Info { kind: Kind::File, size: Some(size), times, ..Info::UNKNOWN }
    }

    #[test]
    fn size_and_time_decide_and_zero_nanoseconds_do_not_count() {
        let ours = info(10, (100, 7));
        for (theirs, same) in [
            (info(10, (100, 7)), true),
            (info(10, (100, 0)), true),
            (info(10, (100, 8)), false),
            (info(10, (101, 7)), false),
            (info(11, (100, 7)), false),
            (Info { times: None, ..ours }, false),
            (Info { size: None, ..ours }, false),
        ] {
            assert_eq!(is_unchanged(&ours, &theirs, true), same, "{theirs:?}");
            assert_eq!(is_unchanged(&theirs, &ours, true), same, "{theirs:?}");
        }
        assert!(!is_unchanged(&Info::UNKNOWN, &Info::UNKNOWN, true));
    }

    #[test]
    fn a_later_time_is_newer_and_zero_nanoseconds_are_not() {
        let ours = info(1, (100, 5));
        for (theirs, newer) in
            [((101, 0), true), ((100, 6), true), ((100, 5), false), ((100, 0), false), ((99, 9), false)]
        {
            assert_eq!(is_newer(&info(9, theirs), &ours), newer, "{theirs:?}");
        }
        assert!(!is_newer(&info(9, (100, 6)), &info(1, (100, 0))));
        assert!(!is_newer(&Info::UNKNOWN, &ours));
    }

    #[test]
    fn times_beyond_32_bits_are_compared_as_the_server_keeps_them() {
        let most = i64::from(u32::MAX);
        for (ours, theirs) in [(-5, 0), (most + 9, most)] {
            assert!(is_unchanged(&info(1, (ours, 0)), &info(1, (theirs, 0)), false));
            assert!(!is_unchanged(&info(1, (ours, 0)), &info(1, (theirs, 0)), true));
        }
    }
}
