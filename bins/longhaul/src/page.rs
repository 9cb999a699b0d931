//! The page: a summary that is there without scripts, and the data that `report.js` draws. It refers to nothing outside itself.

use std::fmt::Write as _;

use lh_metrics::Run;
use serde_json::{Value, json};

use crate::judge::{Summary, summary};
use crate::series::PLOTS;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The whole page for these runs, each with the file it came from.
pub(crate) fn page(runs: &[(String, Run)]) -> String {
    let mut rows = String::new();
    let mut verdicts = String::new();
    for (index, (file, run)) in runs.iter().enumerate() {
        let (sum, title) = (summary(run), title(runs, run));
        row(index, file, run, &title, &sum, &mut rows);
        // Where the other end of the same connection is here it has more to say.
        let partner =
            runs.iter().any(|(_, other)| other.about.run == run.about.run && other.side != run.side);
        if sum.sends || !partner {
            let _ = writeln!(
                verdicts,
                "<li><span class=\"key k{}\"></span><b>{}</b> {}</li>",
                index % COLOURS,
                escape(&title),
                escape(&sum.verdict)
            );
        }
    }
    let plots: String = PLOTS
        .iter()
        .map(|plot| {
            format!(
                "<section class=\"plot\" id=\"{}\"><h2>{}</h2><div class=\"chart\"></div></section>\n",
                plot.id, plot.title
            )
        })
        .collect();
    let data = in_script(&data(runs));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>Longhaul report</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header><h1>Longhaul report</h1></header>\n<main>\n\
         <section><h2>What looks limiting</h2><ul class=\"verdicts\">\n{verdicts}</ul></section>\n\
         <section class=\"wide\"><h2>Runs</h2><div class=\"scroll\"><table>\n<thead><tr><th>Run</th><th>Cipher</th>\
         <th>Time</th><th>Received</th><th>Sent</th><th>Average</th><th>Peak</th><th>Least RTT</th><th>Resent</th><th>Rekeys</th></tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div></section>\n{plots}</main>\n<noscript><p>The plots need scripts.</p></noscript>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// How many colours the style has.
const COLOURS: usize = 8;

/// What a run is called: both ends of a connection have its number.
fn title(runs: &[(String, Run)], run: &Run) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (_, each) in runs {
        if !names.contains(&each.about.run.as_str()) {
            names.push(&each.about.run);
        }
    }
    let number = names.iter().position(|name| *name == run.about.run).map_or(0, |at| at + 1);
    let numbered = if names.len() > 1 { format!("{number}: ") } else { String::new() };
    format!("{numbered}{} ({})", run.about.host, run.side.name())
}

fn row(index: usize, file: &str, run: &Run, title: &str, sum: &Summary, out: &mut String) {
    let rtt = sum.least_rtt.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.1} ms"));
    let about = &run.about;
    let hint = format!("{file}\nrun {}\n{}", about.run, about.peer);
    let cells = [
        about.cipher.clone(),
        format!("{:.1} s", sum.seconds),
        size(sum.received),
        size(sum.sent),
        format!("{}/s", size(sum.average)),
        format!("{}/s", size(sum.peak)),
        rtt,
        format!("{}", sum.retransmitted),
        sum.rekeys.to_string(),
    ];
    let _ = write!(
        out,
        "<tr title=\"{}\"><th scope=\"row\"><span class=\"key k{}\"></span>{}<small>{}</small></th>",
        escape(&hint),
        index % COLOURS,
        escape(title),
        escape(&about.start)
    );
    for cell in cells {
        let _ = write!(out, "<td>{}</td>", escape(&cell));
    }
    out.push_str("</tr>\n");
}

/// `12.3 MB`, powers of 1000 as networks count.
fn size(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            return if unit == "B" { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} PB")
}

/// The plots with their lines.
fn data(runs: &[(String, Run)]) -> Value {
    let plots: Vec<Value> = PLOTS
        .iter()
        .map(|plot| {
            let lines: Vec<Value> = runs
                .iter()
                .enumerate()
                .flat_map(|(index, (_, run))| {
                    plot.draw(run).into_iter().enumerate().map(move |(style, (name, points))| {
                        json!({
                            "run": title(runs, run), "name": name, "colour": index % COLOURS, "style": style, "points": points,
                        })
                    })
                })
                .collect();
            json!({ "id": plot.id, "unit": plot.unit, "lines": lines })
        })
        .collect();
    json!(plots)
}

/// JSON as it may stand in a script element: nothing in it ends the element or begins a comment.
fn in_script(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn escape(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use lh_metrics::{About, Point, Sample, Side};

    #[test]
    fn names_from_files_are_text_and_nothing_else() {
        let host = "</script><script>alert(1)</script>";
        let about = About { host: host.to_owned(), cipher: "<b>".to_owned(), ..About::default() };
        let point = |seconds| Point {
            seconds,
            sample: Sample { tcp: vec![("rtt", 9)], ssh: vec![("bytes_in", 5), ("bytes_out", 5)] },
        };
        let run = Run { about, side: Side::Remote, points: vec![point(0.0), point(1.0)] };
        // The namespace's name is no address that is visited.
        let page = page(&[("f".to_owned(), run)]).replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(host) && !page.contains("<b>\""));
        assert_eq!(page.matches("</script>").count(), 2);
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(size(999.0), "999 B");
        assert_eq!(size(12_345_678.0), "12.3 MB");
    }
}
