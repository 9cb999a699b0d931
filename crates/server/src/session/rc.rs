//! Runs `~/.ssh/rc`, or else `/etc/ssh/sshrc`, before a session's program (sshd(8), SSHRC).

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use lh_sys::spawn::PrecedingProgram;
use lh_sys::users::User;

/// Path of the system's script.
const SYSTEM: &str = "/etc/ssh/sshrc";
/// Path of the user's script, relative to the home directory.
const OF_USER: &str = ".ssh/rc";

/// Returns the script to run first, if there is one. `input` is its standard input: the X11 cookie, or
/// nothing. `allowed`: the user's own script may be used.
///
/// # Errors
/// A pipe cannot be created.
pub(super) fn program(user: &User, allowed: bool, input: &str) -> io::Result<Option<PrecedingProgram>> {
    Ok(match words(user, allowed, Path::new(SYSTEM)) {
        Some(words) => Some(PrecedingProgram { words, stdin: pipe_with(input)? }),
        None => None,
    })
}

fn words(user: &User, allowed: bool, system: &Path) -> Option<Vec<CString>> {
    let own = user.home.join(OF_USER);
    if allowed && own.exists() {
        // Run by the user's shell, like all of the user's commands; the shell then runs it as a script of sh.
        let quoted =
            own.as_os_str().as_bytes().split(|byte| *byte == b'\'').collect::<Vec<_>>().join(&b"'\\''"[..]);
        let line = [b"/bin/sh '", &quoted[..], b"'"].concat();
        return strings([user.shell.as_os_str().as_bytes(), b"-c", &line]);
    }
    system.exists().then(|| strings([b"/bin/sh", system.as_os_str().as_bytes()])).flatten()
}

fn strings<const N: usize>(words: [&[u8]; N]) -> Option<Vec<CString>> {
    words.into_iter().map(|word| CString::new(word).ok()).collect()
}

/// Returns the read end of a pipe that contains `input`.
pub(super) fn pipe_with(input: &str) -> io::Result<OwnedFd> {
    let (reader, writer) = lh_sys::fd::pipe()?;
    // A pipe holds at least 4 KiB without a reader; a cookie is shorter.
    rustix::io::write(&writer, input.get(..4096).unwrap_or(input).as_bytes())?;
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_s_file_comes_first() {
        let home = tempfile::tempdir().unwrap();
        let user = crate::testing::user(1, home.path(), "/bin/zsh");
        let text = |words: Option<Vec<CString>>| {
            words.map(|words| words.iter().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>())
        };
        let system = home.path().join("sshrc");
        assert_eq!(text(words(&user, true, &system)), None);
        std::fs::write(&system, "").unwrap();
        let of_system = vec!["/bin/sh".to_owned(), system.display().to_string()];
        assert_eq!(text(words(&user, true, &system)), Some(of_system.clone()));
        std::fs::create_dir(home.path().join(".ssh")).unwrap();
        std::fs::write(home.path().join(OF_USER), "").unwrap();
        let line = format!("/bin/sh '{}/.ssh/rc'", home.path().display());
        let expected = vec!["/bin/zsh".to_owned(), "-c".to_owned(), line];
        assert_eq!(text(words(&user, true, &system)), Some(expected));
        assert_eq!(text(words(&user, false, &system)), Some(of_system));
    }
}
