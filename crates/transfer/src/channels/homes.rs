//! Small files of an upload over several channels: each goes over one of them, from its first request to its
//! last.
//!
//! OpenSSH's server runs an SFTP server for each channel, a process that does one thing after the other. For
//! thousands of small files it takes longer than the client and the cipher, and two of them take less time
//! than one. Requests about one file stay in their order because they stay on one channel, and the handle of
//! a file, which means another file on another channel, is used on its own.

use crate::table::Key;

/// Files up to this size stay on one channel. Larger ones may be [spread](crate::channels::spread) later.
pub(crate) const LARGEST: u64 = 1 << 20;

/// Files that have been begun before there is more than one channel: a short copy ends before it is open.
pub(crate) const BEGUN: u64 = 256;

/// Listed files that still wait then.
pub(crate) const WAITING: usize = 256;

/// Channels for small files, unless the user says otherwise: with more of them the server's process for the
/// connection is what takes longest.
pub(crate) const CHANNELS: usize = 3;

/// Channel of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    /// The one with the least on its way when the first request about it is made.
    Any,
    Channel(usize),
}

/// The channel of each file on its way.
#[derive(Debug, Default)]
pub(crate) struct Homes {
    by_key: Vec<Home>,
}

impl Homes {
    /// The file `key` begins. `any`: over any channel, else over the first one.
    pub(crate) fn begin(&mut self, key: Key, any: bool) {
        let at = key as usize;
        if self.by_key.len() <= at {
            self.by_key.resize(at + 1, Home::Channel(0));
        }
        self.by_key[at] = if any { Home::Any } else { Home::Channel(0) };
    }

    /// The channel of the file `key`; from now on the `idlest` one, if it has none yet.
    pub(crate) fn of(&mut self, key: Key, idlest: impl FnOnce() -> usize) -> usize {
        match self.by_key.get_mut(key as usize) {
            None => 0,
            Some(Home::Channel(channel)) => *channel,
            Some(home) => {
                let channel = idlest();
                *home = Home::Channel(channel);
                channel
            }
        }
    }

    /// An additional channel is gone: its files belong to the first one from now on. Returns their keys, and
    /// perhaps those of files that have ended.
    pub(crate) fn leave(&mut self, channel: usize) -> Vec<Key> {
        let mut left = Vec::new();
        for (key, home) in self.by_key.iter_mut().enumerate() {
            if *home == Home::Channel(channel) {
                *home = Home::Channel(0);
                left.push(key as Key);
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stays_on_the_channel_of_its_first_request() {
        let mut homes = Homes::default();
        assert_eq!(homes.of(7, || 1), 0, "it has not begun");
        homes.begin(3, true);
        assert_eq!((homes.of(3, || 2), homes.of(3, || 1), homes.of(2, || 1)), (2, 2, 0));
        homes.begin(4, false);
        assert_eq!(homes.of(4, || 2), 0);
        homes.begin(3, true);
        assert_eq!(homes.of(3, || 1), 1, "the key is another file's");
    }

    #[test]
    fn files_of_a_lost_channel_go_to_the_first() {
        let mut homes = Homes::default();
        for (key, channel) in [(0, 1), (1, 2), (2, 1)] {
            homes.begin(key, true);
            homes.of(key, || channel);
        }
        homes.begin(3, true);
        assert_eq!(homes.leave(1), [0, 2]);
        assert_eq!([0, 1, 2, 3].map(|key| homes.of(key, || 2)), [0, 2, 0, 2]);
    }
}
