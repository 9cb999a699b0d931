//! Pages of the programs for keys: `lhssh-keygen`, `lhssh-agent`, `lhssh-add`, `lhssh-keyscan`.

use super::page::Page;

pub(super) const LHSSH_KEYGEN: Page = Page {
    name: "lhssh-keygen",
    description: "lhssh-keygen makes, shows, converts and changes keys, looks after known_hosts files, \
        signs certificates and files, and \
                  makes lists of revoked keys. Key files are those of ssh-keygen(1), both ways.",
    parts: &[],
    exit: "0 when it did what was asked, 255 or 1 when not; with -Q, 1 when one of the keys is revoked.",
    environment: &[
        ("SSH_SK_PROVIDER", "Library for security keys, where -w names none; without both, libfido2."),
        ("SSH_ASKPASS, SSH_ASKPASS_REQUIRE", "As in lhssh(1)."),
    ],
    files: &[
        (
            "~/.ssh/id_ed25519, ~/.ssh/id_ed25519.pub",
            "The key that is made when nothing else is said, and its public half.",
        ),
        ("~/.ssh/known_hosts", "Where -F, -H and -R look when no file is named."),
    ],
    see_also: &[
        ("lhssh", 1),
        ("lhssh-agent", 1),
        ("lhssh-add", 1),
        ("lhssh-keyscan", 1),
        ("lhsshd_config", 5),
    ],
};

pub(super) const LHSSH_AGENT: Page = Page {
    name: "lhssh-agent",
    description: "lhssh-agent holds private keys in memory and signs with them for programs that \
        connect to its socket, so that a passphrase is \
                  typed once. With a command, it runs that with the socket in the environment and ends \
                  with it; otherwise it goes to \
                  the background and prints commands for a shell.",
    parts: &[],
    exit: "0 when it was started or did what was asked, 1 when not; with a command, the command's \
        status.",
    environment: &[
        ("SSH_AUTH_SOCK, SSH_AGENT_PID", "Set for what it starts; -k reads the second."),
        ("SSH_ASKPASS", "Program that asks where a key is to be confirmed (lhssh-add -c)."),
        ("TMPDIR", "Where the socket is with -T, or without a home that can hold it; else /tmp."),
        (
            "LISTEN_PID, LISTEN_FDS",
            "With -d or -D and without -a: the socket that a service manager has opened.",
        ),
    ],
    files: &[
        ("~/.ssh/agent/", "Sockets of agents of this user."),
        (
            "/tmp/ssh-*/agent.*",
            "Sockets of agents with -T, and of accounts without a home, or with one that is read-only or \
                whose path is too long.",
        ),
    ],
    see_also: &[
        ("lhssh-add", 1),
        ("lhssh", 1),
        ("lhssh-keygen", 1),
        ("lhssh-sk-helper", 8),
        ("lhssh-pkcs11-helper", 8),
    ],
};

pub(super) const LHSSH_ADD: Page = Page {
    name: "lhssh-add",
    description: "lhssh-add puts private keys into the agent that SSH_AUTH_SOCK names, lists them and \
        takes them out. Without a file it takes the \
                  keys of ~/.ssh that lhssh would try. A certificate beside a key is added with it.",
    parts: &[],
    exit: "0 when it did what was asked, 1 when not, 2 when there is no agent.",
    environment: &[
        ("SSH_AUTH_SOCK", "Socket of the agent."),
        ("SSH_ASKPASS, SSH_ASKPASS_REQUIRE", "As in lhssh(1)."),
        ("SSH_SK_PROVIDER", "Library for security keys, where -S names none; without both, libfido2."),
    ],
    files: &[
        ("~/.ssh/id_ed25519, ~/.ssh/id_ecdsa, ~/.ssh/id_rsa, ...", "Keys that are added when none is named."),
        ("~/.ssh/known_hosts", "Host keys for -h."),
    ],
    see_also: &[("lhssh-agent", 1), ("lhssh", 1), ("lhssh-keygen", 1)],
};

pub(super) const LHSSH_KEYSCAN: Page = Page {
    name: "lhssh-keyscan",
    description: "lhssh-keyscan asks hosts for their public keys, many at a time and without logging \
        in, and prints lines for known_hosts. An attacker \
                  on the path can answer with another key: compare the fingerprints in \
                  another way before trusting them.",
    parts: &[],
    exit: "0 when a host answered; 1 when none did, or a port or a time is wrong; 255 when a type of key, an address \
        range or an option of -O is wrong, or the file of -f cannot be read.",
    environment: &[],
    files: &[("/etc/ssh/ssh_known_hosts", "Where an administrator puts what was found and checked.")],
    see_also: &[("lhssh", 1), ("lhssh-keygen", 1), ("lhsshd", 8)],
};
