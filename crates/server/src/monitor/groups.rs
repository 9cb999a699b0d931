//! The groups of the user who logs in, looked up once: each lookup reads files, or asks a server.

use std::io;
use std::rc::Rc;

use lh_sys::ids::Ids;
use lh_sys::users::User;

use super::Monitor;
use crate::account;

/// Groups of one user.
#[derive(Debug)]
pub(super) struct Groups {
    /// Ids of the user and the groups.
    pub(super) ids: Ids,
    /// Names of the groups; an id without a name is left out.
    pub(super) names: Vec<String>,
}

impl Monitor {
    /// Returns the groups of a user; the last user's are kept.
    ///
    /// # Errors
    /// The user database does not tell them.
    pub(super) fn groups_of(&self, user: &User) -> io::Result<Rc<Groups>> {
        if let Some((known, groups)) = &*self.groups.borrow()
            && known == user
        {
            return Ok(Rc::clone(groups));
        }
        let ids = Ids::of(user)?;
        let names = account::names_of_groups(&ids.groups);
        let groups = Rc::new(Groups { ids, names });
        *self.groups.borrow_mut() = Some((user.clone(), Rc::clone(&groups)));
        Ok(groups)
    }
}
