//! Pages from Markdown, with anchors of headings like GitHub's.

use std::collections::BTreeMap;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html::push_html};

/// Renders a page. `target` converts the path of a source file to that of its page.
pub(super) fn html(text: &str, target: &dyn Fn(&str) -> String) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut events: Vec<Event<'_>> = Parser::new_ext(text, options).collect();
    let mut seen = BTreeMap::new();
    for index in 0..events.len() {
        match &events[index] {
            Event::Start(Tag::Heading { .. }) => {
                let name = heading(&events[index + 1..], &mut seen);
                if let Event::Start(Tag::Heading { id, .. }) = &mut events[index] {
                    *id = Some(name.into());
                }
            }
            Event::Start(Tag::Link { dest_url, .. }) if is_local(dest_url) => {
                let (path, part) = dest_url.split_once('#').unwrap_or((dest_url, ""));
                let mut link = if path.is_empty() { String::new() } else { target(path) };
                if !part.is_empty() {
                    link = format!("{link}#{part}");
                }
                if let Event::Start(Tag::Link { dest_url, .. }) = &mut events[index] {
                    *dest_url = CowStr::from(link);
                }
            }
            _ => {}
        }
    }
    let mut out = String::with_capacity(text.len() * 2);
    push_html(&mut out, events.into_iter());
    // Wide tables scroll separately.
    out.replace("<table>", "<div class=\"table\"><table>").replace("</table>", "</table></div>")
}

fn is_local(link: &str) -> bool {
    !link.contains("://") && !link.starts_with("mailto:")
}

/// Returns the anchor of a heading, from the events behind its start.
fn heading(events: &[Event<'_>], seen: &mut BTreeMap<String, usize>) -> String {
    let mut name = String::new();
    for event in events {
        match event {
            Event::End(TagEnd::Heading(_)) => break,
            Event::Text(text) | Event::Code(text) => name.push_str(text),
            _ => {}
        }
    }
    let name: String = name
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect();
    let count = seen.entry(name.clone()).or_insert(0);
    *count += 1;
    if *count == 1 { name } else { format!("{name}-{}", *count - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_and_links_are_those_of_github() {
        let text =
            "# `longhaul verify --json`: x\n\n## Again\n\n## Again\n\n[a](b.md#again) [c](https://d/e.md)\n";
        let html = html(text, &|path| path.replace(".md", ".html"));
        assert!(html.contains("<h1 id=\"longhaul-verify---json-x\">"), "{html}");
        assert!(html.contains("<h2 id=\"again\">") && html.contains("<h2 id=\"again-1\">"), "{html}");
        assert!(html.contains("href=\"b.html#again\"") && html.contains("href=\"https://d/e.md\""), "{html}");
    }
}
