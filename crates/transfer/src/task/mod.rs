//! One file's copy: what is known of it, from the first look at it to its CLOSE.
//!
//! | module | what |
//! |---|---|
//! | [`check`] | comparing what is there already |
//! | [`content`] | the sum over its content |
//! | [`extras`] | owner and extended attributes |
//! | [`mod@file`] | the file itself, and which of its bytes have been asked for, sent and taken |
//! | [`holes`] | where its data and its holes are |
//! | [`place`] | the name under which it grows |
//! | [`proof`] | reading back what was written |
//! | [`queues`] | all files, and whose data move next |
//! | [`source_after`] | whether the source changed while it was read |
//! | [`stripes`] | its handles on additional channels |

pub(crate) mod check;
pub(crate) mod content;
pub(crate) mod extras;
mod file;
pub(crate) mod holes;
pub(crate) mod place;
pub(crate) mod proof;
pub(crate) mod queues;
pub(crate) mod source_after;
pub(crate) mod stripes;

pub(crate) use file::{File, Phase};
