//! `AuthenticationMethods` message by message: Longhaul's server answers each of a series of requests as
//! OpenSSH's does.

use std::path::{Path, PathBuf};

use lh_interop::{Inetd, Lab, Lhsshd, TestUser, is_root, peers, skip};

/// Debian's Python has Debian's Paramiko, which speaks all below the authentication.
const PYTHON: &str = "/usr/bin/python3";

/// What both servers are asked, with their answers. `K` and `L` are two keys that are authorized.
const DIALOGUES: &[(&str, &str, &str)] = &[
    // One key counts once, also when it is only asked about.
    (
        "AuthenticationMethods publickey,publickey",
        "none K K? K L? L",
        "failure publickey; failure publickey partial; failure publickey; failure publickey; 60; success",
    ),
    (
        "AuthenticationMethods publickey,publickey,publickey",
        "K L K L",
        "failure publickey partial; failure publickey partial; failure publickey; failure publickey",
    ),
    // A method out of its turn fails, and what has been done before stays done.
    (
        "AuthenticationMethods password,publickey",
        "K password! password password K! K",
        "failure password; failure password; failure publickey partial; failure publickey; failure publickey; success",
    ),
    (
        "AuthenticationMethods password publickey,password",
        "K password! password",
        "failure password partial; failure password; success",
    ),
    ("AuthenticationMethods password,password", "password password", "failure password partial; success"),
    (
        "AuthenticationMethods publickey,password",
        "K change password",
        "failure password partial; failure password; success",
    ),
    // The last failure that MaxAuthTries allows ends the connection; partial successes are no failures.
    (
        "MaxAuthTries 2\nAuthenticationMethods publickey,password",
        "none K password! none",
        "failure publickey; failure password partial; failure password; end",
    ),
    // What a Match block turns off leaves the other alternatives, or none.
    (
        "AuthenticationMethods publickey,password password\nMatch User lh*\nPubkeyAuthentication no",
        "none K password",
        "failure password; failure password; success",
    ),
    ("AuthenticationMethods publickey,password\nMatch User lh*\nPasswordAuthentication no", "none", "end"),
    ("AuthenticationMethods publickey\nMatch User lh*\nPubkeyAuthentication no", "K", "end"),
    (
        "AuthenticationMethods any\nMatch User lh*\nAuthenticationMethods publickey,password",
        "password K password",
        "failure publickey; failure password partial; success",
    ),
];

/// Rows of an account without a password, where `none` could tell that there is none.
const EMPTY: &[(&str, &str, &str)] = &[
    ("AuthenticationMethods any", "none", "success"),
    ("AuthenticationMethods none", "none", "success"),
    ("AuthenticationMethods publickey,none", "none K none", "failure publickey; failure partial; success"),
    ("AuthenticationMethods none,publickey", "none K", "failure publickey partial; success"),
    ("AuthenticationMethods publickey", "none none K", "failure publickey; failure publickey; success"),
    (
        "AuthenticationMethods publickey,password",
        "none K none",
        "failure publickey; failure password partial; failure password",
    ),
    ("AuthenticationMethods none\nPasswordAuthentication no", "none", "failure"),
];

struct Place {
    lab: Lab,
    user: TestUser,
    sshd: PathBuf,
}

impl Place {
    fn new(test: &str) -> Option<Self> {
        if !is_root() {
            skip(test, "needs root to check passwords");
            return None;
        }
        let [sshd, keygen] = peers(test, ["sshd", "ssh-keygen"])?;
        let lab = Lab::new();
        if lab.run(Path::new(PYTHON), &["-W", "ignore", "-c", "import paramiko"]).code != 0 {
            skip(test, "Debian's python3-paramiko is not installed");
            return None;
        }
        let user = TestUser::new(&lab);
        lab.run(&keygen, &["-q", "-t", "ed25519", "-N", "", "-f", &lab.arg("second")]).ok("ssh-keygen");
        lab.write("authorized_keys", &[lab.read("user_ed25519.pub"), lab.read("second.pub")].concat());
        lab.sh("chmod 644 authorized_keys").ok("chmod");
        Some(Self { lab, user, sshd })
    }

    /// The answers of the server at this port.
    fn answers(&self, port: u16, steps: &str) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/paramiko_methods.py");
        let mut args: Vec<String> = ["-W", "ignore"].map(str::to_owned).into();
        args.extend([script.display().to_string(), port.to_string()]);
        args.extend([self.user.name.clone(), self.user.password.to_owned()]);
        args.extend(steps.split(' ').map(|step| match step.split_at(1) {
            ("K", ending) => self.lab.arg("user_ed25519") + ending,
            ("L", ending) => self.lab.arg("second") + ending,
            _ => step.to_owned(),
        }));
        let ran = self.lab.run(Path::new(PYTHON), &args).ok(steps);
        let answers = ran.text();
        let answers = answers.lines().map(|line| line.split_once(": ").map_or(line, |(_, answer)| answer));
        // A list without names leaves two spaces.
        answers.map(|answer| answer.trim().replace("  ", " ")).collect::<Vec<_>>().join("; ")
    }

    fn compare(&self, general: &str, dialogues: &[(&str, &str, &str)]) {
        for (config, steps, expected) in dialogues {
            self.lab.write("methods.conf", config);
            let config = format!("{general}\nInclude {}", self.lab.arg("methods.conf"));
            let ours = Lhsshd::start(&self.lab, &config);
            assert_eq!(self.answers(ours.port, steps), *expected, "{config}: {steps}");
            let theirs = Inetd::openssh(&self.lab, &self.sshd, &config);
            assert_eq!(self.answers(theirs.port, steps), *expected, "OpenSSH, {config}: {steps}");
        }
    }
}

/// Covers: sshd_config AuthenticationMethods (each answer, beside OpenSSH's)
#[test]
fn methods_in_a_row_are_answered_as_by_openssh() {
    let Some(place) = Place::new("methods_in_a_row_are_answered_as_by_openssh") else { return };
    place.compare("KbdInteractiveAuthentication no", DIALOGUES);
}

/// Covers: sshd_config PermitEmptyPasswords (with AuthenticationMethods)
#[test]
fn none_does_not_tell_which_accounts_have_no_password() {
    let Some(place) = Place::new("none_does_not_tell_which_accounts_have_no_password") else { return };
    place.lab.run(Path::new("passwd"), &["-d", &place.user.name]).ok("passwd -d");
    place.compare("KbdInteractiveAuthentication no\nPermitEmptyPasswords yes", EMPTY);
}
