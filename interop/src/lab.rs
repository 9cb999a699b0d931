//! A directory with temporary keys and configuration files, and time-limited commands in it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use lh_testkit::find;

use crate::programs::our;
use crate::waiting::end_sessions;

/// Time limit of one command, in seconds. A bound against hanging, not an expectation.
const LIMIT_S: u32 = 600;

/// Time limit of one test; a test that takes longer waits for an event that never comes.
const TEST_LIMIT: Duration = Duration::from_secs(2400);

/// Result of a command.
#[derive(Debug)]
pub struct Ran {
    /// Exit status; 124 when the bound was reached.
    pub code: i32,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error, as text.
    pub err: String,
}

/// Measurements of a page in a browser.
#[derive(Debug)]
pub struct Shown {
    /// Classes or names of the elements whose content is wider than they are, separated by blanks.
    pub too_wide: String,
    /// Texts whose contrast with the background is too low (WCAG 2: below 4.5), with the ratio.
    pub faint: String,
    /// Messages of the console.
    pub console: Vec<String>,
    /// The final DOM.
    pub dom: String,
}

impl Ran {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// Panics with the command's output unless it exited with status 0.
    #[track_caller]
    pub fn ok(self, what: &str) -> Self {
        assert_eq!(self.code, 0, "{what}: exit {}\nstdout: {}\nstderr: {}", self.code, self.text(), self.err);
        self
    }
}

fn make_key(keygen: &Path, file: &Path, kind: &str, bits: &str) {
    let comment = file.file_name().unwrap_or_default();
    let mut command = Command::new(keygen);
    command.args(["-q", "-t", kind, "-b", bits, "-N", "", "-C"]).arg(comment).arg("-f").arg(file);
    let done = command.stdin(Stdio::null()).output().unwrap();
    assert!(done.status.success(), "{}: {}", keygen.display(), String::from_utf8_lossy(&done.stderr));
}

/// Ends the test program, with the name of the hanging test, unless the returned value is dropped within
/// [`TEST_LIMIT`]. Without it one hanging test would block all others, unnamed.
fn watch() -> Sender<()> {
    let (alive, ended) = channel::<()>();
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    // Only tests have a limit, not other programs.
    if test == "main" {
        return alive;
    }
    std::thread::spawn(move || {
        if ended.recv_timeout(TEST_LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let processes =
                Command::new("ps").args(["axf", "-o", "pid,ppid,stat,wchan:24,etimes,args"]).output();
            let processes =
                processes.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default();
            // `eprintln` is not used, because its output is captured until the test ends.
            let _ = writeln!(
                std::io::stderr(),
                "{test} hangs: it has not ended after {} s\n{processes}",
                TEST_LIMIT.as_secs()
            );
            std::process::exit(101);
        }
    });
    alive
}

/// The directory of one test: `host_*` and `user_*` keys, `authorized_keys`, `known_hosts`, a home for
/// clients.
pub struct Lab {
    dir: tempfile::TempDir,
    _watch: Sender<()>,
}

impl Lab {
    /// Creates the directory and its keys with OpenSSH's `ssh-keygen` if it is installed, otherwise with
    /// ours: every peer must accept the keys of either.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("longhaul-interop-").tempdir().unwrap();
        // sshd's StrictModes checks the directories above authorized_keys.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let lab = Self { dir, _watch: watch() };
        let keygen = find("ssh-keygen").unwrap_or_else(|| our("lhssh-keygen"));
        for (file, kind, bits) in [
            ("host_ed25519", "ed25519", "256"),
            ("host_ecdsa", "ecdsa", "256"),
            ("user_ed25519", "ed25519", "256"),
            ("user_ecdsa", "ecdsa", "384"),
        ] {
            make_key(&keygen, &lab.path(file), kind, bits);
        }
        // RSA keys take long to generate: all labs of a program share one pair.
        static RSA: OnceLock<[(&str, [String; 2]); 2]> = OnceLock::new();
        let pairs = RSA.get_or_init(|| {
            ["host_rsa", "user_rsa"].map(|file| {
                make_key(&keygen, &lab.path(file), "rsa", "2048");
                (file, [lab.read(file), lab.read(&format!("{file}.pub"))])
            })
        });
        for (file, [private, public]) in pairs {
            lab.write(file, private);
            lab.write(&format!("{file}.pub"), public);
        }
        let public = ["user_ed25519.pub", "user_rsa.pub", "user_ecdsa.pub"].map(|name| lab.read(name));
        lab.write("authorized_keys", &public.concat());
        fs::create_dir_all(lab.path("home/.ssh")).unwrap();
        lab
    }

    /// Returns the path of `name` in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the directory itself.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the path of `name` in the directory, as text for command lines.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    /// Reads a text file of the directory.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Writes a text file into the directory, readable by its owner alone.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Records the lab's host keys for `127.0.0.1:port` in `known_hosts`.
    pub fn know(&self, port: u16) {
        let mut text = fs::read_to_string(self.path("known_hosts")).unwrap_or_default();
        for key in ["host_ed25519.pub", "host_rsa.pub", "host_ecdsa.pub"] {
            text.push_str(&format!("[127.0.0.1]:{port} {}", self.read(key)));
        }
        self.write("known_hosts", &text);
    }

    /// Returns options that make an OpenSSH-like client use only this directory.
    pub fn client_options(&self) -> Vec<String> {
        let mut options = vec!["-F".to_owned(), "none".to_owned()];
        for option in [
            format!("UserKnownHostsFile={}", self.arg("known_hosts")),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            "IdentitiesOnly=yes".to_owned(),
            format!("IdentityFile={}", self.arg("user_ed25519")),
            "BatchMode=yes".to_owned(),
            // Many peers lack a key exchange that counts as strong today; older clients do not know the
            // keyword.
            "IgnoreUnknown=WarnWeakCrypto".to_owned(),
            "WarnWeakCrypto=no".to_owned(),
        ] {
            options.push("-o".to_owned());
            options.push(option);
        }
        options
    }

    /// Returns a remote shell command for programs that start one (`rsync -e`, `GIT_SSH_COMMAND`, `sshfs -o
    /// ssh_command`).
    pub fn shell_command(&self, client: &Path, port: u16) -> String {
        let mut words = vec![client.to_string_lossy().into_owned(), "-p".into(), port.to_string()];
        words.extend(self.client_options());
        words.join(" ")
    }

    /// Runs a command in the directory, with a time limit and without a terminal.
    pub fn run<S: AsRef<std::ffi::OsStr>>(&self, program: &Path, args: &[S]) -> Ran {
        self.run_with(program, args, Stdio::null())
    }

    /// Like [`run`](Self::run), with a file as standard input.
    pub fn run_with<S: AsRef<std::ffi::OsStr>>(&self, program: &Path, args: &[S], stdin: Stdio) -> Ran {
        let done = Command::new("timeout")
            .args(["-k", "5", &LIMIT_S.to_string()])
            .arg(program)
            .args(args)
            .current_dir(self.dir.path())
            .env("HOME", self.path("home"))
            .env_remove("SSH_AUTH_SOCK")
            .stdin(stdin)
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        Ran {
            code: done.status.code().unwrap_or(-1),
            out: done.stdout,
            err: String::from_utf8_lossy(&done.stderr).into_owned(),
        }
    }

    /// Like [`run`](Self::run), with additional variables, each as `NAME=value`.
    pub fn run_env(&self, variables: &[String], program: &Path, args: &[&str]) -> Ran {
        let mut words = variables.to_vec();
        words.push(program.display().to_string());
        words.extend(args.iter().map(|&arg| arg.to_owned()));
        self.run(Path::new("env"), &words)
    }

    /// Returns the DOM of a page of the directory after a browser has drawn it.
    #[track_caller]
    pub fn drawn(&self, chromium: &Path, page: &str) -> String {
        self.browse(chromium, page, &["--dump-dom"]).text()
    }

    /// Measures a page of the directory in a browser window of this width, pixels; below 1000 in dark
    /// colours. The page file is changed: a script that measures is added.
    #[track_caller]
    pub fn shown(&self, chromium: &Path, page: &str, width: u32) -> Shown {
        // Parts that scroll separately count as well: their content would be cut off on a phone.
        let measure = "<script>addEventListener('load',()=>{\
            const wide=[document.documentElement,...document.querySelectorAll('.scroll,section')]\
            .filter(part=>part.scrollWidth>part.clientWidth+1).map(part=>part.className||part.tagName);\
            for(const part of document.body.querySelectorAll('*')){\
            const box=part.getBoundingClientRect(),clipped=part.closest('thead,.values,.scroll');\
            if(!clipped&&box.width>0&&(box.right>innerWidth+1||box.left<-1))wide.push(part.className.baseVal??(part.className||part.tagName));}\
            const dark=matchMedia('(prefers-color-scheme: dark)').matches,\
            colour=text=>{const all=text.match(/[0-9.]+/g).map(Number);return all.length<4?[...all,1]:all;},\
            over=(top,below)=>[0,1,2].map(at=>top[at]*top[3]+below[at]*(1-top[3])),\
            light=rgb=>{const [r,g,b]=rgb.map(v=>{v/=255;return v<=.03928?v/12.92:((v+.055)/1.055)**2.4;});return .2126*r+.7152*g+.0722*b;},\
            behind=part=>{if(!part)return dark?[18,18,18]:[255,255,255];\
            const own=colour(getComputedStyle(part).backgroundColor);return own[3]===1?own.slice(0,3):over(own,behind(part.parentElement));},\
            faint=[];let texts=0;\
            for(const part of document.body.querySelectorAll('*')){\
            const words=[...part.childNodes].filter(node=>node.nodeType===3&&node.data.trim()).map(node=>node.data.trim()).join(' ');\
            if(!words||['SCRIPT','STYLE'].includes(part.tagName))continue;\
            const style=getComputedStyle(part),back=behind(part);texts+=1;\
            let front=colour(part instanceof SVGElement?style.fill:style.color);\
            for(let at=part;at;at=at.parentElement)front=[front[0],front[1],front[2],front[3]*getComputedStyle(at).opacity];\
            const pair=[light(over(front,back)),light(back)].sort((a,b)=>b-a),ratio=(pair[0]+.05)/(pair[1]+.05);\
            if(ratio<4.5)faint.push(words.slice(0,20)+' '+ratio.toFixed(1));}\
            document.body.dataset.faint=faint.join('; ');document.body.dataset.texts=texts;document.body.dataset.dark=dark;\
            document.body.dataset.width=innerWidth;document.body.dataset.wide=wide.join(' ');});</script></body>";
        let mut text = self.read(page);
        if !text.contains("script-src") {
            text = text.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';");
        }
        assert_eq!(text.matches("</body>").count(), 1, "{page}: one end");
        let copy = format!("{width}-{page}");
        self.write(&copy, &text.replace("</body>", measure));
        let size = format!("--window-size={width},900");
        let is_dark = width < 1000;
        let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark));
        let ran = self.browse(chromium, &copy, &[&size, &scheme, "--enable-logging=stderr", "--dump-dom"]);
        let dom = ran.text();
        let value = |name: &str| {
            let at = dom.split(&format!(" data-{name}=\"")).nth(1)?;
            Some(at.split('"').next()?.to_owned())
        };
        assert_eq!(value("width"), Some(width.to_string()), "{page}: the width of the window");
        assert_eq!(value("dark"), Some(is_dark.to_string()), "{page}: the colours");
        let texts = value("texts").and_then(|count| count.parse::<u32>().ok());
        assert!(texts > Some(5), "{page}: {texts:?} texts whose contrast was measured");
        let console = ran.err.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect();
        let text = |name: &str| value(name).unwrap_or_default();
        Shown { too_wide: text("wide"), faint: text("faint"), console, dom }
    }

    #[track_caller]
    pub(crate) fn browse(&self, chromium: &Path, page: &str, more: &[&str]) -> Ran {
        let data = format!("--user-data-dir={}", self.arg("browser"));
        let address = format!("file://{}", self.arg(page));
        let flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
        let args = [&flags[..], &[&data], more, &[&address]].concat();
        self.run(chromium, &args).ok("chromium")
    }

    /// Runs a line of shell in the directory.
    pub fn sh(&self, line: &str) -> Ran {
        self.run(Path::new("/bin/bash"), &["-c", &format!("set -o pipefail; {line}")])
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        end_sessions(self.dir.path());
    }
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

/// A system user added for one test, with a password and a home in the lab. Dropping it removes the user.
/// Needs root.
pub struct TestUser {
    /// Login name.
    pub name: String,
    /// Password.
    pub password: &'static str,
    /// Home directory.
    pub home: PathBuf,
}

impl TestUser {
    /// Adds the user, with the lab's `authorized_keys` in its home.
    pub fn new(lab: &Lab) -> Self {
        use std::hash::{BuildHasher as _, Hasher as _};
        let salt = std::collections::hash_map::RandomState::new().build_hasher().finish();
        let user = Self {
            name: format!("lh{:08x}", salt as u32),
            password: "correct horse battery",
            home: lab.path("userhome"),
        };
        let home = user.home.to_string_lossy().into_owned();
        lab.run(Path::new("useradd"), &["-m", "-d", &home, "-s", "/bin/bash", &user.name]).ok("useradd");
        lab.write("chpasswd.in", &format!("{}:{}\n", user.name, user.password));
        let input = fs::File::open(lab.path("chpasswd.in")).unwrap();
        lab.run_with::<&str>(Path::new("chpasswd"), &[], Stdio::from(input)).ok("chpasswd");
        fs::create_dir_all(user.home.join(".ssh")).unwrap();
        fs::copy(lab.path("authorized_keys"), user.home.join(".ssh/authorized_keys")).unwrap();
        lab.run(Path::new("chown"), &["-R", &format!("{}:", user.name), &home]).ok("chown");
        lab.run(Path::new("chmod"), &["-R", "go-rwx", &home]).ok("chmod");
        user
    }

    /// Moves the home to `home` in `directory`.
    pub fn move_home(&mut self, lab: &Lab, directory: &Path) {
        self.home = directory.join("home");
        let home = self.home.display().to_string();
        lab.run(Path::new("usermod"), &["-m", "-d", &home, &self.name]).ok("usermod");
    }

    /// Returns the user's uid and gid. They differ if groups were added before.
    pub fn ids(&self) -> (u32, u32) {
        let number = |flag: &str| -> u32 {
            let said = Command::new("id").args([flag, &self.name]).stdin(Stdio::null()).output().unwrap();
            String::from_utf8_lossy(&said.stdout).trim().parse().unwrap()
        };
        (number("-u"), number("-g"))
    }
}

impl Drop for TestUser {
    fn drop(&mut self) {
        end_sessions(self.home.parent().unwrap_or(&self.home));
        let _ = Command::new("userdel").args(["-f", &self.name]).stdin(Stdio::null()).output();
    }
}
