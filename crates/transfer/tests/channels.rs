//! Large files over several channels: how many, what goes where, and what is left when something breaks.

mod common;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{
    Ended, Faults, Setup, TempTree, copy_with, in_part_files, over_channels, plan, resuming, same_tree,
};
use lh_testkit::{Seeded, leftovers};
use lh_transfer::{Direction, Limits, Options, Placing, Verify};

const MIB: usize = 1 << 20;
const SIZE: usize = 96 * MIB + 4_321;

/// A server with windows of 2 MiB, 50 ms away, that allows `channels` additional channels.
fn far(channels: usize) -> Setup {
    Setup { stock: true, rtt: Duration::from_millis(50), channels, ..Setup::default() }
}

fn upload(temp: &TempTree, options: Options, setup: &mut Setup) -> Ended {
    copy_with(plan(Direction::Upload, &temp.join("from"), &temp.join("to")), options, temp.path(), setup)
}

fn download(temp: &TempTree, options: Options, setup: &mut Setup) -> Ended {
    copy_with(plan(Direction::Download, &temp.join("from"), &temp.join("to")), options, temp.path(), setup)
}

#[test]
fn a_large_file_takes_as_many_channels_as_its_windows_call_for() {
    let temp = TempTree::new();
    temp.file("from", SIZE);
    let one = upload(&temp, over_channels(1), &mut far(9)).well();
    assert_eq!(one.channels, 0);
    assert!(one.rounds > 45, "{}", one.rounds);
    fs::remove_file(temp.join("to")).expect("a copy");
    let many = upload(&temp, Options::default(), &mut far(20)).well();
    same_tree(&temp.join("from"), &temp.join("to"), false);
    assert_eq!(many.channels, 9, "as many as OpenSSH allows sessions");
    assert!(many.rounds <= 22, "{}", many.rounds);
    assert!(
        many.notices[0].contains("over 4 channels") && many.notices[0].contains("50.0 ms"),
        "{:?}",
        many.notices
    );
}

#[test]
fn no_channels_are_opened_where_they_would_not_help() {
    let temp = TempTree::new();
    temp.file("from", 40 * MIB);
    // A short path; a server whose windows grow; a window that is not the limit; a limit of the user's.
    let limits = Limits { bits_per_second: Some(8 << 30), ..Limits::default() };
    let limited = Options { limits, ..Options::default() };
    for (mut setup, options) in [
        (Setup { rtt: Duration::ZERO, ..far(9) }, Options::default()),
        (Setup { stock: false, ..far(9) }, Options::default()),
        (Setup { window: 100 * MIB, ..far(9) }, Options::default()),
        (far(9), limited),
    ] {
        let ended = upload(&temp, options, &mut setup).well();
        assert_eq!(ended.channels, 0, "{:?}", ended.notices);
        same_tree(&temp.join("from"), &temp.join("to"), false);
    }
    temp.file("from", 4 * MIB);
    assert_eq!(upload(&temp, Options::default(), &mut far(9)).well().channels, 0, "too little is left");
}

#[test]
fn a_server_that_allows_few_or_none_is_taken_as_it_is() {
    for channels in [0, 1, 2, 5] {
        let temp = TempTree::new();
        temp.file("from", 60 * MIB);
        let ended = upload(&temp, Options::default(), &mut far(channels)).well();
        assert_eq!(ended.channels, channels);
        assert!(ended.notices.iter().any(|text| text.contains("no more channels")), "{:?}", ended.notices);
        same_tree(&temp.join("from"), &temp.join("to"), false);
    }
}

#[test]
fn the_user_may_fix_the_number() {
    let temp = TempTree::new();
    temp.file("from", 60 * MIB);
    let options = over_channels(3);
    let mut near = Setup { stock: false, channels: 9, ..Setup::default() };
    assert_eq!(upload(&temp, options, &mut near).well().channels, 2);
    same_tree(&temp.join("from"), &temp.join("to"), false);
}

#[test]
fn files_share_the_channels_with_odd_windows() {
    for (window, piece) in [(MIB, 32 * 1024), (300_001, 1_009)] {
        let temp = TempTree::new();
        for n in 0..4 {
            temp.file(format!("from/{n}"), 20 * MIB + n);
            temp.file(format!("from/small-{n}"), 1_000 * n);
        }
        let options = Options { recursive: true, preserve: true, ..over_channels(5) };
        let mut setup = Setup { window, piece, ..far(4) };
        let ended = upload(&temp, options, &mut setup).well();
        assert_eq!(ended.channels, 4);
        same_tree(&temp.join("from"), &temp.join("to"), true);
    }
}

#[test]
fn writes_of_a_dead_channel_go_over_the_others() {
    for (atomic, verify) in [(false, Verify::Off), (true, Verify::WhenCheap), (true, Verify::Always)] {
        // In the middle of things, with windows that end in the middle of a request, and near the end.
        for (round, window) in [(6, 2 * MIB), (9, 300_001)] {
            let temp = TempTree::new();
            temp.file("from/a", 40 * MIB);
            temp.file("from/b", 20 * MIB + 1);
            let options = Options {
                recursive: true,
                placing: Placing { atomic, ..Placing::default() },
                verify,
                ..over_channels(4)
            };
            let mut setup = Setup { channel_dies: Some((2, round)), window, ..far(3) };
            let ended = upload(&temp, options, &mut setup).well();
            assert!(!ended.summary.lost);
            // Sums that are lost with it are made up for by digests.
            assert_eq!(
                ended.summary.verified,
                if atomic { 2 } else { 0 },
                "{verify:?} {round} {:?}",
                ended.skipped
            );
            same_tree(&temp.join("from"), &temp.join("to"), false);
        }
    }
}

#[test]
fn batches_use_all_channels_and_survive_the_loss_of_one() {
    for direction in [Direction::Upload, Direction::Download] {
        for dies in [None, Some((2, 6)), Some((2, 8))] {
            let temp = TempTree::new();
            for n in 0..1500 {
                temp.file(format!("from/{}/{n}", n % 7), 4_000 + n);
            }
            let options = Options { recursive: true, placing: in_part_files(), ..over_channels(3) };
            let rtt = Duration::from_millis(50);
            let mut setup =
                Setup { rtt, channels: 2, channel_dies: dies, window: 200_000, ..Setup::default() };
            let plan = plan(direction, &temp.join("from"), &temp.join("to"));
            let ended = copy_with(plan, options, temp.path(), &mut setup).well();
            assert_eq!((ended.channels, ended.summary.files), (2, 1500), "{direction:?}");
            same_tree(&temp.join("from"), &temp.join("to"), false);
        }
    }
}

#[test]
fn lost_upload_leaves_a_shorter_file_that_is_right() {
    for cut_after in [1_500, 3_000, 6_000] {
        let temp = TempTree::new();
        temp.file("from", SIZE);
        let mut setup = Setup { cut_after: Some(cut_after), ..far(9) };
        let ended = upload(&temp, Options::default(), &mut setup);
        assert!(ended.summary.lost, "after {cut_after} of {} rounds", ended.rounds);
        let left = fs::read(temp.join("to")).expect("a part");
        assert!(left.len() < SIZE, "{}", left.len());
        let sure = left.len().saturating_sub(32 * MIB);
        assert!(fs::read(temp.join("from")).expect("a file")[..sure] == left[..sure]);
        // To go on from there repairs it.
        let resume = Options { placing: resuming(), ..Options::default() };
        upload(&temp, resume, &mut far(9)).well();
        same_tree(&temp.join("from"), &temp.join("to"), false);
    }
}

#[test]
fn special_files_are_written_in_order_on_one_channel() {
    let temp = TempTree::new();
    temp.file("from", 40 * MIB);
    let opened = Arc::new(Mutex::new(0));
    let offsets = Arc::new(Mutex::new(BTreeSet::new()));
    let (count, seen) = (opened.clone(), offsets.clone());
    let faults = Faults::hook(move |what, _, offset| {
        if what == "open-write" {
            *count.lock().unwrap() += 1;
        }
        if what == "write" {
            assert!(seen.lock().unwrap().last().is_none_or(|&last| offset >= last), "out of order");
            seen.lock().unwrap().insert(offset);
        }
        Ok(())
    });
    let plan = plan(Direction::Upload, &temp.join("from"), std::path::Path::new("/dev/null"));
    let options = over_channels(4);
    // What such a thing says to being cut to its length is another matter.
    copy_with(plan, options, temp.path(), &mut Setup { faults, ..far(3) });
    assert_eq!(*opened.lock().unwrap(), 1);
    assert!(offsets.lock().unwrap().len() > 100);
}

#[test]
fn downloads_add_channels_where_one_is_full() {
    let temp = TempTree::new();
    temp.file("from", SIZE);
    let limits = Limits { request_bytes: Some(8 * 1024), ..Limits::default() };
    let small = Options { limits, ..Options::default() };
    let limits = Limits { channels: Some(1), ..small.limits };
    let one = download(&temp, Options { limits, ..small.clone() }, &mut far(9)).well();
    assert_eq!(one.channels, 0);
    let many = download(&temp, small, &mut far(20)).well();
    same_tree(&temp.join("from"), &temp.join("to"), false);
    assert!(many.channels >= 3, "{}", many.channels);
    assert!(many.rounds < one.rounds, "{} and {}", many.rounds, one.rounds);
    assert!(
        many.notices[0].starts_with("downloading over 4 channels: one takes no more"),
        "{:?}",
        many.notices
    );
    // With requests as large as servers take them the channel is not what limits.
    assert_eq!(download(&temp, Options::default(), &mut far(9)).well().channels, 0);
}

#[test]
fn downloads_use_every_channel_and_accept_short_answers() {
    for (channels, reverse, atomic) in [(2, false, false), (5, true, true), (9, false, true)] {
        let temp = TempTree::new();
        for n in 0..2 {
            temp.file(format!("from/{n}"), 50 * MIB + n);
            temp.file(format!("from/small-{n}"), 1_000 * n);
        }
        let counts = Arc::new(Mutex::new(0));
        let count = counts.clone();
        let faults = Faults::hook(move |what, _, _| {
            *count.lock().unwrap() += usize::from(what == "open-read");
            Ok(())
        });
        let options = Options {
            recursive: true,
            preserve: true,
            verify: Verify::Always,
            placing: Placing { atomic, ..Placing::default() },
            ..over_channels(channels)
        };
        let mut setup = Setup { reverse, faults, ..far(channels - 1) };
        let ended = download(&temp, options, &mut setup).well();
        assert_eq!(ended.channels, channels - 1);
        assert!(*counts.lock().unwrap() > 4, "each channel opens a file of its own");
        if atomic {
            // Small files may come whole in a batch; the large ones are summed up on each of their handles.
            assert!(ended.summary.verified >= 2, "{:?}", ended.summary);
        }
        same_tree(&temp.join("from"), &temp.join("to"), true);
    }
}

#[test]
fn uploads_over_channels_are_verified_by_all_their_sums() {
    let temp = TempTree::new();
    temp.file("from", 40 * MIB + 7);
    let options = Options { verify: Verify::WhenCheap, placing: in_part_files(), ..over_channels(4) };
    let ended = upload(&temp, options, &mut far(3)).well();
    assert_eq!((ended.channels, ended.summary.verified), (3, 1));
    same_tree(&temp.join("from"), &temp.join("to"), false);
}

#[test]
fn reads_of_a_dead_channel_go_over_the_others() {
    let temp = TempTree::new();
    temp.file("from", 90 * MIB);
    let options = over_channels(4);
    let mut setup = Setup { channel_dies: Some((2, 7)), ..far(3) };
    download(&temp, options, &mut setup).well();
    same_tree(&temp.join("from"), &temp.join("to"), false);
}

#[test]
fn a_download_that_was_cut_off_is_right_up_to_the_span() {
    let temp = TempTree::new();
    temp.file("from", SIZE);
    let options = over_channels(4);
    let mut setup = Setup { cut_after: Some(50 << 20), ..far(3) };
    let ended = download(&temp, options, &mut setup);
    assert!(ended.summary.lost);
    let left = fs::read(temp.join("to")).expect("a part");
    assert!(left.len() < SIZE);
    let sure = left.len().saturating_sub(32 * MIB);
    assert!(fs::read(temp.join("from")).expect("a file")[..sure] == left[..sure]);
    let resume = Options { placing: resuming(), ..over_channels(4) };
    download(&temp, resume, &mut far(3)).well();
    same_tree(&temp.join("from"), &temp.join("to"), false);
}

#[test]
fn connections_that_answer_at_their_own_pace_do_not_stall() {
    let temp = TempTree::new();
    for n in 0..300 {
        temp.file(format!("from/d{}/f{n}", n % 7), n * 16);
    }
    for n in 0..30 {
        temp.file(format!("from/m{n}"), n * 20_000);
    }
    temp.file("from/big", 20 * MIB + 1);
    for seed in 0..4 {
        for direction in [Direction::Upload, Direction::Download] {
            let mut random = Seeded::new(seed);
            let bytes_in_flight = 60_000 + random.below(1 << 20) as u64;
            let options = Options {
                recursive: true,
                limits: Limits { channels: Some(2), bytes_in_flight, ..Limits::default() },
                ..Options::default()
            };
            let mut setup = Setup { channels: 1, separate: Some(random), ..Setup::default() };
            let to = temp.join(format!("{seed}{}", direction == Direction::Upload));
            let ended = copy_with(plan(direction, &temp.join("from"), &to), options, temp.path(), &mut setup);
            assert_eq!(ended.well().channels, 1);
            same_tree(&temp.join("from"), &to, false);
            fs::remove_dir_all(&to).expect("a copy");
        }
    }
}

/// Each OPEN for writing empties the file, without a flag that says so, as `rclone serve sftp` has it.
fn emptied_by_open() -> Faults {
    Faults::hook(|what, path, _| {
        let path = OsStr::from_bytes(path);
        if what == "open-write" && Path::new(path).exists() {
            fs::OpenOptions::new().write(true).truncate(true).open(path)?;
        }
        Ok(())
    })
}

#[test]
fn file_emptied_by_a_second_open_is_copied_whole() {
    for (channels, in_place) in [(Some(4), false), (Some(4), true), (None, false)] {
        let temp = TempTree::new();
        temp.file("from", SIZE);
        let mut setup = Setup { foreign: true, faults: emptied_by_open(), ..far(9) };
        // What the journal knows of the first attempt is worth nothing, either.
        let journal = Some(temp.join("state/journal"));
        let options = Options {
            limits: Limits { channels, ..Limits::default() },
            placing: Placing { atomic: !in_place, journal, ..Placing::default() },
            ..Options::default()
        };
        upload(&temp, options, &mut setup).well();
        same_tree(&temp.join("from"), &temp.join("to"), false);
    }
}

/// Like `rclone serve sftp` without a cache, which reports the creation of what exists as well, and then
/// takes no WRITE.
#[test]
fn part_file_that_a_second_open_empties_goes_away() {
    let temp = TempTree::new();
    temp.file("from/file", SIZE);
    let faults = Faults { overwrites_nothing: true, ..emptied_by_open() };
    let mut setup = Setup { foreign: true, faults, ..far(9) };
    let options = Options { recursive: true, placing: in_part_files(), ..over_channels(4) };
    upload(&temp, options, &mut setup).well();
    same_tree(&temp.join("from"), &temp.join("to"), false);
    assert_eq!(lh_testkit::leftovers(temp.path()), Vec::<std::path::PathBuf>::new());
}

/// A server that refuses each second OPEN gets the file on one channel.
#[test]
fn file_that_opens_once_is_copied_whole() {
    let temp = TempTree::new();
    temp.file("from", SIZE);
    let opened = Mutex::new(BTreeSet::new());
    let faults = Faults::hook(move |what, path, _| {
        let new = what != "open-write" || opened.lock().unwrap().insert(path.to_vec());
        if new { Ok(()) } else { Err(rustix::io::Errno::BUSY.into()) }
    });
    let mut setup = Setup { foreign: true, faults, ..far(9) };
    upload(&temp, over_channels(4), &mut setup).well();
    same_tree(&temp.join("from"), &temp.join("to"), false);
}

#[test]
fn unknown_server_that_keeps_files_gets_several_channels() {
    let temp = TempTree::new();
    temp.file("from", SIZE);
    let ended = upload(&temp, Options::default(), &mut Setup { foreign: true, ..far(20) }).well();
    same_tree(&temp.join("from"), &temp.join("to"), false);
    assert_eq!(ended.channels, 9);
    assert!(ended.rounds <= 30, "{}", ended.rounds);
}

/// Each OPEN for writing begins at the start of an empty file, and what does not follow what was written is
/// refused, as `rclone serve sftp` without a cache has it.
fn written_in_order() -> Faults {
    let mut ends: Vec<(Vec<u8>, u64)> = Vec::new();
    Faults::hook(move |what, path, offset| {
        let end = match ends.iter().position(|(name, _)| name == path) {
            Some(at) => &mut ends[at].1,
            None => &mut ends.push_mut((path.to_vec(), 0)).1,
        };
        match what {
            "open-write" => *end = 0,
            "write" if offset > *end + (1 << 20) || (offset > 0 && *end == 0) => {
                return Err(rustix::io::Errno::SPIPE.into());
            }
            "write" => *end = (*end).max(offset + (32 << 10)),
            _ => {}
        }
        Ok(())
    })
}

#[test]
fn file_that_is_written_in_order_alone_goes_over_one_channel() {
    for (channels, atomic) in [(Some(1), false), (Some(4), false), (Some(4), true), (None, true)] {
        let temp = TempTree::new();
        temp.file("from", SIZE);
        let options = Options {
            limits: Limits { channels, ..Limits::default() },
            placing: Placing { atomic, ..Placing::default() },
            ..Options::default()
        };
        let mut setup = Setup { foreign: true, faults: written_in_order(), ..far(9) };
        upload(&temp, options, &mut setup).well();
        same_tree(&temp.join("from"), &temp.join("to"), false);
    }
}

#[test]
fn file_that_is_written_in_order_alone_is_not_continued() {
    let temp = TempTree::new();
    temp.file("from", SIZE);
    let durable = || Options {
        placing: Placing { atomic: true, journal: Some(temp.join("state/journal")), ..Placing::default() },
        verify: Verify::WhenCheap,
        ..Options::default()
    };
    let at_server = || Setup { foreign: true, faults: written_in_order(), ..far(1) };
    let mut killed = Setup { kill_after: Some(SIZE as u64 / 2), ..at_server() };
    upload(&temp, durable(), &mut killed);
    assert_eq!(leftovers(temp.path()).len(), 1);
    let ended = upload(&temp, durable(), &mut at_server()).well();
    same_tree(&temp.join("from"), &temp.join("to"), false);
    assert!(
        ended.notices.iter().any(|text| text.contains("(Illegal seek): from its start")),
        "{:?}",
        ended.notices
    );
    assert_eq!(leftovers(temp.path()).len(), 0);
}

/// Like [`emptied_by_open`], and the server tells the size `old` of files that are not complete.
fn emptied_with_old_size(old: u64) -> Setup {
    let tamper = move |mut message: Vec<u8>| {
        // ATTRS: type, id, flags, size.
        if message.first() == Some(&lh_sftp::PacketType::ATTRS.0) && message[8] & 1 != 0 {
            let size = u64::from_be_bytes(message[9..17].try_into().unwrap());
            if size != SIZE as u64 {
                message[9..17].copy_from_slice(&old.to_be_bytes());
            }
        }
        vec![message]
    };
    Setup { foreign: true, faults: emptied_by_open(), tamper: Box::new(tamper), ..far(1) }
}

#[test]
fn old_size_does_not_hide_that_open_empties() {
    for old in [SIZE + 5, SIZE - 5, 40 * MIB, 1000] {
        let temp = TempTree::new();
        temp.file("from", SIZE);
        fs::write(temp.join("to"), vec![7; old]).unwrap();
        let options =
            Options { placing: Placing { atomic: false, ..Placing::default() }, ..over_channels(2) };
        upload(&temp, options, &mut emptied_with_old_size(old as u64)).well();
        same_tree(&temp.join("from"), &temp.join("to"), false);
    }
}

/// The rest of an upload goes on in a part file, or in the target itself, which had more bytes than were
/// right.
#[test]
fn old_size_of_a_continued_file_does_not_hide_that_open_empties() {
    let part = [(false, false, 0), (false, false, SIZE / 4)];
    let in_place =
        [(true, false, SIZE / 4), (true, false, SIZE), (false, true, SIZE / 4), (false, true, SIZE)];
    for (resume, adopt_partial, wrong_from) in part.into_iter().chain(in_place) {
        let temp = TempTree::new();
        temp.file("from", SIZE);
        let journal = || (!resume).then(|| temp.join("state/journal"));
        let options = || Options {
            placing: Placing {
                atomic: !resume,
                resume,
                adopt_partial,
                journal: journal(),
                ..Placing::default()
            },
            ..over_channels(2)
        };
        let found = if resume || adopt_partial {
            let mut begin = fs::read(temp.join("from")).unwrap();
            begin.truncate(SIZE / 2);
            fs::write(temp.join("to"), begin).unwrap();
            temp.join("to")
        } else {
            upload(
                &temp,
                options(),
                &mut Setup { foreign: true, kill_after: Some(SIZE as u64 / 2), ..far(1) },
            );
            leftovers(temp.path()).remove(0)
        };
        let mut data = fs::read(&found).unwrap();
        data.iter_mut().skip(wrong_from).for_each(|byte| *byte = !*byte);
        fs::write(&found, &data).unwrap();
        let ended = upload(&temp, options(), &mut emptied_with_old_size(data.len() as u64));
        let is_same = fs::read(temp.join("to")).ok() == fs::read(temp.join("from")).ok();
        assert!(
            is_same || ended.summary.failures > 0,
            "{resume} {adopt_partial} {wrong_from}: wrong bytes, and no error"
        );
    }
}

/// Like [`emptied_by_open`], and the server tells the size from before the last OPEN while the file is empty.
fn emptied_with_remembered_size() -> Setup {
    let remembered = Arc::new(Mutex::new(0));
    let noted = Arc::clone(&remembered);
    let faults = Faults::hook(move |what, path, _| {
        let path = Path::new(OsStr::from_bytes(path));
        if what == "open-write" && path.exists() {
            *noted.lock().unwrap() = fs::metadata(path)?.len();
            fs::OpenOptions::new().write(true).truncate(true).open(path)?;
        }
        Ok(())
    });
    let tamper = move |mut message: Vec<u8>| {
        // ATTRS: type, id, flags, size.
        let is_attrs = message.first() == Some(&lh_sftp::PacketType::ATTRS.0) && message[8] & 1 != 0;
        if is_attrs && message[9..17] == [0; 8] {
            message[9..17].copy_from_slice(&remembered.lock().unwrap().to_be_bytes());
        }
        vec![message]
    };
    Setup { foreign: true, faults, tamper: Box::new(tamper), ..far(9) }
}

#[test]
fn remembered_size_does_not_hide_that_a_second_open_empties() {
    for (atomic, old) in [(true, None), (false, None), (false, Some(1000))] {
        let temp = TempTree::new();
        temp.file("from", SIZE);
        if let Some(old) = old {
            fs::write(temp.join("to"), vec![7; old]).unwrap();
        }
        let options = Options { placing: Placing { atomic, ..Placing::default() }, ..over_channels(2) };
        let ended = upload(&temp, options, &mut emptied_with_remembered_size()).well();
        same_tree(&temp.join("from"), &temp.join("to"), false);
        assert!(ended.notices.iter().any(|text| text.contains("empties")), "{:?}", ended.notices);
    }
}
