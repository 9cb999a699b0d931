//! Meaning of `sshd_config` files.

mod common;

use common::{Home, lines};
use lh_config::enums::{LogLevel, PermitRootLogin};
use lh_config::special::PermitForward;
use lh_config::{ConfigError, ConfigFault, ConnectionFacts, ServerConfig};

fn load(home: &Home, text: &str, options: &[&str]) -> Result<ServerConfig, ConfigError> {
    let path = home.write("sshd", text);
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    ServerConfig::load(Some(&path), &options, &home.world)
}

fn facts(user: &str, groups: &[&str], address: &str) -> ConnectionFacts {
    ConnectionFacts {
        user: Some(user.to_owned()),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        address: address.parse().ok(),
        host: Some(address.to_owned()),
        local_port: Some(22),
        ..ConnectionFacts::default()
    }
}

const SAMPLE: &str = "\
Port 22
Port 2222
HostKey /k1
HostKey /k2
PasswordAuthentication no
PasswordAuthentication yes
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp -f AUTH
AllowUsers alice bob@10.*
Match User root Address 10.0.0.0/8
  PermitRootLogin yes
Match User root,admin
  PermitRootLogin no
  MaxAuthTries 2
  AcceptEnv ONLY
Match Group sftp*,!sftp-no
  ForceCommand internal-sftp -d /data
  ChrootDirectory %h
Match LocalPort 2222
  AllowTcpForwarding no
Match all
  Banner /etc/issue
";

#[test]
fn match_blocks_override_globals_and_the_first_wins() {
    let home = Home::new();
    let global = load(&home, SAMPLE, &[]).expect("loads");
    assert_eq!(global.port.0, [22, 2222]);
    assert_eq!(global.host_key.0, ["/k1", "/k2"]);
    assert!(!*global.password_authentication);
    assert_eq!(global.subsystem.find("sftp"), Some("internal-sftp -f AUTH"));
    assert_eq!(global.allow_users.0, ["alice", "bob@10.*"]);
    assert_eq!(*global.permit_root_login, PermitRootLogin::ProhibitPassword);
    assert_eq!(global.banner.as_deref(), None, "no Match applies before a connection is there");
    let at = |facts: ConnectionFacts| global.for_connection(&facts).expect("applies");
    let inside = at(facts("root", &[], "10.1.2.3"));
    assert_eq!((*inside.permit_root_login, *inside.max_auth_tries), (PermitRootLogin::Yes, 2));
    assert_eq!(inside.accept_env.0, ["ONLY"]);
    assert_eq!(inside.banner.as_deref(), Some("/etc/issue"));
    let outside = at(facts("root", &[], "192.0.2.1"));
    assert_eq!(*outside.permit_root_login, PermitRootLogin::No);
    let user = at(facts("eve", &["users", "sftp1"], "192.0.2.1"));
    assert_eq!(user.force_command.command(), Some("internal-sftp -d /data"));
    assert_eq!(user.chroot_directory.as_deref(), Some("%h"));
    assert_eq!(user.accept_env.0, ["LANG", "LC_*"]);
    let excepted = at(facts("eve", &["sftp1", "sftp-no"], "192.0.2.1"));
    assert_eq!(excepted.force_command.command(), None);
    assert!(user.allow_tcp_forwarding.local());
    let other_port = at(ConnectionFacts { local_port: Some(2222), ..ConnectionFacts::default() });
    assert!(!other_port.allow_tcp_forwarding.local());
    assert_eq!(user.force_command.origin.to_string(), format!("{} line 17", home.path("sshd").display()));
}

#[test]
fn serialised_configuration_is_equal_after_reading() {
    let home = Home::new();
    let here = load(&home, SAMPLE, &["UseDNS yes"]).expect("loads");
    let there = ServerConfig::from_bytes(&here.to_bytes()).expect("reads");
    assert_eq!(here.settings, there.settings);
    let facts = facts("root", &["sftp"], "10.0.0.1");
    let (a, b) =
        (here.for_connection(&facts).expect("applies"), there.for_connection(&facts).expect("applies"));
    assert_eq!(a.settings, b.settings);
    let bytes = here.to_bytes();
    for end in 0..bytes.len() {
        assert!(ServerConfig::from_bytes(&bytes[..end]).is_err());
    }
}

#[test]
fn faults_tell_option_errors_from_file_errors() {
    let home = Home::new();
    let fault = |text: &str, options: &[&str]| load(&home, text, options).unwrap_err().fault;
    for text in ["Foo 1", "Port x", "Port", "Match Foo x"] {
        assert_eq!(fault(text, &[]), ConfigFault::Text, "{text}");
    }
    for option in ["Foo=1", "Port", "Port=1 2", "Banner=\"x"] {
        assert_eq!(fault("", &[option]), ConfigFault::Option, "{option}");
    }
    for option in ["Port=x", "Match=User x", "Include=/x"] {
        assert_eq!(fault("", &[option]), ConfigFault::Text, "{option}");
    }
    let missing =
        ServerConfig::load(Some(&home.directory.path().join("none")), &[], &home.world).unwrap_err();
    assert_eq!(missing.fault, ConfigFault::Unreadable);
}

#[test]
fn quotas_are_bytes_in_a_time() {
    let home = Home::new();
    for (text, shown) in [("none", "none"), ("200G/1d", "214748364800/86400"), ("1000/90", "1000/90")] {
        let config = load(&home, &format!("PerUserTransferQuota {text}\n"), &[]).expect("loads");
        let dump = config.dump(true, &|_| Vec::new());
        assert!(dump.contains(&format!("perusertransferquota {shown}\n")), "{dump}");
    }
    for text in ["5", "0/1d", "5/0", "x/1d", "5/x", "5/1d/1d"] {
        let error = load(&home, &format!("PerUserTransferQuota {text}\n"), &[]);
        assert_eq!(
            lines(error, home.directory.path()),
            ["sshd line 1: Invalid PerUserTransferQuota spec."],
            "{text}"
        );
    }
}

#[test]
fn keywords_of_match_blocks_are_known_without_a_connection() {
    let home = Home::new();
    let config = load(&home, "Match User ada\n  perusermaxconnections 2\n", &[]).expect("loads");
    assert!(config.names("PerUserMaxConnections") && !config.names("MaxSessions"));
    assert_eq!(config.per_user_max_connections.0, None);
}

#[test]
fn tokens_of_the_upload_hook_are_checked() {
    let home = Home::new();
    let error = |text: &str| lines(load(&home, text, &[]), home.directory.path());
    for (value, why) in [
        ("/bin/hook %u %z", "UploadHook: unknown key %z"),
        ("/bin/hook 50%", "UploadHook: invalid format"),
        ("hook", "UploadHook must be an absolute path"),
    ] {
        let text = format!("Port 22\nMatch User ada\n  UploadHook {value}\n");
        assert_eq!(error(&text), [format!("sshd line 3: {why}")], "{value}");
    }
    let config = load(&home, "UploadHook \"%h/bin/a b\" %u %U %%z\n", &[]).expect("loads");
    assert_eq!(config.upload_hook.0.as_deref(), Some("\"%h/bin/a b\" %u %U %%z"));
}

#[test]
fn directory_of_recordings_is_a_path() {
    let home = Home::new();
    let config = load(&home, "RecordTerminal \"/var/log/a b\"\n", &[]).expect("loads");
    assert_eq!(config.record_terminal.0.as_deref(), Some("/var/log/a b".as_ref()));
    let tokens = "RecordTerminal: tokens such as %u and %h are not expanded, so % is refused";
    for (value, why) in [
        ("terminals", "RecordTerminal must be an absolute path"),
        ("%h/terminals", tokens),
        ("/x/%u", tokens),
    ] {
        let error = lines(load(&home, &format!("RecordTerminal {value}\n"), &[]), home.directory.path());
        assert_eq!(error, [format!("sshd line 1: {why}")], "{value}");
    }
}

#[test]
fn dumped_paths_with_blanks_are_read_again() {
    let home = Home::new();
    let text = "RecordTerminal \"/var/log/a b\"\nTransferLog \"/var/log/c d\"\n";
    let config = load(&home, text, &[]).expect("loads");
    let dump = config.dump(true, &|_| Vec::new());
    let of_paths =
        |line: &&str| ["recordterminal ", "transferlog "].iter().any(|name| line.starts_with(name));
    let dumped: String = dump.lines().filter(of_paths).map(|line| format!("{line}\n")).collect();
    let again = load(&home, &dumped, &[]).expect("what was dumped loads");
    assert_eq!(*again.record_terminal, *config.record_terminal);
    assert_eq!(*again.transfer_log, *config.transfer_log);
}

#[test]
fn command_line_takes_precedence() {
    let home = Home::new();
    let config = load(&home, "Port 1\nPort 2\nMaxAuthTries 3\n", &["Port 99", "Port=98", "MaxAuthTries=9"])
        .expect("loads");
    assert_eq!(config.port.0, [99, 98]);
    assert_eq!(*config.max_auth_tries, 9);
    let none = ServerConfig::load(None, &[], &home.world).expect("loads");
    assert_eq!(none.port.0, [22]);
    assert_eq!(none.listen_endpoints(), [("::".to_owned(), 22), ("0.0.0.0".to_owned(), 22)]);
}

#[test]
fn listen_addresses_combine_with_ports() {
    let home = Home::new();
    let text = "Port 22\nPort 23\nListenAddress 192.0.2.1\nListenAddress [::1]:99\nListenAddress host:5\nListenAddress ::2\n";
    let config = load(&home, text, &[]).expect("loads");
    let text: Vec<String> =
        config.listen_endpoints().iter().map(|(host, port)| format!("{host} {port}")).collect();
    assert_eq!(text, ["192.0.2.1 22", "192.0.2.1 23", "::1 99", "host 5", "::2 22", "::2 23"]);
    let v4 = load(&home, "AddressFamily inet\n", &[]).expect("loads");
    assert_eq!(v4.listen_endpoints(), [("0.0.0.0".to_owned(), 22)]);
}

#[test]
fn errors_use_sshd_words() {
    let home = Home::new();
    let error = |text: &str| lines(load(&home, text, &[]), home.directory.path());
    assert_eq!(
        error("Foo 1\nPort\nMaxAuthTries 4 5\nCompression \"yes\n"),
        [
            "sshd: line 1: Bad configuration option: Foo",
            "sshd line 2: no argument after keyword \"Port\"",
            "sshd line 3: keyword MaxAuthTries extra arguments at end of line",
            "sshd line 4: invalid quotes",
            "sshd: terminating, 4 bad configuration options"
        ]
    );
    for (text, expected) in [
        ("Port abc", "sshd line 1: Badly formatted port number."),
        ("LoginGraceTime x", "sshd line 1: invalid time value."),
        ("MaxAuthTries x", "sshd line 1: MaxAuthTries integer value invalid."),
        ("LogLevel x", "sshd line 1: unsupported log level 'x'"),
        ("PermitRootLogin x", "sshd line 1: unsupported option \"x\"."),
        ("Subsystem a", "sshd line 1: Missing subsystem command."),
        ("Ciphers bogus", "sshd line 1: Bad SSH2 cipher spec 'bogus'."),
        ("MaxStartups 0", "sshd line 1: Invalid MaxStartups spec."),
        ("ResumeMaxSessions 9:8", "sshd line 1: Invalid ResumeMaxSessions spec."),
        ("ResumeMaxMemory 0", "sshd line 1: Invalid ResumeMaxMemory spec."),
        ("ResumeMaxMemory 5T", "sshd line 1: Invalid ResumeMaxMemory spec."),
        ("ResumeMaxSessions 0:8", "sshd line 1: Invalid ResumeMaxSessions spec."),
        (
            "ResumeGrace 1m 2m",
            "sshd line 1: invalid second time value: it must not be longer than the first.",
        ),
        (
            "AuthenticationMethods any publickey",
            "sshd line 1: \"any\" must appear alone in AuthenticationMethods",
        ),
        ("PermitOpen x", "sshd line 1: PermitOpen bad port number"),
        ("PermitOpen h:0", "sshd line 1: PermitOpen bad port number"),
        ("PermitListen 0", "sshd line 1: PermitListen bad port number"),
        ("DenyUsers ann *@10.0.0.1/8", "sshd line 1: invalid DenyUsers pattern: \"*@10.0.0.1/8\""),
        ("AllowUsers a@b@h,", "sshd line 1: invalid AllowUsers pattern: \"a@b@h,\""),
        ("RekeyLimit x", "sshd line 1: Bad RekeyLimit number 'x': Invalid argument"),
        ("StreamLocalBindMask 9", "sshd line 1: Invalid StreamLocalBindMask."),
        ("SetEnv x", "sshd line 1: Invalid environment."),
        ("FingerprintHash x", "sshd line 1: Invalid FingerprintHash algorithm \"x\"."),
        ("PermitTunnel x", "sshd line 1: bad PermitTunnel argument x"),
        ("AuthorizedKeysCommand foo", "sshd line 1: AuthorizedKeysCommand must be an absolute path"),
        ("Match User root\nPort 22", "sshd line 2: Directive 'Port' is not allowed within a Match block"),
        ("ListenAddress 1.2.3.4:22 rdomain", "sshd line 1: bad ListenAddress syntax"),
        ("ListenAddress 1.2.3.4 domain blue", "sshd line 1: bad ListenAddress syntax"),
        ("ListenAddress 1.2.3.4:x", "sshd line 1: bad port number"),
        ("ListenAddress [::1", "sshd line 1: bad address:port usage"),
        ("Match Address 1.2.3/33", "Invalid Match address argument '1.2.3/33' at line 1"),
        ("Match Address 1.2.3.4,", "Invalid Match address argument '1.2.3.4,' at line 1"),
    ] {
        assert_eq!(error(text), [expected], "{text}");
    }
    assert_eq!(
        error("ListenAddress 1.2.3.4 rdomain blue"),
        ["Routing domains are not supported by lhsshd", "sshd line 1: bad routing domain"]
    );
    assert_eq!(
        error("Match exec x"),
        ["Unsupported Match attribute exec", "sshd line 1: Bad Match condition"]
    );
    assert_eq!(error("Match User"), ["Missing Match criteria for User", "sshd line 1: Bad Match condition"]);
    let option = lines(load(&home, "", &["Foo=1"]), home.directory.path());
    assert_eq!(option, ["command-line: line 0: Bad configuration option: Foo"]);
    for option in ["Match User x", "Include /x"] {
        let word = option.split(' ').next().unwrap();
        let text = format!("{word} directive not supported as a command-line option");
        assert_eq!(lines(load(&home, "", &[option]), home.directory.path()), [text]);
    }
    let config = load(&home, "UsePrivilegeSeparation no\nProtocol 1\n", &[]).expect("loads");
    assert!(config.notes[0].text.ends_with("sshd line 1: Deprecated option UsePrivilegeSeparation"));
}

#[test]
fn match_in_an_included_file_narrows_and_ends_there() {
    let home = Home::new();
    let inner = home.write("inner", "Match User bob\nMaxSessions 1\n");
    let text = format!("Match Address 10.0.0.0/8\nInclude {}\nMaxAuthTries 1\n", inner.display());
    let config = load(&home, &text, &[]).expect("loads");
    let at = |user: &str, address: &str| {
        let config = config.for_connection(&facts(user, &[], address)).expect("applies");
        (*config.max_sessions, *config.max_auth_tries)
    };
    assert_eq!(at("bob", "10.0.0.1"), (1, 1));
    assert_eq!(at("eve", "10.0.0.1"), (10, 1));
    assert_eq!(at("bob", "192.0.2.1"), (10, 6));
    let inner = home.write("inner", "Port 5\nMatch User bob\nMaxSessions 1\n");
    let config = load(&home, &format!("Include {}\nUseDNS yes\n", inner.display()), &[])
        .expect("still global after it");
    assert!(*config.use_dns && config.port.0 == [5]);
}

#[test]
fn unknown_authentication_method_is_reported() {
    let home = Home::new();
    let found = lines(
        load(&home, "AuthenticationMethods publickey,password publickey,foo\n", &[]),
        home.directory.path(),
    );
    let expected = [
        "Unknown authentication method \"foo\" in list",
        "sshd line 1: invalid AuthenticationMethods method list.",
    ];
    assert_eq!(found, expected);
}

/// 0 means no limit: as a duration it would end every connection at once.
#[test]
fn a_time_of_zero_is_no_limit() {
    use lh_config::value::SecondsOrNone;
    assert_eq!(SecondsOrNone(Some(0)).duration(), None);
    assert_eq!(SecondsOrNone(None).duration(), None);
    assert_eq!(SecondsOrNone(Some(7)).duration(), Some(std::time::Duration::from_secs(7)));
}

#[test]
fn channel_timeouts_are_dumped_as_written() {
    let home = Home::new();
    let text = "session:*=5m x11-connection=1h30m *=90";
    let config = load(&home, &format!("ChannelTimeout {text}\n"), &[]).expect("loads");
    assert_eq!(config.channel_timeout.of("x11-connection").map(|time| time.as_secs()), Some(5400));
    assert!(config.dump(true, &|_| Vec::new()).contains(&format!("channeltimeout {text}\n")));
}

/// Expects the output of `sshd -T -C user=…` of OpenSSH 9.2 and 10.6.
#[test]
fn none_in_a_match_block_overrides_a_global_value() {
    let home = Home::new();
    for (keyword, value) in [
        ("AuthorizedKeysCommandUser", "nobody"),
        ("AuthorizedKeysFile", "/k"),
        ("AuthorizedPrincipalsCommandUser", "nobody"),
        ("AuthorizedPrincipalsFile", "/p"),
        ("Banner", "/etc/issue"),
        ("ChannelTimeout", "session=5"),
        ("ChrootDirectory", "/x"),
        ("ForceCommand", "ls"),
        ("IPQoS", "ef cs0"),
        ("LogVerbose", "a.c"),
        ("PAMServiceName", "x"),
        ("PermitListen", "*:80"),
        ("PermitOpen", "a:1"),
        ("PubkeyAuthOptions", "touch-required max-pk-ok:3"),
        ("RevokedKeys", "/r"),
        ("TrustedUserCAKeys", "/t"),
        ("UnusedConnectionTimeout", "5"),
    ] {
        let text = format!("{keyword} {value}\nMatch User guest\n{keyword} none\n");
        let config = load(&home, &text, &[]).expect("loads");
        let values_for = |user: &str| {
            let facts = ConnectionFacts { user: Some(user.to_owned()), ..Default::default() };
            let dump = config.for_connection(&facts).expect("applies").dump(true, &|_| Vec::new());
            let name = format!("{} ", keyword.to_ascii_lowercase());
            let lines = dump.lines().filter_map(|line| line.strip_prefix(&name)).map(str::to_owned);
            lines.collect::<Vec<String>>().join(" ")
        };
        assert_eq!(values_for("ada"), value, "{keyword}");
        let none = if keyword == "IPQoS" { "none none" } else { "none" };
        assert_eq!(values_for("guest"), none, "{keyword}");
    }
    // These commands require that their account keywords are absent too.
    for keyword in ["AuthorizedKeysCommand", "AuthorizedPrincipalsCommand"] {
        let text = format!(
            "{keyword} /bin/true\n{keyword}User nobody\nMatch User guest\n{keyword} none\n{keyword}User none\n"
        );
        let config = load(&home, &text, &[]).expect("loads");
        let facts = ConnectionFacts { user: Some("guest".to_owned()), ..Default::default() };
        let dump = config.for_connection(&facts).expect("applies").dump(true, &|_| Vec::new());
        let name = keyword.to_ascii_lowercase();
        assert!(dump.contains(&format!("{name} none\n{name}user none\n")), "{dump}");
    }
}

/// Expects the values that OpenSSH 10.6 accepts and refuses.
#[test]
fn channel_timeouts_have_fractions_of_seconds() {
    let home = Home::new();
    let limit = |time: &str| {
        let config = load(&home, &format!("ChannelTimeout session={time}\n"), &[])?;
        assert!(config.dump(true, &|_| Vec::new()).contains(&format!("channeltimeout session={time}\n")));
        Ok::<_, lh_config::ConfigError>(config.channel_timeout.of("session").map(|limit| limit.as_nanos()))
    };
    for (time, nanos) in [
        ("1.5", 1_500_000_000),
        ("1.5s", 1_500_000_000),
        (".5", 500_000_000),
        ("1.5s1m", 61_500_000_000),
        ("1h1.5S", 3_601_500_000_000),
        ("1m.25", 60_250_000_000),
        ("1.1234567891", 1_123_456_789),
    ] {
        assert_eq!(limit(time).expect("loads"), Some(nanos), "{time}");
    }
    for time in ["0.5m", "1.", ".", "1.5h2", "1.1.1", "-1.5", "+1.5", "2147483648.5", "1.5 s"] {
        limit(time).expect_err(time);
    }
}

/// Expects the dump that OpenSSH 10.6 prints.
#[test]
fn free_queries_about_keys_are_dumped_as_by_openssh() {
    let home = Home::new();
    let dumped = |lines: &str| {
        let config = load(&home, lines, &[]).map_err(|problem| problem.to_string())?;
        let dump = config.dump(true, &|_| Vec::new());
        let line = dump.lines().find_map(|line| line.strip_prefix("pubkeyauthoptions ")).map(str::to_owned);
        Ok::<_, String>(line.expect("is in the dump"))
    };
    for (lines, shown) in [
        ("", "none max-pk-ok:6"),
        ("PubkeyAuthOptions none\n", "none"),
        ("PubkeyAuthOptions touch-required\n", "touch-required"),
        ("PubkeyAuthOptions max-pk-ok:0\n", "none max-pk-ok:0"),
        ("PubkeyAuthOptions MAX-PK-OK:255\n", "none max-pk-ok:255"),
        ("PubkeyAuthOptions max-pk-ok:3 max-pk-ok:05\n", "none max-pk-ok:5"),
        (
            "PubkeyAuthOptions max-pk-ok:2 verify-required touch-required\n",
            "touch-required verify-required max-pk-ok:2",
        ),
    ] {
        assert_eq!(dumped(lines).as_deref(), Ok(shown), "{lines}");
    }
    for (option, words) in [
        ("max-pk-ok:", "bad PubkeyAuthOptions max-pk-ok value: invalid"),
        ("max-pk-ok:x", "bad PubkeyAuthOptions max-pk-ok value: invalid"),
        ("max-pk-ok:-1", "bad PubkeyAuthOptions max-pk-ok value: too small"),
        ("max-pk-ok:256", "bad PubkeyAuthOptions max-pk-ok value: too large"),
        ("max-pk-ok", "unsupported PubkeyAuthOptions option max-pk-ok"),
        ("max-pk-ok=3", "unsupported PubkeyAuthOptions option max-pk-ok=3"),
    ] {
        let refused = dumped(&format!("PubkeyAuthOptions {option}\n")).expect_err(option);
        assert!(refused.ends_with(words), "{refused}");
    }
}

#[test]
fn values_of_all_kinds_are_parsed() {
    let home = Home::new();
    let config = load(
        &home,
        "PerSourcePenalties authfail:0.5 max:1m overflow:deny-all\nPermitOpen host:80 [::1]:* *:443\nPermitListen 8080 localhost:*\n\
         AuthenticationMethods publickey,password publickey,keyboard-interactive:pam\nMaxStartups 5\nLoginGraceTime 0\n\
         AuthorizedKeysCommand /bin/x %u %k\nVersionAddendum a b # c\nRevokedKeys none\n",
        &[],
    )
    .expect("loads");
    assert_eq!(config.per_source_penalties.authfail.as_millis(), 500);
    assert!(
        !config.per_source_penalties.overflow_permissive && !config.per_source_penalties.overflow6_permissive
    );
    assert!(
        config.permit_open.allows("host", 80)
            && config.permit_open.allows("::1", 5)
            && config.permit_open.allows("x", 443)
    );
    assert!(!config.permit_open.allows("host", 81));
    assert!(config.permit_listen.allows("anything", 8080) && !config.permit_listen.allows("other", 1));
    assert!(matches!(*config.permit_listen, PermitForward::Only(_)));
    assert_eq!(config.authentication_methods.0[1], ["publickey", "keyboard-interactive:pam"]);
    assert_eq!((config.max_startups.begin, config.max_startups.rate, config.max_startups.full), (5, 30, 5));
    assert_eq!(config.login_grace_time.0, None);
    assert_eq!(config.authorized_keys_command.0.as_deref(), Some("/bin/x %u %k"));
    assert!(config.revoked_keys.list().is_empty());
}

#[test]
fn test_mode_specifications() {
    let mut facts = ConnectionFacts::default();
    facts.parse_spec("user=a,addr=10.0.0.1,laddr=::1,lport=22,host=h,invalid-user").expect("parses");
    assert_eq!((facts.user.as_deref(), facts.local_port, facts.invalid_user), (Some("a"), Some(22), true));
    for bad in ["user", "user=a,host", "bogus", "addr=x", "lport=0", "lport=x"] {
        assert!(facts.parse_spec(bad).is_err(), "{bad}");
    }
}

/// Covers: sshd_config Subsystem
#[test]
fn match_block_replaces_the_subsystems_it_names() {
    let home = Home::new();
    let text = "Subsystem a one\nSubsystem a two\nSubsystem b main\nMatch User alice\n  Subsystem a three\n  \
                Subsystem a four\nMatch all\n  Subsystem a five\n  Subsystem c six\n";
    let config = load(&home, text, &[]).expect("loads");
    let levels: Vec<LogLevel> = config
        .notes
        .iter()
        .filter(|note| note.text.ends_with("Subsystem 'a' already defined."))
        .map(|note| note.level)
        .collect();
    assert_eq!(levels, [LogLevel::Debug1; 2], "lines 2 and 6: {:?}", config.notes);
    let of = |user: &str, name: &str| {
        let config = config.for_connection(&facts(user, &[], "192.0.2.1")).expect("applies");
        config.subsystem.find(name).map(str::to_owned)
    };
    assert_eq!(config.subsystem.find("a"), Some("one"));
    assert_eq!(of("alice", "a").as_deref(), Some("three"));
    assert_eq!(of("bob", "a").as_deref(), Some("five"));
    assert_eq!(of("alice", "b").as_deref(), Some("main"));
    assert_eq!(of("alice", "c").as_deref(), Some("six"));
}

#[test]
fn empty_items_of_algorithm_lists_are_skipped() {
    let home = Home::new();
    let config = load(&home, "Ciphers a,,b,\nMACs +x,\n", &[]).expect("loads");
    assert_eq!(config.ciphers.apply(&["default"]), ["a", "b"]);
    assert_eq!(config.macs.apply(&["default"]), ["default", "x"]);
    for bad in ["Ciphers a,bogus,\n", "Ciphers ,\n", "MACs +\n"] {
        assert!(load(&home, bad, &[]).is_err(), "{bad}");
    }
}

/// In sshd 9.2 a `=` may stand between a criterion and its argument, with blanks. Taken as a part of the
/// pattern, it would make a block that restricts a user match none.
#[test]
fn an_equals_sign_before_an_argument_is_no_part_of_it() {
    let home = Home::new();
    for line in ["User =eve", "User = eve", "User=eve", "User= eve", "user =eve address =192.0.2.*"] {
        let config = load(&home, &format!("Match {line}\nForceCommand internal-sftp\n"), &[]).expect("loads");
        let settings = config.for_connection(&facts("eve", &[], "192.0.2.1")).expect("applies");
        assert_eq!(settings.force_command.command(), Some("internal-sftp"), "{line}");
        let other = config.for_connection(&facts("ada", &[], "192.0.2.1")).expect("applies");
        assert_eq!(other.force_command.command(), None, "{line}");
    }
    for line in ["User =", "User=", "User = =eve", "User ==eve", "User==eve", "User = = eve"] {
        assert!(load(&home, &format!("Match {line}\nForceCommand internal-sftp\n"), &[]).is_err(), "{line}");
    }
}

/// As with sshd 9.2: `Match User "=eve"` is about an account of that name, and permits nothing to `eve`.
#[test]
fn a_quoted_equals_sign_belongs_to_the_argument() {
    let home = Home::new();
    let config = load(&home, "Match User \"=eve\"\nPermitRootLogin yes\n", &[]).expect("loads");
    let root_login = |user: &str| {
        *config.for_connection(&facts(user, &[], "192.0.2.1")).expect("applies").permit_root_login
    };
    assert_eq!(root_login("=eve"), PermitRootLogin::Yes);
    assert_eq!(root_login("eve"), PermitRootLogin::ProhibitPassword);
    // The sign after a quoted keyword belongs to the value as well.
    let config = load(&home, "\"AllowUsers\"=eve\n", &[]).expect("loads");
    assert_eq!(
        config.for_connection(&facts("eve", &[], "192.0.2.1")).expect("applies").allow_users.0,
        ["=eve"]
    );
}

/// sshd takes a blank for a part of the name: `DenyUsers *@"a, b"` refuses no user from `b`. Whether an
/// exception counts must not depend on it either, so the line is an error.
#[test]
fn blanks_in_lists_of_hosts_are_errors() {
    let home = Home::new();
    for keyword in ["AllowUsers", "DenyUsers"] {
        for list in ["a, b", " a", "a ", "*, !b", "*,! b", "!a ,*", "a,\tb"] {
            let error = load(&home, &format!("Port 22\n{keyword} ada *@\"{list}\"\n"), &[]).expect_err(list);
            assert!(
                error.to_string().contains(&format!("sshd line 2: invalid {keyword} pattern")),
                "{error}"
            );
        }
    }
}
