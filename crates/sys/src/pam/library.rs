//! Bindings to Linux-PAM, whose interface follows X/Open's.
#![expect(unsafe_code, reason = "libpam is a C library that calls back")]

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

use zeroize::{Zeroize, Zeroizing};

use super::{Code, Conversation, Credentials, Environment, Item, Style};
use crate::dynamic::{Library, LoadError, functions};

/// Upper limit of messages in one call; the library's own limit.
const MOST_MESSAGES: usize = 32;
/// Upper limit of an answer with its NUL, bytes; the library's own limit.
const LONGEST_ANSWER: usize = 512;

const PAM_CONV_ERR: c_int = 19;
const PAM_BUF_ERR: c_int = 5;
const PAM_USER: c_int = 2;
const PAM_TTY: c_int = 3;
const PAM_RHOST: c_int = 4;
const PAM_DISALLOW_NULL_AUTHTOK: c_int = 0x1;
const PAM_ESTABLISH_CRED: c_int = 0x2;
const PAM_DELETE_CRED: c_int = 0x4;
const PAM_CHANGE_EXPIRED_AUTHTOK: c_int = 0x20;

#[repr(C)]
struct Handle {
    _opaque: [u8; 0],
}

#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

#[repr(C)]
struct Response {
    answer: *mut c_char,
    code: c_int,
}

type Callback = extern "C" fn(c_int, *mut *const Message, *mut *mut Response, *mut c_void) -> c_int;

#[repr(C)]
struct Conv {
    callback: Callback,
    data: *mut c_void,
}

functions! {
/// The library's functions.
struct Api {
    fn pam_start(
        service: *const c_char,
        user: *const c_char,
        conv: *const Conv,
        handle: *mut *mut Handle,
    ) -> c_int;
    fn pam_end(handle: *mut Handle, status: c_int) -> c_int;
    fn pam_set_item(handle: *mut Handle, item: c_int, value: *const c_void) -> c_int;
    fn pam_get_item(handle: *const Handle, item: c_int, value: *mut *const c_void) -> c_int;
    fn pam_putenv(handle: *mut Handle, variable: *const c_char) -> c_int;
    fn pam_getenvlist(handle: *mut Handle) -> *mut *mut c_char;
    fn pam_strerror(handle: *mut Handle, code: c_int) -> *const c_char;
    fn pam_authenticate(handle: *mut Handle, flags: c_int) -> c_int;
    fn pam_acct_mgmt(handle: *mut Handle, flags: c_int) -> c_int;
    fn pam_chauthtok(handle: *mut Handle, flags: c_int) -> c_int;
    fn pam_setcred(handle: *mut Handle, flags: c_int) -> c_int;
    fn pam_open_session(handle: *mut Handle, flags: c_int) -> c_int;
    fn pam_close_session(handle: *mut Handle, flags: c_int) -> c_int;
}
}

impl Api {
    /// Returns the library, which the first call loads. Fails if it is not installed, or not Linux-PAM's.
    fn load() -> Result<&'static Self, LoadError> {
        static API: OnceLock<Result<Api, LoadError>> = OnceLock::new();
        let api = API.get_or_init(|| Library::open_for_others(c"libpam.so.0").and_then(Self::find));
        api.as_ref().map_err(LoadError::clone)
    }
}

/// Loads the library, which the first transaction does otherwise.
///
/// # Errors
/// It is not installed, or is not Linux-PAM's.
pub fn load() -> Result<(), LoadError> {
    Api::load().map(drop)
}

type DynConversation = Box<dyn Conversation>;

/// A transaction. Dropping it ends it; an open session must be closed first.
pub struct Pam {
    api: &'static Api,
    handle: *mut Handle,
    /// Callback data that the library has; freed by us after its end. Only ever used through this pointer.
    talk: *mut DynConversation,
    last: c_int,
}

impl std::fmt::Debug for Pam {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pam").finish_non_exhaustive()
    }
}

impl Pam {
    /// Begins a transaction for `user` with the rules of `service` (a file in `/etc/pam.d`).
    ///
    /// # Errors
    /// The library is missing ([`load`] has the reason), or cannot start.
    pub fn start(service: &str, user: &str, talk: Box<dyn Conversation>) -> Result<Self, Code> {
        let (Ok(service), Ok(user)) = (CString::new(service), CString::new(user)) else {
            return Err(Code::SYSTEM_ERROR);
        };
        let Ok(api) = Api::load() else { return Err(Code::SYSTEM_ERROR) };
        let talk = Box::into_raw(Box::new(talk));
        let conv = Conv { callback, data: talk.cast() };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the strings and `conv` live during the call, and the library copies what it keeps; `talk`
        // lives until after `pam_end`.
        let code = unsafe { (api.pam_start)(service.as_ptr(), user.as_ptr(), &conv, &mut handle) };
        if code != 0 || handle.is_null() {
            // SAFETY: the library did not start, so the pointer from `into_raw` has no other user.
            drop(unsafe { Box::from_raw(talk) });
            return Err(Code(code));
        }
        Ok(Self { api, handle, talk, last: 0 })
    }

    fn record(&mut self, code: c_int) -> Code {
        self.last = code;
        Code(code)
    }

    /// Passes a fact to the modules.
    pub fn set_item(&mut self, item: Item, value: &str) -> Code {
        let Ok(value) = CString::new(value) else { return Code::SYSTEM_ERROR };
        let item = match item {
            Item::RemoteHost => PAM_RHOST,
            Item::Terminal => PAM_TTY,
        };
        // SAFETY: the handle is live; the library copies the string.
        Code(unsafe { (self.api.pam_set_item)(self.handle, item, value.as_ptr().cast()) })
    }

    /// Sets an environment variable for the modules and, later, the session.
    pub fn put_variable(&mut self, name: &str, value: &str) -> Code {
        let Ok(text) = CString::new(format!("{name}={value}")) else { return Code::SYSTEM_ERROR };
        // SAFETY: the handle is live; the library copies the string.
        Code(unsafe { (self.api.pam_putenv)(self.handle, text.as_ptr()) })
    }

    /// Runs the modules that authenticate the user.
    pub fn authenticate(&mut self, empty_allowed: bool) -> Code {
        let flags = if empty_allowed { 0 } else { PAM_DISALLOW_NULL_AUTHTOK };
        // SAFETY: the handle is live.
        let code = unsafe { (self.api.pam_authenticate)(self.handle, flags) };
        self.record(code)
    }

    /// Checks that the user account may be used now.
    pub fn account(&mut self) -> Code {
        // SAFETY: the handle is live.
        let code = unsafe { (self.api.pam_acct_mgmt)(self.handle, 0) };
        self.record(code)
    }

    /// Runs the dialogue for a new password in place of an expired one.
    pub fn change_expired_password(&mut self) -> Code {
        // SAFETY: the handle is live.
        let code = unsafe { (self.api.pam_chauthtok)(self.handle, PAM_CHANGE_EXPIRED_AUTHTOK) };
        self.record(code)
    }

    /// Establishes or deletes credentials.
    pub fn set_credentials(&mut self, what: Credentials) -> Code {
        let flags = match what {
            Credentials::Establish => PAM_ESTABLISH_CRED,
            Credentials::Delete => PAM_DELETE_CRED,
        };
        // SAFETY: the handle is live.
        let code = unsafe { (self.api.pam_setcred)(self.handle, flags) };
        self.record(code)
    }

    /// Opens the session: limits, keyrings and namespaces that modules set apply to this process and its
    /// children.
    pub fn open_session(&mut self) -> Code {
        // SAFETY: the handle is live.
        let code = unsafe { (self.api.pam_open_session)(self.handle, 0) };
        self.record(code)
    }

    /// Closes the session.
    pub fn close_session(&mut self) -> Code {
        // SAFETY: the handle is live.
        let code = unsafe { (self.api.pam_close_session)(self.handle, 0) };
        self.record(code)
    }

    /// Environment variables that modules have set.
    pub fn environment(&self) -> Environment {
        let mut variables = Vec::new();
        // SAFETY: the handle is live. The list is ours and ends in null, and each entry is a C string from
        // malloc.
        unsafe {
            let list = (self.api.pam_getenvlist)(self.handle);
            if list.is_null() {
                return variables;
            }
            let mut at = list;
            while !(*at).is_null() {
                let text = CStr::from_ptr(*at).to_bytes();
                if let Some(equals) = text.iter().position(|byte| *byte == b'=') {
                    let (name, value) = (&text[..equals], &text[equals + 1..]);
                    variables.push((OsString::from_vec(name.to_vec()), OsString::from_vec(value.to_vec())));
                }
                libc::free((*at).cast());
                at = at.add(1);
            }
            libc::free(list.cast());
        }
        variables
    }

    /// User name according to the modules, which may map names. `None` if they have removed it, or it cannot
    /// be read.
    pub fn user(&self) -> Option<Vec<u8>> {
        let mut value = std::ptr::null();
        // SAFETY: the handle is live; on success `value` is null or a C string that belongs to the library.
        unsafe {
            if (self.api.pam_get_item)(self.handle, PAM_USER, &mut value) != 0 || value.is_null() {
                return None;
            }
            Some(CStr::from_ptr(value.cast()).to_bytes().to_vec())
        }
    }

    /// Text of a result code, for the log.
    pub fn describe(&self, code: Code) -> String {
        // SAFETY: the handle is live; the text is a constant of the library.
        let text = unsafe { (self.api.pam_strerror)(self.handle, code.0) };
        if text.is_null() {
            return format!("PAM error {}", code.0);
        }
        // SAFETY: not null, so a C string.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

impl Drop for Pam {
    fn drop(&mut self) {
        // SAFETY: the handle is live and not used again. After `pam_end` the library makes no callback, so
        // the callback data is ours alone again.
        unsafe {
            (self.api.pam_end)(self.handle, self.last);
            drop(Box::from_raw(self.talk));
        }
    }
}

/// The callback that the library calls for the modules. A panic in it aborts the process, since it cannot
/// unwind through C.
extern "C" fn callback(
    count: c_int,
    messages: *mut *const Message,
    responses: *mut *mut Response,
    data: *mut c_void,
) -> c_int {
    let count = match usize::try_from(count) {
        Ok(count @ 1..=MOST_MESSAGES) => count,
        _ => return PAM_CONV_ERR,
    };
    if messages.is_null() || responses.is_null() || data.is_null() {
        return PAM_CONV_ERR;
    }
    let mut asked = Vec::with_capacity(count);
    for index in 0..count {
        // SAFETY: on Linux `messages` is an array of `count` pointers to messages, each with a C string or
        // null.
        let (style, text) = unsafe {
            let message = *messages.add(index);
            if message.is_null() {
                return PAM_CONV_ERR;
            }
            let text = (*message).text;
            let text = if text.is_null() { "".into() } else { CStr::from_ptr(text).to_string_lossy() };
            ((*message).style, text.into_owned())
        };
        let style = match style {
            1 => Style::Secret,
            2 => Style::Visible,
            3 => Style::Error,
            4 => Style::Info,
            _ => return PAM_CONV_ERR,
        };
        asked.push((style, text));
    }
    // SAFETY: `data` is the pointer that `Pam::start` created, alive until `pam_end` has returned, and its
    // target has no other user while the library runs.
    let talk = unsafe { &mut *data.cast::<DynConversation>() };
    let Some(answers) = talk.talk(&asked).filter(|answers| answers.len() == count) else {
        return PAM_CONV_ERR;
    };
    if !answers.iter().all(|answer| fits(answer)) {
        return PAM_CONV_ERR;
    }
    match to_responses(&answers) {
        Some(list) => {
            // SAFETY: checked above; the library takes over the list.
            unsafe { *responses = list };
            0
        }
        None => PAM_BUF_ERR,
    }
}

/// True when modules would get the whole answer. A longer one is refused: truncated, it would match a
/// password that is its prefix.
fn fits(answer: &[u8]) -> bool {
    answer.len() < LONGEST_ANSWER && !answer.contains(&0)
}

/// The answers in memory of the C library, which the modules free. Each must pass [`fits`].
fn to_responses(answers: &[Zeroizing<Vec<u8>>]) -> Option<*mut Response> {
    // SAFETY: plain allocation; every pointer is checked before it is used.
    unsafe {
        let list: *mut Response = libc::calloc(answers.len(), size_of::<Response>()).cast();
        if list.is_null() {
            return None;
        }
        for (index, answer) in answers.iter().enumerate() {
            let length = answer.len();
            let text: *mut u8 = libc::calloc(length + 1, 1).cast();
            if text.is_null() {
                for given in 0..index {
                    let given = (*list.add(given)).answer;
                    let bytes = std::slice::from_raw_parts_mut(given.cast::<u8>(), libc::strlen(given));
                    bytes.zeroize();
                    libc::free(given.cast());
                }
                libc::free(list.cast());
                return None;
            }
            std::ptr::copy_nonoverlapping(answer.as_ptr(), text, length);
            (*list.add(index)).answer = text.cast();
        }
        Some(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives the same answer to every prompt.
    struct Answers(&'static [u8]);

    impl Conversation for Answers {
        fn talk(&mut self, messages: &[(Style, String)]) -> Option<Vec<Zeroizing<Vec<u8>>>> {
            Some(messages.iter().map(|_| Zeroizing::new(self.0.to_vec())).collect())
        }
    }

    #[test]
    fn unknown_service_denies_login() {
        // The library falls back to the service `other`, which denies on a sane system.
        let mut pam = Pam::start("lh-no-such-service", "nobody", Box::new(Answers(b"x"))).unwrap();
        assert!(pam.set_item(Item::RemoteHost, "192.0.2.1").ok());
        assert!(pam.put_variable("A", "b=c").ok());
        assert_eq!(pam.environment(), [("A".into(), "b=c".into())]);
        assert_eq!(pam.user().as_deref(), Some(&b"nobody"[..]));
        let code = pam.authenticate(false);
        assert!(!code.ok());
        assert!(!pam.describe(code).is_empty());
        assert!(Pam::start("a\0b", "nobody", Box::new(Answers(b"x"))).is_err());
    }

    #[test]
    fn long_answers_are_copied_completely() {
        let long = Zeroizing::new(vec![b'x'; LONGEST_ANSWER - 1]);
        let list = to_responses(&[Zeroizing::new(b"secret".to_vec()), long]).unwrap();
        // SAFETY: the list has two entries with C strings from calloc.
        unsafe {
            assert_eq!(CStr::from_ptr((*list).answer).to_bytes(), b"secret");
            assert_eq!(libc::strlen((*list.add(1)).answer), LONGEST_ANSWER - 1);
            libc::free((*list).answer.cast());
            libc::free((*list.add(1)).answer.cast());
            libc::free(list.cast());
        }
    }

    #[test]
    fn too_long_answers_are_refused() {
        fn ask(answer: &'static [u8]) -> c_int {
            let talk: *mut DynConversation = Box::into_raw(Box::new(Box::new(Answers(answer))));
            let message = Message { style: 1, text: c"Password: ".as_ptr() };
            let mut messages = [&raw const message];
            let mut responses = std::ptr::null_mut();
            let code = callback(1, messages.as_mut_ptr(), &mut responses, talk.cast());
            // SAFETY: `talk` came from a box and is not used again; a returned list has one entry from
            // calloc.
            unsafe {
                drop(Box::from_raw(talk));
                if !responses.is_null() {
                    libc::free((*responses).answer.cast());
                    libc::free(responses.cast());
                }
            }
            code
        }
        static LONG: [u8; LONGEST_ANSWER] = [b'x'; LONGEST_ANSWER];
        assert_eq!(ask(&LONG[..LONGEST_ANSWER - 1]), 0);
        assert_eq!(ask(&LONG), PAM_CONV_ERR);
        assert_eq!(ask(b"secret\0more"), PAM_CONV_ERR);
    }
}
