//! Tests of sessions over real transports and the real connection layer, whose connections break. The breaks
//! are at every byte of a short session, inside packets, in key exchanges, while windows are empty, while
//! channels close, and while a session is being resumed. Streams must be identical, each message acted on
//! once, and memory bounded.
//!
//! `LH_SCHEDULES=100000 cargo test -p lh-resume --test sessions` is the long form.

mod application;
mod transports;
mod world;

use std::time::Duration;

use lh_testkit::Seeded;
use transports::SUITES;
use world::World;

/// Runs a short session with equal choices each time. Its first connection breaks after `cut` bytes, up and
/// down.
fn recorded(suite: usize, cut: Option<(u64, u64)>) -> World {
    let mut world = World::new(1, suite, vec![(9000, 4000), (300, 8000)]);
    if let Some((up, down)) = cut {
        world.cut_after(up, down);
    }
    let mut choices = Seeded::new(2);
    for step in 0..40 {
        let now = world.clock.now();
        world.client.act(&mut choices, now);
        world.server.act(&mut choices, now);
        if step == 25 {
            world.client.transport.request_rekey();
        }
        world.client_writes();
        world.server_reads(0);
        world.server_writes();
        world.client_reads();
    }
    world.finish();
    world
}

/// Number of bytes that a connection of the recorded session sends each way, at most.
const RECORDED: u64 = 40_000;

#[test]
fn cuts_anywhere_lose_and_double_nothing() {
    // Every byte is far too many for every test run.
    let step = if std::env::var_os("LH_SCHEDULES").is_some() { 7 } else { 997 };
    let mut schedules = 0;
    for suite in 0..SUITES.len() {
        let whole = recorded(suite, None);
        assert_eq!(whole.resumed, 0);
        let mut resumed = 0;
        for at in (suite as u64..RECORDED).step_by(step) {
            for cut in [(at, u64::MAX / 2), (u64::MAX / 2, at)] {
                let world = recorded(suite, Some(cut));
                assert!(world.messages() > 20);
                resumed += world.resumed;
                schedules += 1;
            }
        }
        assert!(resumed > 0);
    }
    println!("{schedules} schedules");
}

/// Number of random schedules: `LH_SCHEDULES`, else few enough for every test run.
fn schedules() -> u64 {
    std::env::var("LH_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(150)
}

/// Schedules whose link breaks at the server between its answer and the moment at which the client reads it.
const RARE: [u64; 2] = [88_972, 92_267];

/// Runs one random session to its end and returns it.
fn random_session(seed: u64) -> World {
    play(seed, &mut |_| {})
}

/// Runs one random session in which second connections take it over, to its end, and returns it.
fn session_with_second_connections(seed: u64) -> World {
    let mut choices = Seeded::new(seed ^ 0xbe51_de00);
    play(seed, &mut |world| match choices.below(12) {
        0 => world.connect_beside(),
        1..6 => {
            world.use_beside();
            let choice = choices.below(4);
            world.server_reads(choice);
            world.server_writes();
        }
        6 if choices.below(3) == 0 => world.take_over(),
        _ => {}
    })
}

/// Runs one random session; `each` is called after each step.
fn play(seed: u64, each: &mut dyn FnMut(&mut World)) -> World {
    let mut random = Seeded::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut channels = Vec::new();
    for _ in 0..1 + random.below(4) {
        let size = |random: &mut Seeded| match random.below(10) {
            0 => 0,
            1 => 120_000,
            _ => random.below(9000) as u32,
        };
        channels.push((size(&mut random), size(&mut random)));
    }
    let mut world = World::new(random.next_u64(), random.below(SUITES.len()), channels);
    let breaks = 1 + random.below(12);
    for _ in 0..60 + random.below(300) {
        let now = world.clock.now();
        match random.below(100) {
            0..16 => world.client.act(&mut random, now),
            16..32 => world.server.act(&mut random, now),
            32..44 => world.client_writes(),
            44..56 => world.server_writes(),
            56..68 => {
                world.client_reads();
            }
            68..80 => {
                let choice = random.below(4);
                world.server_reads(choice);
            }
            // The number of steps covers a key exchange and a claim.
            80..86 => {
                for _ in 0..1 + random.below(12) {
                    world.client_writes();
                    let choice = random.below(4);
                    world.server_reads(choice);
                    world.server_writes();
                    world.client_reads();
                }
            }
            86..88 => world.clock.advance(Duration::from_millis(random.below(400) as u64)),
            88 => world.client.transport.request_rekey(),
            89 => world.server.transport.request_rekey(),
            // The path ends within a few bytes: inside a packet, a key exchange, or the claim of the session.
            90..95 if random.below(12) < breaks => {
                let most = [20, 300, 3000, 20_000][random.below(4)];
                world.cut_after(random.below(most) as u64, random.below(most) as u64);
            }
            // The client notices the break before the server does, or gives up a connection that is only
            // slow.
            95.. if random.below(12) < breaks => {
                world.reconnect();
                if random.below(2) == 0 {
                    world.set_pieces(1 + random.below(700));
                }
                if random.below(3) == 0 {
                    let most = [400, 3000][random.below(2)];
                    world.cut_after(random.below(most) as u64, random.below(most) as u64);
                }
            }
            _ => {}
        }
        each(&mut world);
    }
    world.finish();
    world
}

#[test]
fn second_connections_take_over_without_loss() {
    let (mut taken_over, mut pongs, mut resumed) = (0, 0, 0);
    for seed in 0..schedules() {
        let world = std::panic::catch_unwind(|| session_with_second_connections(seed));
        let world = world.unwrap_or_else(|_| panic!("schedule {seed}"));
        taken_over += world.taken_over;
        pongs += world.pongs;
        resumed += world.resumed;
    }
    println!("{taken_over} taken over, {pongs} answers on second connections, {resumed} resumptions");
    assert!(taken_over > schedules() / 4 && pongs > taken_over && resumed > taken_over / 2);
}

#[test]
fn random_schedules_lose_and_double_nothing() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let total = schedules();
    let mut counts = [0; 5];
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|first| {
                scope.spawn(move || {
                    let mut counts = [0; 5];
                    let seeds = (first..total).step_by(threads as usize);
                    for seed in seeds.chain(RARE.into_iter().filter(|_| first == 0)) {
                        // The seed of a failure is in the name of its thread's last line.
                        let world = std::panic::catch_unwind(|| random_session(seed));
                        let world = world.unwrap_or_else(|_| panic!("schedule {seed}"));
                        let more = [
                            world.messages(),
                            world.resumed,
                            world.overtaken,
                            world.broken_claims,
                            world.waits(),
                        ];
                        counts.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
                    }
                    counts
                })
            })
            .collect();
        for run in runs {
            let more = run.join().expect("see the schedule above");
            counts.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    });
    let [messages, resumed, overtaken, broken, waits] = counts;
    println!(
        "{total} schedules: {messages} messages, {resumed} resumptions, {broken} broken attempts, \
         {overtaken} overtaken attempts, data waited {waits} times"
    );
    assert!(resumed > total / 2 && broken > 0);
}
