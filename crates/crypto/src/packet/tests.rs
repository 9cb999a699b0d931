//! Tests of every suite against an independent implementation, and of the guarantees of [`PacketKey`].

use super::*;
use proptest::prelude::*;

/// Returns every cipher alone, or with every MAC that it can be negotiated with; includes those that do not
/// encrypt.
fn suites() -> Vec<(&'static Cipher, Option<&'static Mac>)> {
    let mut suites = Vec::new();
    for cipher in Cipher::ALL.iter().chain([Cipher::INTEGRITY_ONLY, Cipher::NONE]) {
        if cipher.is_aead() {
            suites.push((cipher, None));
        } else {
            suites.extend(Mac::ALL.iter().map(|mac| (cipher, Some(mac))));
        }
    }
    suites
}

/// Returns key and MAC key.
fn material(cipher: &Cipher, mac: Option<&Mac>, seed: u8) -> (Vec<u8>, Vec<u8>) {
    let key = (0..cipher.key_len).map(|at| at as u8 ^ seed).collect();
    (key, vec![seed; mac.map_or(0, |mac| mac.key_len)])
}

fn keys(cipher: &Cipher, mac: Option<&Mac>, seed: u8) -> (PacketKey, PacketKey) {
    let (key, mac_key) = material(cipher, mac, seed);
    let iv: Vec<u8> = (0..cipher.iv_len).map(|at| 0xff ^ at as u8 ^ seed).collect();
    let make = |direction| PacketKey::new(direction, cipher, mac, &key, &iv, &mac_key).unwrap();
    (make(Direction::Seal), make(Direction::Open))
}

/// Returns a plain packet with space for the tag.
fn packet(key: &PacketKey, payload: &[u8]) -> Vec<u8> {
    let covered = 1 + payload.len() + if key.length_is_padded() { 4 } else { 0 };
    let mut padding = key.block_len() - covered % key.block_len();
    if padding < 4 {
        padding += key.block_len();
    }
    let length = 1 + payload.len() + padding;
    let mut packet = u32::try_from(length).unwrap().to_be_bytes().to_vec();
    packet.push(padding as u8);
    packet.extend_from_slice(payload);
    packet.resize(packet.len() + padding + key.tag_len(), 0x5a);
    packet
}

/// Returns the indices of consecutive packets.
fn indices(key: &PacketKey, packets: &[Vec<u8>], first_seq: u32) -> Vec<PacketIndex> {
    let mut index = PacketIndex { seq: first_seq, invocation: 0, offset: 0 };
    packets
        .iter()
        .map(|packet| {
            let this = index;
            index.seq = index.seq.wrapping_add(1);
            index.invocation += 1;
            index.offset += key.encrypted_len(packet.len() - key.tag_len());
            this
        })
        .collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let text = text.trim_start_matches('-');
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// `packets.py` in `tests/vectors` generated `packets.txt` with python3-cryptography.
#[test]
fn sealed_packets_match_an_independent_implementation() {
    let mut seen = std::collections::HashSet::new();
    for line in include_str!("../../tests/vectors/packets.txt").lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [cipher, mac, key, iv, mac_key, seq, invocation, offset, plain, sealed] = fields[..] else {
            panic!("{line}");
        };
        seen.insert((cipher, mac));
        let mac = Mac::by_name(mac);
        let cipher =
            suites().into_iter().map(|(each, _)| each).find(|each| each.name == cipher).expect("a cipher");
        let make = |direction| {
            PacketKey::new(direction, cipher, mac, &unhex(key), &unhex(iv), &unhex(mac_key)).unwrap()
        };
        let index = PacketIndex {
            seq: seq.parse().unwrap(),
            invocation: invocation.parse().unwrap(),
            offset: offset.parse().unwrap(),
        };
        let (plain, sealed) = (unhex(plain), unhex(sealed));

        let mut ours = plain.clone();
        ours.resize(sealed.len(), 0);
        make(Direction::Seal).seal(&index, &mut ours).unwrap();
        assert_eq!(ours, sealed, "{line}");

        let opening = make(Direction::Open);
        assert_eq!(
            opening.packet_length(&index, &sealed[..opening.head_len()]) as usize + 4 + opening.tag_len(),
            sealed.len()
        );
        opening.open(&index, &mut ours).unwrap();
        assert_eq!(ours[..plain.len()], plain, "{line}");
    }
    assert_eq!(seen.len(), suites().len(), "every suite has a vector");
}

#[test]
fn any_changed_bit_of_a_packet_is_detected() {
    for (cipher, mac) in suites() {
        let (sealing, opening) = keys(cipher, mac, 7);
        let index = PacketIndex { seq: 3, invocation: 3, offset: 480 };
        let mut sealed = packet(&sealing, b"some payload");
        sealing.seal(&index, &mut sealed).unwrap();
        // The frame is given here, so a change in the length field must invalidate the tag.
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // A refused packet advances a serial suite, so it gets a new key.
            let opening = if opening.is_serial() { &keys(cipher, mac, 7).1 } else { &opening };
            assert_eq!(
                opening.open(&index, &mut changed),
                Err(OpenError),
                "{} {mac:?} bit {bit}",
                cipher.name
            );
        }
        opening.open(&index, &mut sealed).unwrap();
    }
}

#[test]
fn packet_at_another_index_is_refused() {
    for (cipher, mac) in suites() {
        let (sealing, opening) = keys(cipher, mac, 7);
        let index = PacketIndex { seq: 3, invocation: 3, offset: 480 };
        let mut sealed = packet(&sealing, b"some payload");
        sealing.seal(&index, &mut sealed).unwrap();
        let moved = PacketIndex { seq: 4, invocation: 4, offset: 960 };
        assert_eq!(opening.open(&moved, &mut sealed.clone()), Err(OpenError), "{}", cipher.name);
    }
}

#[test]
fn invalid_lengths_are_refused_without_panic() {
    for (cipher, mac) in suites() {
        let (sealing, opening) = keys(cipher, mac, 7);
        let index = PacketIndex::default();
        for len in 0..200 {
            assert!(opening.open(&index, &mut vec![0; len]).is_err(), "{} {len}", cipher.name);
            if len < 4 + sealing.tag_len() {
                assert!(sealing.seal(&index, &mut vec![0; len]).is_err(), "{} {len}", cipher.name);
            }
            let head = vec![0; len.min(3)];
            assert_eq!(opening.packet_length(&index, &head), 0);
        }
    }
    assert!(PacketKey::plain().open(&PacketIndex::default(), &mut [0; 3]).is_err());
}

#[test]
fn wrong_key_material_is_refused() {
    for (cipher, mac) in suites() {
        let (key, iv) = (vec![0; cipher.key_len], vec![0; cipher.iv_len]);
        let mac_key = vec![0; mac.map_or(0, |mac| mac.key_len)];
        for direction in [Direction::Seal, Direction::Open] {
            let key_of_another = vec![0; cipher.key_len + 1];
            assert!(PacketKey::new(direction, cipher, mac, &key_of_another, &iv, &mac_key).is_err());
            if cipher.iv_len > 0 {
                assert!(PacketKey::new(direction, cipher, mac, &key, &iv[1..], &mac_key).is_err());
            }
            if mac.is_some() {
                assert!(PacketKey::new(direction, cipher, mac, &key, &iv, &mac_key[1..]).is_err());
                assert!(PacketKey::new(direction, cipher, None, &key, &iv, &mac_key).is_err());
            }
        }
    }
}

/// Covers: wire aes128-gmac@longhaul; wire none (cipher); wire none (MAC)
#[test]
fn unencrypted_ciphers_are_not_found_by_name() {
    for name in ["none", "aes128-gmac@longhaul"] {
        assert_eq!((Cipher::by_name(name), Mac::by_name(name)), (None, None), "{name}");
    }
    assert!(Cipher::ALL.iter().all(Cipher::encrypts));
    assert!(!Cipher::INTEGRITY_ONLY.encrypts() && !Cipher::NONE.encrypts());
    // The MAC `none` is only valid with the cipher `none`.
    for cipher in Cipher::ALL.iter().filter(|cipher| !cipher.is_aead()) {
        let (key, iv) = (vec![0; cipher.key_len], vec![0; cipher.iv_len]);
        assert!(PacketKey::new(Direction::Seal, cipher, Some(Mac::NONE), &key, &iv, &[]).is_err());
    }
    let nothing =
        |direction| PacketKey::new(direction, Cipher::NONE, Some(Mac::NONE), &[], &[], &[]).unwrap();
    let (sealing, opening) = (nothing(Direction::Seal), nothing(Direction::Open));
    let plain = packet(&sealing, b"as it is");
    let mut sealed = plain.clone();
    sealing.seal(&PacketIndex::default(), &mut sealed).unwrap();
    assert_eq!(sealed, plain);
    assert_eq!(plain.len() % 8, 0, "the length field counts as padded, as in RFC 4253 section 6");
    opening.open(&PacketIndex::default(), &mut sealed).unwrap();
}

#[test]
fn key_for_the_other_direction_is_refused() {
    let (sealing, opening) = keys(&Cipher::ALL[0], None, 1);
    let mut sealed = packet(&sealing, b"x");
    assert!(opening.seal(&PacketIndex::default(), &mut sealed).is_err());
    assert!(sealing.open(&PacketIndex::default(), &mut sealed).is_err());
}

/// The chain of a serial suite runs through all packets, and another key can continue it at any packet.
#[test]
fn serial_suites_chain_all_packets() {
    let mut serial = 0;
    for (cipher, mac) in suites() {
        let (mut sealing, mut opening) = keys(cipher, mac, 9);
        if !sealing.is_serial() {
            assert_eq!(sealing.chain(), None);
            continue;
        }
        serial += 1;
        let plain: Vec<Vec<u8>> = (0..20).map(|n| packet(&sealing, &vec![n as u8; n * 37])).collect();
        let places = indices(&sealing, &plain, 0);
        let mut seen = std::collections::HashSet::new();
        for (at, (index, plain)) in places.iter().zip(&plain).enumerate() {
            if at % 5 == 4 {
                let again = |direction, key: &PacketKey| {
                    let (key_bytes, mac_key) = material(cipher, mac, 9);
                    let iv = key.chain().unwrap();
                    PacketKey::new(direction, cipher, mac, &key_bytes, &iv, &mac_key).unwrap()
                };
                sealing = again(Direction::Seal, &sealing);
                opening = again(Direction::Open, &opening);
            }
            let mut sealed = plain.clone();
            sealing.seal(index, &mut sealed).unwrap();
            assert!(seen.insert(sealing.chain().unwrap()));
            // Reading the length does not advance the chain.
            for _ in 0..2 {
                let length = opening.packet_length(index, &sealed[..opening.head_len()]);
                assert_eq!(length as usize + 4 + opening.tag_len(), sealed.len());
            }
            opening.open(index, &mut sealed).unwrap();
            let len = plain.len() - sealing.tag_len();
            assert_eq!(sealed[..len], plain[..len], "{} {mac:?}", cipher.name);
            assert_eq!(sealing.chain(), opening.chain());
        }
    }
    assert_eq!(serial, 4 * Mac::ALL.len());
}

/// Only suites in which the moment of a refusal reveals bits of a packet must conceal that moment.
#[test]
fn errors_are_concealed_with_cbc_and_plaintext_mac() {
    for (cipher, mac) in suites() {
        let opening = keys(cipher, mac, 1).1;
        let etm = mac.is_none_or(|mac| mac.etm);
        assert_eq!(opening.conceals_errors(), opening.is_serial() && !etm, "{} {mac:?}", cipher.name);
        assert_eq!(opening.is_serial(), cipher.is_legacy());
    }
}

/// `Send` and `Sync` let workers share a key.
#[test]
fn keys_are_shared_between_threads() {
    const fn check<T: Send + Sync>() {}
    check::<PacketKey>();

    for (cipher, mac) in suites() {
        let (sealing, opening) = keys(cipher, mac, 42);
        if sealing.is_serial() {
            continue;
        }
        let plain: Vec<Vec<u8>> =
            (0..16u8).map(|n| packet(&sealing, &vec![n; usize::from(n) * 70])).collect();
        let places = indices(&sealing, &plain, 5);
        let mut serial = plain.clone();
        for (index, packet) in places.iter().zip(&mut serial) {
            sealing.seal(index, packet).unwrap();
        }
        let mut parallel = plain.clone();
        std::thread::scope(|scope| {
            for (index, packet) in places.iter().zip(&mut parallel).rev() {
                scope.spawn(|| sealing.seal(index, packet).unwrap());
            }
        });
        assert_eq!(parallel, serial, "{}", cipher.name);
        std::thread::scope(|scope| {
            for (index, packet) in places.iter().zip(&mut parallel).rev() {
                scope.spawn(|| opening.open(index, packet).unwrap());
            }
        });
        for (opened, plain) in parallel.iter().zip(&plain) {
            let len = plain.len() - sealing.tag_len();
            assert_eq!(opened[..len], plain[..len], "{}", cipher.name);
        }
    }
}

#[test]
fn key_limits_prevent_repeated_sequence_numbers() {
    for (cipher, mac) in suites() {
        let limits = keys(cipher, mac, 0).0.limits();
        assert!(limits.packets < 1 << 32);
        assert!(limits.bytes <= (1 << 32) * 16);
    }
}

proptest! {
    #[test]
    fn sealed_packets_open_in_any_order(
        payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..6),
        first_seq in any::<u32>(),
        seed in any::<u8>(),
        rotate in 0usize..6,
    ) {
        for (cipher, mac) in suites() {
            let (sealing, opening) = keys(cipher, mac, seed);
            if sealing.is_serial() {
                continue;
            }
            let plain: Vec<Vec<u8>> = payloads.iter().map(|payload| packet(&sealing, payload)).collect();
            let mut work: Vec<(PacketIndex, Vec<u8>, &Vec<u8>)> = indices(&sealing, &plain, first_seq)
                .into_iter()
                .zip(&plain)
                .map(|(index, plain)| (index, plain.clone(), plain))
                .collect();
            let by = rotate % work.len();
            work.rotate_left(by);
            for (index, packet, _) in &mut work {
                sealing.seal(index, packet).unwrap();
            }
            work.reverse();
            for (index, packet, plain) in &mut work {
                let length = opening.packet_length(index, &packet[..opening.head_len()]);
                prop_assert_eq!(length as usize + 4 + opening.tag_len(), packet.len());
                opening.open(index, packet).unwrap();
                let len = plain.len() - sealing.tag_len();
                prop_assert_eq!(&packet[..len], &plain[..len]);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_open(bytes in proptest::collection::vec(any::<u8>(), 0..400), seq in any::<u32>()) {
        for (cipher, mac) in suites() {
            let (_, opening) = keys(cipher, mac, 1);
            let index = PacketIndex { seq, invocation: 0, offset: 0 };
            let _ = opening.packet_length(&index, &bytes);
            prop_assert!(opening.open(&index, &mut bytes.clone()).is_err());
        }
    }
}
