//! Bindings of an agent's connection to sessions, and the login requests that it is to sign: a key signs only
//! on a path that its destination constraints name.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lhssh_agent::fuzzing::bindings(bytes));
