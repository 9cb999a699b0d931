//! The link program: `lh-link NEAR FAR RATE DELAY_NS QUEUE LOSS REORDER JITTER_NS SEED`, started by
//! [`lh_link::path`].
//!
//! It creates a device in each of the two namespaces, prints `ready`, forwards until its standard input ends,
//! and then prints a line of counters for each direction.

use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use lh_link::forward::{Counters, Direction};
use lh_link::netns;
use lh_link::path::DEVICE;
use lh_link::shape::Shape;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("lh-link: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<(), String> {
    let [near, far, rate, delay, queue, loss, reorder, jitter, seed] = args else {
        return Err(
            "usage: lh-link NEAR FAR RATE DELAY_NS QUEUE LOSS REORDER JITTER_NS SEED (started by cargo xtask wan)"
                .to_owned(),
        );
    };
    let number = |text: &String| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    let shape = Shape {
        rate: number(rate)?,
        delay: Duration::from_nanos(number(delay)?),
        queue: number(queue)?,
        loss: loss.parse().map_err(|error| format!("{loss}: {error}"))?,
        reorder: reorder.parse().map_err(|error| format!("{reorder}: {error}"))?,
        jitter: Duration::from_nanos(number(jitter)?),
    };
    let seed = number(seed)?;
    let near = netns::within(near, || lh_sys::tun::open(DEVICE))?;
    let far = netns::within(far, || lh_sys::tun::open(DEVICE))?;
    let text = |error: io::Error| error.to_string();
    let (near_in, far_in) = (near.try_clone().map_err(text)?, far.try_clone().map_err(text)?);

    let counters: &'static [Counters; 2] = Box::leak(Box::default());
    let directions = [
        ("near", Direction::new(near, far_in, &shape, seed, &counters[0])),
        ("far", Direction::new(far, near_in, &shape, !seed, &counters[1])),
    ];
    for (name, direction) in directions {
        let forward = move || {
            if let Err(error) = lh_sys::tun::run_before_others() {
                eprintln!("lh-link: without priority, packets may be late: {error}");
            }
            // Without this, timers may be late by 50 microseconds, to save wake-ups.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            if let Err(error) = direction.run() {
                eprintln!("lh-link: from the {name} end: {error}");
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(forward).map_err(text)?;
    }
    let mut out = io::stdout();
    out.write_all(b"ready\n").and_then(|()| out.flush()).map_err(text)?;
    // The starting process keeps the pipe open as long as it lives.
    let mut end = Vec::new();
    let _ = io::stdin().read_to_end(&mut end);
    out.write_all(format!("{}\n{}\n", counters[0], counters[1]).as_bytes()).map_err(text)
}
