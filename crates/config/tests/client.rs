//! Meaning of `ssh_config` files.

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use common::{Home, lines};
use lh_config::client::{CommandLine, JumpHost, Request, UserFile};
use lh_config::enums::{LogLevel, RequestTty, StrictHostKeyChecking, YesNoAsk};
use lh_config::forward::{Endpoint, Forward};
use lh_config::special::ControlPersist;
use lh_config::{CommandFailure, ExpandError, Origin};

#[test]
fn first_value_wins_with_the_command_line_first() {
    let home = Home::new();
    home.write(".ssh/config", "Host other\n  Port 1\nHost host\n  Port 2222\n  User fromfile\nPort 3333\n");
    let mut request = home.request("host");
    request.command_line = vec![
        CommandLine::Option("User=fromoption".to_owned()),
        CommandLine::Flag("IdentityFile", vec!["/a b/\"key#1".to_owned()]),
    ];
    let system = home.write("system", "IdentityFile /system\nCompression yes\nUser fromsystem\n");
    request.system_file = Some(system.clone());
    let config = home.load(&request).expect("loads");
    assert_eq!(config.user(), "fromoption");
    assert_eq!(config.port(), 2222);
    assert_eq!(config.identity_file.0, ["/a b/\"key#1", "/system"]);
    assert!(*config.compression);
    assert_eq!(config.user.origin, Origin::CommandLine);
    assert_eq!(config.port.origin.to_string(), format!("{} line 4", home.path(".ssh/config").display()));
    assert_eq!(config.compression.origin.to_string(), format!("{} line 2", system.display()));
    assert!(!config.batch_mode.is_set());
}

#[test]
fn no_attempts_are_no_connection() {
    let home = Home::new();
    let error = home.with_text("host", "ConnectionAttempts 0\n");
    assert_eq!(lines(error, home.directory.path()), ["Invalid number of ConnectionAttempts"]);
    assert!(home.with_text("host", "Host other\nConnectionAttempts 0\n").is_ok());
}

#[test]
fn log_level_of_the_command_line_silences_mistakes_in_files() {
    let home = Home::new();
    let logged = |level: Option<&str>, text: &str, option: &str| {
        home.write(".ssh/config", text);
        let mut request = home.request("host");
        request.command_line.extend(level.map(|level| CommandLine::Flag("LogLevel", vec![level.to_owned()])));
        request.command_line.push(CommandLine::Option(option.to_owned()));
        let lines = home.load(&request).expect_err("fails").logged();
        lines.map(|text| text.replace(&home.path("").display().to_string(), ""))
    };
    let last = ".ssh/config: terminating, 1 bad configuration options";
    let all = format!(".ssh/config: line 2: Bad configuration option: bogus\n{last}");
    let text = "LogLevel QUIET\nBogus 1\n";
    assert_eq!(logged(None, text, "Port=1"), Some(all.clone()));
    assert_eq!(logged(Some("ERROR"), text, "Port=1"), Some(all));
    assert_eq!(logged(Some("FATAL"), text, "Port=1").as_deref(), Some(last));
    assert_eq!(logged(Some("QUIET"), text, "Port=1"), None);
    let option = "command-line: line 0: Bad configuration option: bogus";
    assert_eq!(logged(Some("QUIET"), "", "Bogus=1").as_deref(), Some(option));
}

#[test]
fn host_patterns_with_wildcards_and_exceptions() {
    let home = Home::new();
    let text = "Host *.lab !bad.lab \"quoted\"\n Port 1\nHost ?.x\n Port=2\nHost !a * # note\n Port 3\n";
    let port = |host: &str| home.with_text(host, text).expect("loads").port();
    assert_eq!(port("a.lab"), 1);
    assert_eq!(port("bad.lab"), 3);
    assert_eq!(port("b.x"), 2);
    assert_eq!(port("a"), 22);
    assert_eq!(port("A.LAB"), 3, "names are compared as typed");
    assert_eq!(port("quoted"), 1);
}

#[test]
fn blocks_that_do_not_match_are_only_checked() {
    let home = Home::new();
    let config = home
        .with_text("host", "Host other\nMetricsPath /x\nPort 5\nProxyJump j\nIdentityFile /k\n")
        .expect("loads");
    assert!(!*config.metrics);
    assert_eq!(config.port(), 22);
    assert!(config.proxy_jump().is_empty());
    assert_eq!(config.identity_file.0.len(), 6);
    let error = home.with_text("host", "Host other\nPort x\n");
    assert_eq!(
        lines(error, home.directory.path()),
        ["given line 2: Bad port 'x'.", "given: terminating, 1 bad configuration options"]
    );
    assert!(*home.with_text("host", "MetricsPath /x\n").expect("loads").metrics);
}

#[test]
fn all_has_at_most_one_attribute_in_front() {
    let home = Home::new();
    for text in
        ["Match canonical final all\n", "Match host h user u all\n", "Match all final\n", "Match all all\n"]
    {
        let error = home.with_text("host", text);
        let said = lines(error, home.directory.path());
        assert_eq!(said[0], "given line 1: 'all' cannot be combined with other Match attributes", "{text}");
    }
    for (text, port) in [("canonical all", 22), ("host h* all", 5), ("host x all", 22), ("!host x all", 5)] {
        let config = home.with_text("host", format!("Match {text}\nPort 5\n")).expect("loads");
        assert_eq!(config.port(), port, "{text}");
    }
}

#[test]
fn no_known_hosts_files_are_dumped_as_none() {
    let home = Home::new();
    let config =
        home.with_text("host", "UserKnownHostsFile none\nGlobalKnownHostsFile none\n").expect("loads");
    assert!(config.user_known_hosts_files().is_empty());
    assert_eq!(config.global_known_hosts_files(&home.world), Ok(vec![]));
    let dump = config.dump(&|_| Vec::new());
    assert!(
        dump.contains("\nuserknownhostsfile none\n") && dump.contains("\nglobalknownhostsfile none\n"),
        "{dump}"
    );
}

#[test]
fn errors_use_openssh_words() {
    let home = Home::new();
    let text = "Foo 1\nPort\nPort 22 33\nUser \"x\nCompression maybe\nConnectTimeout x\nMatch foo x\nMatch host\n\
                Match all host x\nHost\nCiphers bogus\nEscapeChar abc\nSetEnv A\nServerAliveCountMax -1\n";
    let expected = [
        "given: line 1: Bad configuration option: foo",
        "given line 2: no argument after keyword \"port\"",
        "given line 3: keyword port extra arguments at end of line",
        "given line 4: invalid quotes",
        "given line 5: unsupported option \"maybe\".",
        "given line 6: invalid time value.",
        "Unsupported Match attribute foo",
        "given line 7: Bad Match condition",
        "Missing Match criteria for host",
        "given line 8: Bad Match condition",
        "given line 9: 'all' cannot be combined with other Match attributes",
        "given line 9: Bad Match condition",
        "given line 10: no argument after keyword \"host\"",
        "given line 11: Bad SSH2 cipher spec 'bogus'.",
        "given line 12: Bad escape character.",
        "given line 13: Invalid SetEnv.",
        "given line 14: integer value too small.",
        "given: terminating, 14 bad configuration options",
    ];
    assert_eq!(lines(home.with_text("host", text), home.directory.path()), expected);
    let option = |text: &str| lines(home.with_options(&[text]), home.directory.path());
    assert_eq!(option("x=1"), ["command-line: line 0: Bad configuration option: x"]);
    assert_eq!(option("a\\b=1"), ["command-line: line 0: Bad configuration option: a\\\\b"]);
    let marked = lines(home.with_text("host", "\u{feff}User x\n"), home.directory.path());
    assert_eq!(marked[0], "given: line 1: Bad configuration option: \\357\\273\\277user");
    assert_eq!(option("Port"), ["command-line line 0: no argument after keyword \"port\""]);
    assert_eq!(option("Host=x"), ["Host directive not supported as a command-line option"]);
    assert_eq!(option("ProxyJump=a@b:x"), ["command-line line 0: Invalid ProxyJump \"a@b:x\""]);
    for (text, message) in [
        ("Ciphers=\"\"", "Missing argument."),
        ("LogLevel=\"\"", "unsupported log level ''"),
        ("NumberOfPasswordPrompts=\"\"", "integer value missing."),
        ("NumberOfPasswordPrompts=99999999999999999999", "integer value too large."),
        ("CanonicalDomains=a;b", "domain name \"a;b\" contains invalid characters"),
        ("RemoteForward=80 90", "Bad forwarding specification."),
        ("ProxyJump=a/b", "Invalid ProxyJump \"a/b\""),
    ] {
        assert_eq!(option(text), [format!("command-line line 0: {message}")], "{text}");
    }
    for (length, fits) in [(107, true), (108, false)] {
        let text = format!("LocalForward=/{} a:1", "x".repeat(length - 1));
        assert_eq!(home.with_options(&[&text]).is_ok(), fits, "{length}");
    }
    let missing = home.load(&Request { user_file: UserFile::Named(home.path("none")), ..home.request("h") });
    assert_eq!(
        lines(missing, home.directory.path()),
        ["Can't open user config file none: No such file or directory"]
    );
}

#[test]
fn unknown_keywords_can_be_ignored_and_old_ones_are() {
    let home = Home::new();
    let config = home
        .with_text("h", "IgnoreUnknown Fo*,bar\nFoo 1\nBAR x\nProtocol 2\nRSAAuthentication yes\nGSSAPIAuthentication yes\n")
        .expect("loads");
    let loud: Vec<_> = config
        .notes
        .iter()
        .filter(|note| note.level == LogLevel::Info)
        .map(|note| note.text.clone())
        .collect();
    // No other note, whether this build loads libraries or not.
    let loads = cfg!(all(target_os = "linux", not(target_env = "musl")));
    assert_eq!(loud.len(), if loads { 1 } else { 2 }, "{loud:?}");
    assert!(loud[0].ends_with("given line 5: Unsupported option \"rsaauthentication\""), "{loud:?}");
    if let Some(second) = loud.get(1) {
        assert!(second.ends_with("given line 6: Unsupported option \"gssapiauthentication\""), "{second}");
    }
    let config = home
        .with_text("h", "Tunnel no\nRevokedHostKeys /r\nPKCS11Provider /p\nHost x\nSecurityKeyProvider /s\n")
        .expect("loads");
    let notes: Vec<_> = config.notes.iter().map(|note| (note.level, note.text.rsplit(": ").next())).collect();
    let (read, notes) = notes.split_first().expect("notes");
    assert!(
        read.0 == LogLevel::Debug1
            && read.1.is_some_and(|text| text.starts_with("Reading configuration data ")),
        "{read:?}"
    );
    assert_eq!(notes, []);
    assert!(home.with_text("h", "Foo 1\nIgnoreUnknown Foo\n").is_err(), "only from there on");
}

#[test]
fn config_that_others_can_write_is_refused() {
    let home = Home::new();
    let path = home.write(".ssh/config", "Port 1\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o620)).expect("mode set");
    let error = home.load(&home.request("h"));
    assert_eq!(lines(error, home.directory.path()), ["Bad owner or permissions on .ssh/config"]);
    // A file named with `-F` is not checked.
    assert!(home.load(&Request { user_file: UserFile::Named(path), ..home.request("h") }).is_ok());
}

#[test]
fn match_criteria() {
    let mut home = Home::new();
    home.world.true_commands = vec!["test box = box && test bob".to_owned()];
    home.world.addresses = vec!["192.0.2.9".parse().expect("an address")];
    let holds = |criteria: &str| {
        let text = format!("Tag t1\nHostname real.%h\nUser bob\nMatch {criteria}\nPort 7\n");
        home.with_text("host", &text).expect("loads").port() == 7
    };
    for criteria in [
        "all",
        "host real.host",
        "host=REAL.*,x",
        "originalhost host",
        "user bob localuser alice",
        "!user root",
        "tagged t*",
        "localnetwork 192.0.2.0/24",
        "exec \"test %L = box && test %r\"",
        "final",
        "canonical final host real.host",
        "sessiontype shell command \"\"",
        "version Longhaul_*",
    ] {
        assert!(holds(criteria), "{criteria}");
    }
    for criteria in [
        "host host",
        "!all",
        "user root",
        "user bob localuser root",
        "exec false",
        "localnetwork 10.0.0.0/8",
        "command ls",
    ] {
        assert!(!holds(criteria), "{criteria}");
    }
}

#[test]
fn match_exec_runs_only_if_the_other_criteria_match() {
    let home = Home::new();
    home.with_text("h", "Match host other exec \"first\"\nMatch host h exec \"second %h\"\n").expect("loads");
    assert_eq!(*home.world.ran.borrow(), ["second h"]);
}

/// Covers: ssh_config Match (exec that is killed)
#[test]
fn match_exec_without_a_status_ends_the_program() {
    let mut home = Home::new();
    home.write(".ssh/config", "Match host other exec x\nMatch exec \"kill $$\"\nPort 2\n");
    home.world.failure = Some(CommandFailure::Abnormal("kill $$".to_owned()));
    assert_eq!(
        lines(home.load(&home.request("h")), home.directory.path()),
        ["command 'kill $$' exited abnormally", ".ssh/config line 2: match exec 'kill $$' error"]
    );
    let why = "Permission denied".to_owned();
    home.world.failure = Some(CommandFailure::Start { command: "kill $$".to_owned(), why });
    assert_eq!(
        lines(home.load(&home.request("h")), home.directory.path()),
        [
            "Unable to execute 'kill $$': Permission denied",
            "command 'kill $$' exited abnormally",
            ".ssh/config line 2: match exec 'kill $$' error"
        ]
    );
    let why = "No such file or directory".to_owned();
    home.world.failure = Some(CommandFailure::Shell { shell: "/none".to_owned(), why });
    assert_eq!(
        lines(home.load(&home.request("h")), home.directory.path()),
        ["Shell \"/none\" is not executable: No such file or directory"]
    );
}

#[test]
fn includes_expand_patterns_and_keep_the_outer_block() {
    let home = Home::new();
    home.write(".ssh/part-a", "Port 1\nHost nobody\nUser wrong\n");
    home.write(".ssh/part-b", "User b\n");
    std::fs::create_dir(home.path(".ssh/part-directory")).expect("a directory");
    home.write(".ssh/config", "Include part-* nothing-*\nHost h\nCompression yes\nHost x\nInclude loop\n");
    let config = home.load(&home.request("h")).expect("loads");
    assert_eq!((config.port(), config.user()), (1, "b"));
    assert!(*config.compression);
    home.write(".ssh/loop", "Include loop\n");
    let error = home.load(&home.request("h"));
    assert_eq!(lines(error, home.directory.path()), ["Too many recursive configuration includes"]);
    home.write(".ssh/loop", "\nBad 1\n");
    let error = home.load(&home.request("h"));
    assert_eq!(
        lines(error, home.directory.path()),
        [
            ".ssh/loop: line 2: Bad configuration option: bad",
            ".ssh/loop: terminating, 1 bad configuration options"
        ]
    );
    // In a block that does not apply, a `Host` line of an included file has no effect.
    home.write(".ssh/loop", "Host *\nCompression no\nStdinNull yes\n");
    assert!(!*home.load(&home.request("h")).expect("loads").stdin_null);
}

#[test]
fn values_of_all_kinds_are_parsed() {
    let home = Home::new();
    let config = home
        .with_text(
            "h",
            "RekeyLimit 1G 1h30m\nConnectTimeout 1m\nStrictHostKeyChecking accept-new\nRequestTTY force\nControlPersist 10m\n\
             LocalForward 8080 web:80\nLocalForward [::1]:1 /run/x\nRemoteForward 9\nDynamicForward *:1080\nSendEnv LANG LC_*\n\
             SendEnv -LC_* X\nSetEnv A=1 B=\"x y\"\nSetEnv C=ignored\nStreamLocalBindMask 077\nIPQoS af21 none\n\
             UserKnownHostsFile ~/kh \"~bob/k h\"\nProxyJump u@a:1,[::2]:3\nProxyCommand ignored\n",
        )
        .expect("loads");
    assert_eq!(config.rekey_limit.bytes, Some(1 << 30));
    assert_eq!(config.rekey_limit.interval, Some(Duration::from_secs(5400)));
    assert_eq!(config.connect_timeout.0, Some(60));
    assert_eq!(*config.strict_host_key_checking, StrictHostKeyChecking::AcceptNew);
    assert_eq!(*config.request_tty, RequestTty::Force);
    assert_eq!(*config.control_persist, ControlPersist::Seconds(600));
    assert_eq!(*config.update_host_keys, YesNoAsk::No, "the user keeps host keys elsewhere");
    let tcp = |host: Option<&str>, port| Endpoint::Tcp { host: host.map(str::to_owned), port };
    assert_eq!(
        config.local_forward.0,
        [
            Forward { listen: tcp(None, 8080), connect: Some(tcp(Some("web"), 80)) },
            Forward { listen: tcp(Some("::1"), 1), connect: Some(Endpoint::Unix("/run/x".to_owned())) },
        ]
    );
    assert_eq!(config.remote_forward.0, [Forward { listen: tcp(None, 9), connect: None }]);
    assert_eq!(config.dynamic_forward.0, [Forward { listen: tcp(Some("*"), 1080), connect: None }]);
    assert_eq!(config.send_env.0, ["LANG", "X"]);
    assert_eq!(config.set_env.0, [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "x y".to_owned())]);
    assert_eq!(config.stream_local_bind_mask.0, 0o77);
    assert_eq!((config.ip_qos.interactive, config.ip_qos.bulk), (Some(0x48), None));
    let files = config.user_known_hosts_files();
    assert_eq!(files, [home.path("kh"), PathBuf::from("/home/bob/k h")]);
    let hop = |user: Option<&str>, host: &str, port| JumpHost {
        user: user.map(str::to_owned),
        host: host.to_owned(),
        port,
    };
    assert_eq!(config.proxy_jump(), [hop(Some("u"), "a", Some(1)), hop(None, "::2", Some(3))]);
    assert_eq!(config.proxy_command.command(), None, "the jump came first");
    let config = home.with_text("h", "ProxyCommand nc %h %p # not a comment\nProxyJump j\n").expect("loads");
    assert_eq!(config.proxy_command.command(), Some("nc %h %p # not a comment"));
    assert!(config.proxy_jump().is_empty());
    let config =
        home.with_text("h", "ProxyJump none\nClearAllForwardings yes\nLocalForward 1 a:2\n").expect("loads");
    assert!(config.proxy_jump().is_empty() && config.local_forward.0.is_empty());
}

#[test]
fn tokens_tildes_and_variables_in_paths() {
    let mut home = Home::new();
    home.world.variables.insert("DIR".to_owned(), "/dir".to_owned());
    let config =
        home.with_text("typed", "Hostname %h.Example\nUser u\nPort 99\nHostKeyAlias alias\n").expect("loads");
    assert_eq!(config.host, "typed.example");
    let expand = |text: &str| config.expand_path(text, &home.world).map(|path| path.display().to_string());
    assert_eq!(
        expand("${DIR}/%%-%h-%n-%p-%r-%u-%L-%l-%k").as_deref(),
        Ok("/dir/%-typed.example-typed-99-u-alice-box-box.local-alias")
    );
    assert_eq!(expand("~/x").as_deref(), Ok(home.path("x").display().to_string().as_str()));
    assert_eq!(expand("%z"), Err(ExpandError::UnknownToken('z')));
    assert!(
        expand("${NOPE}").is_err()
            && expand("${DIR").is_err()
            && expand("~nobody/x").is_err()
            && expand("%").is_err()
    );
    let hash = config.tokens(&home.world).value('C').map(str::len);
    assert_eq!(hash, Some(40));
}

#[test]
fn algorithm_lists_edit_the_default() {
    let home = Home::new();
    let list = |text: &str| {
        let config = home.with_text("h", format!("Ciphers {text}\n")).expect("loads");
        config.ciphers.apply(&["a-1", "a-2", "b"]).join(",")
    };
    assert_eq!(list("x,b,x"), "x,b");
    assert_eq!(list("+x,b"), "a-1,a-2,b,x");
    assert_eq!(list("-a-*,zzz"), "b");
    assert_eq!(list("^b,x"), "b,x,a-1,a-2");
    let keys = |text: &str| {
        let config = home.with_text("h", format!("HostKeyAlgorithms {text}\n")).expect("loads");
        config.host_key_algorithms.apply(&["a-1", "a-2", "b"]).join(",")
    };
    // A pattern matches all known algorithms, not only the default ones.
    assert_eq!(keys("b,a-*"), "b,a-2,a-3");
    assert_eq!(keys("+a-*"), "a-1,a-2,b,a-3");
    assert_eq!(keys("^?"), "c,a-1,a-2,b");
    assert_eq!(keys("none-fits-*"), "none-fits-*");
}

/// As in OpenSSH: `Ciphers aes*` would include the CBC modes.
#[test]
fn only_names_of_keys_may_be_patterns() {
    let home = Home::new();
    for text in ["Ciphers b,a-*", "MACs +a-*", "KexAlgorithms ^a*"] {
        assert!(home.with_text("h", format!("{text}\n")).is_err(), "{text}");
    }
    assert!(home.with_text("h", "Ciphers -a-*\nHostKeyAlgorithms a-*\n").is_ok());
}

#[test]
fn none_switch_works_from_a_file() {
    let home = Home::new();
    let config = home.with_text("h", "NoneEnabled yes\nNoneSwitch yes\n").expect("loads");
    assert!(
        *config.none_enabled
            && *config.none_switch
            && config.notes.iter().all(|note| note.level != LogLevel::Info)
    );
    assert!(*home.with_options(&["NoneSwitch=yes"]).expect("loads").none_switch);
}

#[test]
fn empty_algorithm_names_are_skipped() {
    let home = Home::new();
    let config = home.with_options(&["Ciphers=a,,b,", "HostKeyAlgorithms=^x,"]).expect("loads");
    assert_eq!(config.ciphers.apply(&["default"]), ["a", "b"]);
    assert_eq!(config.host_key_algorithms.apply(&["default"]), ["x", "default"]);
    for bad in ["Ciphers=a,bogus,", "Ciphers=,", "KexAlgorithms=^,"] {
        assert!(home.with_options(&[bad]).is_err(), "{bad}");
    }
}

/// Names with shell syntax, from each source of names.
///
/// Covers: ssh_config Hostname; ssh_config User; ssh_config ProxyJump
#[test]
fn names_with_shell_syntax_are_refused() {
    let mut home = Home::new();
    let host = vec!["hostname contains invalid characters".to_owned()];
    let user = vec!["remote username contains invalid characters".to_owned()];
    let told = |result: Result<lh_config::ClientConfig, _>| lines(result, home.directory.path());
    for bad in ["a;b", "a'b'c", "a`id`", "$(id)", "a|b", "a&b", "a>b", "a\"b", "a(b)", "a b", "a\nb", "-oX=y"]
    {
        assert_eq!(told(home.with_text(bad, "Port 1\n")), host, "{bad:?}");
        assert_eq!(told(home.with_text(bad, "Hostname safe\n")), host, "{bad:?}");
        let expanded = format!("x{}", bad.trim_start_matches('-'));
        if !bad.contains(['\n', '"', '\'', '-']) {
            let text = format!("Hostname \"{expanded}\"\n");
            assert_eq!(told(home.with_text("h", &text)), host, "{text}");
            assert_eq!(told(home.with_options(&[text.trim()])), host, "{text}");
        }
        if !bad.contains(['\n', ' ']) {
            for jump in [bad.to_owned(), format!("u@{bad}"), format!("a,{bad}:7"), format!("ssh://{bad}")] {
                let expected = vec![format!("command-line line 0: Invalid ProxyJump \"{jump}\"")];
                assert_eq!(told(home.with_options(&[&format!("ProxyJump={jump}")])), expected);
                let flag = CommandLine::Flag("ProxyJump", vec![jump]);
                let request = Request { command_line: vec![flag], ..home.request("h") };
                assert_eq!(told(home.load(&request)), expected);
            }
        }
        if !bad.contains([' ', '\n']) {
            let flag = CommandLine::Flag("User", vec![bad.to_owned()]);
            let request = Request { command_line: vec![flag], ..home.request("h") };
            assert_eq!(told(home.load(&request)), user, "{bad:?}");
        }
    }
    // Literal names from a file are permitted until a shell would get them.
    home.world.true_commands.push("true".to_owned());
    let config = home.with_text("h", "User \"o'neill\"\nProxyJump a;b@c;d\n").expect("loads");
    assert_eq!(config.user(), "o'neill");
    assert_eq!(config.proxy_jump().len(), 1);
    let tokens = config.tokens(&home.world);
    assert_eq!(tokens.expand_command("ssh -l %r %h"), Err(ExpandError::UnsafeUser));
    assert_eq!(tokens.expand_command("nc %h %%r").as_deref(), Ok("nc h %r"));
    let flag = CommandLine::Flag("User", vec!["machine$".to_owned()]);
    let request = Request { command_line: vec![flag], ..home.request("h") };
    let config = home.load(&request).expect("loads");
    assert_eq!(config.user(), "machine$");
    assert_eq!(config.tokens(&home.world).expand_command("ssh -l %r"), Err(ExpandError::UnsafeUser));
    let exec = "User \"o'neill\"\nMatch exec \"true %r\"\n Port 7\n";
    assert!(told(home.with_text("h", exec))[0].contains(&user[0]));
    assert!(home.world.ran.borrow().is_empty(), "no shell has seen it");
}

/// Covers: ssh_config ProxyJump
#[test]
fn jump_hosts_are_dumped_as_openssh_does() {
    let home = Home::new();
    for (given, shown) in [
        ("ssh://user@host:2223", "user@host:2223"),
        ("ssh://host/,b", "host,b"),
        ("user1@jump1:2221,user2@jump2:2222", "user1@jump1:2221,user2@jump2:2222"),
        ("me@[::1]:22", "me@[::1]:22"),
        ("ssh://a%40b@[::1]:22", "a@b@[::1]:22"),
    ] {
        let config = home.with_options(&[&format!("ProxyJump={given}")]).expect("loads");
        assert!(config.dump(&|_| vec![]).contains(&format!("\nproxyjump {shown}\n")), "{given}");
    }
    // Escapes and tokens beside each other.
    let config = home.with_options(&["ProxyJump=ssh://x%40%h@jump,ssh://%r%40@jump"]).expect("loads");
    let hops = config.expanded_proxy_jump(&home.world).expect("expands");
    let users: Vec<_> = hops.iter().filter_map(|hop| hop.user.as_deref()).collect();
    assert_eq!(users, ["x@host", &format!("{}@", config.user())]);
}

/// Covers: ssh_config User; ssh_config RevokedHostKeys
#[test]
fn user_and_revoked_host_keys_expand_tokens() {
    let home = Home::new();
    let config = home.with_options(&["User=%u-%i-%%", "RevokedHostKeys=/r/%h.%p.%r.%k ~/k"]).expect("loads");
    let account = home.account();
    assert_eq!(config.user(), format!("alice-{}-%", account.uid));
    let expected =
        [format!("/r/host.22.{}.host", config.user()), account.home.join("k").to_string_lossy().into_owned()];
    assert_eq!(config.revoked_host_keys.list(), expected);
    assert!(config.dump(&|_| vec![]).contains(&format!("\nrevokedhostkeys {}", expected[0])));
    // `-l` and the destination expand no tokens.
    let literal = |value: &str| {
        let flag = CommandLine::Flag("User", vec![value.to_owned()]);
        home.load(&Request { command_line: vec![flag], ..home.request("h") })
            .map(|config| config.user().to_owned())
    };
    assert_eq!(literal("%u").expect("loads"), "%u");
    assert!(home.with_options(&["RevokedHostKeys=/r/%z"]).is_err());
}

/// Covers: ssh_config LocalForward; ssh_config RemoteForward; ssh_config DynamicForward
#[test]
fn variables_may_stand_for_any_part_of_a_forward() {
    let mut home = Home::new();
    for (name, value) in [("DB", "db.example"), ("PORT", "5432"), ("BOTH", "db:5432"), ("S", "/run/s")] {
        home.world.variables.insert(name.to_owned(), value.to_owned());
    }
    let text = "LocalForward ${PORT} ${DB}:${PORT}\nLocalForward ${S}/x a${DB}:1\nRemoteForward 80 ${BOTH}\n\
                RemoteForward ${DB}:81\nDynamicForward ${DB}:${PORT}\nHost other\nLocalForward ${NO} ${NO}\n";
    let config = home.with_text("host", text).expect("loads");
    let dump = config.dump(&|_| Vec::new());
    for line in [
        "localforward 5432 [db.example]:5432\n",
        "localforward /run/s/x [adb.example]:1\n",
        "remoteforward 80 [db]:5432\n",
        "remoteforward [db.example]:81 [socks]:0\n",
        "dynamicforward [db.example]:5432\n",
    ] {
        assert!(dump.contains(line), "{line}{dump}");
    }
    let found = lines(home.with_text("other", text), home.directory.path());
    assert_eq!(found[..2], ["env var ${NO} has no value", "given line 7: Bad forwarding specification."]);
    for one_word in ["RemoteForward 8080:a:80\n", "RemoteForward ssh://u@h:22\n"] {
        let found = lines(home.with_text("host", one_word), home.directory.path());
        assert_eq!(found[0], "given line 1: Bad forwarding specification.");
    }
}
