//! The pages of the configuration files: the keyword tables, and the rules that apply to all keywords.

use std::fmt::Write as _;

use lh_config::client_table::CLIENT_KEYWORDS;
use lh_config::server_table::SERVER_KEYWORDS;
use lh_config::table::Scope;
use lh_config::token::{CLIENT_TOKENS, SERVER_TOKENS};
use lh_config::{Keyword, Status};

use super::man::{head, list, paragraphs, see_also, text};

const CLIENT: &str = "The file is read line by line: a keyword, blanks or one equals sign, and its values. Values with blanks are quoted \
    with double or single quotes; a word that begins with # and what follows it are a comment. Keywords may be written in any case, \
    values not.\n\nFor each keyword the first value counts: the command line comes before the user's file, and that before the \
    system's. So what is special stands at the beginning, and what is for all at the end. IdentityFile, CertificateFile, SendEnv and \
    the forwards add up instead.\n\nLists of algorithms edit the default where they begin with + (add at the end), - (remove; \
    patterns will do) or ^ (put first). Times are seconds, or numbers with s, m, h, d or w, as in 1h30m.";

const BLOCKS: &[(&str, &str)] = &[
    (
        "Host pattern ...",
        "What follows, up to the next Host or Match, is for destinations that one of the patterns fits: * stands for any text, ? for \
         one character, and a pattern with ! before it takes the destination out again. Patterns are compared with what was typed.",
    ),
    (
        "Match criterion ...",
        "What follows is for connections that all criteria fit. all always does; canonical and final only when the files are read for \
         the second time. host, originalhost, user, localuser, tagged, command and version take patterns separated by commas, \
         localnetwork takes networks such as 192.0.2.0/24, sessiontype one of shell, exec, subsystem and none, and exec a command that \
         succeeds or not. ! before a criterion turns it round.",
    ),
    (
        "Include file ...",
        "Reads other files as if they stood here; patterns will do, and names that are not absolute are in ~/.ssh, or in /etc/ssh for \
         the system's file.",
    ),
];

const SERVER: &str = "The file is read line by line: a keyword, blanks or one equals sign, and its values, quoted where they have blanks. \
    A word that begins with # and what follows it are a comment. For each keyword the first value counts; those that \
    are lists add up.\n\nMatch begins a block of keywords for connections that fit its criteria: all, user, group, host, address, \
    localaddress, localport, rdomain, version and invalid-user. A block goes to the next Match, and what it says counts more than \
    what stands before the first one. Include reads other files, by patterns too; names that are not absolute are in /etc/ssh.";

/// Example file for the page; the test `files_in_the_pages_are_accepted` reads it.
pub(super) const CLIENT_EXAMPLE: &str = "\
# A short name, another user, and a gateway.
Host data1
    Hostname data1.example.org
    User ada
    ProxyJump gateway.example.org

# Copies to the archive, over a path that loses packets.
Host archive
    Hostname archive.example.net
    TcpCongestion bbr
    Metrics yes

# For all hosts: what stands above comes first.
Host *
    ServerAliveInterval 15
    ControlMaster auto
    ControlPath ~/.ssh/control-%C
    ControlPersist 10m
";

/// Example file of the server, like [`CLIENT_EXAMPLE`].
pub(super) const SERVER_EXAMPLE: &str = "\
Port 22
PasswordAuthentication no
Subsystem sftp internal-sftp
TransferLog journald
PrometheusListen 127.0.0.1:9122
PerSourcePenaltyExemptList 192.0.2.0/24

# SFTP alone, each user in a directory of its own.
Match Group sftponly
    ChrootDirectory /srv/sftp/%u
    ForceCommand internal-sftp -u 0027
    AllowTcpForwarding no
    X11Forwarding no
";

fn example(file: &str, out: &mut String) {
    out.push_str(".SH EXAMPLES\n.nf\n");
    file.lines().for_each(|line| out.push_str(&(text(line) + "\n")));
    out.push_str(".fi\n");
}

/// Returns the page lhssh_config(5).
pub(super) fn client_configuration() -> String {
    let mut out = head("lhssh_config", 5, "configuration of the Longhaul clients");
    let _ = writeln!(out, ".SH SYNOPSIS\n.I \\(ti/.ssh/config\n.br\n.I /etc/ssh/ssh_config");
    let _ = writeln!(out, ".SH DESCRIPTION\n{}", paragraphs(CLIENT));
    out.push_str(".SH BLOCKS\n");
    for (name, what) in BLOCKS {
        let _ = writeln!(out, ".TP\n.B \"{}\"\n{}", text(name), text(what));
    }
    keywords(CLIENT_KEYWORDS, false, &mut out);
    list(
        "FILES",
        &[
            ("~/.ssh/config", "The user's file; no other user may be able to write to it."),
            ("/etc/ssh/ssh_config", "The system's file, read after it."),
        ],
        &mut out,
    );
    out.push_str(
        ".SH TOKENS\nPaths, commands and some names may have tokens, which are replaced when they are used. Paths \
         and a few others may also have the values of environment variables, as ${HOME}, and begin with \\(ti.\n",
    );
    tokens(CLIENT_TOKENS, &mut out);
    example(CLIENT_EXAMPLE, &mut out);
    see_also(&[("lhssh", 1), ("lhscp", 1), ("lhsftp", 1), ("lhsshd_config", 5)], &mut out);
    out
}

/// Returns the page lhsshd_config(5).
pub(super) fn server_configuration() -> String {
    let mut out = head("lhsshd_config", 5, "configuration of the Longhaul server");
    let _ = writeln!(out, ".SH SYNOPSIS\n.I /etc/ssh/sshd_config");
    let _ = writeln!(out, ".SH DESCRIPTION\n{}", paragraphs(SERVER));
    keywords(SERVER_KEYWORDS, true, &mut out);
    list(
        "FILES",
        &[("/etc/ssh/sshd_config", "Read at the start and on SIGHUP; -f names another file.")],
        &mut out,
    );
    out.push_str(".SH TOKENS\n");
    tokens(SERVER_TOKENS, &mut out);
    example(SERVER_EXAMPLE, &mut out);
    see_also(&[("lhsshd", 8), ("lhsftp-server", 8), ("lhssh_config", 5)], &mut out);
    out
}

fn keywords(table: &[Keyword], server: bool, out: &mut String) {
    out.push_str(".SH KEYWORDS\n");
    let mut rows: Vec<&Keyword> = table.iter().collect();
    rows.sort_by_key(|row| row.name.to_ascii_lowercase());
    for row in rows {
        let _ = writeln!(out, ".TP\n.BI {} \" {}\"", row.name, text(row.kind));
        let _ = writeln!(out, "{}", text(&row.meaning()));
        let _ = writeln!(out, "Default: {}.", text(&row.default_in_words()));
        if server && row.scope == Scope::Match {
            out.push_str("May stand in a Match block.\n");
        }
        if !row.aliases.is_empty() {
            let _ = writeln!(out, "Also written {}.", text(&row.aliases.join(", ")));
        }
        match row.status {
            Status::Works => {}
            Status::AcceptedWithoutEffect(why) => {
                let _ = writeln!(out, "Accepted without effect: {}.", text(why));
            }
            Status::Library { name, .. } => {
                let _ = writeln!(out, "Only where {} is installed.", text(name));
            }
            Status::Deprecated => out.push_str("Old; ignored.\n"),
        }
        let _ = writeln!(out, ".sp\nExample:\n.RS\n.nf\n{}\n.fi\n.RE", text(row.example()));
    }
}

fn tokens(table: &[(char, &str, &str)], out: &mut String) {
    for (letter, what, where_known) in table {
        let _ = writeln!(out, ".TP\n.B %{letter}\n{}.", text(what));
        if !where_known.is_empty() {
            let _ = writeln!(out, "Known to: {}.", text(where_known));
        }
    }
}
