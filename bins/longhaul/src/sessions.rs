//! `longhaul sessions`: the sessions of `lhsshd` on this host, those of this user or all for root; ends one
//! of them.

use std::ffi::OsString;
use std::time::{Duration, UNIX_EPOCH};

use lh_cli::flags::{LONGHAUL, Parsed};
use lh_session_list::{Found, Id, Programs, Refused, Sessions, end};
use lh_sys::errno_text;
use lh_sys::time::{local_text, utc_text};
use lh_transfer::display_name;
use serde_json::json;

use crate::fault::say;
use crate::output::{print, print_line};
use crate::units::in_words;

/// Exit status where something could not be done.
const FAILURE: u8 = 1;

/// Version of the form of `--json`. It rises when a member is taken away or changes its meaning.
const VERSION: u32 = 1;

/// Does what the command line says; returns the exit status.
pub(crate) fn run(parsed: &Parsed, operands: &[OsString]) -> u8 {
    if !operands.is_empty() {
        return LONGHAUL
            .usage_error("sessions: takes no operand; name the session to end behind --end")
            .print();
    }
    let (id, json) = (parsed.long_text("end"), parsed.has_long("json"));
    if id.is_some() && json {
        return LONGHAUL.usage_error("sessions: --json lists, --end ends").print();
    }
    let sessions = match Sessions::ask() {
        Ok(sessions) => sessions,
        Err(error) => {
            say(&format!("sessions: cannot find sessions: /proc/net/unix: {}", errno_text(&error)));
            return FAILURE;
        }
    };
    match id {
        Some(id) => one(&sessions, &id).map_or(FAILURE, end_one),
        None => list(&sessions, json),
    }
}

/// The session of this ID, or of an ID that begins so. One that has not answered can be named in full.
fn one(sessions: &Sessions, word: &str) -> Option<Id> {
    let found = sessions.found.iter().map(|found| found.id);
    let known: Vec<Id> = found.chain(sessions.silent.iter().copied()).collect();
    if let Ok(id) = word.parse::<Id>()
        && known.contains(&id)
    {
        return Some(id);
    }
    let mut begin = sessions.found.iter().map(|found| found.id).filter(|id| id.to_string().starts_with(word));
    let shown = word.escape_default();
    match (begin.next(), begin.next()) {
        (Some(id), None) if !word.is_empty() => return Some(id),
        (Some(_), Some(_)) if !word.is_empty() => {
            say(&format!("sessions: {shown} is the beginning of several IDs"));
        }
        _ => say(&format!("sessions: no session {shown}, or it is another user's")),
    }
    None
}

fn end_one(id: Id) -> u8 {
    let why = match end(id) {
        Ok(()) => {
            return print_line(&format!("{id}: ended")).map_or_else(|fault| fault.report(FAILURE), |()| 0);
        }
        Err(Refused::NoSession) => "it has just ended, or it is another user's",
        Err(Refused::Silent) => "its monitor does not answer",
        Err(Refused::Lasts) => "was told to end and still runs after 15 seconds",
    };
    say(&format!("sessions: {id}: {why}"));
    FAILURE
}

fn list(sessions: &Sessions, json: bool) -> u8 {
    let text = if json {
        sessions.found.iter().map(|found| event(found) + "\n").collect()
    } else if sessions.found.is_empty() && sessions.silent.is_empty() {
        "no sessions\n".to_owned()
    } else {
        let rows = sessions.found.iter().map(row);
        table(&std::iter::once(title()).chain(rows).collect::<Vec<_>>())
    };
    if let Err(fault) = print(&text) {
        return fault.report(FAILURE);
    }
    for id in &sessions.silent {
        say(&format!("sessions: {id}: its monitor does not answer"));
    }
    if sessions.silent.is_empty() { 0 } else { FAILURE }
}

/// Rows as lines, with columns as wide as their longest field.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let fields: Vec<String> =
            row.iter().zip(widths).map(|(field, width)| format!("{field:width$}")).collect();
        fields.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn title() -> [String; 6] {
    ["ID", "USER", "FROM", "SINCE", "RUNS", "STATE"].map(str::to_owned)
}

fn row(found: &Found) -> [String; 6] {
    let session = &found.session;
    let state = match session.wait {
        Some(wait) => {
            let [waited, left] =
                [wait.waited, wait.left].map(|seconds| in_words(Duration::from_secs(seconds)));
            format!("waiting for {waited}, ends in {left}")
        }
        None if session.is_resumable => "connected, resumable".to_owned(),
        None => "connected".to_owned(),
    };
    let from = session.peer.map_or_else(|| "-".to_owned(), |peer| peer.to_string());
    let since = local_text(i64::try_from(session.since).unwrap_or(i64::MAX));
    [found.id.to_string(), user(found), from, since, runs(session.programs), state]
}

fn user(found: &Found) -> String {
    display_name(found.session.user.as_bytes())
}

/// Describes the programs of a session.
fn runs(programs: Programs) -> String {
    let Programs { shells, commands, subsystems } = programs;
    let kinds = [(shells, "shell"), (commands, "command"), (subsystems, "subsystem")];
    let words: Vec<String> = kinds
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| if count == 1 { kind.to_owned() } else { format!("{count} {kind}s") })
        .collect();
    if words.is_empty() { "no program".to_owned() } else { words.join(", ") }
}

fn event(found: &Found) -> String {
    let session = &found.session;
    let Programs { shells, commands, subsystems } = session.programs;
    let since = UNIX_EPOCH.checked_add(Duration::from_secs(session.since)).map(utc_text);
    json!({
        "version": VERSION,
        "id": found.id.to_string(),
        "user": session.user,
        "uid": session.uid,
        "server_uid": found.server_uid,
        "pid": session.pid,
        "address": session.peer.map(|peer| peer.ip().to_string()),
        "port": session.peer.map(|peer| peer.port()),
        "since": since,
        "state": if session.wait.is_some() { "waiting" } else { "connected" },
        "resumable": session.is_resumable,
        "waited": session.wait.map(|wait| wait.waited),
        "left": session.wait.map(|wait| wait.left),
        "shells": shells,
        "commands": commands,
        "subsystems": subsystems,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use lh_session_list::{Session, Wait};

    use super::*;

    fn found(wait: Option<Wait>) -> Found {
        let session = Session {
            user: "ada\u{1b}[2J".into(),
            uid: 1000,
            pid: 4711,
            peer: Some(([192, 0, 2, 7], 50_000).into()),
            since: 1_767_225_600,
            programs: Programs { shells: 1, commands: 2, subsystems: 0 },
            is_resumable: true,
            wait,
        };
        Found { id: Id::new(0xbeef), server_uid: 0, session }
    }

    #[test]
    fn rows_say_who_waits_and_how_long() {
        let [id, user, from, _, runs, state] = row(&found(Some(Wait { waited: 70, left: 530 })));
        assert_eq!([id, from], ["0000beef", "192.0.2.7:50000"]);
        assert!(!user.contains('\u{1b}'), "{user:?}");
        assert_eq!([runs, state], ["shell, 2 commands", "waiting for 1m10s, ends in 8m50s"]);
        assert_eq!(row(&found(None))[5], "connected, resumable");
    }

    #[test]
    fn list_looks_as_in_the_page_about_the_server() {
        let session = |id, user: &str, peer, programs, wait| {
            let plain = Found { id: Id::new(id), ..found(wait) };
            let session = Session { user: user.into(), peer: Some(peer), programs, ..plain.session };
            Found { session: Session { is_resumable: wait.is_some(), ..session }, ..plain }
        };
        let runs = |shells, commands| Programs { shells, commands, subsystems: 0 };
        let wait = Some(Wait { waited: 70, left: 530 });
        let found = [
            session(0x388a_569b, "ada", ([192, 0, 2, 7], 53356).into(), runs(1, 0), wait),
            session(0x92c1_f00d, "bob", ([192, 0, 2, 12], 40122).into(), runs(0, 1), None),
        ];
        // The local time depends on where the test runs.
        let mut rows: Vec<_> = found.iter().map(row).collect();
        for (row, shown) in rows.iter_mut().zip(["2026-11-23T19:36:32", "2026-11-23T19:40:01"]) {
            assert_eq!(row[3].len(), shown.len(), "{row:?}");
            row[3] = shown.to_owned();
        }
        let text = table(&std::iter::once(title()).chain(rows).collect::<Vec<_>>());
        let shown: String = text.lines().map(|line| format!("    {line}\n")).collect();
        let page = include_str!("../../../docs/server.md");
        assert!(page.contains(&format!("    $ longhaul sessions\n{shown}")), "the page lacks\n{shown}");
    }

    #[test]
    fn events_have_a_version_and_all_members() {
        let event: serde_json::Value = serde_json::from_str(&event(&found(None))).unwrap();
        assert_eq!((&event["version"], &event["state"]), (&1.into(), &"connected".into()));
        assert!(event["left"].is_null() && event["waited"].is_null());
        assert_eq!(event["since"], "2026-01-01T00:00:00.000Z");
    }

    #[test]
    fn beginnings_of_ids_name_one_session() {
        let second = Found { id: Id::new(0xbeee), ..found(None) };
        let sessions = Sessions { found: vec![found(None), second], silent: vec![Id::new(7)] };
        assert_eq!(one(&sessions, "0000beef"), Some(Id::new(0xbeef)));
        assert_eq!(one(&sessions, "0000beee"), Some(Id::new(0xbeee)));
        assert_eq!(one(&sessions, "00000007"), Some(Id::new(7)));
        for word in ["", "0000", "0000000", "f"] {
            assert_eq!(one(&sessions, word), None, "{word}");
        }
    }
}
