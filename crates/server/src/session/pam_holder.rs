//! The PAM session holder: runs PAM's modules in the user session process before it switches to the user.
//! Afterwards it stays root, as the parent of the session, and closes the PAM session at its end.
//!
//! `modules.rs` has the monitor's orders. No code here has read from the network.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::rc::Rc;

use lh_sys::ids;
use lh_sys::pam::{Code, Conversation, Credentials, Environment, Item, Pam, Style};
use lh_sys::signals::Signals;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};
use zeroize::Zeroizing;

use crate::exit_status::EXIT_FAILURE;
use crate::grant::Grant;
use crate::log::{Log, error};
use crate::modules::{Order, Outcome, Report};
use crate::monitor_ipc::{MonitorSocket, MonitorSocketError};

/// The source of answers to the modules' prompts.
enum Mode {
    /// There are no answers.
    Alone,
    /// A password that the client has sent.
    Password(Zeroizing<Vec<u8>>),
    /// The user, through the monitor.
    Interactive,
}

/// State shared by the modules' conversation function and the rest of the process.
struct SharedState {
    ipc: RefCell<MonitorSocket>,
    mode: RefCell<Mode>,
    /// Messages that wait for the next prompt, or for the login.
    texts: RefCell<String>,
    /// The monitor has ended the conversation.
    given_up: Cell<bool>,
}

struct PamConversation(Rc<SharedState>);

impl Conversation for PamConversation {
    fn talk(&mut self, messages: &[(Style, String)]) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        let desk = &self.0;
        let mut answers: Vec<Zeroizing<Vec<u8>>> = vec![Zeroizing::default(); messages.len()];
        let mut questions = Vec::new();
        let mut places = Vec::new();
        for (place, (style, text)) in messages.iter().enumerate() {
            match style {
                Style::Error | Style::Info => {
                    let mut texts = desk.texts.borrow_mut();
                    texts.push_str(text);
                    texts.push('\n');
                }
                Style::Secret | Style::Visible => {
                    // In front of the first prompt, as in OpenSSH: all clients show prompts, but not all show
                    // other messages.
                    let before = std::mem::take(&mut *desk.texts.borrow_mut());
                    questions.push((format!("{before}{text}"), *style == Style::Visible));
                    places.push(place);
                }
            }
        }
        if questions.is_empty() {
            return Some(answers);
        }
        let given = match &*desk.mode.borrow() {
            Mode::Alone => return None,
            Mode::Password(password) => {
                // There is only the password; a visible prompt asks for something else.
                if questions.iter().any(|(_, visible)| *visible) {
                    return None;
                }
                vec![password.clone(); questions.len()]
            }
            Mode::Interactive => desk.ask(questions)?,
        };
        if given.len() != places.len() {
            return None;
        }
        for (place, answer) in places.into_iter().zip(given) {
            if let Some(slot) = answers.get_mut(place) {
                *slot = answer;
            }
        }
        Some(answers)
    }
}

impl SharedState {
    fn ask(&self, questions: Vec<(String, bool)>) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        let mut ipc = self.ipc.borrow_mut();
        ipc.send(&Report::Ask(questions).encode()).ok()?;
        match Order::decode(&ipc.receive().ok()?) {
            Ok(Order::Answers(answers)) => Some(answers),
            _ => {
                self.given_up.set(true);
                None
            }
        }
    }

    fn report(&self, outcome: Outcome, why: String) -> Result<(), MonitorSocketError> {
        let said = std::mem::take(&mut *self.texts.borrow_mut());
        self.ipc.borrow().send(&Report::Done { outcome, why, said }.encode())
    }
}

/// The PAM transaction of a login.
pub(super) struct Holder {
    desk: Rc<SharedState>,
    pam: Option<Pam>,
    user: String,
    /// The result of the account check, if it has already run.
    account: Option<Outcome>,
    log: Log,
}

impl Holder {
    pub(super) fn new(ipc: MonitorSocket, log: Log) -> Self {
        let desk = SharedState {
            ipc: RefCell::new(ipc),
            mode: RefCell::new(Mode::Alone),
            texts: RefCell::default(),
            given_up: Cell::new(false),
        };
        Self { desk: Rc::new(desk), pam: None, user: String::new(), account: None, log }
    }

    /// Executes the monitor's orders until the login is complete.
    ///
    /// # Errors
    /// The monitor has ended, or sends invalid messages.
    pub(super) fn obey(&mut self) -> Result<Zeroizing<Vec<u8>>, MonitorSocketError> {
        loop {
            let message = self.desk.ipc.borrow_mut().receive()?;
            match Order::decode(&message)? {
                Order::Grant(grant) => return Ok(grant),
                Order::Begin { service, user, remote, connection } => {
                    self.begin(&service, user, &remote, &connection);
                }
                Order::Authenticate { empty_allowed, password } => {
                    self.authenticate(empty_allowed, password)?;
                }
                Order::Account { proofs } => self.account(&proofs)?,
                Order::Answers(_) | Order::GiveUp => {
                    self.desk.report(Outcome::Bad, "no conversation is open".to_owned())?;
                }
            }
        }
    }

    fn begin(&mut self, service: &str, user: String, remote: &str, connection: &str) {
        if let Ok(mut pam) = Pam::start(service, &user, Box::new(PamConversation(Rc::clone(&self.desk)))) {
            pam.set_item(Item::RemoteHost, remote);
            // Some modules require a terminal name before there is a terminal.
            pam.set_item(Item::Terminal, "ssh");
            pam.put_variable("SSH_CONNECTION", connection);
            self.pam = Some(pam);
        }
        self.user = user;
        self.account = None;
    }

    fn authenticate(
        &mut self,
        empty_allowed: bool,
        password: Option<Zeroizing<Vec<u8>>>,
    ) -> Result<(), MonitorSocketError> {
        let Some(pam) = &mut self.pam else {
            return self.desk.report(Outcome::Bad, "cannot be started".to_owned());
        };
        let interactive = password.is_none();
        *self.desk.mode.borrow_mut() = password.map_or(Mode::Interactive, Mode::Password);
        self.desk.given_up.set(false);
        let mut code = pam.authenticate(empty_allowed);
        let mut what = "authentication";
        if interactive && code.ok() {
            // Checked while the user can still answer, because a new password may be needed.
            what = "account";
            code = pam.account();
            if code == Code::NEW_TOKEN_REQUIRED {
                what = "change of password";
                code = pam.change_expired_password();
            }
            self.account = Some(if code.ok() { Outcome::Good } else { Outcome::Bad });
        }
        *self.desk.mode.borrow_mut() = Mode::Alone;
        let why = format!("{what} of {}: {}", self.user, pam.describe(code));
        let good = code.ok() && !self.desk.given_up.get();
        self.report_unmapped(if good { Outcome::Good } else { Outcome::Bad }, why)
    }

    fn account(&mut self, proofs: &str) -> Result<(), MonitorSocketError> {
        let Some(pam) = &mut self.pam else {
            return self.desk.report(Outcome::Unavailable, "cannot be started".to_owned());
        };
        pam.put_variable("SSH_AUTH_INFO_0", proofs.trim_end());
        if self.account == Some(Outcome::Good) {
            return self.report_unmapped(Outcome::Good, format!("account of {}: in order", self.user));
        }
        let code = pam.account();
        let outcome = match code {
            Code::SUCCESS => Outcome::Good,
            Code::NEW_TOKEN_REQUIRED => Outcome::MustChange,
            code if is_no_answer(code) => Outcome::Unavailable,
            _ => Outcome::Bad,
        };
        let why = format!("account of {}: {}", self.user, pam.describe(code));
        self.report_unmapped(outcome, why)
    }

    /// Reports an outcome. It is a failure where a module has changed the user: the rules were applied to the
    /// original one.
    fn report_unmapped(&self, outcome: Outcome, why: String) -> Result<(), MonitorSocketError> {
        match self.pam.as_ref().and_then(|pam| changed_user(pam, &self.user)) {
            None => self.desk.report(outcome, why),
            Some(why) => {
                error!(self.log, "PAM: {why}");
                self.desk.report(Outcome::Bad, why)
            }
        }
    }

    /// Opens the PAM session. `None` where no transaction was begun, because PAM is not used.
    pub(super) fn open(self, grant: &mut Grant, log: &Log) -> Option<Session> {
        let mut pam = self.pam?;
        // Before the modules run, because they may add groups.
        let root = ids::is_root();
        if root && let Err(problem) = ids::take_groups(&grant.ids) {
            error!(log, "PAM: {problem}");
        }
        let mut problem = None;
        let credentials = pam.set_credentials(Credentials::Establish);
        if !credentials.ok() {
            error!(log, "PAM: pam_setcred(): {}", pam.describe(credentials));
        }
        if let Some(why) = changed_user(&pam, &self.user) {
            return Some(Session::refused(pam, false, format!("PAM: {why}"), log));
        }
        let opened = pam.open_session();
        if let Some(why) = changed_user(&pam, &self.user) {
            return Some(Session::refused(pam, opened.ok(), format!("PAM: {why}"), log));
        }
        if !opened.ok() {
            let text = format!("PAM: pam_open_session(): {}", pam.describe(opened));
            error!(log, "{text}");
            // A server of an ordinary user runs with that user's rights and limits anyway, so a failure is no
            // reason to refuse.
            problem = root.then_some(text);
        }
        if let Ok(groups) = ids::current_groups() {
            grant.ids.groups = groups;
        }
        grant.said.push_str(&std::mem::take(&mut *self.desk.texts.borrow_mut()));
        Some(Session { pam, opened: opened.ok(), problem })
    }
}

/// Returns what modules have done to the user of a transaction, if it is not `user` any more.
fn changed_user(pam: &Pam, user: &str) -> Option<String> {
    match pam.user() {
        Some(name) if name == user.as_bytes() => None,
        Some(name) => {
            Some(format!("modules changed the user from {user} to {}", String::from_utf8_lossy(&name)))
        }
        None => Some(format!("modules removed the user, which was {user}")),
    }
}

/// Returns whether an account check's result means that a module or the service behind it failed, and so says
/// nothing about the account. The numbers are Linux-PAM's.
const fn is_no_answer(code: Code) -> bool {
    const OPEN_ERR: i32 = 1;
    const SYMBOL_ERR: i32 = 2;
    const SERVICE_ERR: i32 = 3;
    const SYSTEM_ERR: i32 = 4;
    const BUF_ERR: i32 = 5;
    const AUTHINFO_UNAVAIL: i32 = 9;
    const ABORT: i32 = 26;
    const MODULE_UNKNOWN: i32 = 28;
    const INCOMPLETE: i32 = 31;
    matches!(
        code.0,
        OPEN_ERR
            | SYMBOL_ERR
            | SERVICE_ERR
            | SYSTEM_ERR
            | BUF_ERR
            | AUTHINFO_UNAVAIL
            | ABORT
            | MODULE_UNKNOWN
            | INCOMPLETE
    )
}

/// An open PAM session.
pub(super) struct Session {
    pam: Pam,
    opened: bool,
    problem: Option<String>,
}

/// The part of a PAM session that the process of the user inherits.
pub(super) struct Inherited {
    pub(super) environment: Environment,
    /// Why the session could not be opened: no program may run then.
    pub(super) problem: Option<String>,
}

impl Session {
    /// Returns a session in which no program may run.
    fn refused(pam: Pam, opened: bool, problem: String, log: &Log) -> Self {
        error!(log, "{problem}");
        Self { pam, opened, problem: Some(problem) }
    }

    /// Releases the transaction without ending it, for the process that continues as the user: the holder
    /// ends it.
    pub(super) fn inherit(self) -> Inherited {
        let Self { pam, problem, .. } = self;
        let environment = pam.environment();
        let _ = ManuallyDrop::new(pam);
        Inherited { environment, problem }
    }

    /// Waits for the user session process, forwards signals to it, and closes the PAM session. Returns the
    /// exit status.
    pub(super) fn hold(mut self, child: Pid, log: &Log) -> i32 {
        let status = wait_for(child).unwrap_or_else(|problem| {
            error!(log, "PAM: {problem}");
            EXIT_FAILURE
        });
        if self.opened {
            let closed = self.pam.close_session();
            if !closed.ok() {
                error!(log, "PAM: pam_close_session(): {}", self.pam.describe(closed));
            }
        }
        let _ = self.pam.set_credentials(Credentials::Delete);
        status
    }
}

fn wait_for(child: Pid) -> std::io::Result<i32> {
    // When the monitor ends, we must end too. The child asks for a signal at our end itself.
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    let signals = Signals::collect(&[Signal::TERM, Signal::INT, Signal::HUP])?;
    let ended = pidfd_open(child, PidfdFlags::empty())?;
    loop {
        while let Some(signal) = signals.take()? {
            let _ = kill_process(child, signal);
        }
        let mut fds = [PollFd::new(&ended, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [ended, _] = fds;
        if !ended.revents().is_empty() {
            break;
        }
    }
    let status = rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))?;
    Ok(status.and_then(|(_, status)| status.exit_status()).unwrap_or(EXIT_FAILURE))
}
