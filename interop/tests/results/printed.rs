//! The pages of `longhaul report` and `longhaul bench`, on paper and, of a run that was measured, on screens.

use lh_interop::{Lab, our, peers};
use serde_json::{Value, json};

use super::Ends;

const BROWSER: [&str; 1] = ["chromium-headless-shell"];

/// Asserts that all of these are on paper.
#[track_caller]
fn prints(printed: &lh_interop::Printed, texts: &[&str]) {
    assert!(printed.sheets >= 1 && printed.console.is_empty(), "{printed:?}");
    for text in texts {
        assert!(printed.text.contains(text), "{text}: {}", printed.text);
    }
}

/// Contents of the elements that begin and end like this, without tags and with plain blanks.
fn contents(page: &str, begin: &str, end: &str) -> Vec<String> {
    let plain = |rest: &str| {
        let part = rest.split(end).next().unwrap_or_default();
        let part = part.split_once('>').map_or(part, |(_, part)| part);
        let words = part.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text));
        words.collect::<String>().replace('\u{a0}', " ").replace("&nbsp;", " ").trim().to_owned()
    };
    page.split(begin).skip(1).map(plain).collect()
}

/// A file of metrics of an end that receives a megabyte each second.
fn metrics() -> String {
    let about = json!({
        "longhaul_metrics": 1, "run": "1", "side": "local", "start": "2026-01-01T00:00:00Z", "host": "h",
        "peer": "p", "cipher": "aes128-gcm@openssh.com",
    });
    let sample = |at: u64| {
        let ssh = json!({ "bytes_in": at * 1_000_000, "bytes_out": 100, "receive_window": 2_097_152 });
        let tcp = json!({ "rtt": 9000, "total_retrans": 3, "snd_cwnd": 10, "snd_mss": 1448 });
        format!("{}\n", json!({ "run": "1", "seconds": at, "ssh": ssh, "tcp": tcp }))
    };
    format!("{about}\n{}", (0..12).map(sample).collect::<String>())
}

#[test]
fn report_prints_its_verdict_and_numbers() {
    let Some([chromium]) = peers("report_prints_its_verdict_and_numbers", BROWSER) else { return };
    let lab = Lab::new();
    lab.write("m.local", &metrics());
    lab.run(&our("longhaul"), &["report", "-o", "page.html", "m.local"]).ok("report");
    let dom = lab.drawn(&chromium, "page.html");
    let cells = contents(&dom, "<td role=\"cell\"", "</td>");
    assert!(cells.len() >= 6 && cells.iter().any(|cell| cell.ends_with("MB/s")), "{cells:?}");
    let printed = lab.printed(&chromium, "page.html");
    prints(&printed, &["What looks limiting", "1.0 MB/s", "aes128-gcm"]);
    prints(&printed, &cells.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn bench_page_of_a_run_shows_and_prints_its_numbers() {
    let Some([chromium]) = peers("bench_page_of_a_run_shows_and_prints_its_numbers", BROWSER) else { return };
    let ends = Ends::start();
    let (lab, results) = (&ends.lab, ends.bench());
    lab.write("run.json", &results.to_string());
    lab.run(&our("longhaul"), &["report", "-o", "page.html", "run.json"]).ok("report");
    let rows = results["rows"].as_array().expect("rows");
    let medians: Vec<f64> = rows.iter().map(|row| row["median"].as_f64().expect("a median")).collect();
    assert!(medians.len() > 5, "{results:#}");
    let sorted = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all
    };
    let shown = |page: &str| -> Vec<f64> {
        let values =
            page.split("data-value=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok());
        sorted(values.collect())
    };
    for width in [360, 800, 1400] {
        let seen = lab.shown(&chromium, "page.html", width);
        assert_eq!((seen.too_wide.as_str(), seen.faint.as_str()), ("", ""), "{width}");
        assert!(seen.console.is_empty(), "{width}: {:?}", seen.console);
        let (shown, expected) = (shown(&seen.dom), sorted(medians.clone()));
        // Reading a number from JSON is exact to the last digit but one.
        let equal = |(shown, expected): (&f64, &f64)| (shown - expected).abs() <= expected.abs() * 1e-12;
        assert_eq!(shown.len(), expected.len(), "{width}");
        assert!(shown.iter().zip(&expected).all(equal), "{width}: {shown:?}, not {expected:?}");
    }
    let page = lab.read("page.html");
    let printed = lab.printed(&chromium, "page.html");
    let cells = contents(&page, "<td role=\"cell\"", "</td>");
    assert!(cells.iter().filter(|cell| *cell != "–").count() == medians.len(), "{cells:?}");
    prints(&printed, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    let words = |member: &str| -> Vec<String> {
        let texts = results[member].as_array().expect(member).iter().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    for text in words("conclusions").into_iter().chain(words("missing")) {
        prints(&printed, &[&text]);
    }
    prints(&printed, &["127.0.0.1", "Longhaul"]);
}

#[test]
fn page_of_a_site_prints_its_matrix() {
    let Some([chromium]) = peers("page_of_a_site_prints_its_matrix", BROWSER) else { return };
    let lab = Lab::new();
    let path = |to: &str, rate: f64| {
        let row = |column: &str| {
            json!({ "table": "throughput by cipher and MAC, through a pipe", "row": "aes128-gcm", "column": column,
                    "unit": "bytes_per_second", "better": "higher", "median": rate, "low": rate, "high": rate,
                    "values": [rate, rate, rate], "noise": false })
        };
        let run = json!({ "longhaul_bench": 1, "host": to, "server": "s", "time": "t", "seconds": 20.0, "rounds": 3,
                          "rows": [row("up"), row("down")], "missing": [] });
        json!({ "from": "", "to": to, "run": run, "error": null })
    };
    let lost = json!({ "from": "", "to": "c", "run": null, "error": "Connection refused" });
    lab.write("paths.json", &format!("{}\n{}\n{lost}\n", path("a", 150e6), path("b", 12e6)));
    lab.run(&our("longhaul"), &["report", "-o", "paths.html", "paths.json"]).ok("report");
    let printed = lab.printed(&chromium, "paths.html");
    prints(
        &printed,
        &["1 of 3 paths", "150 MB/s, 150 MB/s", "12.0 MB/s, 12.0 MB/s slow", "Connection refused"],
    );
}
