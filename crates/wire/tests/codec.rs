//! The codec's guarantees: the examples of RFC 4251, malformed input is refused, and no input causes a panic.

use lh_wire::msg::{ChannelData, ChannelOpen, Disconnect, KexInit, Rest};
use lh_wire::{Message, Mpint, NameList, PacketSink, Reader, WireError, Writer};
use proptest::prelude::*;

#[test]
fn mpint_examples_of_rfc_4251() {
    let cases: [(&[u8], &[u8]); 3] = [
        (&[], &[0, 0, 0, 0]),
        (
            &[0x09, 0xa3, 0x78, 0xf9, 0xb2, 0xe3, 0x32, 0xa7],
            &[0, 0, 0, 8, 9, 0xa3, 0x78, 0xf9, 0xb2, 0xe3, 0x32, 0xa7],
        ),
        (&[0x80], &[0, 0, 0, 2, 0, 0x80]),
    ];
    for (magnitude, wire) in cases {
        let mut out = Vec::new();
        out.put_mpint(magnitude);
        assert_eq!(out, wire);
        assert_eq!(Reader::new(wire).mpint().unwrap().magnitude(), magnitude);
    }
    // The RFC's -1234 and -deadbeef, and needless leading zeros.
    for refused in [&[0, 0, 0, 2, 0xed, 0xcc][..], &[0, 0, 0, 1, 0], &[0, 0, 0, 2, 0, 1]] {
        assert_eq!(Reader::new(refused).mpint(), Err(WireError::BadMpint));
    }
}

#[test]
fn name_lists_of_rfc_4251() {
    let mut out = Vec::new();
    out.put_name_list(["zlib", "none"]);
    assert_eq!(out, b"\0\0\0\x09zlib,none");
    assert_eq!(Reader::new(&out).name_list().unwrap().iter().collect::<Vec<_>>(), ["zlib", "none"]);
    // libssh 0.10 sends the second form.
    for list in ["a,,b", "a,b,", ",a,b"] {
        assert_eq!(NameList::from_content(list.as_bytes()).unwrap().iter().collect::<Vec<_>>(), ["a", "b"]);
    }
    for bad in ["a b", "a\0"] {
        assert_eq!(NameList::from_content(bad.as_bytes()), Err(WireError::BadNameList), "{bad:?}");
    }
    assert_eq!(NameList::from_content(b"").unwrap().iter().count(), 0);
}

#[test]
fn length_beyond_the_data_is_an_error() {
    let bytes = [0xff, 0xff, 0xff, 0xff, 1, 2, 3];
    let mut reader = Reader::new(&bytes);
    assert_eq!(reader.string(), Err(WireError::Truncated { what: "string" }));
    assert_eq!(reader.remaining(), 7, "a failed read consumes nothing");
}

#[test]
fn trailing_bytes_and_wrong_numbers_are_refused() {
    let mut payload = ChannelData::new(7, b"data").to_payload();
    assert_eq!(ChannelData::decode(&payload).unwrap().data, b"data");
    payload.push(0);
    assert_eq!(ChannelData::decode(&payload), Err(WireError::TrailingBytes { count: 1 }));
    payload[0] = 95;
    assert_eq!(ChannelData::decode(&payload), Err(WireError::WrongMessage { expected: 94, got: 95 }));
}

#[test]
fn sink_slices_are_exact_and_empty_packets_dropped() {
    let mut sink: Vec<Vec<u8>> = Vec::new();
    sink.message(&Disconnect::new(11, b"bye", b""));
    PacketSink::reserve(&mut sink, &[4, 4, 4]);
    let mut slices = sink.reserved(3);
    slices[0].copy_from_slice(b"full");
    slices[1][..2].copy_from_slice(b"pa");
    sink.commit(&[4, 2, 0]);
    assert_eq!(sink.len(), 3);
    assert_eq!(sink[1..], [b"full".to_vec(), b"pa".to_vec()]);
}

proptest! {
    #[test]
    fn messages_survive_a_round_trip(kind in ".{0,20}", sender: u32, window: u32, max: u32, tail: Vec<u8>) {
        let open = ChannelOpen::new(kind.as_bytes(), sender, window, max, Rest(&tail));
        let payload = open.to_payload();
        prop_assert_eq!(ChannelOpen::decode(&payload).unwrap(), open);
    }

    #[test]
    fn every_prefix_of_a_kexinit_is_refused(cut in 0usize..60) {
        let list = NameList::from_content(b"a,b").unwrap();
        let init = KexInit::new([7; 16], list, list, list, list, list, list, list, list, list, list, false, 0);
        let payload = init.to_payload();
        let cut = cut.min(payload.len() - 1);
        prop_assert!(KexInit::decode(&payload[..cut]).is_err());
    }

    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        let _ = KexInit::decode(&bytes);
        let _ = ChannelOpen::decode(&bytes);
        let _ = Disconnect::decode(&bytes);
        let mut reader = Reader::new(&bytes);
        while reader.mpint().is_ok() && !reader.is_empty() {}
    }

    #[test]
    fn mpints_are_canonical(magnitude: Vec<u8>) {
        let mut out = Vec::new();
        out.put_mpint(&magnitude);
        let read = Reader::new(&out).mpint().unwrap();
        prop_assert_eq!(read, Mpint::from_magnitude(&magnitude));
    }
}
