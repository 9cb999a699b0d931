//! Tests with real directories.

use std::os::unix::fs::{PermissionsExt, symlink};

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::*;

/// Serializes the tests, because listening sets the process's umask for a moment.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens with this line of configuration; an empty one stands for the default.
fn listen_with(line: &str, home: &Path) -> Result<Made, PlaceError> {
    let user = crate::testing::user(rustix::process::getuid().as_raw(), home, "/bin/sh");
    listen(&crate::testing::settings(line).agent_socket_path, &user)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Returns the directory of the socket.
fn parent(made: &Made) -> PathBuf {
    made.0.path().parent().unwrap().to_owned()
}

#[test]
fn the_socket_is_the_user_s_alone_and_leaves_nothing() {
    let _turn = turn();
    let home = tempfile::tempdir().unwrap();
    let (listener, directory) = listen_with("", home.path()).unwrap();
    let path = listener.path().to_path_buf();
    assert!(path.starts_with(home.path().join(".ssh/agent")) && directory.is_none());
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn without_a_home_a_private_directory_below_tmp_does() {
    let _turn = turn();
    let made = listen_with("", Path::new("/nonexistent")).unwrap();
    let directory = parent(&made);
    assert!(directory.starts_with("/tmp") && mode(&directory) == 0o700);
    let (listener, kept) = made;
    drop(listener);
    drop(kept);
    assert!(!directory.exists());
    // The path is too long for a socket.
    let home = tempfile::tempdir().unwrap();
    let long = home.path().join("x".repeat(90));
    std::fs::create_dir(&long).unwrap();
    assert!(parent(&listen_with("", &long).unwrap()).starts_with("/tmp"));
    // A configured directory has no fallback.
    for home in [Path::new("/nonexistent"), &long] {
        let error = listen_with("AgentSocketPath user:.ssh/agent", home).unwrap_err();
        assert!(matches!(error, PlaceError::System { .. }), "{error}");
    }
    assert!(matches!(listen_with("AgentSocketPath none", home.path()), Err(PlaceError::Nowhere)));
}

#[test]
fn directories_of_the_user_are_made_with_their_parents() {
    let _turn = turn();
    let home = tempfile::tempdir().unwrap();
    let made = listen_with("AgentSocketPath user:a/%u/c", home.path()).unwrap();
    let name = crate::testing::user(0, home.path(), "/bin/sh").name;
    assert_eq!(parent(&made), home.path().join("a").join(name).join("c"));
    assert_eq!((mode(&home.path().join("a")), mode(&parent(&made))), (0o700, 0o700));
    let made = listen_with("AgentSocketPath user:%h/b", home.path()).unwrap();
    assert_eq!(parent(&made), home.path().join("b"));
    let error = listen_with("AgentSocketPath user:%z", home.path()).unwrap_err();
    assert!(matches!(error, PlaceError::Tokens(_)), "{error}");
    std::fs::write(home.path().join("file"), "").unwrap();
    assert!(listen_with("AgentSocketPath user:file", home.path()).is_err());
}

#[test]
fn shared_directories_hold_a_private_one() {
    let _turn = turn();
    let shared = tempfile::tempdir().unwrap();
    set_mode(shared.path(), 0o1777);
    let line = format!("AgentSocketPath shared:{}", shared.path().display());
    let made = listen_with(&line, Path::new("/nonexistent")).unwrap();
    let directory = parent(&made);
    assert!(directory.starts_with(shared.path()) && directory != shared.path());
    assert_eq!((mode(&directory), mode(made.0.path())), (0o700, 0o600));
    drop(made);
    assert_eq!(std::fs::read_dir(shared.path()).unwrap().count(), 0);
    let missing = format!("{line}/missing");
    assert!(matches!(listen_with(&missing, Path::new("/nonexistent")), Err(PlaceError::System { .. })));
}

#[test]
fn directories_that_others_could_replace_are_refused() {
    let _turn = turn();
    let place = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let open = place.path().join("open");
    std::fs::create_dir_all(open.join("inner")).unwrap();
    symlink(home.path(), open.join("link")).unwrap();
    let unsafe_with = |directory: &Path| {
        let refused = |kind: &str| {
            let line = format!("AgentSocketPath {kind}:{}", directory.display());
            matches!(listen_with(&line, home.path()), Err(PlaceError::Unsafe(path)) if path == open)
        };
        assert_eq!(refused("user"), refused("shared"));
        refused("user")
    };
    let below = [open.clone(), open.join("inner"), open.join("link")];
    set_mode(&open, 0o755);
    assert!(below.iter().all(|directory| !unsafe_with(directory)));
    set_mode(&open, 0o1777);
    assert!(below.iter().all(|directory| !unsafe_with(directory)));
    set_mode(&open, 0o777);
    assert!(below.iter().all(|directory| unsafe_with(directory)));
    // The default avoids such a directory.
    set_mode(home.path(), 0o700);
    std::fs::create_dir_all(home.path().join(".ssh/agent")).unwrap();
    set_mode(&home.path().join(".ssh"), 0o777);
    assert!(parent(&listen_with("", home.path()).unwrap()).starts_with("/tmp"));
}

#[test]
fn links_and_directories_of_another_user_are_refused() {
    let _turn = turn();
    if !lh_sys::ids::is_root() {
        return lh_testkit::skip("agent sockets in places of another user", "giving files away needs root");
    }
    let place = tempfile::tempdir().unwrap();
    set_mode(place.path(), 0o1777);
    let [theirs, link] = ["theirs", "link"].map(|name| place.path().join(name));
    std::fs::create_dir(&theirs).unwrap();
    symlink("/root", &link).unwrap();
    for path in [&theirs, &link] {
        std::os::unix::fs::lchown(path, Some(65534), None).unwrap();
        for kind in ["user", "shared"] {
            let line = format!("AgentSocketPath {kind}:{}", path.display());
            let error = listen_with(&line, Path::new("/root")).unwrap_err();
            assert!(matches!(&error, PlaceError::Unsafe(named) if named == path), "{error}");
        }
    }
}
