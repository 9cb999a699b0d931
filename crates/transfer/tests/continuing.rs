//! Copies that were interrupted are continued: little moves twice, and nothing that another process has
//! changed is kept.

mod common;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use common::{Ended, Faults, Setup, TempTree, copy_with, plan, same_tree, stock};

use lh_testkit::{Seeded, leftovers};
use lh_transfer::{Direction, Limits, Options, Placing, Verify};
use rustix::io::Errno;

/// Options of a copy that survives, with its journal beside the trees.
fn durable(temp: &TempTree) -> Options {
    let journal = Some(temp.join("state/journal"));
    Options {
        recursive: true,
        placing: Placing { atomic: true, journal, ..Placing::default() },
        verify: Verify::WhenCheap,
        ..Options::default()
    }
}

#[test]
fn the_same_command_completes_a_copy_of_which_some_failed() {
    for direction in [Direction::Upload, Direction::Relay] {
        for ours in [true, false] {
            let temp = TempTree::new();
            temp.file("from/small", 3_000);
            temp.file("from/large", 3_000_000);
            let faults = Faults::hook(|what, path, offset| match what {
                "write" if path.ends_with(b".lhpart") && offset > 1_000_000 => Err(Errno::NOSPC.into()),
                _ => Ok(()),
            });
            let mut setup = if ours { Setup::default() } else { stock(&[]) };
            setup.faults = faults;
            // A name that does not exist: the copy gets it, the second time too.
            let plan = plan(direction, &temp.join("from"), &temp.join("to"));
            let ended = copy_with(plan.clone(), durable(&temp), temp.path(), &mut setup);
            assert_eq!(ended.failures.len(), 1, "{:?}", ended.failures);
            setup.faults = Faults::default();
            let ended = copy_with(plan, durable(&temp), temp.path(), &mut setup).well();
            assert!(ended.resumed > 0, "{direction:?} {ours}");
            same_tree(&temp.join("from"), &temp.join("to"), false);
            assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
            assert!(!temp.join("state/journal").exists());
        }
    }
}

/// `rclone serve sftp` without a cache takes new and emptied files alone. It reports the creation of
/// directories and part files that exist, so nothing is looked at before it is opened.
#[test]
fn files_are_emptied_where_the_server_overwrites_none() {
    for atomic in [true, false] {
        let temp = TempTree::new();
        temp.file("from/sub/small", 3_000);
        temp.file("from/sub/large", 3_000_000);
        temp.file("from/sub/larger", 3_100_000);
        let mut setup = stock(&[]);
        setup.faults = Faults::hook(|what, path, offset| match what {
            "write" if path.ends_with(b".lhpart") && offset > 1_000_000 => Err(Errno::NOSPC.into()),
            _ => Ok(()),
        });
        let plan = plan(Direction::Upload, &temp.join("from/."), &temp.join("to"));
        temp.dir("to");
        let options = Options {
            placing: Placing { atomic, ..durable(&temp).placing },
            limits: Limits { open_files: 1, ..Limits::default() },
            ..durable(&temp)
        };
        let ended = copy_with(plan.clone(), options.clone(), temp.path(), &mut setup);
        assert_eq!(ended.failures.len(), if atomic { 2 } else { 0 }, "{:?}", ended.failures);
        temp.file("from/sub/small", 2_999);
        setup.faults = Faults { overwrites_nothing: true, ..Faults::default() };
        copy_with(plan, options, temp.path(), &mut setup).well();
        same_tree(&temp.join("from"), &temp.join("to"), false);
        assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
    }
}

/// A server that denies each WRITE: what is written over stays as it was, unless it was emptied on purpose.
#[test]
fn file_whose_writes_are_denied_keeps_its_content() {
    for foreign in [false, true] {
        let temp = TempTree::new();
        for name in ["a", "b", "c"] {
            temp.file(format!("from/{name}"), 300_000);
            temp.file(format!("to/{name}"), 300_000);
            fs::write(temp.join("to").join(name), name).expect("a file");
        }
        let mut setup = if foreign { stock(&[]) } else { Setup::default() };
        setup.faults = Faults::fail("write", "", Errno::ACCESS);
        let options = Options {
            recursive: true,
            limits: Limits { open_files: 1, ..Limits::default() },
            ..Options::default()
        };
        let plan = plan(Direction::Upload, &temp.join("from/."), &temp.join("to"));
        let ended = copy_with(plan, options, temp.path(), &mut setup);
        assert_eq!(ended.failures.len(), 3, "{:?}", ended.failures);
        let kept = ["a", "b", "c"]
            .iter()
            .filter(|name| fs::read(temp.join("to").join(name)).unwrap() == name.as_bytes());
        assert_eq!(kept.count(), if foreign { 2 } else { 3 }, "scp empties each one");
    }
}

/// Numbers that are the same on each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Copies until nothing kills it any more; returns bytes that moved beyond what there was to move.
fn through_deaths(
    direction: Direction,
    temp: &TempTree,
    dice: &mut Dice,
    mut setup: impl FnMut() -> Setup,
) -> u64 {
    let (from, to) = (temp.join("from"), temp.join("to"));
    let mut moved = 0;
    for death in 0..=6 {
        let mut setup = setup();
        let moment = dice.below(5_000_000);
        match death {
            6 => {}
            death if death % 2 == 0 || direction == Direction::Upload => setup.kill_after = Some(moment),
            _ => setup.cut_after = Some(moment),
        }
        let ended: Ended = copy_with(plan(direction, &from, &to), durable(temp), temp.path(), &mut setup);
        moved += ended.summary.bytes;
        if !temp.join("state/journal").exists() {
            // It came to its end before death did.
            ended.well();
            break;
        }
        assert!(death < 6, "nothing killed it");
    }
    assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
    same_tree(&from, &to, false);
    let total: u64 =
        fs::read_dir(&from).expect("it").map(|e| e.expect("e").metadata().expect("m").len()).sum();
    moved.saturating_sub(total)
}

#[test]
fn a_copy_that_dies_again_and_again_loses_little() {
    for direction in [Direction::Upload, Direction::Download] {
        for ours in [true, false] {
            for seed in 0..4 {
                let temp = TempTree::new();
                temp.file("from/large", 8_000_000);
                for n in 0..60 {
                    temp.file(format!("from/{n}"), 500 * n);
                }
                let mut dice = Dice(seed * 7919 + 1);
                let again = through_deaths(direction, &temp, &mut dice, || {
                    // What a turn of the test's loop has confirmed is noted only in the next one: short
                    // turns.
                    let setup = if ours { Setup::default() } else { stock(&[]) };
                    Setup { window: 256 * 1024, ..setup }
                });
                // Six deaths, each with one block of digests or one note of the journal, and the small files
                // in flight.
                assert!(again <= 6 * (1 << 20) + 3_000_000, "{direction:?} ours {ours} seed {seed}: {again}");
            }
        }
    }
}

#[test]
fn resumed_copies_over_two_connections_do_not_stall() {
    for seed in 0..4 {
        let temp = TempTree::new();
        let mut random = Seeded::new(seed);
        for n in 0..60 {
            temp.file(format!("from/d{}/small{n}", n % 3), random.below(30_000));
        }
        for n in 0..6 {
            temp.file(format!("from/medium{n}"), random.below(900_000));
        }
        temp.file("from/large", (9 << 20) + random.below(4 << 20));
        for direction in [Direction::Upload, Direction::Download] {
            for ours in [true, false] {
                let to = temp.join(format!("{direction:?}{ours}"));
                let mut attempt = |kill_after| {
                    let base = if ours { Setup::default() } else { stock(&[]) };
                    let window = if random.below(2) == 0 { base.window } else { 64 << 10 };
                    let separate = Some(Seeded::new(random.next_u64()));
                    let mut setup = Setup { kill_after, channels: 1, separate, window, ..base };
                    let options = Options {
                        limits: Limits { channels: Some(2), ..Limits::default() },
                        ..durable(&temp)
                    };
                    copy_with(plan(direction, &temp.join("from"), &to), options, temp.path(), &mut setup)
                };
                attempt(Some(seed * 3_000_017 % (9 << 20)));
                attempt(None).well();
                same_tree(&temp.join("from"), &to, false);
            }
        }
        assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
    }
}

#[test]
fn killed_copy_on_a_short_path_sends_little_twice() {
    let temp = TempTree::new();
    for n in 0..1000 {
        temp.file(format!("from/{n}"), 8_000);
    }
    let mut dice = Dice(77);
    for direction in [Direction::Upload, Direction::Download] {
        for ours in [true, false] {
            let attempt = |kill_after| {
                let setup = if ours { Setup::default() } else { stock(&[]) };
                let plan = plan(direction, &temp.join("from"), &temp.join("to"));
                let rtt = Duration::from_micros(100);
                copy_with(plan, durable(&temp), temp.path(), &mut Setup { kill_after, rtt, ..setup })
            };
            let whole = attempt(None).well().moved;
            for _ in 0..3 {
                fs::remove_dir_all(temp.join("to")).expect("the copy");
                let first = attempt(Some(dice.below(7_500_000)));
                let second = attempt(None).well();
                same_tree(&temp.join("from"), &temp.join("to"), false);
                let again = (first.moved + second.moved).saturating_sub(whole);
                // What was in flight, and looking at what is there.
                assert!(again * 20 <= whole, "{direction:?} ours {ours}: {again} of {whole}");
            }
            fs::remove_dir_all(temp.join("to")).expect("the copy");
        }
    }
    assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
}

/// Leaves an unfinished copy of `from` behind; returns its temporary file.
fn unfinished(direction: Direction, temp: &TempTree, setup: &mut Setup) -> PathBuf {
    temp.file("from", 6_000_000);
    setup.kill_after = Some(2_500_000);
    copy_with(plan(direction, &temp.join("from"), &temp.join("to")), durable(temp), temp.path(), setup);
    setup.kill_after = None;
    assert!(!temp.join("to").exists());
    let [part] = &leftovers(temp.path())[..] else { panic!("one unfinished file") };
    assert!(fs::metadata(part).expect("it").len() > 1 << 20, "something of it is there");
    part.clone()
}

#[test]
fn changed_source_is_copied_whole_and_its_old_part_removed() {
    for direction in [Direction::Upload, Direction::Download] {
        for mut setup in [Setup::default(), stock(&[])] {
            let temp = TempTree::new();
            let part = unfinished(direction, &temp, &mut setup);
            temp.file("from", 6_000_001);
            let plan = plan(direction, &temp.join("from"), &temp.join("to"));
            let ended = copy_with(plan, durable(&temp), temp.path(), &mut setup).well();
            assert_eq!((ended.resumed, ended.summary.bytes), (0, 6_000_001));
            same_tree(&temp.join("from"), &temp.join("to"), false);
            assert!(!part.exists(), "{direction:?}");
        }
    }
}

#[test]
fn a_part_that_somebody_has_changed_is_not_gone_on_with() {
    for direction in [Direction::Upload, Direction::Download] {
        for mut setup in [Setup::default(), stock(&[])] {
            let temp = TempTree::new();
            let part = unfinished(direction, &temp, &mut setup);
            let mut bytes = fs::read(&part).expect("it");
            bytes[..300_000].fill(0);
            fs::write(&part, &bytes).expect("it");
            let plan = plan(direction, &temp.join("from"), &temp.join("to"));
            let ended = copy_with(plan, durable(&temp), temp.path(), &mut setup).well();
            assert_eq!(ended.resumed, 0);
            same_tree(&temp.join("from"), &temp.join("to"), false);
        }
    }
}

#[test]
fn without_a_journal_only_digests_permit_resuming() {
    for direction in [Direction::Upload, Direction::Download] {
        for (mut setup, resumes) in [(Setup::default(), true), (stock(&[]), false)] {
            let temp = TempTree::new();
            unfinished(direction, &temp, &mut setup);
            fs::remove_file(temp.join("state/journal")).expect("a journal");
            let plan = plan(direction, &temp.join("from"), &temp.join("to"));
            let ended = copy_with(plan, durable(&temp), temp.path(), &mut setup).well();
            assert_eq!(ended.resumed > 0, resumes, "{direction:?}");
            same_tree(&temp.join("from"), &temp.join("to"), false);
            assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
        }
    }
}

/// What is asked to be continued may be the beginning of another file.
#[test]
fn only_what_begins_as_the_source_does_is_resumed() {
    let resume = Options {
        placing: Placing { resume: true, atomic: true, ..Placing::default() },
        ..Options::default()
    };
    for direction in [Direction::Upload, Direction::Download] {
        for mut setup in [Setup::default(), stock(&[])] {
            let temp = TempTree::new();
            let source = temp.file("from", 300_000);
            let whole = fs::read(&source).expect("a file");
            let plan = plan(direction, &source, &temp.join("to"));
            for (at, resumed) in [(None, true), (Some(100_000), false), (Some(199_000), false)] {
                let mut part = whole[..200_000].to_vec();
                part[at.unwrap_or(0)] ^= u8::from(at.is_some());
                fs::write(temp.join("to"), &part).expect("a file");
                let ended = copy_with(plan.clone(), resume.clone(), temp.path(), &mut setup).well();
                let copied = fs::read(temp.join("to")).expect("a file");
                assert!(copied == whole, "{direction:?} {at:?}");
                let told = ended.skipped.iter().any(|text| text.contains("does not begin as its source"));
                assert_eq!(!told, resumed, "{direction:?} {at:?} {ended:?}");
                assert_eq!(ended.summary.bytes < 200_000, resumed, "{direction:?} {at:?}");
            }
        }
    }
}

/// Asks for the rest of a local file, of which one byte is another one where `wrong`: it is left as it is.
fn fails_and_changes_nothing(options: &Options, wrong: bool, setup: &mut Setup) {
    let temp = TempTree::new();
    let source = temp.file("from", 300_000);
    let mut part = fs::read(&source).expect("a file")[..260_000].to_vec();
    part[199_000] ^= u8::from(wrong);
    fs::write(temp.join("to"), &part).expect("a file");
    let plan = plan(Direction::Download, &source, &temp.join("to"));
    let ended = copy_with(plan, options.clone(), temp.path(), setup);
    assert!(!ended.failures.is_empty(), "{ended:?}");
    assert!(fs::read(temp.join("to")).expect("a file") == part, "{ended:?}");
}

/// The local file of a download that was to be continued is no shorter and no different when the source
/// fails.
#[test]
fn resumed_target_is_untouched_when_its_source_fails() {
    let resume = Options {
        placing: Placing { resume: true, atomic: true, ..Placing::default() },
        ..Options::default()
    };
    for ours in [true, false] {
        let faulty = |from: u64| {
            let faults = Faults::hook(move |what, path, offset| match what {
                "read" if path.ends_with(b"from") && offset >= from => Err(Errno::IO.into()),
                _ => Ok(()),
            });
            Setup { faults, ..if ours { Setup::default() } else { stock(&[]) } }
        };
        // It cannot be compared; it is right, or something else, and the source cannot be read behind it.
        fails_and_changes_nothing(&resume, false, &mut faulty(0));
        fails_and_changes_nothing(&resume, false, &mut faulty(260_000));
        fails_and_changes_nothing(&resume, true, &mut faulty(260_000));
        for cut_after in [4_000, 20_000, 60_000] {
            let mut cut = Setup { cut_after: Some(cut_after), ..faulty(u64::MAX) };
            fails_and_changes_nothing(&resume, true, &mut cut);
        }
        // Without part files all of it would be written over.
        let in_place =
            Options { placing: Placing { atomic: false, ..resume.placing.clone() }, ..resume.clone() };
        fails_and_changes_nothing(&in_place, true, &mut faulty(u64::MAX));
    }
}
