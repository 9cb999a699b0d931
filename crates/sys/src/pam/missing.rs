//! The interface without the library: no transaction can be started, so the other methods are never called.

use super::{Code, Conversation, Credentials, Environment, Item};
use crate::dynamic::LoadError;

/// Always fails: this build has no PAM.
pub fn load() -> Result<(), LoadError> {
    Err(LoadError::NotBuiltIn("PAM"))
}

/// See [`Pam::start`].
#[derive(Debug)]
pub struct Pam(std::convert::Infallible);

impl Pam {
    /// Always fails: this build has no PAM.
    pub fn start(_service: &str, _user: &str, _talk: Box<dyn Conversation>) -> Result<Self, Code> {
        Err(Code::SYSTEM_ERROR)
    }

    /// Never called: no value of this type can be created.
    pub fn set_item(&mut self, _item: Item, _value: &str) -> Code {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn put_variable(&mut self, _name: &str, _value: &str) -> Code {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn authenticate(&mut self, _empty_allowed: bool) -> Code {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn account(&mut self) -> Code {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn change_expired_password(&mut self) -> Code {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn set_credentials(&mut self, _what: Credentials) -> Code {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn open_session(&mut self) -> Code {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn close_session(&mut self) -> Code {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn environment(&self) -> Environment {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn user(&self) -> Option<Vec<u8>> {
        match self.0 {}
    }

    /// Never called: no value of this type can be created.
    pub fn describe(&self, _code: Code) -> String {
        match self.0 {}
    }
}
