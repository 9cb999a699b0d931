//! How far away the peer is: its socket may end at a proxy or a jump host in the next room, so the peer itself is asked.

use std::time::{Duration, Instant};

use lh_wire::msg::Ping;
use lh_wire::{Message as _, PacketSink as _};

use crate::core::Core;
use crate::keepalive::KEEPALIVE_REQUEST;

/// What a question and its answer hold.
const ROUND_TRIP: &[u8] = b"round-trip@longhaul";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// `ping@openssh.com`, of those who have said that they answer it.
    Ping,
    /// A global request that means nothing, for stock clients and for servers before OpenSSH 9.5, of those
    /// who are known to answer it.
    Request,
}

/// The question that was asked, and when.
#[derive(Debug, Default)]
pub(crate) struct Distance {
    asked: Option<(Question, Instant)>,
    /// Answered or not, one is enough.
    done: Option<Question>,
}

impl Distance {
    /// Asks the peer for an answer that tells the round trip of the whole path, where it is known to give one.
    pub(crate) fn ask(&mut self, core: &mut Core) {
        let transport = core.link.transport_ref();
        let question = if transport.answers_pings() {
            Question::Ping
        } else if transport.peer().limits().answers_unknown_requests {
            Question::Request
        } else {
            return;
        };
        if self.done == Some(question) {
            return;
        }
        match question {
            Question::Ping => core.link.transport().payload(&Ping::new(ROUND_TRIP).to_payload()),
            Question::Request => {
                let (connection, sink) = core.speak();
                connection.global_request(KEEPALIVE_REQUEST, true, b"", sink);
            }
        }
        self.asked = Some((question, Instant::now()));
        self.done = Some(question);
    }

    /// The time since the ping that this answers, or `None` where it answers somebody else's.
    pub(crate) fn on_pong(&mut self, content: &[u8]) -> Option<Duration> {
        (content == ROUND_TRIP).then(|| self.answered(Question::Ping)).flatten()
    }

    /// The time since the request that this answers: the first one, for answers come in order.
    pub(crate) fn on_reply(&mut self) -> Option<Duration> {
        self.answered(Question::Request)
    }

    fn answered(&mut self, question: Question) -> Option<Duration> {
        let (_, when) = self.asked.take_if(|(asked, _)| *asked == question)?;
        Some(when.elapsed())
    }
}
