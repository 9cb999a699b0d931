//! The channels to the end that may have several: the first one, and additional ones for large files.
//!
//! This is the mechanism alone: which channel is there, and what is half sent on it. How many there are to be
//! is decided in [`wanted`](crate::channels::wanted), and what goes over them in the engine.

use crate::channels::unfinished::Unfinished;
use crate::remote::Remote;
use crate::token::Side;

/// An additional channel to the remote end, and what is half sent on it.
#[derive(Debug)]
struct AdditionalChannel {
    remote: Remote,
    unfinished: Option<Unfinished>,
}

/// The additional channels of a copy by number, from 1; those that are gone keep theirs.
#[derive(Debug)]
pub(crate) struct DataChannels {
    /// The end that they lead to.
    side: Side,
    all: Vec<AdditionalChannel>,
    /// The half-sent WRITE of the first channel, which has the number 0.
    first_unfinished: Option<Unfinished>,
}

impl DataChannels {
    pub(crate) const fn new(side: Side) -> Self {
        Self { side, all: Vec::new(), first_unfinished: None }
    }

    /// The end that they lead to.
    pub(crate) const fn side(&self) -> Side {
        self.side
    }

    /// Adds a channel that is open and that the SFTP subsystem runs on; returns its number.
    pub(crate) fn add(&mut self) -> usize {
        let number = self.all.len() + 1;
        let mut remote = Remote::of_channel(number);
        remote.start(false);
        self.all.push(AdditionalChannel { remote, unfinished: None });
        number
    }

    /// Like [`DataChannels::add`], with a server that has sent its version.
    #[cfg(test)]
    pub(crate) fn add_ready(&mut self) {
        let remote = Remote::with_session(lh_sftp::Session::new()).on_channel(self.all.len() + 1);
        self.all.push(AdditionalChannel { remote, unfinished: None });
    }

    /// Number of channels ever opened, closed ones included.
    pub(crate) const fn count(&self) -> usize {
        self.all.len()
    }

    /// The remote end of an additional channel.
    pub(crate) fn get(&self, channel: usize) -> Option<&Remote> {
        self.all.get(channel.checked_sub(1)?).map(|channel| &channel.remote)
    }

    /// Like [`DataChannels::get`], to be changed.
    pub(crate) fn get_mut(&mut self, channel: usize) -> Option<&mut Remote> {
        self.all.get_mut(channel.checked_sub(1)?).map(|channel| &mut channel.remote)
    }

    /// Like [`DataChannels::get_mut`]; `None` too where the channel is gone.
    pub(crate) fn standing(&mut self, channel: usize) -> Option<&mut Remote> {
        self.get_mut(channel).filter(|remote| !remote.lost())
    }

    /// Those that are in use, with their numbers.
    pub(crate) fn usable(&self) -> impl Iterator<Item = (usize, &Remote)> {
        let all = self.all.iter().enumerate().map(|(at, channel)| (at + 1, &channel.remote));
        all.filter(|(_, remote)| is_usable(remote))
    }

    /// Like [`DataChannels::usable`], to be asked something.
    pub(crate) fn usable_mut(&mut self) -> impl Iterator<Item = (usize, &mut Remote)> {
        let all = self.all.iter_mut().enumerate().map(|(at, channel)| (at + 1, &mut channel.remote));
        all.filter(|(_, remote)| is_usable(remote))
    }

    /// From now on nothing is opened on any of them while something is open there.
    pub(crate) fn open_one_at_a_time(&mut self) {
        self.all.iter_mut().for_each(|channel| channel.remote.open_one_at_a_time());
    }

    /// The place for what is half sent on channel number `channel`; 0 is the first one.
    pub(crate) fn unfinished(&mut self, channel: usize) -> Option<&mut Option<Unfinished>> {
        match channel.checked_sub(1) {
            None => Some(&mut self.first_unfinished),
            Some(at) => self.all.get_mut(at).map(|channel| &mut channel.unfinished),
        }
    }

    /// Returns true where the first channel is in the middle of a message.
    pub(crate) const fn is_first_unfinished(&self) -> bool {
        self.first_unfinished.is_some()
    }

    /// Forgets what is half sent: the end is gone.
    pub(crate) fn clear_unfinished(&mut self) {
        self.first_unfinished = None;
        self.all.iter_mut().for_each(|channel| channel.unfinished = None);
    }
}

fn is_usable(remote: &Remote) -> bool {
    remote.ready() && !remote.lost()
}

#[cfg(test)]
mod tests {
    use crate::channels::unfinished::Rest;

    use super::*;

    fn half_sent(key: u32) -> Unfinished {
        Unfinished { key, head: Vec::new(), offset: 0, left: 1, rest: Rest::File, sum: None }
    }

    #[test]
    fn channels_keep_their_numbers_when_one_is_gone() {
        let mut channels = DataChannels::new(Side::Target);
        assert_eq!([channels.add(), channels.add()], [1, 2]);
        assert!(channels.get(0).is_none() && channels.get(3).is_none(), "the first one is not among them");
        channels.get_mut(1).expect("a channel").fail("gone");
        assert!(channels.standing(1).is_none() && channels.standing(2).is_some());
        assert_eq!((channels.add(), channels.count()), (3, 3));
        assert_eq!(channels.usable().count(), 0, "no server has answered yet");
    }

    #[test]
    fn each_channel_stores_one_half_sent_write() {
        let mut channels = DataChannels::new(Side::Target);
        channels.add();
        for channel in 0..2 {
            *channels.unfinished(channel).expect("a place") = Some(half_sent(channel as u32));
        }
        assert!(channels.unfinished(2).is_none() && channels.is_first_unfinished());
        let key = |write: Option<Unfinished>| write.map(|write| write.key);
        assert_eq!(channels.unfinished(1).map(|write| key(write.take())), Some(Some(1)));
        assert!(channels.is_first_unfinished());
        channels.clear_unfinished();
        assert!(!channels.is_first_unfinished());
    }
}
