//! Host and user keys, and the files they live in.

mod private;
mod public;

pub use private::{KeyType, PrivateKey};
pub use public::{FingerprintHash, PublicKey};
