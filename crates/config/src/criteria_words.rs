//! Words of `Match` lines.
//!
//! OpenSSH reads these lines by simpler rules than others: up to a blank, a `=` or a `"`, whose text ends at
//! the next `"`. From version 9.9 on it reads them like a shell. A line that means different things to the
//! two is an error here: read the wrong way, a block that restricts a user would silently not apply.

use crate::line::{BLANKS, BadQuotes, next_word};
use crate::match_error::MatchError;

/// Attributes without an argument.
const ALONE: [&str; 4] = ["all", "canonical", "final", "invalid-user"];

/// Attributes whose argument is a command. It is read like a shell's word, as from OpenSSH 9.9 on: what it
/// means to a shell is decided by its quotes.
const COMMANDS: [&str; 2] = ["command", "exec"];

/// Splits a `Match` line into words: `attribute argument` or `attribute=argument`.
///
/// The last attribute may lack its argument.
///
/// # Errors
/// [`MatchError::BadQuotes`] and [`MatchError::Ambiguous`].
pub(crate) fn split_criteria(text: &str) -> Result<Vec<String>, MatchError> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(attribute) = delimited_word(&mut rest)?.filter(|word| !word.starts_with('#')) {
        let name = attribute.strip_prefix('!').unwrap_or(&attribute).to_ascii_lowercase();
        out.push(attribute);
        if ALONE.contains(&name.as_str()) {
            continue;
        }
        let argument = if COMMANDS.contains(&name.as_str()) {
            next_word(&mut rest, true).map_err(|BadQuotes| MatchError::BadQuotes)?
        } else {
            // As in OpenSSH, a word that begins with `#` is no argument, also in quotes.
            delimited_word(&mut rest)?.filter(|word| !word.starts_with('#'))
        };
        let Some(argument) = argument else { break };
        out.push(argument);
    }
    Ok(out)
}

/// Takes the next word, which ends at blanks or one `=`, with blanks around it; `None` at the end.
fn delimited_word(rest: &mut &str) -> Result<Option<String>, MatchError> {
    let text = rest.trim_start_matches(BLANKS);
    if text.is_empty() || text.starts_with('#') {
        *rest = "";
        return Ok(None);
    }
    if let Some(quoted) = text.strip_prefix('"') {
        let (word, after) = quoted.split_once('"').ok_or(MatchError::BadQuotes)?;
        let escapes = word.ends_with('\\') || word.contains("\\\\") || word.contains("\\'");
        if escapes || !(after.is_empty() || after.starts_with(BLANKS)) {
            return Err(MatchError::Ambiguous);
        }
        *rest = after.trim_start_matches(BLANKS);
        return Ok(Some(word.to_owned()));
    }
    let (word, after) = text.split_at(text.find([' ', '\t', '\r', '=', '"']).unwrap_or(text.len()));
    let escapes = word.contains("\\\\") || (word.ends_with('\\') && after.starts_with(' '));
    if escapes || word.contains('\'') || after.starts_with(['"', '\r']) {
        return Err(MatchError::Ambiguous);
    }
    let after = after.trim_start_matches(BLANKS);
    *rest = after.strip_prefix('=').unwrap_or(after).trim_start_matches(BLANKS);
    Ok(Some(word.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sign_separates_attributes_and_arguments() {
        for text in
            ["user eve", "user=eve", "user = eve", "user =eve", "user= eve", "user \"eve\"", "user=\"eve\""]
        {
            assert_eq!(split_criteria(text), Ok(vec!["user".to_owned(), "eve".to_owned()]), "{text}");
        }
        for text in ["user==eve", "user = =eve", "user \"\""] {
            let words = split_criteria(text).expect("is split");
            assert_eq!(words[1], "", "{text}");
        }
        for text in ["user", "user #eve", "user \"#eve\""] {
            assert_eq!(split_criteria(text), Ok(vec!["user".to_owned()]), "{text}");
        }
        assert_eq!(split_criteria("all # user eve"), Ok(vec!["all".to_owned()]));
        assert_eq!(split_criteria("user \"=eve\"").map(|words| words[1].clone()), Ok("=eve".to_owned()));
    }

    #[test]
    fn quotes_of_two_meanings_are_refused() {
        for text in [
            "user 'eve'",
            "user o'neill",
            "user \"a\",b",
            "user a\"b\"",
            "user eve\\ adam",
            "user \"LAB\\\\eve\"",
            "user LAB\\\\eve",
            "user \\\"eve\\\"",
            "'all'",
            "user eve\rgroup x",
        ] {
            assert_eq!(split_criteria(text), Err(MatchError::Ambiguous), "{text}");
        }
        assert_eq!(split_criteria("user \"eve"), Err(MatchError::BadQuotes));
        for text in ["user LAB\\eve", "user \"LAB\\eve\""] {
            assert_eq!(
                split_criteria(text).map(|words| words[1].clone()),
                Ok("LAB\\eve".to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn commands_are_read_like_a_shells_words() {
        let words = split_criteria("exec \"test \\\"a b\\\" = 'c'\" user eve").expect("is split");
        assert_eq!(words, ["exec", "test \"a b\" = 'c'", "user", "eve"]);
    }
}
