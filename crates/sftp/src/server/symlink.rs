//! SYMLINK: which of the two strings is the link.

use super::log::Operation;
use super::paths::directory_and_name;
use super::state::Server;
use crate::link_order::{Known, LinkOrder};

impl Server {
    /// Makes a link from the two strings of SYMLINK, in the client's order.
    pub(super) fn serve_symlink(&mut self, id: u32, first: &[u8], second: &[u8]) {
        let order = match self.links {
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

    /// Returns the order that fits the existing files: the link's name must be free, and its target mostly
    /// exists. Returns `usual` if the files fit both orders or none.
    fn likely_order(&mut self, usual: LinkOrder, first: &[u8], second: &[u8]) -> LinkOrder {
        match (self.can_link(second), self.can_link(first)) {
            (true, false) => LinkOrder::TargetFirst,
            (false, true) => LinkOrder::LinkFirst,
            (false, false) => usual,
            (true, true) => match (self.leads_to(second, first), self.leads_to(first, second)) {
                (true, false) => LinkOrder::TargetFirst,
                (false, true) => LinkOrder::LinkFirst,
                (true, true) | (false, false) => usual,
            },
        }
    }

    fn can_link(&mut self, link: &[u8]) -> bool {
        self.fs.attrs(link, false).is_err()
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
