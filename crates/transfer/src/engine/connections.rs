//! Asks for additional connections when [`crate::additional`] finds them worth having, and says why.

use std::time::Instant;

use crate::Event;
use crate::additional::{Limit, Load, Verdict};
use crate::engine::Engine;

impl Engine {
    /// To be called every [`LOOK`](crate::additional::LOOK). True when an additional connection is wanted:
    /// answer with [`Engine::connection_came`] or [`Engine::connection_refused`].
    pub(crate) fn look_at_load(&mut self, load: Load, now: Instant) -> bool {
        if self.parts.options.limits.channels.is_some()
            || self.parts.flow.rate.is_set()
            || self.parts.is_finished()
        {
            return false;
        }
        let totals = self.totals();
        let bytes = self.parts.report.summary.bytes;
        let left = totals.bytes_found.saturating_sub(totals.bytes);
        let megabytes = |rate: f64| rate / 1e6;
        let text = match self.parts.channels.connections.evaluate(load, bytes, left, now) {
            Verdict::Nothing => return false,
            Verdict::Ask(limit, rate) => {
                let why = match limit {
                    Limit::Core => format!("one core is busy for {:.0} % with this one", load.busy * 100.0),
                    Limit::OtherEnd => "the other end may be busy with this one".to_owned(),
                    Limit::Loss => format!("{:.2} % is lost on the way", load.lost * 100.0),
                };
                let text =
                    format!("asking for an additional connection: {why}, at {:.1} MB/s", megabytes(rate));
                self.parts.report.event(Event::Notice { text });
                return true;
            }
            Verdict::Worth(old, new) => {
                format!(
                    "the additional connection helps: {:.1} instead of {:.1} MB/s",
                    megabytes(new),
                    megabytes(old)
                )
            }
            Verdict::NotWorth(old, new) => format!(
                "the additional connection does not help: {:.1} after {:.1} MB/s; no more for now",
                megabytes(new),
                megabytes(old)
            ),
        };
        self.parts.report.event(Event::Notice { text });
        false
    }

    /// The connection that was asked for stands.
    pub(crate) fn connection_came(&mut self) {
        self.parts.channels.connections.on_connected();
    }

    /// There is to be none.
    pub(crate) fn connection_refused(&mut self) {
        self.parts.channels.connections.refuse();
    }
}
