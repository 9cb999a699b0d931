//! Each `%` token, and each keyword that accepts tokens.

mod common;

use common::Home;
use lh_config::ExpandError;

const TEXT: &str = "Hostname real.%h\nUser bob\nPort 2022\nHostKeyAlias alias\nProxyJump gate\n";

fn expands(text: &str) -> Result<String, ExpandError> {
    let home = Home::new();
    let config = home.with_text("typed", TEXT).expect("loads");
    let home_directory = config.account.home.display().to_string();
    config.tokens(&home.world).expand(text).map(|text| text.replace(&home_directory, "HOME"))
}

/// Covers: token %%; token %d; token %h; token %i; token %j; token %k; token %L; token %l; token %n; token %p; token %r; token %u
#[test]
fn every_token_has_its_value() {
    let uid = Home::new().account().uid.to_string();
    for (token, value) in [
        ("%%", "%"),
        ("%d", "HOME"),
        ("%h", "real.typed"),
        ("%i", uid.as_str()),
        ("%j", "gate"),
        ("%k", "alias"),
        ("%L", "box"),
        ("%l", "box.local"),
        ("%n", "typed"),
        ("%p", "2022"),
        ("%r", "bob"),
        ("%u", "alice"),
    ] {
        assert_eq!(expands(token).as_deref(), Ok(value), "{token}");
    }
    let unknown = expands("%x").expect_err("an unknown token");
    assert_eq!(unknown, ExpandError::UnknownToken('x'));
    assert_eq!(unknown.to_string(), "unknown key %x");
    let home = Home::new();
    let config = home.with_text("typed", "").expect("loads");
    let tokens = config.tokens(&home.world);
    assert_eq!(tokens.expand("%k/%j/%r").as_deref(), Ok("typed//alice"), "without alias, jump and user");
}

/// Covers: token %C
#[test]
fn connection_hash_covers_host_port_user_and_jump() {
    let hash = |text: &str| {
        let home = Home::new();
        let config = home.with_text("h", text).expect("loads");
        config.tokens(&home.world).value('C').map(str::to_owned)
    };
    let plain = hash("");
    assert_eq!(plain.as_deref().map(str::len), Some(40));
    assert_eq!(plain, hash("Compression yes\n"));
    for other in ["Hostname i\n", "Port 23\n", "User x\n", "ProxyJump j\n"] {
        assert_ne!(plain, hash(other), "{other}");
    }
}

/// Covers: ssh_config User
#[test]
fn user_expands_tokens_and_variables() {
    let mut home = Home::new();
    home.world.variables.insert("ROLE".to_owned(), "admin".to_owned());
    home.world.variables.insert("EVIL".to_owned(), "x;reboot".to_owned());
    let user = |text: &str| {
        home.with_text("web1", text).map(|config| config.user().to_owned()).map_err(|e| e.to_string())
    };
    assert_eq!(user("User ${ROLE}-%u@%h\n").as_deref(), Ok("admin-alice@web1"));
    assert_eq!(user("User DOM\\\\bob\n").as_deref(), Ok("DOM\\bob"));
    assert_eq!(user("User ${EVIL}\n"), Err("remote username contains invalid characters".to_owned()));
    assert_eq!(user("User \"a;b\"\n").as_deref(), Ok("a;b"), "a literal name is the user's own business");
    assert!(user("User %r\n").is_err_and(|why| why.contains("unknown key %r")));
    assert!(user("User ${NOPE}\n").is_err());
    let typed = home.with_options(&["User=%u;x"]);
    assert_eq!(
        typed.map(|_| ()).map_err(|e| e.to_string()),
        Err("remote username contains invalid characters".to_owned())
    );
}

/// Covers: ssh_config SetEnv
#[test]
fn set_env_values_are_expanded() {
    let mut home = Home::new();
    home.world.variables.insert("TERM".to_owned(), "foot".to_owned());
    let config = home.with_text("h", "SetEnv FROM=%u@%L T=${TERM} P=%p\n").expect("loads");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(config.set_env.0, [pair("FROM", "alice@box"), pair("T", "foot"), pair("P", "22")]);
    assert!(home.with_text("h", "SetEnv A=%z\n").is_err());
}

/// Covers: ssh_config ProxyJump
#[test]
fn jump_hosts_are_expanded_on_use() {
    let home = Home::new();
    let config = home.with_text("web", "User bob\nPort 7\nProxyJump %r-%p@gate-%n.%h:22,b\n").expect("loads");
    let hops = config.expanded_proxy_jump(&home.world).expect("expands");
    assert_eq!((hops[0].user.as_deref(), hops[0].host.as_str()), (Some("bob-7"), "gate-web.web"));
    assert!(
        home.with_text("web", "ProxyJump %l\n").expect("loads").expanded_proxy_jump(&home.world).is_err()
    );
    assert!(home.with_options(&["ProxyJump=a;b"]).is_err(), "no shell syntax from the command line");
    assert!(home.with_options(&["ProxyJump=-oProxyCommand=x@h"]).is_err());
}

/// Covers: ssh_config Include
#[test]
fn include_paths_are_expanded() {
    let mut home = Home::new();
    home.world.variables.insert("WHERE".to_owned(), "site".to_owned());
    home.write(".ssh/site-web", "Port 5\n");
    let config = home.with_text("web", "Include ${WHERE}-%h\n").expect("loads");
    assert_eq!(config.port(), 5);
    assert!(home.with_text("web", "Include %z\n").is_err());
}

/// Covers: ssh_config IdentityFile; ssh_config UserKnownHostsFile
#[test]
fn paths_are_expanded_with_tilde_tokens_and_variables() {
    let mut home = Home::new();
    home.world.variables.insert("D".to_owned(), "/d".to_owned());
    let text = "Hostname h.x\nControlPath ${D}/%n-%C\nIdentityFile ~/%h\nUserKnownHostsFile ${D}/%k %d/kh\n";
    let config = home.with_text("h", text).expect("loads");
    let hash = config.tokens(&home.world).value('C').map(str::to_owned).expect("a hash");
    assert_eq!(config.control_path.as_deref(), Some(format!("/d/h-{hash}").as_str()));
    let files = config.identity_files(&home.world).expect("expands");
    assert_eq!(files[0].path, home.path("h.x"));
    let known = config.user_known_hosts_files();
    assert_eq!(known, [std::path::PathBuf::from("/d/h"), home.path("kh")]);
}

/// Covers: ssh_config LocalForward; ssh_config RemoteForward; ssh_config ForwardAgent; ssh_config IdentityAgent
#[test]
fn socket_paths_are_expanded() {
    let mut home = Home::new();
    home.world.variables.insert("D".to_owned(), "/d".to_owned());
    let text = "LocalForward /l-%p /${D}/x\nLocalForward 80 ${D}/y\nLocalForward %d/l x:80\nRemoteForward /r-%% /y\n\
         RemoteForward /r ${D}/agent.extra\nForwardAgent ~/agent-%h\nIdentityAgent ~\n";
    let config = home.with_text("h", text).expect("loads");
    let dump = config.dump(&|_| Vec::new());
    let directory = config.account.home.display();
    for line in [
        "localforward /l-22 //d/x".to_owned(),
        "localforward 80 /d/y".to_owned(),
        format!("localforward {directory}/l [x]:80"),
        "remoteforward /r-% /y".to_owned(),
        "remoteforward /r /d/agent.extra".to_owned(),
        format!("forwardagent {directory}/agent-h"),
        format!("identityagent {directory}/"),
    ] {
        assert!(dump.lines().any(|each| each == line), "{line} in\n{dump}");
    }
    let kept = home.with_text("h", "ForwardAgent $SOCK\nIdentityAgent $SOCK\n").expect("loads");
    assert_eq!(kept.identity_agent.as_deref(), Some("$SOCK"), "a variable that is read when it is used");
}

/// Covers: ssh_config Port; ssh -p
#[test]
fn service_names_are_accepted_as_ports() {
    let home = Home::new();
    if std::fs::read_to_string("/etc/services").is_ok_and(|text| text.contains("\nssh\t")) {
        assert_eq!(home.with_text("h", "Port ssh\n").expect("loads").port(), 22);
        assert!(home.with_text("h", "Port no-such-service\n").is_err());
    }
}
