//! Pages of the programs that log in, copy and list: `lhssh`, `lhscp`, `lhsftp`.

use super::page::{Page, Part};

/// The escapes of a session with a terminal.
pub(crate) const ESCAPES: &[(&str, &str)] = &[
    ("~.", "End the connection; of the master of a shared connection, with every session on it."),
    ("~^Z", "Suspend lhssh; fg continues."),
    ("~&", "Go to the background to wait until forwarded connections end."),
    ("~#", "List forwarded connections."),
    (
        "~C",
        "Open a command line, where EnableEscapeCommandline allows it: -L, -R and -D as on lhssh's own \
            command \
         line add forwards, -KL, -KR and -KD cancel them.",
    ),
    ("~R", "Exchange keys again."),
    ("~V, ~v", "Say less, say more (LogLevel)."),
    ("~B", "Send a BREAK."),
    ("~I", "Show the connection: addresses and algorithms."),
    ("~?", "List the escapes."),
    ("~~", "Send the escape character itself."),
];

/// The commands of a session of lhsftp.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("bye, exit, quit", "End lhsftp."),
    ("cd [path]", "Change the remote directory; without a path, to where the session began."),
    ("chgrp [-h] group path", "Set the group, by number. -h: of the link itself."),
    ("chmod [-h] mode path", "Set the permissions, in octal."),
    ("chown [-h] owner path", "Set the owner, by number."),
    ("copy old new, cp old new", "Copy a file at the server, where the server can."),
    ("df [-hi] [path]", "Show the space of a remote file system; -h in larger units, -i inodes."),
    (
        "get [-afpR] remote [local]",
        "Copy here; patterns will do. -a: go on where a shorter copy ends; -f: to the disk before it is \
            closed; -p: with times and modes; -R (or -r): directories with everything in them.",
    ),
    ("help, ?", "List the commands."),
    ("lcd [path]", "Change the local directory."),
    ("lls [options [path]]", "List a local directory with ls(1)."),
    ("lmkdir [-p] path", "Make a local directory; -p: with those above it, and no error where it exists."),
    ("ln [-s] old new", "Make a remote link: hard, or with -s symbolic."),
    ("lpwd", "Show the local directory."),
    (
        "ls [-1afhlnrSt] [path]",
        "List a remote directory. -l: with attributes; -n: numbers for names; -h: larger units; -a: names \
            with a leading dot; -S, -t: by size, by time; -r: backwards; -f: unsorted; -1: one name a line.",
    ),
    ("lumask umask", "Set the local umask."),
    ("mkdir [-p] path", "Make a remote directory; -p: as for lmkdir."),
    ("progress", "Switch the progress display on and off."),
    ("put [-afpR] local [remote]", "Copy to the server; flags as for get."),
    ("pwd", "Show the remote directory."),
    ("reget [-fpR] remote [local]", "get -a."),
    ("rename old new", "Rename a remote file; an existing new one is replaced where the server can."),
    ("reput [-fpR] local [remote]", "put -a."),
    ("rm path", "Remove remote files; patterns will do."),
    ("rmdir path", "Remove an empty remote directory."),
    ("symlink old new", "ln -s."),
    ("version", "Show the version of the SFTP protocol that the server speaks."),
    ("! [command]", "Run a local command, or a shell."),
];

const CLIENT_FILES: &[(&str, &str)] = &[
    ("~/.ssh/config", "The user's configuration."),
    ("/etc/ssh/ssh_config", "The system's configuration."),
    (
        "~/.ssh/known_hosts, /etc/ssh/ssh_known_hosts",
        "Host keys that the user has accepted, and those of the system.",
    ),
    (
        "~/.ssh/id_ed25519, ~/.ssh/id_ecdsa, ~/.ssh/id_rsa",
        "Some of the keys that are tried when none is named.",
    ),
];

pub(super) const LHSSH: Page = Page {
    name: "lhssh",
    description: "lhssh logs in to a host over the SSH protocol and runs a command there, or a login \
        shell where there is no \
                  command. Command line, configuration files, messages and exit statuses are those of \
                  ssh(1). The \
                  destination is a host, user@host, or ssh://[user@]host[:port].\n\nWhen the connection \
                  breaks, a session with a Longhaul server goes on over another one (Resume in \
                  lhssh_config(5)). Meanwhile a line on the terminal says for how long lhssh tries, and \
                  what ends it: ~. in a session with a terminal, ^C in others.",
    parts: &[Part {
        title: "ESCAPES",
        text: "In a session with a terminal the escape character (~, or what -e says) at the beginning of a line \
               makes the next character a command for lhssh itself. Where the second character is none of \
               these, both are sent. In a session that uses the master of a shared connection ~. ends that \
               session alone, and ~^Z, ~&, ~C, ~I, ~V and ~v are not available.",
        rows: ESCAPES,
    }],
    exit: "The exit status of the remote command, or 255 where lhssh itself failed.",
    environment: &[
        ("SSH_AUTH_SOCK", "Socket of the authentication agent."),
        ("DISPLAY", "The X11 display that -X and -Y forward."),
        ("SSH_ASKPASS", "Program that asks for passwords where there is no terminal."),
        ("SSH_ASKPASS_REQUIRE", "When to use it: never, prefer or force."),
        (
            "LH_WORKERS",
            "Threads that help with ciphers: a number, or auto (the default): from the third core on, \
                as long as they help.",
        ),
    ],
    files: CLIENT_FILES,
    see_also: &[
        ("lhssh_config", 5),
        ("lhscp", 1),
        ("lhsftp", 1),
        ("lhssh-keygen", 1),
        ("lhssh-agent", 1),
        ("lhsshd", 8),
    ],
};

pub(super) const LHSCP: Page = Page {
    name: "lhscp",
    description: "lhscp copies files and directories between hosts over the SSH protocol. A remote file \
        is [user@]host:path or \
                  scp://[user@]host[:port]/path. Many files and requests are in flight at once, so that \
                  a long round-trip time does not slow copies down; with \
                  a Longhaul server small files go in batches and copies are compared at both \
                  ends.\n\nA file grows under another name \
                  beside its final one (.NAME.TAG.lhpart) and gets its name when it is complete. When a \
                  copy is stopped or loses its \
                  connection, the same command continues.",
    parts: &[],
    exit: "0 when everything was copied (and verified, where that was to be done). 1 when something was \
        not copied, or the command line \
           makes no sense; each thing has a line on standard error. 130 when it was stopped by SIGINT \
           (^C), SIGTERM or SIGHUP: what is \
           unfinished is left so that the same command continues, unless --no-resume or --in-place was \
           given. 255 when \
           there was no connection, or it was lost and could not be made again (--retries, --retry-for). What could \
           not be kept of a file besides \
           its data (--xattrs, -H, ...) is a warning and does not count.",
    environment: &[
        ("XDG_STATE_HOME", "Directory of the journals, instead of ~/.local/state."),
        (
            "SLURM_ARRAY_TASK_ID, SGE_TASK_ID, LSB_JOBINDEX",
            "With the other variables of these schedulers: the share of --shard auto.",
        ),
        (
            "JOB_COMPLETION_INDEX, JOB_COMPLETIONS",
            "Index of a pod of an indexed Job of Kubernetes, which counts from 0, and, if its author sets it, how many there are: \
             the share of --shard auto/n and --shard auto.",
        ),
        ("SSH_AUTH_SOCK, SSH_ASKPASS, SSH_ASKPASS_REQUIRE, LH_WORKERS", "As in lhssh(1)."),
    ],
    files: &[
        ("~/.local/state/longhaul/*.journal", "Journals of copies that are not complete."),
        ("~/.ssh/config, /etc/ssh/ssh_config", "The configuration; see lhssh_config(5)."),
    ],
    see_also: &[("lhsftp", 1), ("lhssh", 1), ("lhssh_config", 5), ("longhaul", 1), ("lhsftp-server", 8)],
};

pub(super) const LHSFTP: Page = Page {
    name: "lhsftp",
    description: "lhsftp copies, lists, renames and removes files of another host, at a prompt or by a \
        batch of commands. Command line and \
                  commands are those of sftp(1). At a terminal, names are completed at both ends and \
                  lines have a history. A \
                  destination with a path, host:path, is copied here at once where it is a file, and is \
                  the remote directory to begin in \
                  where it is one.\n\nWhen the connection \
                  breaks, a session with a Longhaul server goes on over another one (Resume in \
                  lhssh_config(5)). Meanwhile a line on the terminal below a command that waits says for \
                  how long lhsftp tries, and ^C ends lhsftp. A batch (-b) says nothing without -v.",
    parts: &[Part {
        title: "COMMANDS",
        text: "Words with blanks are quoted or written with a backslash; patterns are those of the \
            shell. Behind # is a comment. In a \
               batch, a command with - before it may fail without ending it, and one with @ before it \
               is not shown.",
        rows: COMMANDS,
    }],
    exit: "0 when all commands were carried out, else 1; 255 when there was no connection. Commands \
        typed at a prompt do not count. 130 when it was stopped by ^C while the connection was away, 129 \
        and 143 by SIGHUP and SIGTERM.",
    environment: &[("SSH_AUTH_SOCK, SSH_ASKPASS, SSH_ASKPASS_REQUIRE", "As in lhssh(1).")],
    files: CLIENT_FILES,
    see_also: &[("lhscp", 1), ("lhssh", 1), ("lhssh_config", 5), ("lhsftp-server", 8)],
};
