//! `CanonicalizeHostname` and the second pass over the files.

mod common;

use common::{Home, lines};

/// A home whose resolver knows some names of example.org; one of them is an alias.
fn home() -> Home {
    let mut home = Home::new();
    for (name, canonical) in [
        ("web.example.org.", "web.example.org."),
        ("db.lab.example.org.", "db.lab.example.org"),
        ("mail.example.org.", "mx.provider.net."),
        ("short", "Short.elsewhere.net"),
        ("full.example.org.", "full.example.org."),
    ] {
        home.world.names.insert(name.to_owned(), canonical.to_owned());
    }
    home
}

const DOMAINS: &str = "CanonicalizeHostname yes\nCanonicalDomains lab.example.org example.org\n";

/// Covers: ssh_config CanonicalizeHostname; ssh_config CanonicalDomains
#[test]
fn short_names_are_completed_and_files_read_again() {
    let home = home();
    let text = format!(
        "{DOMAINS}Host web\n User typed\nHost *.example.org\n User found\n Port 2222\nMatch canonical host *.org\n Compression yes\n"
    );
    let config = home.with_text("web", &text).expect("loads");
    assert_eq!(config.host, "web.example.org");
    assert_eq!(config.hostname.as_deref(), Some("web.example.org"));
    assert_eq!((config.user(), config.port()), ("typed", 2222), "the first value wins, the second pass adds");
    assert!(*config.compression);
    assert_eq!(config.original_host, "web");
    assert_eq!(config.tokens(&home.world).expand("%h %n").as_deref(), Ok("web.example.org web"));
    assert_eq!(
        home.with_text("db", &text).expect("loads").host,
        "db.lab.example.org",
        "the first domain that has it"
    );
    let config = home.with_text("WEB", &text).expect("loads");
    assert_eq!((config.host.as_str(), config.user()), ("web.example.org", "found"));
}

/// Covers: ssh_config CanonicalizeMaxDots; ssh_config CanonicalizeFallbackLocal
#[test]
fn qualified_and_unknown_names_stay_unchanged() {
    let home = home();
    let host = |name: &str, more: &str| {
        home.with_text(name, format!("{DOMAINS}{more}")).map(|config| config.host.clone())
    };
    assert_eq!(host("a.b.c", "").as_deref(), Ok("a.b.c"));
    assert_eq!(host("nowhere", "").as_deref(), Ok("nowhere"));
    assert_eq!(host("full.example.org.", "").as_deref(), Ok("full.example.org"));
    assert_eq!(host("db.lab.x", "CanonicalizeMaxDots 0\n").as_deref(), Ok("db.lab.x"));
    assert_eq!(host("192.0.2.1", "").as_deref(), Ok("192.0.2.1"));
    assert_eq!(host("::0001", "").as_deref(), Ok("::1"), "addresses have one spelling");
    let strict = home.with_text("nowhere", format!("{DOMAINS}CanonicalizeFallbackLocal no\n"));
    assert_eq!(lines(strict, home.directory.path()), ["ssh: Could not resolve host \"nowhere\""]);
}

#[test]
fn proxied_names_stay_unchanged_unless_always() {
    let home = home();
    let host = |text: &str| home.with_text("web", text).expect("loads").host.clone();
    assert_eq!(host(&format!("{DOMAINS}ProxyCommand nc %h %p\n")), "web");
    assert_eq!(host(&format!("{DOMAINS}ProxyJump gate\n")), "web");
    assert_eq!(host(&format!("{DOMAINS}ProxyJump none\n")), "web.example.org");
    let always = DOMAINS.replace("yes", "always");
    assert_eq!(host(&format!("{always}ProxyJump gate\n")), "web.example.org");
}

/// Covers: ssh_config CanonicalizePermittedCNAMEs
#[test]
fn aliases_are_followed_where_permitted() {
    let home = home();
    let host = |name: &str, text: &str| home.with_text(name, text).expect("loads").host.clone();
    let rule = |rule: &str| format!("{DOMAINS}CanonicalizePermittedCNAMEs {rule}\n");
    assert_eq!(host("mail", DOMAINS), "mail.example.org");
    assert_eq!(host("mail", &rule("mail.example.org:*.provider.net")), "mx.provider.net");
    assert_eq!(host("mail", &rule("*.example.org:*.example.org,*.lab.example.org")), "mail.example.org");
    assert_eq!(host("mail", &rule("none")), "mail.example.org");
    // Also without canonicalization.
    assert_eq!(host("short", "CanonicalizePermittedCNAMEs *\n"), "short.elsewhere.net");
    assert_eq!(host("short", "CanonicalizePermittedCNAMEs *\nProxyCommand x\n"), "short");
    let missing = home.with_text("nowhere", "CanonicalizePermittedCNAMEs *\n");
    assert_eq!(
        lines(missing, home.directory.path()),
        ["ssh: Could not resolve hostname nowhere: Name or service not known"]
    );
}

/// Covers: ssh_config Match; ssh_config Hostname
#[test]
fn second_pass_matches_the_resolved_name() {
    let home = home();
    let text = "Host short\n Hostname real.%h\nMatch final host real.*\n Port 7\n Hostname other\nHost real.*\n User second\n";
    let config = home.with_text("short", text).expect("loads");
    assert_eq!((config.host.as_str(), config.port(), config.user()), ("real.short", 7, "second"));
    let repeated = "Match final\n Port 7\nHost *\nLocalForward 1 a:2\nSendEnv A\nIdentityFile /k\nRSAAuthentication yes\n";
    let config = home.with_text("h", repeated).expect("loads");
    assert_eq!(
        (config.local_forward.0.len(), config.send_env.0.len(), config.identity_file.0.len()),
        (1, 1, 1)
    );
    assert_eq!(config.notes.iter().filter(|note| note.text.contains("rsaauthentication")).count(), 1);
}
