//! Loading terminates for any bytes, with an error or with values.

mod common;

use common::Home;
use lh_config::client_table::CLIENT_KEYWORDS;
use lh_config::forward::{Endpoint, Forward};
use lh_config::include::{Matches, glob};
use lh_config::line::{split_keyword, split_words};
use lh_config::pattern::wildcard;
use lh_config::server_table::SERVER_KEYWORDS;
use lh_config::table::find;
use lh_config::{ConnectionFacts, ServerConfig};
use proptest::prelude::*;

/// Lines that resemble a configuration, so that the test also reaches values after the first error.
fn lines(keywords: Vec<&'static str>) -> impl Strategy<Value = String> {
    let keyword = proptest::sample::select(keywords);
    let value = prop_oneof![
        "[ -~]{0,40}",
        "(yes|no|none|any|all|ask|[0-9]{1,20}[smhdwKMG]?|[a-z*?!]{1,8}|[:/\\[\\]=,.%~^+\"'#\\\\ $@{}-]){0,8}",
        "\\PC{0,20}",
    ];
    let line = (keyword, prop_oneof![Just(" "), Just("="), Just(" = "), Just("\t")], value);
    proptest::collection::vec(line.prop_map(|(k, s, v)| format!("{k}{s}{v}\n")), 0..12)
        .prop_map(|lines| lines.concat())
}

fn client_keywords() -> Vec<&'static str> {
    // No `Include`: random patterns would read this machine's files.
    CLIENT_KEYWORDS.iter().map(|row| row.name).chain(["Host", "Match", "host", "match"]).collect()
}

fn server_keywords() -> Vec<&'static str> {
    SERVER_KEYWORDS.iter().map(|row| row.name).chain(["Match", "match"]).collect()
}

proptest! {
    #[test]
    fn any_client_lines(text in lines(client_keywords())) {
        let home = Home::new();
        if let Ok(config) = home.with_text("host", &text) {
            let _ = config.dump(&|_| vec!["a".to_owned()]);
            let _ = config.identity_files(&home.world);
        }
    }

    #[test]
    fn every_client_line_alone(text in lines(client_keywords())) {
        let home = Home::new();
        for line in text.lines() {
            if let Err(error) = home.with_text("host", line) {
                prop_assert!(!error.lines.is_empty());
            }
        }
    }

    #[test]
    fn any_server_lines(text in lines(server_keywords())) {
        let home = Home::new();
        for text in text.lines().chain([text.as_str()]) {
            let path = home.write("sshd", text);
            if let Ok(config) = ServerConfig::load(Some(&path), &[], &home.world) {
                let again = ServerConfig::from_bytes(&config.to_bytes()).expect("reads what it wrote");
                prop_assert_eq!(&again.settings, &config.settings);
                let facts = ConnectionFacts { user: Some("u".to_owned()), ..ConnectionFacts::default() };
                let _ = config.for_connection(&facts).expect("applies").dump(true, &|_| Vec::new());
            }
        }
    }

    #[test]
    fn any_bytes_as_a_file(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let home = Home::new();
        let path = home.path("bytes");
        std::fs::write(&path, &bytes).expect("written");
        let request = lh_config::client::Request {
            user_file: lh_config::client::UserFile::Named(path.clone()),
            ..home.request("host")
        };
        let _ = home.load(&request);
        let _ = ServerConfig::load(Some(&path), &[], &home.world);
        let _ = ServerConfig::from_bytes(&bytes);
    }

    #[test]
    fn damaged_serialisations_are_refused_or_read(at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let home = Home::new();
        let path = home.write("sshd", "Port 1\nMatch User a\nMaxAuthTries 2\n");
        let mut bytes = ServerConfig::load(Some(&path), &[], &home.world).expect("loads").to_bytes();
        let at = at.index(bytes.len());
        bytes[at] = with;
        let _ = ServerConfig::from_bytes(&bytes);
    }

    #[test]
    fn lines_and_words(text in "\\PC{0,80}") {
        let _ = split_keyword(&text);
        let _ = split_words(&text, true);
        let _ = Forward::parse(&text, false);
        let _ = Forward::parse_dynamic(&text);
        let _ = lh_config::units::parse_time(&text);
        let _ = lh_config::units::parse_size(&text);
        let _ = lh_config::units::parse_fractional_time(&text);
    }

    #[test]
    fn words_survive_quoting(words in proptest::collection::vec("[ -~]{1,12}", 1..5)) {
        let line = words.iter().map(|w| format!("\"{}\"", w.replace('\\', "\\\\").replace('"', "\\\""))).collect::<Vec<_>>().join(" ");
        prop_assert_eq!(split_words(&line, true).expect("quotes match"), words);
    }

    #[test]
    fn a_pattern_made_of_the_text_matches(text in "[a-c]{0,12}", holes in proptest::collection::vec(any::<bool>(), 12)) {
        let pattern: String = text.chars().zip(&holes).map(|(c, hole)| if *hole { '?' } else { c }).collect();
        prop_assert!(wildcard(text.as_bytes(), pattern.as_bytes()));
        let wider = format!("*{pattern}*");
        prop_assert!(wildcard(text.as_bytes(), wider.as_bytes()));
        let longer = format!("{}?", pattern);
        prop_assert!(!wildcard(text.as_bytes(), longer.as_bytes()));
    }

    #[test]
    fn forwards_keep_their_parts(host in "[a-z.]{1,10}", a in 1u16.., b in 1u16..) {
        let forward = Forward::parse(&format!("{a}:{host}:{b}"), false).expect("a forward");
        prop_assert_eq!(forward.listen, Endpoint::Tcp { host: None, port: a });
        prop_assert_eq!(forward.connect, Some(Endpoint::Tcp { host: Some(host), port: b }));
    }
}

#[test]
fn stars_do_not_take_exponential_time() {
    let text = "a".repeat(5000);
    let pattern = format!("{}b", "*a".repeat(500));
    assert!(!wildcard(text.as_bytes(), pattern.as_bytes()));
}

#[test]
fn every_default_is_accepted_by_its_parser() {
    let home = Home::new();
    let accepts = |row: &lh_config::Keyword, client: bool| {
        if row.default.is_empty() {
            return;
        }
        let text = format!("{} {}\n", row.name, row.default);
        if client {
            home.with_text("h", &text).expect(row.name);
        } else {
            let path = home.write("sshd", &text);
            ServerConfig::load(Some(&path), &[], &home.world).expect(row.name);
        }
    };
    CLIENT_KEYWORDS.iter().for_each(|row| accepts(row, true));
    SERVER_KEYWORDS.iter().for_each(|row| accepts(row, false));
}

#[test]
fn names_and_aliases_are_unique_and_documented() {
    for table in [CLIENT_KEYWORDS, SERVER_KEYWORDS] {
        for (index, row) in table.iter().enumerate() {
            for name in row.aliases.iter().chain([&row.name]) {
                assert_eq!(find(table, &name.to_uppercase()), Some(index), "{name}");
            }
            assert!(row.meaning().ends_with('.'), "{}: {}", row.name, row.meaning());
            assert!(!row.default_in_words().is_empty(), "{} has no default", row.name);
        }
    }
}

#[test]
fn every_example_line_is_accepted() {
    let home = Home::new();
    for (table, client) in [(CLIENT_KEYWORDS, true), (SERVER_KEYWORDS, false)] {
        for row in table {
            let example = row.example();
            assert_eq!(example.split(' ').next(), Some(row.name), "{}: {example}", row.name);
            let text = format!("{example}\n");
            let outcome = if client {
                // An address, because a rule about CNAMEs would look up a name.
                home.with_text("127.0.0.1", &text).map(drop)
            } else {
                let path = home.write("sshd", &text);
                ServerConfig::load(Some(&path), &[], &home.world).map(drop)
            };
            assert!(outcome.is_ok(), "{example}: {outcome:?}");
        }
    }
}

#[test]
fn include_globs_match_files() {
    let home = Home::new();
    for name in ["a1.conf", "a2.conf", "b.conf", ".hidden.conf", "a]"] {
        home.write(name, "");
    }
    let names = |pattern: &str| -> Vec<String> {
        let pattern = home.path(pattern).display().to_string();
        let Matches { paths, failed } = glob(&pattern);
        assert!(failed.is_empty(), "{failed:?}");
        paths.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
    };
    assert_eq!(names("*.conf"), ["a1.conf", "a2.conf", "b.conf"]);
    assert_eq!(names("a[2-9].conf"), ["a2.conf"]);
    assert_eq!(names("[!a]*"), ["b.conf"]);
    assert_eq!(names("a[]]"), ["a]"]);
    assert_eq!(names(".*.conf"), [".hidden.conf"]);
    assert_eq!(names("b.conf"), ["b.conf"]);
    assert!(names("nothing").is_empty() && names("x*/y").is_empty());
}

/// An unset `MetricsInterval` is adaptive; its value is the longest interval then.
#[test]
fn a_text_about_an_unset_keyword_replaces_its_default() {
    let row = |name: &str| CLIENT_KEYWORDS.iter().find(|row| row.name == name).unwrap();
    assert_eq!(row("MetricsInterval").default, "5");
    assert!(row("MetricsInterval").default_in_words().starts_with("0.1 at first"));
    assert_eq!(row("HappyDelay").default_in_words(), "250");
    assert_eq!(row("ControlPath").default_in_words(), "none");
}
