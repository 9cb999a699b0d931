//! The samples as CSV (RFC 4180), with one line for each sample of each end.

use lh_metrics::{Point, SSH_FIELDS, Side};
use lh_sys::tcp_info::FIELDS;

use crate::pairs::Connection;

/// Columns before those of the samples.
const FIRST: [&str; 5] = ["run", "host", "side", "seconds", "congestion_control"];

/// All samples of all connections. The kernel's columns begin with `tcp_`, this program's with `ssh_`;
/// missing values are empty.
pub(crate) fn csv(connections: &[Connection]) -> String {
    let tcp = FIELDS.iter().map(|field| format!("tcp_{}", field.name));
    let ssh = SSH_FIELDS.iter().map(|name| format!("ssh_{name}"));
    let columns: Vec<String> = FIRST.iter().map(|&name| name.to_owned()).chain(tcp).chain(ssh).collect();
    let mut out = columns.join(",") + "\r\n";
    for connection in connections {
        for (side, run) in connection.ends() {
            for point in &run.points {
                line([&run.about.run, &run.about.host], side, point, &mut out);
            }
        }
    }
    out
}

fn line(names: [&str; 2], side: Side, point: &Point, out: &mut String) {
    let sample = &point.sample;
    let [run, host] = names.map(quoted);
    let control = sample.congestion_control.as_deref().unwrap_or_default();
    let first = [run, host, side.name().to_owned(), point.seconds.to_string(), quoted(control)];
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let tcp = FIELDS.iter().map(|field| number(sample.tcp(field.name)));
    let ssh = SSH_FIELDS.iter().map(|name| number(sample.ssh(name)));
    let cells: Vec<String> = first.into_iter().chain(tcp).chain(ssh).collect();
    out.push_str(&cells.join(","));
    out.push_str("\r\n");
}

/// A text cell, quoted where RFC 4180 requires it or a spreadsheet would treat it as a formula.
fn quoted(text: &str) -> String {
    // A spreadsheet evaluates text with these first characters even in quotes; an apostrophe makes it text.
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if guard.is_empty() && !text.contains(['"', ',', '\n', '\r']) {
        return text.to_owned();
    }
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_metrics::{About, Run, Sample};

    #[test]
    fn sample_lines_have_as_many_cells_as_the_heading() {
        let sample = Sample { tcp: vec![("rtt", 9)], ssh: vec![("rekeys", 2)], congestion_control: None };
        let about = About { run: "1-2".to_owned(), host: "plain".to_owned(), ..About::default() };
        let points = vec![Point { seconds: 0.25, sample: sample.clone() }, Point { seconds: 1.0, sample }];
        let run = Run { about, side: Side::Local, points };
        let text = csv(&[Connection { local: Some(run), remote: None, files: Vec::new() }]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 3);
        let value = |name: &str| lines[1][lines[0].iter().position(|column| *column == name).unwrap()];
        assert_eq!([value("run"), value("side"), value("seconds")], ["1-2", "local", "0.25"]);
        assert_eq!([value("tcp_rtt"), value("ssh_rekeys"), value("tcp_snd_cwnd")], ["9", "2", ""]);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    }

    #[test]
    fn text_cannot_leave_its_cell_or_become_a_formula() {
        assert_eq!(quoted("a,\"b\"\nc"), "\"a,\"\"b\"\"\nc\"");
        assert_eq!(quoted("=cmd()"), "\"'=cmd()\"");
    }
}
