//! Tests of keeping sent messages and sending them again on another connection.

use lh_crypto::{Cipher, Mac};
use lh_resume::CountError;

use super::*;
use crate::{FreezeError, ResumeError, Unencrypted};

const BUDGET: usize = 4 << 20;

/// Returns a pair whose ends keep what they send.
fn retaining(mut pair: Pair) -> Pair {
    pair.client.transport.retain(BUDGET).unwrap();
    pair.server.transport.retain(BUDGET).unwrap();
    pair
}

fn with_suite(cipher: &str, mac: &str) -> Pair {
    let (mut client, mut server) = (Config::client(), server_config());
    set_cipher(&mut client, cipher, mac);
    set_cipher(&mut server, cipher, mac);
    retaining(Pair::established(client, server))
}

/// Discards the client's output instead of writing it to the link.
fn lose(end: &mut End, now: Instant) -> usize {
    end.transport.output(now);
    let mut slices = Vec::new();
    end.transport.output_slices(&mut slices);
    let total = slices.iter().map(|slice| slice.len()).sum();
    end.transport.written(total);
    total
}

/// Queues packets in every way: alone, several at once, shortened, long ones in place.
fn queue(end: &mut End, numbers: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    let sizes = [0, 1, 7, 100, 3000, 40_000];
    let payloads: Vec<Vec<u8>> = numbers.map(|number| numbered(number, sizes[number % 6])).collect();
    for pair in payloads.chunks(2) {
        // Messages that are not counted are in between.
        end.send(&[2, 0, 0, 0, 0]);
        match pair {
            [one, two] => {
                end.transport.reserve(&[one.len(), two.len() + 50]);
                let mut slices = end.transport.reserved(2);
                slices[0].copy_from_slice(one);
                slices[1][..two.len()].copy_from_slice(two);
                end.transport.commit(&[one.len(), two.len()]);
            }
            rest => rest.iter().for_each(|payload| end.send(payload)),
        }
    }
    payloads
}

/// Resumes the client of `old` on a new connection, and returns what its server gets.
fn received_again(old: &mut Pair, received: u64) -> Vec<Vec<u8>> {
    let mut new = Pair::established(Config::client(), server_config());
    new.client.transport.resume_from(&mut old.client.transport, received).unwrap();
    assert!(!old.client.transport.is_resumable());
    new.drive();
    new.assert_well();
    let (acknowledged, sent) = new.client.transport.message_counts().unwrap();
    assert_eq!((acknowledged, sent - received), (received, new.server.packets.len() as u64));
    // It is kept until it is acknowledged here, and can be lost once more.
    new.client.transport.link_lost();
    let mut third = Pair::established(Config::client(), server_config());
    third.client.transport.resume_from(&mut new.client.transport, received).unwrap();
    third.drive();
    assert!(third.server.packets == new.server.packets, "the second time");
    third.client.transport.acknowledge(sent).unwrap();
    assert_eq!(third.client.transport.retained_bytes(), 0);
    third.exchange(&[1, 1000]);
    new.server.packets
}

/// Loses messages in all states that they can be in, and checks that they arrive on the next connection.
fn check_resumption(mut pair: Pair, what: &str) {
    let now = pair.clock.now();
    let mut all = queue(&mut pair.client, 0..24);
    pair.drive();
    assert!(pair.server.packets.iter().filter(|payload| payload[0] == 94).eq(&all), "{what}");
    pair.client.transport.acknowledge(11).unwrap();
    // The packets are in three states: written, sealed but not written, laid out but not sealed.
    all.extend(queue(&mut pair.client, 24..40));
    lose(&mut pair.client, now);
    all.extend(queue(&mut pair.client, 40..47));
    pair.client.transport.output(now);
    all.extend(queue(&mut pair.client, 47..50));
    pair.client.transport.link_lost();
    // Queued while there is no connection; the second is not counted.
    for payload in [&[90, 1, 2][..], &[192, 0, 0, 0, 0], &[97, 3]] {
        pair.client.send(payload);
    }
    all.extend([vec![90, 1, 2], vec![97, 3]]);
    assert!(pair.client.transport.is_resumable());
    assert_eq!(pair.client.transport.message_counts(), Some((11, 52)), "{what}");
    let received = received_again(&mut pair, 13);
    assert!(received == all[13..], "{what}");
}

#[test]
fn lost_packets_of_every_suite_are_sent_again() {
    for cipher in Cipher::ALL {
        for mac in Mac::ALL {
            check_resumption(with_suite(cipher.name, mac.name), &format!("{} {}", cipher.name, mac.name));
            if cipher.is_aead() {
                break;
            }
        }
    }
}

#[test]
fn lost_unencrypted_packets_are_sent_again() {
    for (integrity_only, without_mac) in [(true, false), (false, false), (false, true)] {
        let mut pair = Pair::new(Config { integrity_only, ..Config::client() }, server_config());
        pair.client.transport.set_unencrypted(Unencrypted::Wanted { without_mac });
        pair.server.transport.set_unencrypted(Unencrypted::Allowed { without_mac });
        pair.establish();
        pair.client.transport.request_rekey();
        pair.drive();
        assert!(!pair.client.transport.is_encrypted());
        check_resumption(retaining(pair), "none");
    }
}

#[test]
fn lost_compressed_packets_are_sent_again() {
    for name in ["zlib", "zlib@openssh.com"] {
        let (mut client, mut server) = (Config::client(), server_config());
        set_compression(&mut client, name);
        set_compression(&mut server, name);
        check_resumption(retaining(Pair::established(client, server)), name);
    }
}

#[test]
fn packets_under_several_keys_are_sent_again() {
    for (cipher, compression) in [
        ("aes128-gcm@openssh.com", "none"),
        ("aes256-ctr", "none"),
        ("aes128-cbc", "none"),
        ("aes128-ctr", "zlib"),
    ] {
        let (mut client, mut server) = (Config::client(), server_config());
        for config in [&mut client, &mut server] {
            set_cipher(config, cipher, "hmac-sha2-256");
            set_compression(config, compression);
        }
        let mut pair = retaining(Pair::established(client, server));
        let mut all = Vec::new();
        for round in 0..4 {
            all.extend(queue(&mut pair.client, round * 10..round * 10 + 10));
            pair.client.transport.request_rekey();
            // Held back by the exchange.
            pair.client.send(&[98, round as u8]);
            all.push(vec![98, round as u8]);
            pair.drive();
            pair.assert_well();
        }
        assert_eq!(pair.client.transport.send.retention().unwrap().generations(), 5);
        pair.client.transport.acknowledge(23).unwrap();
        assert_eq!(pair.client.transport.send.retention().unwrap().generations(), 3);
        pair.client.transport.request_rekey();
        pair.client.send(&[98, 9]);
        all.push(vec![98, 9]);
        pair.client.transport.link_lost();
        assert!(received_again(&mut pair, 30) == all[30..], "{cipher}");
    }
}

#[test]
fn acknowledged_memory_is_used_again() {
    let mut pair = retaining(Pair::established(Config::client(), server_config()));
    let footprint =
        |pair: &Pair| pair.client.transport.send.footprint() + pair.client.transport.retained_bytes();
    let payload = numbered(1, 64 * 1024);
    let mut count = 0;
    let mut most = 0;
    for _ in 0..40 {
        while pair.client.transport.can_send_bulk() {
            pair.client.send(&payload);
            count += 1;
            pair.step();
            most = most.max(footprint(&pair));
        }
        pair.drive();
        assert!(pair.client.transport.retained_bytes() >= BUDGET);
        // The sender continues when memory is free again.
        pair.client.transport.acknowledge(count).unwrap();
        assert!(pair.client.transport.can_send_bulk());
    }
    assert!(count > 40 * 60 && most < BUDGET + (2 << 20), "{count} packets, {most} bytes");
    // A quiet connection frees the memory.
    for number in 0..40 {
        pair.client.send(&numbered(number, 10));
        pair.drive();
        count += 1;
        pair.client.transport.acknowledge(count).unwrap();
    }
    assert!(footprint(&pair) <= 64 * 1024, "{}", footprint(&pair));
}

#[test]
fn keystrokes_keep_small_slabs_only() {
    let mut pair = retaining(Pair::established(Config::client(), server_config()));
    for number in 0..5000_u64 {
        pair.client.send(&numbered(1, 20));
        pair.drive();
        // The acknowledgement is always twenty messages behind, so some messages are kept at every moment.
        pair.client.transport.acknowledge(number.saturating_sub(20)).unwrap();
        let kept = pair.client.transport.retained_bytes() + pair.client.transport.send.footprint();
        assert!(kept <= 96 * 1024, "{kept} bytes after {number} keys");
    }
}

#[test]
fn impossible_counts_are_refused() {
    let mut pair = retaining(Pair::established(Config::client(), server_config()));
    queue(&mut pair.client, 0..10);
    pair.drive();
    pair.client.transport.acknowledge(5).unwrap();
    let not_sent = ResumeError::Count(CountError::NotSent { count: 11, sent: 10 });
    assert_eq!(pair.client.transport.acknowledge(11), Err(not_sent.clone()));
    let taken_back = ResumeError::Count(CountError::TakenBack { count: 4, acknowledged: 5 });
    assert_eq!(pair.client.transport.acknowledge(4), Err(taken_back));
    pair.client.transport.link_lost();
    let mut new = Pair::established(Config::client(), server_config());
    assert_eq!(new.client.transport.resume_from(&mut pair.client.transport, 11), Err(not_sent));
    assert!(pair.client.transport.is_resumable(), "unchanged");
    new.client.transport.resume_from(&mut pair.client.transport, 10).unwrap();
}

/// An attacker on the path can cause no more than a break.
#[test]
fn falsified_packets_are_a_break() {
    for (cipher, resumable) in [("aes128-gcm@openssh.com", true), ("aes128-ctr", true), ("aes128-cbc", false)]
    {
        let mut pair = with_suite(cipher, "hmac-sha2-256");
        let sent = pair.link.down.sent();
        pair.link.down.set_tap(move |before, bytes| {
            if before >= sent {
                bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
            }
        });
        for number in 0..20 {
            pair.server.send(&numbered(number, 30_000));
        }
        pair.drive();
        assert!(pair.client.error.as_ref().unwrap().is_break(), "{:?}", pair.client.error);
        assert_eq!(pair.client.transport.is_resumable(), resumable, "{cipher}");
        assert_eq!(pair.server.disconnected().is_some(), !resumable, "{cipher}");
    }
}

#[test]
fn ended_connections_are_not_resumable() {
    // The peer breaks the rules.
    let mut pair = retaining(Pair::established(Config::client(), server_config()));
    pair.server.send(&[1, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0]);
    pair.drive();
    assert_eq!(pair.client.disconnected(), Some(11));
    assert!(!pair.client.transport.is_resumable());
    pair.client.transport.link_lost();
    assert!(!pair.client.transport.is_resumable());
    // Nothing was kept.
    let mut pair = Pair::established(Config::client(), server_config());
    pair.client.transport.link_lost();
    pair.exchange(&[5]);
    assert_eq!(pair.client.transport.message_counts(), None);
    assert_eq!(pair.client.transport.acknowledge(0), Err(ResumeError::NotResumable));
}

#[test]
fn a_peer_that_acknowledges_nothing_is_given_up() {
    let mut pair = retaining(Pair::established(Config::client(), server_config()));
    let payload = numbered(1, 64 * 1024);
    for _ in 0..500 {
        // These are answers, not bulk data, which would wait.
        pair.client.send(&payload);
        pair.drive();
    }
    let wanted = TransportError::TooMany("messages without acknowledging ours");
    assert_eq!(pair.client.error, Some(wanted));
    assert!(!pair.client.transport.is_resumable());
    assert_eq!(pair.server.disconnected(), Some(2));
}

#[test]
fn jobs_come_back_before_a_session_resumes() {
    let mut pair = retaining(Pair::established(Config::client(), server_config()));
    pair.client.transport.set_workers(true);
    let all: Vec<Vec<u8>> = (0..30).map(|number| numbered(number, 30_000)).collect();
    all.iter().for_each(|payload| pair.client.send(payload));
    pair.client.transport.output(pair.clock.now());
    let mut job = pair.client.transport.next_job().unwrap();
    pair.client.transport.link_lost();
    let mut new = Pair::established(Config::client(), server_config());
    let busy = new.client.transport.resume_from(&mut pair.client.transport, 0);
    assert_eq!(busy, Err(ResumeError::Busy));
    job.run();
    pair.client.transport.finish_job(job);
    assert!(received_again(&mut pair, 0) == all);
}

/// Only corrupted memory causes this error. No connection can then carry the session.
#[test]
fn a_kept_packet_that_cannot_be_opened_is_final() {
    let mut pair = retaining(Pair::established(Config::client(), server_config()));
    for number in 0..30 {
        pair.client.send(&numbered(number, 30_000));
    }
    pair.drive();
    pair.client.transport.send.retention_mut().unwrap().corrupt();
    pair.client.transport.link_lost();
    let mut errors = Vec::new();
    for _ in 0..2 {
        let mut new = Pair::established(Config::client(), server_config());
        errors.extend(new.client.transport.resume_from(&mut pair.client.transport, 0).err());
    }
    assert_eq!(errors, [ResumeError::Lost, ResumeError::NotResumable]);
    assert!(errors.iter().all(ResumeError::is_final) && !ResumeError::Busy.is_final());
}

#[test]
fn dropped_early_data_is_not_counted() {
    let mut pair = Pair::new(Config::client(), server_config());
    pair.drive();
    let client = &mut pair.client.transport;
    client.retain(BUDGET).unwrap();
    client.keep_early();
    client.payload(&[90, 1]);
    client.send_early();
    assert_eq!(client.message_counts(), Some((0, 1)));
    client.early_dropped();
    assert_eq!(client.message_counts(), Some((0, 0)));
    client.send_early();
    client.set_authenticated();
    client.release_early();
    client.payload(&[94, 2]);
    assert_eq!(client.message_counts(), Some((0, 2)));
}

#[test]
fn a_retaining_transport_is_not_frozen() {
    let mut pair = retaining(Pair::established(Config::client(), server_config()));
    assert_eq!(pair.server.transport.freeze().unwrap_err(), FreezeError::Retained);
    pair.exchange(&[7]);
}

#[test]
fn both_ends_export_the_same() {
    let mut pair = Pair::new(Config::client(), server_config());
    assert!(pair.client.transport.export("label", b"").is_none());
    pair.establish();
    let export = |end: &End, label: &str, context: &[u8]| end.transport.export(label, context).unwrap();
    let one = export(&pair.client, "label", b"context");
    assert_eq!(one, export(&pair.server, "label", b"context"));
    for (label, context) in [("label", &b""[..]), ("labe", b"lcontext"), ("other", b"context")] {
        assert_ne!(one, export(&pair.client, label, context));
    }
    let other = Pair::established(Config::client(), server_config());
    assert_ne!(one, export(&other.client, "label", b"context"));
    for keys in [&pair.client.transport.exchange.opening_keys, &pair.client.transport.exchange.sealing_keys]
        .into_iter()
        .flatten()
    {
        assert!(![&keys.key, &keys.iv, &keys.mac_key].iter().any(|key| key[..].starts_with(&one[..16])));
    }
    // The exporter belongs to the first exchange, also in another process.
    pair.client.transport.request_rekey();
    pair.exchange(&[1]);
    assert_eq!(one, export(&pair.client, "label", b"context"));
    let frozen = pair.server.transport.freeze().unwrap();
    let now = pair.clock.now();
    pair.server.transport = Transport::thaw(&frozen, server_config(), random(3), now).unwrap();
    assert_eq!(one, export(&pair.server, "label", b"context"));
}
