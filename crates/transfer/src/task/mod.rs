//! One file's copy: what is known of it, from the first look at it to its CLOSE.
//!
//! | module | what |
//! |---|---|
//! | [`check`] | comparing what is there already |
//! | [`content`] | the sum over its content |
//! | [`data_ranges`] | asking where the data of a sparse file are |
//! | [`ending`] | what has to be done to end it |
//! | [`preserve`] | owner and extended attributes |
//! | [`mod@file`] | the file itself |
//! | [`found`] | what follows from what is there under its names |
//! | [`handles`] | its handles, of both ends and on additional channels |
//! | [`holes`] | where its data and its holes are |
//! | [`owner`] | whether what is under that name is ours |
//! | [`place`] | the name under which it grows |
//! | [`probe`] | what has its two names at the target already |
//! | [`proof`] | reading back what was written |
//! | [`queues`] | all files, and whose data move next |
//! | [`requests`] | which bytes have been asked for or sent |
//! | [`source_after`] | what is known of the source after it was read |
//! | [`source_check`] | looking at the source again after it was read |
//! | [`state`] | where it is between the first look at it and its end |
//! | [`sums`] | the sums over its bytes |
//! | [`taken`] | which bytes the target has taken |

pub(crate) mod check;
pub(crate) mod content;
pub(crate) mod data_ranges;
pub(crate) mod ending;
mod file;
pub(crate) mod found;
pub(crate) mod handles;
pub(crate) mod holes;
pub(crate) mod owner;
pub(crate) mod place;
pub(crate) mod preserve;
pub(crate) mod probe;
pub(crate) mod proof;
pub(crate) mod queues;
pub(crate) mod requests;
pub(crate) mod source_after;
pub(crate) mod source_check;
pub(crate) mod state;
pub(crate) mod sums;
pub(crate) mod taken;

pub(crate) use file::File;
