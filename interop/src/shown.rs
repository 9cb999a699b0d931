//! Commands that the documentation's pages show, in marked and in indented blocks.

/// A code block of a page.
#[derive(Debug)]
pub struct Code<'a> {
    /// What stands behind its fence; `None` for an indented block.
    pub info: Option<&'a str>,
    /// Number of its first line in the page.
    pub line: usize,
    /// Its lines, without the indentation of the block. Commands may be indented further.
    pub lines: Vec<&'a str>,
}

/// A command as a shell reads it: continued lines and loops are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Number of its first line in the page.
    pub line: usize,
    /// Its text, with the comment behind it.
    pub text: String,
}

/// Returns the code blocks of a page. An indented block follows an empty line, as Markdown wants it, and ends
/// at the next one: what stands between two empty lines is of one kind.
pub fn code(page: &str) -> Vec<Code<'_>> {
    let mut found: Vec<Code> = Vec::new();
    let (mut is_fenced, mut is_open, mut after_empty) = (false, false, true);
    for (at, line) in page.lines().enumerate() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            is_fenced = !is_fenced;
            if is_fenced {
                found.push(Code { info: Some(info), line: at + 2, lines: Vec::new() });
            }
            (is_open, after_empty) = (false, true);
            continue;
        }
        let is_empty = line.trim().is_empty();
        let indented = line.strip_prefix("    ");
        match (found.last_mut(), indented) {
            (Some(block), _) if is_fenced => block.lines.push(line),
            (Some(block), Some(text)) if is_open && !is_empty => block.lines.push(text),
            (_, Some(text)) if after_empty && !is_empty => {
                found.push(Code { info: None, line: at + 1, lines: vec![text] });
                is_open = true;
            }
            _ => is_open = false,
        }
        after_empty = is_empty;
    }
    for block in &mut found {
        // The block of a list's item is indented further.
        let indents = block.lines.iter().filter(|line| !line.trim().is_empty());
        let indent = indents.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
        block.lines.iter_mut().for_each(|line| *line = line.get(indent..).unwrap_or_default());
    }
    found
}

impl Code<'_> {
    /// Returns the commands of the block. Of a transcript, in which a `$` stands before each command, it
    /// returns those and leaves out their output.
    pub fn commands(&self) -> Vec<Command> {
        let is_transcript = self.lines.first().is_some_and(|line| line.starts_with("$ "));
        let mut found: Vec<Command> = Vec::new();
        // What ends the command that is not complete yet.
        let mut end: Option<String> = None;
        let mut is_continued = false;
        for (at, &line) in self.lines.iter().enumerate() {
            let line = if is_transcript {
                let Some(line) = line.strip_prefix("$ ") else { continue };
                line
            } else {
                line
            };
            let text = line.trim();
            let is_part = is_continued || end.is_some();
            if !is_part && (text.is_empty() || text.starts_with('#')) {
                continue;
            }
            if is_part && let Some(last) = found.last_mut() {
                last.text.push('\n');
                last.text.push_str(line);
            } else {
                found.push(Command { line: self.line + at, text: text.to_owned() });
                end = ends_with(text);
            }
            is_continued = text.ends_with('\\');
            if is_part && end.as_deref().is_some_and(|word| text.split([' ', ';']).next() == Some(word)) {
                end = None;
            }
        }
        found
    }
}

/// Returns the word that begins the last line of a command that begins with this line.
fn ends_with(line: &str) -> Option<String> {
    if let Some((_, rest)) = line.split_once("<<") {
        return Some(rest.trim_matches(['\'', '"', ' ']).to_owned());
    }
    let done = match line.split(' ').next()? {
        "for" | "while" | "until" => "done",
        "if" => "fi",
        _ => return None,
    };
    (!line.split([' ', ';']).any(|word| word == done)).then(|| done.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(page: &str) -> Vec<(usize, String)> {
        let blocks = code(page);
        let found = blocks.iter().flat_map(Code::commands);
        found.map(|command| (command.line, command.text)).collect()
    }

    #[test]
    fn blocks_are_fenced_or_indented_behind_an_empty_line() {
        let page = "a\n    not\n\n    one\n\n    two\nb\n```sh x\nthree\n```\n\n1. c\n\n       four\n";
        let found: Vec<_> = code(page).into_iter().map(|code| (code.info, code.line, code.lines)).collect();
        assert_eq!(
            found,
            [
                (None, 4, vec!["one"]),
                (None, 6, vec!["two"]),
                (Some("sh x"), 9, vec!["three"]),
                (None, 14, vec!["four"])
            ]
        );
    }

    #[test]
    fn continued_lines_loops_and_files_are_one_command() {
        let page = "    a \\\n        b\n    # c\n    for x in 1; do\n        d\n    done\n    cat > f <<'END'\n    # e\n    END\n    g    # h\n";
        let texts: Vec<_> = commands(page).into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            texts,
            ["a \\\n    b", "for x in 1; do\n    d\ndone", "cat > f <<'END'\n# e\nEND", "g    # h"]
        );
    }

    #[test]
    fn transcripts_show_commands_behind_a_dollar() {
        assert_eq!(commands("    $ a\n    b\n    $ c\n"), [(1, "a".to_owned()), (3, "c".to_owned())]);
    }
}
