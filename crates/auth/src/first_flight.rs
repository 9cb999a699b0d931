//! `first-flight@longhaul`: the server's EXT_INFO extension for clients that do not wait (docs/protocol.md).

/// The extension's name.
pub const FIRST_FLIGHT: &str = "first-flight@longhaul";

/// Word behind the window if the server generally accepts keys.
const KEYS: &str = "publickey";

/// The server's promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstFlight {
    /// Bytes of data that the first channel accepts before it is confirmed.
    pub window: u32,
    /// The server accepts keys from users in general, so that one may be offered before the methods are
    /// known.
    pub keys: bool,
}

impl FirstFlight {
    /// Window of our servers, bytes: more than a request needs, and more than twice the data that TCP sends
    /// at once on a new connection.
    pub const WINDOW: u32 = 32 << 10;

    /// Returns the extension's value.
    pub fn encode(self) -> String {
        let keys = if self.keys { format!(",{KEYS}") } else { String::new() };
        format!("{}{keys}", self.window)
    }

    /// Parses the value; unknown words are ignored.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(value).ok()?.split(',');
        let window = words.next()?.parse().ok()?;
        Some(Self { window, keys: words.any(|word| word == KEYS) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unknown_words_in_the_value_are_ignored() {
        let read = |text: &str| FirstFlight::decode(text.as_bytes());
        assert_eq!(read("32768"), Some(FirstFlight { window: 32768, keys: false }));
        assert_eq!(read("1,later,publickey"), Some(FirstFlight { window: 1, keys: true }));
        for bad in ["", "x", "-1", "4294967296", ",publickey"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn encoded_values_decode(window: u32, keys: bool) {
            let flight = FirstFlight { window, keys };
            prop_assert_eq!(FirstFlight::decode(flight.encode().as_bytes()), Some(flight));
        }

        #[test]
        fn decoding_any_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = FirstFlight::decode(&bytes);
        }
    }
}
