//! An X server for one test, and the environment variables for its clients.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Lab, Ran};

/// `Xvfb` with a cookie in a file of the lab, on a display that it has chosen.
pub struct XServer {
    child: Child,
    /// Value of `DISPLAY`.
    pub display: String,
    authority: PathBuf,
    cookie: String,
}

impl XServer {
    /// Starts the server and waits until it accepts connections.
    pub fn start(lab: &Lab, xvfb: &Path, xauth: &Path) -> Self {
        let authority = lab.path("x-authority");
        let cookie = "0123456789abcdeffedcba9876543210".to_owned();
        std::fs::write(&authority, "").unwrap();
        let add = |name: &str| {
            let file = authority.to_string_lossy().into_owned();
            lab.run(xauth, &["-q", "-f", &file, "add", name, ".", &cookie]).ok("xauth add");
        };
        // The server checks the cookies, not the display names.
        add(":0");
        // Without `-noreset` it would restart after its last client, and forget the cookies that it made.
        let mut child = Command::new(xvfb)
            .args(["-displayfd", "1", "-noreset", "-nolisten", "tcp", "-screen", "0", "64x64x24", "-auth"])
            .arg(&authority)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut number = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut number).unwrap();
        let display = format!(":{}", number.trim());
        add(&display);
        Self { child, display, authority, cookie }
    }

    /// Returns the cookie that grants access, in hexadecimal digits.
    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    /// Runs a program with the display and its cookie in the environment.
    pub fn run<S: AsRef<std::ffi::OsStr>>(&self, lab: &Lab, program: &Path, args: &[S]) -> Ran {
        let mut words: Vec<std::ffi::OsString> = self.variables().map(Into::into).into();
        words.push(program.into());
        words.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        lab.run(Path::new("env"), &words)
    }

    /// Returns `NAME=value` of the variables for clients of the display.
    pub fn variables(&self) -> [String; 2] {
        [format!("DISPLAY={}", self.display), format!("XAUTHORITY={}", self.authority.display())]
    }
}

impl Drop for XServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
