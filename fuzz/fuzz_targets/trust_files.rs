//! Files that users write and the monitor reads: `.shosts`, lists of principals, known hosts.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lh_server::fuzzing::trust_files(bytes));
