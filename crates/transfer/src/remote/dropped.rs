//! Requests that a server has dropped ([`crate::flow`]), servers that do not answer INIT, and the end of a
//! session.

use std::time::{Duration, Instant};

use lh_sftp::ReplyBody;

use crate::end::{Handle, Op};
use crate::flow::Next;
use crate::remote::Remote;
use crate::remote::outgoing::Outgoing;
use crate::remote::pending::What;
use crate::token::Token;

impl Remote {
    /// Handles the late answer to a request that counted as dropped. Nothing waits for it any more.
    pub(super) fn too_late(&mut self, body: ReplyBody) {
        if let ReplyBody::Handle(handle) = body {
            self.perform(Op::Close(Handle::Remote(handle, self.channel)), Token::Nothing);
        }
    }

    /// From now on the server can answer INIT: it is given up if it does not do so `within` this time.
    pub(crate) const fn expect_version(&mut self, within: Option<Duration>) {
        (self.awaits_version, self.version_timeout) = (true, within);
    }

    /// The wait for the answer to INIT begins again: the server shows that it works, or could not be reached.
    pub(crate) const fn extend_wait_for_version(&mut self, now: Instant) {
        if !self.ready {
            self.silence.answered(now);
        }
    }

    /// Returns true where the server was given up because it did not answer INIT in time.
    pub(crate) const fn has_given_up(&self) -> bool {
        self.silence.has_given_up()
    }

    /// Asks for answers that the server has dropped: see `check` of `flow/silence.rs`.
    pub(crate) fn look_for_answers(&mut self, timeout: Duration, now: Instant) -> Next {
        if self.awaits_version && !self.ready && !self.lost() {
            return self.silence.look_for_version(self.version_timeout, timeout, now);
        }
        // A server that stands still takes no more requests. One that takes them is not silent, however long
        // a slow path needs for them.
        if self.outgoing.take_progress() && !self.outgoing.is_empty() {
            self.silence.answered(now);
        }
        let awaited = self.ready && !self.lost();
        self.silence.check(self.pending.oldest().filter(|_| awaited), timeout, now)
    }

    /// The probe was answered, which is not awaited any more: what was asked for before it will not be
    /// answered. Returns its tokens.
    pub(crate) fn give_up_older(&mut self, now: Instant) -> Vec<Token> {
        let mut tokens = Vec::new();
        for (id, awaited) in self.pending.give_up_older() {
            match awaited.what {
                What::Opens => drop(self.handles.answered(id)),
                What::Closes => self.handles.closed(id),
                What::Lists => self.listed.forget(id),
                What::Looks(look) => tokens.extend(self.listed.give_up(look)),
                What::Other => {}
            }
            tokens.push(awaited.token);
        }
        self.silence.probed(!tokens.is_empty(), now);
        self.open_waiting();
        self.look_at_more();
        tokens
    }

    /// Ends the session and returns the tokens that will never be answered.
    pub(crate) fn fail(&mut self, reason: &str) -> Vec<Token> {
        self.lost.get_or_insert_with(|| reason.to_owned());
        self.outgoing = Outgoing::default();
        let awaited = self.pending.take_all().map(|awaited| awaited.token);
        let closed = self.early_closes.drain(..).map(|(_, token, _)| token);
        let listed = self.listed.take_all();
        awaited
            .chain(closed)
            .chain(listed)
            .chain(self.to_open.take_all().map(|waiting| waiting.token))
            .collect()
    }
}
