//! The events of a copy, and how it went.

use std::collections::VecDeque;

use crate::{Event, Summary};

/// Files at most that are named when a connection is lost.
const LOSSES_TOLD: usize = 5;

/// Events that wait to be fetched, and the sums of them.
#[derive(Debug)]
pub(crate) struct Reporter {
    events: VecDeque<Event>,
    pub(crate) summary: Summary,
    /// Failures since the connection was lost.
    losses: usize,
    /// The user has stopped the copy: what fails from now on is not reported.
    pub(crate) cancelled: bool,
    /// See [`crate::Options::report_missed`].
    report_missed: bool,
}

impl Reporter {
    pub(crate) fn new(report_missed: bool) -> Self {
        let (events, summary) = (VecDeque::new(), Summary::default());
        Self { events, summary, losses: 0, cancelled: false, report_missed }
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.events.push_back(event);
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

    /// How many files the connection's loss for `reason` cost beyond those that were named.
    pub(crate) fn report_more_losses(&mut self, reason: &str) {
        if self.losses > LOSSES_TOLD && !self.cancelled {
            let text = format!("{} more files are not copied: {reason}", self.losses - LOSSES_TOLD);
            self.event(Event::Failed { text });
        }
    }

    /// Something is left out on purpose.
    pub(crate) fn skip(&mut self, text: String) {
        self.event(Event::Skipped { text });
    }

    /// Something was not copied: its path from the top of the tree, `None` for what the command line names.
    pub(crate) fn missed(&mut self, path: Option<Vec<u8>>) {
        if self.report_missed && !self.cancelled && !self.summary.lost {
            self.event(Event::Missed { path });
        }
    }

    /// Returns true where nothing more is to be begun: the connection is lost, or the user has stopped the copy.
    pub(crate) const fn is_over(&self) -> bool {
        self.cancelled || self.summary.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(report: &mut Reporter) -> Vec<Event> {
        std::iter::from_fn(|| report.poll()).collect()
    }

    #[test]
    fn a_lost_connection_names_few_files_and_counts_the_rest() {
        let mut report = Reporter::new(true);
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
    fn a_stopped_copy_counts_failures_without_telling() {
        let mut report = Reporter::new(true);
        report.cancelled = true;
        report.fail(String::new());
        report.missed(Some(Vec::new()));
        assert!(told(&mut report).is_empty() && report.is_over());
        assert_eq!(report.summary.failures, 1);
    }
}
