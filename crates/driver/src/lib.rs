//! The readiness loop that client and server share.
//!
//! * [`Link`] is a transport with its descriptors. During key exchange and authentication it is used in
//!   blocking style: [`Link::next_event`].
//! * [`Driver`] is a link with channels. Each channel has a [`ChannelHandler`]. The program itself is the
//!   [`Control`], which decides what may be opened, answers global requests and adds its own event sources
//!   (signals, child processes, listeners).
//! * [`FdPump`] is the handler that most channels need: local descriptors on one side, the channel on the
//!   other.
//! * [`Listening`] accepts connections to forward and [`dial()`] makes them, neither of them blocking.
//!
//! Decisions that shaped this crate:
//! * One loop over `poll(2)`, whose descriptor list is rebuilt each turn. A connection has few descriptors.
//!   With a thousand forwards the rebuild costs tens of microseconds a turn, and no list entry can refer to a
//!   descriptor that was closed since. It sits behind [`Interests`], so that it can be replaced.
//! * The socket is always read: a full sink stops the credit of its own channel and nothing else.
//! * Bulk data is produced only when there is space for it. [`ChannelCx::budget`] combines the peer's window,
//!   the output queue's water marks, a running key exchange and a fair share per turn. A handler that gets 0
//!   is called again.
//! * Other threads can run the ciphers ([`Workers`]); one thread makes all system calls of a connection. The
//!   workers run for sustained bulk only: a keystroke is sealed and sent by the thread that handled it.
//! * In the middle of bulk the loop polls again for some microseconds before it sleeps (`spin`).
//! * Many packets per system call, both ways; interactive data is flushed at the end of the turn that
//!   produced it.

mod batch;
mod beyond;
mod channel_output;
mod control;
mod core;
mod dial;
mod driver;
mod error;
mod event;
mod facts;
mod handler;
mod hold;
mod idle;
mod idle_timer;
mod ids;
mod input_limit;
mod keepalive;
mod limits;
mod link;
mod listen;
mod local_fd;
mod messages;
mod mix;
mod pace;
mod poller;
mod pump;
mod resolve;
mod resume;
mod resumption;
mod round_trip;
mod serving;
mod share;
mod shared_rate;
mod sink;
mod slots;
mod spin;
mod stats;
mod stream;
mod tunnel;
mod worker_pool;

pub use control::{Control, ControlEvent};
pub use dial::{Family, Target, dial};
pub use driver::Driver;
pub use error::{DriverError, ResumeViolation};
pub use event::ChannelEvent;
pub use facts::Traffic;
pub use handler::{ChannelCx, ChannelHandler, ControlCx, Source};
pub use idle::IdleChannels;
pub use idle_timer::IdleTimer;
pub use ids::{HandlerId, SourceId};
pub use input_limit::InputLimit;
pub use keepalive::{Keepalive, KeepaliveAction};
pub use link::{LEAVE_ENDINGS, Leave, Leaving, Link, LinkError, Stage};
pub use listen::{Accepted, Bound, ListenOn, Listening, SocketFile, UnixListener, listen_tcp};
pub use local_fd::{Direction, LocalFd};
pub use poller::{Interest, Interests, Ready};
pub use pump::{FdPump, InputFilter};
pub use resolve::Resolver;
pub use shared_rate::SharedRate;
pub use stats::ConnectionStats;
pub use stream::Stream;
pub use tunnel::PacketPump;
pub use worker_pool::{WorkerPool, Workers};

pub use lh_connection::{ChannelId, ChannelOptions, Config as ConnectionConfig, HandedOver, WindowPolicy};
