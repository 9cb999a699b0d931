//! A connection of an honest client with messages inserted, and its outcome.

use lh_crypto::PrivateKey;
use lh_testkit::Seeded;
use lh_wire::Writer;

use super::message::{Message, Variant};
use crate::client::{Client, End, Wire};
use crate::packets::message;

/// Place of an insertion: after this step of the honest client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The identification line.
    Identification,
    /// KEXINIT.
    Kexinit,
    /// The public value.
    Public,
    /// NEWKEYS; the first encrypted message.
    Newkeys,
    /// SERVICE_ACCEPT has arrived.
    Service,
    /// A first request has been refused.
    Refusal,
    /// USERAUTH_SUCCESS has arrived.
    Login,
    /// KEXINIT of a second exchange.
    Rekey,
    /// The second exchange is over.
    Rekeyed,
    /// A session channel is open.
    Channel,
    /// The command's status has arrived, and the session channel is closed.
    Closed,
}

impl Place {
    /// All steps, in order.
    pub const ALL: [Self; 11] = [
        Self::Identification,
        Self::Kexinit,
        Self::Public,
        Self::Newkeys,
        Self::Service,
        Self::Refusal,
        Self::Login,
        Self::Rekey,
        Self::Rekeyed,
        Self::Channel,
        Self::Closed,
    ];

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identification => "identification",
            Self::Kexinit => "kexinit",
            Self::Public => "public",
            Self::Newkeys => "newkeys",
            Self::Service => "service",
            Self::Refusal => "refusal",
            Self::Login => "login",
            Self::Rekey => "rekey",
            Self::Rekeyed => "rekeyed",
            Self::Channel => "channel",
            Self::Closed => "closed",
        }
    }
}

/// A message, its defect, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Insertion {
    /// The step after which it is sent.
    pub place: Place,
    /// The message.
    pub message: Message,
    /// Its defect.
    pub variant: Variant,
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// The client announces strict key exchange.
    pub strict: bool,
    /// The client authenticates. If false, it continues as if it had.
    pub authenticates: bool,
    /// A second key exchange follows the login.
    pub rekeys: bool,
    /// Insertions, in the order of their places.
    pub insertions: Vec<Insertion>,
}

impl Sequence {
    /// An honest connection.
    pub const fn honest(strict: bool) -> Self {
        Self { strict, authenticates: true, rekeys: false, insertions: Vec::new() }
    }

    /// An honest connection with one message inserted.
    pub fn with(strict: bool, insertion: Insertion) -> Self {
        let rekeys = matches!(insertion.place, Place::Rekey | Place::Rekeyed);
        Self { strict, authenticates: true, rekeys, insertions: vec![insertion] }
    }

    /// Every sequence with one insertion.
    pub fn singles() -> impl Iterator<Item = Self> {
        [true, false].into_iter().flat_map(|strict| {
            Place::ALL.into_iter().flat_map(move |place| {
                Message::all().flat_map(move |message| {
                    Variant::ALL.map(|variant| Self::with(strict, Insertion { place, message, variant }))
                })
            })
        })
    }

    /// Up to eight insertions anywhere.
    pub fn random(random: &mut Seeded) -> Self {
        let count = random.below(9);
        let mut insertions: Vec<Insertion> = (0..count)
            .map(|_| Insertion {
                place: Place::ALL[random.below(Place::ALL.len())],
                message: Message::at(random.below(Message::COUNT)),
                // Mostly valid messages: an invalid one ends most connections at once.
                variant: Variant::ALL[random.below(12).saturating_sub(8)],
            })
            .collect();
        insertions.sort_by_key(|insertion| insertion.place);
        Self {
            strict: random.below(2) == 0,
            authenticates: random.below(3) > 0,
            rekeys: random.below(3) == 0,
            insertions,
        }
    }

    /// True when strict key exchange forbids one of the insertions.
    pub fn breaks_strict(&self) -> bool {
        self.strict && self.insertions.iter().any(|insertion| insertion.place < Place::Newkeys)
    }

    /// For reports: `strict newkeys:ping:short login:data:right`.
    pub fn text(&self) -> String {
        let mut text = String::from(if self.strict { "strict" } else { "plain" });
        if !self.authenticates {
            text.push_str(" no-login");
        }
        if self.rekeys {
            text.push_str(" rekey");
        }
        for Insertion { place, message, variant } in &self.insertions {
            text.push_str(&format!(" {}:{}:{}", place.name(), message.name(), variant.name()));
        }
        text
    }
}

/// Outcome of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaction {
    /// The last step of the honest client that the server answered.
    pub reached: Place,
    /// Success if the command ran and its status arrived, otherwise the reason.
    pub end: Result<(), End>,
    /// Numbers of replies that the honest client would not have received.
    pub answers: Vec<u8>,
}

impl Reaction {
    /// Returns the class that is compared: how the connection ended, before or after which barrier, and the
    /// additional replies of a connection that continued.
    pub fn class(&self) -> String {
        let barrier = match self.reached {
            Place::Identification | Place::Kexinit | Place::Public => "before-keys",
            Place::Newkeys | Place::Service | Place::Refusal => "before-login",
            _ => "logged-in",
        };
        match &self.end {
            Ok(()) => format!("completed{:?}", self.answers).replace(' ', ""),
            // The last packets may be encrypted with keys of an unexpected key exchange.
            Err(End::Disconnected(_) | End::Closed | End::Garbage) => format!("ended-{barrier}"),
            Err(End::Silent) => format!("silent-{barrier}"),
        }
    }
}

/// The user account of the campaign.
pub struct Login<'a> {
    /// User name.
    pub user: &'a str,
    /// The user's key.
    pub key: &'a PrivateKey,
}

struct Walk<'a, W> {
    client: &'a mut Client<W>,
    sequence: &'a Sequence,
    reached: Place,
    answers: Vec<u8>,
}

impl<W: Wire> Walk<'_, W> {
    fn insert(&mut self, place: Place) {
        for insertion in self.sequence.insertions.iter().filter(|insertion| insertion.place == place) {
            self.client.packet(&insertion.message.payload(insertion.variant));
        }
    }

    /// Reads until this reply arrives.
    fn expect(&mut self, wanted: impl Fn(&[u8]) -> bool) -> Result<Vec<u8>, End> {
        loop {
            let payload = self.client.receive()?;
            if wanted(&payload) {
                return Ok(payload);
            }
            match payload[0] {
                // Messages that servers send without a request.
                2 | 4 | 7 | 53 | 80 | 93 | 98 => {}
                20 if self.client.session().is_empty() => {}
                number => {
                    if !self.answers.contains(&number) {
                        self.answers.push(number);
                    }
                }
            }
        }
    }

    fn number(&mut self, number: u8) -> Result<Vec<u8>, End> {
        self.expect(|payload| payload[0] == number)
    }

    fn exchange(&mut self, init: Place, public: Option<Place>) -> Result<(), End> {
        self.client.send_kexinit();
        self.insert(init);
        let theirs = self.number(20)?;
        self.client.on_kexinit(&theirs);
        self.client.send_public();
        if let Some(public) = public {
            self.reached = init;
            self.insert(public);
        }
        let reply = self.number(31)?;
        self.client.on_reply(&reply)?;
        self.client.send_newkeys();
        self.number(21)?;
        self.client.on_newkeys();
        Ok(())
    }

    fn walk(&mut self, login: &Login<'_>) -> Result<(), End> {
        self.client.identify()?;
        self.insert(Place::Identification);
        self.exchange(Place::Kexinit, Some(Place::Public))?;
        self.insert(Place::Newkeys);
        self.client.packet(&message(5, &[b"ssh-userauth"]));
        self.number(6)?;
        self.reached = Place::Service;
        self.insert(Place::Service);
        self.client.packet(&message(50, &[login.user.as_bytes(), b"ssh-connection", b"none"]));
        self.number(51)?;
        self.reached = Place::Refusal;
        self.insert(Place::Refusal);
        if self.sequence.authenticates {
            let request = self.client.signed_request(login.user, login.key);
            self.client.packet(&request);
            self.number(52)?;
            self.reached = Place::Login;
        }
        self.insert(Place::Login);
        if self.sequence.rekeys {
            self.exchange(Place::Rekey, None)?;
            self.insert(Place::Rekeyed);
        }
        let channel = self.command(5, true)?;
        if self.sequence.insertions.iter().any(|insertion| insertion.place == Place::Closed) {
            self.client.packet(&[&[97], &channel[..]].concat());
            self.insert(Place::Closed);
            // The barrier: whether another command runs shows how the server has handled the message.
            self.command(6, false)?;
        }
        Ok(())
    }

    /// Runs `true` on a new session channel with our number `ours`. Returns the server's number of the
    /// channel.
    fn command(&mut self, ours: u8, first: bool) -> Result<Vec<u8>, End> {
        let mut open = message(90, &[b"session"]);
        [u32::from(ours), 1 << 20, 32768].iter().for_each(|&number| open.put_u32(number));
        self.client.packet(&open);
        let number = [0, 0, 0, ours];
        let opened = self.expect(|payload| payload[0] == 91 && payload.get(1..5) == Some(&number))?;
        if self.sequence.authenticates {
            self.reached = Place::Channel;
        }
        let channel = opened.get(5..9).unwrap_or(&[0; 4]).to_vec();
        if first {
            self.insert(Place::Channel);
        }
        let mut exec = vec![98];
        exec.put_bytes(&channel);
        exec.put_string(b"exec");
        exec.put_bool(true);
        exec.put_string(b"true");
        self.client.packet(&exec);
        self.expect(|payload| {
            payload[0] == 98
                && payload.get(1..5) == Some(&number)
                && payload.windows(11).any(|window| window == b"exit-status")
        })?;
        Ok(channel)
    }
}

/// Runs a sequence against the server at the other end of the client's wire.
pub fn run<W: Wire>(client: &mut Client<W>, sequence: &Sequence, login: &Login<'_>) -> Reaction {
    let mut walk = Walk { client, sequence, reached: Place::Identification, answers: Vec::new() };
    let end = walk.walk(login);
    // These are the reply to the command and the end of the channel, in either order.
    walk.answers.retain(|&number| !matches!(number, 94..=97 | 99));
    walk.answers.sort_unstable();
    Reaction { reached: walk.reached, end, answers: walk.answers }
}
