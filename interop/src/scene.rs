//! Our server and OpenSSH's client, for tests of what administrators set.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::{Lab, Lhsshd, Ran, me, peers};

/// A server with a configuration, and OpenSSH's programs to see it with.
pub struct Scene {
    /// Keys and files.
    pub lab: Lab,
    /// The server.
    pub server: Lhsshd,
    /// OpenSSH's client.
    pub ssh: PathBuf,
    /// OpenSSH's ssh-keygen.
    pub keygen: PathBuf,
}

impl Scene {
    /// A server that runs with `config`. `None` when OpenSSH's programs are missing.
    pub fn new(test: &str, config: &str) -> Option<Self> {
        Self::with_lab(test, Lab::new(), config)
    }

    /// The same with a lab in which something has been prepared. `{lab}` in the configuration stands for its folder, `{me}` for
    /// the user who runs the tests.
    pub fn with_lab(test: &str, lab: Lab, config: &str) -> Option<Self> {
        let [ssh, keygen] = peers(test, ["ssh", "ssh-keygen"])?;
        let config = config.replace("{lab}", &lab.dir().to_string_lossy()).replace("{me}", &me());
        let server = Lhsshd::start(&lab, &config);
        Some(Self { lab, server, ssh, keygen })
    }

    /// The client's arguments.
    pub fn args(&self, options: &[&str], user: &str, command: &[&str]) -> Vec<String> {
        let mut args: Vec<String> = options.iter().map(|&each| each.to_owned()).collect();
        args.extend(self.lab.client_options());
        args.extend(["-p".to_owned(), self.server.port_arg(), format!("{user}@127.0.0.1")]);
        args.extend(command.iter().map(|&each| each.to_owned()));
        args
    }

    /// Logs in as a user with options, which win over the lab's.
    pub fn ssh_as(&self, user: &str, options: &[&str], command: &[&str]) -> Ran {
        self.lab.run(&self.ssh, &self.args(options, user, command))
    }

    /// Logs in as whoever runs the tests.
    pub fn ssh(&self, options: &[&str], command: &[&str]) -> Ran {
        self.ssh_as(&me(), options, command)
    }

    /// Logs in as a user who types: each of `answers` answers one question of the client, in order; the last answers all that
    /// follow. The lab's keys are not tried unless an option says so.
    pub fn ssh_typing(&self, user: &str, answers: &[&str], options: &[&str], command: &[&str]) -> Ran {
        let state = self.lab.path("askpass.count");
        let _ = std::fs::remove_file(&state);
        let list = answers.iter().map(|answer| format!("'{answer}'")).collect::<Vec<_>>().join(" ");
        let script = format!(
            "#!/bin/bash\nanswers=({list})\nn=$(cat {state} 2>/dev/null || echo 0)\necho $((n+1)) >{state}\n\
             printf '%s\\n' \"$1\" >>{state}.asked\nlast=$((${{#answers[@]}}-1))\n[ $n -gt $last ] && n=$last\n\
             printf '%s\\n' \"${{answers[$n]}}\"\n",
            state = state.display()
        );
        self.lab.write("askpass", &script);
        open_to_all(&self.lab.path("askpass"));
        let mut all = vec!["-o", "BatchMode=no", "-o", "NumberOfPasswordPrompts=1"];
        all.extend(options);
        let args = self.args(&all, user, command);
        let line: Vec<String> = args.iter().map(|arg| format!("'{}'", arg.replace('\'', "'\\''"))).collect();
        self.lab.sh(&format!(
            "SSH_ASKPASS={} SSH_ASKPASS_REQUIRE=force {} {}",
            self.lab.arg("askpass"),
            self.ssh.display(),
            line.join(" ")
        ))
    }

    /// The questions that the last [`ssh_typing`](Self::ssh_typing) and those before it were asked, a line each.
    pub fn asked(&self) -> String {
        std::fs::read_to_string(self.lab.path("askpass.count.asked")).unwrap_or_default()
    }

    /// The server does not let in who comes with these options, and logs why.
    #[track_caller]
    pub fn refused(&self, why: &str) {
        let ran = self.ssh(&[], &["true"]);
        assert_eq!(ran.code, 255, "{why}: {}", ran.err);
        assert!(ran.err.contains("Permission denied"), "{why}: {}", ran.err);
        self.logged(why);
    }

    /// Waits for text in the log: the client may be gone before the server has written its last line.
    #[track_caller]
    pub fn logged(&self, text: &str) {
        eventually(text, || self.server.log().contains(text));
    }
}

/// Waits until something is true; a bound against hanging, not an expectation.
#[track_caller]
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < end, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Readable and executable for everybody, writable for nobody else: how programs of a server must lie.
pub fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Writes a shell script that everybody may run.
pub fn script(path: &Path, body: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    open_to_all(path);
}

/// A folder above which nobody but root may write, for programs that a server runs; removed with the value. Needs root.
pub fn safe_folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("longhaul-safe-").tempdir_in("/var/lib").unwrap();
    open_to_all(folder.path());
    folder
}
