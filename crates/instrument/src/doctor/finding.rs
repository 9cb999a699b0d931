//! One cause, with its evidence.

use serde_json::{Value, json};

/// Something that limits the path, a login or a shell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    /// Name for programs; docs/measuring.md lists them.
    pub(crate) cause: &'static str,
    /// One sentence.
    pub(crate) title: String,
    /// The figures that it is based on.
    pub(crate) evidence: Vec<String>,
    /// The expected gain.
    pub(crate) gain: String,
    /// Commands and settings to change.
    pub(crate) change: Vec<String>,
    /// Order of findings, highest first: the binary logarithm of how many times faster it could be, or for
    /// times about the same scale (see [`weight_of_time`]).
    pub(crate) weight: f64,
}

impl Finding {
    pub(crate) fn json(&self) -> Value {
        json!({
            "cause": self.cause, "title": self.title, "evidence": self.evidence, "gain": self.gain,
            "change": self.change,
        })
    }
}

/// The weight of a factor of throughput.
pub(crate) fn weight_of_factor(factor: f64) -> f64 {
    factor.max(1.0).log2()
}

/// The weight of seconds that a person waits: a quarter of a second counts like half the throughput.
pub(crate) fn weight_of_time(seconds: f64) -> f64 {
    (1.0 + seconds / 0.25).log2()
}
