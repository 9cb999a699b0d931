//! One copy with a fault: source, target, and the invariants that are checked on the way.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use lh_testkit::{Seeded, leftovers};

use super::hosts::{Ended, Hosts, Peer, Running, Way, wait_for_end};
use super::trees::{Shape, Tree};

/// Sets of flags; each case uses one of them.
const FLAGS: [&[&str]; 6] = [&[], &[], &["-p"], &["-j", "2"], &["--verify"], &["--fsync"]];

/// Trees of each shape: the version to be copied, and the earlier version at the target.
pub(super) struct Trees(Vec<[Arc<Tree>; 2]>);

impl Trees {
    /// Generates all trees, and writes the first versions below the lab's directory.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn new(hosts: &Hosts, scale: usize) -> Result<Self, String> {
        let mut all = Vec::new();
        for shape in Shape::ALL {
            let [new, old] = [0, 1].map(|version| Arc::new(Tree::new(shape, scale, version)));
            new.write(&hosts.lab.path(&format!("sources/{}/tree", shape.name())))
                .map_err(|error| error.to_string())?;
            all.push([new, old]);
        }
        Ok(Self(all))
    }

    fn of(&self, shape: Shape) -> [Arc<Tree>; 2] {
        self.0.get(shape as usize).cloned().unwrap_or_default()
    }
}

/// The copy.
pub(super) struct Case<'a> {
    /// The hosts.
    pub(super) hosts: &'a Hosts,
    /// Direction of the copy.
    pub(super) way: Way,
    /// Shape of the tree.
    pub(super) shape: Shape,
    /// Implementation of the server.
    pub(super) peer: Peer,
    flags: Vec<&'static str>,
    /// The version that is copied.
    pub(super) tree: Arc<Tree>,
    /// The earlier version at the target.
    before: Option<Arc<Tree>>,
    /// The directory that the copy is put into.
    pub(super) place: PathBuf,
    /// Path of the source; for unreadable sources it is moved.
    pub(super) source: PathBuf,
    /// The command's target is the copy itself, which does not exist yet; otherwise the target is the
    /// directory that gets the copy.
    names_copy: bool,
    /// Killed processes that may still have been running when the next command started.
    overlapped: RefCell<Vec<u32>>,
}

impl<'a> Case<'a> {
    /// A random case in this direction.
    pub(super) fn random(hosts: &'a Hosts, trees: &Trees, random: &mut Seeded, way: Way) -> Self {
        let shape = Shape::ALL[random.below(Shape::ALL.len())];
        let peer = if random.below(3) == 0 && hosts.has(Peer::Stock) { Peer::Stock } else { Peer::Ours };
        let [tree, old] = trees.of(shape);
        let before = (random.below(3) == 0).then_some(old);
        let names_copy = before.is_none() && random.below(2) == 0;
        let flags = match way {
            // The program of the first host takes no flags of lhscp.
            Way::Direct => Vec::new(),
            _ => FLAGS[random.below(FLAGS.len())].to_vec(),
        };
        let place = hosts.lab.path("place");
        let source = hosts.lab.path(&format!("sources/{}/tree", shape.name()));
        let overlapped = RefCell::default();
        Self { hosts, way, shape, peer, flags, tree, before, place, source, names_copy, overlapped }
    }

    /// Returns the text for reports: `up of small to lhsshd -j 2`.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{} of {} with {}", self.way.name(), self.shape.name(), self.peer.name());
        for flag in &self.flags {
            text.push(' ');
            text.push_str(flag);
        }
        if self.before.is_some() {
            text.push_str(", over another version");
        }
        if self.names_copy {
            text.push_str(", into a new name");
        }
        text
    }

    /// Creates the target directory with the earlier version.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn prepare(&self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.place.display());
        fs::create_dir_all(&self.place).map_err(failed)?;
        self.furnish()
    }

    /// Writes the earlier version into the target directory.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn furnish(&self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.place.display());
        self.before.as_ref().map_or(Ok(()), |before| before.write(&self.place.join("tree")).map_err(failed))
    }

    /// Path of the copy.
    pub(super) fn copy(&self) -> PathBuf {
        self.place.join("tree")
    }

    /// Returns the earlier version at the target.
    pub(super) fn old_version(&self) -> Option<&Tree> {
        self.before.as_deref()
    }

    /// Returns true if the command's target is the copy itself.
    pub(super) const fn names_copy(&self) -> bool {
        self.names_copy
    }

    /// Returns the command with additional flags.
    pub(super) fn command(&self, more: &[&str]) -> Command {
        let target = if self.names_copy { self.copy() } else { self.place.clone() };
        self.hosts.copy(self.way, self.peer, &[&self.flags[..], more].concat(), &self.source, &target)
    }

    /// Starts the command.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(&self, more: &[&str]) -> Result<Running, String> {
        self.hosts.start(self.command(more))
    }

    /// Checks that no file under its final name differs from both versions.
    ///
    /// # Errors
    /// The first such file.
    pub(super) fn check_interrupted(&self) -> Result<(), String> {
        self.tree.allows(&self.copy(), self.before.as_deref())
    }

    /// Runs the same command again, which must complete the copy.
    ///
    /// # Errors
    /// The copy is not complete after that.
    pub(super) fn finish(&self) -> Result<(), String> {
        let ended = self.start(&[])?.end()?;
        self.check_complete(&ended).map_err(|text| format!("the same command again: {text}"))
    }

    /// Checks that the copy is complete: status 0, identical trees, no unfinished files, no journal.
    ///
    /// # Errors
    /// One of these conditions does not hold.
    pub(super) fn check_complete(&self, ended: &Ended) -> Result<(), String> {
        if ended.status != 0 {
            return Err(format!(
                "the same command again ended with status {}:\n{}",
                ended.status, ended.said
            ));
        }
        let overlapped = self.overlapped.borrow();
        if !overlapped.is_empty() {
            wait_for_end(&overlapped)?;
            self.hosts.settle()?;
            self.remove_late_parts()?;
        }
        self.tree.equals(&self.copy()).map_err(|text| format!("after status 0: {text}\n{}", ended.said))?;
        self.hosts.settle()?;
        // A session of a killed client may have run until now.
        self.tree.equals(&self.copy()).map_err(|text| format!("after all sessions have ended: {text}"))?;
        let left = leftovers(&self.place);
        if !left.is_empty() {
            return Err(format!("unfinished files are left: {left:?}"));
        }
        match self.hosts.journals() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("journals are left: {left:?}")),
        }
    }

    /// Checks that the client has completed the copy, reconnecting if needed. If it has given up, runs it
    /// again.
    ///
    /// # Errors
    /// The copy is incomplete, or the client ended for another reason.
    pub(super) fn complete_or_again(&self, ended: &Ended) -> Result<(), String> {
        self.check_interrupted()?;
        match ended.status {
            0 => self.check_complete(ended),
            255 => {
                self.hosts.settle()?;
                self.finish()
            }
            status => Err(format!("the client ended with status {status}:\n{}", ended.said)),
        }
    }

    /// Records killed processes that may still run when the next command starts. Requests that had arrived
    /// are still carried out: an OPEN among them creates a part file, perhaps while the next command runs.
    /// The part file stays, but it must be empty.
    pub(super) fn overlap(&self, killed: &[u32]) {
        self.overlapped.borrow_mut().extend(killed);
    }

    fn remove_late_parts(&self) -> Result<(), String> {
        for part in leftovers(&self.place) {
            let failed = |error: std::io::Error| format!("{}: {error}", part.display());
            let size = fs::metadata(&part).map_err(failed)?.len();
            if size > 0 {
                return Err(format!("{} with {size} bytes is left", part.display()));
            }
            fs::remove_file(&part).map_err(failed)?;
        }
        Ok(())
    }

    /// Removes the target directory.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn clear(&self) -> Result<(), String> {
        fs::remove_dir_all(&self.place).map_err(|error| format!("{}: {error}", self.place.display()))
    }
}
