//! A server that follows a sequence: the messages of an honest server, with others inserted.

use lh_crypto::PrivateKey;
use lh_wire::Writer;

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
}

impl<'a, 'b, W: Wire> Play<'a, 'b, W> {
    pub(super) fn new(wire: W, key: &'a PrivateKey, sequence: &'b Sequence) -> Self {
        let server = Server::new(wire, key, sequence.strict);
        Self { server, sequence, reached: Place::Identification, early: Vec::new() }
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
            if matches!(payload[0], 90 | 98) {
                self.early.push(payload);
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
        self.insert(if first { Place::Newkeys } else { Place::Rekeyed });
        self.number(21)?;
        self.server.on_newkeys();
        Ok(())
    }

    /// Plays until the command's status has been sent. Its channel is the result.
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
        self.number(50)?;
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
        self.number(98)?;
        let mut status = vec![98];
        status.put_bytes(&channel);
        status.put_string(b"exit-status");
        status.put_bool(false);
        status.put_u32(0);
        self.server.packet(&status);
        Ok(channel)
    }
}
