//! A page for a browser: the tables of one run, or of several side by side. It refers to nothing outside
//! itself and needs no script.

use std::fmt::Write as _;

use super::compare::compare;
use super::conclude::conclusions;
use super::matrix::{self, Pair};
use super::ratio::{Ratio, Verdict};
use super::results::Results;
use super::row::Row;
use crate::stats::rate;

const STYLE: &str = "\
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
body{margin:0 auto;max-width:80rem;padding:1rem}\
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}\
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #8885}\
h1,h2,h3,p,li,caption{overflow-wrap:anywhere}tbody th{min-width:9em;overflow-wrap:anywhere}\
th:first-child{text-align:left}caption{text-align:left;font-weight:600;padding:1rem 0 .25rem}\
.many{font-size:.8rem}.many .bar{width:calc(4rem*var(--part))}.many caption{font-size:1rem}.many th,.many td{padding:.25rem .3rem}.ratio{display:block}.noise{font-style:italic}h3{font-size:1rem;margin:1rem 0 .25rem}h2{border-top:1px solid #8885;padding-top:1rem;margin-top:2rem}.bar{display:block;height:.3rem;width:calc(6rem*var(--part));min-width:1px;background:#3b7dd8;border-radius:.15rem;margin-left:auto}\
.scroll{position:relative}\
@media print{body{max-width:none;font-size:9pt;padding:0}.scroll{overflow:visible}tr,li{break-inside:avoid}\
caption,h2{break-after:avoid}th,td{padding:.1rem .3rem}.many{font-size:6.5pt}.many caption{font-size:9pt}.many th,.many td{padding:.1rem .15rem}.bar,.many .bar{width:calc(2.2rem*var(--part));print-color-adjust:exact;-webkit-print-color-adjust:exact}}\
@media screen and (max-width:60rem){\
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}\
.many{font-size:1rem}table,caption,tbody,tr,tbody th,td{display:block}\
tr{border-bottom:1px solid #8885;padding:.4rem 0}th,td,.many th,.many td{border:0;padding:.1rem 0}\
td{display:grid;grid-template-columns:1fr auto;column-gap:1rem}td::before{content:attr(data-label);content:attr(data-label)/\"\";text-align:left}\
.bar,.many .bar{grid-column:1/-1;margin-left:0;width:calc(100%*var(--part))}}";

/// A run on a page.
struct Run<'a> {
    results: &'a Results,
    /// The host that measured and the one that was measured, on a page about the paths of a site.
    path: Option<[&'a str; 2]>,
    /// Its number, on a page about several.
    number: Option<usize>,
}

/// One page about several runs, side by side.
pub fn page(runs: &[Results]) -> String {
    let mut out = begin();
    let number = |index: usize| (runs.len() > 1).then_some(index + 1);
    let run = |(index, results)| Run { results, path: None, number: number(index) };
    tables(&runs.iter().enumerate().map(run).collect::<Vec<_>>(), &mut out);
    end(out)
}

/// One page about the paths of a site: the matrix, and below it the tables of each path.
pub fn matrix_page(pairs: &[Pair]) -> String {
    let mut out = begin();
    grid(pairs, &mut out);
    let measured = pairs.iter().filter_map(|pair| Some((pair, Pair::results(pair)?)));
    // Each by itself: side by side, the columns of a dozen paths have no place on any screen.
    for (index, (pair, results)) in measured.enumerate() {
        let path = Some([pair.measuring_host(), &pair.to]);
        let run = Run { results, path, number: Some(index + 1) };
        tables(std::slice::from_ref(&run), &mut out);
    }
    end(out)
}

fn begin() -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>Longhaul bench</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>Longhaul bench</h1>\n"
    )
}

fn end(mut out: String) -> String {
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// Verdicts and tables of runs.
fn tables(runs: &[Run<'_>], out: &mut String) {
    verdicts(runs, out);
    let mut tables: Vec<&str> = Vec::new();
    for table in runs.iter().flat_map(|run| run.results.rows.tables()) {
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    for table in tables {
        draw(runs, table, out);
    }
    missing(runs, out);
}

/// The matrix: a row for each host that measures, a column for each that is measured.
fn grid(pairs: &[Pair], out: &mut String) {
    let mut rows: Vec<&str> = Vec::new();
    let mut columns: Vec<&str> = Vec::new();
    for pair in pairs {
        if !rows.contains(&pair.measuring_host()) {
            rows.push(pair.measuring_host());
        }
        if !columns.contains(&pair.to.as_str()) {
            columns.push(&pair.to);
        }
    }
    let middle = matrix::middle(pairs);
    let _ = write!(
        out,
        "<section aria-label=\"Paths\">\n<p>{}</p>\n<div class=\"scroll\"><table role=\"table\">\n\
         <caption>paths: highest throughput up, down</caption>\n<thead role=\"rowgroup\"><tr role=\"row\"><th role=\"columnheader\" scope=\"col\">from, to</th>",
        escape(&matrix::summary(pairs))
    );
    for column in &columns {
        let _ = write!(out, "<th role=\"columnheader\" scope=\"col\">{}</th>", escape(column));
    }
    out.push_str("</tr></thead>\n<tbody role=\"rowgroup\">\n");
    for row in &rows {
        let _ = write!(out, "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">{}</th>", escape(row));
        for column in &columns {
            let here = pairs.iter().filter(|pair| pair.measuring_host() == *row && pair.to == *column);
            let shown: Vec<String> = here.map(|pair| path(pair, middle)).collect();
            let shown = if shown.is_empty() { "–".to_owned() } else { shown.join("<br>") };
            let _ =
                write!(out, "<td role=\"cell\" data-label=\"{}\"><span>{shown}</span></td>", escape(column));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
}

/// The result of one path in a cell of the matrix.
fn path(pair: &Pair, middle: f64) -> String {
    match (pair.rates(), &pair.result) {
        (Some([up, down]), _) => {
            let mark = if pair.is_slow(middle) { " <strong>slow</strong>" } else { "" };
            format!(
                "<span data-up=\"{up}\" data-down=\"{down}\">{}, {}</span>{mark}",
                whole(&rate(up)),
                whole(&rate(down))
            )
        }
        (None, Err(why)) => escape(&why.to_string()),
        (None, Ok(_)) => "nothing was measured".to_owned(),
    }
}

fn title(runs: &[Run<'_>], index: usize) -> String {
    let host = runs.get(index).map_or_else(String::new, |run| match run.path {
        // A list may have several names for an address.
        Some([from, to]) if to == run.results.host => format!("{from} to {to}"),
        Some([from, to]) => format!("{from} to {to} ({})", run.results.host),
        None => run.results.host.clone(),
    });
    match runs.get(index).and_then(|run| run.number) {
        Some(number) => format!("{number}: {host}"),
        None => host,
    }
}

fn verdicts(runs: &[Run<'_>], out: &mut String) {
    out.push_str("<section aria-label=\"Verdict\">\n");
    for (index, run) in runs.iter().enumerate() {
        let _ = writeln!(
            out,
            "<h2>{}</h2>\n<p>{}, {}, {}. Medians, ± half the spread; ~ marks figures from which \
             nothing follows.</p>\n<ul>",
            escape(&title(runs, index)),
            escape(&run.results.server),
            escape(&run.results.time),
            run.results.extent_in_words().replace(" s", "\u{a0}s")
        );
        for conclusion in conclusions(&run.results.rows) {
            let _ = writeln!(out, "<li>{}</li>", escape(&conclusion).replace(" %", "\u{a0}%"));
        }
        // Other paths are no better or worse versions of the first.
        if let Some(first) = runs.first().filter(|_| index > 0 && run.path.is_none()) {
            let compared = compare(first.results, run.results, 0.9);
            let _ = writeln!(
                out,
                "<li>Beside run 1: {} of {} figures are clearly worse by a tenth or more; of {} the rounds scatter \
                 too much, or are too few, to tell.</li>",
                compared.worse, compared.compared, compared.undecided
            );
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</section>\n");
}

fn draw(runs: &[Run<'_>], table: &str, out: &mut String) {
    let mut names: Vec<&str> = Vec::new();
    let mut columns: Vec<&str> = Vec::new();
    for run in runs {
        let (more_names, more_columns) = run.results.rows.names(table);
        for (all, more) in [(&mut names, more_names), (&mut columns, more_columns)] {
            for name in more {
                if !all.contains(&name) {
                    all.push(name);
                }
            }
        }
    }
    // More columns fit beside each other in small type.
    let size = if columns.len() * runs.len() > 8 { " class=\"many\"" } else { "" };
    let _ = write!(
        out,
        "<div class=\"scroll\"><table role=\"table\"{size}>\n<caption>{}</caption>\n<thead role=\"rowgroup\"><tr role=\"row\"><th role=\"columnheader\" scope=\"col\">&nbsp;</th>",
        escape(table)
    );
    let label = |column: &str, index: usize| {
        let run = if runs.len() > 1 { format!(" ({})", index + 1) } else { String::new() };
        format!("{}{run}", escape(column))
    };
    for column in &columns {
        for index in 0..runs.len() {
            let _ = write!(out, "<th role=\"columnheader\" scope=\"col\">{}</th>", label(column, index));
        }
    }
    out.push_str("</tr></thead>\n<tbody role=\"rowgroup\">\n");
    for name in &names {
        let _ = write!(out, "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">{}</th>", escape(name));
        for column in &columns {
            let of_all = || {
                runs.iter().filter_map(|run| {
                    names
                        .iter()
                        .filter_map(|name| run.results.rows.find(table, name, column))
                        .map(Row::median)
                        .reduce(f64::max)
                })
            };
            let most = of_all().fold(0.0, f64::max);
            // One figure has nothing to be compared with.
            let is_alone = names.len() == 1 && runs.len() == 1;
            for (index, run) in runs.iter().enumerate() {
                let label = label(column, index);
                match run.results.rows.find(table, name, column) {
                    Some(row) => {
                        // As long as its part of the longest, in each column, so that columns can be
                        // compared.
                        let part = if most > 0.0 { row.median() / most } else { 0.0 };
                        let class = if row.is_noise() { " class=\"noise\"" } else { "" };
                        let beside = runs.first().filter(|_| index > 0 && run.path.is_none());
                        let beside = beside.and_then(|first| first.results.rows.find(table, name, column));
                        let bar = format!("<span class=\"bar\" style=\"--part:{part:.3}\"></span>");
                        let bar = if is_alone { "" } else { &bar };
                        let _ = write!(
                            out,
                            "<td role=\"cell\"{class} data-label=\"{label}\" data-value=\"{}\"><span>{}{}</span>{bar}</td>",
                            row.median(),
                            whole(&escape(&row.show())),
                            beside.map_or_else(String::new, |first| against(row, first))
                        );
                    }
                    None => {
                        let _ = write!(out, "<td role=\"cell\" data-label=\"{label}\">–</td>");
                    }
                }
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

/// Keeps numbers with their units when a line is broken.
fn whole(figure: &str) -> String {
    figure.replace(' ', "\u{a0}").replace("\u{a0}±", " ±")
}

/// Compares a figure with the first run's: how many times better, or why that cannot be told.
fn against(row: &Row, first: &Row) -> String {
    let ratio = Ratio::of(row, first).filter(|_| row.unit == first.unit);
    ratio.map_or_else(String::new, |ratio| {
        let words = ratio.verdict.instead_of_ratio().map_or_else(
            || match ratio.verdict {
                Verdict::Same => "same as run 1".to_owned(),
                _ if ratio.median < 1.0 => {
                    format!("{} times worse than run 1", Ratio::factor(1.0 / ratio.median))
                }
                _ => format!("{} times better than run 1", Ratio::factor(ratio.median)),
            },
            str::to_owned,
        );
        format!("<small class=\"ratio\">{words}</small>")
    })
}

fn missing(runs: &[Run<'_>], out: &mut String) {
    if runs.iter().all(|run| run.results.missing.is_empty()) {
        return;
    }
    out.push_str("<section aria-label=\"Not measured\">\n<h3>Not measured</h3>\n<ul>\n");
    for (index, run) in runs.iter().enumerate() {
        for missing in &run.results.missing {
            let of =
                if runs.len() > 1 { format!("{}: ", escape(&title(runs, index))) } else { String::new() };
            let _ = writeln!(out, "<li>{of}{}</li>", escape(missing));
        }
    }
    out.push_str("</ul>\n</section>\n");
}

/// Returns the text for HTML, in an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
