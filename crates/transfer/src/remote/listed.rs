//! Entries of listings that are looked at one by one, where a server's READDIR may follow links.
//!
//! READDIR should return the attributes of a link itself, as LSTAT does. Some servers return those of what it
//! leads to (pysftpserver, the example server of Paramiko). There a link to a directory looks like the
//! directory itself, and a copy that deletes would empty what it leads to. Whether a server is one of them
//! shows only when it lists a link as a link that leads to something; until then LSTAT is asked about each
//! entry, where that matters to the copy.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use lh_sftp::Handle;

use crate::end::{Done, Entry, FaultKind, Info, Kind, Outcome};
use crate::names::join;
use crate::token::Token;

/// LSTATs in flight at a time: some servers stop for good when about 100 requests wait (russh's).
const MOST_LOOKS: usize = 32;

/// An entry that is looked at: the id of the READDIR that listed it, and its place in the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    listing: u32,
    at: u32,
    /// It was listed as a link: STAT says whether it leads to something.
    pub(super) follows: bool,
}

/// A listing with entries that are being looked at.
#[derive(Debug)]
struct Listing {
    token: Token,
    path: Arc<[u8]>,
    entries: Vec<Entry>,
    /// Entries that were not looked at yet.
    missing: usize,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// The copy treats links otherwise than what they lead to.
    pub(super) wanted: bool,
    open: HashMap<Handle, Arc<[u8]>>,
    /// READDIRs on their way, by id.
    asked: HashMap<u32, Arc<[u8]>>,
    /// By the id of the READDIR.
    listings: HashMap<u32, Listing>,
    waiting: VecDeque<Look>,
    in_flight: usize,
    /// The server has listed a link as a link that leads to something.
    pub(super) lists_links: bool,
}

impl Listed {
    /// The directory `path` is open.
    pub(super) fn opened(&mut self, handle: &Handle, path: &[u8]) {
        if self.wanted {
            self.open.insert(handle.clone(), path.into());
        }
    }

    pub(super) fn closed(&mut self, handle: &Handle) {
        self.open.remove(handle);
    }

    /// Request `id` is a READDIR of `handle`. Returns true if its answer is to be given to
    /// [`Listed::look_at`].
    pub(super) fn asked(&mut self, id: u32, handle: &Handle) -> bool {
        let path = self.open.get(handle).cloned();
        path.is_some_and(|path| self.asked.insert(id, path).is_none())
    }

    /// No answer to request `id` will come.
    pub(super) fn forget(&mut self, id: u32) {
        self.asked.remove(&id);
    }

    /// Takes the answer to the READDIR `id`, which is for `token`. `trusted`: the server lists links as
    /// links. Gives the answer back where no entry is to be looked at.
    pub(super) fn look_at(
        &mut self,
        id: u32,
        token: Token,
        outcome: Outcome,
        trusted: bool,
    ) -> Option<Outcome> {
        let path = self.asked.remove(&id);
        let (Some(path), false) = (path, trusted) else { return Some(outcome) };
        let Ok(Done::Listed(Some(entries))) = outcome else { return Some(outcome) };
        let is_child = |(_, entry): &(usize, &Entry)| !matches!(&*entry.name, b"." | b"..");
        let look = |(at, entry): (usize, &Entry)| {
            let follows = entry.info.kind == Kind::Symlink;
            Look { listing: id, at: at as u32, follows }
        };
        let looks: Vec<Look> = entries.iter().enumerate().filter(is_child).map(look).collect();
        if looks.is_empty() {
            return Some(Ok(Done::Listed(Some(entries))));
        }
        self.listings.insert(id, Listing { token, path, entries, missing: looks.len() });
        self.waiting.extend(looks);
        None
    }

    /// Returns the path to be looked at next, and what for.
    pub(super) fn next_look(&mut self) -> Option<(Vec<u8>, Look)> {
        while self.in_flight < MOST_LOOKS {
            let look = self.waiting.pop_front()?;
            // Its listing may have been given up.
            let Some(listing) = self.listings.get(&look.listing) else { continue };
            let Some(entry) = listing.entries.get(look.at as usize) else { continue };
            self.in_flight += 1;
            return Some((join(&listing.path, &entry.name), look));
        }
        None
    }

    /// Takes what LSTAT says of an entry, or STAT of a link. Returns the listing when it is complete.
    pub(super) fn looked(&mut self, look: Look, outcome: Outcome) -> Option<(Token, Outcome)> {
        self.in_flight -= 1;
        let leads = look.follows
            && matches!(&outcome, Ok(Done::Info(info)) if !matches!(info.kind, Kind::Symlink | Kind::Unknown));
        self.lists_links |= leads;
        let listing = self.listings.get_mut(&look.listing)?;
        if let Some(entry) = listing.entries.get_mut(look.at as usize).filter(|_| !look.follows) {
            match outcome {
                Ok(Done::Info(info)) if info.kind == Kind::Symlink => entry.info = info,
                Ok(Done::Info(_)) => {}
                // It is gone: what is asked about it next says so.
                Err(fault) if fault.kind == FaultKind::NotFound => {}
                // It may be a link.
                _ => entry.info = Info::UNKNOWN,
            }
        }
        listing.missing -= 1;
        if listing.missing > 0 {
            return None;
        }
        let listing = self.listings.remove(&look.listing)?;
        Some((listing.token, Ok(Done::Listed(Some(listing.entries)))))
    }

    /// LSTAT was not answered. Returns the token of its listing, which has failed with that.
    pub(super) fn give_up(&mut self, look: Look) -> Option<Token> {
        self.in_flight -= 1;
        self.listings.remove(&look.listing).map(|listing| listing.token)
    }

    /// Takes out the tokens of all listings that are not complete.
    pub(super) fn take_all(&mut self) -> Vec<Token> {
        let wanted = self.wanted;
        let listings = std::mem::take(self).listings;
        self.wanted = wanted;
        listings.into_values().map(|listing| listing.token).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::end::Fault;

    use super::*;

    fn entry(name: &str, kind: Kind) -> Entry {
        Entry { name: name.as_bytes().into(), info: Info { kind, ..Info::UNKNOWN } }
    }

    fn begun(entries: Vec<Entry>, trusted: bool) -> (Listed, Option<Outcome>) {
        let handle = Handle::new(b"h");
        let mut listed = Listed { wanted: true, ..Listed::default() };
        listed.opened(&handle, b"dir");
        assert!(listed.asked(7, &handle));
        let outcome = listed.look_at(7, Token::Nothing, Ok(Done::Listed(Some(entries))), trusted);
        (listed, outcome)
    }

    fn looks(listed: &mut Listed) -> Vec<(Vec<u8>, Look)> {
        std::iter::from_fn(|| listed.next_look()).collect()
    }

    #[test]
    fn entries_become_the_links_that_they_are() {
        let entries = ["d", "f", "gone", "odd"].map(|name| entry(name, Kind::Dir));
        let (mut listed, outcome) =
            begun([vec![entry(".", Kind::Dir), entry("..", Kind::Dir)], entries.into()].concat(), false);
        assert!(outcome.is_none());
        let looks = looks(&mut listed);
        let paths: Vec<_> = looks.iter().map(|(path, _)| String::from_utf8_lossy(path)).collect();
        assert_eq!(paths, ["dir/d", "dir/f", "dir/gone", "dir/odd"]);
        let gone = Fault { kind: FaultKind::NotFound, text: String::new() };
        let link = Info { kind: Kind::Symlink, ..Info::UNKNOWN };
        let directory = Info { kind: Kind::Dir, ..Info::UNKNOWN };
        let answers =
            [Ok(Done::Info(link)), Ok(Done::Info(directory)), Err(gone), Err(Fault::other("unsupported"))];
        let mut ended = None;
        for ((_, look), answer) in looks.into_iter().zip(answers) {
            assert!(ended.is_none());
            ended = listed.looked(look, answer);
        }
        let Some((_, Ok(Done::Listed(Some(entries))))) = ended else { panic!("{ended:?}") };
        let kinds: Vec<Kind> = entries.iter().map(|entry| entry.info.kind).collect();
        assert_eq!(kinds[2..], [Kind::Symlink, Kind::Dir, Kind::Dir, Kind::Unknown]);
    }

    #[test]
    fn servers_that_list_links_are_asked_nothing() {
        assert!(matches!(begun(vec![entry("f", Kind::File)], true), (_, Some(Ok(_)))));
        assert!(matches!(begun(vec![entry(".", Kind::Dir)], false), (_, Some(Ok(_)))));
        // A link that leads nowhere is listed as one by any server.
        let gone = || Err(Fault { kind: FaultKind::NotFound, text: String::new() });
        for (answer, proof) in
            [(Ok(Done::Info(Info { kind: Kind::File, ..Info::UNKNOWN })), true), (gone(), false)]
        {
            let (mut listed, outcome) = begun(vec![entry("l", Kind::Symlink)], false);
            assert!(outcome.is_none());
            let (_, look) = listed.next_look().expect("the link");
            assert!(look.follows);
            let Some((_, Ok(Done::Listed(Some(entries))))) = listed.looked(look, answer) else { panic!() };
            assert_eq!((entries[0].info.kind, listed.lists_links), (Kind::Symlink, proof));
        }
        let mut listed = Listed::default();
        listed.opened(&Handle::new(b"h"), b"dir");
        assert!(!listed.asked(7, &Handle::new(b"h")), "the copy does not need to know");
    }

    #[test]
    fn few_looks_are_on_their_way_at_a_time() {
        let many = (0..100).map(|n| entry(&format!("f{n}"), Kind::File)).collect();
        let (mut listed, _) = begun(many, false);
        let first = looks(&mut listed);
        assert_eq!(first.len(), MOST_LOOKS);
        assert!(listed.looked(first[0].1, Ok(Done::Info(Info::UNKNOWN))).is_none());
        assert_eq!(looks(&mut listed).len(), 1);
        assert!(listed.give_up(first[1].1).is_some() && listed.give_up(first[2].1).is_none());
        assert!(looks(&mut listed).is_empty(), "a listing that has failed needs none");
    }
}
