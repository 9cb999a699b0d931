//! Looks at a source once more when it has been read: did it change meanwhile ([`crate::changed`])?
//!
//! A file of this host is looked at when its last byte has been read. Of a remote one FSTAT is asked: behind the last READ of
//! a small file, which costs no round trip, and before the CLOSE of a large one.

use crate::changed::{Changed, Precision};
use crate::end::{Done, Op, Outcome};
use crate::engine::Engine;
use crate::engine::files::CLOSE_BEHIND;
use crate::options::Verify;
use crate::table::Key;
use crate::task::File;
use crate::task::source_after::SourceAfter;
use crate::task::state::State;
use crate::token::{FileStep, Side, Token};
use crate::{Direction, Event, local, wording};

impl Engine {
    /// Asks behind the last READ, where the answer to that will not be waited for.
    pub(super) fn look_at_source_ahead(&mut self, key: Key) {
        let small = |file: &File| {
            file.requests.size <= CLOSE_BEHIND && file.handles.on_channels.is_empty() && !file.requests.to_eof
        };
        if self.ends.source.is_some() && self.tasks.files.get(key).is_some_and(small) {
            self.look_at_source(key);
        }
    }

    /// All of the source has been asked for, or read. True while its end has not said how it is now.
    pub(super) fn look_at_source(&mut self, key: Key) -> bool {
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        let State::Copying(copying) = &mut file.state else { return false };
        match copying.source_after {
            SourceAfter::Known(_) => return false,
            SourceAfter::Asked { .. } => return true,
            SourceAfter::Unasked => {}
        }
        let wanted = !file.faults.failed && file.handles.target.is_some();
        let Some(handle) = file.handles.source.clone().filter(|_| wanted) else { return false };
        let op = Op::Fstat(&handle);
        if self.ends.source.is_none() {
            self.source_looked_at(key, &local::perform(op));
            return false;
        }
        copying.source_after = SourceAfter::Asked { outdated: false };
        file.outstanding += 1;
        self.ends.start(Side::Source, op, Token::File(key, FileStep::SourceAfter));
        true
    }

    pub(super) fn source_looked_at(&mut self, key: Key, outcome: &Outcome) {
        let ours = self.ends.source.as_ref().is_none_or(|source| source.is_ours());
        let precision = if ours { Precision::Exact } else { Precision::Later };
        let direction = self.plan.direction;
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let State::Copying(copying) = &mut file.state else { return };
        if copying.source_after == (SourceAfter::Asked { outdated: true }) {
            copying.source_after = SourceAfter::Unasked;
            return;
        }
        let read = match direction {
            _ if !file.requests.to_eof => file.requests.size,
            Direction::Upload => file.requests.next,
            Direction::Download => file.taken.prefix,
            Direction::Relay => file.relay.write_at,
        };
        let changed = match outcome {
            Ok(Done::Info(after)) => Changed::between(&file.item.info, after, read, precision),
            // An end that cannot tell; that it is lost shows elsewhere.
            _ => None,
        };
        copying.source_after = SourceAfter::Known(changed);
    }

    /// The copy is in its place: says that its source changed. Where a verified copy was asked for, that is a failure.
    pub(super) fn report_changed(&mut self, source: &[u8], changed: Changed) {
        let text = wording::source_changed(source, changed);
        if self.options.verify == Verify::Always {
            return self.report.fail(text);
        }
        self.report.event(Event::Changed { source: source.to_vec(), text });
    }
}
