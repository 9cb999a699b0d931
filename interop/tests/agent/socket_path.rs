//! Directory in which servers make the sockets of forwarded agents (`AgentSocketPath`). OpenSSH knows the
//! keyword since 10.6.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use lh_interop::{Agent, Inetd, Lab, Lhsshd, eventually, our};

use super::forwarding::{Place, ready};

/// Shows the path of the socket, its mode and owner, and those of its directory; then the agent's keys.
const SHOW: &str = "echo $SSH_AUTH_SOCK; stat -c '%a %U' $SSH_AUTH_SOCK ${SSH_AUTH_SOCK%/*}; ";

/// Whether this sshd knows the keyword.
fn knows_keyword(lab: &Lab, sshd: &Path) -> bool {
    let args = ["-T", "-f", "/dev/null", "-h", &lab.arg("host_ed25519"), "-o", "AgentSocketPath=none"];
    lab.run(sshd, &args).code == 0
}

/// Covers: sshd_config AgentSocketPath; token sshd %u; token sshd %U; token sshd %h
#[test]
fn agent_socket_path_says_where_sockets_are_made() {
    let Some([sshd, _, _, ssh_add]) = ready("agent_socket_path_says_where_sockets_are_made") else { return };
    let place = Place::new();
    let lab = &place.lab;
    let agent = Agent::ours(lab, "agent", &[]);
    agent.run(lab, &our("lhssh-add"), &["-q", &lab.arg("user_ed25519")]).ok("added");
    let (user, home) = (&place.user.name, place.user.home.display().to_string());
    let shared = tempfile::Builder::new().prefix("lh-agents").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(shared.path(), PermissionsExt::from_mode(0o1777)).unwrap();
    let base = shared.path().display().to_string();
    let list = format!("{SHOW}{} -l", ssh_add.display());
    let theirs = knows_keyword(lab, &sshd);
    for (file, matching) in [("this.conf", user.as_str()), ("other.conf", "other")] {
        lab.write(file, &format!("Match User {matching}\nAgentSocketPath shared:{base}\n"));
    }
    for (line, expected) in [
        (String::new(), format!("{home}/.ssh/agent/s.")),
        ("AgentSocketPath user:deep/%u/%%".into(), format!("{home}/deep/{user}/%/s.")),
        ("AgentSocketPath user:%h/here".into(), format!("{home}/here/s.")),
        (format!("AgentSocketPath user:{base}/of-%u"), format!("{base}/of-{user}/s.")),
        (format!("AgentSocketPath shared:{base}"), format!("{base}/ssh-")),
        (format!("Include {}", lab.arg("this.conf")), format!("{base}/ssh-")),
        (format!("Include {}", lab.arg("other.conf")), format!("{home}/.ssh/agent/s.")),
    ] {
        let ours = Lhsshd::start(lab, &line);
        let openssh = theirs.then(|| Inetd::openssh(lab, &sshd, &line));
        for port in [Some(ours.port), openssh.as_ref().map(|server| server.port)].into_iter().flatten() {
            let ran = place.forwarded(&agent, &our("lhssh"), port, &[], &list).ok(&line);
            let text = ran.text();
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines[0].starts_with(&expected) && lines[0].contains("sshd."), "{line}: {text}");
            assert_eq!(lines[1..3], [format!("600 {user}"), format!("700 {user}")], "{line}");
            assert!(lines[3].contains("(ED25519)"), "{line}: {text}");
        }
        eventually("the socket is gone", || !has_socket(shared.path()));
        let left = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("ssh-");
        let entries = || std::fs::read_dir(shared.path()).unwrap().map(Result::unwrap);
        eventually("the private directory is gone", || !entries().any(|entry| left(&entry)));
    }
}

fn has_socket(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).map(|entries| entries.flatten().collect::<Vec<_>>());
    entries.unwrap_or_default().iter().any(|entry| {
        entry.file_name().to_string_lossy().contains("sshd.")
            || entry.path().is_dir() && has_socket(&entry.path())
    })
}

/// Covers: sshd_config AgentSocketPath (no socket)
#[test]
fn agent_sockets_are_not_made_where_they_may_not_be() {
    let Some([sshd, ..]) = ready("agent_sockets_are_not_made_where_they_may_not_be") else { return };
    let place = Place::new();
    let lab = &place.lab;
    let agent = Agent::ours(lab, "agent", &[]);
    agent.run(lab, &our("lhssh-add"), &["-q", &lab.arg("user_ed25519")]).ok("added");
    let hostile = tempfile::Builder::new().prefix("lh-agents").tempdir_in("/tmp").unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    mode(hostile.path(), 0o1777);
    let [open, link, of_other] = ["open", "link", "other"].map(|name| hostile.path().join(name));
    std::fs::create_dir(&open).unwrap();
    mode(&open, 0o777);
    std::fs::create_dir(&of_other).unwrap();
    mode(&of_other, 0o777);
    symlink(&place.user.home, &link).unwrap();
    for path in [&of_other, &link] {
        std::os::unix::fs::lchown(path, Some(65534), None).unwrap();
    }
    std::fs::write(place.user.home.join("file"), "").unwrap();
    let theirs = knows_keyword(lab, &sshd);
    // OpenSSH does not look at owners and modes; the last field says whether it makes no socket either.
    for (path, logged, also_theirs) in [
        ("none".to_owned(), "AgentSocketPath is none".to_owned(), true),
        ("shared:/nonexistent".into(), "/nonexistent: No such file or directory".into(), true),
        ("user:file".into(), "file".into(), true),
        ("user:/root/sub".into(), "/root/sub: Permission denied".into(), true),
        (format!("user:{}", "x".repeat(100)), "/s.".into(), true),
        (
            format!("shared:{}", open.display()),
            format!("modes for agent directory {}", open.display()),
            false,
        ),
        (
            format!("user:{}/sub", open.display()),
            format!("modes for agent directory {}", open.display()),
            false,
        ),
        (format!("user:{}", link.display()), format!("modes for agent directory {}", link.display()), false),
        (format!("shared:{}", of_other.display()), format!("directory {}", of_other.display()), false),
    ] {
        let line = format!("AgentSocketPath {path}");
        let ours = Lhsshd::start(lab, &line);
        let show = "echo x$SSH_AUTH_SOCK";
        let ran = place.forwarded(&agent, &our("lhssh"), ours.port, &[], show).ok(&line);
        assert_eq!(ran.text(), "x\n", "{line}");
        let log = ours.log();
        assert!(
            log.lines().any(|entry| entry.contains("agent forwarding: ") && entry.contains(&logged)),
            "{log}"
        );
        if theirs {
            let openssh = Inetd::openssh(lab, &sshd, &line);
            let ran = place.forwarded(&agent, &our("lhssh"), openssh.port, &[], show).ok(&line);
            assert_eq!(ran.text() == "x\n", also_theirs, "{line}");
        }
    }
    for (path, message) in [
        ("shared:here", "invalid shared path."),
        ("shared:%h", "invalid shared path."),
        ("user:", "invalid user path."),
        ("here", "invalid path."),
        ("USER:here", "invalid path."),
    ] {
        lab.write("bad.conf", &format!("AgentSocketPath {path}\nHostKey {}\n", lab.arg("host_ed25519")));
        let expected = format!("{} line 1: {message}", lab.arg("bad.conf"));
        for program in [Some(our("lhsshd")), theirs.then(|| sshd.clone())].into_iter().flatten() {
            let ran = lab.run(&program, &["-t", "-f", &lab.arg("bad.conf")]);
            assert!(ran.code == 255 && ran.err.contains(&expected), "{}: {}", program.display(), ran.err);
        }
    }
}
