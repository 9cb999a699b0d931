//! `first-flight@longhaul`: what a server says in its EXT_INFO about a client that does not wait (docs/protocol.md).

/// The extension's name.
pub const FIRST_FLIGHT: &str = "first-flight@longhaul";

/// What follows the window where keys are generally welcome.
const KEYS: &str = "publickey";

/// What the server promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstFlight {
    /// Bytes of data that the first channel takes before it is confirmed.
    pub window: u32,
    /// Keys are a way to log in for users in general, so that one may be shown before the methods are known.
    pub keys: bool,
}

impl FirstFlight {
    /// Our servers take this much: more than what asks for something, and what TCP sends at once on a new connection twice.
    pub const WINDOW: u32 = 32 << 10;

    /// The extension's value.
    pub fn encode(self) -> String {
        let keys = if self.keys { format!(",{KEYS}") } else { String::new() };
        format!("{}{keys}", self.window)
    }

    /// Reads the value; words that nobody knows are passed over.
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
    fn values_with_words_of_later_versions_are_read() {
        let read = |text: &str| FirstFlight::decode(text.as_bytes());
        assert_eq!(read("32768"), Some(FirstFlight { window: 32768, keys: false }));
        assert_eq!(read("1,later,publickey"), Some(FirstFlight { window: 1, keys: true }));
        for bad in ["", "x", "-1", "4294967296", ",publickey"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(window: u32, keys: bool) {
            let flight = FirstFlight { window, keys };
            prop_assert_eq!(FirstFlight::decode(flight.encode().as_bytes()), Some(flight));
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = FirstFlight::decode(&bytes);
        }
    }
}
