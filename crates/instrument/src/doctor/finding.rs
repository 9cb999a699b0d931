//! One cause, with its evidence.

use serde_json::{Value, json};

/// Something that limits the path, a login or a shell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    /// Name for programs; docs/measuring.md lists them.
    pub(crate) cause: &'static str,
    /// One sentence.
    pub(crate) title: String,
    /// Measured values that show it.
    pub(crate) evidence: Vec<String>,
    /// The expected gain.
    pub(crate) gain: String,
    /// Commands and settings to change.
    pub(crate) change: Vec<String>,
    /// Findings are shown in the order of their weights, highest first. For throughput, it is the binary
    /// logarithm of the factor that can be gained ([`weight_of_factor`]); for waiting times, a comparable
    /// value ([`weight_of_time`]).
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

/// Returns the weight of a finding that could make the throughput `factor` times higher.
pub(crate) fn weight_of_factor(factor: f64) -> f64 {
    factor.max(1.0).log2()
}

/// Returns the weight of a finding that lets a person wait for this many seconds. A quarter of a second
/// counts like half the throughput.
pub(crate) fn weight_of_time(seconds: f64) -> f64 {
    (1.0 + seconds / 0.25).log2()
}
