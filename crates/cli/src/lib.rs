//! (under construction)
pub mod progress;
