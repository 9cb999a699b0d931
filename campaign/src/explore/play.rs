//! A server that follows a sequence: the messages of an honest server, with others inserted.

use lh_crypto::PrivateKey;
use lh_wire::{Reader, Writer};

use super::sequence::{Place, Sequence};
use crate::packets::{End, Wire};
use crate::server::Server;

/// The server's sequence and its progress.
pub(super) struct Play<'a, 'b, W> {
    pub(super) server: Server<'a, W>,
    sequence: &'b Sequence,
    pub(super) reached: Place,
    /// Messages of the connection protocol that arrived while another message was awaited.
    early: Vec<Vec<u8>>,
    /// Numbers of messages that an honest server would not have received.
    answers: Vec<u8>,
}

impl<'a, 'b, W: Wire> Play<'a, 'b, W> {
    pub(super) fn new(wire: W, key: &'a PrivateKey, sequence: &'b Sequence) -> Self {
        let server = Server::new(wire, key, sequence.strict);
        Self { server, sequence, reached: Place::Identification, early: Vec::new(), answers: Vec::new() }
    }

    fn insert(&mut self, place: Place) {
        for insertion in self.sequence.insertions.iter().filter(|insertion| insertion.place == place) {
            self.server.packet(&insertion.message.payload(insertion.variant));
        }
    }

    fn number(&mut self, number: u8) -> Result<Vec<u8>, End> {
        if let Some(at) = self.early.iter().position(|payload| payload[0] == number) {
            return Ok(self.early.remove(at));
        }
        loop {
            let payload = self.server.receive()?;
            if payload[0] == number {
                return Ok(payload);
            }
            match payload[0] {
                90 | 98 => self.early.push(payload),
                // Messages that clients send without a request.
                2 | 4 | 7 | 80 | 93 | 96 | 97 => {}
                number => self.answers.push(number),
            }
        }
    }

    /// Returns the next USERAUTH_REQUEST that is not a query about a key; such queries are answered here.
    fn attempt(&mut self) -> Result<(), End> {
        loop {
            let request = self.number(50)?;
            let Some((algorithm, blob)) = key_query(&request) else { return Ok(()) };
            let mut accepted = vec![60];
            accepted.put_string(&algorithm);
            accepted.put_string(&blob);
            self.server.packet(&accepted);
        }
    }

    /// Returns the next `exec` request.
    fn command(&mut self) -> Result<Vec<u8>, End> {
        loop {
            let request = self.number(98)?;
            let mut reader = Reader::new(request.get(5..).unwrap_or_default());
            if reader.string().is_ok_and(|name| name == b"exec") {
                return Ok(request);
            }
        }
    }

    fn exchange(&mut self, first: bool) -> Result<(), End> {
        self.server.send_kexinit();
        self.insert(if first { Place::Kexinit } else { Place::Rekey });
        let theirs = self.number(20)?;
        self.server.on_kexinit(&theirs);
        let public = self.number(30)?;
        self.server.on_public(&public)?;
        if first {
            self.reached = Place::Public;
            self.insert(Place::Public);
        }
        self.server.send_newkeys();
        if first {
            self.reached = Place::Newkeys;
        }
        self.insert(if first { Place::Newkeys } else { Place::Rekeyed });
        self.number(21)?;
        self.server.on_newkeys();
        Ok(())
    }

    /// Plays until the command's status has been sent and its channel is closed. Returns the client's number
    /// of the channel.
    pub(super) fn play(&mut self) -> Result<Vec<u8>, End> {
        self.server.identify()?;
        self.insert(Place::Identification);
        self.exchange(true)?;
        self.number(5)?;
        let mut accept = vec![6];
        accept.put_string(b"ssh-userauth");
        self.server.packet(&accept);
        self.reached = Place::Service;
        self.insert(Place::Service);
        self.number(50)?;
        let mut refusal = vec![51];
        refusal.put_name_list(["publickey"]);
        refusal.put_bool(false);
        self.server.packet(&refusal);
        self.reached = Place::Refusal;
        self.insert(Place::Refusal);
        self.attempt()?;
        if self.sequence.authenticates {
            self.server.packet(&[52]);
            self.reached = Place::Login;
        }
        self.insert(Place::Login);
        if self.sequence.rekeys {
            self.exchange(false)?;
        }
        let open = self.number(90)?;
        let channel = open.get(12..16).unwrap_or(&[0; 4]).to_vec();
        let mut opened = vec![91];
        opened.put_bytes(&channel);
        [0, 1 << 20, 32768].iter().for_each(|&number| opened.put_u32(number));
        self.server.packet(&opened);
        self.reached = Place::Channel;
        self.insert(Place::Channel);
        let exec = self.command()?;
        // The field follows the name of 4 bytes.
        if exec.get(13) == Some(&1) {
            self.server.packet(&[&[99], &channel[..]].concat());
        }
        let mut status = vec![98];
        status.put_bytes(&channel);
        status.put_string(b"exit-status");
        status.put_bool(false);
        status.put_u32(0);
        self.server.packet(&status);
        self.server.packet(&[&[96], &channel[..]].concat());
        self.server.packet(&[&[97], &channel[..]].concat());
        self.insert(Place::Closed);
        Ok(channel)
    }

    /// Reads until the client ends the connection, as clients do when the command has ended.
    ///
    /// # Errors
    /// The client does not end it, or sends a message that cannot be decrypted.
    pub(super) fn rest(&mut self) -> Result<(), End> {
        loop {
            match self.server.receive() {
                Ok(payload) if matches!(payload[0], 2 | 4 | 7 | 80 | 93..=98) => {}
                Ok(payload) => self.answers.push(payload[0]),
                // Clients end with reason 11, "by application" (RFC 4253 section 11.1).
                Err(End::Closed | End::Disconnected(11)) => return Ok(()),
                Err(end) => return Err(end),
            }
        }
    }

    /// Returns the numbers of messages that an honest server would not have received, sorted, each once.
    pub(super) fn answers(&self) -> Vec<u8> {
        let mut answers = self.answers.clone();
        answers.sort_unstable();
        answers.dedup();
        answers
    }
}

/// Returns algorithm and key of a USERAUTH_REQUEST that asks whether a key is accepted (RFC 4252, section 7).
fn key_query(request: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut reader = Reader::new(request.get(1..)?);
    let (_user, _service) = (reader.string().ok()?, reader.string().ok()?);
    if reader.string().ok()? != b"publickey" || reader.boolean().ok()? {
        return None;
    }
    Some((reader.string().ok()?.to_vec(), reader.string().ok()?.to_vec()))
}
