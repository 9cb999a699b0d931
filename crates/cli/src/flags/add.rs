//! The flags of `lhssh-add`, which are those of ssh-add(1).

use super::program::Support::Works;
use super::program::{Flag, Program};

/// The flag table of `lhssh-add`.
pub static ADD: Program = Program {
    name: "lhssh-add",
    about: "put keys into an agent, list them and take them out",
    operands: "[file ...]",
    flags_after_first_operand: false,
    usage_status: 1,
    flags: &[
        Flag::plain('C', Works, "Only certificates, no plain keys."),
        Flag::plain('c', Works, "Make the agent ask before each use of these keys."),
        Flag::plain('D', Works, "Remove all keys from the agent."),
        Flag::plain('d', Works, "Remove these keys instead of adding them."),
        Flag::with('E', "fingerprint_hash", Works, "Hash of fingerprints: sha256 (default) or md5."),
        Flag::with('e', "pkcs11", Works, "Remove the keys of this PKCS#11 library."),
        Flag::with('H', "hostkey_file", Works, "Known hosts to find the keys of -h in; may be repeated."),
        Flag::with(
            'h',
            "destination_constraint",
            Works,
            "Use these keys for [user@]host, or from one host for another: host>[user@]host; may be repeated.",
        ),
        Flag::plain('K', Works, "Add the resident keys of a security key."),
        Flag::plain('k', Works, "Only plain keys, no certificates."),
        Flag::plain('L', Works, "List the public keys in the agent."),
        Flag::plain('l', Works, "List the fingerprints of the keys in the agent."),
        Flag::plain('N', Works, "Keep certificates in the agent after they expire."),
        Flag::plain('P', Works, "Ask for no PIN, for tokens and security keys that need none (-s, -K)."),
        Flag::plain('Q', Works, "List the extensions that the agent supports."),
        Flag::plain('q', Works, "Print nothing on success."),
        Flag::with('S', "provider", Works, "Library for the agent to use for security keys."),
        Flag::with('s', "pkcs11", Works, "Add the keys of this PKCS#11 library."),
        Flag::plain('T', Works, "Test that the agent can use the private keys of these public keys."),
        Flag::with('t', "life", Works, "Make the agent remove these keys after this time."),
        Flag::plain('v', Works, "Be verbose."),
        Flag::plain('X', Works, "Unlock the agent."),
        Flag::plain('x', Works, "Lock the agent with a passphrase."),
    ],
};
