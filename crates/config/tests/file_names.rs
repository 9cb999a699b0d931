//! Names in configuration files: relative names of files, and names that are not UTF-8.

mod common;

use std::process::Command;

use common::{Home, lines};
use lh_config::server::ConnectionFacts;
use lh_config::{ConfigError, ServerConfig};

fn load(home: &Home, text: impl AsRef<[u8]>) -> Result<ServerConfig, ConfigError> {
    ServerConfig::load(Some(&home.write("sshd", text)), &[], &home.world)
}

/// Keywords whose relative names sshd 9.2 makes absolute.
const NAMES: &[&str] = &[
    "Banner a/b",
    "Banner \"a b\"",
    "HostKey ../key",
    "HostKeyAgent agent",
    "ModuliFile m",
    "PidFile p",
    "RevokedKeys r",
    "TrustedUserCAKeys ca",
    "XAuthLocation x",
];

/// Covers: sshd_config HostKey; sshd_config TrustedUserCAKeys; sshd_config RevokedKeys
#[test]
fn relative_names_of_files_are_absolute_once_loaded() {
    let mut home = Home::new();
    home.world.variables.insert("HOME".to_owned(), "/home/me".to_owned());
    let here = std::env::current_dir().expect("a directory");
    let here = here.display();
    for line in NAMES {
        let (keyword, name) = line.split_once(' ').expect("two words");
        let loaded = load(&home, line).expect("loads");
        let line = format!("{keyword} {here}/{}\n", name.replace('"', ""));
        // In another process of the server, too, whose directory is another one.
        let copied = ServerConfig::from_bytes(&loaded.to_bytes()).expect("loads");
        for config in [loaded, copied] {
            let dump = config.dump(false, &|_| Vec::new());
            assert!(dump.contains(&line), "{line}{dump}");
        }
    }
    let blocks = load(&home, "Match User eve\nBanner a\nRevokedKeys ~/b ~bob/c \"d\\\"e\"\n").expect("loads");
    let facts = ConnectionFacts { user: Some("eve".to_owned()), ..ConnectionFacts::default() };
    let config = blocks.for_connection(&facts).expect("loads");
    assert_eq!(config.banner.as_deref(), Some(&*format!("{here}/a")));
    let revoked = ["/home/me/b".to_owned(), "/home/bob/c".to_owned(), format!("{here}/d\"e")];
    assert_eq!(config.revoked_keys.0, revoked);

    let kept =
        "Banner NONE\nHostKeyAgent SSH_AUTH_SOCK\nPidFile /a/b\nAuthorizedKeysFile k\nRevokedKeys none\n";
    let config = load(&home, kept).expect("loads");
    assert_eq!((config.banner.as_deref(), config.host_key_agent.as_deref()), (None, Some("SSH_AUTH_SOCK")));
    assert_eq!((config.pid_file.as_deref(), config.revoked_keys.list().len()), (Some("/a/b"), 0));
    assert_eq!(config.authorized_keys_file.0, ["k"]);
    let unknown = lines(load(&home, "Banner ~eve/x\n"), home.directory.path());
    assert_eq!(unknown, ["sshd line 1: tilde_expand: No such user eve"]);
}

#[test]
fn sshd_makes_the_same_names_absolute() {
    let name = "sshd_makes_the_same_names_absolute";
    let home = Home::new();
    let Some([keygen, sshd]) = lh_testkit::peers(name, ["ssh-keygen", "sshd"]) else { return };
    for key in ["key", "here/own"] {
        std::fs::create_dir_all(home.path("here")).expect("a directory");
        let made =
            Command::new(&keygen).args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(home.path(key)).status();
        assert!(made.expect("ssh-keygen runs").success());
    }
    let here = home.path("here");
    for line in NAMES.iter().filter(|line| !line.starts_with("HostKeyAgent")) {
        let path = home.write("theirs", line);
        let mut command = Command::new(&sshd);
        command.current_dir(&here).args(["-T", "-f"]).arg(&path).arg("-h").arg(here.join("own"));
        let ran = command.output().expect("sshd runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        if said.contains("Missing privilege separation directory") {
            return lh_testkit::skip_unavailable(name, "this sshd cannot run without /run/sshd");
        }
        let (keyword, value) = line.split_once(' ').expect("two words");
        let line = format!("{} {}/{}\n", keyword.to_lowercase(), here.display(), value.replace('"', ""));
        let dump = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(dump.contains(&line), "{line}{said}");
    }
}

#[test]
fn lines_that_are_not_utf8_are_errors() {
    let home = Home::new();
    let why = "bytes that are not UTF-8 (iconv converts files)";
    // Each would be a rule about another name than sshd's: `DenyUsers` would deny no user.
    for line in
        ["DenyUsers j\u{f6}rg", "Match User j\u{f6}rg", "Banner /etc/gr\u{fc}\u{df}e", "Banner \"\u{fc}"]
    {
        let latin1: Vec<u8> = line.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect();
        let found = lines(load(&home, [b"Port 22\n", &latin1[..], b"\n"].concat()), home.directory.path());
        assert_eq!(found[0], format!("sshd line 2: {why}"));
    }
    assert!(load(&home, b"# Gr\xfc\xdfe\nPort 22 # f\xfcr alle\nDenyUsers j\xc3\xb6rg\n").is_ok());

    let text = b"# \xe9\nHost \xe9*\n  User ren\xe9\nHost other\n  User ren\xe9\nHost *\n  Port 22 # \xe9\n";
    assert_eq!(home.with_text("host", text).expect("loads").port(), 22);
    let found = lines(home.with_text("other", text), home.directory.path());
    assert_eq!(found[0], format!("given line 5: {why}"));
    let found = lines(home.with_text("host", b"Match user ren\xe9\n"), home.directory.path());
    assert_eq!(found[0], format!("given line 1: {why}"));
}
