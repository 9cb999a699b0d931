//! The messages that a sequence inserts: every message of the protocol, valid and slightly invalid.

use lh_wire::Writer;

use crate::client::kexinit;

/// A message by its name in the reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message(usize);

/// The defect of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// No defect.
    Right,
    /// Its last byte is missing.
    Short,
    /// An additional byte follows.
    Long,
    /// The first length field is larger than any packet.
    Lying,
}

impl Variant {
    /// All defects.
    pub const ALL: [Self; 4] = [Self::Right, Self::Short, Self::Long, Self::Lying];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Short => "short",
            Self::Long => "long",
            Self::Lying => "lying",
        }
    }
}

/// Fields of a message.
enum Field {
    Byte(u8),
    Number(u32),
    Text(&'static str),
}

use Field::{Byte, Number, Text};

/// Name, number and fields. Channel 9 is not open; channel 0 is the server's session channel.
const MESSAGES: &[(&str, u8, &[Field])] = &[
    ("zero", 0, &[]),
    ("ignore", 2, &[Text("x")]),
    ("unimplemented", 3, &[Number(0)]),
    ("debug", 4, &[Byte(0), Text("x"), Text("")]),
    ("service-userauth", 5, &[Text("ssh-userauth")]),
    ("service-connection", 5, &[Text("ssh-connection")]),
    ("service-other", 5, &[Text("x")]),
    ("service-accept", 6, &[Text("ssh-userauth")]),
    ("ext-info", 7, &[Number(1), Text("ext-info-in-auth@openssh.com"), Text("0")]),
    ("newcompress", 8, &[]),
    ("unassigned-transport", 19, &[]),
    ("kexinit", 20, &[]),
    ("newkeys", 21, &[]),
    ("kex-30", 30, &[Text("abcdefghijklmnopqrstuvwxyz012345")]),
    ("kex-31", 31, &[Text("x"), Text("y"), Text("z")]),
    ("kex-34", 34, &[Number(2048), Number(2048), Number(8192)]),
    ("none", 50, &[Text("root"), Text("ssh-connection"), Text("none")]),
    ("none-other-user", 50, &[Text("x"), Text("ssh-connection"), Text("none")]),
    ("none-other-service", 50, &[Text("root"), Text("x"), Text("none")]),
    ("password", 50, &[Text("root"), Text("ssh-connection"), Text("password"), Byte(0), Text("wrong")]),
    (
        "password-change",
        50,
        &[Text("root"), Text("ssh-connection"), Text("password"), Byte(1), Text("wrong"), Text("new")],
    ),
    (
        "key-query",
        50,
        &[
            Text("root"),
            Text("ssh-connection"),
            Text("publickey"),
            Byte(0),
            Text("ssh-ed25519"),
            Text("no key"),
        ],
    ),
    (
        "keyboard-interactive",
        50,
        &[Text("root"), Text("ssh-connection"), Text("keyboard-interactive"), Text(""), Text("")],
    ),
    ("unknown-method", 50, &[Text("root"), Text("ssh-connection"), Text("x")]),
    ("auth-failure", 51, &[Text("none"), Byte(0)]),
    ("auth-success", 52, &[]),
    ("banner", 53, &[Text("x"), Text("")]),
    ("pk-ok", 60, &[Text("ssh-ed25519"), Text("x")]),
    ("info-response", 61, &[Number(1), Text("x")]),
    ("gss-mic", 66, &[Text("x")]),
    ("unassigned-auth", 79, &[]),
    ("global-request", 80, &[Text("x@longhaul"), Byte(1)]),
    ("tcpip-forward", 80, &[Text("tcpip-forward"), Byte(1), Text("127.0.0.1"), Number(0)]),
    ("request-success", 81, &[]),
    ("request-failure", 82, &[]),
    ("open-session", 90, &[Text("session"), Number(7), Number(65536), Number(32768)]),
    ("open-unknown", 90, &[Text("x@longhaul"), Number(8), Number(65536), Number(32768)]),
    ("open-confirmation", 91, &[Number(9), Number(9), Number(65536), Number(32768)]),
    ("open-failure", 92, &[Number(9), Number(1), Text("x"), Text("")]),
    ("window-adjust", 93, &[Number(9), Number(1)]),
    ("data", 94, &[Number(9), Text("x")]),
    ("extended-data", 95, &[Number(9), Number(1), Text("x")]),
    ("eof", 96, &[Number(9)]),
    ("close", 97, &[Number(9)]),
    ("channel-request", 98, &[Number(9), Text("exec"), Byte(1), Text("true")]),
    ("channel-success", 99, &[Number(9)]),
    ("channel-failure", 100, &[Number(9)]),
    ("data-on-session", 94, &[Number(0), Text("x")]),
    ("window-overflow", 93, &[Number(0), Number(u32::MAX)]),
    ("unknown-request-on-session", 98, &[Number(0), Text("x@longhaul"), Byte(1)]),
    ("unassigned-connection", 127, &[]),
    ("unassigned-reserved", 128, &[]),
    ("ping", 192, &[Text("x")]),
    ("pong", 193, &[Text("x")]),
    ("last-number", 255, &[]),
];

impl Message {
    /// Every message.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..MESSAGES.len()).map(Self)
    }

    /// Number of messages.
    pub const COUNT: usize = MESSAGES.len();

    /// Returns the message at an index below [`COUNT`](Self::COUNT).
    pub const fn at(place: usize) -> Self {
        Self(place)
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        MESSAGES[self.0].0
    }

    /// Returns the message number.
    pub fn number(self) -> u8 {
        MESSAGES[self.0].1
    }

    /// The payload.
    pub fn payload(self, variant: Variant) -> Vec<u8> {
        let (_, number, fields) = MESSAGES[self.0];
        let mut payload = vec![number];
        for field in fields {
            match field {
                Byte(byte) => payload.put_u8(*byte),
                Number(number) => payload.put_u32(*number),
                Text(text) => payload.put_string(text.as_bytes()),
            }
        }
        if number == 20 {
            payload = kexinit(&["curve25519-sha256"]);
        }
        match variant {
            Variant::Right => {}
            Variant::Short => payload.truncate((payload.len() - 1).max(1)),
            Variant::Long => payload.push(0),
            Variant::Lying => {
                let at = if number == 20 { 17 } else { 1 };
                payload.resize(payload.len().max(at + 4), 0);
                payload[at..at + 4].fill(0xff);
            }
        }
        payload
    }
}
