//! Thousands of commands over one connection: neither end keeps anything of those that are over.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use lh_interop::our;
use lh_interop::process::held;
use lh_interop::sharing::{Scene, run_by_hand};
use lh_interop::tunnel::eventually;

/// Commands that are run; `LH_EXECS` in the environment says how many instead.
const COMMANDS: usize = 500;
/// Those before the first look, for what is kept once.
const WARM_UP: usize = 100;
/// Memory may differ by what an allocator keeps, KiB; a leak of 256 bytes a command would be more with 5,000 of them.
const SLACK_KIB: usize = 1024;

/// The server's process for the connection, as its log names it.
fn server_process(scene: &Scene) -> u32 {
    let log = scene.server.log();
    let line = log.lines().rev().find_map(|line| line.split_once("User child is on pid "));
    line.and_then(|(_, pid)| pid.trim().parse().ok()).unwrap_or_else(|| panic!("{log}"))
}

/// Covers: ssh_config ControlMaster; sshd_config MaxSessions
#[test]
fn thousands_of_commands_leave_nothing_behind() {
    let count = std::env::var("LH_EXECS").ok().and_then(|text| text.parse().ok()).unwrap_or(COMMANDS);
    let scene = Scene::new(our("lhssh"), our("lhssh"), "");
    let master = scene.start_master(&[]);
    let socket = scene.socket();
    let run = |count: usize| {
        let left = AtomicUsize::new(count);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    while left
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                        .is_ok()
                    {
                        assert_eq!(run_by_hand(&socket, "echo $((6 * 7)); exit 3"), ("42\n".to_owned(), 3));
                    }
                });
            }
        });
    };
    run(WARM_UP);
    let (here, there) = (master.0.id(), server_process(&scene));
    assert!(Path::new(&format!("/proc/{there}")).exists());
    let look = || [held(here), held(there)];
    let before = look();
    let mut done = 0;
    for until in [count / 10, count / 2, count] {
        run(until - done);
        done = until;
        eventually("descriptors are as many as before", || {
            look().iter().zip(&before).all(|(after, before)| after.descriptors <= before.descriptors)
        });
        for ((who, before), after) in ["master", "server"].iter().zip(&before).zip(&look()) {
            println!(
                "{who}: {done} commands, descriptors {} to {}, KiB {} to {}",
                before.descriptors, after.descriptors, before.kib, after.kib
            );
            assert!(
                after.kib <= before.kib + SLACK_KIB,
                "{who} grew from {} to {} KiB",
                before.kib,
                after.kib
            );
        }
    }
    assert_eq!(scene.logins(), 1);
}
