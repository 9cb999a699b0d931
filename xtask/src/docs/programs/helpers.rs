//! Pages of programs that other programs start.

use super::page::Page;

pub(super) const LHSSH_KEYSIGN: Page = Page {
    name: "lhssh-keysign",
    description: "lhssh-keysign signs for lhssh with the private keys of this host when a user logs \
        in elsewhere by host-based authentication. It \
                  is installed set-uid root and signs one kind of message, for the user who calls \
                  it and the name of this host, only \
                  where EnableSSHKeysign is yes in the system's configuration. It is not run by \
                  hand.",
    parts: &[],
    exit: "0 when it has signed, else 255.",
    environment: &[],
    files: &[
        ("/etc/ssh/ssh_config", "Where EnableSSHKeysign must stand."),
        ("/etc/ssh/ssh_host_*_key", "Host keys, readable by root alone."),
        ("/usr/libexec/lhssh-keysign, /usr/lib/longhaul/lhssh-keysign", "Where lhssh looks for it."),
    ],
    see_also: &[("lhssh", 1), ("lhssh_config", 5), ("lhsshd_config", 5)],
};

pub(super) const LHSSH_SK_HELPER: Page = Page {
    name: "lhssh-sk-helper",
    description: "lhssh-sk-helper loads libfido2, or another library for security keys \
        (SecurityKeyProvider), and talks \
        to it for lhssh, lhssh-keygen, lhssh-add and \
                  lhssh-agent, so that no third-party library runs inside these programs. It is not \
                  run by hand.",
    parts: &[],
    exit: "0 when it has answered, else 1 or 255.",
    environment: &[("SSH_SK_HELPER", "Read by the programs that start it: the path of another helper.")],
    files: &[
        (
            "/usr/libexec/lhssh-sk-helper, /usr/lib/longhaul/lhssh-sk-helper",
            "Where programs look for it after their own directory.",
        ),
        ("/dev/hidraw*", "Security keys. udev gives the user at the seat access to them."),
    ],
    see_also: &[("lhssh-keygen", 1), ("lhssh-agent", 1), ("lhssh-add", 1), ("lhssh_config", 5)],
};

pub(super) const LHSSH_PKCS11_HELPER: Page = Page {
    name: "lhssh-pkcs11-helper",
    description: "lhssh-pkcs11-helper loads a library of PKCS#11 tokens, such as smart cards, and talks \
                  to it for lhssh, lhssh-keygen and lhssh-agent, so that no third-party library runs \
                  inside these programs. It stays logged in to the tokens until the program that \
                  has started it ends or has no more use for it. It is not run by hand.",
    parts: &[],
    exit: "0 when its input has ended, else 255.",
    environment: &[(
        "SSH_PKCS11_HELPER",
        "Read by the programs that start it: the path of this program, where it is not beside them, in \
         /usr/libexec or in /usr/lib/longhaul. OpenSSH's helper has another protocol.",
    )],
    files: &[(
        "/usr/libexec/lhssh-pkcs11-helper, /usr/lib/longhaul/lhssh-pkcs11-helper",
        "Where programs look for it after their own directory.",
    )],
    see_also: &[("lhssh-keygen", 1), ("lhssh-agent", 1), ("lhssh-add", 1), ("lhssh_config", 5)],
};
