//! SYMLINK: which of the two strings is the link.

use super::log::Operation;
use super::paths::directory_and_name;
use super::state::Server;
use crate::link_order::{Known, LinkOrder};

impl Server {
    /// Makes a link from the two strings of SYMLINK, in the client's order.
    pub(super) fn serve_symlink(&mut self, id: u32, first: &[u8], second: &[u8]) {
        let order = match self.client.links {
            Known::Always(order) => order,
            Known::Mostly(order) => self.likely_order(order, first, second),
        };
        let (target, link) = order.sort(first, second);
        self.log.two("symlink old", target, "new", link);
        let outcome = self.symlink_checked(target, link);
        self.name_changed(&outcome, link);
        if outcome.is_ok() {
            self.note_symlink(target, link);
        }
        self.reply_change(id, Operation::new("symlink", link).and(target), &outcome);
    }

    /// Returns the order that fits the existing files. Returns `usual` unless they show the other one: where
    /// OpenSSH would fail, a link that the client did not ask for is worse than an error.
    fn likely_order(&mut self, usual: LinkOrder, first: &[u8], second: &[u8]) -> LinkOrder {
        let (target, link) = usual.sort(first, second);
        // In the other order, `link` is the target and `target` is the link.
        let is_shown = match (self.found(link), self.found(target)) {
            // With nothing at `link`, the usual order makes a link; with a file there, it fails. The other
            // order is right only if its link leads to a file and the usual one does not.
            (Found::Nothing | Found::Other, Found::Nothing) => {
                self.leads_to(target, link) && !self.leads_to(link, target)
            }
            // The client makes a link again that it has made before, as scripts do that run twice; the usual
            // order makes a link to a file; both orders fail.
            (Found::Link, Found::Nothing)
            | (Found::Nothing, Found::Link | Found::Other)
            | (Found::Link | Found::Other, Found::Link | Found::Other) => false,
        };
        if is_shown { usual.reversed() } else { usual }
    }

    /// Returns the type of file at `path`, which may be the name of a new link.
    fn found(&mut self, path: &[u8]) -> Found {
        // With slashes at the end, the file system follows a link.
        let (directory, name) = directory_and_name(path);
        match self.fs.attrs(&[directory, name].concat(), false) {
            Ok(attrs) if attrs.is_symlink() => Found::Link,
            Ok(_) => Found::Other,
            Err(_) => Found::Nothing,
        }
    }

    /// Returns true if a link with this name and target would lead to an existing file.
    fn leads_to(&mut self, link: &[u8], target: &[u8]) -> bool {
        let mut path = Vec::new();
        if !target.starts_with(b"/") {
            path.extend_from_slice(directory_and_name(link).0);
        }
        path.extend_from_slice(target);
        self.fs.attrs(&path, false).is_ok()
    }
}

/// What the file system has at a path.
enum Found {
    Nothing,
    /// A symbolic link.
    Link,
    /// A file of another type.
    Other,
}
