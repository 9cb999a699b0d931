//! An engine and the real SFTP server engine, joined by pipes in memory that can be narrow, chop what passes
//! through, and hand replies to a liar first.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test file uses a part")]

mod end;
mod files;
mod fs;
mod setup;
pub mod syncing;

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_testkit::Seeded;
use lh_transfer::{Direction, Engine, Options, Plan, Side, Wakes};
use lh_wire::Output;

pub use files::{TempTree, bytes_of, same_tree};
pub use fs::{Count, FaultFs, Faults};
pub use setup::{Ended, Setup, in_part_files, over_channels, plan, resuming, stock, whole_tree};

use end::End;

/// Time after which a server that does not answer INIT is given up.
pub const VERSION_TIMEOUT: Duration = Duration::from_secs(300);

/// Copies with a well-behaved pipe.
pub fn copy(plan: Plan, options: Options, server_root: &Path) -> Ended {
    copy_with(plan, options, server_root, &mut Setup::default())
}

/// Copies with the server's relative paths starting at `server_root`.
pub fn copy_with(plan: Plan, options: Options, server_root: &Path, setup: &mut Setup) -> Ended {
    let start = Instant::now();
    let mut now = start;
    let sides: &[Side] = match plan.direction {
        Direction::Upload => &[Side::Target],
        Direction::Download => &[Side::Source],
        Direction::Relay => &[Side::Source, Side::Target],
    };
    let mut engine = Engine::new(plan, options, now);
    if !setup.rtt.is_zero() {
        engine.expect_round_trip(if setup.tunnelled { Duration::from_micros(200) } else { setup.rtt });
    }
    let mut ends: Vec<End> = Vec::new();
    for &side in sides {
        if setup.early {
            engine.open_early(side);
        } else {
            engine.open(side);
        }
        engine.expect_version(side, Some(VERSION_TIMEOUT));
        ends.push(End::new(side, 0, server_root, setup));
    }
    let mut ended = Ended::default();
    let mut passed = 0;
    let mut wakes = Wakes::default();
    let mut awake = vec![true; ends.len()];
    while !engine.is_finished() {
        let mut moved = false;
        ended.rounds += 1;
        let mut busy = 0;
        for (at, end) in ends.iter_mut().enumerate() {
            if let Some(random) = &mut setup.slow_files
                && end.is_busy()
            {
                busy += 1;
                ended.most_at_once = ended.most_at_once.max(busy);
                (moved, awake[at]) = (true, true);
                if random.below(3) > 0 {
                    continue;
                }
                end.finish_work(&mut engine, now);
                if end.is_busy() {
                    continue;
                }
            }
            if std::mem::replace(&mut awake[at], setup.separate.is_none()) {
                if end.channel > 0 && end.cut {
                    continue;
                }
                if setup.slow_files.is_some() {
                    end.advance_slowly(&mut engine, now, true);
                    if end.is_busy() {
                        moved = true;
                        continue;
                    }
                } else if end.channel == 0 {
                    engine.advance(end.side, &mut end.to_server, now);
                } else {
                    engine.advance_channel(end.channel, &mut end.to_server, now);
                }
                let others = wakes.channels_to_wake(&mut engine, 0..awake.len());
                others.into_iter().filter(|&channel| channel != at).for_each(|channel| awake[channel] = true);
            }
            // Now one server is slow, now the other.
            let pace =
                |random: &mut Seeded| random.below(2 + 20 * usize::from(ended.rounds / 50 % 2 == at % 2)) > 0;
            if setup.separate.as_mut().is_some_and(pace) {
                // It answers later.
                moved |= !end.to_server.bytes.is_empty();
                continue;
            }
            let pause = setup.pause.take_if(|(round, _)| *round == ended.rounds);
            if let Some((_, pause)) = pause {
                let end_of_pause = now + pause;
                while now < end_of_pause {
                    now += Duration::from_secs(1);
                    engine.advance(end.side, &mut end.to_server, now);
                }
            }
            ended.moved += end.to_server.bytes.len() as u64;
            if ended.sent.len() <= end.channel {
                ended.sent.resize(end.channel + 1, 0);
            }
            ended.sent[end.channel] += end.to_server.bytes.len() as u64;
            // A window that was shut opens.
            awake[at] |= end.to_server.budget() == 0;
            moved |= end.serve(setup);
            ended.most_awaited = ended.most_awaited.max(end.replies.len());
            if end.channel == 0 {
                now += setup.rtt;
            }
            let mut batch: Vec<Vec<u8>> = end.replies.drain(..).collect();
            if setup.reverse {
                batch.reverse();
            }
            for message in batch {
                let mut framed = (message.len() as u32).to_be_bytes().to_vec();
                framed.extend_from_slice(&message);
                ended.moved += framed.len() as u64;
                for piece in framed.chunks(setup.piece) {
                    passed += piece.len() as u64;
                    let piece = Bytes::copy_from_slice(piece);
                    match (end.channel, setup.slow_files.is_some()) {
                        (0, false) => engine.received(end.side, piece, now),
                        (channel, false) => engine.channel_received(channel, piece, now),
                        (0, true) => engine.take_in(end.side, piece, now),
                        (channel, true) => engine.channel_take_in(channel, piece, now),
                    }
                }
                if pause.is_some() {
                    engine.advance(end.side, &mut end.to_server, now);
                }
                (moved, awake[at]) = (true, true);
                if setup.cut_after.is_some_and(|after| passed >= after)
                    && !std::mem::replace(&mut end.cut, true)
                {
                    engine.lost(end.side, "Connection closed", now);
                }
            }
        }
        for _ in 0..engine.channels_wanted() {
            if ends.len() > setup.channels {
                engine.channel_refused();
            } else {
                ends.push(End::new(sides[0], engine.open_channel(), server_root, setup));
                awake.push(true);
                ended.channels += 1;
                moved = true;
            }
        }
        let dies =
            setup.channel_dies.filter(|&(channel, round)| round == ended.rounds && channel < ends.len());
        if let Some((channel, _)) = dies {
            ends[channel].cut = true;
            engine.channel_lost(channel, "Connection closed", now);
        }
        while let Some(event) = engine.poll_event() {
            ended.take(event);
        }
        if setup.kill_after.is_some_and(|after| engine.summary().bytes >= after) {
            ended.summary = engine.summary();
            return ended;
        }
        let sleeps = setup.separate.is_none() || !awake.contains(&true);
        if !moved && sleeps && !engine.is_finished() {
            match engine.next_deadline() {
                Some(at) if at > now => {
                    now = at;
                    awake.fill(true);
                }
                _ => panic!("nothing moves any more; so far: {ended:?}\n{engine:#?}"),
            }
        }
    }
    while let Some(event) = engine.poll_event() {
        ended.take(event);
    }
    ended.summary = engine.summary();
    ended.took = now - start;
    if !ended.summary.lost {
        assert_eq!(ended.summary.failures as usize, ended.failures.len());
    }
    ended
}
