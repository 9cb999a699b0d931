//! The events of a copy, and how it went.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use crate::end::{FaultKind, Info, Outcome};
use crate::event::{Copied, CopiedKind};
use crate::item::Item;
use crate::names::display_name;
use crate::turn::{Place, Turn};
use crate::{Event, Options, Summary};

/// Files at most that are named when a connection is lost.
const LOSSES_TOLD: usize = 5;

/// Events that wait for their turn at most, while the first one is not decided.
const EVENTS_HELD: usize = 8 * 1024;

/// An item that is not reported yet: it is decided when `turn` is dropped.
#[derive(Debug, Default)]
struct Expected {
    turn: Weak<Place>,
    events: Vec<Event>,
}

/// Events that wait to be fetched, and the sums of them.
#[derive(Debug)]
pub(crate) struct Reporter {
    events: VecDeque<Event>,
    /// What is reported in the order of places.
    expected: BTreeMap<Place, Expected>,
    pub(crate) summary: Summary,
    /// Failures since the connection was lost.
    losses: usize,
    /// Failures of copies that are complete but for their mode or times.
    attribute_failures: u64,
    /// The user has stopped the copy: what fails from now on is not reported.
    pub(crate) cancelled: bool,
    /// See [`crate::Reporting::missed`].
    report_missed: bool,
    /// See [`crate::Reporting::sums`].
    report_copied: bool,
    /// See [`crate::Options::dry_run`].
    dry_run: bool,
    /// Sources of the command line, and whether something of each was not copied.
    sources: Vec<(Vec<u8>, bool)>,
}

impl Reporter {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            events: VecDeque::new(),
            expected: BTreeMap::new(),
            summary: Summary::default(),
            losses: 0,
            attribute_failures: 0,
            cancelled: false,
            report_missed: options.reporting.missed,
            report_copied: options.reporting.sums.is_some(),
            dry_run: options.dry_run,
            sources: Vec::new(),
        }
    }

    /// Notes from now on which of these sources failed.
    pub(crate) fn watch_sources(&mut self, sources: &[Vec<u8>]) {
        self.sources = sources.iter().map(|source| (source.clone(), false)).collect();
    }

    /// Something below a source, or the source itself, was not copied. `path` is its path at the source.
    pub(crate) fn blame(&mut self, path: &[u8]) {
        for (source, failed) in &mut self.sources {
            let rest = path.strip_prefix(&source[..]);
            let is_in_it = |rest: &[u8]| rest.is_empty() || rest[0] == b'/' || source.ends_with(b"/");
            *failed |= rest.is_some_and(is_in_it);
        }
    }

    /// Returns the sources of which something was not copied.
    pub(crate) fn failed_sources(&self) -> impl Iterator<Item = &[u8]> {
        self.sources.iter().filter(|(_, failed)| *failed).map(|(source, _)| &source[..])
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// The reports about this item come in the order of places.
    pub(crate) fn expect(&mut self, turn: &Turn) {
        let expected = Expected { turn: Arc::downgrade(turn), events: Vec::new() };
        self.expected.insert(turn.to_vec(), expected);
    }

    /// Reports what would be done with the item that has this turn.
    pub(crate) fn planned(&mut self, turn: Option<Turn>, event: Event) {
        match turn.and_then(|turn| self.expected.get_mut(&*turn)) {
            Some(expected) => expected.events.push(event),
            None => self.event(event),
        }
    }

    /// Like [`Reporter::skip`], when it is the turn of `place`.
    pub(crate) fn skip_in_order(&mut self, place: Place, texts: Vec<String>) {
        let events = texts.into_iter().map(|text| Event::Skipped { text });
        if place.is_empty() {
            self.events.extend(events);
        } else if events.len() > 0 {
            self.expected.entry(place).or_default().events.extend(events);
        }
    }

    /// Returns true where [`Reporter::release`] may find something.
    pub(crate) fn waits_for_order(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Returns false while many events wait for one that will be decided without any other.
    pub(crate) fn has_room(&self) -> bool {
        let first = self.expected.first_key_value();
        self.expected.len() < EVENTS_HELD || first.is_none_or(|(_, first)| first.turn.strong_count() == 0)
    }

    /// Reports what is decided. Nothing will come before `front`; nothing at all will come without it.
    pub(crate) fn release(&mut self, front: Option<&[u64]>) {
        while let Some(first) = self.expected.first_entry() {
            let undecided = first.get().turn.strong_count() > 0;
            if undecided || front.is_some_and(|front| first.key().as_slice() > front) {
                return;
            }
            self.events.extend(first.remove().events);
        }
    }

    /// The next event that was not fetched.
    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Something went wrong. Of a lost connection only the first files are named.
    pub(crate) fn fail(&mut self, text: String) {
        self.summary.failures += 1;
        if self.summary.lost {
            self.losses += 1;
        }
        if !self.cancelled && self.losses <= LOSSES_TOLD {
            self.event(Event::Failed { text });
        }
    }

    /// The mode or the times of something could not be set, which is at the target otherwise.
    pub(crate) fn fail_attributes(&mut self, text: String) {
        self.attribute_failures += 1;
        self.fail(text);
    }

    /// Returns true where something of the source may be missing at the target.
    pub(crate) const fn may_lack_something(&self) -> bool {
        self.summary.failures > self.attribute_failures
    }

    /// Reports the files that failed with the connection for `reason`, beyond those named one by one.
    pub(crate) fn report_more_losses(&mut self, reason: &str) {
        if self.losses > LOSSES_TOLD && !self.cancelled {
            let text = match self.losses - LOSSES_TOLD {
                1 => format!("1 more file is not copied: {reason}"),
                more => format!("{more} more files are not copied: {reason}"),
            };
            self.event(Event::Failed { text });
        }
    }

    /// Something is left out on purpose.
    pub(crate) fn skip(&mut self, text: String) {
        self.event(Event::Skipped { text });
    }

    /// Reports a part file that could not be removed.
    pub(crate) fn left_behind(&mut self, path: &[u8], outcome: &Outcome) {
        if let Err(fault) = outcome
            && !matches!(fault.kind, FaultKind::Lost | FaultKind::NotFound)
        {
            let path = display_name(path);
            self.skip(format!("\"{path}\" is unfinished and is left there: remove: {}", fault.text));
        }
    }

    /// Something was not copied: its path from the top of the tree, `None` for what the command line names.
    pub(crate) fn missed(&mut self, path: Option<Vec<u8>>) {
        if self.report_missed && !self.cancelled && !self.summary.lost {
            self.event(Event::Missed { path });
        }
    }

    /// Reports a file, or a link, that has its final name. `top` is the target of the whole copy.
    pub(crate) fn copied(&mut self, top: &[u8], item: &Item, size: u64, kind: CopiedKind) {
        if self.report_copied {
            let info = Info { size: Some(size), ..item.info };
            self.push_copied(top, item.source.clone(), item.target.clone(), &info, kind);
        }
    }

    /// Reports a file, or a link, that was at the target before, and is not copied.
    pub(crate) fn unchanged(
        &mut self,
        top: &[u8],
        source: Vec<u8>,
        target: Vec<u8>,
        info: &Info,
        link: Option<Vec<u8>>,
    ) {
        if self.report_copied && !self.dry_run {
            let kind = link.map_or(CopiedKind::File(None), CopiedKind::Link);
            self.push_copied(top, source, target, info, kind);
        }
    }

    fn push_copied(&mut self, top: &[u8], source: Vec<u8>, target: Vec<u8>, info: &Info, kind: CopiedKind) {
        self.event(Event::Copied(Box::new(Copied {
            path: path_below(top, &target),
            source,
            target,
            size: info.size.unwrap_or(0),
            modified: info.times.map(|times| times.modification),
            kind,
        })));
    }

    /// Returns true where nothing more is to be begun: the connection is lost, or the user has stopped the
    /// copy.
    pub(crate) const fn is_over(&self) -> bool {
        self.cancelled || self.summary.lost
    }
}

/// Path of a copy from the target that the command line names; empty for the target itself.
fn path_below(top: &[u8], target: &[u8]) -> Vec<u8> {
    let below = |rest: &&[u8]| rest.is_empty() || top.ends_with(b"/") || rest.starts_with(b"/");
    let rest = target.strip_prefix(top).filter(below).unwrap_or(target);
    let parts = rest.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.collect::<Vec<_>>().join(&b'/')
}

#[cfg(test)]
mod tests {
    use crate::Reporting;

    use super::*;

    fn reporter() -> Reporter {
        Reporter::new(&Options {
            reporting: Reporting { missed: true, ..Reporting::default() },
            ..Options::default()
        })
    }

    #[test]
    fn copies_are_named_by_their_path_below_the_target() {
        for (top, target, path) in [
            ("to", "to", ""),
            ("to", "to/a/./b", "a/b"),
            ("to/", "to/a//b", "a/b"),
            ("to", "tow/a", "tow/a"),
            ("/", "/a", "a"),
        ] {
            assert_eq!(path_below(top.as_bytes(), target.as_bytes()), path.as_bytes(), "{top} {target}");
        }
    }

    #[test]
    fn copies_are_reported_only_where_sums_are_wanted() {
        let item = Item::top(b"from".to_vec(), b"to/f".to_vec(), Info::UNKNOWN);
        for (sums, dry_run, count) in [(false, false, 0), (true, false, 2), (true, true, 1)] {
            let sums = sums.then_some(crate::SumAlgorithm::Sha256);
            let mut report = Reporter::new(&Options {
                reporting: Reporting { sums, ..Reporting::default() },
                dry_run,
                ..Options::default()
            });
            report.copied(b"to", &item, 7, CopiedKind::File(None));
            report.unchanged(b"to", Vec::new(), b"to/g".to_vec(), &Info::UNKNOWN, None);
            assert_eq!(told(&mut report).len(), count);
        }
    }

    #[test]
    fn plans_are_reported_in_the_order_of_paths() {
        let mut report = reporter();
        let turns = [vec![1, 2], vec![1, 1], vec![1, 3]].map(Turn::new);
        turns.iter().for_each(|turn| report.expect(turn));
        let [second, first, third] = turns;
        let event = |text: &str| Event::Notice { text: text.to_owned() };
        report.planned(Some(third), event("3"));
        report.planned(Some(second), event("2"));
        report.skip_in_order(vec![1, 2, 7], vec!["a socket".to_owned()]);
        report.release(None);
        assert!(told(&mut report).is_empty() && report.waits_for_order(), "the first one is not decided");
        report.planned(Some(first), event("1"));
        report.release(Some(&[1, 2, 8]));
        let skipped = Event::Skipped { text: "a socket".to_owned() };
        assert_eq!(told(&mut report), [event("1"), event("2"), skipped]);
        report.release(None);
        assert_eq!(told(&mut report), [event("3")]);
    }

    fn told(report: &mut Reporter) -> Vec<Event> {
        std::iter::from_fn(|| report.poll()).collect()
    }

    #[test]
    fn a_lost_connection_names_few_files_and_counts_the_rest() {
        let mut report = reporter();
        report.fail("before".to_owned());
        report.summary.lost = true;
        for _ in 0..8 {
            report.fail("lost".to_owned());
        }
        report.missed(None);
        report.report_more_losses("gone");
        let events = told(&mut report);
        assert_eq!(events.len(), 1 + LOSSES_TOLD + 1, "{events:?}");
        let last = Event::Failed { text: "3 more files are not copied: gone".to_owned() };
        assert_eq!((events.last(), report.summary.failures), (Some(&last), 9));
    }

    #[test]
    fn failures_are_those_of_their_sources() {
        let mut report = Reporter::new(&Options::default());
        report.watch_sources(&[b"a".to_vec(), b"ab".to_vec(), b"c/".to_vec(), b"d".to_vec()]);
        for path in [&b"ab"[..], b"c/x/y", b"d/z", b"e"] {
            report.blame(path);
        }
        assert_eq!(report.failed_sources().collect::<Vec<_>>(), [&b"ab"[..], b"c/", b"d"]);
    }

    #[test]
    fn a_stopped_copy_counts_failures_without_telling() {
        let mut report = reporter();
        report.cancelled = true;
        report.fail(String::new());
        report.missed(Some(Vec::new()));
        assert!(told(&mut report).is_empty() && report.is_over());
        assert_eq!(report.summary.failures, 1);
    }
}
