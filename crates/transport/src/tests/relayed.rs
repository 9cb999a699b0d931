//! Tests of relayed connections: a client's connection inside another one.

use std::io::IoSlice;
use std::time::Instant;

use lh_wire::PacketSink;

use super::random;
use crate::{Event, Transport, TransportError};

fn relayed() -> Transport {
    Transport::relayed(random(1), Instant::now())
}

fn output(transport: &mut Transport) -> Vec<u8> {
    transport.output(Instant::now());
    let mut slices: Vec<IoSlice<'_>> = Vec::new();
    transport.output_slices(&mut slices);
    let out: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
    transport.written(out.len());
    out
}

fn get(transport: &mut Transport, bytes: &[u8]) -> Result<Vec<Event>, TransportError> {
    let mut events = Vec::new();
    for piece in bytes.chunks(7) {
        transport.recv_space()[..piece.len()].copy_from_slice(piece);
        transport.received(piece.len());
        while let Some(event) = transport.poll(Instant::now())? {
            events.push(event);
        }
    }
    Ok(events)
}

#[test]
fn relayed_packets_are_only_framed() {
    let mut transport = relayed();
    assert_eq!(output(&mut transport), b"", "no identification, no key exchange");
    transport.payload(&[96, 0, 0, 0, 1]);
    transport.payload(&[2, 0, 0, 0, 0]);
    transport.request_rekey();
    assert_eq!(output(&mut transport), [0, 0, 0, 6, 0, 96, 0, 0, 0, 1], "only channel messages");
    transport.disconnect(11, "bye");
    assert_eq!(output(&mut transport), b"");
}

#[test]
fn relayed_packets_are_received_unencrypted() {
    let mut transport = relayed();
    let two = [&[0, 0, 0, 6, 0, 96, 0, 0, 0, 1][..], &[0, 0, 0, 2, 0, 20], &[0, 0, 0, 2, 0, 82]].concat();
    let events = get(&mut transport, &two).unwrap();
    let [Event::Packet(first), Event::Packet(second)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&first[..], &second[..]), (&[96, 0, 0, 0, 1][..], &[82][..]));
    assert!(matches!(get(&mut relayed(), &[0, 0, 0, 3, 1, 96, 0]), Err(TransportError::Padding(1))));
    for length in [[0, 0, 0, 1], [0xff; 4]] {
        let wrong = get(&mut relayed(), &[&length[..], &[0; 10]].concat());
        assert!(matches!(wrong, Err(TransportError::PacketLength { .. })));
    }
}
