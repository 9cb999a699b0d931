//! Lines of `sshd_config` that could be read as less than they are for sshd 9.2: each has its meaning, or is
//! an error with file and line.

mod common;

use common::{Home, lines};
use lh_config::{ConfigError, ConnectionFacts, ServerConfig};

fn load(home: &Home, text: &str) -> Result<ServerConfig, ConfigError> {
    ServerConfig::load(Some(&home.write("sshd", text)), &[], &home.world)
}

fn refused(home: &Home, text: &str) -> Vec<String> {
    lines(load(home, text), home.directory.path())
}

/// sshd 9.2 takes single quotes for a part of the name, and ends a word after double quotes; since 9.9 both
/// are read as by a shell. A block must not depend on the reader.
#[test]
fn match_lines_of_two_meanings_are_errors() {
    let home = Home::new();
    for criteria in
        ["User 'eve'", "User \"a\",b", "User LAB\\\\eve", "User \"a\\\"b\"", "LocalPort '22'", "'all'"]
    {
        let found = refused(&home, &format!("Port 22\nMatch {criteria}\nForceCommand internal-sftp\n"));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("versions of OpenSSH read differently"), "{found:?}");
        assert_eq!(found[1], "sshd line 2: Bad Match condition");
    }
    let config = load(&home, "Match User LAB\\eve,\"\nMaxSessions 1\n");
    assert!(config.is_err());
    let config = load(&home, "Match User \"LAB\\eve\"\nMaxSessions 1\n").expect("loads");
    let facts = ConnectionFacts { user: Some("LAB\\eve".to_owned()), ..ConnectionFacts::default() };
    assert_eq!(*config.for_connection(&facts).expect("applies").max_sessions, 1);
}

/// sshd 9.2 passes over one `=` or `""` before a keyword and applies the rule. It was lost in silence here.
#[test]
fn signs_before_a_keyword_are_errors() {
    let home = Home::new();
    for line in
        ["=DenyUsers eve", "= DenyUsers eve", "\"\"DenyUsers eve", "\"\" DenyUsers eve", "==DenyUsers eve"]
    {
        let found = refused(&home, &format!("Port 22\n{line}\n"));
        assert!(found[0].starts_with("sshd: line 2: Bad configuration option: "), "{line}: {found:?}");
    }
    assert_eq!(
        refused(&home, "\x0cDenyUsers eve\n")[0],
        "sshd: line 1: Bad configuration option: \x0cDenyUsers"
    );
    assert!(load(&home, "\x0c\n \x0c\nPort 22\x0c\n").is_ok(), "at the end it is a blank");
}

/// sshd separates words at blanks and tabs only: `AllowUsers ada\reve` permits neither.
#[test]
fn carriage_returns_separate_no_words() {
    let home = Home::new();
    let config = load(&home, "AllowUsers ada\reve bob\r\nDenyUsers x\r # comment\r\n").expect("loads");
    assert_eq!(config.allow_users.0, ["ada\reve", "bob"]);
    assert_eq!(config.deny_users.0, ["x\r"]);
}

/// sshd ends a line there, and takes the next one for its continuation.
#[test]
fn lines_with_a_nul_byte_are_errors() {
    let home = Home::new();
    for line in ["DenyUsers eve\0", "DenyUsers eve\0x", "# comment\0", "\0DenyUsers eve", "Match User \0eve"]
    {
        assert_eq!(
            refused(&home, &format!("Port 22\n{line}\nDenyUsers ann\n")),
            ["sshd line 2: NUL byte in line", "sshd: terminating, 1 bad configuration options"],
            "{line:?}"
        );
    }
}

#[test]
fn empty_rules_are_errors() {
    let home = Home::new();
    for (line, expected) in [
        ("DenyUsers u \"\"", "invalid DenyUsers pattern: \"\""),
        ("AllowGroups u \"\"", "invalid AllowGroups pattern: \"\""),
        ("AuthenticationMethods # publickey,password", "no AuthenticationMethods specified"),
        ("Subsystem \"\" /bin/x", "Missing subsystem name."),
        ("Subsystem sftp \"\"", "Missing subsystem command."),
        ("LogVerbose \"\"", "keyword LogVerbose empty argument"),
        ("AuthorizedKeysFile a \"\"", "keyword AuthorizedKeysFile empty argument"),
        ("RevokedKeys /a ''", "keyword RevokedKeys empty argument"),
        ("LogVerbose none x", "keyword logverbose \"none\" argument must appear alone."),
        ("Include # /etc/ssh/rules", "Include missing filename argument"),
        ("Protocol 2 '", "invalid quotes"),
    ] {
        assert_eq!(refused(&home, &format!("\n{line}\n"))[0], format!("sshd line 2: {expected}"), "{line}");
    }
}

/// `a:1,b:2` was a host of the name `a:1,b`, so neither forward was possible, and none was missed.
#[test]
fn hosts_of_permitted_forwards_end_at_the_first_colon() {
    let home = Home::new();
    for (line, expected) in [
        ("PermitOpen a:1,b:2", "PermitOpen bad port number"),
        ("PermitOpen ::1:22", "bad host in PermitOpen"),
        ("PermitOpen [a:1", "bad host in PermitOpen"),
        ("PermitOpen [a]1", "PermitOpen bad port number"),
        ("PermitOpen a/1:22", "bad host in PermitOpen"),
        ("PermitListen a:1:2", "PermitListen bad port number"),
    ] {
        assert_eq!(refused(&home, &format!("{line}\n")), [format!("sshd line 1: {expected}")], "{line}");
    }
    let config = load(&home, "PermitOpen a:1 [::1]:22 [b]:*\nPermitListen 1 c:2\n").expect("loads");
    let open = &config.permit_open;
    assert!(open.allows("a", 1) && open.allows("::1", 22) && open.allows("b", 9) && !open.allows("c", 2));
    assert!(config.permit_listen.allows("x", 1) && config.permit_listen.allows("c", 2));
}

/// Files end their last block this way. The server did not start with them.
#[test]
fn match_all_ends_a_block_for_global_keywords() {
    let home = Home::new();
    let text = "Match User eve\nMaxSessions 1\nMatch all\nPort 2222\nUseDNS yes\nMaxAuthTries 2\nUseDNS no\n";
    let config = load(&home, text).expect("loads");
    assert_eq!(config.port.0, [2222]);
    assert!(*config.use_dns, "the first value counts");
    let facts = ConnectionFacts { user: Some("ada".to_owned()), ..ConnectionFacts::default() };
    let settings = config.for_connection(&facts).expect("applies");
    assert_eq!((*settings.max_sessions, *settings.max_auth_tries), (10, 2));
    let inner = home.write("inner", "Match all\nPort 2222\n");
    for text in
        ["Match User *\nPort 2222\n".to_owned(), format!("Match User eve\nInclude {}\n", inner.display())]
    {
        let found = refused(&home, &text);
        assert!(found[0].ends_with("Directive 'Port' is not allowed within a Match block"), "{found:?}");
    }
}
