//! Manual pages of the programs, in man(7).

use std::fmt::Write as _;

use lh_cli::flags::{Program, Support};

/// What a program's page says besides its flags.
struct Page {
    name: &'static str,
    description: &'static str,
    exit: &'static str,
    environment: &'static [(&'static str, &'static str)],
    files: &'static [(&'static str, &'static str)],
    see_also: &'static [(&'static str, u8)],
}

/// Pages of programs that are not here get what their flag table says, and no more.
const PAGES: &[Page] = &[
    Page {
        name: "lhssh",
        description: "lhssh logs in to a host over the SSH protocol and runs a command there, or a login shell where there is no \
                      command. Command line, configuration files, messages and exit statuses are those of ssh(1). The \
                      destination is a host, user@host, or ssh://[user@]host[:port].\n\nIn a session with a terminal, lines that \
                      begin with the escape character (~) are not sent: ~? lists what they do, ~. ends the connection.",
        exit: "The exit status of the remote command, or 255 where lhssh itself failed.",
        environment: &[
            ("SSH_AUTH_SOCK", "Socket of the authentication agent."),
            ("SSH_ASKPASS", "Program that asks for passwords where there is no terminal."),
            ("SSH_ASKPASS_REQUIRE", "When to use it: never, prefer or force."),
            ("LH_WORKERS", "Threads that help with ciphers: auto or a number; none by default."),
        ],
        files: &[
            ("~/.ssh/config", "The user's configuration."),
            ("/etc/ssh/ssh_config", "The system's configuration."),
            ("~/.ssh/known_hosts", "Host keys the user has accepted."),
            ("/etc/ssh/ssh_known_hosts", "Host keys of the system."),
            ("~/.ssh/id_ed25519, ~/.ssh/id_ecdsa, ~/.ssh/id_rsa", "Keys that are tried when none is named."),
        ],
        see_also: &[("lhssh_config", 5), ("lhscp", 1), ("lhssh-keygen", 1), ("lhsshd", 8)],
    },
    Page {
        name: "lhscp",
        description: "lhscp copies files and folders between hosts over the SSH protocol. A remote file is [user@]host:path or \
                      scp://[user@]host[:port]/path. Many files are on their way at once, so that distance costs little.",
        exit: "0 when everything was copied (and verified, where that was to be done). 1 when something was not copied, or the command line \
               makes no sense; each thing has a line on standard error. 130 when it was stopped by SIGINT (^C), SIGTERM or SIGHUP: what is \
               unfinished is left so that the same command goes on with it, unless --no-resume or --in-place was given. 255 when \
               there was no connection, or it was lost and could not be made again (--retries). What could not be kept of a file besides \
               its data (--xattrs, -H …) is a warning and does not count.",
        environment: &[],
        files: &[("~/.ssh/config", "The user's configuration; see lhssh_config(5).")],
        see_also: &[("lhssh", 1), ("lhssh_config", 5)],
    },
    Page {
        name: "lhsshd",
        description: "lhsshd lets clients of the SSH protocol in: it listens, checks who they are, and runs what they ask for with \
                      their rights. Each connection has processes of its own, and what reads a stranger's bytes has no \
                      rights at all. Configuration and log lines are those of sshd(8). SIGHUP reads the configuration again.",
        exit: "0 after a normal end, 1 when the configuration cannot be used, 255 for mistakes on the command line.",
        environment: &[],
        files: &[
            ("/etc/ssh/sshd_config", "The configuration."),
            ("/etc/ssh/ssh_host_*_key", "Host keys."),
            ("~/.ssh/authorized_keys", "Keys that may log in as the user."),
            ("/run/sshd", "Root folder of the process that talks to strangers."),
        ],
        see_also: &[("lhsshd_config", 5), ("lhssh", 1)],
    },
    Page {
        name: "lhssh-keygen",
        description: "lhssh-keygen makes, shows, converts and changes keys, and looks after known_hosts files. Key files are those \
                      of ssh-keygen(1), both ways.",
        exit: "0 when it did what was asked, 255 or 1 when not.",
        environment: &[],
        files: &[
            ("~/.ssh/id_ed25519", "The key that is made when nothing else is said."),
            ("~/.ssh/known_hosts", "Where -F, -H and -R look when no file is named."),
        ],
        see_also: &[("lhssh", 1)],
    },
    Page {
        name: "longhaul",
        description: "longhaul report makes one HTML page out of files that Metrics of lhssh_config(5) has written: throughput, round trip, \
                      congestion window, retransmissions and the windows of SSH over time, for as many runs and files as are named, \
                      and a guess at what was limiting. The page refers to nothing outside itself. A file that is none of these, or that \
                      was cut off, is an error that names the file and the line.",
        exit: "0 when the page was written, 1 when a file cannot be read or written, 2 for mistakes on the command line.",
        environment: &[],
        files: &[(
            "./ssh_stack_metrics.local, ./ssh_stack_metrics.remote",
            "What Metrics writes when MetricsPath says nothing else.",
        )],
        see_also: &[("lhssh", 1), ("lhssh_config", 5)],
    },
];

/// The section of a program's page: what administrators run is in 8.
pub(super) fn section(name: &str) -> u8 {
    if name.ends_with("sshd") || name.ends_with("-server") { 8 } else { 1 }
}

/// The page of one program.
pub(super) fn program(program: &Program) -> String {
    let page = PAGES.iter().find(|page| page.name == program.name);
    let mut out = head(program.name, section(program.name), program.about);
    let _ = write!(out, ".SH SYNOPSIS\n.nh\n.nf\n{}.fi\n.hy\n", preformatted(&program.usage()));
    let _ =
        writeln!(out, ".SH DESCRIPTION\n{}", paragraphs(page.map_or(program.about, |page| page.description)));
    out.push_str(".SH OPTIONS\n");
    for flag in program.shown() {
        let value = flag.value.map_or(String::new(), |value| format!(" \" {}\"", text(value)));
        let _ = writeln!(out, ".TP\n.BI {}{value}", text(&flag.spelled()));
        let _ = writeln!(out, "{}", text(flag.help));
        match flag.support {
            Support::Works => {}
            Support::Accepted(why) => {
                let _ = writeln!(out, "Accepted without effect: {}.", text(why));
            }
            Support::NotYet => out.push_str("Not supported yet; refused.\n"),
            Support::Never(why) => {
                let _ = writeln!(out, "Refused: {}.", text(why));
            }
        }
    }
    out.push_str(".TP\n.B \\-\\-help\nShow the flags.\n.TP\n.B \\-\\-version\nShow the version.\n");
    if let Some(page) = page {
        let _ = writeln!(out, ".SH \"EXIT STATUS\"\n{}", paragraphs(page.exit));
        list("ENVIRONMENT", page.environment, &mut out);
        list("FILES", page.files, &mut out);
        see_also(page.see_also, &mut out);
    }
    out
}

/// Title and NAME.
pub(super) fn head(name: &str, section: u8, about: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".\\\" Generated from the program's own tables by `cargo xtask docs`.\n\
         .TH {} {section} \"{}\" \"Longhaul {version}\" \"Longhaul manual\"\n\
         .SH NAME\n{} \\- {}\n",
        text(&name.to_ascii_uppercase()),
        date(),
        text(name),
        text(about)
    )
}

/// The day the page is made; `SOURCE_DATE_EPOCH` makes it another, so that packages can be built twice the same.
fn date() -> String {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let seconds: i64 = epoch.unwrap_or_else(lh_sys::time::now_unix);
    let (year, month, day) = lh_sys::time::date(seconds.div_euclid(86_400));
    format!("{year:04}-{month:02}-{day:02}")
}

fn list(title: &str, rows: &[(&str, &str)], out: &mut String) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, ".SH {title}");
    for (name, what) in rows {
        let _ = writeln!(out, ".TP\n.I \"{}\"\n{}", text(name), text(what));
    }
}

pub(super) fn see_also(pages: &[(&str, u8)], out: &mut String) {
    out.push_str(".SH \"SEE ALSO\"\n");
    for (index, (name, section)) in pages.iter().enumerate() {
        let comma = if index + 1 < pages.len() { " ," } else { "" };
        let _ = writeln!(out, ".BR {} ({section}){comma}", text(name));
    }
}

/// Text of several paragraphs.
pub(super) fn paragraphs(words: &str) -> String {
    words.split("\n\n").map(text).collect::<Vec<_>>().join("\n.PP\n")
}

fn preformatted(lines: &str) -> String {
    lines.lines().map(|line| text(line.trim_start_matches("usage: ")) + "\n").collect()
}

/// Text that roff prints as it is: no escapes, no requests, no hyphens that copying turns into something else.
pub(super) fn text(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for (index, c) in words.chars().enumerate() {
        match c {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '"' => out.push_str("\\(dq"),
            '~' => out.push_str("\\(ti"),
            '^' => out.push_str("\\(ha"),
            '`' => out.push_str("\\(ga"),
            '.' | '\'' if index == 0 => {
                out.push_str("\\&");
                out.push(c);
            }
            '\n' => out.push(' '),
            '\u{2026}' => out.push_str("..."),
            c => out.push(c),
        }
    }
    out
}
