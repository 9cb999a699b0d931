//! SFTP version 3 (draft-ietf-secsh-filexfer-02) with OpenSSH's extensions, both sides, without I/O of its
//! own: [`fs::FileSystem`] and [`server::Lookup`] give access to the host's files and clocks (crate
//! `sftp-fs`).
//!
//! The crate never gathers file bytes in a buffer of its own; this decision shapes it. The client [`Session`]
//! returns DATA as slices of the received packets. The [`server::Server`] reads files straight into the
//! packets to be sent ([`lh_wire::Output::reserve`]), and writes them straight from the received packets.
//! Both take bytes in any chunking and know nothing of channels.
//!
//! | for | see |
//! |---|---|
//! | messages and numbers | [`Request`], [`Reply`], [`Attrs`], [`protocol`], [`extension`] |
//! | a client | [`Session`] |
//! | a server | [`server::Server`] over a [`fs::FileSystem`] |
//! | many small files in a message, listings in a round trip | [`batch`] |
//! | patterns | [`glob`] |
//! | attributes that version 3 has no fields for | [`extended_attrs`] |
//! | which string of SYMLINK names the link | [`link_order`] |
//! | finding the order that an unknown server reads | [`link_trial`] |

mod attrs;
pub mod batch;
pub mod batched_extended_attrs;
mod chunks;
pub mod extended_attrs;
pub mod fill;
pub mod fs;
pub mod glob;
pub mod link_order;
pub mod link_trial;
pub mod protocol;
mod refusal;
mod reply;
mod request;
pub mod server;
mod session;
mod sum;
pub mod whole;
mod write_header;

pub use attrs::{Attrs, Limits, StatVfs, mode};
pub use protocol::{OpenFlags, PacketType, StatusCode, extension};
pub use refusal::REPLACED;
pub use reply::{Data, Handle, Name, Reply, ReplyBody, ReplyWriter, Status};
pub use request::{BadRequest, BadRequestKind, Request};
pub use session::{Incoming, Session, SessionError};
pub use sum::{PieceSum, ReadBack, RunningSum, SumStep};
pub use write_header::{WriteHeader, write_size};
