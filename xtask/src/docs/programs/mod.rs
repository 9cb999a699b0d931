//! Texts of the programs' manual pages, besides the flags, which are in the tables of `lh_cli::flags`.

pub(super) mod client;
mod examples;
mod helpers;
mod keys;
mod longhaul;
mod page;
pub(super) mod server;

use examples::{EXAMPLES, Example};
pub(super) use page::{Page, Part};

/// Pages of programs with a flag table.
pub(super) const PAGES: &[Page] = &[
    client::LHSSH,
    client::LHSCP,
    client::LHSFTP,
    server::LHSFTP_SERVER,
    server::LHSSHD,
    keys::LHSSH_KEYGEN,
    keys::LHSSH_AGENT,
    keys::LHSSH_ADD,
    keys::LHSSH_KEYSCAN,
    longhaul::LONGHAUL,
];

/// Programs that other programs start: their page, and a description in one line.
pub(super) const HELPERS: &[(Page, &str)] = &[
    (helpers::LHSSH_KEYSIGN, "sign for host-based authentication"),
    (helpers::LHSSH_SK_HELPER, "talk to security keys for other programs"),
    (helpers::LHSSH_PKCS11_HELPER, "talk to PKCS#11 tokens for other programs"),
];

/// Returns the examples of the page `name`.
pub(super) fn examples(name: &str) -> &'static [Example] {
    EXAMPLES.iter().find(|(page, _)| *page == name).map_or(&[], |(_, examples)| examples)
}
