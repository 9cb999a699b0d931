//! A mux client in proxy mode (OpenSSH's PROTOCOL.mux): it writes and parses the messages of its channels
//! itself; the master forwards them with translated channel numbers.
//!
//! The client is a process of the same user, but its mistakes must not end a connection that others share. A
//! message that the server would punish (another client's channel, data beyond a window, malformed fields)
//! ends only the client. Its bulk data is read only while the output buffer has space, in turn with others'.
//! Data from the server is bounded by the windows that the client has granted.
//!
//! Only the announced packet sizes are not forwarded unchanged. Each end chose them for the peer that it
//! knows, which is this master. So both get the size that the RFCs require every implementation to accept.

mod from_client;
mod from_server;
mod state;

pub(super) use state::Relay;
