//! The absence of the client: the session waits for it, and gives up the locks of part files meanwhile.

use super::Sftp;
use super::own_thread::follow;

impl Sftp {
    /// Tells the engine that the client is away, or back, as soon as no thread has it.
    pub(super) fn follow_client(&mut self) {
        if !self.has_news_of_client() {
            return;
        }
        self.is_paused = self.shared.client.is_away.get();
        if let Some(thread) = &self.thread {
            thread.follow(self.is_paused);
        }
        if let Some(server) = &mut self.server {
            follow(server, self.is_paused);
        }
    }

    pub(super) fn has_news_of_client(&self) -> bool {
        let can_follow = self.thread.is_some() || self.server.is_some();
        can_follow && !self.ended && self.shared.client.is_away.get() != self.is_paused
    }
}
