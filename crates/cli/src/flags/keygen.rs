//! The flags of `lhssh-keygen`, which are those of ssh-keygen(1).

use super::program::Support::{Accepted, Works};
use super::program::{Flag, Program};

/// The flag table of `lhssh-keygen`.
pub static KEYGEN: Program = Program {
    name: "lhssh-keygen",
    about: "make, change and show SSH keys, and manage known_hosts files",
    operands: "",
    flags_after_first_operand: false,
    usage_status: 1,
    flags: &[
        Flag::plain(
            'A',
            Works,
            "Generate missing host keys of every type in /etc/ssh (with -f: below this directory).",
        ),
        Flag::with('a', "rounds", Works, "Rounds of the function that turns the passphrase into a key (32)."),
        Flag::plain('B', Works, "Show the Bubble Babble digest of a key."),
        Flag::with('b', "bits", Works, "Size of a new key."),
        Flag::with('C', "comment", Works, "Comment of a new key or list; with -c the new comment."),
        Flag::plain('c', Works, "Change the comment of a key."),
        Flag::with(
            'D',
            "pkcs11",
            Works,
            "Show the public keys of this PKCS#11 library; with -s, sign with its key.",
        ),
        Flag::with(
            'E',
            "fingerprint_hash",
            Works,
            "Hash of fingerprints: sha256 (default), md5, sha1, sha384 or sha512.",
        ),
        Flag::plain('e', Works, "Export a public key in the format -m names (RFC4716)."),
        Flag::with('F', "hostname", Works, "Find a host in known_hosts."),
        Flag::with(
            'f',
            "file",
            Works,
            "The key file, known_hosts file, list of revoked keys or list of allowed signers.",
        ),
        Flag::plain('g', Works, "With -r: the generic form of DNS records."),
        Flag::plain('H', Works, "Hash all names in known_hosts."),
        Flag::plain('h', Works, "With -s: make a host's certificate instead of a user's."),
        Flag::with('I', "identity", Works, "Key id of a certificate; with -Y, the signer."),
        Flag::plain('i', Works, "Import a public key of the format -m names (RFC4716)."),
        Flag::plain('K', Works, "Write a file for each resident key of a security key."),
        Flag::plain('k', Works, "Make a list of revoked keys from files of keys or specifications."),
        Flag::plain('L', Works, "Show the contents of certificates."),
        Flag::plain('l', Works, "Show fingerprints; with -Q, the contents of a list of revoked keys."),
        Flag::with(
            'M',
            "task",
            Works,
            "generate candidates for moduli of group exchange, or screen them for primes.",
        ),
        Flag::with('m', "format", Works, "Key format: RFC4716, PKCS8 or PEM; with -e also hexdump."),
        Flag::with('N', "new_passphrase", Works, "The new passphrase."),
        Flag::with('n', "principals", Works, "Names in a certificate, with commas; with -Y, the namespace."),
        Flag::with(
            'O',
            "option",
            Works,
            "With -s: clear, critical:NAME[=VALUE], extension:NAME[=VALUE], force-command=COMMAND, \
             source-address=LIST, verify-required, no-touch-required, permit-… and no-…; with -Y: \
             hashalg=HASH, print-pubkey, verify-time=TIME; with -r: hashalg=HASH; with -t …-sk: application=, challenge=, device=, no-touch-required, resident, \
             user=, verify-required, write-attestation=; with -K: device=; with -M: bits=, start=, \
             lines=, start-line=, checkpoint=, generator=, prime-tests=.",
        ),
        Flag::plain(
            'o',
            Accepted("it asked for OpenSSH's own format of private keys, which is the usual one by now"),
            "",
        ),
        Flag::with('P', "old_passphrase", Works, "The passphrase of the key."),
        Flag::plain('p', Works, "Change the passphrase of a key."),
        Flag::plain('Q', Works, "Check keys against a list of revoked keys."),
        Flag::plain('q', Works, "Print no messages."),
        Flag::with('R', "hostname", Works, "Remove a host from known_hosts."),
        Flag::with(
            'r',
            "hostname",
            Works,
            "Show a key as DNS records; with -Y verify, a list of revoked keys.",
        ),
        Flag::with(
            's',
            "file",
            Works,
            "Sign certificates with this authority's key; with -k, the authority; with -Y, the signature.",
        ),
        Flag::with(
            't',
            "type",
            Works,
            "Type of a new key: ed25519 (default), ecdsa, rsa, mldsa44-ed25519, or in hardware ed25519-sk or ecdsa-sk; with -s, how to sign.",
        ),
        Flag::plain('U', Works, "The key that signs is in an agent."),
        Flag::plain('u', Works, "With -k: add to a list."),
        Flag::with(
            'V',
            "validity",
            Works,
            "Validity of a certificate: +LENGTH, or FROM:TO, each a date, +LENGTH, -LENGTH, 0xSECONDS, \
             always or forever.",
        ),
        Flag::plain('v', Works, "Show randomart with fingerprints."),
        Flag::with('w', "provider", Works, "Library for security keys ($SSH_SK_PROVIDER)."),
        Flag::plain('X', Works, "Alias of -i."),
        Flag::with(
            'Y',
            "task",
            Works,
            "sign files, verify or check-novalidate a signature, find-principals or match-principals.",
        ),
        Flag::plain('y', Works, "Show the public key of a private key."),
        Flag::with('Z', "cipher", Works, "Cipher of private key files with a passphrase (aes256-ctr)."),
        Flag::with(
            'z',
            "number",
            Works,
            "Serial number of a certificate (+N: counting up), or version of a list of revoked keys.",
        ),
    ],
};

/// The forms of the command line, for the usage text.
pub static KEYGEN_FORMS: &[&str] = &[
    "[-q] [-a rounds] [-b bits] [-C comment] [-f file] [-m format] [-N passphrase] [-O option] [-t type] [-w provider] [-Z cipher]",
    "-p [-a rounds] [-f file] [-m format] [-N new_passphrase] [-P old_passphrase] [-Z cipher]",
    "-c [-a rounds] [-C comment] [-f file] [-P passphrase]",
    "-i [-f file] [-m format]",
    "-e [-f file] [-m format]",
    "-y [-f file]",
    "-l [-v] [-E fingerprint_hash] [-f file]",
    "-B [-f file]",
    "-F hostname [-lv] [-f known_hosts]",
    "-H [-f known_hosts]",
    "-D pkcs11",
    "-K [-a rounds] [-w provider]",
    "-R hostname [-f known_hosts]",
    "-r hostname [-g] [-O option] [-f file]",
    "-s ca_key -I identity [-hU] [-D pkcs11] [-n principals] [-O option] [-V validity] [-z serial_number] file ...",
    "-L [-f file]",
    "-A [-a rounds] [-f prefix]",
    "-k -f list [-u] [-s ca_public] [-z version] file ...",
    "-Q [-l] -f list [file ...]",
    "-M generate [-O option] output_file",
    "-M screen [-f input_file] [-O option] output_file",
    "-Y sign -f key -n namespace [-O option] [file ...]",
    "-Y verify -f allowed_signers -I identity -n namespace -s signature [-r list] [-O option]",
    "-Y check-novalidate -n namespace -s signature [-O option]",
    "-Y find-principals -s signature -f allowed_signers",
    "-Y match-principals -I identity -f allowed_signers",
];
