//! A log record and its formats: names and values, JSON, or the lines of HPN-SSH.
//!
//! Values come from clients (user names, paths, identifications). With any of them, a record stays on one
//! line, and each value stays one value.

use std::fmt::Write as _;

use lh_config::enums::TransferLogFormat as Format;
use serde_json::{Map, Value};

/// Names and values, in the order of writing.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Record {
    fields: Map<String, Value>,
}

impl Record {
    /// Returns a record of an event: `connection`, `file`, `command`, `operation` or
    /// `left_out`.
    pub(crate) fn new(event: &'static str) -> Self {
        Self::default().text("event", event)
    }

    /// Adds text. Empty text is left out.
    #[must_use]
    pub(crate) fn text(mut self, name: &'static str, value: &str) -> Self {
        if !value.is_empty() {
            self.fields.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Adds a number.
    #[must_use]
    pub(crate) fn number(mut self, name: &'static str, value: u64) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a time, in seconds with three decimals.
    #[must_use]
    pub(crate) fn seconds(mut self, name: &'static str, micros: u64) -> Self {
        let seconds = (micros / 1000) as f64 / 1000.0;
        self.fields.insert(name.to_owned(), seconds.into());
        self
    }

    /// Returns the record in a format: one line, or several in HPN-SSH's format.
    pub(crate) fn lines(&self, format: Format) -> Vec<String> {
        match format {
            Format::Text => vec![self.as_text()],
            Format::Json => vec![visible(&Value::Object(self.fields.clone()).to_string())],
            Format::Hpn => self.as_hpn(),
        }
    }

    /// Returns the journal's additional fields, under names of our own.
    pub(crate) fn journal_fields(&self) -> Vec<(String, String)> {
        self.fields
            .iter()
            .map(|(name, value)| (format!("LONGHAUL_{}", name.to_ascii_uppercase()), plain(value)))
            .collect()
    }

    fn as_text(&self) -> String {
        let mut line = String::new();
        for (name, value) in &self.fields {
            if !line.is_empty() {
                line.push(' ');
            }
            let value = plain(value);
            let bare = |c: char| c.is_ascii_graphic() && !['"', '=', '\\'].contains(&c);
            let _ = if value.chars().all(bare) {
                write!(line, "{name}={value}")
            } else {
                write!(line, "{name}=\"{}\"", escaped(&value))
            };
        }
        line
    }

    /// Returns lines in the format of HPN-SSH's server: `;` between parts, several lines for a connection.
    /// (HPN-SSH writes them as events happen, and 0 for all bytes.) Events that it lacks are written in this
    /// manner too.
    fn as_hpn(&self) -> Vec<String> {
        let get = |name: &str| {
            let value = self.fields.get(name).map(plain).unwrap_or_default();
            escaped(&value).replace(';', "\\;")
        };
        let number = |name: &str| self.fields.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        let remote = format!("{}-{}", get("remote"), get("port"));
        let line = |kind: &str, rest: String| format!("SSH: Server;{kind};Remote: {remote};{rest}");
        if get("event") == "operation" {
            let to = [get("new_path"), get("target")].concat();
            return vec![line(
                "Ltype: Operation",
                format!(
                    "Name: {};Operation: {};Path: {};To: {to};Attributes: {};Outcome: {}",
                    get("user"),
                    get("operation"),
                    get("path"),
                    get("attributes"),
                    get("outcome")
                ),
            )];
        }
        if get("event") == "left_out" {
            let rest = format!("Name: {};Records: {}", get("user"), number("records"));
            return vec![line("Ltype: Left_out", rest)];
        }
        if get("event") != "connection" {
            let (event, bytes) = (get("event"), number("bytes") + number("bytes_in") + number("bytes_out"));
            return vec![line(
                &format!(
                    "Ltype: {}{}",
                    event.get(..1).unwrap_or_default().to_uppercase(),
                    event.get(1..).unwrap_or_default()
                ),
                format!(
                    "Name: {};Path: {};Direction: {};Bytes: {bytes};Duration: {:.1};Outcome: {}",
                    get("user"),
                    get("path"),
                    get("direction"),
                    number("duration"),
                    get("outcome")
                ),
            )];
        }
        let client = get("client");
        // HPN-SSH shows the part after the protocol version.
        let client = client.splitn(3, '-').nth(2).unwrap_or(&client);
        vec![
            line("Ltype: Version", format!("Protocol: 2.0;Client: {client}")),
            line(
                "Ltype: Kex",
                format!("Enc: {};MAC: {};Comp: {}", get("cipher"), get("mac"), get("compression")),
            ),
            line("Ltype: Authname", format!("Name: {}", get("user"))),
            line(
                "LType: Throughput",
                format!(
                    "IN: {};OUT: {};Duration: {:.1};tPut_in: {:.1};tPut_out: {:.1}",
                    number("bytes_in"),
                    number("bytes_out"),
                    number("duration"),
                    number("average_in"),
                    number("average_out")
                ),
            ),
        ]
    }
}

/// Returns the JSON line with the time as its first field.
pub(super) fn with_time(line: &str, time: &str) -> String {
    format!("{{\"time\":\"{time}\",{}", line.strip_prefix('{').unwrap_or(line))
}

/// Escapes text for double quotes. Single quotes stay: readers of these lines know no escape for them.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if c == '\'' { out.push(c) } else { out.extend(c.escape_debug()) }
    }
    out
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Also escapes characters that JSON permits but terminals and log servers interpret.
fn visible(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if lh_wire::is_hidden(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(path: &str) -> Record {
        Record::new("file")
            .text("user", "ada")
            .text("remote", "192.0.2.7")
            .number("port", 1022)
            .text("path", path)
            .text("direction", "upload")
            .number("bytes", 1000)
            .seconds("duration", 1_234_567)
            .text("outcome", "")
    }

    #[test]
    fn the_formats() {
        assert_eq!(
            record("/a b").lines(Format::Text),
            [
                "event=file user=ada remote=192.0.2.7 port=1022 path=\"/a b\" direction=upload bytes=1000 duration=1.234"
            ]
        );
        // Readers of these lines know only the escapes of double quotes and backslashes.
        let line = &record("/it's \"b\" \\c").lines(Format::Text)[0];
        assert!(line.contains(r#"path="/it's \"b\" \\c""#), "{line}");
        let json = record("/a\"b").lines(Format::Json);
        assert_eq!(
            json,
            [
                "{\"event\":\"file\",\"user\":\"ada\",\"remote\":\"192.0.2.7\",\"port\":1022,\"path\":\"/a\\\"b\",\
              \"direction\":\"upload\",\"bytes\":1000,\"duration\":1.234}"
            ]
        );
        assert!(with_time(&json[0], "now").starts_with("{\"time\":\"now\",\"event\":"));
        assert_eq!(
            record("/a;b").lines(Format::Hpn),
            [
                "SSH: Server;Ltype: File;Remote: 192.0.2.7-1022;Name: ada;Path: /a\\;b;Direction: upload;Bytes: 1000;Duration: 1.2;\
              Outcome: "
            ]
        );
        let left_out =
            Record::new("left_out").text("user", "ada").text("remote", "192.0.2.7").number("port", 1022);
        assert_eq!(
            left_out.number("records", 12).lines(Format::Hpn),
            ["SSH: Server;Ltype: Left_out;Remote: 192.0.2.7-1022;Name: ada;Records: 12"]
        );
        let connection = Record::new("connection")
            .text("user", "ada")
            .text("remote", "192.0.2.7")
            .number("port", 1022)
            .text("client", "SSH-2.0-OpenSSH_9.2p1 Debian-2")
            .text("cipher", "aes128-ctr")
            .text("mac", "hmac-sha2-256")
            .text("compression", "none")
            .number("bytes_in", 10)
            .number("bytes_out", 20)
            .number("average_in", 5)
            .number("average_out", 10)
            .seconds("duration", 2_000_000);
        assert_eq!(
            connection.lines(Format::Hpn),
            [
                "SSH: Server;Ltype: Version;Remote: 192.0.2.7-1022;Protocol: 2.0;Client: OpenSSH_9.2p1 Debian-2",
                "SSH: Server;Ltype: Kex;Remote: 192.0.2.7-1022;Enc: aes128-ctr;MAC: hmac-sha2-256;Comp: none",
                "SSH: Server;Ltype: Authname;Remote: 192.0.2.7-1022;Name: ada",
                "SSH: Server;LType: Throughput;Remote: 192.0.2.7-1022;IN: 10;OUT: 20;Duration: 2.0;tPut_in: 5.0;tPut_out: 10.0",
            ]
        );
    }

    /// Returns how often a character occurs in a line without a backslash before it. `quotes`: ignores text
    /// inside double quotes.
    fn unescaped(line: &str, wanted: char, quotes: bool) -> usize {
        let (mut escaped, mut quoted, mut count) = (false, false, 0);
        for c in line.chars() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' if quotes => quoted = !quoted,
                c if c == wanted && !quoted => count += 1,
                _ => {}
            }
        }
        count
    }

    proptest! {
        #[test]
        fn no_value_makes_a_second_line_or_a_second_value(value in "(\\PC|[\\x00-\\x1f\"\\\\= ;\u{85}\u{9b}\u{2028}\u{202e}]){0,60}") {
            for format in [Format::Text, Format::Json, Format::Hpn] {
                for line in record(&value).lines(format) {
                    prop_assert!(!line.chars().any(|c| c.is_control() || c == '\u{2028}'), "{:?}", line);
                    match format {
                        Format::Json => {
                            let read: Value = serde_json::from_str(&line).unwrap();
                            if !value.is_empty() {
                                prop_assert_eq!(read["path"].as_str(), Some(value.as_str()));
                            }
                            prop_assert_eq!(&read["direction"], "upload");
                        }
                        Format::Text => {
                            // Outside quotes there is one value for each name.
                            prop_assert_eq!(unescaped(&line, '=', true), if value.is_empty() { 7 } else { 8 });
                        }
                        Format::Hpn => prop_assert_eq!(unescaped(&line, ';', false), 8),
                    }
                }
            }
        }
    }
}
