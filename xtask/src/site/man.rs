//! Manual pages as HTML. Supports the requests that `cargo xtask docs` writes, and refuses others.

use super::text::escaped;

/// Renders a page. `exists` returns whether there is a page with a name such as `lhscp.1`.
pub(super) fn html(roff: &str, exists: &dyn Fn(&str) -> bool) -> Result<String, String> {
    let mut out = String::new();
    let mut state = State::default();
    for line in roff.lines() {
        let Some(request) = line.strip_prefix('.') else {
            state.text(&mut out, &escaped(&plain(line)));
            continue;
        };
        let (name, rest) = request.split_once(' ').unwrap_or((request, ""));
        let words = words(rest);
        match name {
            "TH" => {
                let title = words.first().map(|title| title.to_lowercase()).unwrap_or_default();
                out.push_str(&format!(
                    "<h1>{}({})</h1>\n",
                    escaped(&title),
                    words.get(1).map_or("", |each| each)
                ));
            }
            "SH" => {
                state.close(&mut out);
                let title = words.join(" ");
                let id = title.to_lowercase().replace(' ', "-");
                out.push_str(&format!("<h2 id=\"{}\">{}</h2>\n", escaped(&id), escaped(&title)));
            }
            "PP" | "sp" | "br" => state.end_paragraph(&mut out),
            "TP" => state.begin_item(&mut out),
            "B" => state.text(&mut out, &format!("<b>{}</b>", escaped(&words.join(" ")))),
            "I" => state.text(&mut out, &format!("<i>{}</i>", escaped(&words.join(" ")))),
            "BI" => {
                let tags = ["b", "i"].into_iter().cycle();
                let marked =
                    words.iter().zip(tags).map(|(word, tag)| format!("<{tag}>{}</{tag}>", escaped(word)));
                state.text(&mut out, &marked.collect::<String>());
            }
            "BR" => state.text(&mut out, &reference(&words, exists)),
            "nf" => state.begin_lines(&mut out),
            "fi" => state.end_lines(&mut out),
            "RS" | "RE" | "nh" | "hy" | "\\\"" => {}
            _ => return Err(format!("manual page: request .{name} is not understood")),
        }
    }
    state.close(&mut out);
    Ok(out)
}

/// Returns the HTML of a reference to another page: a name and `(section)`.
fn reference(words: &[String], exists: &dyn Fn(&str) -> bool) -> String {
    let (name, rest) = words.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
    let rest = rest.concat();
    let section = rest.strip_prefix('(').and_then(|rest| rest.split(')').next()).unwrap_or_default();
    let page = format!("{name}.{section}");
    let text = format!("<b>{}</b>{}", escaped(name), escaped(rest.trim_end_matches(',')));
    let comma = if rest.ends_with(',') { "," } else { "" };
    if exists(&page) {
        format!("<a href=\"{}.html\">{text}</a>{comma}", escaped(&page))
    } else {
        text + comma
    }
}

/// HTML elements that are open.
#[derive(Default)]
struct State {
    paragraph: bool,
    list: bool,
    /// The next line is the term of a list entry.
    term: bool,
    lines: bool,
}

impl State {
    fn text(&mut self, out: &mut String, html: &str) {
        if self.term {
            out.push_str(&format!("<dt>{html}</dt>\n<dd>"));
            self.term = false;
            self.paragraph = true;
        } else if self.lines {
            out.push_str(html);
            out.push('\n');
        } else {
            if !self.paragraph {
                out.push_str("<p>");
                self.paragraph = true;
            }
            out.push_str(html);
            out.push('\n');
        }
    }

    fn end_paragraph(&mut self, out: &mut String) {
        if std::mem::take(&mut self.paragraph) && !self.list {
            out.push_str("</p>\n");
        }
        if self.list && !self.lines {
            self.end_list(out);
        }
    }

    fn end_list(&mut self, out: &mut String) {
        if std::mem::take(&mut self.list) {
            out.push_str("</dd>\n</dl>\n");
            self.paragraph = false;
        }
    }

    fn begin_item(&mut self, out: &mut String) {
        if self.list {
            out.push_str("</dd>\n");
        } else {
            self.end_paragraph(out);
            out.push_str("<dl>\n");
            self.list = true;
        }
        self.term = true;
    }

    fn begin_lines(&mut self, out: &mut String) {
        if std::mem::take(&mut self.paragraph) && !self.list {
            out.push_str("</p>\n");
        }
        out.push_str("<pre>");
        self.lines = true;
    }

    fn end_lines(&mut self, out: &mut String) {
        out.push_str("</pre>\n");
        self.lines = false;
        // The text of a list entry continues after it.
        self.paragraph = self.list;
    }

    fn close(&mut self, out: &mut String) {
        self.end_paragraph(out);
        self.end_list(out);
    }
}

/// Returns the arguments of a request: words, or quoted text.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (word, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(plain(word));
        rest = behind.trim_start();
    }
    words
}

/// Returns the text without roff's escapes.
fn plain(text: &str) -> String {
    let escapes = [
        ("\\(dq", "\""),
        ("\\(ti", "~"),
        ("\\(ha", "^"),
        ("\\(ga", "`"),
        ("\\&", ""),
        ("\\-", "-"),
        ("\\e", "\\"),
    ];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    'text: while let Some(c) = rest.chars().next() {
        for (escape, means) in escapes {
            if let Some(behind) = rest.strip_prefix(escape) {
                out.push_str(means);
                rest = behind;
                continue 'text;
            }
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_html() {
        let roff = ".TH LHSCP 1 \"d\" \"v\" \"m\"\n.SH \"SEE ALSO\"\ntext \\-a <b>\n.TP\n.BI \\-c \" cipher\"\nUse it.\n\
                    .TP\n.B x\nMore.\n.PP\nAfter.\n.BR lhssh (1) ,\n.BR ls (1)\n.nf\na  b\n.fi\n";
        let html = html(roff, &|page| page == "lhssh.1").unwrap();
        let expected = "<h1>lhscp(1)</h1>\n<h2 id=\"see-also\">SEE ALSO</h2>\n<p>text -a &lt;b&gt;\n</p>\n<dl>\n\
             <dt><b>-c</b><i> cipher</i></dt>\n<dd>Use it.\n</dd>\n<dt><b>x</b></dt>\n<dd>More.\n</dd>\n</dl>\n\
             <p>After.\n<a href=\"lhssh.1.html\"><b>lhssh</b>(1)</a>,\n<b>ls</b>(1)\n</p>\n<pre>a  b\n</pre>\n";
        assert_eq!(html, expected);
    }

    #[test]
    fn unknown_requests_are_errors() {
        assert!(html(".XX a\n", &|_| false).is_err());
    }
}
