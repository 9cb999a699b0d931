//! Host-based authentication: the client host's key and the server's files let a user in. Longhaul's client,
//! server and helper, each combined with OpenSSH's.

use std::fs;
use std::path::{Path, PathBuf};

use lh_interop::cuts::{Break, Cuts};
use lh_interop::{Inetd, Lab, Lhsshd, Ran, TestUser, is_root, open_to_all, our, peers, safe_directory, skip};

/// Key types of the client's host.
const KINDS: [&str; 3] = ["ed25519", "rsa", "ecdsa"];
const RULES: &str = "HostbasedAuthentication yes\nHostbasedUsesNameFromPacketOnly yes\nIgnoreRhosts no\n";
/// Debian's path of OpenSSH's helper.
const THEIR_HELPER: &str = "/usr/lib/openssh/ssh-keysign";

/// A user on the server, and an `/etc/ssh` of the client's host that only the client sees.
struct Place {
    lab: Lab,
    user: TestUser,
}

impl Place {
    fn new(test: &str) -> Option<Self> {
        if !is_root() {
            skip(test, "host keys are root's");
            return None;
        }
        let lab = Lab::new();
        fs::create_dir(lab.path("etc")).unwrap();
        open_to_all(&lab.path("etc"));
        for kind in KINDS {
            let key = lab.path(&format!("etc/ssh_host_{kind}_key"));
            fs::copy(lab.path(&format!("user_{kind}")), &key).unwrap();
            fs::copy(lab.path(&format!("user_{kind}.pub")), key.with_extension("pub")).unwrap();
            open_to_all(&key.with_extension("pub"));
        }
        let user = TestUser::new(&lab);
        let place = Self { lab, user };
        place.allow_helper("yes");
        place.user_file(".shosts", "localhost root\n");
        place.know(&KINDS);
        Some(place)
    }

    fn allow_helper(&self, word: &str) {
        let config = self.lab.path("etc/ssh_config");
        fs::write(&config, format!("Host *\n  EnableSSHKeysign {word}\n")).unwrap();
        open_to_all(&config);
    }

    fn user_file(&self, name: &str, text: &str) {
        let path = self.user.home.join(name);
        fs::write(&path, text).unwrap();
        let owner = format!("{}:", self.user.name);
        let path = path.to_string_lossy();
        self.lab.run(Path::new("chown"), &[&owner, path.as_ref()]).ok("chown");
    }

    /// Writes the user's known_hosts with these keys of the client's host.
    fn know(&self, kinds: &[&str]) {
        let line = |kind: &&str| format!("localhost {}", self.lab.read(&format!("user_{kind}.pub")));
        let text: String = kinds.iter().map(line).collect();
        self.user_file(".ssh/known_hosts", &text);
    }

    /// Runs a client in a mount namespace where `/etc/ssh` is the lab's.
    fn run(&self, before: &str, client: &Path, port: u16, options: &[&str]) -> Ran {
        self.run_command(before, client, port, options, "id -un")
    }

    /// Like [`run`](Self::run), with this command at the server.
    fn run_command(&self, before: &str, client: &Path, port: u16, options: &[&str], command: &str) -> Ran {
        let script = format!("mount --bind {} /etc/ssh && {before} exec \"$@\"", self.lab.arg("etc"));
        let mut args = vec!["--mount".to_owned(), "sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()];
        args.push(client.to_string_lossy().into_owned());
        args.extend(["-o", "PreferredAuthentications=hostbased"].map(str::to_owned));
        args.extend(options.iter().flat_map(|option| ["-o".to_owned(), (*option).to_owned()]));
        args.extend(["-o".to_owned(), "HostbasedAuthentication=yes".to_owned()]);
        args.extend(self.lab.client_options());
        args.extend(["-p".to_owned(), port.to_string(), format!("{}@127.0.0.1", self.user.name)]);
        args.push(command.to_owned());
        self.lab.run(Path::new("unshare"), &args)
    }

    #[track_caller]
    fn let_in(&self, what: &str, ran: Ran) {
        assert_eq!(ran.ok(what).text().trim(), self.user.name, "{what}");
    }
}

#[track_caller]
fn refused(what: &str, ran: &Ran) {
    assert_eq!(ran.code, 255, "{what}: {}", ran.text());
    assert!(ran.err.contains("Permission denied"), "{what}: {}", ran.err);
}

/// Covers: ssh_config HostbasedAuthentication; ssh_config HostbasedAcceptedAlgorithms; ssh_config EnableSSHKeysign; sshd_config HostbasedAuthentication; sshd_config HostbasedUsesNameFromPacketOnly
#[test]
fn hostbased_login_works_with_every_combination() {
    let test = "hostbased_login_works_with_every_combination";
    let Some([ssh, sshd]) = peers(test, ["ssh", "sshd"]) else { return };
    let Some(place) = Place::new(test) else { return };
    let ours = Lhsshd::start(&place.lab, RULES);
    let theirs = Inetd::openssh(&place.lab, &sshd, RULES);
    for port in [ours.port, theirs.port] {
        for client in [&our("lhssh"), &ssh] {
            let what = format!("{} to {port}", client.display());
            place.let_in(&what, place.run("", client, port, &[]));
            for algorithm in ["ssh-ed25519", "rsa-sha2-512", "ecdsa-sha2-nistp384"] {
                let option = format!("HostbasedAcceptedAlgorithms={algorithm}");
                place.let_in(&format!("{what} {algorithm}"), place.run("", client, port, &[&option]));
            }
        }
    }
    let name = &place.user.name;
    let log = ours.log();
    let accepted = log.lines().find(|line| line.contains(&format!("Accepted hostbased for {name} from")));
    let accepted = accepted.unwrap_or_else(|| panic!("{log}"));
    assert!(accepted.contains(": ED25519 SHA256:") || accepted.contains(": ECDSA SHA256:"), "{accepted}");
    assert!(accepted.ends_with("client user \"root\", client host \"localhost.\""), "{accepted}");
    // OpenSSH's helper for our client, and ours for OpenSSH's.
    if Path::new(THEIR_HELPER).is_file() {
        let directory = safe_directory();
        let alone = directory.path().join("lhssh");
        fs::copy(our("lhssh"), &alone).unwrap();
        place.let_in("our client, their helper", place.run("", &alone, ours.port, &[]));
        let mount = format!("mount --bind {} {THEIR_HELPER} &&", our("lhssh-keysign").display());
        place.let_in("their client, our helper", place.run(&mount, &ssh, ours.port, &[]));
    }
}

/// A session goes on over another connection as long as the files let its user in from there.
///
/// Covers: sshd_config ResumeGrace; sshd_config HostbasedAuthentication
#[test]
fn sessions_of_hostbased_logins_go_on_while_the_files_permit_it() {
    let Some(place) = Place::new("sessions_of_hostbased_logins_go_on_while_the_files_permit_it") else {
        return;
    };
    let server = Lhsshd::start(&place.lab, &format!("{RULES}ResumeGrace 1m\n"));
    let through_a_break = |before: &str| {
        let cuts = Cuts::to(server.port, vec![(1 << 20, Break::Reset)]);
        place.lab.know(cuts.port);
        let command = format!("{before} head -c 3000000 /dev/zero");
        place.run_command("", &our("lhssh"), cuts.port, &[], &command)
    };
    assert_eq!(through_a_break("").ok("with the files").out.len(), 3_000_000);
    assert_eq!(server.resumptions(), 1);
    let ran = through_a_break("rm .shosts;");
    assert_eq!(ran.code, 255, "{}", ran.err);
    let log = server.log();
    assert!(log.contains("refused: the client's host may not log in as the user any more"), "{log}");
}

/// Covers: sshd_config IgnoreRhosts; sshd_config IgnoreUserKnownHosts; sshd_config HostbasedAcceptedAlgorithms; sshd_config HostbasedUsesNameFromPacketOnly
#[test]
fn server_files_decide_about_hostbased_logins() {
    let test = "server_files_decide_about_hostbased_logins";
    let Some([ssh]) = peers(test, ["ssh"]) else { return };
    let Some(place) = Place::new(test) else { return };
    let server = Lhsshd::start(&place.lab, RULES);
    let log_in = |port: u16| place.run("", &ssh, port, &[]);
    place.let_in("as it is", log_in(server.port));
    for (file, why) in
        [("localhost other\n", "other user"), ("-localhost root\n", "minus"), ("elsewhere\n", "host")]
    {
        place.user_file(".shosts", file);
        refused(why, &log_in(server.port));
    }
    place.user_file(".shosts", "localhost root\n");
    // Another key than the host's.
    place.know(&["rsa"]);
    let only =
        |kind: &str| place.run("", &ssh, server.port, &[&format!("HostbasedAcceptedAlgorithms={kind}")]);
    refused("unknown key", &only("ssh-ed25519"));
    place.let_in("known key", only("rsa-sha2-256"));
    let text = format!("@revoked * {0}localhost {0}", place.lab.read("user_rsa.pub"));
    place.user_file(".ssh/known_hosts", &text);
    refused("revoked key", &only("rsa-sha2-256"));
    // The same line, wrapped: which key it is about cannot be told.
    place.user_file(".ssh/known_hosts", &text.replacen("AAAA", "AAAA\n", 1));
    refused("a revocation that cannot be read", &only("rsa-sha2-256"));
    let named = ".ssh/known_hosts:1: parse error in hostkeys file, in an @revoked line for localhost";
    assert!(server.log().contains(named), "{}", server.log());
    place.know(&KINDS);
    drop(server);
    for (rules, why) in [
        (RULES.replace("IgnoreRhosts no\n", ""), "IgnoreRhosts"),
        (format!("{RULES}IgnoreUserKnownHosts yes\n"), "IgnoreUserKnownHosts"),
        (format!("{RULES}HostbasedAcceptedAlgorithms sk-*\n"), "HostbasedAcceptedAlgorithms"),
        (RULES.replace("HostbasedAuthentication yes\n", ""), "HostbasedAuthentication"),
        // The resolver is not used, so that the host's name is its address, for which there is no line.
        (RULES.replace("HostbasedUsesNameFromPacketOnly yes\n", ""), "HostbasedUsesNameFromPacketOnly"),
    ] {
        refused(why, &log_in(Lhsshd::start(&place.lab, &rules).port));
    }
    let server = Lhsshd::start(
        &place.lab,
        &format!("{RULES}IgnoreRhosts shosts-only\n").replacen("IgnoreRhosts no\n", "", 1),
    );
    place.let_in("shosts-only", log_in(server.port));
    fs::rename(place.user.home.join(".shosts"), place.user.home.join(".rhosts")).unwrap();
    refused("rhosts with shosts-only", &log_in(server.port));
}

/// Covers: ssh_config EnableSSHKeysign
#[test]
fn hostbased_needs_setuid_helper_and_enable_sshkeysign() {
    let test = "hostbased_needs_setuid_helper_and_enable_sshkeysign";
    let Some(place) = Place::new(test) else { return };
    let directory = safe_directory();
    let copy = |name: &str| -> PathBuf {
        let path = directory.path().join(name);
        fs::copy(our(name), &path).unwrap();
        open_to_all(&path);
        path
    };
    let (client, helper) = (copy("lhssh"), copy("lhssh-keysign"));
    let server = Lhsshd::start(&place.lab, RULES);
    place.user_file(".shosts", "localhost\n");
    // The client's files must belong to the user.
    for file in ["known_hosts", "user_ed25519"] {
        let path = place.lab.arg(file);
        place.lab.run(Path::new("chown"), &[&place.user.name, &path]).ok("chown");
    }
    let name = &place.user.name;
    let as_user = format!(
        "setpriv --reuid {name} --regid {} --clear-groups env HOME={}",
        place.user.ids().1,
        place.user.home.display()
    );
    let run = || place.run(&format!("set -- {as_user} \"$@\";"), &client, server.port, &[]);
    let without = run();
    refused("a helper without rights", &without);
    assert!(without.err.contains("could not open any host key"), "{}", without.err);
    place.lab.run(Path::new("chmod"), &["u+s", &helper.to_string_lossy()]).ok("chmod");
    place.let_in("a helper with root's rights", run());
    place.allow_helper("no");
    let forbidden = run();
    refused("a helper that is not enabled", &forbidden);
    assert!(forbidden.err.contains("ssh-keysign not enabled in /etc/ssh/ssh_config"), "{}", forbidden.err);
}
