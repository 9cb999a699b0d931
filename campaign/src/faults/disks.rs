//! File systems that are full, fail, become read-only or vanish in the middle of a copy.

use std::ffi::CString;
use std::path::Path;
use std::process::{Command, Stdio};

use lh_testkit::Seeded;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

use super::case::Case;
use super::fuse::{Disk, Failure};
use super::hosts::{Ended, Peer, Way};
use super::state::{Counts, State};

/// Environment variable that is set when this program runs in its own mount namespace.
const IN_NAMESPACE: &str = "LH_FAULTS_NAMESPACE";

/// Checks that this process can mount file systems in its own namespace.
pub(super) fn can_mount() -> Result<(), String> {
    if std::env::var_os(IN_NAMESPACE).is_some() {
        Ok(())
    } else {
        Err("no mount namespace of its own can be had (root and unshare are needed)".to_owned())
    }
}

/// Hides the start-up files of root's shells. Some of them take locks, and wait for them if a shell was
/// killed.
const HIDE: &str = "for name in .bashrc .bash_profile .bash_login .profile; do
    if test -e ~/$name; then mount --bind /dev/null ~/$name; fi
done
exec \"$@\"";

/// Runs this program again in its own mount namespace. Returns `None` if that is impossible, and in the
/// program that was started this way.
pub fn in_namespace() -> Option<Result<(), String>> {
    if std::env::var_os(IN_NAMESPACE).is_some() {
        return None;
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec", HIDE, "sh"]);
        command
    };
    let works = unshare().arg("true").stderr(Stdio::null()).status();
    if !works.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut command = unshare();
    command.arg(std::env::current_exe().ok()?).args(std::env::args_os().skip(1)).env(IN_NAMESPACE, "1");
    Some(match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the campaign failed".to_owned()),
        Err(error) => Err(format!("unshare: {error}")),
    })
}

/// A mounted file system, unmounted when dropped.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn tmpfs(at: &'a Path, bytes: u64) -> Result<Self, String> {
        let options = size(bytes)?;
        mount("tmpfs", at, "tmpfs", MountFlags::empty(), options.as_c_str())
            .map_err(|error| format!("tmpfs at {}: {error}", at.display()))?;
        Ok(Self(at))
    }

    fn bound(what: &Path, at: &'a Path) -> Result<Self, String> {
        mount_bind(what, at).map_err(|error| format!("bind mount at {}: {error}", at.display()))?;
        Ok(Self(at))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = unmount(self.0, UnmountFlags::DETACH);
    }
}

fn size(bytes: u64) -> Result<CString, String> {
    CString::new(format!("size={bytes}")).map_err(|error| error.to_string())
}

/// Checks that the copy failed correctly: status 1, and a message with the reason and a name of the tree.
fn check_failure(case: &Case<'_>, ended: &Ended, errno: Errno, at_source: bool) -> Result<(), String> {
    let with_said = |text: String| format!("{text}\n{}", ended.said);
    case.check_interrupted().map_err(with_said)?;
    if ended.status != 1 {
        return Err(format!("status {} where 1 is right:\n{}", ended.status, ended.said));
    }
    // OpenSSH's server reports only SSH_FX_FAILURE, because SFTP has no code for the error.
    let stock_fails = case.peer == Peer::Stock
        && match case.way {
            Way::Up => !at_source,
            Way::Down => at_source,
            Way::Relay | Way::Direct => !at_source,
        };
    let reason = if stock_fails { "Failure".to_owned() } else { text_of(errno) };
    let names_one = |line: &str| {
        let names = case.tree.files().map(|(path, _)| path).chain(case.tree.directories());
        let mut names = names.filter_map(|path| path.file_name()).map(|name| name.to_string_lossy());
        names.any(|name| line.contains(&*name)) || line.contains("/tree")
    };
    if ended.said.lines().any(|line| line.contains(&reason) && names_one(line)) {
        return Ok(());
    }
    Err(format!("no message names a file and says “{reason}”:\n{}", ended.said))
}

/// Returns libc's text for the error.
fn text_of(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The target's file system is too small. It grows before the command runs again.
pub(super) fn no_space(case: &Case<'_>, random: &mut Seeded) -> Result<Counts, String> {
    case.prepare()?;
    case.clear()?;
    std::fs::create_dir_all(&case.place).map_err(|error| error.to_string())?;
    let mounted = Mounted::tmpfs(&case.place, 1 << 30)?;
    case.furnish()?;
    let used = rustix::fs::statvfs(&case.place).map_err(|error| error.to_string())?;
    let used = (used.f_blocks - used.f_bfree) * used.f_frsize;
    // The space is between one tenth and nine tenths of the required space: of all files, or of the largest
    // where each file that is placed makes room for the next one.
    let largest = case.tree.files().map(|(_, content)| content.len() as u64).max().unwrap_or_default();
    let required = if case.old_version().is_some() { largest } else { case.tree.bytes() };
    let space = used + required * (1 + random.below(9) as u64) / 10;
    let resize = |bytes: u64| {
        mount_remount(&case.place, MountFlags::empty(), size(bytes)?.as_c_str())
            .map_err(|error| format!("another size for tmpfs: {error}"))
    };
    resize(space)?;
    let ended = case.start(&[])?.end()?;
    // Files that replace others may fit into the free space.
    let late = ended.status == 0;
    if late {
        case.check_complete(&ended)?;
    } else {
        check_failure(case, &ended, Errno::NOSPC, false)?;
        resize(1 << 30)?;
        case.finish()?;
    }
    drop(mounted);
    case.clear()?;
    Ok(Counts { hits: u64::from(!late), late: u64::from(late) })
}

/// A file system fails for a part of the copy. This function chooses the bounds in `failure`.
pub(super) fn failing(case: &mut Case<'_>, failure: Failure, random: &mut Seeded) -> Result<Counts, String> {
    case.prepare()?;
    case.clear()?;
    let bytes = case.tree.bytes() * random.below(10) as u64 / 10;
    let (failure, errno, at_source) = match failure {
        Failure::Writing(errno, _) => (Failure::Writing(errno, bytes), errno, false),
        Failure::Changing(errno, _) => (Failure::Changing(errno, bytes), errno, false),
        Failure::Reading(errno, _) => (Failure::Reading(errno, 2 + random.below(2) as u64), errno, true),
    };
    let at = if at_source { case.hosts.lab.path("failing") } else { case.place.clone() };
    for path in [&at, &case.place] {
        std::fs::create_dir_all(path).map_err(|error| error.to_string())?;
    }
    let disk = Disk::mount(&at)?;
    if at_source {
        disk.put("tree", &case.tree);
        case.source = at.join("tree");
    }
    case.furnish()?;
    disk.fail(failure);
    let ended = case.start(&[])?.end()?;
    let failed = disk.failed();
    if failed > 0 {
        check_failure(case, &ended, errno, at_source)?;
        disk.heal();
        case.finish()?;
    } else {
        disk.heal();
        case.check_complete(&ended)?;
    }
    drop(disk);
    case.clear()?;
    Ok(Counts { hits: u64::from(failed > 0), late: u64::from(failed == 0) })
}

/// The target's file system becomes read-only during the copy, or was so before.
pub(super) fn read_only(case: &mut Case<'_>, random: &mut Seeded) -> Result<Counts, String> {
    if random.below(3) > 0 {
        return failing(case, Failure::Changing(Errno::ROFS, 0), random);
    }
    case.prepare()?;
    case.clear()?;
    std::fs::create_dir_all(&case.place).map_err(|error| error.to_string())?;
    let mounted = Mounted::tmpfs(&case.place, 1 << 30)?;
    case.furnish()?;
    let remount = |flags| {
        mount_remount(&case.place, flags, size(1 << 30)?.as_c_str())
            .map_err(|error| format!("read-only or not: {error}"))
    };
    remount(MountFlags::RDONLY)?;
    let ended = case.start(&[])?.end()?;
    check_failure(case, &ended, Errno::ROFS, false)?;
    remount(MountFlags::empty())?;
    case.finish()?;
    drop(mounted);
    case.clear()?;
    Ok(Counts { hits: 1, late: 0 })
}

/// The target's mount is removed during the copy. Before the command runs again it is mounted again, or
/// another file system is.
pub(super) fn vanished(case: &Case<'_>, state: &mut State, random: &mut Seeded) -> Result<Counts, String> {
    let make = |path: &Path| std::fs::create_dir_all(path).map_err(|error| error.to_string());
    let disks = [case.hosts.lab.path("disk"), case.hosts.lab.path("another disk")];
    disks.iter().try_for_each(|disk| make(disk))?;
    make(&case.place)?;
    let mounted = Mounted::bound(&disks[0], &case.place)?;
    case.furnish()?;
    let mut running = case.start(&[])?;
    let late = running.ends_within(state.moment(case, random));
    if late {
        case.check_complete(&running.end()?)?;
        drop(mounted);
    } else {
        drop(mounted);
        let ended = running.end()?;
        case.hosts.settle()?;
        // Files on the removed disk, and files in its mount point.
        case.tree.allows(&disks[0].join("tree"), case.old_version())?;
        case.check_interrupted()?;
        if !matches!(ended.status, 0 | 1) {
            return Err(format!("status {} where 0 or 1 is right:\n{}", ended.status, ended.said));
        }
        case.clear()?;
        make(&case.place)?;
        let again = random.below(2);
        let mounted = Mounted::bound(&disks[again], &case.place)?;
        if again == 1 {
            case.furnish()?;
        }
        // A partial or missing copy is completed; a complete one gets a second copy inside, as with scp.
        if ended.status == 1 || !case.names_copy() {
            case.finish()?;
        }
        drop(mounted);
    }
    case.clear()?;
    disks.iter().try_for_each(|disk| std::fs::remove_dir_all(disk).map_err(|error| error.to_string()))?;
    Ok(Counts { hits: u64::from(!late), late: u64::from(late) })
}
