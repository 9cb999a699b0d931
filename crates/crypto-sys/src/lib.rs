//! Calls of AWS-LC that `aws-lc-rs`, its safe interface, leaves out.
//!
//! Only `lh_crypto` uses this crate. It may contain `unsafe`, under the same rules as `lh_sys`: each block
//! has a SAFETY comment, and a value that owns an allocation of the library frees it when dropped.
//!
//! | module | purpose |
//! |---|---|
//! | [`mldsa`] | ML-DSA signatures with a context |
//! | [`rsa`] | RSA signatures over SHA-1, and keys of unusual sizes, for old equipment |

pub mod mldsa;
pub mod rsa;
