//! Stages of a connection's set-up, told apart by the client's log messages.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A stage of the set-up; the time is spent waiting for what its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The client's configuration.
    Configuration,
    /// The jump host or proxy command, with the login at it, up to the server's greeting.
    Proxy,
    /// The address of the host's name.
    Resolve,
    /// TCP's handshake.
    Connect,
    /// The server's key in `known_hosts`, or what is asked in its place.
    HostKey,
    /// The server's identification.
    Greeting,
    /// The key exchange.
    KeyExchange,
    /// The server's first answer about the user.
    User,
    /// This machine's authentication agent lists its keys.
    Agent,
    /// A login by Kerberos (GSSAPI), with this machine's request for a ticket.
    Kerberos,
    /// The answer about a key or password.
    Credential,
    /// The login, after a key was found acceptable.
    Approval,
    /// The session's channel.
    Session,
    /// A command that does nothing.
    Command,
}

impl Stage {
    /// Name in the report's data.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Proxy => "proxy",
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::HostKey => "host_key",
            Self::Greeting => "greeting",
            Self::KeyExchange => "key_exchange",
            Self::User => "user",
            Self::Agent => "agent",
            Self::Kerberos => "kerberos",
            Self::Credential => "credential",
            Self::Approval => "approval",
            Self::Session => "session",
            Self::Command => "command",
        }
    }

    /// Name of what the stage waits for, for people.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Configuration => "reading this machine's configuration of SSH",
            Self::Proxy => "the jump host or proxy command, up to the server's greeting",
            Self::Resolve => "resolving the host's name",
            Self::Connect => "connecting (TCP)",
            Self::HostKey => "looking up the server's key",
            Self::Greeting => "the server's greeting",
            Self::KeyExchange => "the key exchange",
            Self::User => "the server's first answer about the user",
            Self::Agent => "the answer of this machine's authentication agent",
            Self::Kerberos => "the login by Kerberos (GSSAPI)",
            Self::Credential => "the server's answer about a key or password",
            Self::Approval => "the server's approval of the login",
            Self::Session => "opening the session",
            Self::Command => "starting a command",
        }
    }

    /// Round trips that the stage takes with every server.
    pub(crate) const fn round_trips(self) -> f64 {
        match self {
            Self::Configuration | Self::HostKey | Self::Agent => 0.0,
            // A login at a jump host, with its connection, and a connection from there.
            Self::Proxy => 12.0,
            Self::Resolve | Self::Command => 1.0,
            Self::Connect | Self::Greeting | Self::Session => 1.0,
            Self::KeyExchange => 3.0,
            Self::User | Self::Kerberos => 2.0,
            Self::Credential | Self::Approval => 1.0,
        }
    }
}

/// Beginnings of messages after which a stage begins.
const MARKS: &[(&str, Stage)] = &[
    ("Connecting to ", Stage::Connect),
    ("Connection established", Stage::HostKey),
    ("Local version string", Stage::Greeting),
    (GREETED, Stage::KeyExchange),
    ("Server host key: ", Stage::HostKey),
    ("Server host key algorithm: ", Stage::KeyExchange),
    ("SSH2_MSG_KEXINIT", Stage::KeyExchange),
    (lh_client::NEWKEYS, Stage::User),
    ("Authentications that can continue", Stage::Credential),
    ("Next authentication method: gssapi", Stage::Kerberos),
    ("Next authentication method", Stage::Credential),
    (OFFER, Stage::Credential),
    (ACCEPTED, Stage::Approval),
];

/// When the stages of one set-up began.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    begun: Vec<(Instant, Stage)>,
    /// The number of stages before the last greeting: the server's, behind those of jump hosts.
    before_greeting: usize,
    /// Keys that were offered to the server.
    offers: usize,
    /// The key that was offered last, in the log's words, where the agent signs for it.
    agent_key: Option<String>,
    /// When the last message came, and the processor time of this thread until then.
    heard: Instant,
    heard_cpu: Duration,
    /// Processor time of this thread for keys: reading, checking and signing.
    key_work: Duration,
}

/// Processor time of the calling thread, which makes the connection.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// The beginning of messages about the agent, after it has answered.
const AGENT: &str = "get_agent_identities: ";

/// The message about a greeting.
const GREETED: &str = "Remote protocol version";

/// The message about a key that the server accepts, which is signed with then.
const ACCEPTED: &str = "Server accepts key";

/// The message about a key that is offered.
const OFFER: &str = "Offering public key";

impl Trace {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            begun: vec![(now, Stage::Configuration)],
            before_greeting: 0,
            offers: 0,
            agent_key: None,
            heard: now,
            heard_cpu: thread_cpu(),
            key_work: Duration::ZERO,
        }
    }

    /// Records that the configuration is known.
    pub(crate) fn configured(&mut self) {
        self.begun.push((Instant::now(), Stage::Resolve));
    }

    /// Keys that were offered so far.
    pub(crate) const fn offers(&self) -> usize {
        self.offers
    }

    /// The key of the agent that the login used: what the log says of it.
    pub(crate) fn agent_key(&self) -> Option<&str> {
        self.agent_key.as_deref()
    }

    /// Processor time of this thread for keys so far: for those of files, a large RSA key takes seconds.
    pub(crate) fn key_work(&self) -> Duration {
        let is_about_keys = matches!(self.last(), Some(Stage::Credential | Stage::Approval));
        let since = if is_about_keys { thread_cpu().saturating_sub(self.heard_cpu) } else { Duration::ZERO };
        self.key_work + since
    }

    /// Takes notice of a log message.
    pub(crate) fn note(&mut self, message: &str) {
        self.key_work = self.key_work();
        self.heard_cpu = thread_cpu();
        if message.contains(OFFER) || message.contains(ACCEPTED) {
            self.agent_key = message.ends_with(" agent").then(|| message.to_owned());
        }
        self.offers += usize::from(message.contains(OFFER));
        if message.contains(GREETED) {
            (self.before_greeting, self.offers) = (self.begun.len(), 0);
            self.key_work = Duration::ZERO;
        }
        let now = Instant::now();
        if let Some((_, stage)) = MARKS.iter().find(|(begin, _)| message.contains(begin)) {
            self.begun.push((now, *stage));
        } else if message.contains(AGENT)
            && let Some(stage) = self.last()
        {
            // Nothing is logged before the agent is asked.
            self.begun.extend([(self.heard, Stage::Agent), (now, stage)]);
        }
        self.heard = now;
    }

    /// The stage that is under way.
    pub(crate) fn last(&self) -> Option<Stage> {
        self.begun.last().map(|(_, stage)| *stage)
    }

    /// Seconds of each stage, the last one up to `end`. Behind a proxy, what came before the server's
    /// greeting is one stage.
    pub(crate) fn stages(&self, end: Instant, is_proxied: bool) -> Vec<(Stage, f64)> {
        let ends = self.begun.iter().skip(1).map(|(at, _)| *at).chain([end]);
        let mut spent: Vec<(Stage, f64)> = Vec::new();
        for (number, ((from, stage), to)) in self.begun.iter().zip(ends).enumerate() {
            let is_of_proxy = is_proxied && number < self.before_greeting && *stage != Stage::Configuration;
            let stage = if is_of_proxy { &Stage::Proxy } else { stage };
            let took = to.saturating_duration_since(*from).as_secs_f64();
            match spent.iter_mut().find(|(known, _)| known == stage) {
                Some((_, sum)) => *sum += took,
                None => spent.push((*stage, took)),
            }
        }
        spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_for_the_stage_under_way() {
        let begun = Instant::now();
        let mut trace = Trace::new(begun);
        trace.configured();
        trace.note("Connecting to h [::1] port 22.");
        trace.note("a message without meaning");
        trace.note("get_agent_identities: agent returned 1 keys");
        trace.note("Offering public key: k");
        trace.note("Server accepts key: k");
        assert_eq!(trace.last(), Some(Stage::Approval));
        let stages = trace.stages(begun + Duration::from_secs(3), false);
        let names: Vec<_> = stages.iter().map(|(stage, _)| stage.name()).collect();
        assert_eq!(names, ["configuration", "resolve", "connect", "agent", "credential", "approval"]);
        assert!(stages[5].1 > 2.0, "{stages:?}");
        assert_eq!((trace.offers(), trace.agent_key()), (1, None));
        trace.note("Offering public key: k ED25519 SHA256:x agent");
        trace.note("Server accepts key: k ED25519 SHA256:x agent");
        assert!(trace.agent_key().is_some_and(|line| line.contains("SHA256:x")));
        assert!(trace.key_work() < Duration::from_secs(1));
        trace.key_work = Duration::from_secs(2);
        assert!(trace.key_work() >= Duration::from_secs(2));
        // It was the login at a jump host.
        trace.note("Remote protocol version 2.0");
        let stages = trace.stages(begun + Duration::from_secs(3), true);
        let names: Vec<_> = stages.iter().map(|(stage, _)| stage.name()).collect();
        assert_eq!((names, trace.offers()), (vec!["configuration", "proxy", "key_exchange"], 0));
        assert_eq!(trace.key_work(), Duration::ZERO);
    }
}
