//! Decides how many channels a copy gets.

use std::time::Duration;

use crate::Direction;
use crate::channels::{Channels, homes};

/// On a shorter path a closed window means that the server is busy, and several would make it busier.
const LEAST_RTT: Duration = Duration::from_millis(2);

/// Channels at most: OpenSSH's server allows ten sessions (`MaxSessions`).
const MOST: usize = 10;

/// Facts about a copy that decide whether more channels help.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    /// Additional channels that there are, those that are gone included.
    pub(crate) have: usize,
    /// Channels that the user wants; by default they are measured.
    pub(crate) channels: Option<usize>,
    /// The server's window grows with what is sent.
    pub(crate) window_grows: bool,
    /// The user limits the rate.
    pub(crate) rate_limited: bool,
    /// Thousands of small files are on their way to a server that has a process for each channel.
    pub(crate) small_files: bool,
}

impl Channels {
    /// Returns how many more channels would help now, and counts them as asked for.
    pub(crate) fn ask_for_more(&mut self, demand: Demand) -> usize {
        if self.asked > 0 {
            return 0;
        }
        let have = demand.have;
        let goal = match demand.channels {
            Some(channels) => channels.max(1) - 1,
            None if demand.small_files => homes::CHANNELS - 1,
            None => self.goal_by_measure(demand),
        };
        self.asked = goal.min(self.most.unwrap_or(usize::MAX)).saturating_sub(have);
        self.asked
    }

    /// Twice as many, if all there are were found full: their windows shut, or as many requests on their way
    /// as are good for one.
    fn goal_by_measure(&self, demand: Demand) -> usize {
        let have = demand.have;
        let long = self.rtt.is_some_and(|rtt| rtt >= LEAST_RTT);
        let all_shut = self.shut.count_ones() as usize > have;
        match (have + 1) * 2 {
            _ if demand.window_grows || demand.rate_limited || !long || !all_shut => have,
            2 => 3,
            twice => twice.min(MOST) - 1,
        }
    }

    /// Says that there are to be `wanted` more, and why.
    pub(crate) fn notice(&self, direction: Direction, wanted: usize, demand: Demand) -> String {
        let channels = demand.have + wanted + 1;
        let (step, why) = match direction {
            Direction::Download => ("downloading", "one takes no more requests"),
            Direction::Upload | Direction::Relay => ("uploading", "the server's window is shut"),
        };
        match (demand.channels, self.rtt) {
            (None, _) if demand.small_files => {
                format!("{step} over {channels} channels: the server has a process for each")
            }
            (None, Some(rtt)) => {
                let milliseconds = rtt.as_secs_f64() * 1e3;
                format!("{step} over {channels} channels: {why}, at a round trip of {milliseconds:.1} ms")
            }
            _ => format!("{step} over {channels} channels"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: Demand =
        Demand { have: 0, channels: None, window_grows: false, rate_limited: false, small_files: false };

    fn channels(shut: u64, milliseconds: u64) -> Channels {
        Channels { shut, rtt: Some(Duration::from_millis(milliseconds)), ..Channels::default() }
    }

    #[test]
    fn channels_are_doubled_while_all_are_full_on_a_long_path() {
        for (additional, shut, milliseconds, wanted) in [
            (0, 0b1, 50, 3),
            (3, 0b1111, 50, 4),
            (7, 0xff, 50, 2),
            (9, 0x3ff, 50, 0),
            (3, 0b111, 50, 0),
            (0, 1, 1, 0),
        ] {
            let demand = Demand { have: additional, ..MEASURED };
            let wants = channels(shut, milliseconds).ask_for_more(demand);
            assert_eq!(wants, wanted, "{additional} channels, {shut:b} shut, {milliseconds} ms");
        }
        for demand in [Demand { window_grows: true, ..MEASURED }, Demand { rate_limited: true, ..MEASURED }] {
            assert_eq!(channels(1, 50).ask_for_more(demand), 0, "{demand:?}");
        }
    }

    #[test]
    fn more_are_asked_for_when_the_last_ones_are_answered() {
        let mut some = channels(0, 0);
        let demand = Demand { channels: Some(4), ..MEASURED };
        assert_eq!((some.ask_for_more(demand), some.ask_for_more(demand)), (3, 0));
        some.on_opened();
        assert!(some.refused(1) && !some.refused(1), "the server allows one");
        assert_eq!(some.ask_for_more(demand), 1);
        some.on_opened();
        assert_eq!(some.ask_for_more(Demand { have: 1, ..demand }), 0);
    }

    #[test]
    fn a_new_channel_begins_the_measuring_again() {
        let mut some = channels(0, 70);
        some.round_trip(Duration::from_millis(50));
        some.round_trip(Duration::from_millis(60));
        assert_eq!(some.rtt, Some(Duration::from_millis(50)), "the shortest counts");
        some.note_full(0);
        some.note_full(64);
        assert_eq!((some.shut, some.ask_for_more(MEASURED)), (1, 3));
        (0..3).for_each(|_| some.on_opened());
        assert_eq!((some.shut, some.ask_for_more(Demand { have: 3, ..MEASURED })), (0, 0));
    }

    #[test]
    fn small_files_get_their_channels_once_however_short_the_path() {
        let demand = Demand { small_files: true, ..MEASURED };
        // On a busy machine the path looks long and the window shut.
        let mut some = channels(1, 50);
        assert_eq!(some.ask_for_more(demand), homes::CHANNELS - 1);
        assert!(some.notice(Direction::Upload, 2, demand).ends_with("the server has a process for each"));
        (1..homes::CHANNELS).for_each(|_| some.on_opened());
        assert_eq!(some.ask_for_more(Demand { have: homes::CHANNELS - 1, ..demand }), 0);
        let fixed = Demand { channels: Some(1), ..demand };
        assert_eq!(channels(0, 0).ask_for_more(fixed), 0, "the user wants one");
    }

    #[test]
    fn the_reason_is_given_where_it_was_measured() {
        let some = channels(1, 50);
        let text = some.notice(Direction::Upload, 3, MEASURED);
        assert_eq!(
            text,
            "uploading over 4 channels: the server's window is shut, at a round trip of 50.0 ms"
        );
        let demand = Demand { channels: Some(4), ..MEASURED };
        assert_eq!(some.notice(Direction::Download, 3, demand), "downloading over 4 channels");
    }
}
