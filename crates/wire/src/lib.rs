//! The SSH wire format: RFC 4251 data types and one struct per `SSH_MSG_*`.
//!
//! The crate sets one rule for all others. Bytes from a peer are read through a borrowing [`Reader`]: it can
//! fail, but it never panics and never allocates by a length that the peer chose. Every message rejects
//! trailing bytes. The crate knows nothing about sockets, keys or time.
//!
//! | RFC 4251 section 5 | Rust |
//! |---|---|
//! | `byte`, `byte[n]` | `u8`, `&[u8]` |
//! | `boolean` | `bool` (any non-zero byte reads as true) |
//! | `uint32`, `uint64` | `u32`, `u64` |
//! | `string` | `&[u8]`, or `&str` where the RFC says the text is UTF-8 or US-ASCII |
//! | `mpint` | [`Mpint`], the unsigned magnitude |
//! | `name-list` | [`NameList`] |

mod log_level;
mod message;
pub mod msg;
mod output;
pub mod peer;
mod reader;
mod shown;
mod sink;
mod slices;
mod writer;

pub use log_level::LogLevel;
pub use message::Message;
pub use output::{Output, Reservation, Reserved};
pub use reader::{Mpint, NameList, Reader};
pub use shown::{LONGEST_TEXT, PrintableStream, is_hidden, printable, printable_lines, shortened};
pub use sink::PacketSink;
pub use slices::Slices;
pub use writer::{Writer, string_len};

/// Error of decoding: the bytes are not what the protocol says they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The data ends before `what` is complete.
    #[error("truncated: {what}")]
    Truncated {
        /// The RFC 4251 type or the field that was being read.
        what: &'static str,
    },
    /// Bytes follow the last field of a message.
    #[error("{count} trailing bytes")]
    TrailingBytes {
        /// Number of trailing bytes.
        count: usize,
    },
    /// A text field is not UTF-8.
    #[error("text is not UTF-8")]
    NotUtf8,
    /// An `mpint` is negative or has needless leading zeros (RFC 4251 section 5).
    #[error("malformed mpint")]
    BadMpint,
    /// A `name-list` holds a byte outside printable US-ASCII.
    #[error("malformed name-list")]
    BadNameList,
    /// The message is not the one that was expected.
    #[error("message {got} where {expected} was expected")]
    WrongMessage {
        /// The message number of the expected message (RFC 4250).
        expected: u8,
        /// The message number that was found.
        got: u8,
    },
    /// A field holds a value its definition does not allow.
    #[error("invalid {what}")]
    Invalid {
        /// The field's name.
        what: &'static str,
    },
}

/// Result of a decoding step.
pub type Result<T> = core::result::Result<T, WireError>;
