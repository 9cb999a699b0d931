//! Work on the bytes of local files: reading, writing, hashing, waiting for the disk.
//!
//! The engine decides which bytes, and hands the work out; the thread of a connection carries it out without
//! the engine's lock, and gives the result back. So connections read, write and hash at the same time.
//!
//! A piece of work owns all that it needs. Its file stays open and in the engine's table until the work is
//! back ([`lent`](crate::task::requests::Requests::lent)).

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use lh_sftp::{PieceSum, ReadBack, WriteHeader};
use lh_wire::Output;

use crate::channels::unfinished::Unfinished;
use crate::end::{Fault, Handle, Op, Outcome};
use crate::local;
use crate::table::Key;
use crate::task::content::InOrder;
use crate::task::holes::Growth;
use crate::token::Token;

/// Bytes of a source file that go into a WRITE on one channel.
#[derive(Debug)]
pub struct SendWork {
    pub(crate) channel: usize,
    pub(crate) write: Unfinished,
    /// Header of a WRITE that is not sent yet.
    pub(crate) header: Option<WriteHeader>,
    pub(crate) source: Handle,
    /// The WRITE must have the length that it was begun with, as far as the file has: the file's length is
    /// known.
    pub(crate) promised: bool,
    /// The sum over the content, while these are the next bytes in order.
    pub(crate) content: Option<InOrder>,
}

/// Result of a [`SendWork`].
#[derive(Debug)]
pub struct Sent {
    pub(crate) channel: usize,
    pub(crate) write: Unfinished,
    pub(crate) content: Option<InOrder>,
    pub(crate) outcome: SendOutcome,
    /// Time that reading took.
    pub(crate) took: Duration,
}

/// See [`Sent`].
#[derive(Debug)]
pub(crate) enum SendOutcome {
    /// The WRITE was begun; it has `len` bytes.
    Begun(NewWrite, usize),
    /// Nothing was sent of the WRITE: the file has ended, or cannot be read.
    NotBegun(NewWrite, Option<Fault>),
    /// Nothing was sent of the WRITE: the channel takes nothing.
    NoSpace(NewWrite),
    /// Bytes that were sent of a WRITE that was begun before.
    Continued(usize),
    /// The file does not have what its WRITE has promised, for this reason.
    Short(Option<Fault>),
}

/// A WRITE as it was planned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewWrite {
    /// Id of the request.
    pub(crate) id: u32,
    pub(crate) offset: u64,
    pub(crate) want: usize,
}

impl SendWork {
    /// Reads the bytes of the file into the memory that they are sent from.
    pub fn carry_out(self, out: &mut dyn Output) -> Sent {
        let Self { channel, mut write, header, source, promised, mut content } = self;
        let mut took = Duration::ZERO;
        let mut fill = |write: &mut Unfinished, slices: &mut [std::io::IoSliceMut<'_>]| {
            let begun = Instant::now();
            let read = local::read_at(&source, write.offset, slices);
            took += begun.elapsed();
            let got = *read.as_ref().unwrap_or(&0);
            if let Some(content) = &mut content {
                content.update(slices, got);
            }
            if let Some(sum) = &mut write.sum {
                sum.update_slices(slices, got);
            }
            read
        };
        let outcome = match header {
            Some(header) => begin(&mut write, header, promised, out, &mut fill),
            None => continue_write(&mut write, out, &mut fill),
        };
        Sent { channel, write, content, outcome, took }
    }
}

type Fill<'a> = dyn FnMut(&mut Unfinished, &mut [std::io::IoSliceMut<'_>]) -> Result<usize, Fault> + 'a;

fn begin(
    write: &mut Unfinished,
    mut header: WriteHeader,
    promised: bool,
    out: &mut dyn Output,
    fill: &mut Fill<'_>,
) -> SendOutcome {
    let new = NewWrite { id: header.id(), offset: write.offset, want: write.left };
    let (header_len, want, budget) = (header.size(), new.want, out.budget());
    let Some(mut reservation) = out.reserve((header_len + want).min(budget)) else {
        return SendOutcome::NoSpace(new);
    };
    let total = reservation.total();
    let mut slices = reservation.slices();
    let mut data = slices.behind(header_len);
    if data.is_empty() {
        return SendOutcome::NoSpace(new);
    }
    let got = match fill(write, &mut data) {
        Ok(got @ 1..) => got,
        read => return SendOutcome::NotBegun(new, read.err()),
    };
    // Less than there was space for: the file ends here, or will not say more now.
    let whole = promised && header_len + got == total;
    let len = if whole { want } else { got };
    slices.put(header.bytes(len));
    let sent = reservation.commit(header_len + got).saturating_sub(header_len);
    write.offset += sent as u64;
    write.left = len - sent;
    SendOutcome::Begun(new, len)
}

fn continue_write(write: &mut Unfinished, out: &mut dyn Output, fill: &mut Fill<'_>) -> SendOutcome {
    let want = write.left.min(out.budget());
    let Some(mut reservation) = out.reserve(want) else { return SendOutcome::Continued(0) };
    let mut slices = reservation.slices();
    let read = fill(write, &mut slices);
    let sent = reservation.commit(*read.as_ref().unwrap_or(&0));
    match read {
        Ok(1..) => {
            write.offset += sent as u64;
            write.left -= sent;
            SendOutcome::Continued(sent)
        }
        read => SendOutcome::Short(read.err()),
    }
}

/// Work on files that needs no channel.
#[derive(Debug)]
pub struct FileWork(pub(crate) Job);

/// Result of a [`FileWork`].
#[derive(Debug)]
pub struct FileWorkDone(pub(crate) JobDone);

/// See [`FileWork`].
#[derive(Debug)]
pub(crate) enum Job {
    Write(WriteWork),
    Operation(Token, SlowOp),
}

/// See [`FileWorkDone`].
#[allow(clippy::large_enum_variant, reason = "it is returned once and taken apart at once")]
#[derive(Debug)]
pub(crate) enum JobDone {
    Write(Box<Written>),
    Operation(Token, Outcome),
}

/// Bytes that have come, on their way into a file.
#[derive(Debug)]
pub(crate) struct WriteWork {
    pub(crate) key: Key,
    pub(crate) offset: u64,
    pub(crate) data: lh_sftp::Data,
    pub(crate) target: Option<Handle>,
    /// Growth of a file in which runs of zeros become holes.
    pub(crate) growth: Option<Growth>,
    /// Zeros are left out of these bytes: the file has nothing there.
    pub(crate) sparse: bool,
    /// Part of the written data that is read back, if they are summed up.
    pub(crate) sum: Option<ReadBack>,
    pub(crate) content: Option<InOrder>,
}

/// Result of a [`WriteWork`].
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) key: Key,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// `None`: the file had failed before.
    pub(crate) outcome: Option<Result<(), Fault>>,
    /// `None` where it was to be summed up: it cannot be read.
    pub(crate) sum: Option<PieceSum>,
    pub(crate) content: Option<InOrder>,
    pub(crate) took: Duration,
}

/// An operation on a file of this host that reads many bytes or waits for the disk.
#[derive(Debug)]
pub(crate) enum SlowOp {
    Digests {
        handle: Handle,
        offset: u64,
        len: u64,
    },
    Peek {
        handle: Handle,
        offset: u64,
        len: u32,
    },
    Sync(Handle),
    /// Closes the file after its [`SlowOp::Sync`].
    Close(Handle),
}

impl SlowOp {
    /// The operation, if it is one to be carried out without the engine, behind the work that `waits`; else
    /// gives it back.
    pub(crate) fn of<'a>(op: Op<'a>, waits: &VecDeque<FileWork>) -> Result<Self, Op<'a>> {
        match op {
            Op::Digests { handle, offset, len } => Ok(Self::Digests { handle: handle.clone(), offset, len }),
            Op::Peek { handle, offset, len } => Ok(Self::Peek { handle: handle.clone(), offset, len }),
            Op::Sync(handle) => Ok(Self::Sync(handle.clone())),
            Op::Close(Handle::Local(fd)) if waits.iter().any(|work| work.syncs(&fd)) => {
                Ok(Self::Close(Handle::Local(fd)))
            }
            op => Err(op),
        }
    }

    fn carry_out(self) -> Outcome {
        match self {
            Self::Digests { handle, offset, len } => {
                local::perform(Op::Digests { handle: &handle, offset, len })
            }
            Self::Peek { handle, offset, len } => local::perform(Op::Peek { handle: &handle, offset, len }),
            Self::Sync(handle) => local::perform(Op::Sync(&handle)),
            Self::Close(handle) => local::perform(Op::Close(handle)),
        }
    }
}

impl FileWork {
    fn syncs(&self, fd: &Arc<std::os::fd::OwnedFd>) -> bool {
        matches!(&self.0, Job::Operation(_, SlowOp::Sync(Handle::Local(own))) if Arc::ptr_eq(own, fd))
    }

    /// Does it.
    pub fn carry_out(self) -> FileWorkDone {
        FileWorkDone(match self.0 {
            Job::Write(work) => JobDone::Write(Box::new(work.carry_out())),
            Job::Operation(token, op) => JobDone::Operation(token, op.carry_out()),
        })
    }
}

impl WriteWork {
    fn carry_out(mut self) -> Written {
        let (data, offset) = (&self.data, self.offset);
        let mut done = Written {
            key: self.key,
            offset,
            len: data.len() as u64,
            outcome: None,
            sum: None,
            content: None,
            took: Duration::ZERO,
        };
        let Some(target) = &self.target else { return done };
        let begun = Instant::now();
        let written = match &self.growth {
            None => local::write_all_at(target, offset, data.chunks()),
            Some(growth) => {
                let shared = growth.read().unwrap_or_else(PoisonError::into_inner);
                let grows_to = if self.sparse {
                    local::write_sparse_at(target, offset, data.chunks())
                } else {
                    local::write_all_at(target, offset, data.chunks()).map(|()| None)
                };
                drop(shared);
                match grows_to {
                    Ok(Some(end)) => {
                        let _alone = growth.write().unwrap_or_else(PoisonError::into_inner);
                        local::lengthen(target, end)
                    }
                    Ok(None) => Ok(()),
                    Err(fault) => Err(fault),
                }
            }
        };
        done.took = begun.elapsed();
        if written.is_ok() {
            if let Some(content) = &mut self.content {
                content.update(data.chunks(), data.len());
            }
            done.sum = self.sum.and_then(|how| local::sum_written(target, offset, data.chunks(), how).ok());
        }
        done.content = self.content;
        done.outcome = Some(written);
        done
    }
}
