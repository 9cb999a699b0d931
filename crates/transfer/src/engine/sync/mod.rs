//! Copying only what differs ([`crate::TreeSync`]): carries out what [`crate::sync`] decides.
//!
//! The entries of a directory are compared when both ends have listed it, by size and time of modification,
//! so that what is unchanged costs no request ([`super::dirs`] does that). What a listing does not decide is
//! asked for, item by item ([`compare`]); contents are compared by the digests of the servers, else by
//! reading them. What the source does not have is deleted at the end ([`removal`]). Both may be moved
//! elsewhere instead ([`crate::sync::backup`]).

mod compare;
mod removal;
