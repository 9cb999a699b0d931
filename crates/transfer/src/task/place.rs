//! The name under which a file grows, and what is known of it and of the final one.

use std::os::fd::OwnedFd;
use std::time::Instant;

use lh_crypto::{Random as _, SystemRandom};
use lh_sftp::fs::PART_SUFFIX;

use crate::end::Info;
use crate::item::Item;
use crate::journal;
use crate::journal::Tag;

/// The longest name that file systems take.
pub(crate) const LONGEST_NAME: usize = 255;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Our name, and whether it is there (it is gone once the file is in its place).
    pub(crate) part: Option<Vec<u8>>,
    pub(crate) there: bool,
    pub(crate) tag: Option<Tag>,
    /// Keeps other copies on this host from the part file once it is closed.
    pub(crate) lock: Option<OwnedFd>,
    /// The plain file that is to be replaced.
    pub(crate) old: Option<Info>,
    /// The part file is from an earlier attempt.
    pub(crate) continued: bool,
    /// Bytes from the start that the journal records.
    pub(crate) noted: u64,
    /// When the first question was asked, until it is answered.
    pub(crate) asked_at: Option<Instant>,
    /// It was compared and found right.
    pub(crate) compared: bool,
    /// It has been given its final name.
    pub(crate) placed: bool,
    /// An earlier attempt had given it its final name already.
    pub(crate) kept: bool,
    /// It cannot be given its final name.
    pub(crate) barred: bool,
    /// It was renamed by another copy.
    pub(crate) taken: bool,
    /// The written data differ from the sent data.
    pub(crate) corrupt: bool,
}

impl Place {
    /// The name under which bytes are now, while that is not the final one.
    pub(crate) fn growing(&self) -> Option<&[u8]> {
        self.part.as_deref().filter(|_| self.there)
    }

    /// It has been given its final name.
    pub(crate) const fn is_placed(&self) -> bool {
        self.placed
    }

    /// An earlier attempt had put it in its place, and nothing was written.
    pub(crate) const fn is_kept(&self) -> bool {
        self.kept
    }

    /// The mode that a replaced file had.
    pub(crate) fn mode_of_old(&self) -> Option<u32> {
        self.growing().and(self.old.as_ref()).and_then(|old| old.mode)
    }
}

/// The tag of a file's copy; none where there is no telling one state of the source from another.
pub(crate) fn tag_of(item: &Item) -> Option<Tag> {
    tag_with(item, item.info.size)
}

/// Like [`tag_of`], of a file that turned out to be of this size.
pub(crate) fn tag_with(item: &Item, size: Option<u64>) -> Option<Tag> {
    let size = size.filter(|&size| size > 0)?;
    Some(journal::tag(&item.source, &item.target, size, item.info.times?.modification))
}

/// The name under which the copy with this tag grows: beside the target.
pub(crate) fn part_name(target: &[u8], tag: &Tag) -> Vec<u8> {
    let (directory, name) = match target.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (Some(&target[..=slash]), &target[slash + 1..]),
        None => (None, target),
    };
    let behind = format!(".{}{PART_SUFFIX}", journal::hex(&tag[..6]));
    let name = &name[..name.len().min(LONGEST_NAME - 1 - behind.len())];
    [directory.unwrap_or_default(), b".", name, behind.as_bytes()].concat()
}

/// Returns true for a name that [`part_name`] makes.
pub(crate) fn is_part_name(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(b".").and_then(|rest| rest.strip_suffix(PART_SUFFIX.as_bytes()))
    else {
        return false;
    };
    let Some(dot) = rest.iter().rposition(|&byte| byte == b'.') else { return false };
    let tag = rest.get(dot + 1..).unwrap_or_default();
    tag.len() == 12 && tag.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A tag that nothing else can know.
pub(crate) fn random_tag() -> Tag {
    let mut tag = Tag::default();
    SystemRandom.fill(&mut tag);
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_names_stand_beside_the_target_and_fit() {
        let tag = [0xab; 16];
        assert_eq!(part_name(b"dir/file", &tag), b"dir/.file.abababababab.lhpart");
        assert_eq!(part_name(b"/f", &tag), b"/.f.abababababab.lhpart");
        let long = [b'x'; 255];
        let name = part_name(&[b"d/", &long[..]].concat(), &tag);
        assert_eq!(name.len(), 2 + 255);
        assert!(name.ends_with(b".abababababab.lhpart"));
        for name in [part_name(b"file", &tag), part_name(b"x.y", &tag), name[2..].to_vec()] {
            assert!(is_part_name(&name));
        }
        for other in [&b".x.lhpart"[..], b"x.abababababab.lhpart", b".x.ABABABABABAB.lhpart", b".lhpart", b""]
        {
            assert!(!is_part_name(other));
        }
    }
}
