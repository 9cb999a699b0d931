//! Connections whose loops sleep until something comes on them, or another one wakes them.

mod common;

use std::fs;
use std::time::Duration;

use common::{Setup, TempTree, copy_with, over_channels, plan, same_tree};
use lh_testkit::Seeded;
use lh_transfer::{Direction, Options};

/// On a short path few small files are in flight at a time. The last answers about them may come on another
/// connection than the first one, which alone begins files.
#[test]
fn files_begin_when_answers_on_other_connections_make_room() {
    for seed in 0..10 {
        let mut random = Seeded::new(seed);
        let temp = TempTree::new();
        let dirs = 1 + random.below(6);
        for n in 0..60 {
            temp.file(format!("from/d{}/f{n}", n % dirs), random.below(60_000));
        }
        for n in 0..random.below(6) {
            temp.file(format!("from/m{n}"), random.below(1 << 21));
        }
        for direction in [Direction::Upload, Direction::Download] {
            let options = Options { recursive: true, ..over_channels(3) };
            let (separate, rtt) = (Some(Seeded::new(seed)), Duration::from_micros(100));
            let mut setup = Setup { channels: 2, separate, rtt, ..Setup::default() };
            let to = temp.join("to");
            let ended = copy_with(plan(direction, &temp.join("from"), &to), options, temp.path(), &mut setup);
            // A server that seems to drop requests is asked again after a minute of virtual time.
            assert!(ended.took < Duration::from_secs(10), "{seed} {direction:?}: {:?}", ended.took);
            assert_eq!(ended.well().channels, 2);
            same_tree(&temp.join("from"), &to, false);
            fs::remove_dir_all(&to).expect("a copy");
        }
    }
}
