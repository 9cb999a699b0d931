//! The documentation as a static site: guides, reference, manual pages. It needs no network and no scripts.

mod groups;
mod links;
mod man;
mod markdown;
mod text;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use self::groups::GROUPS;
use self::text::escaped;
use crate::workspace::{Outcome, root, target_dir};

const STYLE: &str = include_str!("style.css");

/// `cargo xtask site [--out DIR]`
pub(crate) fn run(args: &[String]) -> Outcome {
    let out = match args {
        [] => target_dir().join("site"),
        [flag, directory] if flag == "--out" => PathBuf::from(directory),
        _ => return Err("usage: cargo xtask site [--out DIR]".to_owned()),
    };
    let files = files(&root())?;
    links::check(&files)?;
    for (name, text) in &files {
        let path = out.join(name);
        let problem = |error: std::io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(path.parent().unwrap_or(&out)).map_err(problem)?;
        fs::write(&path, text).map_err(problem)?;
    }
    println!("site: {} files, all links lead somewhere: {}", files.len(), out.join("index.html").display());
    Ok(())
}

/// Returns every file of the site by its path.
fn files(root: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut files = BTreeMap::from([("style.css".to_owned(), STYLE.to_owned())]);
    let read = |name: &str| fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"));
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        files.insert(format!("{name}.txt"), read(name)?);
    }
    let manuals: Vec<(String, String)> = crate::docs::manual_pages()
        .into_iter()
        .filter_map(|(path, text)| Some((path.rsplit('/').next()?.to_owned(), text)))
        .collect();
    for (source, title) in GROUPS.iter().flat_map(|(_, pages)| pages.iter()) {
        let body = markdown::html(&read(source)?, &|link| page_of(link));
        let name = page_of(source);
        let text = page(&name, title, &body, &manuals);
        files.insert(name, text);
    }
    for (name, roff) in &manuals {
        let path = format!("man/{name}.html");
        let body = man::html(roff, &|page| manuals.iter().any(|(name, _)| name == page))?;
        let text = page(&path, name, &body, &manuals);
        files.insert(path, text);
    }
    Ok(files)
}

/// Returns the path of a source file's page.
fn page_of(source: &str) -> String {
    match source.strip_suffix("README.md") {
        Some(directory) => format!("{directory}index.html"),
        None => match source.strip_suffix(".md") {
            Some(stem) => format!("{stem}.html"),
            None if source.ends_with("LICENSE-MIT") || source.ends_with("LICENSE-APACHE") => {
                format!("{source}.txt")
            }
            None => source.to_owned(),
        },
    }
}

/// Returns a whole page: navigation and body.
fn page(path: &str, title: &str, body: &str, manuals: &[(String, String)]) -> String {
    let up = "../".repeat(path.matches('/').count());
    let entry = |target: &str, title: &str| {
        let here = if target == path { " aria-current=\"page\"" } else { "" };
        format!("<li><a href=\"{up}{target}\"{here}>{}</a></li>\n", escaped(title))
    };
    let mut navigation = String::new();
    for (heading, pages) in GROUPS {
        let entries: String = pages.iter().map(|(source, title)| entry(&page_of(source), title)).collect();
        navigation.push_str(&format!("<h2>{heading}</h2>\n<ul>\n{entries}</ul>\n"));
    }
    let entries: String = manuals.iter().map(|(name, _)| entry(&format!("man/{name}.html"), name)).collect();
    navigation.push_str(&format!("<h2>Manual pages</h2>\n<ul>\n{entries}</ul>\n"));
    let title = if title == "Longhaul" { title.to_owned() } else { format!("{title} - Longhaul") };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <link rel=\"stylesheet\" href=\"{up}style.css\">\n</head>\n<body>\n<main>\n<a class=\"to-pages\" href=\"#pages\">All pages</a>\n{body}</main>\n\
         <nav id=\"pages\" aria-label=\"Pages\">\n{navigation}</nav>\n</body>\n</html>\n",
        escaped(&title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_in_the_site_and_links_lead_somewhere() {
        let files = files(&root()).unwrap();
        links::check(&files).unwrap();
        for entry in fs::read_dir(root().join("docs")).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                assert!(files.contains_key(&page_of(&format!("docs/{name}"))), "{name} is in no group");
            }
        }
        assert!(files.contains_key("man/lhsshd_config.5.html"));
        for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".html")) {
            assert!(!text.contains("<script") && !text.contains("src=\"http"), "{name}");
        }
    }
}
