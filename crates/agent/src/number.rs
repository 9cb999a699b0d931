//! Message and constraint numbers (RFC 9987 section 6).

pub(crate) const FAILURE: u8 = 5;
pub(crate) const SUCCESS: u8 = 6;
pub(crate) const REQUEST_IDENTITIES: u8 = 11;
pub(crate) const IDENTITIES_ANSWER: u8 = 12;
pub(crate) const SIGN_REQUEST: u8 = 13;
pub(crate) const SIGN_RESPONSE: u8 = 14;
pub(crate) const ADD_IDENTITY: u8 = 17;
pub(crate) const REMOVE_IDENTITY: u8 = 18;
pub(crate) const REMOVE_ALL_IDENTITIES: u8 = 19;
pub(crate) const ADD_SMARTCARD_KEY: u8 = 20;
pub(crate) const REMOVE_SMARTCARD_KEY: u8 = 21;
pub(crate) const LOCK: u8 = 22;
pub(crate) const UNLOCK: u8 = 23;
pub(crate) const ADD_ID_CONSTRAINED: u8 = 25;
pub(crate) const ADD_SMARTCARD_KEY_CONSTRAINED: u8 = 26;
pub(crate) const EXTENSION: u8 = 27;
pub(crate) const EXTENSION_FAILURE: u8 = 28;
pub(crate) const EXTENSION_RESPONSE: u8 = 29;
/// Failure numbers that PuTTY's and ssh.com's agents send instead of [`FAILURE`].
pub(crate) const OTHER_FAILURES: [u8; 2] = [30, 102];

pub(crate) const CONSTRAIN_LIFETIME: u8 = 1;
pub(crate) const CONSTRAIN_CONFIRM: u8 = 2;
pub(crate) const CONSTRAIN_MAXSIGN: u8 = 3;
pub(crate) const CONSTRAIN_EXTENSION: u8 = 255;
