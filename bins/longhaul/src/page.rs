//! The HTML page: a summary that needs no script, and the data that `report.js` draws. It refers to no
//! external resource.

use std::fmt::Write as _;

use lh_instrument::bench::escape;
use lh_metrics::{Run, Side};
use serde_json::{Value, json};

use crate::outage::{Outage, outages};
use crate::pairs::Connection;
use crate::series::{PLOTS, Plot};
use crate::summary::{Summary, summary};
use crate::units::{in_unit, size};

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// Number of colours in the style sheet.
const COLOURS: usize = 8;

/// Headings of the table, in the order of [`cells`].
const HEADINGS: [&str; 10] = [
    "Time",
    "Received",
    "Sent",
    "Average",
    "Peak",
    "Least RTT",
    "Resent",
    "Rekeys",
    "CPU client, server",
    "Congestion control",
];

/// The whole page for these connections.
pub(crate) fn page(connections: &[Connection]) -> String {
    let mut rows = String::new();
    let mut verdicts = String::new();
    for (index, connection) in connections.iter().enumerate() {
        let (sum, title) = (summary(connection), title(connections, index));
        row(index, connection, &title, &sum, &mut rows);
        let settings = if sum.settings.is_empty() {
            String::new()
        } else {
            format!("<small>{}</small>", escape(&sum.settings.join("; ")))
        };
        let _ = writeln!(
            verdicts,
            "<li><span class=\"key k{}\"></span><b>{}</b> {}{}{settings}</li>",
            index % COLOURS,
            escape(&title),
            sum.outage.map_or_else(String::new, |outage| format!("{outage} ")),
            escape(&sum.verdict)
        );
    }
    let headings: String = HEADINGS.iter().map(|name| heading(name)).collect();
    let mut plots = String::new();
    let mut data: Vec<Value> = Vec::new();
    let ends = ends(connections);
    let has_samples = ends.iter().any(|end| !end.run.points.is_empty());
    // Empty plots would tell nothing more than the table.
    for plot in PLOTS.iter().filter(|_| has_samples) {
        let lines = lines(plot, &ends);
        let values = values(plot, &lines);
        let _ = writeln!(
            plots,
            "<section class=\"plot\" id=\"{}\"><h2>{}</h2><div class=\"chart\"></div>{values}</section>",
            plot.id, plot.title
        );
        let lines: Vec<Value> = lines.iter().map(Line::json).collect();
        data.push(json!({ "id": plot.id, "unit": plot.unit, "lines": lines }));
    }
    let data = in_script(&json!(data));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>Longhaul report</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header><h1>Longhaul report</h1></header>\n<main>\n\
         <section><h2>What looks limiting</h2><ul class=\"verdicts\">\n{verdicts}</ul></section>\n\
         <section class=\"wide\"><h2>Connections</h2><div class=\"scroll\"><table role=\"table\" class=\"cards\">\n\
         <thead role=\"rowgroup\"><tr role=\"row\">{}{headings}</tr></thead>\n\
         <tbody role=\"rowgroup\">\n{rows}</tbody>\n</table></div></section>\n{plots}</main>\n<noscript><p>The plots need scripts.</p></noscript>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        heading("Connection")
    )
}

/// Title of a connection on the page: its host, numbered where there are several connections.
fn title(connections: &[Connection], index: usize) -> String {
    let host = connections.get(index).and_then(Connection::about).map_or("", |about| about.host.as_str());
    // Characters that turn the direction of text would turn what follows the name, too.
    let host = lh_client::sanitise(host);
    if connections.len() > 1 { format!("{}: {host}", index + 1) } else { host }
}

/// One end of a connection, and what all plots of it have in common.
struct End<'a> {
    run: &'a Run,
    /// Title in a legend.
    title: String,
    colour: usize,
    is_pale: bool,
    outages: Vec<Outage>,
}

fn ends(connections: &[Connection]) -> Vec<End<'_>> {
    let mut ends = Vec::new();
    for (index, connection) in connections.iter().enumerate() {
        for (side, run) in connection.ends() {
            ends.push(End {
                run,
                title: format!("{} ({})", title(connections, index), side.name()),
                colour: index % COLOURS,
                is_pale: side == Side::Remote,
                outages: outages(run),
            });
        }
    }
    ends
}

fn row(index: usize, connection: &Connection, title: &str, sum: &Summary, out: &mut String) {
    let Some(about) = connection.about() else { return };
    let hint = format!("{}\nrun {}\n{}", connection.files.join("\n"), about.run, about.peer);
    let _ = write!(
        out,
        "<tr role=\"row\" title=\"{}\"><th role=\"rowheader\" scope=\"row\"><span class=\"key k{}\"></span>{}<small>{}</small><small>{}</small></th>",
        escape(&hint),
        index % COLOURS,
        escape(title),
        escape(&about.start),
        escape(&lh_client::sanitise(&about.cipher))
    );
    for (heading, cell) in HEADINGS.iter().zip(cells(sum)) {
        let _ = write!(out, "<td role=\"cell\" data-label=\"{heading}\">{}</td>", escape(&cell));
    }
    out.push_str("</tr>\n");
}

/// The cells of a row, in the order of [`HEADINGS`].
fn cells(sum: &Summary) -> [String; HEADINGS.len()] {
    let unknown = || "–".to_owned();
    if !sum.has_samples {
        return HEADINGS.map(|_| unknown());
    }
    let cpu = sum.cpu.map(|cpu| cpu.map_or_else(unknown, |seconds| format!("{seconds:.2} s")));
    let congestion_control = match &sum.congestion_control {
        [None, None] => unknown(),
        [Some(one), Some(other)] if one == other => one.clone(),
        ends => ends.each_ref().map(|end| end.as_deref().unwrap_or("–")).join(" / "),
    };
    [
        format!("{:.1} s", sum.seconds),
        size(sum.received),
        size(sum.sent),
        format!("{}/s", size(sum.average)),
        format!("{}/s", size(sum.peak)),
        sum.least_rtt.map_or_else(unknown, |ms| in_unit("ms", ms)),
        format!("{}", sum.retransmitted),
        sum.rekeys.to_string(),
        cpu.join(", "),
        congestion_control,
    ]
}

/// A line of a plot. Each connection has a colour; the server's lines are paler than the client's.
struct Line<'a> {
    end: &'a End<'a>,
    name: &'static str,
    style: usize,
    points: Vec<(f64, f64)>,
}

impl Line<'_> {
    /// A short piece of it, for a table: what its colour and its dashes are.
    fn sample(&self) -> String {
        format!(
            "<svg viewBox=\"0 0 22 8\" aria-hidden=\"true\"><line class=\"line s{}{}\" style=\"stroke: var(--c{})\" \
             x1=\"0\" x2=\"22\" y1=\"4\" y2=\"4\"/></svg>",
            self.style,
            if self.end.is_pale { " pale" } else { "" },
            self.end.colour
        )
    }

    fn json(&self) -> Value {
        json!({
            "run": self.end.title, "name": self.name, "colour": self.end.colour, "style": self.style,
            "pale": self.end.is_pale, "points": self.points,
            "gaps": self.end.outages.iter().map(|outage| [outage.from, outage.to]).collect::<Vec<_>>(),
        })
    }
}

fn lines<'a>(plot: &Plot, ends: &'a [End<'a>]) -> Vec<Line<'a>> {
    let of_end = |end: &'a End<'a>| {
        let drawn = plot.draw(end.run, &end.outages).into_iter().enumerate();
        drawn.map(move |(style, (name, points))| Line { end, name, style, points })
    };
    ends.iter().flat_map(of_end).collect()
}

/// A heading of a column.
fn heading(text: &str) -> String {
    format!("<th role=\"columnheader\" scope=\"col\">{text}</th>")
}

/// The values of a plot as a table, for those who do not see the plot.
fn values(plot: &Plot, lines: &[Line<'_>]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let headings: String = ["Line", "Lowest", "Highest", "Last"].map(heading).concat();
    let mut out = format!(
        "<div class=\"values\"><table role=\"table\" aria-label=\"{}: values\">\n<thead role=\"rowgroup\">\
         <tr role=\"row\">{headings}</tr></thead>\n<tbody role=\"rowgroup\">\n",
        plot.title
    );
    for line in lines {
        let values = || line.points.iter().map(|(_, value)| *value);
        let (lowest, highest) = (values().reduce(f64::min), values().reduce(f64::max));
        let _ = write!(
            out,
            "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">{}{}: {}</th>",
            line.sample(),
            escape(&line.end.title),
            line.name
        );
        for value in [lowest, highest, values().next_back()] {
            let shown = value.map_or_else(|| "–".to_owned(), |value| in_unit(plot.unit, value));
            let _ = write!(out, "<td role=\"cell\">{shown}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>");
    out
}

/// JSON escaped for a script element, so that no part of it ends the element or begins a comment.
fn in_script(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_metrics::{Point, RunHeader, Sample};

    #[test]
    fn names_from_files_are_escaped() {
        let host = "</script><script>alert(1)</script>\u{202e}";
        let about = RunHeader { host: host.to_owned(), cipher: "<b>".to_owned(), ..RunHeader::default() };
        let point = |seconds| Point {
            seconds,
            sample: Sample {
                tcp: vec![("rtt", 9)],
                ssh: vec![("bytes_in", 5), ("bytes_out", 5)],
                ..Sample::default()
            },
        };
        let run = Run { about, side: Side::Remote, points: vec![point(0.0), point(1.0)] };
        let connection = Connection { local: None, remote: Some(run), files: vec!["f".to_owned()] };
        // The SVG namespace is an identifier, not a reference.
        let page = page(&[connection]).replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains("<script>alert") && !page.contains("<b>\"") && !page.contains('\u{202e}'));
        assert_eq!(page.matches("</script>").count(), 2);
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
