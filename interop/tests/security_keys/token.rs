//! An emulated security key, and the environment for programs that use it.

use std::path::{Path, PathBuf};

use lh_interop::{Lab, Ran, find, open_to_all, skip};

/// The library, its store, and the variables that programs need.
pub(super) struct Token {
    pub(super) lab: Lab,
    pub(super) provider: PathBuf,
    pub(super) pin: Option<&'static str>,
    /// More variables that programs need.
    pub(super) more: Vec<String>,
}

impl Token {
    /// Compiles the library. Skips the test and returns `None` if something is missing.
    pub(super) fn new(test: &str) -> Option<Self> {
        if !Path::new("/usr/include/openssl/evp.h").exists() {
            skip(test, "not installed: libssl-dev");
            return None;
        }
        let lab = Lab::new();
        let provider = compile(test, &lab, "provider", "-lcrypto")?;
        std::fs::create_dir(lab.path("store")).unwrap();
        let token = Self { lab, provider, pin: None, more: Vec::new() };
        token.answer("");
        Some(token)
    }

    /// Sets the answer to all prompts: PINs and passphrases.
    pub(super) fn answer(&self, text: &str) {
        lh_interop::script(
            &self.lab.path("askpass"),
            &format!("echo \"$1\" >>{}\necho '{text}'", self.lab.arg("asked")),
        );
    }

    /// Returns the prompts since the last call, without notices: older clients use the same program to say
    /// that they wait.
    pub(super) fn asked(&self) -> String {
        let asked = std::fs::read_to_string(self.lab.path("asked")).unwrap_or_default();
        let _ = std::fs::remove_file(self.lab.path("asked"));
        asked
            .lines()
            .filter(|line| !line.starts_with("Confirm user presence"))
            .map(|line| format!("{line}\n"))
            .collect()
    }

    /// Returns `NAME=value` of the variables that programs need.
    pub(super) fn environment(&self) -> Vec<String> {
        let mut variables = vec![
            format!("SSH_SK_PROVIDER={}", self.provider.display()),
            format!("LH_SK_STORE={}", self.lab.arg("store")),
            format!("SSH_ASKPASS={}", self.lab.arg("askpass")),
            "SSH_ASKPASS_REQUIRE=force".to_owned(),
        ];
        variables.extend(self.pin.map(|pin| format!("LH_SK_PIN={pin}")));
        variables.extend_from_slice(&self.more);
        variables
    }

    /// Runs a program that may use the hardware.
    pub(super) fn run(&self, program: &Path, args: &[&str]) -> Ran {
        self.run_env(&[], program, args)
    }

    /// Like [`run`](Self::run), with more variables.
    pub(super) fn run_env(&self, more: &[&str], program: &Path, args: &[&str]) -> Ran {
        let mut words = self.environment();
        words.extend(more.iter().map(|&word| word.to_owned()));
        let ran = self.lab.run_env(&words, program, args);
        // Some programs end lines with CR LF, as on a terminal in raw mode.
        Ran { err: ran.err.replace('\r', ""), ..ran }
    }

    /// Makes a key without a passphrase.
    #[track_caller]
    pub(super) fn make(&self, keygen: &Path, kind: &str, file: &str, options: &[&str]) -> Ran {
        let mut args = vec!["-t", kind, "-N", "", "-C", file, "-f", file];
        args.extend(options.iter().flat_map(|option| ["-O", option]));
        self.run(keygen, &args).ok("ssh-keygen")
    }

    /// Logs in with a key.
    pub(super) fn login(&self, client: &Path, port: u16, key: &str, options: &[&str]) -> Ran {
        let mut args = vec![
            "-F".to_owned(),
            "none".to_owned(),
            "-p".to_owned(),
            port.to_string(),
            format!("{}@127.0.0.1", lh_interop::me()),
            "echo in".to_owned(),
        ];
        let base = [
            format!("UserKnownHostsFile={}", self.lab.arg("known_hosts")),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            "PreferredAuthentications=publickey".to_owned(),
            "IdentitiesOnly=yes".to_owned(),
            format!("IdentityFile={}", self.lab.arg(key)),
            format!("SecurityKeyProvider={}", self.provider.display()),
        ];
        for option in base.iter().map(String::as_str).chain(options.iter().copied()) {
            args.splice(2..2, ["-o".to_owned(), option.to_owned()]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.run(client, &args)
    }
}

/// Compiles a library of the tests, and links it to another. Skips the test and returns `None` if there is no
/// compiler.
pub(super) fn compile(test: &str, lab: &Lab, name: &str, linked: &str) -> Option<PathBuf> {
    let Some(cc) = find("cc") else {
        skip(test, "not installed: cc");
        return None;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/security_keys/{name}.c"));
    let library = lab.path(&format!("{name}.so"));
    let args = ["-Wall", "-shared", "-fPIC", "-o"].map(str::to_owned);
    let rest = [library.display().to_string(), source.display().to_string(), linked.to_owned()];
    lab.run(&cc, &[&args[..], &rest].concat()).ok("cc");
    open_to_all(&library);
    Some(library)
}
