//! The server's side: each request becomes an [`Attempt`] that the caller decides.
//!
//! Order of calls: pass payloads to [`Server::handle`]. When it returns an [`Attempt`], answer with exactly
//! one of [`Server::accept`], [`Server::reject`], [`Server::key_ok`] (only for an unsigned key),
//! [`Server::prompts`] (only for keyboard-interactive) or [`Server::gss_reply`] (only for gssapi-with-mic)
//! before the next payload. Counting failures and delaying answers are the caller's policy.

mod attempt;

use lh_wire::msg::{
    ServiceAccept, ServiceRequest, UserauthBanner, UserauthFailure, UserauthGssapiErrtok,
    UserauthGssapiExchangeComplete, UserauthGssapiMic, UserauthGssapiResponse, UserauthGssapiToken,
    UserauthInfoRequest, UserauthInfoResponse, UserauthPkOk, UserauthRequest, UserauthSuccess,
};
use lh_wire::{Message, NameList, PacketSink, Reader, Writer};
use zeroize::Zeroizing;

use crate::gss::{GSS_METHOD, GssAttempt, GssReply, read_mechanisms};
use crate::request::HOSTBOUND_METHOD;
use crate::ticket::{TICKET, TicketRequest};
use crate::{
    AuthError, CONNECTION_SERVICE, HostRequest, KeyRequest, MAX_PROMPTS, MAX_USER_LEN, USERAUTH_SERVICE,
    decode, signed_data,
};
pub use attempt::{Attempt, HostBasedAttempt, Method, PublicKeyAttempt, ResumeAttempt, TicketAttempt};

/// Largest text of a BANNER, bytes. With its other fields a message stays below the payload that every peer
/// takes, 32,768 bytes (RFC 4253 section 6.1): HPN-SSH ends the connection at a packet of 33 KiB.
const BANNER_PIECE: usize = 32_000;

/// Returns the length of what goes first of `text`: up to the end of a line, or at least of a character.
fn banner_piece(text: &[u8]) -> usize {
    let Some(most) = text.get(..BANNER_PIECE) else { return text.len() };
    if let Some(line) = most.iter().rposition(|&byte| byte == b'\n') {
        return line + 1;
    }
    let starts_character = |&at: &usize| text.get(at).is_none_or(|byte| byte & 0xc0 != 0x80);
    (BANNER_PIECE - 3..=BANNER_PIECE).rev().find(starts_character).unwrap_or(BANNER_PIECE)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Service,
    Idle,
    Deciding(Kind),
    Prompting,
    /// A message of the client's GSS-API library is expected.
    Gss,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Offer,
    Interactive,
    Gss,
    Other,
}

/// The authentication server for one connection.
pub struct Server {
    session_id: Vec<u8>,
    host_key: Vec<u8>,
    user: Option<Vec<u8>>,
    offered: Option<(String, Vec<u8>)>,
    asked: u32,
    state: State,
    /// A service request has arrived since the last attempt.
    service_asked: bool,
    /// Number of bytes of connection protocol messages that may still arrive too early.
    early: usize,
}

impl Server {
    /// `session_id` is the exchange hash of the first key exchange, `host_key` the blob of the key that
    /// signed it.
    pub fn new(session_id: &[u8], host_key: &[u8]) -> Self {
        Self {
            session_id: session_id.to_vec(),
            host_key: host_key.to_vec(),
            user: None,
            offered: None,
            asked: 0,
            state: State::Service,
            service_asked: false,
            early: 0,
        }
    }

    /// Drops messages of the connection protocol behind a failed request, up to `bytes` in total, instead of
    /// ending the connection. For servers that have announced it (`first-flight@longhaul`).
    pub const fn allow_early_data(&mut self, bytes: usize) {
        self.early = bytes;
    }

    /// Handles one payload from the client. `None` means that no decision is needed.
    ///
    /// # Errors
    /// The client broke the protocol; close with [`AuthError::disconnect_reason`].
    pub fn handle(
        &mut self,
        payload: &[u8],
        sink: &mut dyn PacketSink,
    ) -> Result<Option<Attempt>, AuthError> {
        let number = payload.first().copied().unwrap_or(0);
        match (number, self.state) {
            (_, State::Deciding(_)) => Err(AuthError::Busy),
            // Some clients (paramiko before version 3) request the service again before every attempt. One
            // request per attempt is enough, and attempts are counted.
            (ServiceRequest::NUMBER, _) if self.service_asked => Err(AuthError::TooMuch("service requests")),
            (ServiceRequest::NUMBER, State::Service | State::Idle | State::Prompting | State::Gss) => {
                let request: ServiceRequest<'_> = decode(payload)?;
                if request.name != USERAUTH_SERVICE {
                    return Err(AuthError::Service(String::from_utf8_lossy(request.name).into_owned()));
                }
                self.service_asked = true;
                sink.payload(&ServiceAccept::new(USERAUTH_SERVICE).to_payload());
                if self.state == State::Service {
                    self.state = State::Idle;
                }
                Ok(None)
            }
            // A new request abandons the prompts of the old one (RFC 4256 section 3.1).
            (UserauthRequest::NUMBER, State::Idle | State::Prompting | State::Gss) => {
                self.request(decode(payload)?).map(Some)
            }
            (80..=127, State::Idle | State::Prompting | State::Gss) if payload.len() <= self.early => {
                self.early -= payload.len();
                Ok(None)
            }
            // RFC 4252 section 5.1: silently ignored after success.
            (UserauthRequest::NUMBER, State::Done) => Ok(None),
            (UserauthInfoResponse::NUMBER, State::Prompting) => self.responses(decode(payload)?).map(Some),
            (UserauthGssapiToken::NUMBER, State::Gss) => {
                let token: UserauthGssapiToken<'_> = decode(payload)?;
                Ok(Some(self.gss(GssAttempt::Token(token.token.to_vec()))))
            }
            (UserauthGssapiMic::NUMBER, State::Gss) => {
                let mic: UserauthGssapiMic<'_> = decode(payload)?;
                Ok(Some(self.gss(GssAttempt::Mic(mic.mic.to_vec()))))
            }
            (UserauthGssapiExchangeComplete::NUMBER, State::Gss) => {
                let _: UserauthGssapiExchangeComplete<'_> = decode(payload)?;
                Ok(Some(self.gss(GssAttempt::Complete)))
            }
            // The client gives up without further messages (RFC 4462 section 3.9).
            (UserauthGssapiErrtok::NUMBER, State::Gss) => {
                let _: UserauthGssapiErrtok<'_> = decode(payload)?;
                self.state = State::Idle;
                Ok(None)
            }
            (number, _) => Err(AuthError::Unexpected { number, waiting_for: self.waiting_for() }),
        }
    }

    fn request(&mut self, request: UserauthRequest<'_>) -> Result<Attempt, AuthError> {
        self.service_asked = false;
        if request.user.len() > MAX_USER_LEN {
            return Err(AuthError::TooMuch("length of the user name"));
        }
        if request.service != CONNECTION_SERVICE {
            return Err(AuthError::Service(String::from_utf8_lossy(request.service).into_owned()));
        }
        let user = self.user.get_or_insert_with(|| request.user.to_vec());
        if user != request.user {
            return Err(AuthError::UserChanged(
                String::from_utf8_lossy(user).into_owned(),
                String::from_utf8_lossy(request.user).into_owned(),
            ));
        }
        let user = String::from_utf8_lossy(request.user).into_owned();
        let name = String::from_utf8_lossy(request.method).into_owned();
        let method = self.method(&name, request.user, request.fields.0);
        self.state = State::Deciding(match &method {
            Method::PublicKey(key) if key.signature.is_none() => Kind::Offer,
            Method::KeyboardInteractive(_) => Kind::Interactive,
            Method::Gss(_) => Kind::Gss,
            _ => Kind::Other,
        });
        Ok(Attempt { user, method })
    }

    /// Decodes the method. Malformed fields make it an unknown method, which is rejected like any other
    /// failed attempt.
    fn method(&mut self, name: &str, user: &[u8], fields: &[u8]) -> Method {
        match name {
            "none" if fields.is_empty() => Method::None,
            "password" => password(fields).unwrap_or_else(|_| Method::Other(name.to_owned())),
            "publickey" | HOSTBOUND_METHOD => {
                let Ok((request, signature)) = KeyRequest::decode(fields, name == HOSTBOUND_METHOD) else {
                    return Method::Other(name.to_owned());
                };
                // The host-bound variant's signature is only valid for the key that we presented.
                if request.host_key.is_some_and(|host_key| host_key != self.host_key) {
                    return Method::Other(name.to_owned());
                }
                self.offered = Some((request.algorithm.to_owned(), request.key.to_vec()));
                let signed = match signature {
                    Some(_) => signed_data(&self.session_id, user, &request),
                    None => Vec::new(),
                };
                Method::PublicKey(PublicKeyAttempt {
                    algorithm: request.algorithm.to_owned(),
                    key: request.key.to_vec(),
                    signature: signature.map(<[u8]>::to_vec),
                    signed,
                    hostbound: request.host_key.is_some(),
                })
            }
            HostRequest::METHOD => match HostRequest::decode(fields) {
                Ok((request, signature)) => Method::HostBased(HostBasedAttempt {
                    algorithm: request.algorithm.to_owned(),
                    key: request.key.to_vec(),
                    host: request.host.to_owned(),
                    local_user: request.local_user.to_owned(),
                    signature: signature.to_vec(),
                }),
                Err(_) => Method::Other(name.to_owned()),
            },
            TICKET => match TicketRequest::decode(fields) {
                Ok((request, signature)) if request.host_key == self.host_key => {
                    Method::Ticket(TicketAttempt { key: request.key.to_vec(), signature: signature.to_vec() })
                }
                _ => Method::Other(name.to_owned()),
            },
            lh_resume::NAME => {
                Method::Resume(ResumeAttempt { fields: fields.to_vec(), export: Zeroizing::default() })
            }
            "keyboard-interactive" => {
                let mut reader = Reader::new(fields);
                match (reader.string(), reader.string()) {
                    (Ok(_language), Ok(submethods)) if reader.is_empty() => {
                        Method::KeyboardInteractive(String::from_utf8_lossy(submethods).into_owned())
                    }
                    _ => Method::Other(name.to_owned()),
                }
            }
            GSS_METHOD => match read_mechanisms(fields) {
                Ok(mechanisms) => Method::Gss(GssAttempt::Begin(mechanisms)),
                Err(_) => Method::Other(name.to_owned()),
            },
            other => Method::Other(other.to_owned()),
        }
    }

    fn responses(&mut self, message: UserauthInfoResponse<'_>) -> Result<Attempt, AuthError> {
        let malformed = |error| AuthError::Malformed { number: UserauthInfoResponse::NUMBER, error };
        if message.count != self.asked {
            return Err(malformed(lh_wire::WireError::Invalid { what: "number of responses" }));
        }
        let mut reader = Reader::new(message.responses.0);
        let mut responses = Vec::new();
        for _ in 0..message.count.min(MAX_PROMPTS) {
            responses.push(Zeroizing::new(reader.string().map_err(malformed)?.to_vec()));
        }
        reader.finish().map_err(malformed)?;
        self.state = State::Deciding(Kind::Interactive);
        Ok(Attempt { user: self.user_text(), method: Method::Responses(responses) })
    }

    fn gss(&mut self, step: GssAttempt) -> Attempt {
        self.state = State::Deciding(Kind::Gss);
        Attempt { user: self.user_text(), method: Method::Gss(step) }
    }

    fn user_text(&self) -> String {
        String::from_utf8_lossy(self.user.as_deref().unwrap_or_default()).into_owned()
    }

    /// Sends USERAUTH_SUCCESS: the client is authenticated.
    pub fn accept(&mut self, sink: &mut dyn PacketSink) {
        sink.payload(&UserauthSuccess::new().to_payload());
        self.state = State::Done;
    }

    /// Sends USERAUTH_FAILURE: the attempt failed, or (`partial_success`) it was successful but one of
    /// `methods` must follow. If the names do not fit a `name-list`, nothing is sent.
    pub fn reject(&mut self, methods: &[&str], partial_success: bool, sink: &mut dyn PacketSink) {
        let names = methods.join(",");
        if let Ok(methods) = NameList::from_content(names.as_bytes()) {
            sink.payload(&UserauthFailure::new(methods, partial_success).to_payload());
        }
        self.state = State::Idle;
    }

    /// Sends PK_OK: the offered key would be accepted. Anything but an unsigned offer is rejected instead.
    pub fn key_ok(&mut self, sink: &mut dyn PacketSink) {
        match (&self.offered, self.state) {
            (Some((algorithm, key)), State::Deciding(Kind::Offer)) => {
                sink.payload(&UserauthPkOk::new(algorithm.as_bytes(), key).to_payload());
                self.state = State::Idle;
            }
            _ => self.reject(&[], false, sink),
        }
    }

    /// Sends the prompts of a keyboard-interactive attempt, at most [`MAX_PROMPTS`].
    pub fn prompts(
        &mut self,
        name: &str,
        instruction: &str,
        prompts: &[(&str, bool)],
        sink: &mut dyn PacketSink,
    ) {
        if self.state != State::Deciding(Kind::Interactive) {
            return self.reject(&[], false, sink);
        }
        let prompts = prompts.get(..MAX_PROMPTS as usize).unwrap_or(prompts);
        let mut fields = Vec::new();
        for (text, echo) in prompts {
            fields.put_string(text.as_bytes());
            fields.put_bool(*echo);
        }
        self.asked = u32::try_from(prompts.len()).unwrap_or(MAX_PROMPTS);
        let request = UserauthInfoRequest::new(
            name.as_bytes(),
            instruction.as_bytes(),
            b"",
            self.asked,
            lh_wire::msg::Rest(&fields),
        );
        sink.payload(&request.to_payload());
        self.state = State::Prompting;
    }

    /// Continues the exchange of gssapi-with-mic. In any other state the attempt is rejected instead.
    pub fn gss_reply(&mut self, reply: &GssReply, sink: &mut dyn PacketSink) {
        if self.state != State::Deciding(Kind::Gss) {
            return self.reject(&[], false, sink);
        }
        match reply {
            GssReply::Mechanism(name) => sink.payload(&UserauthGssapiResponse::new(name).to_payload()),
            GssReply::Token(token) if token.is_empty() => {}
            GssReply::Token(token) => sink.payload(&UserauthGssapiToken::new(token).to_payload()),
        }
        self.state = State::Gss;
    }

    /// Sends our library's error token; a rejection follows.
    pub fn gss_error_token(&self, token: &[u8], sink: &mut dyn PacketSink) {
        if !token.is_empty() && self.state == State::Deciding(Kind::Gss) {
            sink.payload(&UserauthGssapiErrtok::new(token).to_payload());
        }
    }

    /// Sends a text for the user, a long one in several messages; allowed at any time before success
    /// (RFC 4252 section 5.4).
    pub fn banner(&mut self, text: &[u8], sink: &mut dyn PacketSink) {
        if self.state == State::Done {
            return;
        }
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(banner_piece(rest));
            sink.payload(&UserauthBanner::new(piece, b"").to_payload());
            rest = behind;
        }
    }

    /// Returns the user that the client named, if it has.
    pub fn user(&self) -> Option<&[u8]> {
        self.user.as_deref()
    }

    const fn waiting_for(&self) -> &'static str {
        match self.state {
            State::Service => "waiting for a service request",
            State::Idle | State::Deciding(_) => "waiting for an authentication request",
            State::Prompting => "waiting for answers to prompts",
            State::Gss => "waiting for a token or checksum",
            State::Done => "authentication is over",
        }
    }
}

fn password(fields: &[u8]) -> lh_wire::Result<Method> {
    let mut reader = Reader::new(fields);
    let change = reader.boolean()?;
    let password = Zeroizing::new(reader.string()?.to_vec());
    if change {
        reader.string()?;
    }
    reader.finish()?;
    Ok(if change { Method::PasswordChange } else { Method::Password(password) })
}
