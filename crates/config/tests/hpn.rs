//! HPN-SSH's keywords and ours about the network: taken from a file, from `-o` and from blocks that match, and from no other.

mod common;

use common::{Home, lines};
use lh_config::client::{CommandLine, Request, UserFile};
use lh_config::{ClientConfig, ConfigError, ConnectionFacts, ServerConfig};

/// A keyword, a value that is not the default, and the line of `-G` or `-T` about it.
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

/// Whether what a client's configuration came to has this line.
fn client_has(config: Result<ClientConfig, ConfigError>, line: &str) -> bool {
    has(&config.expect("loads").dump(&|_| Vec::new()), line)
}

/// Covers: ssh_config Match
#[test]
fn a_client_takes_each_from_files_options_and_blocks_that_match() {
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
        // The command line wins.
        let file = home.write("given", &format!("{keyword} {}\n", other_than(value)));
        let command_line = vec![CommandLine::Option(format!("{keyword}={value}"))];
        let request = Request { command_line, user_file: UserFile::Named(file), ..home.request("host") };
        assert!(client_has(home.load(&request), line), "-o before a file: {line}");
    }
}

/// Another value that the same keyword takes.
fn other_than(value: &str) -> &str {
    match value {
        "yes" => "no",
        "no" => "yes",
        "reno" => "cubic",
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
fn a_server_takes_each_from_its_file_options_and_blocks_that_match() {
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
    // A listener has one kind of socket for all who come.
    assert!(has(&server(&home, "UseMPTCP yes\n", &[], "10.0.0.1"), "usemptcp yes"));
    let path = home.write("sshd", "Match all\nUseMPTCP yes\n");
    let said = lines(ServerConfig::load(Some(&path), &[], &home.world), home.folder.path());
    assert_eq!(said[0], "sshd line 2: Directive 'UseMPTCP' is not allowed within a Match block");
}

/// Covers: ssh_config HPNBufferLimit; sshd_config HPNBufferLimit
#[test]
fn what_hpn_ssh_has_removed_is_read_and_noted() {
    let home = Home::new();
    let config = home.with_text("host", "HPNBufferLimit yes\n").expect("loads");
    let noted = config.notes.iter().any(|note| note.text.contains("HPNBufferLimit has no effect"));
    assert!(noted, "{:?}", config.notes);
    assert!(!server(&home, "HPNBufferLimit yes\n", &[], "10.0.0.1").is_empty());
}
