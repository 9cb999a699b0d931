//! Tests of UMAC: RFC 4418's vectors, the reference implementation, and forgeries.

use super::*;
use proptest::prelude::*;

const KEY: &[u8; 16] = b"abcdefghijklmnop";
const NONCE: u64 = u64::from_be_bytes(*b"bcdefghi");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// RFC 4418's appendix, with UMAC-64 in full. For UMAC-96 the RFC's tags are the first 12 bytes of the
/// 128-bit tags; the remaining bytes come from the vectors of the authors' implementation. The vector of 2^25
/// bytes is omitted, because it exceeds our limit.
#[test]
fn rfc_4418_vectors_match() {
    for (message, tag64, tag128) in [
        (Vec::new(), "6E155FAD26900BE1", "32FEDB100C79AD58F07FF7643CC60465"),
        (vec![b'a'; 3], "44B5CB542F220104", "185E4FE905CBA7BD85E4C2DC3D117D8D"),
        (vec![b'a'; 1 << 10], "26BF2F5D60118BD9", "7A54ABE04AF82D60FB298C3CBD195BCB"),
        (vec![b'a'; 1 << 15], "27F8EF643B0D118D", "7B136BD911E4B734286EF2BE501F2C3C"),
        (vec![b'a'; 1 << 20], "A4477E87E9F55853", "F8ACFA3AC31CFEEA047F7B115B03BEF5"),
        (b"abc".to_vec(), "D4D7B9F6BD4FBFCF", "883C3D4B97A61976FFCF232308CBA5A5"),
        (b"abc".repeat(500), "D4CF26DDEFD5C01A", "8824A260C53C66A36C9260A62CB83AA1"),
    ] {
        for (len, expected) in [(8, tag64), (16, tag128)] {
            let umac = Umac::new(KEY, len).unwrap();
            assert_eq!(hex(umac.tag(NONCE, &message).unwrap().as_ref()), expected, "{}", message.len());
            let slow = reference::umac(KEY, NONCE.to_be_bytes(), &message, len);
            assert_eq!(hex(&slow), expected, "reference, {}", message.len());
        }
    }
}

/// Returns bytes without a pattern that repeats at a power of two.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

#[test]
fn every_length_matches_the_reference() {
    let noise = noise(5001, 7);
    for len in [8, 16] {
        let umac = Umac::new(KEY, len).unwrap();
        for size in 0..=5000 {
            // Even and odd addresses: packets may start anywhere.
            let message = &noise[size % 2..][..size];
            let nonce = size as u64;
            let expected = reference::umac(KEY, nonce.to_be_bytes(), message, len);
            assert_eq!(umac.tag(nonce, message).unwrap().as_ref(), expected, "{size} bytes");
        }
    }
}

#[test]
fn largest_packet_matches_the_reference() {
    let message = noise(256 * 1024 + 4, 3);
    for len in [8, 16] {
        let expected = reference::umac(KEY, 9u64.to_be_bytes(), &message, len);
        assert_eq!(Umac::new(KEY, len).unwrap().tag(9, &message).unwrap().as_ref(), expected);
    }
}

#[test]
fn message_over_16_mib_is_refused() {
    let umac = Umac::new(KEY, 8).unwrap();
    let message = vec![0; MAX_MESSAGE_LEN + 1];
    assert!(umac.tag(9, &message).is_none());
    assert!(umac.tag(9, &message[1..]).is_some());
}

#[test]
fn keys_and_tags_of_other_lengths_are_refused() {
    for len in [0, 15, 17, 32] {
        assert!(Umac::new(&vec![0; len], 8).is_err(), "{len}");
    }
    for len in [0, 4, 12, 32] {
        assert!(Umac::new(KEY, len).is_err(), "{len}");
    }
}

/// Messages are padded with zeros, so the length must affect the tag by itself.
#[test]
fn zeros_at_the_end_change_the_tag() {
    for len in [8, 16] {
        let umac = Umac::new(KEY, len).unwrap();
        let mut seen = std::collections::HashSet::new();
        for size in 0..2100 {
            assert!(seen.insert(umac.tag(0, &vec![0; size]).unwrap().as_ref().to_vec()), "{size}");
        }
    }
}

#[test]
fn any_changed_bit_changes_the_tag() {
    // The second chunk is short.
    let message = noise(1100, 11);
    for len in [8, 16] {
        let umac = Umac::new(KEY, len).unwrap();
        let tag = umac.tag(5, &message).unwrap();
        let mut changed = message.clone();
        for bit in 0..message.len() * 8 {
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(umac.tag(5, &changed).unwrap().as_ref(), tag.as_ref(), "bit {bit}");
            changed[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

proptest! {
    #[test]
    fn any_key_nonce_and_message_match_the_reference(
        key in any::<[u8; 16]>(),
        nonce in any::<u64>(),
        message in proptest::collection::vec(any::<u8>(), 0..4000),
    ) {
        for len in [8, 16] {
            let tag = Umac::new(&key, len).unwrap().tag(nonce, &message).unwrap();
            prop_assert_eq!(tag.as_ref(), reference::umac(&key, nonce.to_be_bytes(), &message, len));
        }
    }

    #[test]
    fn another_key_or_nonce_changes_the_tag(
        key in any::<[u8; 16]>(),
        nonce in any::<u64>(),
        key_bit in 0usize..128,
        nonce_bit in 0u32..64,
        message in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut other_key = key;
        other_key[key_bit / 8] ^= 1 << (key_bit % 8);
        for len in [8, 16] {
            let umac = Umac::new(&key, len).unwrap();
            let tag = umac.tag(nonce, &message).unwrap();
            let moved = umac.tag(nonce ^ (1 << nonce_bit), &message).unwrap();
            prop_assert_ne!(moved.as_ref(), tag.as_ref());
            let other = Umac::new(&other_key, len).unwrap().tag(nonce, &message).unwrap();
            prop_assert_ne!(other.as_ref(), tag.as_ref());
        }
    }
}
