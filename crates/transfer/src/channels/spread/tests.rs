use std::time::Instant;

use crate::Direction;
use crate::end::{Fault, Handle, Info};
use crate::item::Item;
use crate::task::File;
use crate::task::handles::LEAST_LEFT;
use crate::task::state::{Copying, State};

use super::*;

/// A file whose data move, and two additional channels that are in use.
struct Copy {
    tasks: Tasks,
    ends: Ends,
    reopening: Reopening,
    key: Key,
}

impl Copy {
    fn new(direction: Direction, size: u64) -> Self {
        let mut ends = Ends::new(direction);
        ends.adopt(direction.side_with_channels(), lh_sftp::Session::new());
        ends.channels.add_ready();
        ends.channels.add_ready();
        let info = Info { kind: Kind::File, size: Some(size), ..Info::UNKNOWN };
        let mut file = File::new(0, Item::top(b"from".to_vec(), b"to".to_vec(), info), Instant::now());
        file.state = State::Copying(Copying::default());
        file.requests.size = size;
        let mut tasks = Tasks::default();
        let key = tasks.files.insert(file);
        tasks.send_first(key);
        Self { tasks, ends, reopening: Reopening::default(), key }
    }

    fn spread(&mut self) -> Spread<'_> {
        Spread { tasks: &mut self.tasks, ends: &mut self.ends, reopening: &mut self.reopening }
    }

    fn file(&mut self) -> &mut File {
        self.tasks.files.get_mut(self.key).expect("a file")
    }

    /// Requests without answers on each channel.
    fn awaited(&mut self) -> [usize; 3] {
        [0, 1, 2].map(|channel| self.ends.requests_on(channel).map_or(0, |(awaited, _)| awaited))
    }

    fn open(&mut self, channel: usize) {
        let (key, handle) = (self.key, Handle::Remote(lh_sftp::Handle::new(&[channel as u8]), channel));
        self.file().outstanding -= 1;
        self.spread().opened(key, channel, Ok(Done::Opened(handle, None)), ReadBack::Spots);
    }

    fn stops(&self) -> bool {
        stops_to_reopen(self.reopening, &self.tasks, &self.ends)
    }
}

#[test]
fn a_large_file_is_opened_once_on_each_channel_and_closed_there() {
    let mut copy = Copy::new(Direction::Download, 10 * LEAST_LEFT);
    copy.spread().open_front();
    copy.spread().open_front();
    assert_eq!((copy.awaited(), copy.file().outstanding), ([0, 1, 1], 2));
    copy.open(1);
    assert!(copy.file().handles.on_channel(Side::Source, 1).is_some());
    let key = copy.key;
    copy.file().outstanding -= 1;
    copy.spread().opened(key, 2, Err(Fault::other("refused")), ReadBack::Spots);
    assert!(copy.spread().close(key), "one answer is awaited");
    assert_eq!((copy.awaited(), copy.file().outstanding), ([0, 2, 1], 1));
    copy.file().outstanding -= 1;
    assert!(!copy.spread().close(key), "nothing is open any more");
}

#[test]
fn small_files_and_special_ones_stay_on_one_channel() {
    let mut copy = Copy::new(Direction::Download, LEAST_LEFT - 1);
    copy.spread().open_front();
    assert_eq!(copy.awaited(), [0; 3]);
    let mut copy = Copy::new(Direction::Download, LEAST_LEFT);
    copy.file().item.info.kind = Kind::Special;
    copy.spread().open_front();
    assert_eq!(copy.awaited(), [0; 3]);
}

#[test]
fn second_open_is_probed_when_all_writes_are_confirmed() {
    let mut copy = Copy::new(Direction::Upload, 10 * LEAST_LEFT);
    copy.spread().open_front();
    assert_eq!(copy.awaited(), [0, 1, 0], "whether it is a plain file");
    copy.file().outstanding -= 1;
    copy.file().handles.plain = Plain::Yes;
    copy.spread().open_front();
    assert!(!copy.stops(), "an empty file tells nothing");
    copy.file().requests.next = 1000;
    copy.file().requests.writes = 1;
    copy.spread().open_front();
    assert!(copy.stops() && copy.awaited() == [0, 1, 0]);
    copy.file().requests.writes = 0;
    copy.spread().open_front();
    copy.spread().open_front();
    assert_eq!(copy.awaited(), [0, 2, 0], "it is opened on one channel");
    copy.open(1);
    assert_eq!(copy.awaited(), [0, 3, 0], "its size is asked");
    let key = copy.key;
    assert!(copy.reopening.remains_came(key, Remains::Data) && !copy.stops());
    copy.spread().open_front();
    assert_eq!(copy.awaited(), [0, 3, 1], "the other channels follow");
}

/// Opens that many other files, and closes them.
fn others(copy: &mut Copy, count: u8) -> Vec<Key> {
    let other = |n: u8| {
        let item = Item::top(vec![n], vec![n], Info::UNKNOWN);
        let mut file = File::new(n.into(), item, Instant::now());
        file.handles.source = Some(Handle::Remote(lh_sftp::Handle::new(&[n]), 0));
        file
    };
    (0..count).map(|n| copy.tasks.files.insert(other(n))).collect()
}

#[test]
fn refused_opens_are_repeated_when_fewer_files_are_open() {
    let mut copy = Copy::new(Direction::Download, 10 * LEAST_LEFT);
    copy.file().handles.source = Some(Handle::Remote(lh_sftp::Handle::new(b"first"), 0));
    let others = others(&mut copy, 7);
    let key = copy.key;
    copy.spread().open_front();
    let refuse = |copy: &mut Copy, channel| {
        copy.file().outstanding -= 1;
        copy.spread().opened(key, channel, Err(Fault::other("too many open files")), ReadBack::Spots);
    };
    refuse(&mut copy, 1);
    copy.open(2);
    copy.spread().open_front();
    assert_eq!(copy.awaited(), [0, 1, 1], "as much is open");
    others[..4].iter().for_each(|&other| _ = copy.tasks.remove(other));
    copy.spread().open_front();
    copy.spread().open_front();
    assert_eq!(copy.awaited(), [0, 2, 1], "it is opened once more");
    refuse(&mut copy, 1);
    others[4..].iter().for_each(|&other| _ = copy.tasks.remove(other));
    copy.spread().open_front();
    assert_eq!(copy.awaited(), [0, 2, 1], "the refusal was meant");
    assert!(copy.file().handles.on_channel(Side::Source, 2).is_some());
}

#[test]
fn second_open_is_probed_again_when_fewer_files_are_open() {
    let mut copy = Copy::new(Direction::Upload, 10 * LEAST_LEFT);
    let target = || Some(Handle::Remote(lh_sftp::Handle::new(b"first"), 0));
    copy.file().handles.target = target();
    let others = others(&mut copy, 3);
    others.iter().for_each(|&other| copy.tasks.files.get_mut(other).expect("it").handles.target = target());
    let key = copy.key;
    copy.file().handles.plain = Plain::Yes;
    copy.file().requests.next = 1000;
    copy.spread().open_front();
    copy.file().outstanding -= 1;
    copy.spread().opened(key, 1, Err(Fault::other("Failure")), ReadBack::Spots);
    copy.spread().open_front();
    assert!(!copy.stops() && copy.awaited() == [0, 1, 0], "its data go on meanwhile");
    others.iter().for_each(|&other| _ = copy.tasks.remove(other));
    copy.spread().open_front();
    copy.spread().open_front();
    assert!(copy.stops() && copy.awaited() == [0, 2, 0]);
    copy.open(1);
    assert!(copy.reopening.remains_came(key, Remains::Data));
}

#[test]
fn second_open_is_probed_again_after_a_lost_channel() {
    let mut copy = Copy::new(Direction::Upload, 10 * LEAST_LEFT);
    let key = copy.key;
    copy.file().handles.plain = Plain::Yes;
    copy.file().requests.next = 1000;
    copy.spread().open_front();
    copy.file().outstanding -= 1;
    copy.spread().opened(key, 1, Err(Fault::other("Failure")), ReadBack::Spots);
    assert_eq!((copy.reopening, copy.awaited()), (Reopening::Refused(key), [0, 2, 0]));
    copy.ends.channels.standing(1).expect("a channel").fail("Connection closed");
    let lost = Err(Fault::other("Connection closed"));
    assert_eq!(copy.spread().size_came(key, 1, &lost), None, "most likely it did nothing");
    assert_eq!(copy.reopening, Reopening::Unknown);
    copy.file().outstanding -= 1;
    copy.spread().open_front();
    copy.spread().open_front();
    assert!(copy.stops() && copy.awaited() == [0, 0, 1], "the other channel is asked");
}

#[test]
fn servers_with_one_open_file_get_no_second_open() {
    let mut copy = Copy::new(Direction::Upload, 10 * LEAST_LEFT);
    copy.file().handles.plain = Plain::Yes;
    copy.file().requests.next = 1000;
    copy.file().requests.writes = 1;
    copy.spread().open_front();
    assert!(copy.stops(), "until all is confirmed");
    copy.ends.open_one_at_a_time(Side::Target);
    copy.file().requests.writes = 0;
    copy.spread().open_front();
    assert_eq!(copy.awaited(), [0; 3]);
    assert!(!copy.stops(), "nothing would end that");
}
