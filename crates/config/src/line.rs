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

/// Blanks around keywords and the criteria of `Match`.
pub(crate) const BLANKS: [char; 3] = [' ', '\t', '\r'];

/// Splits a line into its keyword and the rest; `None` for blank lines and comments.
///
/// The rest starts at the first character of the value and still contains quotes and comments.
///
/// sshd passes over one `=` or `""` before a keyword. Here it is part of the keyword, which is then unknown:
/// passing over the whole line would lose a rule.
pub fn split_keyword(line: &str) -> Option<(String, &str)> {
    // As in OpenSSH, a form feed is a blank at the end of a line only.
    let line = line.trim_end_matches([' ', '\t', '\r', '\n', '\x0c']).trim_start_matches(BLANKS);
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (keyword, rest) = if let Some(quoted) = line.strip_prefix('"').filter(|rest| !rest.starts_with('"')) {
        // As in OpenSSH, a `=` after quotes is part of the value: `"AllowUsers"=ann` permits no ann.
        let end = quoted.find('"').unwrap_or(quoted.len());
        (&quoted[..end], quoted.get(end + 1..).unwrap_or("").trim_start_matches(BLANKS))
    } else {
        let signs = line.len() - line.trim_start_matches('=').len();
        let end = line[signs..].find([' ', '\t', '\r', '=']).map_or(line.len(), |end| signs + end);
        let (keyword, rest) = line.split_at(end);
        let rest = rest.trim_start_matches(BLANKS);
        (keyword, rest.strip_prefix('=').unwrap_or(rest).trim_start_matches(BLANKS))
    };
    Some((keyword.to_string(), rest))
}

/// Splits a value into words; with `comments`, a `#` at the start of a word ends the line.
///
/// # Errors
/// [`BadQuotes`] when a quote is left open.
pub fn split_words(text: &str, comments: bool) -> Result<Vec<String>, BadQuotes> {
    let mut rest = text;
    let mut words = Vec::new();
    while let Some(word) = next_word(&mut rest, comments)? {
        words.push(word);
    }
    Ok(words)
}

/// Returns whether a value has bytes that are not UTF-8, which [`read_text`](crate::include::read_text) has
/// replaced. A rule about such a name would be about another one. Comments do not count.
pub(crate) fn has_replaced_bytes(text: &str) -> bool {
    let replaced = |text: &str| text.contains(char::REPLACEMENT_CHARACTER);
    replaced(text) && split_words(text, true).map_or(true, |words| words.iter().any(|word| replaced(word)))
}

/// What is said of a line with such bytes.
pub(crate) const NOT_UTF8: &str = "bytes that are not UTF-8 (iconv converts files)";

/// Takes the next word, by the rules of a shell; `None` at the end.
///
/// Only blanks and tabs separate words, as in sshd: a carriage return within a line belongs to a name.
pub(crate) fn next_word(rest: &mut &str, comments: bool) -> Result<Option<String>, BadQuotes> {
    let text = rest.trim_start_matches([' ', '\t']);
    if text.is_empty() || (comments && text.starts_with('#')) {
        *rest = "";
        return Ok(None);
    }
    let mut chars = text.chars();
    let mut word = String::new();
    let mut quote: Option<char> = None;
    while let Some(c) = chars.next() {
        let next = chars.clone().next();
        match (c, quote) {
            ('\\', _) => match next {
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
            (' ' | '\t', None) => break,
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, _) => word.push(c),
        }
    }
    if quote.is_some() {
        return Err(BadQuotes);
    }
    *rest = chars.as_str();
    Ok(Some(word))
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

    /// Returns whether a word contains `${`.
    pub(crate) fn has_variable(&self) -> bool {
        self.words.iter().any(|word| word.contains("${"))
    }

    /// Replaces each word.
    ///
    /// # Errors
    /// Those of `replace`.
    pub(crate) fn map<E>(mut self, replace: impl Fn(&str) -> Result<String, E>) -> Result<Self, E> {
        for word in &mut self.words {
            *word = replace(word)?;
        }
        Ok(self)
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

    /// Checks that none of several words is empty. ssh accepts such words.
    ///
    /// # Errors
    /// [`ValueFault::EmptyWord`], on a server.
    pub fn refuse_empty_among(&self, words: &[String]) -> Result<(), ValueError> {
        if self.dialect() == Dialect::Server && words.iter().any(String::is_empty) {
            return Err(self.refused(ValueFault::EmptyWord));
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
        self.rest.clone()
    }

    /// Returns whether all words were consumed.
    pub fn is_empty(&self) -> bool {
        self.next >= self.words.len()
    }
}
