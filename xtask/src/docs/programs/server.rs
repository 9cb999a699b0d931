//! Pages of the servers: `lhsshd`, and `lhsftp-server` for other servers.

use super::page::{Page, Part};

/// Options that may precede a key in `authorized_keys`.
pub(crate) const KEY_OPTIONS: &[(&str, &str)] = &[
    (
        "restrict",
        "Forbid everything that the following options can forbid, and what will be added later. Options \
            behind it allow single things again.",
    ),
    (
        "command=\"command\"",
        "Run this instead of what the client asks for, which is in SSH_ORIGINAL_COMMAND. \
            command=\"internal-sftp\" allows SFTP alone.",
    ),
    (
        "from=\"patterns\"",
        "Only from these hosts: patterns of names and addresses, and networks such as 192.0.2.0/24, \
            separated by commas; ! excludes.",
    ),
    ("expiry-time=\"YYYYMMDD[HHMM[SS]][Z]\"", "Not after this time; with Z in UTC."),
    ("pty, no-pty", "Whether terminals are allowed."),
    ("port-forwarding, no-port-forwarding", "Whether forwards of ports and sockets are allowed."),
    (
        "permitopen=\"host:port\"",
        "Local forwards may connect to this only; may be repeated. * stands for any port.",
    ),
    ("permitlisten=\"[host:]port\"", "Remote forwards may listen here only; may be repeated."),
    ("agent-forwarding, no-agent-forwarding", "Whether the agent may be forwarded."),
    ("x11-forwarding, no-x11-forwarding", "Whether X11 may be forwarded."),
    ("user-rc, no-user-rc", "Whether ~/.ssh/rc is run."),
    ("environment=\"NAME=value\"", "Set a variable, where PermitUserEnvironment allows it; may be repeated."),
    ("tunnel=\"n\"", "The number of the network device of a tunnel."),
    ("cert-authority", "The key signs certificates that log in."),
    ("principals=\"names\"", "With cert-authority: one of these names must be in the certificate."),
    ("no-touch-required", "A security key need not have been touched."),
    ("verify-required", "A security key must have asked for its PIN."),
];

/// Variables in the environment of sessions, lowest precedence first.
const SESSION_VARIABLES: &[(&str, &str)] = &[
    ("KRB5CCNAME", "Kerberos credentials that the client has delegated."),
    ("those of SendEnv and SetEnv of the client", "As far as AcceptEnv permits them."),
    ("USER, LOGNAME, HOME, SHELL, PATH, MAIL", "From the user's account. MAIL only without PAM."),
    ("TZ", "As the server was started with."),
    ("TERM", "The type of the terminal."),
    (
        "those of environment= and ~/.ssh/environment",
        "Where PermitUserEnvironment allows them: NAME=value, one a line in the file.",
    ),
    ("those of PAM's modules and SetEnv of the server", "SetEnv takes precedence."),
    ("SSH_CLIENT", "Address and port of the client, and port of the server."),
    ("SSH_CONNECTION", "Address and port of the client, address and port of the server."),
    ("DISPLAY", "The forwarded X11 display."),
    ("SSH_AUTH_SOCK", "Socket of the forwarded agent."),
    ("SSH_TTY", "Device of the terminal."),
    ("SSH_ORIGINAL_COMMAND", "The client's command, where command= or ForceCommand runs another one."),
    ("SSH_USER_AUTH", "File with how the user has logged in (ExposeAuthInfo)."),
];

pub(super) const LHSFTP_SERVER: Page = Page {
    name: "lhsftp-server",
    description: "lhsftp-server serves the SFTP protocol on its standard input and output, with the \
        rights of the user who runs it. lhsshd has \
                  the same server inside, internal-sftp, which takes the same flags in Subsystem and \
                  ForceCommand; the program is for \
                  other SSH servers, and for lhscp -D and lhsftp -D.",
    parts: &[],
    exit: "0 at the end of the input, else 1.",
    environment: &[],
    files: &[("/dev/log", "Where log lines go, unless -e sends them to standard error.")],
    see_also: &[("lhsshd", 8), ("lhsshd_config", 5), ("lhsftp", 1)],
};

pub(super) const LHSSHD: Page = Page {
    name: "lhsshd",
    description: "lhsshd lets clients of the SSH protocol in: it listens, checks who they are, and runs \
        what they ask for with \
                  their rights. Each connection has processes of its own, and the one that reads the \
                  network before the login has no \
                  rights at all. Configuration and log lines are those of sshd(8). SIGHUP reads the \
                  configuration again; SIGTERM ends \
                  the listener and leaves the sessions.",
    parts: &[
        Part {
            title: "ENVIRONMENT OF SESSIONS",
            text: "Programs that users run get these variables; what is set further down in this list counts \
                more.",
            rows: SESSION_VARIABLES,
        },
        Part {
            title: "AUTHORIZED KEYS",
            text: "Each line of ~/.ssh/authorized_keys (AuthorizedKeysFile) lets one key log in: options \
                separated by commas and without blanks outside quotes, then the type of the key, the key in \
                base64, and a comment. Empty lines and lines that begin with # are passed over. A key whose \
                options have a mistake is not used. Directory and file must belong to the user, and no other \
                user may be able to write to them (StrictModes), but for a group that has no other \
                member.\n\nThe options:",
            rows: KEY_OPTIONS,
        },
    ],
    exit: "0 after a normal end (-t: the configuration can be used); 255 when the text of the configuration is wrong or \
           there is no address to listen on; 1 when its file cannot be read, there is no host key, or a flag or an \
           option of -o is wrong.",
    environment: &[("LH_WORKERS", "As in lhssh(1).")],
    files: &[
        ("/etc/ssh/sshd_config", "The configuration."),
        ("/etc/ssh/ssh_host_*_key", "Host keys."),
        ("/etc/ssh/moduli", "Primes for the group exchange."),
        ("/run/lhsshd.pid", "The process id of the listener (PidFile)."),
        ("/run/sshd", "Empty root directory of the process that reads the network before the login."),
        ("~/.ssh/authorized_keys", "Keys that may log in as the user."),
        (
            "~/.ssh/rc, /etc/ssh/sshrc",
            "Run by /bin/sh before the user's command or shell: the first \
            that is there (PermitUserRC).",
        ),
        ("/etc/nologin", "While it exists, only root logs in, and others see its text."),
    ],
    see_also: &[("lhsshd_config", 5), ("lhsftp-server", 8), ("lhssh", 1), ("lhssh-keygen", 1)],
};
