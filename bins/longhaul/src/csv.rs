//! The samples as CSV (RFC 4180), with one line for each sample of each end.

use lh_metrics::threads::Usage;
use lh_metrics::{Point, SSH_FIELDS, Side};
use lh_sys::tcp_info::FIELDS;

use crate::pairs::Connection;

/// Columns before those of the samples.
const FIRST: [&str; 5] = ["run", "host", "side", "seconds", "congestion_control"];

/// Columns behind them: the threads of the SSH process since the sample before.
const THREADS: [&str; 3] = ["busiest_thread", "busiest_thread_cores", "threads_taking_part"];

/// All samples of all connections. The kernel's columns begin with `tcp_`, this program's with `ssh_`;
/// missing values are empty.
pub(crate) fn csv(connections: &[Connection]) -> String {
    let tcp = FIELDS.iter().map(|field| format!("tcp_{}", field.name));
    let ssh = SSH_FIELDS.iter().map(|name| format!("ssh_{name}"));
    let columns: Vec<String> = FIRST
        .iter()
        .map(|&name| name.to_owned())
        .chain(tcp)
        .chain(ssh)
        .chain(THREADS.map(str::to_owned))
        .collect();
    let mut out = columns.join(",") + "\r\n";
    for connection in connections {
        for (side, run) in connection.ends() {
            let mut before = None;
            for point in &run.points {
                let usage = before.and_then(|before| Usage::of([before, point]));
                line([&run.about.run, &run.about.host], side, point, usage.as_ref(), &mut out);
                before = Some(point);
            }
        }
    }
    out
}

fn line(names: [&str; 2], side: Side, point: &Point, usage: Option<&Usage>, out: &mut String) {
    let sample = &point.sample;
    let [run, host] = names.map(quoted);
    let control = sample.congestion_control.as_deref().unwrap_or_default();
    let first = [run, host, side.name().to_owned(), point.seconds.to_string(), quoted(control)];
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let tcp = FIELDS.iter().map(|field| number(sample.tcp(field.name)));
    let ssh = SSH_FIELDS.iter().map(|name| number(sample.ssh(name)));
    let threads = usage.map_or_else(<[String; 3]>::default, |usage| {
        [quoted(&usage.busiest), format!("{:.3}", usage.share), usage.taking_part.to_string()]
    });
    let cells: Vec<String> = first.into_iter().chain(tcp).chain(ssh).chain(threads).collect();
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
    use lh_metrics::{Run, RunHeader, Sample, ThreadTime};

    #[test]
    fn sample_lines_have_as_many_cells_as_the_heading() {
        let sample = |cpu_micros| Sample {
            tcp: vec![("rtt", 9)],
            ssh: vec![("rekeys", 2)],
            threads: vec![ThreadTime { id: 1, name: "a,b".to_owned(), cpu_micros }],
            ..Sample::default()
        };
        let about = RunHeader { run: "1-2".to_owned(), host: "plain".to_owned(), ..RunHeader::default() };
        let points = vec![
            Point { seconds: 0.25, sample: sample(0) },
            Point { seconds: 1.25, sample: sample(400_000) },
        ];
        let run = Run { about, side: Side::Local, points };
        let text = csv(&[Connection { local: Some(run), remote: None, files: Vec::new() }]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 3);
        let value = |name: &str| lines[1][lines[0].iter().position(|column| *column == name).unwrap()];
        assert_eq!([value("run"), value("side"), value("seconds")], ["1-2", "local", "0.25"]);
        assert_eq!([value("tcp_rtt"), value("ssh_rekeys"), value("tcp_snd_cwnd")], ["9", "2", ""]);
        assert!(lines[2].join(",").ends_with(",\"a,b\",0.400,1"), "{text}");
        assert!(lines[..2].iter().all(|line| line.len() == lines[0].len()));
    }

    #[test]
    fn text_cannot_leave_its_cell_or_become_a_formula() {
        assert_eq!(quoted("a,\"b\"\nc"), "\"a,\"\"b\"\"\nc\"");
        assert_eq!(quoted("=cmd()"), "\"'=cmd()\"");
    }
}
