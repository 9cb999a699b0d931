//! `ls` and `df`.

use std::collections::BTreeSet;

use lh_cli::progress::printable;
use lh_sftp::{Attrs, extension};

use super::{failed, unread};
use crate::braces;
use crate::command::{DiskUse, ListFlags};
use crate::detail::Detail;
use crate::glob::{self, Match};
use crate::listing::{self, Item, Owners, shown_name};
use crate::paths::{absolute, absolute_pattern};
use crate::remote::{Answer, Fault};
use crate::shell::{Failed, Outcome, Shell};
use crate::words::unescape;
use crate::{print, say};

/// The name of something that matched; a directory's ends with a slash.
fn marked(mut name: Vec<u8>, attrs: &Attrs) -> Vec<u8> {
    if attrs.is_dir() && !name.ends_with(b"/") {
        name.push(b'/');
    }
    name
}

impl Shell {
    pub(super) fn list(&mut self, flags: ListFlags, pattern: Option<&[u8]>) -> Outcome {
        let directory = self.directory.clone();
        let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else {
            return self.list_directory(flags, &directory, b"");
        };
        let wanted = absolute_pattern(pattern, &directory);
        // Names of the working directory are no alternatives.
        let Some(alternatives) = braces::expand(pattern) else {
            say(&format!("Can't ls: Too many matches for \"{}\"", printable(&unescape(&wanted))));
            return Err(Failed::Command);
        };
        let alternatives: Vec<_> =
            alternatives.iter().map(|pattern| absolute_pattern(pattern, &directory)).collect();
        let one = match &alternatives[..] {
            [one] => one,
            _ => &wanted,
        };
        // Names are shown as they were typed: relative ones stay relative.
        let shown = |path: &[u8]| -> Vec<u8> {
            let inside = if pattern.starts_with(b"/") { None } else { path.strip_prefix(&directory[..]) };
            match inside {
                Some(rest) => rest.strip_prefix(b"/").unwrap_or(rest).to_vec(),
                None => path.to_vec(),
            }
        };
        let arriving = alternatives.len() == 1 && flags.in_order_of_arrival() && !flags.long;
        let found = match glob::last_part(one).filter(|_| arriving) {
            Some((parent, part)) => {
                match self.list_matches(&parent, part, &shown).map_err(|fault| unread(&parent, fault))? {
                    Some(found) => found,
                    None => return Ok(()),
                }
            }
            None => {
                let mut found = Vec::new();
                for pattern in &alternatives {
                    let more = glob::remote_unsorted(&mut self.remote, pattern);
                    found.extend(more.map_err(|fault| unread(pattern, fault))?);
                }
                found
            }
        };
        match &found[..] {
            [] => {
                say(&format!("Can't ls: \"{}\" not found", printable(&unescape(&wanted))));
                Err(Failed::Command)
            }
            [one] if one.attrs.is_dir() || (one.attrs.is_symlink() && self.remote.is_dir(&one.path)?) => {
                let (path, mut prefix) = (one.path.clone(), shown(&one.path));
                // The working directory itself, which braces can leave of a pattern, has no name.
                if !prefix.is_empty() && !prefix.ends_with(b"/") {
                    prefix.push(b'/');
                }
                self.list_directory(flags, &path, &prefix)
            }
            _ => {
                let mut items = Vec::new();
                for found in &found {
                    let mut attrs = found.attrs;
                    // A link is shown as what it leads to.
                    if attrs.is_symlink() {
                        attrs = match self.remote.attrs(&found.path, true) {
                            Err(Fault::Lost) => return Err(Failed::Lost),
                            answer => answer.unwrap_or(attrs),
                        };
                    }
                    items.push(Item { name: marked(shown(&found.path), &attrs), long_name: None, attrs });
                }
                self.print_items(items, flags)
            }
        }
    }

    /// Shows what matches in `parent` as it arrives. What is found is given back, and not shown, while it is
    /// one thing or none: a directory alone is listed itself.
    fn list_matches(
        &mut self,
        parent: &[u8],
        part: &[u8],
        shown: &dyn Fn(&[u8]) -> Vec<u8>,
    ) -> Answer<Option<Vec<Match>>> {
        let mut first: Vec<Match> = Vec::new();
        let mut count = 0;
        let show = |found: &Match| print(&shown_name(&marked(shown(&found.path), &found.attrs)));
        glob::each_match(&mut self.remote, parent, part, &mut |found| {
            count += 1;
            if count == 1 {
                first.push(found);
            } else {
                first.drain(..).for_each(|found| show(&found));
                show(&found);
            }
            0
        })?;
        Ok((count < 2).then_some(first))
    }

    /// Lists what is in `path`; each name is shown with `prefix` in front.
    fn list_directory(&mut self, flags: ListFlags, path: &[u8], prefix: &[u8]) -> Outcome {
        let mut items = Vec::new();
        // Where the server has names for owners, the lines are ours, with the name as for `ls -1`: as with
        // sftp.
        let own = !flags.in_order_of_arrival() && self.remote.supports(extension::USERS_GROUPS_BY_ID);
        let detail = if flags.long { Detail::Lines } else { flags.detail() };
        let listed = self.remote.list(path, b"", detail, &mut |entry| {
            if flags.all || !entry.name.starts_with(b".") {
                let kept = size_of::<Item>() + prefix.len() + entry.name.len() + entry.long_name.len();
                let name = [prefix, &entry.name].concat();
                let long_name = (!own).then_some(entry.long_name);
                let item = Item { name, long_name, attrs: entry.attrs };
                if !flags.in_order_of_arrival() {
                    items.push(item);
                    return kept;
                } else if flags.long {
                    item.long_name.iter().for_each(|line| print(&shown_name(line)));
                } else {
                    print(&shown_name(&item.name));
                }
            }
            0
        });
        if let Err(fault) = listed {
            return Err(unread(path, fault));
        }
        if self.remote.interrupted() {
            return Err(Failed::Command);
        }
        self.print_items(items, flags)
    }

    fn print_items(&mut self, mut items: Vec<Item>, flags: ListFlags) -> Outcome {
        listing::sort(&mut items, &flags);
        let owners = self.owners_of(&items, flags)?;
        let width = match rustix::termios::tcgetwinsize(std::io::stdout()) {
            Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
            _ => 80,
        };
        for line in listing::lines(&items, &flags, &owners, lh_sys::time::now_unix(), width) {
            print(&line);
        }
        Ok(())
    }

    /// Names for the owners that are to be shown, where the server's own lines do not have them.
    fn owners_of(&mut self, items: &[Item], flags: ListFlags) -> Answer<Owners> {
        let mut owners = Owners::default();
        let needed =
            flags.long && !flags.numeric && (flags.human || items.iter().any(|i| i.long_name.is_none()));
        if !needed {
            return Ok(owners);
        }
        let ids = items.iter().filter_map(|item| item.attrs.ids);
        let (uids, gids): (BTreeSet<u32>, BTreeSet<u32>) = ids.unzip();
        let (uids, gids): (Vec<u32>, Vec<u32>) = (uids.into_iter().collect(), gids.into_iter().collect());
        if let Some((users, groups)) = self.remote.names_of(&uids, &gids)? {
            owners.users = uids.into_iter().zip(users).collect();
            owners.groups = gids.into_iter().zip(groups).collect();
        }
        Ok(owners)
    }

    pub(super) fn disk(&mut self, shown: DiskUse, path: Option<&[u8]>) -> Outcome {
        if !self.remote.supports(extension::STATVFS) {
            say("Server does not support statvfs@openssh.com extension");
            return Err(Failed::Command);
        }
        let path = path.map_or_else(|| self.directory.clone(), |path| absolute(path, &self.directory));
        match self.remote.statvfs(&path) {
            Ok(stat) => {
                for line in listing::disk(&stat, shown) {
                    print(&line);
                }
                Ok(())
            }
            Err(fault) => Err(failed(&format!("remote statvfs \"{}\"", printable(&path)), fault)),
        }
    }
}
