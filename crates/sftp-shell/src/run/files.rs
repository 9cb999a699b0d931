//! Commands that change the server's files one by one.

use lh_cli::progress::printable;
use lh_sftp::{Attrs, OpenFlags, Request, extension};

use super::{failed, unread};
use crate::command::Attribute;
use crate::paths::{absolute, absolute_pattern};
use crate::remote::Fault;
use crate::shell::{Failed, Outcome, Shell};
use crate::words::unescape;
use crate::{glob, print, say};

impl Shell {
    pub(crate) fn change_directory(&mut self, path: &[u8]) -> Outcome {
        let path = absolute(path, &self.directory);
        let real = self
            .remote
            .real_path(&path)
            .map_err(|fault| failed(&format!("realpath {}", printable(&path)), fault))?;
        let attrs = self.remote.attrs(&real, true).map_err(|fault| failed("stat remote", fault))?;
        if attrs.permissions.is_none() {
            say("Can't change directory: Can't check target");
            return Err(Failed::Command);
        }
        if !attrs.is_dir() {
            say(&format!("Can't change directory: \"{}\" is not a directory", printable(&real)));
            return Err(Failed::Command);
        }
        self.directory = real;
        Ok(())
    }

    /// Returns the paths that match; a pattern without matches stands for itself.
    fn matching(&mut self, pattern: &[u8]) -> Result<Vec<Vec<u8>>, Failed> {
        let pattern = absolute_pattern(pattern, &self.directory);
        let found = glob::remote(&mut self.remote, &pattern);
        let found = found.map_err(|fault| unread(&pattern, fault))?;
        if found.is_empty() {
            return Ok(vec![unescape(&pattern)]);
        }
        Ok(found.into_iter().map(|found| found.path).collect())
    }

    fn tell(&self, text: &str) {
        if !self.settings.quiet {
            print(text);
        }
    }

    pub(super) fn remove(&mut self, pattern: &[u8]) -> Outcome {
        let mut outcome = Ok(());
        for path in self.matching(pattern)? {
            if self.remote.interrupted() {
                break;
            }
            self.tell(&format!("Removing {}", printable(&path)));
            if let Err(fault) = self.remote.perform(&Request::Remove { path: &path }) {
                outcome = Err(failed(&format!("remote delete {}", printable(&path)), fault));
            }
            if outcome == Err(Failed::Lost) {
                break;
            }
        }
        outcome
    }

    /// `parents`: with those above it, and it may be there (`mkdir -p`).
    pub(super) fn make_directory(&mut self, path: &[u8], parents: bool) -> Outcome {
        let path = absolute(path, &self.directory);
        if !parents {
            return self.make_one_directory(&path);
        }
        let ends = (1..path.len()).filter(|&at| path[at] == b'/' && path[at - 1] != b'/');
        for end in ends.chain([path.len()]) {
            // Looked at first: servers have many ways to refuse a directory that is there.
            if !matches!(self.remote.is_dir(&path[..end]), Ok(true)) {
                self.make_one_directory(&path[..end])?;
            }
        }
        Ok(())
    }

    fn make_one_directory(&mut self, path: &[u8]) -> Outcome {
        let request = Request::Mkdir { path, attrs: Attrs::with_permissions(0o777) };
        self.remote
            .perform(&request)
            .map_err(|fault| failed(&format!("remote mkdir \"{}\"", printable(path)), fault))
    }

    pub(super) fn remove_directory(&mut self, path: &[u8]) -> Outcome {
        let path = absolute(path, &self.directory);
        self.remote
            .perform(&Request::Rmdir { path: &path })
            .map_err(|fault| failed(&format!("remote rmdir \"{}\"", printable(&path)), fault))
    }

    /// Replaces what has the new name, where the server can; `legacy` (`-l`) never does.
    pub(super) fn rename(&mut self, legacy: bool, from: &[u8], to: &[u8]) -> Outcome {
        let (old, new) = (absolute(from, &self.directory), absolute(to, &self.directory));
        let replace = !legacy && self.remote.supports(extension::POSIX_RENAME);
        let request = if replace {
            Request::PosixRename { old: &old, new: &new }
        } else {
            Request::Rename { old: &old, new: &new }
        };
        self.remote.perform(&request).map_err(|fault| {
            failed(&format!("remote rename \"{}\" to \"{}\"", printable(&old), printable(&new)), fault)
        })
    }

    pub(super) fn link(&mut self, symbolic: bool, from: &[u8], to: &[u8]) -> Outcome {
        let link = absolute(to, &self.directory);
        if symbolic {
            // A link's text is taken as it is: it means something where the link is.
            return self.remote.make_link(from, &link).map_err(|fault| {
                let (from, link) = (printable(from), printable(&link));
                failed(&format!("remote symlink file \"{from}\" to \"{link}\""), fault)
            });
        }
        if !self.remote.supports(extension::HARDLINK) {
            say("Server does not support hardlink@openssh.com extension");
            return Err(Failed::Command);
        }
        let old = absolute(from, &self.directory);
        self.remote.perform(&Request::Hardlink { old: &old, new: &link }).map_err(|fault| {
            failed(&format!("remote link \"{}\" to \"{}\"", printable(&old), printable(&link)), fault)
        })
    }

    /// `copy`: on the server, without the bytes coming here.
    pub(super) fn copy_there(&mut self, from: &[u8], to: &[u8]) -> Outcome {
        if !self.remote.supports(extension::COPY_DATA) {
            say("Server does not support copy-data extension");
            return Err(Failed::Command);
        }
        let (from, to) = (absolute(from, &self.directory), absolute(to, &self.directory));
        let attrs = self.remote.attrs(&from, true).map_err(|fault| failed("stat remote", fault))?;
        if attrs.permissions.is_some() && !attrs.is_file() {
            say(&format!("Cannot copy non-regular file: {}", printable(&from)));
            return Err(Failed::Command);
        }
        let source = self
            .remote
            .open_file(&from, OpenFlags::READ, Attrs::NONE)
            .map_err(|fault| failed(&format!("remote open \"{}\"", printable(&from)), fault))?;
        let flags = OpenFlags::WRITE | OpenFlags::CREAT | OpenFlags::TRUNC;
        let permissions = Attrs::with_permissions(attrs.permissions.unwrap_or(0o666) & 0o777);
        let target = match self.remote.open_file(&to, flags, permissions) {
            Ok(target) => target,
            Err(fault) => {
                let failed = failed(&format!("remote open \"{}\"", printable(&to)), fault);
                self.close(&source)?;
                return Err(failed);
            }
        };
        let request = Request::CopyData { from: &source, from_offset: 0, len: 0, to: &target, to_offset: 0 };
        let copied = self.remote.perform(&request).map_err(|fault| {
            let (from, to) = (printable(&from), printable(&to));
            failed(&format!("Couldn't copy file \"{from}\" to \"{to}\""), fault)
        });
        self.close(&source)?;
        let closed = self
            .remote
            .perform(&Request::Close { handle: &target })
            .map_err(|fault| failed(&format!("close remote \"{}\"", printable(&to)), fault));
        copied.and(closed)
    }

    /// Closes what was only read.
    fn close(&mut self, handle: &[u8]) -> Outcome {
        match self.remote.perform(&Request::Close { handle }) {
            Err(Fault::Lost) => Err(Failed::Lost),
            _ => Ok(()),
        }
    }

    pub(super) fn change_attribute(
        &mut self,
        what: Attribute,
        no_follow: bool,
        value: u32,
        pattern: &[u8],
    ) -> Outcome {
        if no_follow && !self.remote.supports(extension::LSETSTAT) {
            say("Server does not support lsetstat@openssh.com extension");
            return Err(Failed::Command);
        }
        let mut outcome = Ok(());
        for path in self.matching(pattern)? {
            if self.remote.interrupted() {
                break;
            }
            match self.change_one(what, no_follow, value, &path) {
                Err(Failed::Lost) => return Err(Failed::Lost),
                Err(failed) => outcome = Err(failed),
                Ok(()) => {}
            }
        }
        outcome
    }

    fn change_one(&mut self, what: Attribute, no_follow: bool, value: u32, path: &[u8]) -> Outcome {
        let shown = printable(path);
        let attrs = match what {
            Attribute::Mode => Attrs::with_permissions(value & 0o7777),
            Attribute::Owner | Attribute::Group => {
                let before = match self.remote.attrs(path, !no_follow) {
                    Ok(attrs) => attrs.ids,
                    Err(fault) => {
                        return Err(failed(if no_follow { "lstat remote" } else { "stat remote" }, fault));
                    }
                };
                let Some((uid, gid)) = before else {
                    say(&format!("Can't get current ownership of remote file \"{shown}\""));
                    return Err(Failed::Command);
                };
                let ids = if what == Attribute::Owner { (value, gid) } else { (uid, value) };
                Attrs { ids: Some(ids), ..Attrs::NONE }
            }
        };
        let name = match what {
            Attribute::Mode => "mode",
            Attribute::Owner => "owner",
            Attribute::Group => "group",
        };
        self.tell(&format!("Changing {name} on {shown}"));
        let (request, verb) = if no_follow {
            (Request::Lsetstat { path, attrs }, "lsetstat")
        } else {
            (Request::Setstat { path, attrs }, "setstat")
        };
        self.remote.perform(&request).map_err(|fault| failed(&format!("remote {verb} \"{shown}\""), fault))
    }
}
