//! Exit statuses of ssh-add(1).

/// Exit status when a request was refused or a key not found, and when the agent has no keys.
pub(crate) const FAILURE: u8 = 1;
/// Exit status when there is no agent.
pub(crate) const NO_AGENT: u8 = 2;
/// Exit status of fatal errors in ssh-add's sense.
pub(crate) const FATAL: u8 = 255;
