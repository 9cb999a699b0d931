//! Programs in the form that a forked child needs: with every allocation already made.

use std::ffi::{CString, OsStr, OsString, c_char};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// Path, arguments and environment of a program, for `execve`.
pub(super) struct Image {
    path: CString,
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    // Targets of the pointers. A CString's bytes do not move when the vector moves.
    _words: Vec<CString>,
    _variables: Vec<CString>,
}

// SAFETY: the pointers refer to memory that the value itself owns and no code changes.
unsafe impl Send for Image {}
// SAFETY: as above; a shared reference allows no change.
unsafe impl Sync for Image {}

impl Image {
    /// The first of `words` is argument 0. Without `env`, the program inherits this process's environment.
    ///
    /// # Errors
    /// A text contains a NUL.
    pub(super) fn new<'a>(
        path: &OsStr,
        words: impl Iterator<Item = &'a OsStr>,
        env: Option<&[(OsString, OsString)]>,
    ) -> io::Result<Self> {
        let inherited: Vec<(OsString, OsString)>;
        let env = match env {
            Some(env) => env,
            None => {
                inherited = std::env::vars_os().collect();
                &inherited
            }
        };
        let variables =
            env.iter().map(|(name, value)| c_string([name.as_bytes(), b"=", value.as_bytes()].concat()));
        let variables = variables.collect::<io::Result<Vec<_>>>()?;
        let words = words.map(|word| c_string(word.as_bytes().to_vec())).collect::<io::Result<Vec<_>>>()?;
        let list = |texts: &[CString]| {
            texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
        };
        Ok(Self {
            path: c_string(path.as_bytes().to_vec())?,
            arguments: list(&words),
            environment: list(&variables),
            _words: words,
            _variables: variables,
        })
    }

    /// Executes the program in place of this process; async-signal-safe. Returns only the reason of a
    /// failure.
    pub(super) fn execute(&self) -> io::Error {
        // SAFETY: the vectors end in null and point to C strings that live as long as `self`.
        unsafe {
            libc::execve(self.path.as_ptr(), self.arguments.as_ptr(), self.environment.as_ptr());
        }
        io::Error::last_os_error()
    }
}

fn c_string(bytes: Vec<u8>) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// A program that runs to its end first, with a standard input of its own.
pub(super) struct First {
    image: Image,
    stdin: OwnedFd,
}

impl First {
    pub(super) fn new(
        words: &[CString],
        stdin: OwnedFd,
        env: Option<&[(OsString, OsString)]>,
    ) -> io::Result<Self> {
        let words = || words.iter().map(|word| OsStr::from_bytes(word.to_bytes()));
        let path = words().next().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { image: Image::new(path, words(), env)?, stdin })
    }

    /// Forks, executes and waits, all async-signal-safe. Errors concern only this program and are ignored.
    pub(super) fn run(&self) {
        // SAFETY: a forked child of a process with one thread (the child of a fork has one) may do this;
        // `_exit` runs no code of ours.
        unsafe {
            match libc::fork() {
                -1 => {}
                0 => {
                    if libc::dup2(self.stdin.as_raw_fd(), 0) == 0 {
                        self.image.execute();
                    }
                    libc::_exit(127)
                }
                child => {
                    let mut status = 0;
                    while libc::waitpid(child, &mut status, 0) < 0
                        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
                    {
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_for_the_child_survive_moves() {
        let texts = |pointers: &[*const c_char]| -> Vec<String> {
            let (last, pointers) = pointers.split_last().unwrap();
            assert!(last.is_null());
            // SAFETY: the value that owns the strings is alive.
            let text = |pointer: &*const c_char| unsafe { std::ffi::CStr::from_ptr(*pointer) };
            pointers.iter().map(|pointer| text(pointer).to_str().unwrap().to_owned()).collect()
        };
        let words = ["-x", "-a"].map(OsStr::new);
        let env = [("A".into(), "b c".into()), ("PATH".into(), "/bin".into())];
        let image = Image::new(OsStr::new("/bin/x"), words.into_iter(), Some(&env)).unwrap();
        let image = Box::new(image);
        let moved = std::thread::spawn(move || (*image, 0)).join().unwrap().0;
        assert_eq!(texts(&moved.arguments), ["-x", "-a"]);
        assert_eq!(texts(&moved.environment), ["A=b c", "PATH=/bin"]);
    }

    #[test]
    fn texts_with_nul_are_refused() {
        let words = ["/bin/x", "a\0b"].map(OsStr::new);
        let made = Image::new(OsStr::new("/bin/x"), words.into_iter(), None);
        assert!(made.is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput));
    }
}
