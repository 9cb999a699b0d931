//! What the manual pages of the programs say besides their flags, which are in the tables of `lh_cli::flags`.

/// What a program's page says besides its flags.
pub(super) struct Page {
    pub name: &'static str,
    pub description: &'static str,
    /// Sections between the options and the exit status.
    pub parts: &'static [Part],
    pub exit: &'static str,
    pub environment: &'static [(&'static str, &'static str)],
    pub files: &'static [(&'static str, &'static str)],
    /// What to do, and the commands that do it.
    pub examples: &'static [(&'static str, &'static str)],
    pub see_also: &'static [(&'static str, u8)],
}

/// A section with a list.
pub(super) struct Part {
    pub title: &'static str,
    pub text: &'static str,
    pub rows: &'static [(&'static str, &'static str)],
}

/// The escapes of a session with a terminal.
pub(super) const ESCAPES: &[(&str, &str)] = &[
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
pub(super) const COMMANDS: &[(&str, &str)] = &[
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

/// What may stand before a key in `authorized_keys`.
pub(super) const KEY_OPTIONS: &[(&str, &str)] = &[
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

/// Pages of programs with a flag table.
pub(super) const PAGES: &[Page] = &[
    Page {
        name: "lhssh",
        description: "lhssh logs in to a host over the SSH protocol and runs a command there, or a login \
            shell where there is no \
                      command. Command line, configuration files, messages and exit statuses are those of \
                      ssh(1). The \
                      destination is a host, user@host, or ssh://[user@]host[:port].",
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
            ("SSH_ASKPASS", "Program that asks for passwords where there is no terminal."),
            ("SSH_ASKPASS_REQUIRE", "When to use it: never, prefer or force."),
            (
                "LH_WORKERS",
                "Threads that help with ciphers: a number, or auto (the default): from the third core on, \
                    as long as they help.",
            ),
        ],
        files: CLIENT_FILES,
        examples: &[
            ("Run a command:", "lhssh ada@data1 uname -a"),
            ("Reach a host behind a gateway:", "lhssh -J ada@gateway inside"),
            (
                "Forward a local port to a web server there, and be a SOCKS proxy, without a session:",
                "lhssh -N -L 8080:intranet:80 -D 1080 data1",
            ),
            ("Stream a tree:", "tar cf - results | lhssh data1 'tar xf - -C /data'"),
            (
                "Share one connection among many commands:",
                "lhssh -M -S ~/.ssh/s -f -N data1\nlhssh -S ~/.ssh/s data1 hostname\nlhssh -S ~/.ssh/s -O \
                    exit data1",
            ),
            ("Show what the configuration means for a host:", "lhssh -G data1"),
        ],
        see_also: &[
            ("lhssh_config", 5),
            ("lhscp", 1),
            ("lhsftp", 1),
            ("lhssh-keygen", 1),
            ("lhssh-agent", 1),
            ("lhsshd", 8),
        ],
    },
    Page {
        name: "lhscp",
        description: "lhscp copies files and directories between hosts over the SSH protocol. A remote file \
            is [user@]host:path or \
                      scp://[user@]host[:port]/path. Many files and requests are in flight at once, so that \
                      distance costs little; with \
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
            ("LH_WORKERS", "As in lhssh(1)."),
        ],
        files: &[
            ("~/.local/state/longhaul/*.journal", "Journals of copies that are not complete."),
            ("~/.ssh/config, /etc/ssh/ssh_config", "The configuration; see lhssh_config(5)."),
        ],
        examples: &[
            (
                "Copy a tree up, and files by a pattern down:",
                "lhscp -r results data1:/data/\nlhscp 'data1:/data/results/*.csv' .",
            ),
            ("Keep everything that can be kept:", "lhscp -r --preserve tree data1:backup/"),
            ("Read back all that was written, and compare:", "lhscp --verify big.h5 data1:/data/"),
            (
                "Copy part of a tree; see what would be copied first:",
                "lhscp -r --dry-run --exclude '*.tmp' --exclude cache/ results data1:/data/\nlhscp -r \
                    --manifest list.txt results data1:/data/",
            ),
            (
                "Keep a copy up to date, every night:",
                "lhscp --sync --delete --max-delete 1000 results data1:/data/",
            ),
            ("Send evenly, at 800 Mbit/s:", "lhscp --pace 800M big.h5 data1:/data/"),
            (
                "Spread a tree over four processes:",
                "seq 4 | xargs -P 4 -I{} lhscp -rq --shard {}/4 results data1:/data/",
            ),
            (
                "Leave a list of all copied files with their sums; copy what failed once more:",
                "lhscp -r --manifest-out results.manifest --failed-out failed results data1:/data/\nlhscp -r \
                    --manifest failed results data1:/data/",
            ),
            ("Copy at night, whatever the network does:", "lhscp -rq --retry-for 12h results data1:/data/"),
            (
                "Be read by a program:",
                "lhscp -r --json results data1:/data/ | jq 'select(.event == \"end\")'",
            ),
            ("Copy between two servers through this host:", "lhscp -3 one:/data/big.h5 two:/data/"),
        ],
        see_also: &[("lhsftp", 1), ("lhssh", 1), ("lhssh_config", 5), ("longhaul", 1), ("lhsftp-server", 8)],
    },
    Page {
        name: "lhsftp",
        description: "lhsftp copies, lists, renames and removes files of another host, at a prompt or by a \
            batch of commands. Command line and \
                      commands are those of sftp(1). At a terminal, names are completed at both ends and \
                      lines have a history. A \
                      destination with a path, host:path, is copied here at once where it is a file, and is \
                      the remote directory to begin in \
                      where it is one.",
        parts: &[Part {
            title: "COMMANDS",
            text: "Words with blanks are quoted or written with a backslash; patterns are those of the \
                shell. Behind # is a comment. In a \
                   batch, a command with - before it may fail without ending it, and one with @ before it \
                   is not shown.",
            rows: COMMANDS,
        }],
        exit: "0 when all commands were carried out, else 1; 255 when there was no connection. Commands \
            typed at a prompt do not count.",
        environment: &[("SSH_AUTH_SOCK, SSH_ASKPASS, SSH_ASKPASS_REQUIRE", "As in lhssh(1).")],
        files: CLIENT_FILES,
        examples: &[
            ("Look around:", "lhsftp data1\nsftp> cd /data\nsftp> ls -lt\nsftp> get -R results"),
            (
                "A batch, as from cron:",
                "printf 'cd /drop\\nput report.csv\\n-rm report.old\\n' | lhsftp -b - data1",
            ),
            ("Continue an upload:", "echo 'reput big.h5' | lhsftp -b - data1:/data"),
        ],
        see_also: &[("lhscp", 1), ("lhssh", 1), ("lhssh_config", 5), ("lhsftp-server", 8)],
    },
    Page {
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
        examples: &[
            ("In another server's sshd_config:", "Subsystem sftp /usr/local/sbin/lhsftp-server -l INFO"),
            (
                "Read only, beginning in /pub; in lhsshd's configuration:",
                "Subsystem sftp internal-sftp -R -d /pub",
            ),
            ("An upload-only drop box:", "ForceCommand internal-sftp -d /drop -P read,readdir,remove"),
            ("The names of requests for -P and -p:", "lhsftp-server -Q requests"),
        ],
        see_also: &[("lhsshd", 8), ("lhsshd_config", 5), ("lhsftp", 1)],
    },
    Page {
        name: "lhsshd",
        description: "lhsshd lets clients of the SSH protocol in: it listens, checks who they are, and runs \
            what they ask for with \
                      their rights. Each connection has processes of its own, and the one that reads the \
                      network before the login has no \
                      rights at all. Configuration and log lines are those of sshd(8). SIGHUP reads the \
                      configuration again; SIGTERM ends \
                      the listener and leaves the sessions.",
        parts: &[Part {
            title: "AUTHORIZED KEYS",
            text: "Each line of ~/.ssh/authorized_keys (AuthorizedKeysFile) lets one key log in: options \
                separated by commas and \
                   without blanks outside quotes, then the type of the key, the key in base64, and a \
                   comment. Empty lines and lines that \
                   begin with # are passed over. A key whose options have a mistake is not used. Directory \
                   and file must belong to \
                   the user and be writable by nobody else (StrictModes).\n\nThe options:",
            rows: KEY_OPTIONS,
        }],
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
        examples: &[
            (
                "Check a configuration, and print what it means for one user:",
                "lhsshd -t -f /etc/ssh/lhsshd_config\nlhsshd -T -f /etc/ssh/lhsshd_config -C \
                    user=ada,addr=192.0.2.7",
            ),
            (
                "A server for oneself, in the foreground:",
                "lhssh-keygen -q -t ed25519 -N '' -f ~/host_key\nlhsshd -D -e -f none -p 2222 -h ~/host_key \
                    -o ListenAddress=127.0.0.1 \\\n    -o 'Subsystem=sftp internal-sftp' -o PidFile=none",
            ),
            ("Show one connection in every detail:", "lhsshd -ddd -p 2222"),
            (
                "A key that may run backups from one network only, in authorized_keys:",
                "restrict,command=\"rrsync -ro /data\",from=\"192.0.2.0/24\" ssh-ed25519 AAAA... backup",
            ),
        ],
        see_also: &[("lhsshd_config", 5), ("lhsftp-server", 8), ("lhssh", 1), ("lhssh-keygen", 1)],
    },
    Page {
        name: "lhssh-keygen",
        description: "lhssh-keygen makes, shows, converts and changes keys, looks after known_hosts files, \
            signs certificates and files, and \
                      makes lists of revoked keys. Key files are those of ssh-keygen(1), both ways.",
        parts: &[],
        exit: "0 when it did what was asked, 255 or 1 when not; with -Q, 1 when one of the keys is revoked.",
        environment: &[
            ("SSH_SK_PROVIDER", "Library for security keys, where -w names none."),
            ("SSH_ASKPASS, SSH_ASKPASS_REQUIRE", "As in lhssh(1)."),
        ],
        files: &[
            (
                "~/.ssh/id_ed25519, ~/.ssh/id_ed25519.pub",
                "The key that is made when nothing else is said, and its public half.",
            ),
            ("~/.ssh/known_hosts", "Where -F, -H and -R look when no file is named."),
        ],
        examples: &[
            (
                "Make a key, and show its fingerprint:",
                "lhssh-keygen -t ed25519 -f ~/.ssh/id_lab\nlhssh-keygen -l -f ~/.ssh/id_lab.pub",
            ),
            ("Forget a host whose key has changed:", "lhssh-keygen -R data1"),
            (
                "Sign a certificate for a user, good for a day:",
                "lhssh-keygen -s ca -I ada@lab -n ada -V +1d id_lab.pub",
            ),
            (
                "Sign a certificate for a host:",
                "lhssh-keygen -s host_ca -h -I data1 -n data1,data1.example.org ssh_host_ed25519_key.pub",
            ),
            ("Revoke a certificate:", "lhssh-keygen -k -f revoked -u id_lab-cert.pub"),
            (
                "Sign a file, and verify it:",
                "lhssh-keygen -Y sign -f id_lab -n file data.csv\nlhssh-keygen -Y verify -f allowed_signers \
                    -I ada@lab -n file -s data.csv.sig < data.csv",
            ),
        ],
        see_also: &[
            ("lhssh", 1),
            ("lhssh-agent", 1),
            ("lhssh-add", 1),
            ("lhssh-keyscan", 1),
            ("lhsshd_config", 5),
        ],
    },
    Page {
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
        examples: &[
            (
                "For a shell and everything started from it:",
                "eval \"$(lhssh-agent)\"\nlhssh-add ~/.ssh/id_ed25519",
            ),
            ("For one command:", "lhssh-agent sh -c 'lhssh-add && lhscp -r results data1:/data/'"),
            (
                "On a socket of a fixed name, where keys are forgotten after eight hours:",
                "lhssh-agent -a ~/.ssh/agent.sock -t 8h",
            ),
        ],
        see_also: &[
            ("lhssh-add", 1),
            ("lhssh", 1),
            ("lhssh-keygen", 1),
            ("lhssh-sk-helper", 8),
            ("lhssh-pkcs11-helper", 8),
        ],
    },
    Page {
        name: "lhssh-add",
        description: "lhssh-add puts private keys into the agent that SSH_AUTH_SOCK names, lists them and \
            takes them out. Without a file it takes the \
                      keys of ~/.ssh that lhssh would try. A certificate beside a key is added with it.",
        parts: &[],
        exit: "0 when it did what was asked, 1 when not, 2 when there is no agent.",
        environment: &[
            ("SSH_AUTH_SOCK", "Socket of the agent."),
            ("SSH_ASKPASS, SSH_ASKPASS_REQUIRE", "As in lhssh(1)."),
            ("SSH_SK_PROVIDER", "Library for security keys, where -S names none."),
        ],
        files: &[
            (
                "~/.ssh/id_ed25519, ~/.ssh/id_ecdsa, ~/.ssh/id_rsa, ...",
                "Keys that are added when none is named.",
            ),
            ("~/.ssh/known_hosts", "Host keys for -h."),
        ],
        examples: &[
            ("Add a key for eight hours, confirmed at each use:", "lhssh-add -c -t 8h ~/.ssh/id_lab"),
            ("List, and remove all:", "lhssh-add -l\nlhssh-add -D"),
            (
                "A key that the forwarded agent uses for one host only, through a gateway:",
                "lhssh-add -h gateway -h 'gateway>ada@data1' ~/.ssh/id_lab",
            ),
        ],
        see_also: &[("lhssh-agent", 1), ("lhssh", 1), ("lhssh-keygen", 1)],
    },
    Page {
        name: "lhssh-keyscan",
        description: "lhssh-keyscan asks hosts for their public keys, many at a time and without logging \
            in, and prints lines for known_hosts. Whoever \
                      is on the path can answer with a key of their own: compare the fingerprints in \
                      another way before trusting them.",
        parts: &[],
        exit: "0 when a host answered; 1 when none did, or a port or a time is wrong; 255 when a type of key, an address \
            range or an option of -O is wrong, or the file of -f cannot be read.",
        environment: &[],
        files: &[("/etc/ssh/ssh_known_hosts", "Where an administrator puts what was found and checked.")],
        examples: &[
            (
                "Collect keys of some hosts, and look at the fingerprints:",
                "lhssh-keyscan -t ed25519 data1 data2 > keys\nlhssh-keygen -l -f keys",
            ),
            ("Of a list of hosts, with hashed names:", "lhssh-keyscan -H -f hosts.txt"),
            ("As DNS records:", "lhssh-keyscan -D data1"),
        ],
        see_also: &[("lhssh", 1), ("lhssh-keygen", 1), ("lhsshd", 8)],
    },
    Page {
        name: "longhaul",
        description: "longhaul doctor measures the path to a host for about half a minute and prints what \
            limits it, first cause first: fixed windows, socket buffers, loss, congestion control, the \
            cipher, disks, long queues, throttled marks, swallowed packets, slow logins, slow start-up files. \
            Each has its evidence, the expected gain and the setting to change. The server may be any that \
            runs commands for the user.\n\nlonghaul bench prints the tables of a path: \
            throughput by cipher and MAC, session set-up by algorithm, latency beside bulk, and other clients \
            beside ours, in rounds whose medians and spreads it shows; figures from which nothing follows are \
            marked. With --hosts it measures the paths of a list and prints them as a matrix.\n\nlonghaul \
            compare sets two results of bench --json side by side.\n\nlonghaul report makes one HTML page out of \
            results of bench --json, side by side, or out of files that Metrics of lhssh_config(5) has \
            written: throughput, round trip, \
                      congestion window, retransmissions and the windows of SSH over time, for as many runs \
                      and files as are named, \
                      and what was limiting, where there are enough samples to say so. The page refers to \
                      nothing outside itself. A file that \
                      is none of these, or that was cut off, is an error that names the file and the line.\n\nlonghaul \
                      verify checks a tree against the manifest that lhscp --manifest-out has left: on this \
                      host, or on an SFTP server, which makes the sums itself where it is Longhaul's. It \
                      reports what is missing, of another size, of other content or of another kind. Without \
                      a destination it checks where lhscp put the copy. With --in it takes the manifests of \
                      all shares of a copy, and names a share whose manifest is missing or not complete.\n\nlonghaul transfers lists the copies \
                      of this user that are not complete, by their journals. With resume it runs the command \
                      again that began a copy; with clean it removes its unfinished files, here or on its \
                      server, and its journal. An ID may be cut to a beginning that no other has.\n\nlonghaul sessions \
                      lists the sessions of lhsshd on this host: who is logged in, from where and since when, what runs, and \
                      which sessions wait for a client whose connection was lost (ResumeGrace of lhsshd_config(5)). Users \
                      see their own sessions, root all. With --end it ends one of them: its client is told, and its \
                      programs are hung up.",
        parts: &[],
        exit: "longhaul bench: 0 when it measured, 1 when a path of --hosts was not measured, 130 when a signal \
            ended it, 255 without a connection, 2 for mistakes on the command line.\n\nlonghaul compare: 0, or \
            1 when a figure is clearly below --fail-below, 3 when none is and the rounds of some are too noisy, \
            too few or too near the limit to tell, 2 when nothing can be compared.\n\nlonghaul \
            doctor: 0 when a page was printed, whatever it says, 255 without a connection, 2 for \
            mistakes on the command line.\n\nlonghaul report: 0 when the page was written, 1 when a file cannot be read or written, 2 for \
            mistakes on the command line.\n\nlonghaul verify: 0 when everything is as in the manifest, 1 when \
            something is missing or different, 2 when that cannot be said: no connection, no such manifest, \
            a file that cannot be read or has no sum, or a mistake on the command line.\n\nlonghaul transfers: 0, \
            or 1 when there is no such transfer, a process works on it, or something could not be removed; 2 \
            for mistakes on the command line. With resume, the exit status of lhscp.\n\nlonghaul sessions: 0, or 1 \
            when there is no such session, it does not end, a session does not answer, or /proc/net/unix cannot be \
            read; 2 for mistakes on the command line.",
        environment: &[("XDG_STATE_HOME", "Directory of the journals, instead of ~/.local/state.")],
        files: &[
            (
                "./ssh_stack_metrics.local, ./ssh_stack_metrics.remote",
                "What Metrics writes when MetricsPath says nothing else.",
            ),
            ("~/.local/state/longhaul/*.journal", "Journals of copies that are not complete."),
        ],
        examples: &[
            ("Find out what limits a path:", "longhaul doctor data1"),
            (
                "Measure a path beside OpenSSH's client, and fail when it has become slower:",
                "longhaul bench --json --peer stock=/usr/bin/ssh data1 >new.json\nlonghaul compare old.json \
                    new.json --fail-below 0.9",
            ),
            (
                "Draw a copy:",
                "lhscp -o Metrics=yes big.h5 data1:/data/\nlonghaul report ssh_stack_metrics.local \
                    ssh_stack_metrics.remote",
            ),
            ("As a table for another program:", "longhaul report --csv -o - ssh_stack_metrics.local | head"),
            (
                "Prove that a copy is right, now or later:",
                "lhscp -r --manifest-out results.manifest results data1:/data/\nlonghaul verify \
                    results.manifest",
            ),
            (
                "Resume what was cut off, and remove what nothing has worked on for a month:",
                "longhaul transfers\nlonghaul transfers resume 3f2a\nlonghaul transfers clean --older-than 30d",
            ),
            (
                "See which sessions wait for their clients, and end one:",
                "longhaul sessions\nlonghaul sessions --end 388a",
            ),
            (
                "Check another place, and report files that nothing has copied there:",
                "longhaul verify --extra results.manifest backup1:/srv/data",
            ),
        ],
        see_also: &[("lhscp", 1), ("lhssh", 1), ("lhssh_config", 5)],
    },
];

/// Programs that others start: their page, and what they are in one line.
pub(super) const HELPERS: &[(Page, &str)] = &[
    (
        Page {
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
            examples: &[(
                "Install it, as root:",
                "install -m 4711 target/release/lhssh-keysign /usr/libexec/lhssh-keysign",
            )],
            see_also: &[("lhssh", 1), ("lhssh_config", 5), ("lhsshd_config", 5)],
        },
        "sign for host-based authentication",
    ),
    (
        Page {
            name: "lhssh-sk-helper",
            description: "lhssh-sk-helper loads a library for security keys (SecurityKeyProvider) and talks \
                to it for lhssh, lhssh-keygen, lhssh-add and \
                          lhssh-agent, so that no third-party library runs inside these programs. It is not \
                          run by hand.",
            parts: &[],
            exit: "0 when it has answered, else 1 or 255.",
            environment: &[(
                "SSH_SK_HELPER",
                "Read by the programs that start it: the path of another helper.",
            )],
            files: &[(
                "/usr/libexec/lhssh-sk-helper, /usr/lib/longhaul/lhssh-sk-helper",
                "Where programs look for it after their own directory.",
            )],
            examples: &[(
                "Make a key in hardware:",
                "lhssh-keygen -t ed25519-sk -w /usr/local/lib/libsk-libfido2.so",
            )],
            see_also: &[("lhssh-keygen", 1), ("lhssh-agent", 1), ("lhssh-add", 1), ("lhssh_config", 5)],
        },
        "talk to security keys for other programs",
    ),
    (
        Page {
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
            examples: &[(
                "List the keys of a smart card:",
                "lhssh-keygen -D /usr/lib/x86_64-linux-gnu/opensc-pkcs11.so",
            )],
            see_also: &[("lhssh-keygen", 1), ("lhssh-agent", 1), ("lhssh-add", 1), ("lhssh_config", 5)],
        },
        "talk to PKCS#11 tokens for other programs",
    ),
];
