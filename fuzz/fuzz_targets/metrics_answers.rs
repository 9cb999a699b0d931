//! Replies to the request for metrics, and the metrics lines that are read back: no panic, bounded memory,
//! and known fields survive.
#![no_main]

use lh_metrics::{answer, binn, read_answer, read_runs};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entries) = binn::decode(bytes) {
        let again = binn::encode(entries.iter().map(|(name, value)| (name.as_str(), value)));
        assert_eq!(binn::decode(&again), Ok(entries));
    }
    if let Ok(sample) = read_answer(bytes) {
        assert_eq!(read_answer(&answer(&sample, (6, 1), true)), Ok(sample));
    }
    let _ = read_runs(bytes);
});
