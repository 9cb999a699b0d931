//! The client's side: sends one request at a time and interprets the server's answers.
//!
//! Order of calls: [`Client::start`], then pass every payload to [`Client::handle`]. Some events require a
//! choice of the caller ([`Event::ChooseMethod`], [`Event::KeyAccepted`], [`Event::Prompts`]); answer them
//! with one of the request methods.

use lh_wire::msg::{
    Rest, ServiceAccept, ServiceRequest, UserauthBanner, UserauthFailure, UserauthGssapiError,
    UserauthGssapiErrtok, UserauthGssapiExchangeComplete, UserauthGssapiMic, UserauthGssapiResponse,
    UserauthGssapiToken, UserauthInfoRequest, UserauthPasswdChangereq, UserauthPkOk, UserauthRequest,
    UserauthSuccess,
};
use lh_wire::{Message, PacketSink, Reader, Writer};
use zeroize::Zeroizing;

use crate::gss::{GSS_METHOD, mic_data, put_mechanisms};
use crate::{
    AuthError, CONNECTION_SERVICE, HostRequest, KeyRequest, MAX_PROMPTS, TicketRequest, USERAUTH_SERVICE,
    decode, signed_data,
};

/// One prompt of keyboard-interactive (RFC 4256 section 3.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The server's text: escape control characters before it is displayed.
    pub text: String,
    /// True when the answer may be echoed while it is typed.
    pub echo: bool,
}

/// Meaning of the server's message for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The service was accepted: send the first request, usually [`Client::none`], unless [`Client::ahead`]
    /// has sent it.
    Ready,
    /// The answer to the `none` of [`Client::ahead`]. The request behind it is in progress, and its answer
    /// follows.
    Methods(Vec<String>),
    /// A text for the user: escape it and display it at once. The client still waits for the answer.
    Banner(String),
    /// The last request did not finish authentication.
    ChooseMethod {
        /// Methods that can continue, in the server's order.
        methods: Vec<String>,
        /// The last request was successful, but another method is required in addition.
        partial_success: bool,
    },
    /// The server would accept a signature by the offered key.
    KeyAccepted {
        /// The algorithm of the offer.
        algorithm: String,
        /// The key blob of the offer.
        key: Vec<u8>,
    },
    /// Prompts to be answered with [`Client::responses`], even if the list is empty.
    Prompts {
        /// Title, often empty.
        name: String,
        /// Text before the prompts, often empty.
        instruction: String,
        /// The prompts.
        prompts: Vec<Prompt>,
    },
    /// The password has expired; answer with [`Client::change_password`].
    PasswordExpired {
        /// The server's explanation.
        prompt: String,
    },
    /// The server accepts this mechanism, an object identifier in DER. Start the exchange with
    /// [`Client::gss_token`].
    GssMechanism(Vec<u8>),
    /// A token of the server's GSS-API library. Answer with [`Client::gss_token`], or with
    /// [`Client::gss_done`] when the context is complete.
    GssToken(Vec<u8>),
    /// The error text of the server's library: escape it. The client still waits for the answer.
    GssError(String),
    /// Authentication is complete: the connection protocol starts.
    Success,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Service,
    Choosing,
    Waiting(Sent),
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    None,
    Offer,
    Signature,
    Password,
    Interactive,
    Gss,
    GssToken,
}

/// The authentication client for one user on one connection.
#[derive(Debug)]
pub struct Client {
    user: Vec<u8>,
    session_id: Vec<u8>,
    host_key: Option<Vec<u8>>,
    state: State,
    /// Answers that are expected before the one to the last request.
    ahead: Ahead,
}

/// Answers that precede the one to the last request, after [`Client::ahead`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ahead {
    /// No earlier answers.
    Nothing,
    /// The service's answer, then the answer to `none`.
    Service,
    /// The answer to `none`.
    None,
}

impl Client {
    /// `session_id` is the exchange hash of the first key exchange. `host_key` is the blob of the host key
    /// that signed it; pass it only when the server announced `publickey-hostbound@openssh.com` in its
    /// EXT_INFO.
    pub fn new(user: &str, session_id: &[u8], host_key: Option<&[u8]>) -> Self {
        Self {
            user: user.as_bytes().to_vec(),
            session_id: session_id.to_vec(),
            host_key: host_key.map(<[u8]>::to_vec),
            state: State::Start,
            ahead: Ahead::Nothing,
        }
    }

    /// Sets the host key that signatures name from now on (`publickey-hostbound-v00@openssh.com`), or none.
    /// For callers that learn of the server's `publickey-hostbound@openssh.com` only after
    /// [`new`](Self::new).
    pub fn bind_host_key(&mut self, host_key: Option<&[u8]>) {
        self.host_key = host_key.map(<[u8]>::to_vec);
    }

    /// Requests the `ssh-userauth` service.
    pub fn start(&mut self, sink: &mut dyn PacketSink) {
        sink.payload(&ServiceRequest::new(USERAUTH_SERVICE).to_payload());
        self.state = State::Service;
    }

    /// Sends `none` without waiting for the service. Another request may follow at once, so that all three
    /// cost one round trip: the server handles them in order and ignores requests behind a success (RFC 4252
    /// section 5.1). Call it after [`start`](Self::start), and only for servers that are known to support it.
    pub fn ahead(&mut self, sink: &mut dyn PacketSink) {
        self.none(sink);
        self.ahead = Ahead::Service;
    }

    /// Handles one payload from the server.
    ///
    /// # Errors
    /// The message is malformed or out of order; close the connection with [`AuthError::disconnect_reason`].
    pub fn handle(&mut self, payload: &[u8]) -> Result<Event, AuthError> {
        let number = payload.first().copied().unwrap_or(0);
        match self.ahead {
            Ahead::Nothing => {}
            // No other message may arrive before it.
            Ahead::Service if number == ServiceAccept::NUMBER => {
                self.ahead = Ahead::None;
                return accepted(payload).map(|()| Event::Ready);
            }
            Ahead::Service => {
                return Err(AuthError::Unexpected { number, waiting_for: State::Service.waiting_for() });
            }
            // If `none` is the only request, its answer is handled like any other.
            Ahead::None if number == UserauthFailure::NUMBER && self.state != State::Waiting(Sent::None) => {
                let failure: UserauthFailure<'_> = decode(payload)?;
                self.ahead = Ahead::Nothing;
                return Ok(Event::Methods(failure.methods.iter().map(str::to_owned).collect()));
            }
            Ahead::None if [UserauthBanner::NUMBER, UserauthSuccess::NUMBER].contains(&number) => {}
            Ahead::None if self.state == State::Waiting(Sent::None) => self.ahead = Ahead::Nothing,
            Ahead::None => return Err(AuthError::Unexpected { number, waiting_for: self.waiting_for() }),
        }
        match (number, self.state) {
            (ServiceAccept::NUMBER, State::Service) => {
                accepted(payload)?;
                self.state = State::Choosing;
                Ok(Event::Ready)
            }
            (UserauthBanner::NUMBER, State::Choosing | State::Waiting(_)) => {
                let banner: UserauthBanner<'_> = decode(payload)?;
                Ok(Event::Banner(shown(banner.text)))
            }
            (UserauthFailure::NUMBER, State::Waiting(_)) => {
                let failure: UserauthFailure<'_> = decode(payload)?;
                self.state = State::Choosing;
                Ok(Event::ChooseMethod {
                    methods: failure.methods.iter().map(str::to_owned).collect(),
                    partial_success: failure.partial_success,
                })
            }
            (UserauthSuccess::NUMBER, State::Waiting(_)) => {
                let _: UserauthSuccess<'_> = decode(payload)?;
                self.state = State::Done;
                Ok(Event::Success)
            }
            (UserauthPkOk::NUMBER, State::Waiting(Sent::Offer)) => {
                let ok: UserauthPkOk<'_> = decode(payload)?;
                self.state = State::Choosing;
                Ok(Event::KeyAccepted {
                    algorithm: String::from_utf8_lossy(ok.algorithm).into_owned(),
                    key: ok.key.to_vec(),
                })
            }
            (UserauthPasswdChangereq::NUMBER, State::Waiting(Sent::Password)) => {
                let request: UserauthPasswdChangereq<'_> = decode(payload)?;
                self.state = State::Choosing;
                Ok(Event::PasswordExpired { prompt: String::from_utf8_lossy(request.prompt).into_owned() })
            }
            (UserauthInfoRequest::NUMBER, State::Waiting(Sent::Interactive)) => {
                let request: UserauthInfoRequest<'_> = decode(payload)?;
                let prompts = prompts(&request)?;
                self.state = State::Choosing;
                Ok(Event::Prompts {
                    name: String::from_utf8_lossy(request.name).into_owned(),
                    instruction: String::from_utf8_lossy(request.instruction).into_owned(),
                    prompts,
                })
            }
            (UserauthGssapiResponse::NUMBER, State::Waiting(Sent::Gss)) => {
                let response: UserauthGssapiResponse<'_> = decode(payload)?;
                self.state = State::Choosing;
                Ok(Event::GssMechanism(response.mechanism.to_vec()))
            }
            (UserauthGssapiToken::NUMBER, State::Waiting(Sent::GssToken)) => {
                let token: UserauthGssapiToken<'_> = decode(payload)?;
                self.state = State::Choosing;
                Ok(Event::GssToken(token.token.to_vec()))
            }
            (UserauthGssapiError::NUMBER, State::Waiting(Sent::Gss | Sent::GssToken)) => {
                let error: UserauthGssapiError<'_> = decode(payload)?;
                Ok(Event::GssError(String::from_utf8_lossy(error.text).into_owned()))
            }
            // A token for the library, which would only report that the server has given up; a failure
            // follows.
            (UserauthGssapiErrtok::NUMBER, State::Waiting(Sent::Gss | Sent::GssToken)) => {
                let _: UserauthGssapiErrtok<'_> = decode(payload)?;
                Ok(Event::GssError(String::new()))
            }
            (number, _) => Err(AuthError::Unexpected { number, waiting_for: self.waiting_for() }),
        }
    }

    /// Asks for the server's methods (RFC 4252 section 5.2).
    pub fn none(&mut self, sink: &mut dyn PacketSink) {
        self.request("none", &[], Sent::None, sink);
    }

    /// Offers a key without signing, so that no passphrase or touch is requested in vain.
    pub fn offer_key(&mut self, algorithm: &str, key: &[u8], sink: &mut dyn PacketSink) {
        let mut payload = Vec::new();
        self.key_request(algorithm, key).encode(&self.user, None, &mut payload);
        sink.payload(&payload);
        self.state = State::Waiting(Sent::Offer);
    }

    /// Returns the bytes to sign for [`Client::signed_key`].
    pub fn signature_data(&self, algorithm: &str, key: &[u8]) -> Vec<u8> {
        signed_data(&self.session_id, &self.user, &self.key_request(algorithm, key))
    }

    /// Authenticates with a signature blob over [`Client::signature_data`].
    pub fn signed_key(&mut self, algorithm: &str, key: &[u8], signature: &[u8], sink: &mut dyn PacketSink) {
        let mut payload = Vec::new();
        self.key_request(algorithm, key).encode(&self.user, Some(signature), &mut payload);
        sink.payload(&payload);
        self.state = State::Waiting(Sent::Signature);
    }

    /// Returns the bytes that this host's key must sign for [`Client::host_based`].
    pub fn host_signature_data(&self, request: &HostRequest<'_>) -> Vec<u8> {
        request.signed_data(&self.session_id, &self.user)
    }

    /// Authenticates as a user of this host (RFC 4252 section 9), with a signature over
    /// [`Client::host_signature_data`].
    pub fn host_based(&mut self, request: &HostRequest<'_>, signature: &[u8], sink: &mut dyn PacketSink) {
        let mut payload = Vec::new();
        request.encode(&self.user, signature, &mut payload);
        sink.payload(&payload);
        self.state = State::Waiting(Sent::Signature);
    }

    /// Returns the bytes that the ticket key of session `joined` must sign for [`Client::ticket`].
    pub fn ticket_data(&self, joined: &[u8], request: &TicketRequest<'_>) -> Vec<u8> {
        request.signed_data(joined, &self.session_id, &self.user)
    }

    /// Joins an authenticated session, with a signature over [`Client::ticket_data`].
    pub fn ticket(&mut self, request: &TicketRequest<'_>, signature: &[u8], sink: &mut dyn PacketSink) {
        let mut payload = Vec::new();
        request.encode(&self.user, signature, &mut payload);
        sink.payload(&payload);
        self.state = State::Waiting(Sent::Signature);
    }

    /// Authenticates with a password (RFC 4252 section 8).
    pub fn password(&mut self, password: &[u8], sink: &mut dyn PacketSink) {
        let mut fields = Zeroizing::new(Vec::with_capacity(password.len() + 5));
        fields.put_bool(false);
        fields.put_string(password);
        self.request("password", &fields, Sent::Password, sink);
    }

    /// Answers [`Event::PasswordExpired`].
    pub fn change_password(&mut self, old: &[u8], new: &[u8], sink: &mut dyn PacketSink) {
        let mut fields = Zeroizing::new(Vec::with_capacity(old.len() + new.len() + 9));
        fields.put_bool(true);
        fields.put_string(old);
        fields.put_string(new);
        self.request("password", &fields, Sent::Password, sink);
    }

    /// Starts keyboard-interactive; `devices` is the comma-separated `KbdInteractiveDevices`, usually empty.
    pub fn keyboard_interactive(&mut self, devices: &str, sink: &mut dyn PacketSink) {
        let mut fields = Vec::new();
        fields.put_string(b"");
        fields.put_string(devices.as_bytes());
        self.request("keyboard-interactive", &fields, Sent::Interactive, sink);
    }

    /// Answers [`Event::Prompts`] with one response per prompt.
    pub fn responses<R: AsRef<[u8]>>(&mut self, responses: &[R], sink: &mut dyn PacketSink) {
        let size = 5 + responses.iter().map(|each| each.as_ref().len() + 4).sum::<usize>();
        let mut payload = Zeroizing::new(Vec::with_capacity(size));
        payload.put_u8(lh_wire::msg::UserauthInfoResponse::NUMBER);
        payload.put_u32(u32::try_from(responses.len()).unwrap_or(u32::MAX));
        for response in responses {
            payload.put_string(response.as_ref());
        }
        sink.payload(&payload);
        self.state = State::Waiting(Sent::Interactive);
    }

    /// Offers GSS-API mechanisms, best first: object identifiers in DER (RFC 4462 section 3.2).
    pub fn gss(&mut self, mechanisms: &[&[u8]], sink: &mut dyn PacketSink) {
        let mut fields = Vec::new();
        put_mechanisms(mechanisms, &mut fields);
        self.request(GSS_METHOD, &fields, Sent::Gss, sink);
    }

    /// Sends a token of our library to the server's.
    pub fn gss_token(&mut self, token: &[u8], sink: &mut dyn PacketSink) {
        sink.payload(&UserauthGssapiToken::new(token).to_payload());
        self.state = State::Waiting(Sent::GssToken);
    }

    /// Sends our library's error token. The server does not answer it; another request follows.
    pub fn gss_error_token(&mut self, token: &[u8], sink: &mut dyn PacketSink) {
        sink.payload(&UserauthGssapiErrtok::new(token).to_payload());
    }

    /// Returns the bytes that the checksum for [`Client::gss_done`] covers.
    pub fn gss_data(&self) -> Vec<u8> {
        mic_data(&self.session_id, &self.user)
    }

    /// Completes the context. `token`: a last token for the server's library, or empty. `mic`: the checksum
    /// over [`Client::gss_data`], if the context supports one.
    pub fn gss_done(&mut self, token: &[u8], mic: Option<&[u8]>, sink: &mut dyn PacketSink) {
        if !token.is_empty() {
            sink.payload(&UserauthGssapiToken::new(token).to_payload());
        }
        match mic {
            Some(mic) => sink.payload(&UserauthGssapiMic::new(mic).to_payload()),
            None => sink.payload(&UserauthGssapiExchangeComplete::new().to_payload()),
        }
        self.state = State::Waiting(Sent::GssToken);
    }

    fn key_request<'a>(&'a self, algorithm: &'a str, key: &'a [u8]) -> KeyRequest<'a> {
        KeyRequest { algorithm, key, host_key: self.host_key.as_deref() }
    }

    fn request(&mut self, method: &str, fields: &[u8], sent: Sent, sink: &mut dyn PacketSink) {
        let request = UserauthRequest::new(&self.user, CONNECTION_SERVICE, method.as_bytes(), Rest(fields));
        // Allocated in full beforehand: a growing buffer would leave copies of a password behind.
        let mut payload =
            Zeroizing::new(Vec::with_capacity(self.user.len() + method.len() + fields.len() + 64));
        request.encode(&mut payload);
        sink.payload(&payload);
        self.state = State::Waiting(sent);
    }

    const fn waiting_for(&self) -> &'static str {
        self.state.waiting_for()
    }
}

impl State {
    const fn waiting_for(self) -> &'static str {
        match self {
            Self::Start => "authentication has not started",
            Self::Service => "waiting for the authentication service",
            Self::Choosing => "no request is pending",
            Self::Waiting(_) => "waiting for the answer to a request",
            Self::Done => "authentication is over",
        }
    }
}

/// Checks that the accepted service is the requested one.
fn accepted(payload: &[u8]) -> Result<(), AuthError> {
    let accept: ServiceAccept<'_> = decode(payload)?;
    if accept.name != USERAUTH_SERVICE {
        return Err(AuthError::Service(String::from_utf8_lossy(accept.name).into_owned()));
    }
    Ok(())
}

/// Returns a text in which bytes that are not UTF-8 are octal numbers, as OpenSSH shows them.
fn shown(text: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in text.utf8_chunks() {
        shown.push_str(chunk.valid());
        shown.extend(chunk.invalid().iter().map(|byte| format!("\\{byte:03o}")));
    }
    shown
}

fn prompts(request: &UserauthInfoRequest<'_>) -> Result<Vec<Prompt>, AuthError> {
    if request.count > MAX_PROMPTS {
        return Err(AuthError::TooMuch("number of prompts"));
    }
    let malformed = |error| AuthError::Malformed { number: UserauthInfoRequest::NUMBER, error };
    let mut reader = Reader::new(request.prompts.0);
    let mut prompts = Vec::new();
    for _ in 0..request.count {
        let text = String::from_utf8_lossy(reader.string().map_err(malformed)?).into_owned();
        let echo = reader.boolean().map_err(malformed)?;
        prompts.push(Prompt { text, echo });
    }
    reader.finish().map_err(malformed)?;
    Ok(prompts)
}
