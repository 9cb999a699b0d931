//! How far reading back what was written is.

/// Which of the two comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProofStage {
    /// All of it, under the name that it was written under.
    Written,
    /// Samples, under its final name.
    Named,
}

/// How far a file has come with it.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    /// What is being compared.
    pub(crate) stage: Option<ProofStage>,
    /// Ends that are not open yet.
    pub(crate) opening: u8,
    pub(crate) written: bool,
    pub(crate) named: bool,
    /// The target is no plain file: a device does not give back what it was given.
    pub(crate) special: bool,
}
