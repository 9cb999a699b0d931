//! The login: which method next, with which key or answer, in OpenSSH's order and words.
//!
//! `lh_auth` has the state machine of the protocol. This module decides: it tracks what has been tried, drops
//! each method that has nothing more to offer, and ends with the list of methods that the server still
//! accepts.
//!
//! One difference from OpenSSH: with an unencrypted private key in memory it signs at once instead of
//! offering the key first. The signature costs less than the round trip that it saves, above all on long
//! paths.

mod hostbased;
mod kerberos;

use std::os::fd::BorrowedFd;

use bytes::Bytes;
use lh_auth::client::{Client as Machine, Event, Prompt};
use lh_crypto::PublicKey;
use lh_wire::PacketSink;
use zeroize::Zeroizing;

use hostbased::HostBased;
use kerberos::{Kerberos, Next};
use lh_auth::gss::GSS_METHOD as KERBEROS;

use crate::error::ClientError;
use crate::identity::{Identities, IdentityConfig, SignFailure};
use crate::key_types::short_type;
use crate::log::{Log, sanitise};

/// The packets of one connection, as the login uses them.
pub(crate) trait Packets {
    /// The sink for requests.
    fn sink(&mut self) -> &mut dyn PacketSink;
    /// Sends what is queued, then waits for the next payload.
    fn next(&mut self, log: &mut Log<'_>) -> Result<Bytes, ClientError>;
    /// The value of the server's `server-sig-algs`, if any (it may arrive late).
    fn server_sig_algs(&self) -> Option<String>;
    /// The host key that signatures must include, if the server supports that (it may announce it late) and
    /// the configuration wants it. Such a signature is useless at another host.
    fn bound_host_key(&self) -> Option<Vec<u8>>;
    /// True if the server is known to handle requests in sequence however many arrive at once, and has sent
    /// its extension information.
    fn handles_several_requests(&mut self, log: &mut Log<'_>) -> Result<bool, ClientError>;
    /// True if the server has announced that users in general may log in with keys.
    fn wants_keys(&self) -> bool {
        false
    }
    /// Allows channel messages behind the last request, which may log the user in.
    fn send_early_data(&mut self) {}
    /// Drops those messages: the request did not log the user in.
    fn early_dropped(&mut self) {}
    /// The descriptor of the connection, if there is one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// The settings of a login.
#[derive(Debug, Clone)]
pub(crate) struct LoginConfig {
    pub(crate) user: String,
    /// The host's name in prompts and messages.
    pub(crate) host: String,
    /// `HostKeyAlias`, which replaces the host's name in prompts.
    pub(crate) alias: Option<String>,
    /// The peer in the "Authenticated to" line: `[IP]:PORT` or `via proxy`.
    pub(crate) peer: String,
    /// Allowed methods, in order of preference.
    pub(crate) methods: Vec<String>,
    pub(crate) password_prompts: u32,
    pub(crate) kbd_interactive_devices: String,
    /// `PubkeyAcceptedAlgorithms`.
    pub(crate) pubkey_algorithms: Vec<String>,
    /// `HostbasedAcceptedAlgorithms`.
    pub(crate) hostbased_algorithms: Vec<String>,
    /// The user's name on this host.
    pub(crate) local_user: String,
    /// `GSSAPIDelegateCredentials`.
    pub(crate) delegate: bool,
    /// Smallest RSA key that is used, bits.
    pub(crate) required_rsa_size: u32,
    pub(crate) identities: IdentityConfig,
}

/// Logs in.
///
/// # Errors
/// [`ClientError::Denied`] with the error message, or the error that ended the connection.
pub(crate) fn log_in(
    packets: &mut dyn Packets,
    machine: Machine,
    config: &LoginConfig,
    log: &mut Log<'_>,
) -> Result<(), ClientError> {
    Login {
        packets,
        machine,
        config,
        identities: None,
        next_key: 0,
        passwords: 0,
        interactive: 0,
        tried_interactive: false,
        spent: Vec::new(),
        offered: Vec::new(),
        method: "none",
        used_key: None,
        host_based: None,
        kerberos: Kerberos::default(),
    }
    .run(log)
}

struct Login<'a> {
    packets: &'a mut dyn Packets,
    machine: Machine,
    config: &'a LoginConfig,
    /// Found when publickey is first tried, so that the agent and the disk are not read in vain.
    identities: Option<Identities>,
    next_key: usize,
    passwords: u32,
    interactive: u32,
    /// The last keyboard-interactive request had at least one question.
    tried_interactive: bool,
    /// Methods with nothing left to try.
    spent: Vec<&'static str>,
    /// The methods in the server's last reply.
    offered: Vec<String>,
    /// The method of the last request.
    method: &'static str,
    /// The identity of the last publickey request.
    used_key: Option<usize>,
    /// The keys left for host-based authentication; found at its first use.
    host_based: Option<HostBased>,
    kerberos: Kerberos,
}

const PUBLICKEY: &str = "publickey";
const PASSWORD: &str = "password";
const INTERACTIVE: &str = "keyboard-interactive";
const HOSTBASED: &str = "hostbased";

impl Login<'_> {
    fn run(mut self, log: &mut Log<'_>) -> Result<(), ClientError> {
        self.machine.start(self.packets.sink());
        let ahead = self.packets.handles_several_requests(log)?;
        if ahead {
            self.send_first_requests(log);
        }
        loop {
            match self.event(log)? {
                Event::Ready => {
                    log.debug2(|| "service_accept: ssh-userauth".to_owned());
                    if !ahead {
                        self.machine.none(self.packets.sink());
                    }
                }
                Event::Methods(methods) => {
                    log.debug(|| {
                        format!("Authentications that can continue: {}", sanitise(&methods.join(",")))
                    });
                    log.debug(|| format!("Next authentication method: {}", self.method));
                    self.offered = methods;
                }
                // `event` shows banners itself.
                Event::Banner(_) => {}
                Event::Success => {
                    self.on_key_accepted(log);
                    let (peer, method) = (&self.config.peer, self.method);
                    log.verbose(&format!(
                        "Authenticated to {} ({peer}) using \"{method}\".",
                        self.config.host
                    ));
                    return Ok(());
                }
                Event::ChooseMethod { methods, partial_success } => {
                    self.packets.early_dropped();
                    if partial_success {
                        self.on_key_accepted(log);
                        log.verbose(&format!(
                            "Authenticated using \"{}\" with partial success.",
                            self.method
                        ));
                        // After a partial success a method may be wanted again, with another key or password.
                        self.spent.clear();
                        self.passwords = 0;
                        self.interactive = 0;
                        self.tried_interactive = false;
                    }
                    log.debug(|| {
                        format!("Authentications that can continue: {}", sanitise(&methods.join(",")))
                    });
                    self.offered = methods;
                    self.next_method(log)?;
                }
                Event::KeyAccepted { algorithm, key } => {
                    self.sign_accepted(&algorithm, &key, log)?;
                }
                Event::Prompts { name, instruction, prompts } => {
                    self.answer(&name, &instruction, &prompts, log)?;
                }
                Event::PasswordExpired { prompt } => self.change_password(&prompt, log)?,
                Event::GssMechanism(mechanism) => {
                    let sink = self.packets.sink();
                    let next = self.kerberos.on_mechanism(&mechanism, &mut self.machine, sink, log);
                    self.after_kerberos(next, log)?;
                }
                Event::GssToken(token) => {
                    let sink = self.packets.sink();
                    let next = self.kerberos.on_token(&token, &mut self.machine, sink, log)?;
                    self.after_kerberos(next, log)?;
                }
                Event::GssError(text) => {
                    log.debug(|| format!("Server GSSAPI Error:\n{}", sanitise(&text)));
                }
            }
        }
    }

    /// Sends the first request (`none`) and the first key without waiting in between: round trips dominate a
    /// login over a long path. Content and order stay unchanged. The key is sent only if the user has
    /// configured it for this host, or the server has announced that it wants keys: other servers count it as
    /// one of the allowed failures.
    fn send_first_requests(&mut self, log: &mut Log<'_>) {
        self.machine.ahead(self.packets.sink());
        let config = self.config;
        if config.methods.first().is_none_or(|first| first != PUBLICKEY) {
            return;
        }
        let identities =
            self.identities.get_or_insert_with(|| Identities::gather(config.identities.clone(), log));
        // The user must not be asked for a passphrase before a key is known to be wanted.
        let wanted = self.packets.wants_keys();
        let hopeless = identities.list.iter().take_while(|identity| identity.is_hopeless()).count();
        let Some(first) = identities.list.get(hopeless).filter(|first| first.explicit || wanted) else {
            return;
        };
        // The server may send its algorithms for this user only with the reply to `none`. For RSA they decide
        // how to sign; for other key types, whether to.
        let server = self.packets.server_sig_algs();
        let one_way = first.public.as_ref().is_some_and(|public| {
            public.plain().key_type() != "ssh-rsa"
                && choose_algorithm(public, &config.pubkey_algorithms, server.as_deref()).is_some()
        });
        if !one_way {
            return;
        }
        // These only tell what is wrong with their files.
        for _ in 0..hopeless {
            self.try_next_key(log);
        }
        if self.try_next_key(log) {
            self.method = PUBLICKEY;
        }
    }

    /// After the last request was accepted: a key from a file may be added to the agent.
    fn on_key_accepted(&self, log: &mut Log<'_>) {
        if let (PUBLICKEY, Some(index), Some(identities)) = (self.method, self.used_key, &self.identities) {
            identities.add_to_agent(index, log);
        }
    }

    /// The next event other than a banner; banners are shown.
    fn event(&mut self, log: &mut Log<'_>) -> Result<Event, ClientError> {
        loop {
            let payload = self.packets.next(log)?;
            match self.machine.handle(&payload) {
                Ok(Event::Banner(text)) => log.banner(&sanitise(&text)),
                Ok(event) => return Ok(event),
                Err(error) => return Err(ClientError::Lost(error.to_string())),
            }
        }
    }

    /// Sends the next request.
    fn next_method(&mut self, log: &mut Log<'_>) -> Result<(), ClientError> {
        for method in &self.config.methods {
            let Some(known) = [KERBEROS, PUBLICKEY, INTERACTIVE, PASSWORD, HOSTBASED]
                .into_iter()
                .find(|known| known == method)
            else {
                continue;
            };
            // An empty list does not mean that there are no methods; as in ssh, each is tried. ssh2 for
            // Node.js sends one.
            let offered = self.offered.is_empty() || self.offered.contains(method);
            if !offered || self.spent.contains(&known) {
                continue;
            }
            log.debug(|| format!("Next authentication method: {known}"));
            let sent = match known {
                PUBLICKEY => self.try_key(log),
                PASSWORD => self.try_password(log),
                HOSTBASED => self.try_host_based(log),
                KERBEROS => {
                    let LoginConfig { host, delegate, .. } = self.config;
                    self.kerberos.offer(host, *delegate, &mut self.machine, self.packets.sink(), log)
                }
                _ => self.try_interactive(),
            };
            if sent {
                self.method = known;
                return Ok(());
            }
            self.spent.push(known);
        }
        log.debug(|| "No more authentication methods to try.".to_owned());
        Err(self.denied())
    }

    fn after_kerberos(&mut self, next: Next, log: &mut Log<'_>) -> Result<(), ClientError> {
        match next {
            Next::Wait => Ok(()),
            Next::Method => self.next_method(log),
        }
    }

    fn denied(&self) -> ClientError {
        let LoginConfig { user, host, .. } = self.config;
        ClientError::Denied(format!(
            "{user}@{host}: Permission denied ({}).",
            sanitise(&self.offered.join(","))
        ))
    }

    /// Offers the next usable key. False if none is left.
    fn try_key(&mut self, log: &mut Log<'_>) -> bool {
        let config = self.config;
        let count = self
            .identities
            .get_or_insert_with(|| Identities::gather(config.identities.clone(), log))
            .list
            .len();
        while self.next_key < count {
            if self.try_next_key(log) {
                return true;
            }
        }
        false
    }

    /// Offers the next key, or signs with it at once if that needs no user. False if the key is unusable.
    fn try_next_key(&mut self, log: &mut Log<'_>) -> bool {
        let config = self.config;
        let server = self.packets.server_sig_algs();
        self.machine.bind_host_key(self.packets.bound_host_key().as_deref());
        let Some(identities) = &mut self.identities else { return false };
        let index = self.next_key;
        self.next_key += 1;
        let Some(identity) = identities.list.get(index) else { return false };
        if identity.public.is_none() {
            log.debug(|| format!("Trying private key: {}", identity.name));
            // No passphrase helps with a broken file, so its error is told in batch mode, too.
            let asks = !identity.is_hopeless();
            if (asks && log.is_batch()) || identities.load(index, log).is_err() {
                return false;
            }
        }
        let Some(identity) = identities.list.get(index) else { return false };
        let Some(public) = identity.public.clone() else { return false };
        if public.plain().key_type() == "ssh-rsa" && public.bits() < config.required_rsa_size as usize {
            log.debug(|| format!("Skipping key {}: RSA key too small", identity.name));
            return false;
        }
        let Some(algorithm) = choose_algorithm(&public, &config.pubkey_algorithms, server.as_deref()) else {
            log.debug(|| {
                format!("Skipping {} key {} - no mutual algorithm", public.key_type(), identity.name)
            });
            return false;
        };
        if identities.signer(index).is_none() {
            log.debug(|| format!("no private key for certificate \"{}\"", identity.name));
            return false;
        }
        log.debug(|| format!("Offering public key: {}", identity.describe(config.identities.fingerprint)));
        if identities.is_ready(index) {
            log.debug2(|| format!("signing at once with key {}", identity.name));
            let data = self.machine.signature_data(&algorithm, public.blob());
            match identities.sign(index, &algorithm, &data, log) {
                Ok(signature) => {
                    self.machine.signed_key(&algorithm, public.blob(), &signature, self.packets.sink());
                    self.packets.send_early_data();
                }
                Err(SignFailure::Skip) => return false,
            }
        } else {
            self.machine.offer_key(&algorithm, public.blob(), self.packets.sink());
        }
        self.used_key = Some(index);
        true
    }

    /// Sends the next host-based request. False if no key is left, or none can sign.
    fn try_host_based(&mut self, log: &mut Log<'_>) -> bool {
        let config = self.config;
        loop {
            let Some(connection) = self.packets.descriptor() else { return false };
            let host_based = self.host_based.get_or_insert_with(|| {
                HostBased::new(&config.hostbased_algorithms, &config.local_user, connection)
            });
            let Some(offer) = host_based.next() else {
                log.debug(|| "No more client hostkeys for hostbased authentication.".to_owned());
                return false;
            };
            let (kind, hash) = (short_type(offer.key.key_type()), config.identities.fingerprint);
            let fingerprint = offer.key.fingerprint(hash);
            log.debug(|| format!("userauth_hostbased: trying hostkey {kind} {fingerprint}"));
            log.debug2(|| format!("userauth_hostbased: chost {}", offer.host));
            let data = self.machine.host_signature_data(&offer.request());
            match hostbased::sign(&data, connection, log) {
                Some(signature) => {
                    self.machine.host_based(&offer.request(), &signature, self.packets.sink());
                    return true;
                }
                None => log.error(&format!("sign using hostkey {kind} {fingerprint} failed")),
            }
        }
    }

    /// The server accepts the key that was offered last: signs, or continues with the next key.
    fn sign_accepted(&mut self, algorithm: &str, key: &[u8], log: &mut Log<'_>) -> Result<(), ClientError> {
        let hash = self.config.identities.fingerprint;
        if let (Some(index), Some(identities)) = (self.used_key, &mut self.identities) {
            let identity = identities.list.get(index);
            let offered = identity.is_some_and(|i| i.public.as_ref().is_some_and(|p| p.blob() == key));
            if let (Some(identity), true) = (identity, offered) {
                log.debug(|| format!("Server accepts key: {}", identity.describe(hash)));
                let data = self.machine.signature_data(algorithm, key);
                if let Ok(signature) = identities.sign(index, algorithm, &data, log) {
                    self.machine.signed_key(algorithm, key, &signature, self.packets.sink());
                    self.packets.send_early_data();
                    return Ok(());
                }
            }
        }
        // Without a signature the server keeps waiting for a request, so the next method is sent without its
        // reply.
        self.next_method(log)
    }

    fn try_password(&mut self, log: &mut Log<'_>) -> bool {
        if log.is_batch() || self.passwords >= self.config.password_prompts {
            return false;
        }
        if self.passwords > 0 {
            log.error("Permission denied, please try again.");
        }
        self.passwords += 1;
        let prompt = format!("{}@{}'s password: ", self.config.user, self.shown_host());
        let Some(password) = log.ask_secret(&prompt) else { return false };
        self.machine.password(password.as_bytes(), self.packets.sink());
        true
    }

    fn change_password(&mut self, server_prompt: &str, log: &mut Log<'_>) -> Result<(), ClientError> {
        let (user, host) = (self.config.user.clone(), self.shown_host().to_owned());
        if !server_prompt.is_empty() {
            log.info(&sanitise(server_prompt));
        }
        let asked = |log: &mut Log<'_>, text: String| {
            log.ask_secret(&text)
                .ok_or_else(|| ClientError::Denied(format!("{user}@{host}: password expired")))
        };
        let old = asked(log, format!("Enter {user}@{host}'s old password: "))?;
        loop {
            let new = asked(log, format!("Enter {user}@{host}'s new password: "))?;
            let again = asked(log, format!("Retype {user}@{host}'s new password: "))?;
            if new == again {
                self.machine.change_password(old.as_bytes(), new.as_bytes(), self.packets.sink());
                return Ok(());
            }
            log.info("Mismatch; try again, EOF to quit.");
        }
    }

    fn try_interactive(&mut self) -> bool {
        // Ends the loop with a server that never asks anything.
        if self.interactive >= self.config.password_prompts
            || (self.interactive > 0 && !self.tried_interactive)
        {
            return false;
        }
        self.interactive += 1;
        self.tried_interactive = false;
        self.machine.keyboard_interactive(&self.config.kbd_interactive_devices, self.packets.sink());
        true
    }

    fn answer(
        &mut self,
        name: &str,
        instruction: &str,
        prompts: &[Prompt],
        log: &mut Log<'_>,
    ) -> Result<(), ClientError> {
        for text in [name, instruction] {
            let text = sanitise(text);
            if !text.trim().is_empty() {
                log.info(text.trim_end_matches('\n'));
            }
        }
        let mut answers: Vec<Zeroizing<String>> = Vec::with_capacity(prompts.len());
        for prompt in prompts {
            self.tried_interactive = true;
            let text = format!("({}@{}) {}", self.config.user, self.shown_host(), sanitise(&prompt.text));
            let answer = if prompt.echo { log.ask(&text) } else { log.ask_secret(&text) };
            // With no way to ask the user, an empty answer makes the server continue to its refusal.
            answers.push(answer.unwrap_or_default());
        }
        let answers: Vec<&[u8]> = answers.iter().map(|answer| answer.as_bytes()).collect();
        self.machine.responses(&answers, self.packets.sink());
        Ok(())
    }

    fn shown_host(&self) -> &str {
        self.config.alias.as_deref().unwrap_or(&self.config.host)
    }
}

/// The signature algorithm for `key`: the best one that the configuration allows and, for RSA, the server
/// announces (RFC 8308 section 3.1; the plain name covers a certificate). A server without an announcement is
/// old and knows only the key's own name. For RSA that is SHA-1, so unless the configuration asks for it a
/// SHA-2 form is tried all the same. Other keys have one algorithm, which is offered even if the server
/// does not list it.
fn choose_algorithm(key: &PublicKey, allowed: &[String], server: Option<&str>) -> Option<String> {
    let mut usable =
        key.signature_algorithms().iter().copied().filter(|name| allowed.iter().any(|each| each == name));
    match server {
        Some(list) if key.plain().key_type() == "ssh-rsa" => usable.find(|name| {
            let plain = lh_crypto::key_algorithms::plain(name);
            list.split(',').any(|each| each == *name || each == plain)
        }),
        Some(_) => usable.next(),
        None => {
            let all: Vec<&str> = usable.collect();
            all.iter().copied().find(|name| *name == key.key_type()).or_else(|| all.first().copied())
        }
    }
    .map(str::to_owned)
}

#[cfg(test)]
mod tests;
