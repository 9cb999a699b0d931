//! Code blocks of the documentation's pages that tests run.
//!
//! They are marked `sh runnable`. A block with `needs=PROGRAM` needs this program, one with `as=root` is run
//! by root. Shown output must be true: a comment `# says "TEXT"` promises TEXT, and so does a line
//! `<!-- says "TEXT" -->` below the block; a block marked `text shown` has what the block of commands before
//! it prints to standard output. There a line `...` stands for any lines, and `…` in a line for any text.

/// A code block of a page.
#[derive(Debug)]
pub struct Block {
    /// The program without which the block cannot be run.
    pub needs: Option<String>,
    /// Whether root runs the commands.
    pub as_root: bool,
    /// Number of its first line in the page.
    pub line: usize,
    /// Its commands.
    pub commands: String,
    /// Texts that the page promises below the block.
    said: Vec<String>,
    /// Their output, as the page shows it.
    shown: Option<String>,
}

impl Block {
    /// Returns what the page promises and the commands did not print.
    pub fn unkept(&self, out: &str, err: &str) -> Vec<String> {
        let said = self.commands.lines().filter_map(|line| line.split_once("# says \"")?.1.split('"').next());
        let mut unkept: Vec<_> = said
            .chain(self.said.iter().map(String::as_str))
            .filter(|text| !out.contains(text) && !err.contains(text))
            .map(str::to_owned)
            .collect();
        if let Some(shown) = self.shown.as_ref().filter(|shown| !lines_fit(&lines(shown), &lines(out))) {
            unkept.push(shown.clone());
        }
        unkept
    }
}

/// Returns the lines without spaces at their ends.
fn lines(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(str::trim_end).collect()
}

/// Returns whether the printed lines are the shown ones, of which `...` stands for any.
fn lines_fit(shown: &[&str], printed: &[&str]) -> bool {
    match (shown, printed) {
        ([], _) => printed.is_empty(),
        (["...", rest @ ..], _) => (0..=printed.len()).any(|skipped| lines_fit(rest, &printed[skipped..])),
        ([shown, rest @ ..], [line, others @ ..]) => line_fits(shown, line) && lines_fit(rest, others),
        (_, []) => false,
    }
}

/// Returns whether a printed line is the shown one, in which `…` stands for any text.
fn line_fits(shown: &str, printed: &str) -> bool {
    match shown.split_once('…') {
        None => shown == printed,
        Some((start, rest)) => printed.strip_prefix(start).is_some_and(|left| {
            (0..=left.len()).any(|at| left.is_char_boundary(at) && line_fits(rest, &left[at..]))
        }),
    }
}

/// Returns the blocks of a page that can be run.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if line == "```text shown" {
            let body: Vec<_> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            let block: &mut Block = found.last_mut().expect("commands stand before their output");
            assert!(block.shown.replace(body.join("\n")).is_none(), "line {}: shown twice", at + 1);
            continue;
        }
        if let Some(text) = line.strip_prefix("<!-- says \"").and_then(|rest| rest.strip_suffix("\" -->")) {
            let block: &mut Block = found.last_mut().expect("commands stand before their output");
            block.said.push(text.to_owned());
        }
        let Some(words) = line.strip_prefix("```sh runnable") else { continue };
        let word = |name: &str| words.split(' ').find_map(|word| word.strip_prefix(name));
        let (needs, as_root) = (word("needs=").map(str::to_owned), word("as=") == Some("root"));
        let body = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
        let commands = body.collect::<Vec<_>>().join("\n");
        found.push(Block { needs, as_root, line: at + 1, commands, said: Vec::new(), shown: None });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_where_their_fences_do() {
        let page = "a\n```sh runnable needs=jq\none\ntwo\n```\n```sh\nnot\n```\n```sh runnable as=root\nthree\n```\n";
        let found = blocks(page);
        let seen: Vec<_> =
            found.iter().map(|b| (b.needs.as_deref(), b.as_root, b.line, b.commands.as_str())).collect();
        assert_eq!(seen, [(Some("jq"), false, 2, "one\ntwo"), (None, true, 9, "three")]);
    }

    #[test]
    fn shown_output_is_compared() {
        let page =
            "```sh runnable\na   # says \"4 files\"\nb\n```\nprints\n```text shown\nx … z\n...\nend\n```\n";
        let block = blocks(page).remove(0);
        for out in ["x y z\nend\n", "x  z\n1\n2\nend \n"] {
            assert!(block.unkept(out, "has 4 files\n").is_empty(), "{out}");
        }
        for out in ["", "x y z\n", "x y\nend\n", "x y z\nend\nmore\n"] {
            assert_eq!(block.unkept(out, "4 files\n"), ["x … z\n...\nend"], "{out}");
        }
        assert_eq!(block.unkept("x y z\nend\n", ""), ["4 files"]);
        let block = blocks("```sh runnable\na\n```\n<!-- says \"5 files\" -->\n").remove(0);
        assert_eq!((block.unkept("", ""), block.unkept("", "5 files")), (vec!["5 files".to_owned()], vec![]));
    }
}
