//! Connections that pause for a rate limit that they share: the other direction goes on, and the pause is
//! not taken for a broken path.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{Script, World, links};
use lh_connection::Config;
use lh_driver::{Driver, SharedRate};
use lh_sys::shared_words::SharedWords;

/// Bytes per second, more than these tests move.
const RATE: u64 = 100_000_000;

/// Two drivers. The server shares its rates in these directions with connections that are ahead of it: after
/// its first byte it pauses for as long as a shared rate can, half a minute.
fn world(input: bool, output: bool) -> World {
    let (client, mut server, key) = links();
    let words = Arc::new(SharedWords::private(2).unwrap());
    let ahead = lh_sys::time::monotonic() + Duration::from_secs(30);
    for index in [0, 1] {
        words.get(index).unwrap().store(ahead.as_nanos() as u64, Ordering::Relaxed);
    }
    let shared =
        |is_shared: bool, index| is_shared.then(|| SharedRate::new(Arc::clone(&words), index, RATE).unwrap());
    server.share_rates(shared(input, 0), shared(output, 1));
    World {
        client: Driver::new(client, Config::default()),
        server: Driver::new(server, Config::default()),
        client_script: Script::new(&key),
        server_script: Script::new(&key),
    }
}

/// Number of the client's requests that the server has read, but for the driver's own.
fn requests(world: &World) -> usize {
    world.server_script.global.iter().filter(|name| *name == "test@longhaul").count()
}

#[test]
fn reading_goes_on_while_writing_pauses() {
    let mut world = world(false, true);
    world.server.set_keepalive(Duration::from_millis(20), 1);
    for count in 1..=3 {
        world.client.control().global_request("test@longhaul", true, b"");
        world.until("a request", |world| requests(world) == count);
    }
    assert!(world.server.link().unsent_bytes() > 0, "the answers wait");
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(200) {
        // Dead after 40 ms if the pause counted: the client has not got the questions.
        world.turn().unwrap();
    }
    assert!(!world.server.finish(Duration::from_millis(50)));
}

#[test]
fn a_pause_of_reading_is_no_silence() {
    let mut world = world(true, false);
    world.server.set_keepalive(Duration::from_millis(20), 1);
    // In the first bytes that the server reads.
    world.client.control().global_request("test@longhaul", false, b"");
    world.until("a request", |world| requests(world) == 1);
    world.client.control().global_request("test@longhaul", false, b"");
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(200) {
        // Dead after 40 ms if the pause counted.
        world.turn().unwrap();
    }
    assert_eq!(requests(&world), 1, "the server pauses");
    // The client gets a sign of life now and then, or it would take the path for broken.
    let packets = |world: &mut World| world.client.control().traffic().packets_in;
    let before = packets(&mut world);
    world.until("signs of life", |world| packets(world) >= before + 3);
    assert_eq!(requests(&world), 1, "the server pauses");
}
