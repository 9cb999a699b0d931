//! Manual pages of the programs, in man(7).

use std::fmt::Write as _;

use lh_cli::flags::{Program, Support};

use super::programs::{HELPERS, PAGES, Page, Part, examples};

/// Returns the section of a program's page: 8 for programs that administrators run.
pub(super) fn section(name: &str) -> u8 {
    if name.ends_with("sshd") || name.ends_with("-server") { 8 } else { 1 }
}

/// Returns the page of one program.
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
            Support::Gone(words) => {
                let _ = writeln!(out, "Refused: {}.", text(words));
            }
        }
    }
    out.push_str(".TP\n.B \\-\\-help\nShow the flags.\n.TP\n.B \\-\\-version\nShow the version.\n");
    if let Some(page) = page {
        rest(page, &mut out);
    }
    out
}

/// Returns the pages of programs that other programs start and that have no flags: name and text.
pub(super) fn helpers() -> impl Iterator<Item = (&'static str, String)> {
    HELPERS.iter().map(|(page, about)| {
        let mut out = head(page.name, 8, about);
        let _ = writeln!(out, ".SH SYNOPSIS\n.B {}", text(page.name));
        let _ = writeln!(out, ".SH DESCRIPTION\n{}", paragraphs(page.description));
        rest(page, &mut out);
        (page.name, out)
    })
}

/// Appends the sections after the options.
fn rest(page: &Page, out: &mut String) {
    for Part { title, text: words, rows } in page.parts {
        let _ = writeln!(out, ".SH \"{title}\"\n{}", paragraphs(words));
        for (name, what) in *rows {
            let _ = writeln!(out, ".TP\n.B \"{}\"\n{}", text(name), text(what));
        }
    }
    let _ = writeln!(out, ".SH \"EXIT STATUS\"\n{}", paragraphs(page.exit));
    list("ENVIRONMENT", page.environment, out);
    list("FILES", page.files, out);
    let examples = examples(page.name);
    if !examples.is_empty() {
        out.push_str(".SH EXAMPLES\n");
    }
    for (index, (what, command)) in examples.iter().enumerate() {
        let gap = if index == 0 { "" } else { ".PP\n" };
        let _ = writeln!(out, "{gap}{}\n.PP\n.RS\n.nf\n{}.fi\n.RE", text(what), preformatted(command));
    }
    see_also(page.see_also, out);
}

/// Returns the title and the section NAME.
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

/// Date of the pages, if a caller has set it.
pub(super) static TIME: std::sync::OnceLock<i64> = std::sync::OnceLock::new();

/// Returns the date of the page: `SOURCE_DATE_EPOCH` if it is set, so that builds are reproducible, otherwise
/// today.
fn date() -> String {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let seconds: i64 = TIME.get().copied().or(epoch).unwrap_or_else(lh_sys::time::now_unix);
    let (year, month, day) = lh_sys::time::date(seconds.div_euclid(86_400));
    format!("{year:04}-{month:02}-{day:02}")
}

pub(super) fn list(title: &str, rows: &[(&str, &str)], out: &mut String) {
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

/// Converts text of several paragraphs.
pub(super) fn paragraphs(words: &str) -> String {
    words.split("\n\n").map(text).collect::<Vec<_>>().join("\n.PP\n")
}

fn preformatted(lines: &str) -> String {
    lines.lines().map(|line| text(line.trim_start_matches("usage: ")) + "\n").collect()
}

/// Escapes text so that roff prints it literally: no escapes, no requests, and hyphens that can be copied.
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
