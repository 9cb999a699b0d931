//! Network keywords of HPN-SSH and ours: effective from a file, from `-o` and in matching blocks only.

mod common;

use common::{Home, lines};
use lh_config::client::{CommandLine, Request, UserFile};
use lh_config::{ClientConfig, ConfigError, ConnectionFacts, ServerConfig};

/// A keyword, a value other than the default, and its line in `-G` or `-T`.
type Row = (&'static str, &'static str, &'static str);

const BOTH: &[Row] = &[
    ("TcpRcvBuf", "4096", "tcprcvbuf 4096K"),
    ("TcpRcvBufPoll", "no", "tcprcvbufpoll no"),
    ("HPNDisabled", "yes", "hpndisabled yes"),
    ("HPNBufferSize", "16M", "hpnbuffersize 16384K"),
    ("NoneEnabled", "yes", "noneenabled yes"),
    ("NoneMacEnabled", "yes", "nonemacenabled yes"),
    ("DisableMTAES", "yes", "disablemtaes yes"),
    ("TcpCongestion", "reno", "tcpcongestion reno"),
    ("TcpPacing", "80M", "tcppacing 80M"),
];

const CLIENT: &[Row] = &[
    ("NoneSwitch", "yes", "noneswitch yes"),
    ("UseMPTCP", "yes", "usemptcp yes"),
    ("HappyEyes", "yes", "happyeyes yes"),
    ("HappyDelay", "40", "happydelay 40"),
    ("Fallback", "no", "fallback no"),
    ("FallbackPort", "2222", "fallbackport 2222"),
    ("Metrics", "yes", "metrics yes"),
    ("MetricsInterval", "0.5", "metricsinterval 0.5"),
    ("MetricsPath", "/somewhere/m", "metricspath /somewhere/m"),
    ("BindInterface", "lo", "bindinterface lo"),
];

fn has(dump: &str, line: &str) -> bool {
    dump.lines().any(|each| each == line)
}

/// Returns whether the dump of a client configuration contains this line.
fn client_has(config: Result<ClientConfig, ConfigError>, line: &str) -> bool {
    has(&config.expect("loads").dump(&|_| Vec::new()), line)
}

/// Covers: ssh_config Match
#[test]
fn client_reads_them_in_files_options_and_matching_blocks() {
    let home = Home::new();
    for (keyword, value, line) in BOTH.iter().chain(CLIENT) {
        let says = |text: &str| client_has(home.with_text("host", text), line);
        let set = format!("{keyword} {value}\n");
        assert!(!says(""), "{line} is the default");
        assert!(says(&set), "a file: {line}");
        for block in ["Host ho*", "Match host host", "Match all", "Match user alice"] {
            assert!(says(&format!("{block}\n{set}")), "{block}: {line}");
        }
        for block in ["Host other", "Match host other", "Match !all"] {
            assert!(!says(&format!("{block}\n{set}")), "{block}: {line}");
        }
        for option in [format!("{keyword}={value}"), format!("{keyword} {value}")] {
            assert!(client_has(home.with_options(&[&option]), line), "-o {option}");
        }
        // The command line takes precedence.
        let file = home.write("given", format!("{keyword} {}\n", other_than(value)));
        let command_line = vec![CommandLine::Option(format!("{keyword}={value}"))];
        let request = Request { command_line, user_file: UserFile::Named(file), ..home.request("host") };
        assert!(client_has(home.load(&request), line), "-o before a file: {line}");
    }
}

/// Another valid value of the keyword.
fn other_than(value: &str) -> &str {
    match value {
        "yes" => "no",
        "no" => "yes",
        "reno" => "cubic",
        "80M" => "7M",
        _ => "7",
    }
}

fn server(home: &Home, text: &str, options: &[String], address: &str) -> String {
    let path = home.write("sshd", text);
    let config = ServerConfig::load(Some(&path), options, &home.world).expect("loads");
    let facts = ConnectionFacts { address: address.parse().ok(), ..ConnectionFacts::default() };
    config.for_connection(&facts).expect("applies").dump(true, &|_| Vec::new())
}

/// Covers: sshd_config Match
#[test]
fn server_reads_them_in_files_options_and_matching_blocks() {
    let home = Home::new();
    for (keyword, value, line) in BOTH {
        let set = format!("{keyword} {value}\n");
        assert!(!has(&server(&home, "", &[], "10.0.0.1"), line), "{line} is the default");
        assert!(has(&server(&home, &set, &[], "10.0.0.1"), line), "the file: {line}");
        let option = format!("{keyword}={value}");
        let file = format!("{keyword} {}\n", other_than(value));
        assert!(has(&server(&home, &file, &[option], "10.0.0.1"), line), "-o before the file: {line}");
        let block = format!("{file}Match Address 10.0.0.0/8\n{set}");
        assert!(has(&server(&home, &block, &[], "10.0.0.1"), line), "Match: {line}");
        assert!(!has(&server(&home, &block, &[], "192.0.2.1"), line), "another address: {line}");
    }
    // One listening socket serves all connections, so the keyword is global.
    assert!(has(&server(&home, "UseMPTCP yes\n", &[], "10.0.0.1"), "usemptcp yes"));
    let path = home.write("sshd", "Match User x\nUseMPTCP yes\n");
    let said = lines(ServerConfig::load(Some(&path), &[], &home.world), home.directory.path());
    assert_eq!(said[0], "sshd line 2: Directive 'UseMPTCP' is not allowed within a Match block");
}

/// Covers: ssh_config HPNBufferLimit; sshd_config HPNBufferLimit
#[test]
fn keywords_removed_from_hpn_ssh_are_accepted_with_a_note() {
    let home = Home::new();
    let config = home.with_text("host", "HPNBufferLimit yes\n").expect("loads");
    let noted = config.notes.iter().any(|note| note.text.contains("HPNBufferLimit has no effect"));
    assert!(noted, "{:?}", config.notes);
    assert!(!server(&home, "HPNBufferLimit yes\n", &[], "10.0.0.1").is_empty());
}
