//! Dispatch: turns received packets into events for the connection, its channels and the control.

use bytes::Bytes;
use lh_connection::Event as ConnectionEvent;
use lh_resume::message;
use lh_transport::Event as TransportEvent;

use super::Driver;
use crate::control::{Control, ControlEvent};
use crate::error::DriverError;
use crate::event::ChannelEvent;
use crate::handler::ControlCx;
use crate::keepalive::KEEPALIVE_REQUEST;

/// The only type of extended data that has a meaning (RFC 4254 section 5.2).
const STDERR: u32 = 1;

impl Driver {
    /// Delivers every event that the transport has.
    pub(super) fn dispatch(&mut self, control: &mut dyn Control) -> Result<(), DriverError> {
        self.core.link.see();
        while self.core.stop.is_none() && !self.core.link.is_lost() {
            let event = match self.core.link.transport().poll(self.core.now) {
                Ok(Some(event)) => event,
                Ok(None) => {
                    self.core.link.give_out();
                    // Workers may have finished jobs in the meantime.
                    if self.core.link.take_back() {
                        self.core.link.see();
                        continue;
                    }
                    break;
                }
                Err(error) => {
                    self.core.end_batch();
                    return Err(self.core.link.transport_failed(error).into());
                }
            };
            let event = match event {
                TransportEvent::Packet(payload) => match self.on_packet(payload, control)? {
                    Some(event) => event,
                    None => continue,
                },
                TransportEvent::HostKey { algorithm, blob, .. } => ControlEvent::HostKey { algorithm, blob },
                TransportEvent::SignExchangeHash { algorithm, key_index, data } => {
                    ControlEvent::SignExchangeHash { algorithm, key_index, data }
                }
                TransportEvent::KexDone { names, .. } => {
                    self.core.rekeys += 1;
                    if std::mem::take(&mut self.spreads) {
                        // On failure the socket stays unpaced.
                        let _ = lh_sys::tuning::spread_out(self.core.link.stream().write_fd());
                    }
                    ControlEvent::KexDone { names }
                }
                TransportEvent::ExtInfo(extensions) => {
                    self.round_trip_probe.ask(&mut self.core);
                    ControlEvent::ExtInfo(extensions)
                }
                TransportEvent::Pong(content) => match self.round_trip_probe.on_pong(&content) {
                    Some(round_trip) => {
                        // The value covers the whole path, unlike the socket's, which may end at a jump host.
                        self.core.connection.peer_answered(round_trip);
                        self.core.set_acknowledge_pace(round_trip);
                        continue;
                    }
                    None => ControlEvent::Pong(content),
                },
                TransportEvent::Debug { always_display, text } => {
                    ControlEvent::Debug { always_display, text }
                }
                TransportEvent::Disconnected { reason, description } => {
                    self.core.end_batch();
                    let event = ControlEvent::Disconnected { reason, description: description.clone() };
                    control.on_event(event, &mut ControlCx::new(&mut self.core));
                    if self.core.stop.is_none() {
                        return Err(DriverError::Disconnected { reason, description });
                    }
                    break;
                }
                // Events of the first key exchange, which was handled before channels existed.
                _ => continue,
            };
            control.on_event(event, &mut ControlCx::new(&mut self.core));
        }
        self.core.end_batch();
        Ok(())
    }

    /// Handles a message above the transport. Returns an event if it is not about a channel.
    fn on_packet(
        &mut self,
        payload: Bytes,
        control: &mut dyn Control,
    ) -> Result<Option<ControlEvent>, DriverError> {
        let number = payload.first().copied().unwrap_or(0);
        self.core.count_message(number, payload.len());
        match number {
            80..=100 => {
                let now = self.core.now;
                let (connection, sink) = self.core.speak();
                connection.handle(payload, now, sink)?;
                while let Some(event) = self.core.connection.poll_event() {
                    self.on_connection_event(event, control);
                }
                Ok(None)
            }
            message::NUMBER => {
                self.core.on_resume_message(&payload)?;
                Ok(None)
            }
            5 | 6 | 50..=79 => Ok(Some(ControlEvent::Packet(payload))),
            _ => {
                self.core.link.transport().reply_unimplemented();
                Ok(None)
            }
        }
    }

    fn on_connection_event(&mut self, event: ConnectionEvent, control: &mut dyn Control) {
        let (id, event) = match event {
            // Other types of extended data have no meaning (RFC 4254 section 5.2), and are dropped, as by
            // OpenSSH: as text of standard error they would be shown.
            ConnectionEvent::Data { id, ext: Some(kind), data } if kind != STDERR => {
                let now = self.core.now;
                let (connection, sink) = self.core.speak();
                return connection.consumed(id, data.len(), now, sink);
            }
            ConnectionEvent::Data { id, ext, data } => (id, ChannelEvent::Data { ext, data }),
            ConnectionEvent::Opened { id, fields } => (id, ChannelEvent::Opened { fields }),
            ConnectionEvent::OpenFailed { id, reason, description } => {
                (id, ChannelEvent::OpenFailed { reason, description })
            }
            ConnectionEvent::Eof { id } => (id, ChannelEvent::Eof),
            ConnectionEvent::Closed { id } => (id, ChannelEvent::Closed),
            ConnectionEvent::Request { id, name, want_reply, fields } => {
                (id, ChannelEvent::Request { name, want_reply, fields })
            }
            ConnectionEvent::RequestReply { id, name, ok } => (id, ChannelEvent::RequestReply { name, ok }),
            ConnectionEvent::OpenRequested { id, kind, fields } => {
                // The peer may open as many channels as it has closed in the same batch.
                if self.core.has_closed_in_batch() {
                    self.core.drain_notifications(control);
                }
                let event = ControlEvent::OpenRequested { id, kind, fields };
                return control.on_event(event, &mut ControlCx::new(&mut self.core));
            }
            ConnectionEvent::GlobalRequest { name, want_reply, fields } => {
                let event = ControlEvent::GlobalRequest { name, want_reply, fields };
                return control.on_event(event, &mut ControlCx::new(&mut self.core));
            }
            ConnectionEvent::Relayed { id, message } => {
                let event = ControlEvent::Relayed { id, message };
                return control.on_event(event, &mut ControlCx::new(&mut self.core));
            }
            // Any answer, a failure too, shows that the peer is alive; its arrival has been counted already.
            ConnectionEvent::GlobalReply { name, .. } if name == KEEPALIVE_REQUEST => {
                if let Some(round_trip) = self.round_trip_probe.on_reply() {
                    self.core.connection.peer_answered(round_trip);
                }
                return;
            }
            ConnectionEvent::GlobalReply { name, ok, fields } => {
                let event = ControlEvent::GlobalReply { name, ok, fields };
                return control.on_event(event, &mut ControlCx::new(&mut self.core));
            }
            // Budgets are checked every turn, so these events need no delivery.
            _ => return,
        };
        self.core.deliver(id, event);
    }
}
