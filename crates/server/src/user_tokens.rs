//! The tokens for paths of a user.

use lh_config::token::Tokens;
use lh_sys::users::User;

/// Returns `%h`, `%u` and `%U`: the tokens of `AuthorizedKeysFile`, `ChrootDirectory` and similar keywords.
pub(crate) fn user_tokens(user: &User) -> Tokens {
    Tokens::new()
        .with('h', user.home.to_string_lossy())
        .with('u', user.name.as_str())
        .with('U', user.uid.to_string())
}
