//! Uploads to a directory in which another user replaces unfinished files by others.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lh_interop::{
    Lab, Lhsshd, Ran, TestUser, assert_same_file, eventually, is_root, make_blob, open_to_all, our, skip,
};
use lh_testkit::leftovers;
use rustix::fs::{CWD, RenameFlags, renameat_with};

const SIZE: usize = 12_000_001;
const THEIRS: &str = "of another user";

/// Runs `copy` while another program renames a file of its own over each part file of at least `size` bytes.
/// Returns how many it has replaced, too.
fn while_parts_are_replaced(dir: &Path, size: u64, copy: impl FnOnce() -> Ran) -> (Ran, usize) {
    let (over, replaced) = (AtomicBool::new(false), AtomicUsize::new(0));
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            let theirs = dir.join("theirs");
            while !over.load(Ordering::SeqCst) {
                let is_theirs =
                    |path: &Path| fs::read(path).is_ok_and(|content| content == THEIRS.as_bytes());
                for part in leftovers(dir) {
                    if fs::metadata(&part).is_ok_and(|meta| meta.len() >= size) && !is_theirs(&part) {
                        // Not into the part file of the last exchange: another user may not write to it.
                        let _ = fs::remove_file(&theirs);
                        fs::write(&theirs, THEIRS).unwrap();
                        // The part file may have got its final name since; an exchange needs both names.
                        let last = renameat_with(CWD, &theirs, CWD, &part, RenameFlags::EXCHANGE).is_ok();
                        replaced.fetch_add(usize::from(last), Ordering::SeqCst);
                    }
                }
            }
        });
        let ran = copy();
        over.store(true, Ordering::SeqCst);
        ran
    });
    (ran, replaced.into_inner())
}

fn upload(lab: &Lab, port: u16, flags: &[&str]) -> Ran {
    let mut args = lab.client_options();
    args.extend(["-P".to_owned(), port.to_string()]);
    args.extend(flags.iter().map(|&flag| flag.to_owned()));
    args.extend(["blob".to_owned(), format!("127.0.0.1:{}", lab.arg("open/copy"))]);
    lab.run(&our("lhscp"), &args)
}

/// Covers: wire posix-rename@openssh.com; lhscp --verify
#[test]
fn a_part_file_of_another_user_is_not_published() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), SIZE);
    let open = lab.path("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let server = Lhsshd::start(&lab, "");
    let copy = lab.path("open/copy");
    for flags in [&[][..], &["--no-verify"], &["-j", "2"]] {
        // The copy may be over before the other program has seen its part file, or begin again under another
        // name, which the other program does not see in time. It is complete then.
        let ran = (0..20)
            .find_map(|_| {
                fs::write(&copy, "as it was").unwrap();
                let (ran, replaced) = while_parts_are_replaced(&open, 0, || upload(&lab, server.port, flags));
                if ran.code == 0 {
                    assert_same_file(&lab.path("blob"), &copy);
                }
                (replaced > 0 && ran.code != 0).then_some(ran)
            })
            .expect("a part file that was replaced");
        assert_eq!(ran.code, 1, "{flags:?}: {}", ran.err);
        let said = format!("{}\": replaced by another program while it was copied", lab.arg("open/copy"));
        assert!(ran.err.contains(&said), "{flags:?}: {}", ran.err);
        assert_eq!(fs::read_to_string(&copy).unwrap(), "as it was", "{flags:?}");
        for part in leftovers(&open) {
            fs::remove_file(part).unwrap();
        }
    }
    // Between the last write and the rename: whoever is faster, the copy never reports a file that it has not
    // made.
    for _ in 0..8 {
        let _ = fs::remove_file(&copy);
        let (ran, replaced) =
            while_parts_are_replaced(&open, SIZE as u64, || upload(&lab, server.port, &["--no-verify"]));
        if ran.code == 0 {
            assert_same_file(&lab.path("blob"), &copy);
        } else {
            assert!(replaced > 0, "{}", ran.err);
            assert!(fs::metadata(&copy).is_ok_and(|meta| meta.size() != SIZE as u64) || !copy.exists());
        }
        for part in leftovers(&open) {
            fs::remove_file(part).unwrap();
        }
    }
    upload(&lab, server.port, &["--verify"]).ok("nobody is in the way");
    assert_same_file(&lab.path("blob"), &copy);
}

/// Another user may rename any file of the directory, also one of the copy's user with the source's size.
#[test]
fn a_file_of_equal_size_is_not_published() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), SIZE);
    fs::create_dir(lab.path("open")).unwrap();
    let (open, copy, other) = (lab.path("open"), lab.path("open/copy"), lab.path("open/other"));
    let server = Lhsshd::start(&lab, "");
    let is_replaced = || {
        let _ = fs::remove_file(&copy);
        fs::write(&other, vec![b'o'; SIZE]).unwrap();
        let over = AtomicBool::new(false);
        // Once the part file has its size, between the last write and the rename.
        let replace = || {
            let is_whole = |part: &Path| fs::metadata(part).is_ok_and(|meta| meta.size() >= SIZE as u64);
            let exchange = |part: &Path| renameat_with(CWD, &other, CWD, part, RenameFlags::EXCHANGE).is_ok();
            while !over.load(Ordering::SeqCst) {
                if leftovers(&open).iter().any(|part| is_whole(part) && exchange(part)) {
                    return true;
                }
            }
            false
        };
        let (ran, replaced) = std::thread::scope(|scope| {
            let replacer = scope.spawn(replace);
            let ran = upload(&lab, server.port, &["--no-verify"]);
            over.store(true, Ordering::SeqCst);
            (ran, replacer.join().unwrap())
        });
        if ran.code == 0 {
            assert_same_file(&lab.path("blob"), &copy);
        }
        leftovers(&open).into_iter().for_each(|part| fs::remove_file(part).unwrap());
        replaced
    };
    // The copy may begin again under another name, and be complete then.
    assert!((0..20).filter(|_| is_replaced()).take(3).count() == 3, "no part file was replaced");
}

/// Puts a file of its own in the place of each part file, again and again, and writes a line for each one.
const SWAPPER: &str = r#"
    cd "$0" || exit 1
    while :; do
        for part in .*.lhpart; do
            if [ -f "$part" ] && [ ! -O "$part" ]; then
                echo 'of another user' > theirs && mv -f theirs "$part" 2> /dev/null && echo "$part" >> replaced
            fi
        done
        : > alive
    done
"#;

/// A process of another user that replaces part files.
struct Swapper(Child);

impl Swapper {
    fn start(user: &TestUser, dir: &Path) -> Self {
        let (uid, gid) = user.ids();
        let swapper = Command::new("/bin/sh")
            .arg("-c")
            .arg(SWAPPER)
            .arg(dir)
            .uid(uid)
            .gid(gid)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the swapper runs", || dir.join("alive").exists());
        Self(swapper)
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Uploads while a process of `user` replaces part files in the target, until it has replaced one. Returns
/// that copy, and what stands under the final name.
fn swapped(lab: &Lab, user: &TestUser, port: u16, most: usize) -> Option<(Ran, String)> {
    let (open, copy) = (lab.path("open"), lab.path("open/copy"));
    let replaced = || fs::read_to_string(open.join("replaced")).unwrap_or_default().lines().count();
    let _swapper = Swapper::start(user, &open);
    for _ in 0..most {
        fs::write(&copy, "as it was").unwrap();
        let before = replaced();
        let ran = upload(lab, port, &["--no-verify"]);
        if ran.code == 0 {
            assert_same_file(&lab.path("blob"), &copy);
        }
        if replaced() > before && ran.code != 0 {
            return Some((ran, fs::read_to_string(&copy).unwrap_or_default()));
        }
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    None
}

/// Covers: part files in a directory that two users share
#[test]
fn part_files_are_safe_from_a_second_user() {
    if !is_root() {
        return skip("second_user", "needs root to make a user");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    make_blob(&lab.path("blob"), SIZE);
    let open = lab.path("open");
    fs::create_dir(&open).unwrap();
    chown(&open, None, Some(user.ids().1)).unwrap();
    open_to_all(lab.dir());
    let server = Lhsshd::start(&lab, "");
    let mode = |mode| fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
    // Theirs by their group: they may replace any file there, and the copy says so.
    mode(0o775);
    let (ran, content) = swapped(&lab, &user, server.port, 100).expect("no part file was replaced");
    assert_eq!((ran.code, content.as_str()), (1, "as it was"), "{}", ran.err);
    assert!(ran.err.contains("replaced by another program while it was copied"), "{}", ran.err);
    // With the sticky bit they may replace their own only.
    for name in fs::read_dir(&open).unwrap() {
        fs::remove_file(name.unwrap().path()).unwrap();
    }
    mode(0o1777);
    assert!(swapped(&lab, &user, server.port, 4).is_none());
}
