//! No thread outlives the loop, so that its caller may fork. This test is alone in its file because it counts
//! the threads of the process.

mod common;

use std::io::Read;
use std::os::fd::OwnedFd;

use common::World;
use lh_driver::{FdPump, LocalFd, Workers};

fn workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "packets").count()
}

#[test]
fn workers_start_and_end_with_the_loop() {
    let mut world = World::new();
    world.client.set_workers(Workers::Exactly(2));
    world.client_script.stop_when_gone = true;
    let (reader, writer) = std::io::pipe().unwrap();
    let input = std::fs::File::open("/dev/zero").unwrap().take(64 << 20);
    std::thread::spawn(move || {
        let (mut input, mut writer) = (input, writer);
        std::io::copy(&mut input, &mut writer)
    });
    let pump = FdPump::new().input(LocalFd::owned(OwnedFd::from(reader)).unwrap()).close_when_done();
    world.open(pump);
    assert_eq!(workers(), 0);
    world.serve(vec![Box::new(FdPump::new())]);
    let mut seen = 0;
    while world.client_script.gone.is_empty() {
        world.turn().unwrap();
        seen = seen.max(workers());
    }
    assert_eq!(seen, 2);
    world.client_script.gone.clear();
    world.client.control().stop(7);
    assert_eq!(world.client.run(&mut world.client_script).unwrap(), 7);
    assert_eq!(workers(), 0);
}
