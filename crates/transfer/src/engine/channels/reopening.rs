//! Finds out whether a server leaves a file as it is that is opened once more to be written to.
//!
//! Servers in front of an object store or a cache, as `rclone serve sftp`, empty a file at each OPEN for
//! writing, also where the flags do not say so: opening it on a second channel then costs all that has been written. So
//! before the first file goes over several channels to a server that is not known to keep what it has, the
//! copy stops, waits until everything sent is confirmed, opens the file on one other channel and asks for its
//! size. Once for each copy.

use lh_sftp::extension;

use crate::channels::Reopening;
use crate::end::Op;
use crate::engine::Engine;
use crate::remote::Remote;
use crate::table::Key;
use crate::task::handles::OnChannel;
use crate::token::{FileStep, Side, Token};

impl Engine {
    /// Returns true where the file `key`, which is being written, may be opened on all channels. Where that is
    /// not known it asks.
    pub(super) fn keeps_reopened(&mut self, key: Key) -> bool {
        match self.channels.reopening {
            Reopening::Keeps => return true,
            Reopening::Never => return false,
            Reopening::Asking(asked) if asked == key => {}
            Reopening::Asking(_) | Reopening::Unknown => {
                // OpenSSH's server and Longhaul's, which both have this, obey the flags.
                let known =
                    |remote: &Remote| remote.is_ours() || remote.session().supports(extension::LSETSTAT);
                if self.ends.remote(Side::Target).is_some_and(|remote| known(remote)) {
                    self.channels.reopening = Reopening::Keeps;
                    return true;
                }
                // An empty file tells nothing.
                if self.tasks.files.get(key).is_some_and(|file| file.requests.next > 0) {
                    self.channels.reopening = Reopening::Asking(key);
                }
            }
        }
        if self.reopens_now() {
            self.open_once_more(key);
        }
        false
    }

    fn open_once_more(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.handles.on_channels.resize_with(self.channels.all.len(), OnChannel::default);
        let usable = |at: &usize| {
            let remote = &self.channels.all[*at].remote;
            remote.ready() && !remote.lost() && matches!(file.handles.on_channels[*at], OnChannel::Unknown)
        };
        let Some(at) = (0..self.channels.all.len()).find(usable) else {
            // It was refused on each.
            self.channels.reopening = Reopening::Never;
            return;
        };
        file.handles.on_channels[at] = OnChannel::Without;
        file.handles.reopens = true;
        file.outstanding += 1;
        let path = file.written_path().to_vec();
        let token = Token::File(key, FileStep::OpenOnChannel { channel: at + 1 });
        self.perform_on(at + 1, Op::OpenExisting(&path), token);
    }

    /// The file was opened on a channel, or not: where that was the question, what is in it now?
    pub(super) fn reopened(&mut self, key: Key, channel: usize, opened: bool) {
        if self.channels.reopening != Reopening::Asking(key) {
            return;
        }
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if !opened {
            // A channel that is gone says nothing about files.
            file.handles.reopens = false;
            let lost = self.channels.channel(channel).is_none_or(|remote| remote.lost());
            self.channels.reopening = if lost { Reopening::Unknown } else { Reopening::Never };
            return;
        }
        file.outstanding += 1;
        let path = file.written_path().to_vec();
        self.perform_on(channel, Op::Stat(&path), Token::File(key, FileStep::SizeReopened));
    }
}
