//! Agents that use security keys for others.
