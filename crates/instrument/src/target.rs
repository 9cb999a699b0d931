//! The host to measure, and connections to it.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use lh_client::mux::MuxClient;
use lh_client::{Client, ClientError, LogLevel, Notice, Options, Purpose, Secret, UserInterface};
use lh_config::client::{CommandLine, Request};
use lh_config::enums::ControlMaster;
use lh_sys::errno_text;
use lh_terminal::TerminalUi;

use crate::answers::Answers;
use crate::connects::{Connects, is_not_accepted};
use crate::fault::Fault;
use crate::probe::{MOST_REFUSALS, REFUSAL_PAUSE};
use crate::stage::{Stage, Trace};

/// Time limit of a connection where the configuration has none (`ConnectTimeout`), seconds.
const CONNECT_TIMEOUT: u32 = 10;

/// A host and how to log in to it. Clones share the answers that the user has given.
#[derive(Debug, Clone)]
pub struct Target {
    request: Request,
    ui: AskOnce,
    /// Counts of connections, where those that the server refuses before its greeting are tried again.
    connects: Option<Arc<Connects>>,
    /// The control socket of a master whose connection is used in place of a new one.
    master: Option<PathBuf>,
}

/// A jump host. As with `ssh -J`, a login to it has the files of the configuration and the jump hosts before
/// it, and nothing else of the command line.
#[derive(Debug)]
pub(crate) struct JumpHost {
    pub(crate) name: String,
    /// Keywords and values of a login to it.
    pub(crate) flags: Vec<(&'static str, String)>,
}

/// An authenticated connection and the times of its set-up.
pub(crate) struct Remote {
    pub(crate) client: Client,
    pub(crate) options: Options,
    /// Time spent in each stage of the set-up, seconds.
    pub(crate) stages: Vec<(Stage, f64)>,
    /// Keys that were offered to the server.
    pub(crate) offers: usize,
    /// The key of this machine's agent that the login used: what the log says of it.
    pub(crate) agent_key: Option<String>,
    /// Processor time of this machine for keys in its login, seconds.
    pub(crate) key_work: f64,
    /// The server's answers to small messages that it does not know. Those to come belong to messages of an
    /// earlier task.
    pub(crate) answers: Answers,
    /// For a server that ends each connection with its session: how to connect again.
    renewal: Option<Box<Renewal>>,
}

/// How to make a connection again.
struct Renewal {
    target: Target,
    keywords: Vec<(String, String)>,
    /// A session has used the connection up.
    is_due: bool,
}

/// Software of servers that end each connection with its session: TinySSH.
const ONE_SESSION: &str = "tinyssh";

/// Why there is no connection.
#[derive(Debug)]
pub(crate) struct NoConnection {
    pub(crate) fault: Fault,
    /// The host was not reached or did not answer in time: a fault of the path is possible.
    pub(crate) is_path: bool,
    /// The stage that it waited for in vain.
    pub(crate) slowest: Option<Stage>,
}

impl From<NoConnection> for Fault {
    fn from(failure: NoConnection) -> Self {
        failure.fault
    }
}

impl Target {
    /// A host, with the flags and files of `request`.
    pub fn new(request: Request) -> Self {
        Self { request, ui: AskOnce::default(), connects: None, master: None }
    }

    /// The last jump host; `None` where the host is reached without one.
    ///
    /// # Errors
    /// The configuration cannot be read.
    pub(crate) fn jump_host(&self) -> Result<Option<JumpHost>, Fault> {
        let config = self.options(&[])?.config;
        if config.proxy_command.command().is_some() {
            return Ok(None);
        }
        let mut hops = config.proxy_jump();
        let Some(last) = hops.pop() else { return Ok(None) };
        let before = hops.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let port = last.port.map(|port| port.to_string());
        let flags = [
            ("User", last.user),
            ("Port", port),
            ("ProxyJump", Some(before).filter(|list| !list.is_empty())),
        ];
        let flags = flags.into_iter().filter_map(|(keyword, value)| Some((keyword, value?))).collect();
        Ok(Some(JumpHost { name: last.host, flags }))
    }

    /// Reaches a jump host of this host by itself.
    pub(crate) fn at_jump_host(&self, jump_host: &JumpHost) -> Self {
        let mut request = Request::new(&jump_host.name, self.request.account.clone());
        (request.user_file, request.system_file) =
            (self.request.user_file.clone(), self.request.system_file.clone());
        let flag =
            |(keyword, value): &(&'static str, String)| CommandLine::Flag(keyword, vec![value.clone()]);
        request.command_line.extend(jump_host.flags.iter().map(flag));
        Self { request, ui: self.ui.clone(), connects: self.connects.clone(), master: None }
    }

    /// The control socket of a master that programs with this configuration use (`ControlPath`), where there
    /// is a socket.
    pub(crate) fn control_socket(&self) -> Option<PathBuf> {
        let config = Options::load(&self.request).ok()?.config;
        let asks = matches!(*config.control_master, ControlMaster::Yes | ControlMaster::Ask);
        let path = PathBuf::from(config.control_path.as_deref().filter(|_| !asks)?);
        std::fs::metadata(&path).is_ok_and(|found| found.file_type().is_socket()).then_some(path)
    }

    /// Returns this host, reached through the connection of the master at this socket.
    pub(crate) fn through(&self, master: &Path) -> Self {
        Self { master: Some(master.to_owned()), ..self.clone() }
    }

    /// Returns this host with connections that are counted, and tried again where the server refuses them
    /// before its greeting.
    pub(crate) fn patient(&self) -> Self {
        Self { connects: Some(Arc::default()), ..self.clone() }
    }

    /// Counts of the connections so far, where they are counted.
    pub(crate) fn connects(&self) -> Option<&Connects> {
        self.connects.as_deref()
    }

    /// The configuration, with these keywords before all others.
    pub(crate) fn options(&self, first: &[(&str, &str)]) -> Result<Options, Fault> {
        let mut request = self.request.clone();
        let lines = first.iter().map(|(keyword, value)| CommandLine::Option(format!("{keyword}={value}")));
        request.command_line.splice(0..0, lines);
        // A measurement writes no files of its own, and runs no command here.
        // It tries weak algorithms on purpose, so it does not warn of them.
        // Its commands end with it: a server that may be asked to go on would keep them for a while.
        for (keyword, value) in [
            ("Metrics", "no"),
            ("ControlMaster", "no"),
            ("ControlPath", "none"),
            ("WarnWeakCrypto", "no"),
            ("Resume", "no"),
        ] {
            request.command_line.insert(0, CommandLine::Option(format!("{keyword}={value}")));
        }
        let timeout = CommandLine::Option(format!("ConnectTimeout={CONNECT_TIMEOUT}"));
        request.command_line.push(timeout);
        let mut options = Options::load(&request).map_err(|error| Fault::Configuration(Box::new(error)))?;
        options.purpose = Purpose::Command;
        Ok(options)
    }

    /// Connects and logs in, with these keywords before all others.
    pub(crate) fn connect(&self, first: &[(&str, &str)]) -> Result<Remote, NoConnection> {
        let mut tries = 0;
        loop {
            let begun = self.connects().map(Connects::begin);
            let result = self.connect_once(first);
            let is_refusal = result.as_ref().is_err_and(NoConnection::is_refusal);
            let Some((connects, begun)) = self.connects().zip(begun).filter(|_| self.master.is_none()) else {
                return result;
            };
            match &result {
                Ok(remote) => connects.on_login(remote.took(Stage::Connect)),
                Err(failure) if failure.is_not_accepted() => {
                    connects.on_failure(lh_client::sanitise(&failure.fault.to_string()), begun);
                }
                Err(_) if is_refusal => connects.on_refusal(),
                Err(_) => {}
            }
            if !is_refusal {
                return result;
            }
            tries += 1;
            if tries > MOST_REFUSALS {
                return result;
            }
            std::thread::sleep(REFUSAL_PAUSE);
        }
    }

    /// Joins the connection of a master.
    fn join(&self, master: &Path) -> Result<Remote, NoConnection> {
        let failed = |fault| NoConnection { fault, is_path: false, slowest: None };
        let other = |error: &dyn std::fmt::Display| failed(Fault::Server(error.to_string()));
        let options = self.options(&[]).map_err(failed)?;
        let mut client = MuxClient::connect(master).map_err(|error| other(&error))?;
        client.greet().map_err(|error| other(&error))?;
        let socket = client.into_proxy().map_err(|error| other(&error))?;
        let client = Client::relayed(socket, &options).map_err(|error| other(&errno_text(&error)))?;
        Ok(Remote {
            client,
            options,
            stages: Vec::new(),
            offers: 0,
            agent_key: None,
            key_work: 0.0,
            answers: Answers::default(),
            renewal: None,
        })
    }

    fn connect_once(&self, first: &[(&str, &str)]) -> Result<Remote, NoConnection> {
        if let Some(master) = &self.master {
            return self.join(master);
        }
        let mut trace = Trace::new(Instant::now());
        let options =
            self.options(first).map_err(|fault| NoConnection { fault, is_path: false, slowest: None })?;
        trace.configured();
        let mut ui = self.ui.clone();
        ui.level = options.log_level;
        let mut options = options;
        options.log_level = options.log_level.max(LogLevel::Debug1);
        ui.trace = trace;
        let mut client = lh_client::connect_unauthenticated(&options, &mut ui)
            .map_err(|error| of_client(error, &ui.trace))?;
        client.log_in(&mut ui).map_err(|error| of_client(error, &ui.trace))?;
        client.mark_packets(&options);
        let stages = ui.trace.stages(Instant::now(), !options.config.is_direct());
        let key_work = ui.trace.key_work().as_secs_f64();
        let server = client.driver().link().peer_identification().unwrap_or_default();
        let renewal = server.contains(ONE_SESSION).then(|| {
            let owned = |(keyword, value): &(&str, &str)| ((*keyword).to_owned(), (*value).to_owned());
            let keywords = first.iter().map(owned).collect();
            Box::new(Renewal { target: self.clone(), keywords, is_due: false })
        });
        Ok(Remote {
            client,
            options,
            stages,
            offers: ui.trace.offers(),
            agent_key: ui.trace.agent_key().map(str::to_owned),
            key_work,
            answers: Answers::default(),
            renewal,
        })
    }
}

impl Remote {
    /// Replaces a connection that the server ends with the session before, and notes whether this use is a
    /// session. If there is no new connection, the old one tells why the next session fails.
    pub(crate) fn renew(&mut self, is_session: bool) {
        let Some(renewal) = self.renewal.as_mut() else { return };
        if !std::mem::replace(&mut renewal.is_due, is_session) {
            return;
        }
        let keywords: Vec<(&str, &str)> =
            renewal.keywords.iter().map(|(keyword, value)| (keyword.as_str(), value.as_str())).collect();
        if let Ok(renewed) = renewal.target.connect(&keywords) {
            self.client = renewed.client;
            self.answers.pending = 0;
        }
    }

    /// Seconds of a stage of the set-up.
    fn took(&self, stage: Stage) -> f64 {
        self.stages.iter().filter(|(each, _)| *each == stage).map(|(_, seconds)| seconds).sum()
    }
}

impl NoConnection {
    /// Returns whether something has refused the connection, or nothing has answered.
    fn is_not_accepted(&self) -> bool {
        let Fault::Connection(error) = &self.fault else { return false };
        match &**error {
            ClientError::Refused(_) => true,
            ClientError::Unreachable(words) => is_not_accepted(words),
            _ => false,
        }
    }

    /// Returns whether there was neither a login nor a failure in time.
    pub(crate) const fn is_late(&self) -> bool {
        matches!(self.fault, Fault::Late(_))
    }

    /// Returns whether the server has closed the connection in place of a greeting.
    fn is_refusal(&self) -> bool {
        let said = self.fault.to_string();
        let is_closed = ["Connection closed by remote host", "Connection reset by peer"];
        self.slowest == Some(Stage::Greeting)
            && said.starts_with("kex_exchange_identification")
            && is_closed.iter().any(|words| said.contains(words))
    }
}

fn of_client(error: ClientError, trace: &Trace) -> NoConnection {
    let is_path = match &error {
        ClientError::Unreachable(_) | ClientError::Refused(_) => true,
        // Ends without a common algorithm have understood each other.
        ClientError::Lost(loss) => !loss.mentions(&["Unable to negotiate"]),
        _ => false,
    };
    NoConnection { fault: Fault::Connection(Box::new(error)), is_path, slowest: trace.last() }
}

/// A terminal that asks each question once: a measurement logs in many times.
#[derive(Debug, Clone)]
struct AskOnce {
    terminal: TerminalUi,
    answers: Arc<Mutex<HashMap<String, Secret>>>,
    banner_shown: Arc<Mutex<bool>>,
    /// Messages for users that were shown.
    shown: Arc<Mutex<HashSet<String>>>,
    /// Messages up to this level are shown.
    level: LogLevel,
    trace: Trace,
}

impl Default for AskOnce {
    fn default() -> Self {
        Self {
            terminal: TerminalUi::default(),
            answers: Arc::default(),
            banner_shown: Arc::default(),
            shown: Arc::default(),
            level: LogLevel::default(),
            trace: Trace::new(Instant::now()),
        }
    }
}

impl AskOnce {
    fn remembered(
        &mut self,
        prompt: &str,
        ask: impl FnOnce(&mut TerminalUi, &str) -> Option<Secret>,
    ) -> Option<Secret> {
        // Held while the user answers, so that two connections do not ask at a time.
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers.get(prompt) {
            return Some(answer.clone());
        }
        let answer = ask(&mut self.terminal, prompt)?;
        answers.insert(prompt.to_owned(), answer.clone());
        Some(answer)
    }
}

impl UserInterface for AskOnce {
    fn message(&mut self, level: LogLevel, text: &str) {
        self.trace.note(text);
        // The same warning of each connection is one warning.
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if level <= self.level && (level > LogLevel::Info || shown.insert(text.to_owned())) {
            self.terminal.message(level, text);
        }
    }

    fn banner(&mut self, text: &str) {
        let mut shown = self.banner_shown.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *shown, true) {
            self.terminal.banner(text);
        }
    }

    fn ask(&mut self, prompt: &str) -> Option<Secret> {
        self.remembered(prompt, |terminal, prompt| terminal.ask(prompt))
    }

    fn ask_secret(&mut self, prompt: &str) -> Option<Secret> {
        self.remembered(prompt, |terminal, prompt| terminal.ask_secret(prompt))
    }

    fn confirm(&mut self, prompt: &str) -> bool {
        self.terminal.confirm(prompt)
    }

    fn notify(&mut self, text: &str) -> Option<Notice> {
        self.terminal.notify(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_leave_nothing_behind_to_go_on_with() {
        let mut request = Request::new("h", lh_client::local_account().expect("an account"));
        request.user_file = lh_config::client::UserFile::None;
        request.command_line.push(CommandLine::Option("Resume=yes".to_owned()));
        let options = Target::new(request).options(&[]).expect("options");
        assert_eq!(*options.config.resume, lh_config::special::Resume::No);
    }
}
