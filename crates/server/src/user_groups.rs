//! The groups of a user who logs in, looked up once: each lookup reads files or queries a server.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use lh_sys::ids::Ids;
use lh_sys::users::{self, User};

/// Groups of one user.
#[derive(Debug)]
pub(crate) struct Groups {
    /// User and group ids of the user.
    pub(crate) ids: Ids,
    /// Names of the groups; an id without a name is left out.
    pub(crate) names: Vec<String>,
    /// The group database has answered for every id.
    pub(crate) is_complete: bool,
}

/// The groups of the user that was looked up last.
#[derive(Debug, Default)]
pub(crate) struct KnownGroups(RefCell<Option<(User, Rc<Groups>)>>);

impl KnownGroups {
    /// Returns the groups of a user.
    ///
    /// # Errors
    /// The user database cannot be read.
    pub(crate) fn of(&self, user: &User) -> io::Result<Rc<Groups>> {
        if let Some((known, groups)) = &*self.0.borrow()
            && known == user
        {
            return Ok(Rc::clone(groups));
        }
        let ids = Ids::of(user)?;
        let (names, is_complete) = names_of(&ids.groups);
        let groups = Rc::new(Groups { ids, names, is_complete });
        *self.0.borrow_mut() = Some((user.clone(), Rc::clone(&groups)));
        Ok(groups)
    }
}

/// Returns the names of these groups, and whether the group database has answered for each. Ids without a
/// name are left out, because patterns match names.
pub(crate) fn names_of(ids: &[u32]) -> (Vec<String>, bool) {
    let answers: Vec<_> = ids.iter().map(|gid| users::group_by_gid(*gid)).collect();
    let is_complete = answers.iter().all(Result::is_ok);
    let names = answers.into_iter().filter_map(|answer| Some(answer.ok()??.name)).collect();
    (names, is_complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_a_user_are_looked_up_once() {
        let known = KnownGroups::default();
        let user = users::current().unwrap().unwrap();
        let first = known.of(&user).unwrap();
        assert_eq!((first.ids.uid, first.ids.gid), (user.uid, user.gid));
        assert!(first.ids.groups.contains(&user.gid));
        assert!(Rc::ptr_eq(&first, &known.of(&user).unwrap()));
        let other = User { name: "lh-no-such-user".into(), uid: 54_321, gid: 54_321, ..user };
        assert_eq!(known.of(&other).unwrap().ids.uid, 54_321);
    }
}
