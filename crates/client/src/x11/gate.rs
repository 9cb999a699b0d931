//! The first message of an X11 connection: the program must present the fake cookie, which is replaced by the
//! real one.
//!
//! Its form (X Window System Protocol, "Connection Setup"): byte order, a byte, two 16-bit version numbers,
//! the lengths of the authentication's name and data, two bytes; then name and data, each padded to a
//! multiple of four.

use bytes::Bytes;
use zeroize::Zeroizing;

use super::cookie::Cookie;

/// Bytes before the name.
const HEADER: usize = 12;

/// Checks the first message of a program at the server.
pub(super) struct Gate {
    protocol: Vec<u8>,
    fake: Zeroizing<Vec<u8>>,
    real: Zeroizing<Vec<u8>>,
    /// The bytes received so far; never more than the expected message.
    seen: Zeroizing<Vec<u8>>,
}

/// Result of a check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// More bytes are needed.
    More,
    /// All received bytes, with the real cookie: for the X server.
    Pass(Bytes),
    /// The program is refused, for this reason.
    Wrong(&'static str),
}

impl Gate {
    pub(super) fn new(cookie: &Cookie, fake: &[u8]) -> Self {
        Self {
            protocol: cookie.protocol.clone().into_bytes(),
            fake: Zeroizing::new(fake.to_vec()),
            real: cookie.value.clone(),
            seen: Zeroizing::new(Vec::new()),
        }
    }

    /// Returns the number of bytes held back.
    pub(super) fn held(&self) -> usize {
        self.seen.len()
    }

    /// Checks the next bytes.
    pub(super) fn feed(&mut self, data: &[u8]) -> Step {
        self.seen.extend_from_slice(data);
        let Some(head) = self.seen.first_chunk::<HEADER>() else { return Step::More };
        let number = |at: usize| {
            let bytes = [head[at], head[at + 1]];
            usize::from(if head[0] == b'B' { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
        };
        if !matches!(head[0], b'B' | b'l') {
            return Step::Wrong("Initial packet from X11 connection contains bad byte order byte");
        }
        let (name_len, data_len) = (number(6), number(8));
        // Checked before the bytes arrive, so that a program cannot make us wait for many.
        if name_len != self.protocol.len() {
            return Step::Wrong("X11 connection uses different authentication protocol.");
        }
        if data_len != self.fake.len() {
            return Step::Wrong("X11 auth data does not match fake data.");
        }
        let data_at = HEADER + name_len.next_multiple_of(4);
        if self.seen.len() < data_at + data_len.next_multiple_of(4) {
            return Step::More;
        }
        if self.seen.get(HEADER..HEADER + name_len) != Some(&self.protocol[..]) {
            return Step::Wrong("X11 connection uses different authentication protocol.");
        }
        let Some(shown) = self.seen.get_mut(data_at..data_at + data_len) else { return Step::More };
        if !lh_crypto::constant_time_eq(shown, &self.fake) {
            return Step::Wrong("X11 auth data does not match fake data.");
        }
        shown.copy_from_slice(&self.real);
        Step::Pass(Bytes::from(std::mem::take(&mut *self.seen)))
    }
}

/// Checks a message that arrives in pieces of `piece` bytes, and the same message at once. Only one with the
/// fake cookie passes, and nothing but the cookie is changed.
#[cfg(fuzzing)]
pub(super) fn fuzz(cookie: &Cookie, message: &[u8], piece: usize) {
    let fake: Vec<u8> = cookie.value.iter().map(|byte| !byte).collect();
    let name = cookie.protocol.len().next_multiple_of(4);
    let data_at = HEADER + name;
    let mut gate = Gate::new(cookie, &fake);
    let (mut fed, mut step) = (0, Step::More);
    for part in message.chunks(piece.max(1)) {
        fed += part.len();
        step = gate.feed(part);
        if step != Step::More {
            break;
        }
        assert!(gate.held() < data_at + fake.len().next_multiple_of(4), "held without need");
    }
    if let Step::Pass(bytes) = &step {
        let mut expected = message[..fed].to_vec();
        assert_eq!(&expected[data_at..data_at + fake.len()], fake, "passed without the fake cookie");
        expected[data_at..data_at + fake.len()].copy_from_slice(&cookie.value);
        assert_eq!(&bytes[..], expected);
    }
    let at_once = match message {
        [] => Step::More,
        message => Gate::new(cookie, &fake).feed(message),
    };
    match (step, at_once) {
        (Step::Pass(some), Step::Pass(all)) => assert!(all.starts_with(&some)),
        (step, at_once) => assert_eq!(step, at_once),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REAL: [u8; 6] = [1, 2, 3, 4, 5, 6];
    const FAKE: [u8; 6] = [9, 8, 7, 6, 5, 4];

    fn gate() -> Gate {
        Gate::new(&Cookie { protocol: "MIT".to_owned(), value: Zeroizing::new(REAL.to_vec()) }, &FAKE)
    }

    fn setup(order: u8, name: &[u8], data: &[u8]) -> Vec<u8> {
        let length = |bytes: &[u8]| {
            let length = u16::try_from(bytes.len()).unwrap();
            if order == b'B' { length.to_be_bytes() } else { length.to_le_bytes() }
        };
        let mut out = vec![order, 0, 0, 11, 0, 0];
        out.extend(length(name));
        out.extend(length(data));
        out.extend([0, 0]);
        for part in [name, data] {
            out.extend(part);
            out.resize(out.len().next_multiple_of(4), 0);
        }
        out
    }

    #[test]
    fn fake_cookie_is_replaced_by_the_real_one() {
        for order in [b'B', b'l'] {
            let mut message = setup(order, b"MIT", &FAKE);
            message.extend(b"and what follows");
            let mut expected = setup(order, b"MIT", &REAL);
            expected.extend(b"and what follows");
            assert_eq!(gate().feed(&message), Step::Pass(expected.into()));
        }
    }

    #[test]
    fn other_cookies_and_protocols_are_refused() {
        let wrong = |message: &[u8]| matches!(gate().feed(message), Step::Wrong(_));
        assert!(wrong(&setup(b'l', b"MIT", &REAL)), "not even with the real one");
        assert!(wrong(&setup(b'l', b"XDM", &FAKE)));
        assert!(wrong(&setup(b'l', b"", b"")));
        assert!(wrong(&setup(b'l', b"MIT", &[0; 60_000])[..12]), "refused by the head alone");
        assert!(wrong(b"GET / HTTP/1.1\r\n"));
    }

    proptest! {
        #[test]
        fn chunk_borders_do_not_change_the_result(cut in 0usize..30, order in prop_oneof![Just(b'B'), Just(b'l')]) {
            let message = setup(order, b"MIT", &FAKE);
            let (first, rest) = message.split_at(cut.min(message.len() - 1));
            let mut gate = gate();
            prop_assert_eq!(gate.feed(first), Step::More);
            prop_assert_eq!(gate.feed(rest), Step::Pass(setup(order, b"MIT", &REAL).into()));
        }

        #[test]
        fn arbitrary_bytes_never_panic(message in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut gate = gate();
            let _ = gate.feed(&message);
            prop_assert!(gate.held() <= message.len());
        }
    }
}
