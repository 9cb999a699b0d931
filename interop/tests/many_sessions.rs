//! Thousands of commands over one connection: neither end keeps resources of finished commands.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use lh_interop::eventually;
use lh_interop::our;
use lh_interop::process::held;
use lh_interop::sharing::{SharingSetup, run_by_hand};

/// Number of commands; `LH_EXECS` in the environment overrides it.
const COMMANDS: usize = 200;
/// Commands before the first measurement, for allocations made once.
const WARM_UP: usize = 100;
/// Allowed growth of memory, KiB, for what an allocator keeps; a leak of 256 bytes per command would exceed
/// it with 5,000 commands.
const SLACK_KIB: usize = 1024;

/// Returns the server's process for the connection, from its log.
fn server_process(setup: &SharingSetup) -> u32 {
    let log = setup.server.log();
    let line = log.lines().rev().find_map(|line| line.split_once("User child is on pid "));
    line.and_then(|(_, pid)| pid.trim().parse().ok()).unwrap_or_else(|| panic!("{log}"))
}

/// Covers: ssh_config ControlMaster; sshd_config MaxSessions
#[test]
fn thousands_of_commands_leave_nothing_behind() {
    let count = std::env::var("LH_EXECS").ok().and_then(|text| text.parse().ok()).unwrap_or(COMMANDS);
    // Reading the server's log of each command would add to the test's memory, not the server's.
    let setup = SharingSetup::new(our("lhssh"), our("lhssh"), "");
    let master = setup.start_master(&[]);
    let run = |count: usize| {
        let left = AtomicUsize::new(count);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    while left
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                        .is_ok()
                    {
                        let ran = run_by_hand(&setup.socket(), "echo $((6 * 7)); exit 3");
                        assert_eq!(ran, ("42\n".to_owned(), 3));
                    }
                });
            }
        });
    };
    run(WARM_UP);
    let (here, there) = (master.0.id(), server_process(&setup));
    assert!(Path::new(&format!("/proc/{there}")).exists());
    let before = [held(here), held(there)];
    run(count);
    let after = || [held(here), held(there)];
    eventually("descriptors are as many as before", || {
        after().iter().zip(&before).all(|(after, before)| after.descriptors <= before.descriptors)
    });
    for ((end, before), after) in ["master", "server"].iter().zip(&before).zip(&after()) {
        println!(
            "{end}: {count} commands, descriptors {} to {}, KiB {} to {}",
            before.descriptors, after.descriptors, before.kib, after.kib
        );
        assert!(after.kib <= before.kib + SLACK_KIB, "{end} grew: {before:?} {after:?}");
    }
    assert_eq!(setup.logins(), 1);
}
