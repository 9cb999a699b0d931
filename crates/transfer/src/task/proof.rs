//! The comparisons that read back what was written.

/// Which of the two comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProofStage {
    /// All of it, under the name that it was written under.
    Written,
    /// Samples, under its final name.
    Named,
}
