//! Key exchange on a connected stream, and the check of the host's key.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_auth::FirstFlight;
use lh_crypto::PublicKey;
use lh_driver::{Link, LinkError};
use lh_transport::{AcceptedHostKey, Event, Negotiated};
use lh_wire::msg::{UserauthSuccess, disconnect};
use lh_wire::{LONGEST_TEXT, Message as _, PacketSink};

use crate::error::ClientError;
use crate::failure::{PeerName, disconnected, link_failed};
use crate::farewell::{DISCONNECT_TIMEOUT, Watch};
use crate::host_certificate;
use crate::hostkey::{self, Dns, Policy, Strict, Verdict};
use crate::known::{KnownFiles, check_not_revoked, remember, remember_address};
use crate::log::{Log, sanitise, sanitise_start};
use crate::login::Packets;
use crate::path_check;
use crate::sshfp::{self, DnsVerdict};
use crate::ui::{LogLevel, Progress};

/// Result of the host key check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Verified {
    /// The key was accepted although it is not trusted.
    pub(crate) untrusted: bool,
    /// The user's known_hosts files contain the key, so it may authenticate further keys of the host.
    pub(crate) vouched_for: bool,
}

/// Exchanges keys and checks the host's key.
///
/// # Errors
/// The line or lines to show; the peer has received its DISCONNECT.
pub(crate) fn shake_hands(
    link: &mut Link,
    policy: &Policy,
    known: &mut KnownFiles,
    peer: &PeerName,
    deadline: Option<Instant>,
    warn_weak: bool,
    log: &mut Log<'_>,
) -> Result<Verified, ClientError> {
    let mut verified = Verified::default();
    let mut deadline = deadline;
    let mut identified = false;
    loop {
        let event = match path_check::next_event(link, deadline, |link, until| link.next_event(until)) {
            Ok(event) => event,
            Err(LinkError::TimedOut) if identified => {
                let at = peer.text();
                let text = format!("Connection to {at} timed out during key exchange");
                return Err(ClientError::lost(LogLevel::Info, text));
            }
            Err(error) => return Err(link_failed(&error, peer)),
        };
        match event {
            Event::Banner(line) => {
                log.debug(|| format!("kex_exchange_identification: banner line: {}", lossy(&line)));
            }
            Event::PeerIdentification(line) => {
                identified = true;
                log.progress(Progress::Identified);
                log.debug(|| {
                    let software = line.splitn(3, '-').nth(2).unwrap_or("");
                    format!("Remote protocol version 2.0, remote software version {}", sanitise(software))
                });
            }
            Event::HostKey { algorithm, blob, .. } => match verify(&blob, policy, known, sshfp::look_up, log)
            {
                Ok(result) => {
                    // The user may take any time for the answer, so the connect time limit ends here.
                    deadline = None;
                    verified = result;
                    log.progress(Progress::HostVerified);
                    log.debug(|| format!("Server host key algorithm: {algorithm}"));
                    let accepted = AcceptedHostKey::dangerous_vouch_for(&blob);
                    link.host_key_accepted(&accepted)
                        .map_err(|error| link_failed(&LinkError::Transport(error), peer))?;
                }
                Err(error) => {
                    link.disconnect(
                        disconnect::HOST_KEY_NOT_VERIFIABLE,
                        "Host key verification failed.",
                        DISCONNECT_TIMEOUT,
                    );
                    return Err(error);
                }
            },
            Event::KexDone { names, .. } => {
                show_names(&names, log);
                if warn_weak {
                    warn_of_weak_exchange(&names, log);
                }
                return Ok(verified);
            }
            event => side_event(event, peer, log)?,
        }
    }
}

/// Function that queries DNS about a host and its key.
type DnsLookup = fn(&str, &PublicKey, &mut Log<'_>) -> DnsVerdict;

/// Looks up the key, asks the user where the policy requires it, and stores a new key.
fn verify(
    blob: &[u8],
    policy: &Policy,
    known: &mut KnownFiles,
    dns: DnsLookup,
    log: &mut Log<'_>,
) -> Result<Verified, ClientError> {
    let key = PublicKey::from_blob(blob)
        .map_err(|error| ClientError::HostKey(format!("Host key verification failed: {error}.")))?;
    log.debug(|| format!("Server host key: {} {}", key.key_type(), key.fingerprint(policy.fingerprint)));
    let least = policy.checks.least_rsa_bits as usize;
    if key.plain().key_type() == "ssh-rsa" && key.plain().bits() < least {
        return Err(ClientError::HostKey("Bad server host key: Invalid key length".to_owned()));
    }
    known.check_files(policy, log)?;
    known.check_lines(policy, log)?;
    let key = match key.certificate() {
        None => key,
        Some(certificate) => {
            check_not_revoked(policy, &key, log)?;
            if host_certificate::is_trusted(&key, certificate, policy, known, log)? {
                known.warn_of_forbidden(log);
                return Ok(Verified::default());
            }
            key.plain().clone()
        }
    };
    check_not_revoked(policy, &key, log)?;
    let verdict = known.judge(policy, &key, log)?;
    let at_address = known.judge_address(policy, &key, log)?;
    // A revoked key stays revoked, even if DNS has its fingerprint.
    for each in [Some(&verdict), at_address.as_ref()].into_iter().flatten() {
        if matches!(each, Verdict::Revoked(_)) {
            hostkey::decide(each, &key, policy, log)?;
        }
    }
    let mut policy = policy.clone();
    if ask_dns(&mut policy, &key, dns, log) {
        return Ok(Verified::default());
    }
    let policy = &policy;
    if policy.session.as_ref().is_some_and(|session| *session != key) && !matches!(verdict, Verdict::Known(_))
    {
        let (kind, fingerprint) = (hostkey::kind_of(&key), key.fingerprint(policy.fingerprint));
        return Err(ClientError::HostKey(format!(
            "{} The {kind} host key {fingerprint} is not that of the session's server.",
            hostkey::FAILED
        )));
    }
    if let (Verdict::Changed(_), Some(at_address)) = (&verdict, &at_address)
        && let Some(text) = hostkey::spoofing(&key, at_address, policy)
    {
        log.error(&text);
    }
    let accepted = hostkey::decide(&verdict, &key, policy, log)?;
    if accepted.add {
        remember(policy, &key, log);
    }
    if let (Verdict::Known(place), Some(at_address), false) = (&verdict, &at_address, policy.skip_localhost)
        && hostkey::decide_address(place, at_address, &key, policy, log)?
    {
        remember_address(policy, &key, log);
    }
    let vouched_for = match &verdict {
        Verdict::Known(place) => policy.user_files.contains(&place.file),
        // True if the user has confirmed the key.
        Verdict::New { .. } => policy.strict == Strict::Ask,
        Verdict::Changed(_) | Verdict::Revoked(_) => false,
    };
    Ok(Verified { untrusted: accepted.untrusted, vouched_for: vouched_for && !policy.skip_localhost })
}

/// `VerifyHostKeyDNS`. True if a secure answer contains the key's fingerprint and that is sufficient.
fn ask_dns(policy: &mut Policy, key: &PublicKey, dns: DnsLookup, log: &mut Log<'_>) -> bool {
    let Some(name) = policy.checks.dns_name.as_deref().filter(|_| policy.checks.dns != Dns::No) else {
        return false;
    };
    match dns(name, key, log) {
        DnsVerdict::Match { secure: true } if policy.checks.dns == Dns::Yes => {
            log.debug(|| "matching host key fingerprint found in DNS".to_owned());
            return true;
        }
        verdict => {
            policy.checks.dns_found = Some(matches!(verdict, DnsVerdict::Match { .. }));
            if verdict == DnsVerdict::Mismatch {
                let kind = crate::key_types::short_type(key.key_type());
                log.error(&hostkey::warning(&kind, &key.fingerprint(policy.fingerprint)));
                log.error("Update the SSHFP RR in DNS with the new host key to get rid of this message.");
            }
        }
    }
    false
}

/// `WarnWeakCrypto`: warns that a quantum computer may later decrypt a recording of this connection.
fn warn_of_weak_exchange(names: &Negotiated, log: &mut Log<'_>) {
    let family = lh_crypto::KexAlgorithm::by_name(&names.kex).map(lh_crypto::KexAlgorithm::family);
    if family != Some(lh_crypto::KexFamily::Hybrid) {
        log.info("** WARNING: connection is not using a post-quantum key exchange algorithm.");
        log.info("** This session may be vulnerable to \"store now, decrypt later\" attacks.");
        log.info("** The server may need to be upgraded. See https://openssh.com/pq.html");
    }
}

/// Logged at debug level at the end of every key exchange. Scripts count these lines.
pub const NEWKEYS: &str = "SSH2_MSG_NEWKEYS sent";

pub(crate) fn show_names(names: &Negotiated, log: &mut Log<'_>) {
    log.debug(|| "SSH2_MSG_KEXINIT sent".to_owned());
    log.debug(|| "SSH2_MSG_KEXINIT received".to_owned());
    log.debug(|| format!("kex: algorithm: {}", names.kex));
    log.debug(|| format!("kex: host key algorithm: {}", names.host_key));
    for (way, cipher, mac, compression) in [
        ("server->client", &names.cipher_s2c, &names.mac_s2c, &names.compression_s2c),
        ("client->server", &names.cipher_c2s, &names.mac_c2s, &names.compression_c2s),
    ] {
        log.debug(|| format!("kex: {way} cipher: {cipher} MAC: {mac} compression: {compression}"));
    }
    log.debug(|| NEWKEYS.to_owned());
}

/// Handles events that may come at any time and need no reply.
fn side_event(event: Event, peer: &PeerName, log: &mut Log<'_>) -> Result<(), ClientError> {
    match event {
        Event::ExtInfo(extensions) => {
            for (name, value) in extensions {
                log.debug(|| format!("kex_ext_info: {}=<{}>", sanitise(&name), lossy(&value)));
            }
        }
        Event::GroupChosen { asked: (min, preferred, max), bits, public_ones } => {
            log.debug(|| format!("SSH2_MSG_KEX_DH_GEX_REQUEST({min}<{preferred}<{max}) sent"));
            log.debug(|| format!("SSH2_MSG_KEX_DH_GEX_GROUP received, bits set: {public_ones}/{bits}"));
        }
        Event::Debug { always_display, text } => {
            let (level, line) = remote_debug(always_display, &text);
            log.say(level, &line);
        }
        Event::Disconnected { reason, description } => return Err(disconnected(reason, &description, peer)),
        _ => {}
    }
    Ok(())
}

/// Returns the log line of SSH_MSG_DEBUG (RFC 4253 section 11.3), and its level. OpenSSH's server uses this
/// message to list the options of the accepted key.
pub fn remote_debug(always_display: bool, text: &[u8]) -> (LogLevel, String) {
    let level = if always_display { LogLevel::Info } else { LogLevel::Debug1 };
    let text = String::from_utf8_lossy(text);
    (level, format!("Remote: {}", sanitise_start(&text, LONGEST_TEXT)))
}

fn lossy(bytes: &[u8]) -> String {
    sanitise(&String::from_utf8_lossy(bytes))
}

/// The link's packets, in the form that the login code uses.
pub(crate) struct LinkPackets<'l> {
    pub(crate) link: &'l mut Link,
    pub(crate) peer: &'l PeerName,
    /// Signatures may include the host key.
    pub(crate) host_bound: bool,
    /// The server's `first-flight@longhaul` promise, if any: it accepts requests sent without waiting.
    pub(crate) flight: Option<FirstFlight>,
    /// Packets that arrived before the login asked for them.
    pub(crate) early: std::collections::VecDeque<Bytes>,
    /// Watches for signals from the answer on with which the server has a session that it would keep.
    pub(crate) watch: Option<Watch>,
    /// Longest wait for a message of the server, as in OpenSSH: `ServerAliveInterval` times
    /// `ServerAliveCountMax`. `None` without the first: a login may wait for a person, and
    /// [`path_check`] finds a lost path.
    pub(crate) silence: Option<Duration>,
}

impl LinkPackets<'_> {
    /// Watches for signals, if the server may keep a session of this link.
    fn watch(&mut self) -> Option<Watch> {
        let may_keep = self.link.message_counts().is_some();
        self.watch.take().or_else(|| may_keep.then(Watch::begin).flatten())
    }
}

impl Packets for LinkPackets<'_> {
    fn sink(&mut self) -> &mut dyn PacketSink {
        self.link.sink()
    }

    fn next(&mut self, log: &mut Log<'_>) -> Result<Bytes, ClientError> {
        if let Some(payload) = self.early.pop_front() {
            return Ok(payload);
        }
        // Only during the wait, in which queued requests are sent, too: at a prompt a signal takes effect,
        // and the server has no session.
        let mut watch = self.watch();
        let deadline = self.silence.and_then(|silence| Instant::now().checked_add(silence));
        loop {
            let event = path_check::next_event(self.link, deadline, |link, until| match &mut watch {
                Some(watch) => watch.next_event(link, until),
                None => link.next_event(until),
            });
            if matches!(event, Err(LinkError::TimedOut)) {
                let text = format!("Connection to {} timed out", self.peer.text());
                return Err(ClientError::lost(LogLevel::Info, text));
            }
            match event.map_err(|error| link_failed(&error, self.peer))? {
                Event::Packet(payload) => {
                    self.watch = watch.filter(|_| payload.first() == Some(&UserauthSuccess::NUMBER));
                    return Ok(payload);
                }
                // A rekey during login: the transport reports the key only if it differs.
                Event::HostKey { .. } => return Err(ClientError::HostKey(KEY_CHANGED_AT_REKEY.to_owned())),
                event => side_event(event, self.peer, log)?,
            }
        }
    }

    fn server_sig_algs(&self) -> Option<String> {
        let value = self.link.peer_extension("server-sig-algs")?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    fn bound_host_key(&self) -> Option<Vec<u8>> {
        let understood = self.link.peer_extension("publickey-hostbound@openssh.com") == Some(b"0");
        self.link.host_key().filter(|_| self.host_bound && understood).map(<[u8]>::to_vec)
    }

    fn handles_several_requests(&mut self, log: &mut Log<'_>) -> Result<bool, ClientError> {
        if !self.link.peer().limits().takes_several_auth_requests {
            return Ok(false);
        }
        // The server's EXT_INFO follows directly after NEWKEYS, mostly in the same segment.
        loop {
            let event = self.link.event_already_read();
            match event.map_err(|error| link_failed(&error, self.peer))? {
                Some(Event::Packet(payload)) => {
                    self.early.push_back(payload);
                    break;
                }
                Some(event) => side_event(event, self.peer, log)?,
                None => break,
            }
        }
        Ok(self.server_sig_algs().is_some() && self.early.is_empty())
    }

    fn wants_keys(&self) -> bool {
        self.flight.is_some_and(|flight| flight.keys)
    }

    fn send_early_data(&mut self) {
        if self.flight.is_some() {
            self.link.send_early();
        }
    }

    fn early_dropped(&mut self) {
        self.link.early_dropped();
    }

    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        Some(self.link.stream().read_fd())
    }
}

/// Message for a host that presents another key during a rekey. It is refused even where known_hosts has that
/// key.
pub(crate) const KEY_CHANGED_AT_REKEY: &str =
    "Host key changed during rekeying.\nHost key verification failed.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::testing::policy;
    use crate::testing::{FakeUi, key};

    /// A server that says nothing: the path may be lost, and nothing that was sent shows it.
    #[test]
    fn a_silent_server_ends_the_login() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let random = Box::new(lh_crypto::SystemRandom);
        let transport = lh_transport::Transport::new(lh_transport::Config::client(), random, Instant::now());
        let mut link = Link::new(transport, lh_driver::Stream::socket(ours.into()).expect("a stream"));
        let (mut ui, peer) = (FakeUi::default(), PeerName { address: "::1".to_owned(), port: 22 });
        for watch in [None, Watch::begin()] {
            let silence = Some(Duration::from_millis(10));
            let (link, early) = (&mut link, Default::default());
            let mut packets =
                LinkPackets { link, peer: &peer, host_bound: false, flight: None, early, watch, silence };
            let error = packets.next(&mut Log::new(&mut ui, LogLevel::Info, false)).expect_err("no packet");
            assert!(error.to_string().contains("Connection to ::1 port 22 timed out"), "{error}");
        }
    }

    fn secure_match(_: &str, _: &PublicKey, _: &mut Log<'_>) -> DnsVerdict {
        DnsVerdict::Match { secure: true }
    }

    /// Verifies the test key with these lines as the system's known_hosts, and with a DNS that has its
    /// fingerprint.
    fn verified(lines: &str, address: Option<&str>) -> (Result<Verified, ClientError>, Vec<String>) {
        let directory = tempfile::tempdir().expect("directory");
        let mut policy = policy(directory.path(), false);
        policy.revoked_files.clear();
        policy.checks.dns = Dns::Yes;
        policy.checks.dns_name = Some("h.example".to_owned());
        policy.checks.ip = address.is_some();
        policy.address = address.map(str::to_owned);
        std::fs::write(directory.path().join("global"), lines).expect("known_hosts");
        let mut ui = FakeUi::default();
        let mut log = Log::new(&mut ui, LogLevel::Info, false);
        let mut known = KnownFiles::read(&policy, &mut log).expect("read");
        let result = verify(key().blob(), &policy, &mut known, secure_match, &mut log);
        (result, ui.messages)
    }

    /// A session to resume does not accept the first host that answers, even where the user accepts unknown
    /// keys, and adds no key to known_hosts.
    #[test]
    fn a_session_that_goes_on_takes_no_unknown_key() {
        let verified_for = |session: &PublicKey, strict, lines: &str| {
            let directory = tempfile::tempdir().expect("directory");
            let mut policy = policy(directory.path(), false);
            policy.revoked_files.clear();
            (policy.strict, policy.session) = (strict, Some(session.clone()));
            std::fs::write(directory.path().join("global"), lines).expect("known_hosts");
            let mut ui = FakeUi::default();
            let mut log = Log::new(&mut ui, LogLevel::Info, false);
            let mut known = KnownFiles::read(&policy, &mut log).expect("read");
            let no_dns: DnsLookup = |_, _, _| DnsVerdict::Mismatch;
            let result = verify(key().blob(), &policy, &mut known, no_dns, &mut log);
            (result, policy.user_files[0].exists())
        };
        let other = PublicKey::from_openssh_line(OTHER).expect("a key").0;
        let line = |key: &PublicKey| format!("h.example {}\n", key.to_openssh_line(""));
        for strict in [Strict::Off, Strict::AcceptNew] {
            for lines in [String::new(), format!("[h.example]:2222 {OTHER}\n")] {
                let (result, added) = verified_for(&other, strict, &lines);
                assert!(matches!(result, Err(ClientError::HostKey(_))), "{strict:?} {lines}: {result:?}");
                assert!(!added);
            }
            // The session's own key is checked as always; another key is accepted if it is known.
            assert!(verified_for(&key(), strict, "").0.is_ok());
            assert!(verified_for(&other, strict, &line(&key())).0.is_ok());
        }
    }

    const OTHER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg";

    #[test]
    fn revoked_key_is_refused_even_if_dns_vouches_for_it() {
        let line = key().to_openssh_line("");
        assert!(verified("", None).0.is_ok(), "DNS alone is enough");
        for (names, address) in [("*", None), ("h.example", None), ("192.0.2.1", Some("192.0.2.1"))] {
            let (result, said) = verified(&format!("@revoked {names} {line}\n"), address);
            assert!(matches!(result, Err(ClientError::HostKey(_))), "{names}: {result:?}");
            assert!(said.iter().any(|text| text.contains("REVOKED HOST KEY")), "{said:?}");
            // An editor has wrapped the line, which may have been meant for this key.
            let (result, said) =
                verified(&format!("@revoked {names} {}\n", &line[..line.len() - 9]), address);
            assert!(matches!(result, Err(ClientError::HostKey(_))), "{names}: {result:?}");
            assert!(said[0].contains("global:1: parse error in hostkeys file"), "{said:?}");
        }
    }
}
