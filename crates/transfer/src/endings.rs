//! Closes both ends of a file: attributes, CLOSE, and what a server refuses of that.

use crate::end::{Change, Done, Fault, FaultKind, Kind, Op, Outcome};
use crate::ends::Ends;
use crate::flow::Flow;
use crate::table::Key;
use crate::task::preserve::Preserved;
use crate::task::queues::Tasks;
use crate::task::state::{Closed, Closing, Copying, State};
use crate::token::{FileStep, Side, Token};
use crate::wording::FailedStep;
use crate::{Direction, Options, local, wording};

/// The files on their way, as far as they end.
#[derive(Debug)]
pub(crate) struct Endings<'a> {
    pub(crate) direction: Direction,
    pub(crate) options: &'a Options,
    pub(crate) tasks: &'a mut Tasks,
    pub(crate) ends: &'a mut Ends,
    pub(crate) flow: &'a mut Flow,
}

impl Endings<'_> {
    /// Sets what is to be set on the target and closes both ends. `known_sum`: over a copy that is complete
    /// already. Returns true where no answer is to come.
    pub(crate) fn close(&mut self, key: Key, known_sum: Option<Vec<u8>>) -> bool {
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        let mut closed = Closed { examined: file.state.is_examined(), ..Closed::default() };
        let mode_mask = match &file.state {
            State::Copying(Copying { preserved, source_after }) => {
                closed.changed = source_after.changed();
                preserved.mode_mask(0o777)
            }
            _ => Preserved::Todo.mode_mask(0o777),
        };
        self.flow.ahead.expect(&mut file.queued.ahead, 0);
        self.flow.in_flight.release(file.relay.held.values().flatten().map(|piece| piece.len() as u64).sum());
        file.relay.held.clear();
        let (source, target) = (file.handles.source.take(), file.handles.target.take());
        let (direction, failed) = (self.direction, file.faults.failed);
        let foreign = self.ends.is_foreign(Side::Target);
        let change = file.change_on_close(direction, self.options.preserve, mode_mask, foreign);
        // The cut on the handle is enough, also when its answer is a failure.
        closed.cut = failed;
        if !failed {
            closed.size = file.copied_size(direction);
            closed.sum = file.sums.content.finish(closed.size).or(known_sum);
        }
        file.state = State::Closing(Closing { closed, change, refused: None });
        let size_after_wanted = foreign && !failed;
        let set = target.is_some() && change != Change::default();
        let close = target.is_some();
        let sync = close && !failed && self.options.placing.sync;
        file.outstanding += u32::from(set) + u32::from(sync) + u32::from(close);
        if let Some(handle) = source
            && self.ends.source.is_some()
        {
            self.ends.start(Side::Source, Op::Close(handle), Token::Nothing);
        }
        if let Some(handle) = target {
            if set {
                let op = Op::SetHandle { handle: &handle, change };
                self.ends.start(Side::Target, op, Token::File(key, FileStep::Attributes));
            }
            if sync {
                self.ends.start(Side::Target, Op::Sync(&handle), Token::File(key, FileStep::Sync));
            }
            if file.place.growing().is_some() {
                file.place.lock = local::keep_lock(&handle);
            }
            self.ends.start(Side::Target, Op::Close(handle), Token::File(key, FileStep::CloseTarget));
            if size_after_wanted {
                file.outstanding += 1;
                let token = Token::File(key, FileStep::SizeAfter);
                self.ends.start(Side::Target, Op::Stat(file.written_path()), token);
            }
        }
        !set && !close
    }

    /// Cuts a file that failed after its CLOSE to what is known to be right. False where there is nothing to
    /// cut.
    pub(crate) fn cut_later(&mut self, key: Key) -> bool {
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        if !file.wants_cut(self.direction) || !file.state.advance(State::Cutting) {
            return false;
        }
        file.outstanding += 1;
        let change = Change { size: Some(file.cut_at()), ..Change::default() };
        let op = Op::SetPath { path: file.written_path(), change };
        self.ends.start(Side::Target, op, Token::File(key, FileStep::Repair));
        true
    }

    /// Servers may not set attributes of open files and yet by their path, or not at all and yet take files.
    /// Returns why the file fails.
    pub(crate) fn attributes_refused(&mut self, key: Key, fault: Fault) -> Option<Fault> {
        let file = self.tasks.files.get_mut(key)?;
        if file.faults.failed || fault.kind == FaultKind::Lost || self.direction == Direction::Download {
            return Some(fault);
        }
        let State::Closing(closing) = &mut file.state else { return None };
        closing.refused = Some(fault);
        let change = closing.change;
        file.outstanding += 1;
        let op = Op::SetPath { path: file.written_path(), change };
        self.ends.start(Side::Target, op, Token::File(key, FileStep::AttributesByPath));
        None
    }

    /// Takes the answer to that. Returns why the file fails.
    pub(crate) fn attributes_by_path(&mut self, key: Key, outcome: Outcome) -> Option<Fault> {
        let file = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed)?;
        match outcome {
            Ok(_) => {
                if let State::Closing(closing) = &mut file.state {
                    closing.refused = None;
                }
                None
            }
            Err(fault) if fault.kind == FaultKind::Lost => Some(fault),
            Err(_) => {
                file.outstanding += 1;
                let token = Token::File(key, FileStep::SizeCheck);
                self.ends.start(Side::Target, Op::Stat(file.written_path()), token);
                None
            }
        }
    }

    /// Nothing can be set. What has the right size, or none (a device, a pipe), gets its name all the same;
    /// attributes that were to be preserved are reported. Returns why the file fails.
    pub(crate) fn size_came(&mut self, key: Key, outcome: Outcome) -> Option<Fault> {
        let file = self.tasks.files.get_mut(key)?;
        let State::Closing(closing) = &mut file.state else { return None };
        let (fault, size) = (closing.refused.take()?, closing.closed.size);
        let (special, right) = match outcome {
            Ok(Done::Info(info)) => (info.kind == Kind::Special, info.size == Some(size)),
            _ => (false, false),
        };
        if !right && !special {
            return Some(fault);
        }
        if self.options.preserve && !special {
            let text = wording::failed(self.direction, FailedStep::FinishTarget, &file.item.target, &fault);
            closing.closed.flaw = Some(text);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use crate::end::Info;
    use crate::flow::Bounds;
    use crate::item::Item;
    use crate::task::File;

    use super::*;

    const SIZE: u64 = 100;

    struct Host {
        options: Options,
        tasks: Tasks,
        ends: Ends,
        flow: Flow,
        key: Key,
    }

    impl Host {
        /// An upload of a file whose bytes are all taken.
        fn new(options: Options) -> Self {
            let info = Info { size: Some(SIZE), mode: Some(0o600), ..Info::UNKNOWN };
            let item = Item::top(b"from".to_vec(), b"to".to_vec(), info);
            let mut file = File::new(0, item, Instant::now());
            (file.requests.size, file.requests.next) = (SIZE, SIZE);
            file.taken.confirm(0, SIZE);
            file.state = State::Copying(Copying::default());
            let mut tasks = Tasks::default();
            let key = tasks.files.insert(file);
            let ends = Ends::new(Direction::Upload);
            Self { options, tasks, ends, flow: Flow::new(Bounds::for_tests(), Instant::now()), key }
        }

        fn endings(&mut self) -> Endings<'_> {
            Endings {
                direction: Direction::Upload,
                options: &self.options,
                tasks: &mut self.tasks,
                ends: &mut self.ends,
                flow: &mut self.flow,
            }
        }

        fn file(&mut self) -> &mut File {
            self.tasks.files.get_mut(self.key).expect("the file")
        }

        fn size(size: u64) -> Outcome {
            Ok(Done::Info(Info { kind: Kind::File, size: Some(size), ..Info::UNKNOWN }))
        }
    }

    fn refused() -> Fault {
        Fault::other("Operation unsupported")
    }

    #[test]
    fn a_file_without_a_handle_ends_at_once() {
        let mut host = Host::new(Options::default());
        let key = host.key;
        assert!(host.endings().close(key, Some(vec![1])));
        let closed = host.file().state.closed().expect("it is closed");
        assert_eq!((closed.size, closed.sum.as_deref(), closed.cut), (SIZE, Some(&[1][..]), false));
    }

    #[test]
    fn refused_attributes_are_set_by_path_and_then_the_size_decides() {
        for (size, preserve, fails, flaw) in
            [(SIZE, false, false, false), (SIZE, true, false, true), (7, true, true, false)]
        {
            let mut host = Host::new(Options { preserve, ..Options::default() });
            let key = host.key;
            host.endings().close(key, None);
            assert!(host.endings().attributes_refused(key, refused()).is_none());
            assert_eq!(host.file().outstanding, 1, "it is set by the path");
            assert!(host.endings().attributes_by_path(key, Err(refused())).is_none());
            assert_eq!(host.file().outstanding, 2, "the size is asked for");
            assert_eq!(host.endings().size_came(key, Host::size(size)).is_some(), fails, "{size}");
            let closed = host.file().state.closed().expect("it is closed");
            assert_eq!(closed.flaw.is_some(), flaw, "{size}");
        }
    }

    #[test]
    fn attributes_that_can_be_set_by_path_are_no_failure() {
        let mut host = Host::new(Options { preserve: true, ..Options::default() });
        let key = host.key;
        host.endings().close(key, None);
        assert!(host.endings().attributes_refused(key, refused()).is_none());
        assert!(host.endings().attributes_by_path(key, Ok(Done::Ok)).is_none());
        assert!(host.endings().size_came(key, Host::size(7)).is_none(), "nothing was refused");
        let lost = Fault { kind: FaultKind::Lost, text: "gone".to_owned() };
        assert!(host.endings().attributes_refused(key, lost).is_some());
    }

    #[test]
    fn files_that_fail_after_their_close_are_cut_once() {
        let mut host = Host::new(Options::default());
        let key = host.key;
        host.endings().close(key, None);
        host.file().taken.prefix = 40;
        assert!(!host.endings().cut_later(key), "it is right");
        host.file().faults.failed = true;
        assert!(host.endings().cut_later(key));
        assert!(matches!(host.file().state, State::Cutting(_)));
    }
}
