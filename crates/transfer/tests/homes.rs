//! Small files of an upload over several channels of OpenSSH's server, each over one of them.

mod common;

use std::fs;
use std::path::Path;
use std::time::Duration;

use common::{
    Ended, Faults, Setup, TempTree, copy_with, in_part_files, over_channels, plan, same_tree, stock,
};
use lh_testkit::{Seeded, leftovers};
use lh_transfer::{Direction, Limits, Options, Verify};

/// Small files are read and written in pieces that fit a window of this size.
const WINDOW: usize = 64 * 1024;

fn files(temp: &TempTree, count: usize, size: impl Fn(usize) -> usize) {
    for n in 0..count {
        temp.file(format!("from/d{}/f{n}", n % 11), size(n));
    }
}

fn upload(temp: &TempTree, options: Options, setup: &mut Setup) -> Ended {
    copy_with(plan(Direction::Upload, &temp.join("from"), &temp.join("to")), options, temp.path(), setup)
}

fn tree() -> Options {
    Options { recursive: true, placing: in_part_files(), ..Options::default() }
}

fn openssh() -> Setup {
    Setup { channels: 9, window: WINDOW, ..stock(&[]) }
}

#[test]
fn thousands_of_small_files_go_up_over_three_channels() {
    let temp = TempTree::new();
    files(&temp, 3_000, |n| 2_000 + n);
    let one = Options { limits: Limits { channels: Some(1), ..Limits::default() }, ..tree() };
    let one = upload(&temp, one, &mut openssh()).well();
    assert_eq!(one.channels, 0);
    same_tree(&temp.join("from"), &temp.join("to"), false);
    fs::remove_dir_all(temp.join("to")).expect("a copy");
    let ended = upload(&temp, tree(), &mut openssh()).well();
    assert_eq!((ended.channels, ended.summary.files), (2, 3_000));
    assert!(ended.notices[0].contains("over 3 channels: the server has a process"), "{:?}", ended.notices);
    // Those that had begun before went over the first one.
    assert!(ended.sent.iter().all(|&bytes| bytes * 5 > one.sent[0]), "{:?} of {:?}", ended.sent, one.sent);
    same_tree(&temp.join("from"), &temp.join("to"), false);
    assert_eq!(leftovers(&temp.join("to")), Vec::<std::path::PathBuf>::new());
}

#[test]
fn other_copies_stay_on_one_channel() {
    let temp = TempTree::new();
    files(&temp, 900, |n| n);
    // A server of ours, one of another make, one that has not told its limits, and one that is told one.
    let ours = Setup { channels: 9, ..Setup::default() };
    let other = stock(&["lsetstat@openssh.com"]);
    let old = stock(&["limits@openssh.com"]);
    for (mut setup, options) in [
        (ours, tree()),
        (Setup { channels: 9, ..other }, tree()),
        (Setup { channels: 9, ..old }, tree()),
        (openssh(), Options { limits: over_channels(1).limits, ..tree() }),
        (
            openssh(),
            Options { limits: Limits { bits_per_second: Some(8 << 30), ..Limits::default() }, ..tree() },
        ),
    ] {
        assert_eq!(upload(&temp, options, &mut setup).well().channels, 0);
        same_tree(&temp.join("from"), &temp.join("to"), false);
        fs::remove_dir_all(temp.join("to")).expect("a copy");
    }
    let down = plan(Direction::Download, &temp.join("from"), &temp.join("to"));
    assert_eq!(copy_with(down, tree(), temp.path(), &mut openssh()).well().channels, 0);
    fs::remove_dir_all(temp.join("from")).expect("the files");
    files(&temp, 300, |n| n);
    fs::remove_dir_all(temp.join("to")).expect("a copy");
    assert_eq!(upload(&temp, tree(), &mut openssh()).well().channels, 0, "too few are left");
}

/// Sizes that end in every way: empty, in one WRITE, in several, too large for a home of their own.
fn mixed(temp: &TempTree, random: &mut Seeded) {
    let sizes: Vec<usize> = (0..1_100)
        .map(|n| match n % 100 {
            0 => random.below(3 << 20),
            1..6 => random.below(200_000),
            _ => random.below(9_000),
        })
        .collect();
    files(temp, sizes.len(), |n| sizes[n]);
}

#[test]
fn files_of_a_lost_channel_are_copied_again_over_the_others() {
    for seed in 0..8 {
        let mut random = Seeded::new(seed);
        let temp = TempTree::new();
        mixed(&temp, &mut random);
        let placing = if seed % 3 == 0 { lh_transfer::Placing::default() } else { in_part_files() };
        let verify = if seed % 4 == 0 { Verify::Always } else { Verify::WhenCheap };
        let options =
            Options { recursive: true, preserve: seed % 2 == 0, placing, verify, ..Options::default() };
        let mut setup = openssh();
        setup.window = [WINDOW, 2 << 20][random.below(2)];
        setup.channel_dies = Some((1 + random.below(2), 4 + random.below(30)));
        if seed % 2 == 0 {
            setup.separate = Some(Seeded::new(seed));
        } else {
            setup.slow_files = Some(Seeded::new(seed));
        }
        let ended = upload(&temp, options, &mut setup).well();
        assert_eq!((ended.channels, ended.summary.files), (2, 1_100), "{seed}");
        same_tree(&temp.join("from"), &temp.join("to"), seed % 2 == 0);
        assert_eq!(leftovers(&temp.join("to")), Vec::<std::path::PathBuf>::new(), "{seed}");
    }
}

#[test]
fn connections_at_their_own_pace_do_not_stall() {
    for seed in 0..4 {
        let mut random = Seeded::new(seed);
        let temp = TempTree::new();
        mixed(&temp, &mut random);
        let bytes_in_flight = 60_000 + random.below(1 << 20) as u64;
        let limits = Limits { channels: Some(4), bytes_in_flight, ..Limits::default() };
        let mut setup = openssh();
        (setup.separate, setup.rtt) = (Some(Seeded::new(seed)), Duration::from_micros(100));
        let ended = upload(&temp, Options { limits, ..tree() }, &mut setup);
        // A server that seems to drop requests is asked again after a minute of virtual time.
        assert!(ended.took < Duration::from_secs(20), "{seed}: {:?}", ended.took);
        assert_eq!(ended.well().channels, 3);
        same_tree(&temp.join("from"), &temp.join("to"), false);
    }
}

#[test]
fn what_a_channel_refuses_is_named_and_nothing_else_is_lost() {
    let refuses: [(&str, rustix::io::Errno); 3] = [
        ("open-write", rustix::io::Errno::ACCESS),
        ("write", rustix::io::Errno::NOSPC),
        ("rename", rustix::io::Errno::PERM),
    ];
    for (what, errno) in refuses {
        let temp = TempTree::new();
        files(&temp, 1_200, |n| 1_000 + n);
        // Under both names, as the file grows under another one.
        let faults = Faults::hook(move |asked, path, _| {
            let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            // Its own name, or the beginning of that of its part file, which goes on with a tag.
            let hit = asked == what
                && name.split(|&byte| byte == b'.').any(|part| part == b"f700" || part == b"f1100");
            if hit { Err(errno.into()) } else { Ok(()) }
        });
        let ended = upload(&temp, tree(), &mut Setup { faults, ..openssh() });
        assert_eq!(ended.channels, 2, "{what}");
        for failure in &ended.failures {
            assert!(failure.contains("f700") || failure.contains("f1100"), "{what}: {failure}");
        }
        assert!(ended.failures.len() <= 2 && ended.summary.files >= 1_198, "{what}: {:?}", ended.failures);
        for n in (0..1_200).filter(|n| ![700, 1_100].contains(n)) {
            let name = format!("d{}/f{n}", n % 11);
            let read = |top: &str| fs::read(temp.join(top).join(Path::new(&name))).expect("a file");
            assert!(read("from") == read("to"), "{what}: {name}");
        }
    }
}

#[test]
fn a_copy_that_is_cut_off_goes_on_with_the_same_command() {
    for seed in 0..4 {
        let mut random = Seeded::new(100 + seed);
        let temp = TempTree::new();
        mixed(&temp, &mut random);
        fs::create_dir(temp.join("to")).expect("a directory");
        let mut cut = Setup { cut_after: Some(60_000 + random.below(60_000) as u64), ..openssh() };
        let ended = upload(&temp, tree(), &mut cut);
        assert!(ended.summary.lost && ended.channels == 2, "{seed}: {}", ended.channels);
        // Nothing wrong has its final name.
        for n in 0..1_100 {
            let name = format!("d{}/f{n}", n % 11);
            if let Ok(copied) = fs::read(temp.join("to/from").join(&name)) {
                assert!(copied == fs::read(temp.join("from").join(&name)).expect("a file"), "{seed}: {name}");
            }
        }
        upload(&temp, tree(), &mut openssh()).well();
        same_tree(&temp.join("from"), &temp.join("to/from"), false);
        assert_eq!(leftovers(&temp.join("to")), Vec::<std::path::PathBuf>::new(), "{seed}");
    }
}
