//! The readiness loop that client and server share.
//!
//! * [`Link`] is a transport with its descriptors. While hands are still being shaken (key exchange, authentication)
//!   it is used in blocking style: [`Link::next_event`].
//! * [`Driver`] is a link with channels. Each channel has a [`ChannelHandler`]; the program itself is the
//!   [`Control`], which decides what may be opened, answers global requests and brings event sources of its own
//!   (signals, child processes, listeners).
//! * [`FdPump`] is the handler that most channels need: local descriptors on one side, the channel on the other.
//! * What forwards are made of at both ends: [`Listening`] lets connections in, [`dial()`] makes them, and neither waits.
//!
//! Decisions that shaped this crate:
//! * One loop, `poll(2)`, rebuilt each turn. A connection has few descriptors; with a thousand forwards the
//!   rebuild costs tens of microseconds a turn, and nothing can point at a descriptor that was closed since.
//!   It sits behind [`Interests`], so that it can be changed.
//! * The socket is always read: a sink that is full stops the credit of its own channel and nothing else.
//! * Bulk is produced only when there is room. [`ChannelCx::budget`] combines the peer's window, the output queue's
//!   water marks, a running key exchange and a fair share per turn; whoever finds it 0 is called again.
//! * Ciphers can be done by other threads ([`Workers`]), the system calls of a connection are made by one. They join
//!   for sustained bulk only: a keystroke is sealed and sent by the thread that handled it.
//! * In the middle of bulk the loop asks again for some microseconds before it sleeps (`spin`).
//! * Many packets per system call, both ways; interactive data is flushed at the end of the turn that made it.

mod core;
mod crew;
mod cx;
mod dial;
mod distance;
mod driver;
mod figures;
mod handler;
mod idle;
mod keepalive;
mod link;
mod listen;
mod local_fd;
mod pace;
mod poller;
mod pump;
mod resolve;
mod sink;
mod spin;
mod stream;
mod tunnel;

pub use crew::{Crew, Workers};
pub use cx::{ChannelCx, ControlCx};
pub use dial::{Family, Target, dial, error_words};
pub use driver::{Driver, DriverError};
pub use figures::Figures;
pub use handler::{ChannelEvent, ChannelHandler, Control, ControlEvent, HandlerId, Source, SourceId};
pub use idle::IdleChannels;
pub use keepalive::{Keepalive, KeepaliveAction};
pub use link::{Link, LinkError, Stage};
pub use listen::{Accepted, Bound, ListenOn, Listening, UnixListener, listen_tcp};
pub use local_fd::{Direction, LocalFd};
pub use poller::{Interest, Interests, Ready};
pub use pump::{FdPump, InputFilter};
pub use resolve::Resolver;
pub use stream::Stream;
pub use tunnel::PacketPump;

pub use lh_connection::{ChannelId, ChannelOptions, Config as ConnectionConfig, HandedOver, WindowPolicy};
