//! Two drivers joined by a socket pair, in one thread, with controls that record their events.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_connection::Config;
use lh_crypto::{KeyType, PrivateKey, SystemRandom};
use lh_driver::{
    ChannelCx, ChannelEvent, ChannelHandler, ChannelId, ChannelOptions, Control, ControlCx, ControlEvent,
    Driver, DriverError, FdPump, Interests, Link, Ready, Stream,
};
use lh_transport::{AcceptedHostKey, Event, HostKey, Transport};
use lh_wire::msg::open_failure;

/// Time limit of every wait; a test that waits longer is stuck.
const STUCK: Duration = Duration::from_secs(20);

pub(crate) fn transport(key: Option<&PrivateKey>) -> Transport {
    transport_with(key, None)
}

fn transport_with(key: Option<&PrivateKey>, cipher: Option<&str>) -> Transport {
    let mut config = match key {
        None => lh_transport::Config::client(),
        Some(key) => lh_transport::Config::server(vec![HostKey {
            algorithms: vec!["ssh-ed25519".to_owned()],
            blob: key.public().blob().to_vec(),
        }]),
    };
    if let Some(cipher) = cipher {
        config.algorithms.cipher_c2s = vec![cipher.to_owned()];
        config.algorithms.cipher_s2c = vec![cipher.to_owned()];
    }
    Transport::new(config, Box::new(SystemRandom), Instant::now())
}

pub(crate) fn link(transport: Transport, socket: UnixStream) -> Link {
    Link::new(transport, Stream::socket(OwnedFd::from(socket)).unwrap())
}

/// Runs the key exchange on one link.
pub(crate) fn shake(mut link: Link, key: Option<&PrivateKey>) -> Link {
    loop {
        match link.next_event(Some(Instant::now() + STUCK)).unwrap() {
            Event::HostKey { blob, .. } => {
                let accepted = AcceptedHostKey::dangerous_vouch_for(&blob);
                link.host_key_accepted(&accepted).unwrap();
            }
            Event::SignExchangeHash { algorithm, data, .. } => {
                let signature = key.unwrap().sign(&algorithm, &data).unwrap();
                link.exchange_hash_signed(&signature).unwrap();
            }
            Event::KexDone { .. } => break,
            _ => {}
        }
    }
    // NEWKEYS is queued with the event and must be flushed, because no further event is awaited here.
    assert!(link.finish(STUCK));
    link.set_authenticated();
    link
}

/// Two links after the key exchange.
pub(crate) fn links() -> (Link, Link, PrivateKey) {
    links_with(None)
}

/// Like [`links`], with this cipher both ways.
pub(crate) fn links_with(cipher: Option<&str>) -> (Link, Link, PrivateKey) {
    let key = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server_key = key.clone();
    let (client, server) = (transport_with(None, cipher), transport_with(Some(&key), cipher));
    let server = std::thread::spawn(move || shake(link(server, theirs), Some(&server_key)));
    let client = shake(link(client, ours), None);
    (client, server.join().unwrap(), key)
}

type Accept = Box<dyn FnMut(&str) -> Option<Box<dyn ChannelHandler>>>;

/// A control that accepts channels by a callback and records its events.
pub(crate) struct Script {
    key: PrivateKey,
    pub(crate) accept: Accept,
    pub(crate) options: ChannelOptions,
    pub(crate) accepted: Vec<ChannelId>,
    pub(crate) gone: Vec<ChannelId>,
    /// Number of channels that were gone when each channel was accepted.
    pub(crate) gone_at_accept: Vec<usize>,
    pub(crate) notes: Vec<&'static str>,
    pub(crate) global: Vec<String>,
    pub(crate) rekeys: usize,
    pub(crate) stop_when_gone: bool,
    pub(crate) disconnected: Option<(u32, String)>,
}

impl Script {
    pub(crate) fn new(key: &PrivateKey) -> Self {
        Self {
            key: key.clone(),
            accept: Box::new(|_| None),
            options: ChannelOptions::default(),
            accepted: Vec::new(),
            gone: Vec::new(),
            gone_at_accept: Vec::new(),
            notes: Vec::new(),
            global: Vec::new(),
            rekeys: 0,
            stop_when_gone: false,
            disconnected: None,
        }
    }
}

impl Control for Script {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        match event {
            ControlEvent::OpenRequested { id, kind, .. } => match (self.accept)(&kind) {
                Some(handler) => {
                    self.accepted.push(id);
                    self.gone_at_accept.push(self.gone.len());
                    assert!(cx.accept(id, &self.options, b"", handler));
                }
                None => cx.refuse(id, open_failure::UNKNOWN_CHANNEL_TYPE, "unknown"),
            },
            ControlEvent::GlobalRequest { name, want_reply, .. } => {
                self.global.push(name);
                if want_reply {
                    cx.reply_global(false, b"");
                }
            }
            ControlEvent::ChannelGone { id, .. } => {
                self.gone.push(id);
                if self.stop_when_gone {
                    cx.stop(0);
                }
            }
            ControlEvent::Note { note, .. } => self.notes.push(note.downcast_ref::<&'static str>().unwrap()),
            ControlEvent::SignExchangeHash { algorithm, data, .. } => {
                let signature = self.key.sign(&algorithm, &data).unwrap();
                cx.exchange_hash_signed(&signature).unwrap();
            }
            ControlEvent::KexDone { .. } => self.rekeys += 1,
            ControlEvent::Disconnected { reason, description } => {
                self.disconnected = Some((reason, description));
            }
            _ => {}
        }
    }
}

/// Client and server driver with their controls.
pub(crate) struct World {
    pub(crate) client: Driver,
    pub(crate) server: Driver,
    pub(crate) client_script: Script,
    pub(crate) server_script: Script,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        let (client, server, key) = links();
        Self {
            client: Driver::new(client, config),
            server: Driver::new(server, config),
            client_script: Script::new(&key),
            server_script: Script::new(&key),
        }
    }

    /// One turn of each driver.
    pub(crate) fn turn(&mut self) -> Result<(), DriverError> {
        self.client.run_once(&mut self.client_script, Some(Duration::ZERO))?;
        self.server.run_once(&mut self.server_script, Some(Duration::ZERO))?;
        Ok(())
    }

    /// Runs turns until `done` returns true.
    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            self.turn().unwrap();
            assert!(start.elapsed() < STUCK, "stuck while waiting for: {what}");
        }
    }

    /// Sets the server's handlers for the next channels.
    pub(crate) fn serve(&mut self, mut handlers: Vec<Box<dyn ChannelHandler>>) {
        self.server_script.accept = Box::new(move |_| (!handlers.is_empty()).then(|| handlers.remove(0)));
    }

    /// Opens a channel of the client.
    pub(crate) fn open(&mut self, handler: impl ChannelHandler + 'static) -> ChannelId {
        let options = self.client_script.options;
        self.client.control().open("session", b"", &options, Box::new(handler)).unwrap()
    }
}

/// State of a [`Probe`]: events and received bytes. It consumes all data unless `hold` is set.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) events: Vec<ChannelEvent>,
    pub(crate) data: Vec<u8>,
    pub(crate) hold: bool,
    pub(crate) writables: usize,
}

#[derive(Clone, Default)]
pub(crate) struct Probe(pub(crate) Rc<RefCell<Seen>>);

impl ChannelHandler for Probe {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        let mut seen = self.0.borrow_mut();
        match event {
            ChannelEvent::Data { data, .. } => {
                seen.data.extend_from_slice(&data);
                if !seen.hold {
                    cx.consumed(data.len());
                }
            }
            event => {
                if let ChannelEvent::Request { name, want_reply, .. } = &event
                    && *want_reply
                {
                    cx.reply(name == "yes");
                }
                seen.events.push(event);
            }
        }
    }

    fn on_writable(&mut self, _cx: &mut ChannelCx<'_>) {
        self.0.borrow_mut().writables += 1;
    }
}

impl Probe {
    pub(crate) fn saw(&self, event: &ChannelEvent) -> bool {
        self.0.borrow().events.contains(event)
    }

    pub(crate) fn got(&self) -> usize {
        self.0.borrow().data.len()
    }
}

/// State that a [`Watched`] pump publishes.
#[derive(Default)]
pub(crate) struct PumpState {
    pub(crate) queued: Cell<usize>,
    pub(crate) read: Cell<u64>,
    pub(crate) written: Cell<u64>,
    pub(crate) events: RefCell<Vec<ChannelEvent>>,
}

/// A handler around a pump, like a session's, that publishes the pump's state.
pub(crate) struct Watched {
    pump: FdPump,
    state: Rc<PumpState>,
}

impl Watched {
    pub(crate) fn new(pump: FdPump) -> (Self, Rc<PumpState>) {
        let state = Rc::new(PumpState::default());
        (Self { pump, state: state.clone() }, state)
    }

    fn look(&self) {
        self.state.queued.set(self.pump.output_queued());
        self.state.read.set(self.pump.bytes_read());
        self.state.written.set(self.pump.bytes_written());
    }
}

impl ChannelHandler for Watched {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        if !matches!(event, ChannelEvent::Data { .. }) {
            self.state.events.borrow_mut().push(event.clone());
        }
        self.pump.on_event(event, cx);
        self.look();
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_batch_end(cx);
        self.look();
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_writable(cx);
        self.look();
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        self.pump.interests(out);
    }

    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ChannelCx<'_>) {
        self.pump.on_ready(token, ready, cx);
        self.look();
    }

    fn finished(&self) -> bool {
        self.pump.finished()
    }
}
