//! Facts about the target's end, learnt while copying.

use lh_sftp_fs::LocalFs;

use crate::end::{Fault, FaultKind, Outcome};
use crate::names::display_name;
use crate::report::Reporter;
use crate::table::Key;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct TargetFacts {
    pub(crate) small_files: SmallFiles,
    /// Attributes that were reported as not kept.
    not_kept: Vec<NotKept>,
    /// The ends have been asked for more than version 3 has.
    pub(crate) asked_for_more: bool,
    /// Whether the server answers OPEN with less common flags.
    pub(crate) uncommon_opens: UncommonOpens,
    pub(crate) overwriting: Overwriting,
    /// The target's server permits no rename: every file is written under its final name.
    pub(crate) renames_barred: bool,
    pub(crate) us: TargetUser,
    /// It was reported that a server gives one handle to two files.
    pub(crate) reported_same_handle: bool,
    /// It was reported that a server does not answer.
    pub(crate) reported_silence: bool,
    /// It was reported that a server does not answer INIT.
    pub(crate) reported_no_version: bool,
}

impl TargetFacts {
    /// Returns true where each file is opened as scp opens it, which empties it.
    pub(crate) fn opens_like_scp(&self) -> bool {
        self.uncommon_opens == UncommonOpens::Ignored || self.overwriting == Overwriting::Never
    }

    /// Returns true where it was reported that `what` is not kept.
    pub(crate) fn has_not_kept(&self, what: NotKept) -> bool {
        self.not_kept.contains(&what)
    }

    /// Reports once what cannot be kept, which is no failure of the copy.
    pub(crate) fn report_not_kept(&mut self, what: NotKept, text: &str, report: &mut Reporter) {
        if !self.has_not_kept(what) {
            self.not_kept.push(what);
            report.skip(format!("warning: {text}"));
        }
    }

    /// Reports a copy that is complete but for owner and group, or extended attributes.
    pub(crate) fn report_not_kept_at(
        &mut self,
        what: NotKept,
        target: &[u8],
        fault: &Fault,
        report: &mut Reporter,
    ) {
        let kind = match what {
            NotKept::Owner => "owner and group",
            _ => "extended attributes",
        };
        let path = display_name(target);
        let text = format!("{kind} are not kept everywhere, first: \"{path}\": {}", fault.text);
        self.report_not_kept(what, &text, report);
    }
}

/// Whether a server answers OPEN with flags that not every server knows: for reading and writing, for a new
/// file alone, or without emptying what is there. Servers exist that answer only what scp asks for, and never
/// the others (node-sftp-server).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum UncommonOpens {
    #[default]
    Unknown,
    Answered,
    /// The first was not answered, or found no file where it was to make one: files are opened as scp opens
    /// them, under a part file's name as before.
    Ignored,
}

impl UncommonOpens {
    /// Takes in what came of such an OPEN.
    pub(crate) fn note(&mut self, outcome: &Outcome) {
        let ignored = matches!(outcome, Err(fault) if fault.kind == FaultKind::Unanswered);
        if *self == Self::Unknown {
            *self = if ignored { Self::Ignored } else { Self::Answered };
        }
    }
}

/// Whether a server takes WRITEs to a file that exists, and that OPEN has not emptied. `rclone serve sftp`
/// without a cache takes none, and its MKDIR and OPEN with EXCL do not tell that something exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Overwriting {
    /// It has denied none.
    #[default]
    Unknown,
    /// It has denied one. The file is copied once more, emptied: that shows whether this was why.
    Doubted,
    /// It takes none: from now on each file is emptied when it is opened.
    Never,
    /// It denies them to emptied files, too. No other file is emptied for that.
    Forbidden,
}

impl Overwriting {
    /// A WRITE to a file that was not emptied was denied.
    pub(crate) fn doubt(&mut self) {
        if *self == Self::Unknown {
            *self = Self::Doubted;
        }
    }

    /// Takes in what became of a WRITE to a file that was emptied because one had been denied.
    pub(crate) fn note(&mut self, taken: bool) {
        match *self {
            Self::Doubted if taken => *self = Self::Never,
            Self::Doubted => *self = Self::Forbidden,
            _ => {}
        }
    }
}

/// Facts about the directory that small files are written to.
#[derive(Debug)]
pub(crate) struct SmallFiles {
    /// Files cannot be without a name there.
    pub(crate) named: bool,
    /// The last file replaced another: so will the next, perhaps.
    pub(crate) replacing: bool,
    /// This host.
    pub(crate) fs: LocalFs,
}

impl Default for SmallFiles {
    fn default() -> Self {
        Self { named: false, replacing: false, fs: LocalFs::new("") }
    }
}

/// The id of the user that the target's server runs as.
#[derive(Debug, Default)]
pub(crate) enum TargetUser {
    #[default]
    Unknown,
    /// It is being asked by the file of this name; these wait.
    Asked(Vec<u8>, Vec<Key>),
    Known(Option<u32>),
}

/// Attributes that an end does not keep; each is reported once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotKept {
    Owner,
    Xattrs,
    HardLinks,
    ManyNames,
    HardLinksUnknown,
}

#[cfg(test)]
mod tests {
    use crate::{Event, Options};

    use super::*;

    #[test]
    fn attributes_not_kept_are_reported_once() {
        let (mut facts, mut report) = (TargetFacts::default(), Reporter::new(&Options::default()));
        let fault = Fault::other("Operation not permitted");
        for target in [b"a", b"b"] {
            facts.report_not_kept_at(NotKept::Owner, target, &fault, &mut report);
        }
        facts.report_not_kept(NotKept::Xattrs, "none", &mut report);
        let told: Vec<_> = std::iter::from_fn(|| report.poll()).collect();
        let first = "warning: owner and group are not kept everywhere, first: \"a\": Operation not permitted";
        let skipped = |text: &str| Event::Skipped { text: text.to_owned() };
        assert_eq!(told, [skipped(first), skipped("warning: none")]);
        assert!(facts.has_not_kept(NotKept::Owner) && !facts.has_not_kept(NotKept::HardLinks));
    }

    #[test]
    fn emptied_file_shows_why_writes_are_denied() {
        for (taken, found) in [(true, Overwriting::Never), (false, Overwriting::Forbidden)] {
            let mut facts = TargetFacts::default();
            facts.overwriting.note(taken);
            assert_eq!(facts.overwriting, Overwriting::Unknown, "nothing was denied");
            facts.overwriting.doubt();
            assert!(!facts.opens_like_scp());
            facts.overwriting.note(taken);
            facts.overwriting.doubt();
            facts.overwriting.note(!taken);
            assert_eq!((facts.overwriting, facts.opens_like_scp()), (found, taken), "it is found out once");
        }
    }
}
