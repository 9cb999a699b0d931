//! Our server with OpenSSH's client, for tests of the server's configuration.

use std::path::{Path, PathBuf};

use crate::{Lab, Lhsshd, Ran, eventually, find, me, peers};

/// A server with a configuration, and OpenSSH's programs to test it with.
pub struct ServerSetup {
    /// Keys and files.
    pub lab: Lab,
    /// The server.
    pub server: Lhsshd,
    /// OpenSSH's client.
    pub ssh: PathBuf,
    /// OpenSSH's ssh-keygen.
    pub keygen: PathBuf,
}

impl ServerSetup {
    /// Starts a server with `config`. `None` when OpenSSH's programs are missing.
    pub fn new(test: &str, config: &str) -> Option<Self> {
        Self::with_lab(test, Lab::new(), config)
    }

    /// Like [`new`](Self::new), with a prepared lab. In the configuration `{lab}` is replaced by its
    /// directory and `{me}` by the user who runs the tests.
    pub fn with_lab(test: &str, lab: Lab, config: &str) -> Option<Self> {
        let [ssh, keygen] = peers(test, ["ssh", "ssh-keygen"])?;
        let config = config.replace("{lab}", &lab.dir().to_string_lossy()).replace("{me}", &me());
        let server = Lhsshd::start(&lab, &config);
        Some(Self { lab, server, ssh, keygen })
    }

    /// Returns the client's arguments.
    pub fn args(&self, options: &[&str], user: &str, command: &[&str]) -> Vec<String> {
        let mut args: Vec<String> = options.iter().map(|&each| each.to_owned()).collect();
        args.extend(self.lab.client_options());
        args.extend(["-p".to_owned(), self.server.port_arg(), format!("{user}@127.0.0.1")]);
        args.extend(command.iter().map(|&each| each.to_owned()));
        args
    }

    /// Logs in as `user` with these options, which take precedence over the lab's.
    pub fn ssh_as(&self, user: &str, options: &[&str], command: &[&str]) -> Ran {
        self.lab.run(&self.ssh, &self.args(options, user, command))
    }

    /// Logs in as the user who runs the tests.
    pub fn ssh(&self, options: &[&str], command: &[&str]) -> Ran {
        self.ssh_as(&me(), options, command)
    }

    /// Runs these commands in OpenSSH's `sftp`, as the user who runs the tests.
    pub fn sftp(&self, commands: &str) -> Ran {
        let sftp = find("sftp").expect("OpenSSH's sftp is beside its ssh");
        self.lab.write("batch", commands);
        let mut args = vec!["-b".to_owned(), self.lab.arg("batch")];
        args.extend(self.lab.client_options());
        args.extend(["-P".into(), self.server.port_arg(), format!("{}@127.0.0.1", me())]);
        self.lab.run(&sftp, &args)
    }

    /// Logs in as a user who types. Each of `answers` answers one prompt of the client, in order; the last
    /// one answers all further prompts. The lab's keys are not used unless an option requests it.
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

    /// Returns the prompts of all calls of [`ssh_typing`](Self::ssh_typing), one per line.
    pub fn asked(&self) -> String {
        std::fs::read_to_string(self.lab.path("askpass.count.asked")).unwrap_or_default()
    }

    /// Checks that the server refuses a login and logs `why`.
    #[track_caller]
    pub fn refused(&self, why: &str) {
        let ran = self.ssh(&[], &["true"]);
        assert_eq!(ran.code, 255, "{why}: {}", ran.err);
        assert!(ran.err.contains("Permission denied"), "{why}: {}", ran.err);
        self.logged(why);
    }

    /// Waits for text in the server's log: the client may end before the server writes its last line.
    #[track_caller]
    pub fn logged(&self, text: &str) {
        eventually(text, || self.server.log().contains(text));
    }
}

/// A command of `sh` that waits until each of these files of metrics has `least` samples, and two more than
/// it had when the command began.
pub fn wait_for_samples(files: &[String], least: usize) -> String {
    let wait = |file: &String| {
        let count = format!("$(grep -c '\"seconds\"' '{file}' 2>/dev/null)");
        format!(
            "had={count}; while now={count}; [ \"${{now:-0}}\" -lt {least} ] || [ \"${{now:-0}}\" -lt $((${{had:-0}} + 2)) ]; \
             do sleep 0.05; done"
        )
    };
    files.iter().map(wait).collect::<Vec<_>>().join("; ")
}

/// Repeats a call on a socket with a timeout while it is interrupted. The kernel interrupts it when this
/// process is stopped and continued, although no signal has a handler (signal(7)).
///
/// # Errors
/// Those of `call` other than `Interrupted`.
pub fn uninterrupted<T>(mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Makes a file readable and executable for all, writable for its owner alone, as a server requires of
/// programs that it runs.
pub fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Writes a shell script that every user may run.
pub fn script(path: &Path, body: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    open_to_all(path);
}

/// Makes a directory in which, and above which, only root may write, for programs that a server runs; removed
/// when dropped. Needs root.
pub fn safe_directory() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("longhaul-safe-").tempdir_in("/var/lib").unwrap();
    open_to_all(directory.path());
    directory
}
