//! The tokens of paths about a user.

use lh_config::token::Tokens;
use lh_sys::users::User;

/// `%h`, `%u` and `%U`: the tokens of `AuthorizedKeysFile`, `ChrootDirectory` and their relatives.
pub(crate) fn user_tokens(user: &User) -> Tokens {
    Tokens::new()
        .with('h', user.home.to_string_lossy())
        .with('u', user.name.as_str())
        .with('U', user.uid.to_string())
}
