//! `IPQoS`: the type of service of IP packets.

use crate::line::Arguments;
use crate::table::Value;
use crate::value_error::{Syntax, ValueError};

/// `IPQoS`: DSCP or type-of-service values for interactive and bulk traffic; `None` keeps the system's
/// default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IpQos {
    /// Value for sessions with a terminal.
    pub interactive: Option<u8>,
    /// Value for all other connections.
    pub bulk: Option<u8>,
}

const QOS_NAMES: &[(&str, u8)] = &[
    ("af11", 0x28),
    ("af12", 0x30),
    ("af13", 0x38),
    ("af21", 0x48),
    ("af22", 0x50),
    ("af23", 0x58),
    ("af31", 0x68),
    ("af32", 0x70),
    ("af33", 0x78),
    ("af41", 0x88),
    ("af42", 0x90),
    ("af43", 0x98),
    ("cs0", 0x00),
    ("cs1", 0x20),
    ("cs2", 0x40),
    ("cs3", 0x60),
    ("cs4", 0x80),
    ("cs5", 0xa0),
    ("cs6", 0xc0),
    ("cs7", 0xe0),
    ("ef", 0xb8),
    ("le", 0x04),
    ("va", 0xb0),
    ("lowdelay", 0x10),
    ("throughput", 0x08),
    ("reliability", 0x04),
];

fn qos(word: &str) -> Option<Option<u8>> {
    if word.eq_ignore_ascii_case("none") {
        return Some(None);
    }
    if let Some((_, value)) = QOS_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
        return Some(Some(*value));
    }
    let value = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(hex) => u8::from_str_radix(hex, 16).ok()?,
        // As in C's strtol: a leading 0 stands for octal digits.
        None if word.len() > 1 && word.starts_with('0') => u8::from_str_radix(word, 8).ok()?,
        None => word.parse().ok()?,
    };
    Some(Some(value))
}

fn qos_word(value: Option<u8>) -> String {
    match value {
        None => "none".to_string(),
        Some(value) => QOS_NAMES
            .iter()
            .find(|(_, known)| *known == value)
            .map_or_else(|| format!("0x{value:02x}"), |(name, _)| name.to_string()),
    }
}

impl Value for IpQos {
    const KIND: &'static str = "one or two DSCP names or numbers";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let first = args.required()?;
        let interactive = qos(&first).ok_or_else(|| args.malformed(Syntax::Quantity, &first))?;
        let bulk = match args.next_word() {
            None => interactive,
            Some(word) => qos(&word).ok_or_else(|| args.malformed(Syntax::Quantity, &word))?,
        };
        Ok(Self { interactive, bulk })
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {} {}", qos_word(self.interactive), qos_word(self.bulk)));
    }
}
