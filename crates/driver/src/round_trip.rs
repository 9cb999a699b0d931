//! Round-trip time of the path to the peer. The socket may end at a nearby proxy or jump host, so the peer
//! itself is measured.

use std::time::{Duration, Instant};

use lh_wire::msg::Ping;
use lh_wire::{Message as _, PacketSink as _};

use crate::handler::Core;
use crate::keepalive::KEEPALIVE_REQUEST;

/// Content of the request, which its answer repeats.
const ROUND_TRIP: &[u8] = b"round-trip@longhaul";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// `ping@openssh.com`, for peers that announced support for it.
    Ping,
    /// A global request with an unknown name, for stock clients and for servers before OpenSSH 9.5, where
    /// they are known to answer it.
    Request,
}

/// The outstanding request and its start time.
#[derive(Debug, Default)]
pub(crate) struct RoundTripProbe {
    asked: Option<(Probe, Instant)>,
    /// Kind of request sent last, answered or not. One of each kind is enough.
    done: Option<Probe>,
}

impl RoundTripProbe {
    /// Sends the peer a request whose answer gives the round-trip time of the whole path, where the peer is
    /// known to answer one.
    pub(crate) fn ask(&mut self, core: &mut Core) {
        let transport = core.link.transport_ref();
        let question = if transport.answers_pings() {
            Probe::Ping
        } else if transport.peer().limits().answers_unknown_requests {
            Probe::Request
        } else {
            return;
        };
        if self.done == Some(question) {
            return;
        }
        match question {
            Probe::Ping => core.link.transport().payload(&Ping::new(ROUND_TRIP).to_payload()),
            Probe::Request => {
                let (connection, sink) = core.speak();
                connection.global_request(KEEPALIVE_REQUEST, true, b"", sink);
            }
        }
        self.asked = Some((question, Instant::now()));
        self.done = Some(question);
    }

    /// Returns the time from our ping to this answer; `None` if the content is not ours.
    pub(crate) fn on_pong(&mut self, content: &[u8]) -> Option<Duration> {
        (content == ROUND_TRIP).then(|| self.answered(Probe::Ping)).flatten()
    }

    /// Returns the time from our request to this answer. Answers arrive in order, so the first one is ours.
    pub(crate) fn on_reply(&mut self) -> Option<Duration> {
        self.answered(Probe::Request)
    }

    fn answered(&mut self, question: Probe) -> Option<Duration> {
        let (_, when) = self.asked.take_if(|(asked, _)| *asked == question)?;
        Some(when.elapsed())
    }
}
