//! `~/.ssh/environment`: what a program gets of it has names, and no line ends or NULs.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lh_server::fuzzing::user_environment(bytes));
