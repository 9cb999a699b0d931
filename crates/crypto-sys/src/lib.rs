//! Calls of AWS-LC that `aws-lc-rs`, its safe interface, leaves out.
//!
//! Only `lh_crypto` uses this crate. It may contain `unsafe`, under the same rules as `lh_sys`: each block
//! has a SAFETY comment, and a value that owns an allocation of the library frees it when dropped.
//!
//! | module | purpose |
//! |---|---|
//! | [`mldsa`] | ML-DSA signatures with a context |
//! | [`rsa`] | RSA signatures over SHA-1, and keys of unusual sizes, for old equipment |

// The bindings of the FIPS module lack contexts.
#[cfg(not(feature = "fips"))]
pub mod mldsa;
pub mod rsa;

#[cfg(feature = "fips")]
use aws_lc_fips_sys as aws_lc;
#[cfg(not(feature = "fips"))]
use aws_lc_sys as aws_lc;
