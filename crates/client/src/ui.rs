//! The interface to the user: messages and questions.

pub use lh_config::enums::LogLevel;
use zeroize::Zeroizing;

/// A password, passphrase or answer. Wiped when dropped.
pub type Secret = Zeroizing<String>;

/// Function that asks the user for permission, from a thread beside the loop: takes the prompt, returns
/// whether the user agrees.
pub type Permission = std::sync::Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// A notice on the user's display, shown until the value is dropped.
pub type Notice = Box<dyn std::any::Any>;

/// Stages of a connection. Each follows a response of the network or the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// The TCP connection is established.
    Connected,
    /// The server has sent its identification.
    Identified,
    /// The server has proved its host key, and the key is accepted.
    HostVerified,
}

/// The user of the library, or a stand-in. By default there is no way to ask, and only messages are shown.
///
/// Texts have no final newline and no control characters from the peer.
pub trait UserInterface {
    /// Shows a message on standard error. Called only for levels that are shown.
    fn message(&mut self, level: LogLevel, text: &str);

    /// Reports the connection's stage; for jump hosts' connections as well.
    fn progress(&mut self, _progress: Progress) {}

    /// Shows the server's login banner; `text` keeps its newlines.
    fn banner(&mut self, _text: &str) {}

    /// Asks a question with a visible answer, such as `… continue connecting (yes/no/[fingerprint])? `.
    /// `None` if there is no way to ask.
    fn ask(&mut self, _prompt: &str) -> Option<Secret> {
        None
    }

    /// Asks for a password or passphrase, with hidden input. `None` if there is no way to ask.
    fn ask_secret(&mut self, _prompt: &str) -> Option<Secret> {
        None
    }

    /// Asks for permission, in a window if possible. False if there is no way to ask.
    fn confirm(&mut self, _prompt: &str) -> bool {
        false
    }

    /// Shows a text on the user's display until the result is dropped. `None` if there is no display.
    fn notify(&mut self, _text: &str) -> Option<Notice> {
        None
    }
}
