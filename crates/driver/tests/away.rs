//! Tests of connections that lose their link and continue over another one (`resume@longhaul`).

mod common;

use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{Probe, Script, World, links};
use lh_driver::{ChannelEvent, Driver, DriverError, LinkError};
use lh_resume::Handle;
use lh_resume::message::{Acknowledge, Session};

const SESSION: Session = Session { handle: Handle([7; 16]), grace: 600 };

/// Two drivers that keep their messages. `consents`: the server has sent its consent.
fn world(consents: bool) -> World {
    let (mut client, mut server, key) = links();
    client.retain_messages(1 << 20).unwrap();
    server.retain_messages(1 << 20).unwrap();
    if consents {
        server.send(&SESSION.to_payload());
    }
    let config = lh_driver::ConnectionConfig::default();
    let mut world = World {
        client: Driver::new(client, config),
        server: Driver::new(server, config),
        client_script: Script::new(&key),
        server_script: Script::new(&key),
    };
    world.client.control().survive_breaks(None);
    world.server.control().survive_breaks(Some(SESSION));
    world
}

/// Opens a channel; returns the client's and the server's handlers.
fn channel(world: &mut World) -> (lh_driver::ChannelId, Probe, Probe) {
    let (ours, theirs) = (Probe::default(), Probe::default());
    world.serve(vec![Box::new(theirs.clone())]);
    let id = world.open(ours.clone());
    let opened = ChannelEvent::Opened { fields: Bytes::new() };
    world.until("open", |_| ours.saw(&opened));
    (id, ours, theirs)
}

/// Gives both ends a new link, as if the client had proved that it owns the session.
fn resume(world: &mut World) {
    let (client, server, _) = links();
    let (from_server, from_client) =
        (world.server.control().received_messages(), world.client.control().received_messages());
    world.server.control().resume(server, from_client).unwrap();
    world.client.control().resume(client, from_server).unwrap();
}

#[test]
fn a_session_goes_on_over_another_link() {
    let mut world = world(true);
    let (id, ours, theirs) = channel(&mut world);
    assert_eq!(world.client.control().resumable_session(), Some(&SESSION));
    let mut sent = Vec::new();
    for round in 0..5_u8 {
        let data = [round; 3000];
        // Part of the data is in flight, and part is sent while there is no link.
        assert_eq!(world.client.control().channel(id).unwrap().send(&data), data.len());
        world.turn().unwrap();
        assert!(world.client.control().lose_link());
        world.until("the other end is away", |world| world.server.control().is_away());
        let reply = world.server_script.accepted[0];
        assert_eq!(world.server.control().channel(reply).unwrap().send(b"reply"), 5);
        assert_eq!(world.client.control().channel(id).unwrap().send(&[100 + round]), 1);
        sent.extend_from_slice(&data);
        sent.push(100 + round);
        resume(&mut world);
        assert!(!world.server.control().has_heard());
        assert!(!world.client.control().is_away() && !world.server.control().is_away());
        world.until("the data", |_| theirs.got() == sent.len() && ours.got() == 5 * (usize::from(round) + 1));
        assert!(world.server.control().has_heard());
    }
    assert_eq!(theirs.0.borrow().data, sent);
    assert_eq!(world.client_script.gone, []);
    // Nothing is kept once everything is acknowledged.
    world.until("acknowledgements", |world| {
        [&mut world.client, &mut world.server].into_iter().all(|driver| {
            driver.link().message_counts().is_some_and(|(acknowledged, sent)| acknowledged == sent)
        })
    });
}

/// Each end has more to send again than it lets wait before it stops reading.
#[test]
fn both_ends_send_much_again() {
    const REQUEST: &str = "test@example.com";
    let mut world = world(true);
    channel(&mut world);
    world.client.control().lose_link();
    world.until("the other end is away", |world| world.server.control().is_away());
    for _ in 0..150 {
        for driver in [&mut world.client, &mut world.server] {
            driver.control().global_request(REQUEST, false, &[0; 30_000]);
        }
    }
    resume(&mut world);
    let came = |script: &Script| script.global.iter().filter(|name| *name == REQUEST).count() == 150;
    world.until("the requests", |world| came(&world.client_script) && came(&world.server_script));
}

#[test]
fn input_stops_while_there_is_no_link() {
    let mut world = world(true);
    let (id, _, theirs) = channel(&mut world);
    world.client.control().lose_link();
    let mut control = world.client.control();
    let mut cx = control.channel(id).unwrap();
    let mut sent = 0;
    loop {
        let budget = cx.budget().min(1000);
        if budget == 0 {
            break;
        }
        sent += cx.send(&vec![1; budget]);
    }
    assert!((1000..20_000).contains(&sent), "{sent}");
    world.until("the other end is away", |world| world.server.control().is_away());
    resume(&mut world);
    world.until("the data", |_| theirs.got() == sent);
}

#[test]
fn without_consent_a_session_ends_with_its_link() {
    let mut world = world(false);
    channel(&mut world);
    // Messages that were acknowledged are not kept.
    assert_eq!(world.client.link().message_counts(), None);
    world.server.control().lose_link();
    let start = Instant::now();
    let error = loop {
        match world.client.run_once(&mut world.client_script, Some(Duration::from_millis(10))) {
            Ok(_) => assert!(start.elapsed() < Duration::from_secs(20), "the link's end goes unnoticed"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, DriverError::Link(LinkError::Closed { .. })), "{error}");
    assert!(!world.client.control().lose_link());
}

#[test]
fn a_session_that_is_given_up_ends_with_the_first_error() {
    let mut world = world(true);
    channel(&mut world);
    world.server.control().lose_link();
    world.until("the client is away", |world| world.client.control().is_away());
    world.client.control().give_up();
    let end = world.client.run_once(&mut world.client_script, Some(Duration::ZERO));
    assert!(matches!(end, Err(DriverError::Link(LinkError::Closed { .. }))), "{end:?}");
    // No other link can repair the session now.
    let (link, _, _) = links();
    assert!(world.client.control().resume(link, 0).is_err());
}

#[test]
fn impossible_acknowledgements_end_the_session() {
    for payload in [Acknowledge { received: 1000 }.to_payload(), SESSION.to_payload(), vec![224, 9]] {
        let mut world = world(true);
        channel(&mut world);
        world.server.link().send(&payload);
        let start = Instant::now();
        let error = loop {
            match world.turn() {
                Ok(()) => assert!(start.elapsed() < Duration::from_secs(20), "{payload:?} is accepted"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, DriverError::Resume(_)), "{error}");
        assert!(!world.client.control().is_away());
    }
}

#[test]
fn covered_acknowledgements_do_not_come_by_time() {
    let mut world = world(true);
    let (id, _, theirs) = channel(&mut world);
    let acknowledged = |world: &mut World| world.client.link().message_counts().unwrap();
    world.until("acknowledgements", |world| {
        let (acknowledged, sent) = acknowledged(world);
        acknowledged == sent
    });
    world.server.control().cover_acknowledgements(true);
    let (before, _) = acknowledged(&mut world);
    world.client.control().channel(id).unwrap().send(b"key");
    world.until("the key", |_| theirs.got() == 3);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(600) {
        world.turn().unwrap();
    }
    assert_eq!(acknowledged(&mut world), (before, before + 1));
    world.server.control().cover_acknowledgements(false);
    world.until("acknowledgements", |world| acknowledged(world) == (before + 1, before + 1));
}
