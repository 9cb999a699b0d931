//! Tests of the loop from the view of handlers, controls and peers.

mod common;

use std::cell::Cell;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{Probe, Script, World, link, links, links_with, transport};
use lh_driver::{
    ChannelCx, ChannelEvent, ChannelHandler, Control, ControlCx, ControlEvent, Driver, DriverError, Interest,
    Interests, LinkError, Ready, Source, Stage,
};
use lh_transport::Event;
use lh_wire::msg::disconnect;

#[test]
fn channel_opens_transfers_and_closes() {
    let mut world = World::new();
    let (ours, theirs) = (Probe::default(), Probe::default());
    world.serve(vec![Box::new(theirs.clone())]);
    let id = world.open(ours.clone());
    let opened = ChannelEvent::Opened { fields: Bytes::new() };
    world.until("open", |_| ours.saw(&opened));
    assert!(theirs.saw(&opened));

    let mut control = world.client.control();
    let mut cx = control.channel(id).unwrap();
    assert_eq!(cx.send(b"hello"), 5);
    assert!(cx.request("yes", true, b"f"));
    assert!(cx.request("no", true, b""));
    cx.eof();
    world.until("answers", |_| ours.0.borrow().events.len() == 3);
    assert_eq!(theirs.0.borrow().data, b"hello");
    assert!(theirs.saw(&ChannelEvent::Eof));
    assert_eq!(
        ours.0.borrow().events[1..],
        [
            ChannelEvent::RequestReply { name: "yes".into(), ok: true },
            ChannelEvent::RequestReply { name: "no".into(), ok: false },
        ]
    );

    let theirs_id = world.server_script.accepted[0];
    world.server.control().channel(theirs_id).unwrap().close();
    world
        .until("close", |world| !world.client_script.gone.is_empty() && !world.server_script.gone.is_empty());
    assert!(ours.saw(&ChannelEvent::Closed) && theirs.saw(&ChannelEvent::Closed));
    assert_eq!(world.client_script.gone, [id]);
    assert!(world.client.control().channel(id).is_none());
    assert_eq!(world.client.control().handler_count(), 0);
}

/// A server with a limit of sessions would otherwise refuse the next channel of a client that has just closed
/// one.
#[test]
fn a_closed_channel_is_gone_before_the_next_one_opens() {
    let mut world = World::new();
    world.serve(vec![Box::new(Probe::default()), Box::new(Probe::default())]);
    let ours = Probe::default();
    let first = world.open(ours.clone());
    world.until("open", |_| ours.saw(&ChannelEvent::Opened { fields: Bytes::new() }));
    world.client.control().channel(first).unwrap().close();
    world.open(Probe::default());
    // Both messages arrive in one batch.
    world.until("close and open", |world| world.server_script.accepted.len() == 2);
    assert_eq!(world.server_script.gone_at_accept, [0, 1]);
}

/// Both peers are known to handle such packets.
#[test]
fn longhaul_ends_use_packets_of_64_kib() {
    let mut world = World::new();
    let (ours, theirs) = (Probe::default(), Probe::default());
    world.serve(vec![Box::new(theirs)]);
    let id = world.open(ours.clone());
    let opened = ChannelEvent::Opened { fields: Bytes::new() };
    world.until("open", |_| ours.saw(&opened));
    let accepted = world.server_script.accepted[0];
    assert_eq!(world.client.control().channel(id).unwrap().max_packet(), 64 << 10);
    assert_eq!(world.server.control().channel(accepted).unwrap().max_packet(), 64 << 10);
}

#[test]
fn unknown_channels_are_refused_by_the_control() {
    let mut world = World::new();
    let probe = Probe::default();
    let id = world.open(probe.clone());
    world.until("refusal", |world| !world.client_script.gone.is_empty());
    let description = "unknown".to_owned();
    assert!(probe.saw(&ChannelEvent::OpenFailed { reason: 3, description }));
    assert_eq!(world.client_script.gone, [id]);
}

/// Sends zeros forever, and counts them.
struct Zeros {
    probe: Probe,
    sent: std::rc::Rc<std::cell::Cell<usize>>,
}

impl ChannelHandler for Zeros {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        if matches!(event, ChannelEvent::Opened { .. }) {
            cx.want_writable();
        }
        self.probe.on_event(event, cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        loop {
            let budget = cx.budget();
            if budget == 0 {
                break;
            }
            let Some(mut reservation) = cx.reserve(None, budget) else { break };
            reservation.slices().iter_mut().for_each(|body| body.fill(0));
            let total = reservation.total();
            let sent = reservation.commit(total);
            self.sent.set(self.sent.get() + sent);
        }
        assert!(cx.queued_output() < 3 << 20, "bulk must stop at the high-water mark");
    }
}

#[test]
fn a_full_sink_stops_only_its_own_channel() {
    let mut world = World::new();
    let stuck = Probe::default();
    stuck.0.borrow_mut().hold = true;
    let flowing = Probe::default();
    world.serve(vec![Box::new(stuck.clone()), Box::new(flowing.clone())]);
    let counts: [std::rc::Rc<std::cell::Cell<usize>>; 2] = Default::default();
    for sent in &counts {
        world.open(Zeros { probe: Probe::default(), sent: sent.clone() });
    }
    world.until("16 MiB on the other channel", |_| flowing.got() >= 16 << 20);
    // The stuck channel holds exactly its window.
    assert_eq!(stuck.got(), 2 << 20);
    assert_eq!(counts[0].get(), 2 << 20);

    // Credit resumes it.
    let id = world.server_script.accepted[0];
    stuck.0.borrow_mut().hold = false;
    world.server.control().channel(id).unwrap().consumed(2 << 20);
    world.until("more on the stuck channel", |_| stuck.got() >= 4 << 20);
}

#[test]
fn channels_share_the_connection_fairly() {
    let mut world = World::new();
    let sinks: Vec<Probe> = (0..4).map(|_| Probe::default()).collect();
    world.serve(sinks.iter().map(|sink| Box::new(sink.clone()) as Box<dyn ChannelHandler>).collect());
    for _ in &sinks {
        world.open(Zeros { probe: Probe::default(), sent: Default::default() });
    }
    world.until("8 MiB on one", |_| sinks.iter().any(|sink| sink.got() >= 8 << 20));
    for sink in &sinks {
        assert!(sink.got() >= 4 << 20, "{}", sink.got());
    }
}

#[test]
fn data_flows_on_through_rekeys() {
    let mut world = World::new();
    let sink = Probe::default();
    world.serve(vec![Box::new(sink.clone())]);
    world.open(Zeros { probe: Probe::default(), sent: Default::default() });
    for round in 1..=4 {
        let goal = sink.got() + (4 << 20);
        if round % 2 == 0 {
            world.client.link().request_rekey();
        } else {
            world.server.link().request_rekey();
        }
        world.until("data and keys", |world| {
            sink.got() >= goal && world.client_script.rekeys >= round && world.server_script.rekeys >= round
        });
    }
}

#[test]
fn protocol_error_disconnects_with_a_reason() {
    let mut world = World::new();
    world.client.link().send(&[94, 0, 0, 0, 9, 0, 0, 0, 1, b'x']);
    let error = loop {
        if let Err(error) = world.turn() {
            break error;
        }
    };
    assert!(matches!(error, DriverError::Connection(_)), "{error}");
    assert_eq!(error.to_string(), "channel data for nonexistent channel 9");
    let error = loop {
        if let Err(error) = world.client.run_once(&mut world.client_script, None) {
            break error;
        }
    };
    assert!(matches!(error, DriverError::Disconnected { reason: disconnect::PROTOCOL_ERROR, .. }), "{error}");
    assert_eq!(
        world.client_script.disconnected,
        Some((disconnect::PROTOCOL_ERROR, "channel data for nonexistent channel 9".into()))
    );
}

#[test]
fn disconnect_message_and_lost_peer_differ() {
    let mut world = World::new();
    world.server.disconnect("bye\u{7}", Duration::from_secs(5));
    let error = world.client.run(&mut world.client_script).unwrap_err();
    assert_eq!(error.to_string(), "disconnected by peer: bye\\007");

    let World { mut client, server, mut client_script, .. } = World::new();
    drop(server);
    let error = client.run(&mut client_script).unwrap_err();
    assert!(matches!(error, DriverError::Link(LinkError::Closed { stage: Stage::Established })), "{error:?}");
}

/// Behind a jump host the socket's round trip covers only the nearest section of the path.
#[test]
fn answers_of_the_peer_give_the_round_trip() {
    let mut world = World::new();
    for end in [&mut world.client, &mut world.server] {
        assert_eq!(end.control().round_trip(), None, "the kernel measures none on a socket pair");
    }
    world.until("answers", |world| {
        [&mut world.client, &mut world.server].into_iter().all(|end| end.control().round_trip().is_some())
    });
}

#[test]
fn silent_peer_times_out_after_keepalives() {
    let mut world = World::new();
    world.client.set_keepalive(Duration::from_millis(20), 2);
    world.until("questions", |world| world.server_script.global.len() >= 3);
    assert!(world.server_script.global.iter().all(|name| name == "keepalive@openssh.com"));
    // From here on the server does not answer.
    let error = world.client.run(&mut world.client_script).unwrap_err();
    assert!(matches!(error, DriverError::KeepaliveTimeout), "{error}");
}

/// Bytes that never complete a packet, as after a changed length field, do not prove a live peer.
#[test]
fn trickling_peer_times_out() {
    let (client, server, key) = links_with(Some("aes128-gcm@openssh.com"));
    let mut client = Driver::new(client, lh_connection::Config::default());
    let mut control = Script::new(&key);
    client.set_keepalive(Duration::from_millis(100), 2);
    let mut stream = std::fs::File::from(server.stream().write_fd().try_clone_to_owned().unwrap());
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            // A packet of 64 KiB, byte by byte: this cipher does not encrypt the length.
            let mut length = [0, 1, 0, 0].into_iter();
            while !over.load(Ordering::Relaxed) && stream.write(&[length.next().unwrap_or(7)]).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let error = client.run(&mut control).unwrap_err();
        over.store(true, Ordering::Relaxed);
        assert!(matches!(error, DriverError::KeepaliveTimeout), "{error}");
    });
}

#[test]
fn handlers_leave_notes_and_stop_the_loop() {
    struct Stopper;
    impl ChannelHandler for Stopper {
        fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
            if matches!(event, ChannelEvent::Opened { .. }) {
                cx.notify("opened");
                cx.stop(42);
                cx.stop(43);
            }
        }
    }
    let mut world = World::new();
    world.serve(vec![Box::new(Probe::default())]);
    world.open(Stopper);
    let code = loop {
        if let Some(code) = world.client.run_once(&mut world.client_script, Some(Duration::ZERO)).unwrap() {
            break code;
        }
        world.server.run_once(&mut world.server_script, Some(Duration::ZERO)).unwrap();
    };
    assert_eq!(code, 42, "the first stop decides");
    assert_eq!(world.client_script.notes, ["opened"]);
}

/// Events of the first half of a turn may be the ones on which the control ends the loop: events from a
/// worker, or from the end of authentication. A session hung because its control was called only after the
/// wait.
#[test]
fn control_is_asked_before_the_loop_waits() {
    #[derive(Default)]
    struct Watcher {
        has_request: bool,
        looked: Cell<bool>,
        waited_unseen: Cell<bool>,
    }
    impl Control for Watcher {
        fn on_event(&mut self, event: ControlEvent, _cx: &mut ControlCx<'_>) {
            self.has_request |= matches!(event, ControlEvent::GlobalRequest { .. });
            self.looked.set(false);
        }
        fn before_wait(&mut self, _cx: &mut ControlCx<'_>) {
            self.looked.set(true);
        }
        fn interests<'a>(&'a self, _out: &mut Interests<'a>) {
            self.waited_unseen.set(self.waited_unseen.get() | (self.has_request && !self.looked.get()));
        }
    }
    let (mut client, mut server, _key) = links();
    // The request arrives before the driver exists.
    server.send(&[&[80, 0, 0, 0, 6][..], b"news@x", &[0]].concat());
    assert!(server.finish(Duration::from_secs(20)));
    let event = client.next_event(None).unwrap();
    client.put_back_events(vec![event]);
    let mut watcher = Watcher::default();
    let mut driver = Driver::new(client, lh_connection::Config::default());
    driver.run_once(&mut watcher, Some(Duration::ZERO)).unwrap();
    assert!(watcher.has_request && !watcher.waited_unseen.get());
}

#[test]
fn sources_bring_their_own_descriptors_and_timers() {
    struct Waker {
        socket: UnixStream,
        timer: Option<Instant>,
        woken: bool,
    }
    impl Source for Waker {
        fn interests<'a>(&'a self, out: &mut Interests<'a>) {
            out.add(5, self.socket.as_fd(), Interest::READ);
        }
        fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ControlCx<'_>) {
            assert!(token == 5 && ready.readable);
            self.woken = true;
            cx.stop(7);
        }
        fn next_deadline(&self) -> Option<Instant> {
            self.timer
        }
        fn on_timeout(&mut self, _cx: &mut ControlCx<'_>) {
            self.timer = None;
            (&self.socket).write_all(b"to the other end").unwrap();
        }
        fn finished(&self) -> bool {
            self.woken
        }
    }
    let mut world = World::new();
    let (ours, theirs) = UnixStream::pair().unwrap();
    world.client.control().add_source(Box::new(Waker {
        socket: ours,
        timer: Some(Instant::now()),
        woken: false,
    }));
    let mut text = [0; 16];
    theirs.set_nonblocking(true).unwrap();
    world.until("the timer", |_| (&theirs).read(&mut text).is_ok());
    assert_eq!(&text, b"to the other end");
    (&theirs).write_all(b"x").unwrap();
    assert_eq!(world.client.run(&mut world.client_script).unwrap(), 7);
    // The source has finished, so its descriptor is no longer polled.
    let quiet = world.client.run_once(&mut world.client_script, Some(Duration::ZERO)).unwrap();
    assert_eq!(quiet, None);
}

#[test]
fn the_control_has_descriptors_of_its_own() {
    struct Watcher(UnixStream);
    impl Control for Watcher {
        fn on_event(&mut self, _event: ControlEvent, _cx: &mut ControlCx<'_>) {}
        fn interests<'a>(&'a self, out: &mut Interests<'a>) {
            out.add(1, self.0.as_fd(), Interest::READ);
        }
        fn on_ready(&mut self, _token: usize, ready: Ready, cx: &mut ControlCx<'_>) {
            assert!(ready.hangup);
            cx.stop(255);
        }
    }
    let (client, _server, _) = links();
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    assert_eq!(Driver::new(client, Default::default()).run(&mut Watcher(ours)).unwrap(), 255);
}

#[test]
fn close_during_handshake_reports_the_stage() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    let error = link(transport(None), ours).next_event(None).unwrap_err();
    assert!(matches!(error, LinkError::Closed { stage: Stage::Identification }), "{error:?}");

    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"SSH-2.0-OpenSSH_10.0\r\n").unwrap();
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    let mut link = link(transport(None), ours);
    let event = link.next_event(None).unwrap();
    assert_eq!(event, Event::PeerIdentification("SSH-2.0-OpenSSH_10.0".into()));
    let error = link.next_event(None).unwrap_err();
    assert!(matches!(error, LinkError::Closed { stage: Stage::KeyExchange }), "{error:?}");
}

#[test]
fn wait_times_out_and_can_be_repeated() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut link = link(transport(None), ours);
    let error = link.next_event(Some(Instant::now())).unwrap_err();
    assert!(matches!(error, LinkError::TimedOut), "{error:?}");
    theirs.write_all(b"SSH-2.0-x\r\n").unwrap();
    assert_eq!(link.next_event(None).unwrap(), Event::PeerIdentification("SSH-2.0-x".into()));
}

#[test]
fn a_link_can_run_over_two_pipes() {
    let key = lh_crypto::PrivateKey::generate(lh_crypto::KeyType::Ed25519, None).unwrap();
    let (up, down) = (lh_sys::fd::pipe().unwrap(), lh_sys::fd::pipe().unwrap());
    let pipes = |read: OwnedFd, write: OwnedFd| lh_driver::Stream::pipes(read, write).unwrap();
    let server_key = key.clone();
    let server_end = pipes(up.0, down.1);
    let server = std::thread::spawn(move || {
        common::shake(lh_driver::Link::new(transport(Some(&server_key)), server_end), Some(&server_key))
    });
    let mut client = common::shake(lh_driver::Link::new(transport(None), pipes(down.0, up.1)), None);
    server.join().unwrap().disconnect(disconnect::BY_APPLICATION, "done", Duration::from_secs(5));
    loop {
        if let Event::Disconnected { reason, .. } = client.next_event(None).unwrap() {
            assert_eq!(reason, disconnect::BY_APPLICATION);
            break;
        }
    }
}
