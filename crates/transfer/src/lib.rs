//! The copy engine behind `lhscp` and `lhsftp`: trees of files over SFTP, many in flight.
//!
//! Three decisions shaped it.
//!
//! **A state machine without sockets.** [`Engine`] is fed what arrives ([`Engine::received`]) and asked what
//! to send ([`Engine::advance`], into an [`Output`]). One thread runs it beside the packet layer, with
//! nothing between a file and the packets that carry it: an upload reads the file into the send buffer
//! itself, a download writes the slices of the received packets.
//!
//! **One engine for all directions.** Both ends, local or remote, take the same operations (the `end` module)
//! and answer later; a local end merely answers at once. So the walk, the order of things, the preserving of
//! times and the handling of failures are written once for upload, download, and remote to remote.
//!
//! **Requests in order, answers in any.** READs and WRITEs go out file after file, each file from its start,
//! as deep as the path allows; acknowledgements are collected as they come. An interrupted copy is therefore
//! a prefix of the file, never a file with holes. Small files cost no round trip each: dozens are being
//! opened, written and closed at a time.
//!
//! The modules form a tree. The parts own what is known, and none of them imports the engine: `plan` (what
//! the command line names), `tree` (directories), `task` (one file), `flow` (how much may be in flight),
//! `channels`, `batch` (small files by the message), `place` (under which names files grow), `in_place`
//! (opening final names), `checks` (is a copy right), `endings` (closing), `links`, `sync`, `journal`, the
//! ends (`local`, `remote`, behind the operations of `end`). `engine` is the scheduler: it alone knows the
//! others.
//!
//! Existing targets are overwritten in place and cut to length at the end, as `scp` does: copying a file onto
//! itself by two names must not destroy it.

mod additional;
mod additional_connection;
mod answers;
mod batch;
mod capabilities;
mod changed;
mod channels;
mod checks;
mod content;
mod data_requests;
mod driver;
mod end;
mod endings;
mod ends;
mod engine;
mod event;
mod file_work;
mod flow;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handles;
mod in_place;
mod item;
pub mod journal;
mod leftovers;
mod links;
mod local;
mod local_path;
pub mod manifest_file;
mod names;
mod options;
mod place;
mod plan;
mod preserving;
mod progress;
pub mod rcp;
mod remote;
mod remote_stderr;
mod report;
mod seen;
mod select;
mod sync;
mod table;
mod target_facts;
mod task;
mod to_open;
mod token;
mod tree;
mod turn;
mod wakes;
mod wording;

pub use additional::Load;
pub use additional_connection::AdditionalConnections;
pub use answers::status_text;
pub use content::{ContentSum, SumAlgorithm};
pub use driver::{AsSession, Job, JobHandler, Report};
pub use engine::Engine;
pub use event::{Copied, CopiedKind, Event, Summary, Totals, Waits};
pub use file_work::{FileWork, FileWorkDone, SendWork, Sent};
pub use lh_sftp::glob::{has_magic, matches as glob_matches};
pub use lh_wire::Output;
pub use names::{RemotePath, base_name, display_name, is_safe_name, join, remote_path};
pub use options::{
    Direction, Keep, Limits, Options, Placing, Plan, Reporting, SHARDS_NEED_THE_TARGET, Timeouts, TreeSync,
    Verify,
};
pub use progress::Current;
pub use remote_stderr::RemoteStderr;

pub use select::{BadShard, Manifest, Rule, Selection, Shard};
pub use token::Side;
pub use tree::MAX_LISTS;
pub use wakes::Wakes;
pub use wording::no_version;
