//! Directories of the server, within limits.

use lh_sftp::batch::{LIST_LONG, LIST_NAMES, Listing};
use lh_sftp::{Handle, Name, ReplyBody, Request, Status, StatusCode, extension};
use lh_transfer::MAX_LISTS;

use super::Remote;
use super::fault::{Answer, Fault};
use crate::detail::Detail;

/// Limit of consecutive replies without entries. A Longhaul server matches 128 Ki names before it sends one.
const MOST_EMPTY: usize = 10_000;

impl Remote {
    /// Reads a directory with several READDIRs in flight, and passes each entry to `each` as it arrives, in
    /// the server's order. Ends early on ^C. A server that can match patterns leaves out entries that do not
    /// match `pattern` (empty: all match); other servers send all entries. Details beyond `detail` may be
    /// missing. `each` returns how many bytes it keeps of the entry.
    ///
    /// # Errors
    /// The request fails, the command would keep more than 1 GiB of names, or the server sends too many
    /// replies without entries.
    pub fn list(
        &mut self,
        path: &[u8],
        pattern: &[u8],
        detail: Detail,
        each: &mut dyn FnMut(Name) -> usize,
    ) -> Answer<()> {
        let mut matched_there = false;
        let mut outcome = Ok(());
        let handle = if self.supports(extension::LIST_DIR) {
            matched_there = !pattern.is_empty();
            let Listing { handle, names } = self.list_there(path, pattern, detail)?;
            outcome = self.keep(names, each);
            if handle.is_empty() {
                return outcome;
            }
            Handle::new(&handle)
        } else {
            self.open(&Request::Opendir { path })?
        };
        if outcome.is_ok() {
            outcome = self.list_on(&handle, matched_there, each);
        }
        // The status of a directory's CLOSE does not matter.
        match outcome {
            Err(Fault::Lost) => {}
            _ if self.perform(&Request::Close { handle: &handle }) == Err(Fault::Lost) => {
                return Err(Fault::Lost);
            }
            _ => {}
        }
        outcome
    }

    /// Passes entries to `each` until the limit of kept bytes is reached.
    fn keep(&mut self, names: Vec<Name>, each: &mut dyn FnMut(Name) -> usize) -> Answer<()> {
        for name in names {
            self.kept = self.kept.saturating_add(each(name));
            if self.kept > self.most_kept {
                let most = lh_cli::progress::size(self.most_kept as u64);
                return Err(Fault::Refused(format!(
                    "Listing too large (more than {} of names)",
                    most.trim()
                )));
            }
        }
        Ok(())
    }

    /// Asks a Longhaul server for the first part of a listing.
    fn list_there(&mut self, path: &[u8], pattern: &[u8], detail: Detail) -> Answer<Listing> {
        let flags = match detail {
            Detail::Names => LIST_NAMES,
            Detail::Attrs => 0,
            Detail::Lines => LIST_LONG,
        };
        match self.ask(&Request::ListDir { path, pattern, flags }) {
            Ok(ReplyBody::Extended(fields)) => {
                let read = if detail == Detail::Names { Listing::read_short } else { Listing::read };
                read(&fields).map_err(|_| Fault::bad_message())
            }
            Ok(_) => Err(Fault::bad_message()),
            // An older Longhaul server.
            Err(Fault::Status(Status { code: StatusCode::OP_UNSUPPORTED, .. }))
                if detail == Detail::Names =>
            {
                self.list_there(path, pattern, Detail::Attrs)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Continues a listing to its end. `matched_there`: a reply without entries means that nothing has
    /// matched yet.
    fn list_on(
        &mut self,
        handle: &Handle,
        matched_there: bool,
        each: &mut dyn FnMut(Name) -> usize,
    ) -> Answer<()> {
        let mut in_flight = std::collections::VecDeque::new();
        let mut allowed = 2;
        let mut outcome = Ok(());
        let mut ended = false;
        let mut empty = 0;
        while !ended || !in_flight.is_empty() {
            while !ended && in_flight.len() < allowed {
                in_flight.push_back(self.send(&Request::Readdir { handle })?);
            }
            let Some(id) = in_flight.pop_front() else { break };
            match self.receive(id)? {
                // Replies that are still in flight at the end are dropped.
                ReplyBody::Names(_) if outcome.is_err() => {}
                ReplyBody::Names(names) if names.is_empty() => {
                    ended |= !matched_there;
                    empty += 1;
                    if empty > MOST_EMPTY {
                        outcome = Err(Fault::Refused("Too many replies without entries".to_owned()));
                        ended = true;
                    }
                }
                ReplyBody::Names(names) => {
                    empty = 0;
                    outcome = self.keep(names, each);
                    ended |= outcome.is_err();
                }
                ReplyBody::Status(status) => {
                    if status.code != StatusCode::EOF && !ended {
                        outcome = Err(Fault::Unread(status));
                    }
                    ended = true;
                }
                _ => {
                    let status = Status { code: StatusCode::BAD_MESSAGE, message: String::new() };
                    outcome = Err(Fault::Unread(status));
                    ended = true;
                }
            }
            allowed = (allowed + 1).min(MAX_LISTS as usize);
            ended |= self.interrupted();
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use bytes::Bytes;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::super::MOST_KEPT;
    use crate::conversation::{Carrier, Conversation};
    use crate::watch::Watch;

    /// A server whose listings never end.
    struct Endless {
        /// The entries of an answer.
        entries: u32,
        /// It matches patterns itself, as ours does.
        ours: bool,
        asked: Vec<u8>,
    }

    struct Taken<'a>(&'a mut Vec<u8>);

    impl lh_transfer::Output for Taken<'_> {
        fn budget(&mut self) -> usize {
            usize::MAX
        }

        fn send(&mut self, data: &[u8]) -> usize {
            self.0.extend_from_slice(data);
            data.len()
        }

        fn reserve(&mut self, _want: usize) -> Option<lh_wire::Reservation<'_>> {
            None
        }
    }

    impl Endless {
        fn answer(&self, request: &[u8]) -> Vec<u8> {
            use lh_wire::Writer;
            let mut reply = Vec::new();
            let (kind, id) = (request[0], &request[1..5]);
            match kind {
                1 => {
                    reply.put_u8(2);
                    reply.put_u32(3);
                    if self.ours {
                        reply.put_string(extension::LIST_DIR.as_bytes());
                        reply.put_string(b"1");
                    }
                }
                // OPENDIR, or list-dir with an empty first part.
                11 | 200 => {
                    reply.put_u8(if kind == 11 { 102 } else { 201 });
                    reply.extend_from_slice(id);
                    reply.put_string(b"handle");
                    if kind == 200 {
                        reply.put_string(b"");
                    }
                }
                12 => {
                    reply.put_u8(104);
                    reply.extend_from_slice(id);
                    reply.put_u32(self.entries);
                    for number in 0..self.entries {
                        reply.put_string(format!("name{number}").as_bytes());
                        reply.put_string(b"");
                        reply.put_u32(0);
                    }
                }
                _ => {
                    reply.put_u8(101);
                    reply.extend_from_slice(id);
                    reply.put_u32(0);
                    reply.put_string(b"");
                    reply.put_string(b"");
                }
            }
            let mut packet = Vec::new();
            packet.put_string(&reply);
            packet
        }
    }

    impl Carrier for Endless {
        fn run(&mut self, conversation: &Rc<RefCell<Conversation>>) {
            let mut conversation = conversation.borrow_mut();
            while !conversation.settled() {
                conversation.advance(&mut Taken(&mut self.asked), Instant::now());
                let mut replies = Vec::new();
                while let Some((length, rest)) = self.asked.split_first_chunk::<4>() {
                    let length = u32::from_be_bytes(*length) as usize;
                    replies.extend(self.answer(&rest[..length]));
                    self.asked.drain(..4 + length);
                }
                conversation.received(Bytes::from(replies), Instant::now());
            }
        }
    }

    fn listed(ours: bool, entries: u32, most_kept: usize) -> (Answer<()>, usize) {
        let (console, _other) = UnixStream::pair().unwrap();
        let conversation = Rc::new(RefCell::new(Conversation::new(Rc::new(Watch::new(console, None)))));
        let carrier = Box::new(Endless { entries, ours, asked: Vec::new() });
        let mut remote = Remote::greet(conversation, carrier).unwrap();
        remote.most_kept = most_kept;
        let mut count = 0;
        let outcome = remote.list(b"/", b"*x", Detail::Names, &mut |name| {
            count += 1;
            name.name.len()
        });
        (outcome, count)
    }

    #[test]
    fn a_listing_that_never_ends_is_bounded() {
        for ours in [true, false] {
            let (outcome, count) = listed(ours, 100, 50_000);
            let text = "Listing too large (more than 50kB of names)";
            assert_eq!(outcome.map_err(|fault| fault.text()), Err(text.to_owned()));
            assert!((8_000..10_100).contains(&count), "{count}");
        }
    }

    #[test]
    fn replies_without_entries_come_to_an_end() {
        let (outcome, _) = listed(true, 0, MOST_KEPT);
        let text = "Too many replies without entries".to_owned();
        assert_eq!(outcome, Err(Fault::Refused(text)));
        assert_eq!(listed(false, 0, MOST_KEPT), (Ok(()), 0));
    }
}
