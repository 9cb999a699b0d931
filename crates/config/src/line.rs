//! The syntax of a configuration line: keyword, separator, words, comment.
//!
//! Both programs share these rules: blanks or one `=` after the keyword, words quoted with `"` or `'`, `\`
//! before a quote or a backslash, and a `#` at the start of a word for a comment. Keywords whose value is a
//! command take the rest of the line unparsed.

pub use crate::dialect::Dialect;
use crate::value_error::{Part, Syntax, ValueError, ValueFault};

/// The rest of a line after its keyword; values take words from it.
#[derive(Debug, Clone)]
pub struct Arguments {
    /// The keyword in the table's spelling.
    pub keyword: &'static str,
    /// The program whose messages to use.
    pub dialect: Dialect,
    words: Vec<String>,
    next: usize,
    rest: String,
}

/// Error: the quotes of a line do not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadQuotes;

/// Splits a line into its keyword and the rest; `None` for blank lines and comments.
///
/// The rest starts at the first character of the value and still contains quotes and comments.
pub fn split_keyword(line: &str) -> Option<(String, &str)> {
    let line = line.trim_matches([' ', '\t', '\r', '\n', '\x0c']);
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    const BLANKS: [char; 3] = [' ', '\t', '\r'];
    let (keyword, rest) = if let Some(quoted) = line.strip_prefix('"') {
        // As in OpenSSH, a `=` after quotes is part of the value: `"AllowUsers"=ann` permits no ann.
        let end = quoted.find('"').unwrap_or(quoted.len());
        (&quoted[..end], quoted.get(end + 1..).unwrap_or("").trim_start_matches(BLANKS))
    } else {
        let (keyword, rest) = line.split_at(line.find([' ', '\t', '\r', '=']).unwrap_or(line.len()));
        let rest = rest.trim_start_matches(BLANKS);
        (keyword, rest.strip_prefix('=').unwrap_or(rest).trim_start_matches(BLANKS))
    };
    if keyword.is_empty() { None } else { Some((keyword.to_string(), rest)) }
}

/// Splits a value into words; with `comments`, a `#` at the start of a word ends the line.
///
/// # Errors
/// [`BadQuotes`] when a quote is left open.
pub fn split_words(text: &str, comments: bool) -> Result<Vec<String>, BadQuotes> {
    Ok(split(text, comments)?.into_iter().map(|word| word.text).collect())
}

/// A word of a line.
struct Word {
    text: String,
    /// Whether it begins with a quote.
    quoted: bool,
}

/// Like [`split_words`], with the quotes noted.
fn split(text: &str, comments: bool) -> Result<Vec<Word>, BadQuotes> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| matches!(c, ' ' | '\t' | '\r' | '\n')).is_some() {}
        match chars.peek() {
            None => return Ok(words),
            Some('#') if comments => return Ok(words),
            Some(_) => {}
        }
        let quoted = matches!(chars.peek(), Some('"' | '\''));
        let mut word = String::new();
        let mut quote: Option<char> = None;
        loop {
            let Some(c) = chars.next() else {
                if quote.is_some() {
                    return Err(BadQuotes);
                }
                break;
            };
            match (c, quote) {
                ('\\', _) => match chars.peek().copied() {
                    Some(escaped @ ('\'' | '"' | '\\')) => {
                        word.push(escaped);
                        chars.next();
                    }
                    Some(' ') if quote.is_none() => {
                        word.push(' ');
                        chars.next();
                    }
                    _ => word.push('\\'),
                },
                (' ' | '\t' | '\r' | '\n', None) => break,
                ('"' | '\'', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                (c, _) => word.push(c),
            }
        }
        words.push(Word { text: word, quoted });
    }
}

/// Inverse of [`split_words`]: quotes words with blanks, and escapes quotes and backslashes with a backslash.
pub fn join_words(words: &[String]) -> String {
    let mut out = String::new();
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        let quote = if word.contains([' ', '\t']) { "\"" } else { "" };
        out.push_str(quote);
        for c in word.chars() {
            if matches!(c, '\\' | '\'' | '"') {
                out.push('\\');
            }
            out.push(c);
        }
        out.push_str(quote);
    }
    out
}

impl Arguments {
    /// Splits the value of `keyword` into words.
    ///
    /// # Errors
    /// [`BadQuotes`] when a quote is left open.
    pub fn new(keyword: &'static str, dialect: Dialect, rest: &str) -> Result<Self, BadQuotes> {
        Ok(Self { keyword, dialect, words: split_words(rest, true)?, next: 0, rest: rest.to_string() })
    }

    /// Wraps words that are already split, as from a command-line flag: nothing is parsed or unquoted.
    pub fn from_words(keyword: &'static str, dialect: Dialect, words: &[&str]) -> Self {
        let rest = words.join(" ");
        Self { keyword, dialect, words: words.iter().map(|w| w.to_string()).collect(), next: 0, rest }
    }

    /// Returns the program whose file is parsed.
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Checks that `none` does not occur among several words.
    ///
    /// # Errors
    /// [`ValueFault::NotAlone`].
    pub fn refuse_none_among(&self, words: &[String]) -> Result<(), ValueError> {
        if words.len() > 1 && words.iter().any(|word| word.eq_ignore_ascii_case("none")) {
            return Err(self.refused(ValueFault::NotAlone("none")));
        }
        Ok(())
    }

    /// Returns the next word, or `None` at the end.
    pub fn next_word(&mut self) -> Option<String> {
        let word = self.words.get(self.next)?;
        self.next += 1;
        Some(word.clone())
    }

    /// Returns the next word; it must exist and not be empty.
    ///
    /// # Errors
    /// [`ValueFault::Missing`] with [`Part::Argument`].
    pub fn required(&mut self) -> Result<String, ValueError> {
        self.required_part(Part::Argument)
    }

    /// Like [`required`](Self::required), for a word that is the named part of the value.
    pub(crate) fn required_part(&mut self, part: Part) -> Result<String, ValueError> {
        let word = self.next_word().filter(|word| !word.is_empty());
        word.ok_or_else(|| self.missing(part))
    }

    /// Returns an error with this fault of the keyword's value.
    pub(crate) fn refused(&self, fault: ValueFault) -> ValueError {
        ValueError { keyword: self.keyword, dialect: self.dialect, fault }
    }

    /// Returns the error for a word that does not have this syntax.
    pub(crate) fn malformed(&self, syntax: Syntax, word: &str) -> ValueError {
        self.refused(ValueFault::Malformed(syntax, word.to_owned()))
    }

    /// Returns the error for a missing part of the value.
    pub(crate) fn missing(&self, part: Part) -> ValueError {
        self.refused(ValueFault::Missing(part))
    }

    /// Returns the error for a word that the keyword does not know.
    pub(crate) fn unknown_word(&self, word: &str) -> ValueError {
        self.refused(ValueFault::UnknownWord(word.to_owned()))
    }

    /// Returns all remaining words.
    pub fn remaining(&mut self) -> Vec<String> {
        let left = self.words.split_off(self.next.min(self.words.len()));
        self.next = self.words.len();
        left
    }

    /// Returns the value exactly as written, comments and quotes included; consumes all words.
    pub fn rest_of_line(&mut self) -> String {
        self.next = self.words.len();
        self.rest.trim_end().to_string()
    }

    /// Returns whether all words were consumed.
    pub fn is_empty(&self) -> bool {
        self.next >= self.words.len()
    }
}

/// Splits a `Match` line into words: `attribute argument` or `attribute=argument`.
///
/// An argument that begins with a second `=` is returned empty, so that its attribute lacks one.
///
/// # Errors
/// [`BadQuotes`] when a quote is left open.
pub(crate) fn split_criteria(text: &str) -> Result<Vec<String>, BadQuotes> {
    // As in sshd 9.2, the sign before an argument is no part of it, unless it is quoted. A pattern that
    // begins with it would match no user, and a block that restricts one would silently not apply.
    let one_sign =
        |argument: &str| if argument.starts_with('=') { String::new() } else { argument.to_owned() };
    let mut out = Vec::new();
    let mut words = split(text, true)?.into_iter();
    while let Some(Word { text: word, .. }) = words.next() {
        if let Some((attribute, argument)) = word.split_once('=') {
            out.extend([attribute.to_owned(), one_sign(argument)]);
            continue;
        }
        let name = word.strip_prefix('!').unwrap_or(&word);
        let alone = ["all", "canonical", "final", "invalid-user"];
        let is_alone = alone.iter().any(|attribute| name.eq_ignore_ascii_case(attribute));
        out.push(word);
        if is_alone {
            continue;
        }
        let Some(argument) = words.next() else { break };
        out.push(match argument.text.strip_prefix('=') {
            Some(_) if argument.quoted => argument.text,
            Some("") => words.next().map(|word| one_sign(&word.text)).unwrap_or_default(),
            Some(after) => one_sign(after),
            None => argument.text,
        });
    }
    Ok(out)
}
