//! `longhaul report`: from a measured session to the page that a browser shows.

use lh_interop::{Lab, Lhsshd, make_blob, me, our, peers, wait_for_samples};

/// Measures two connections, one that receives and one that sends, in files `down.*` and `up.*`.
fn measured() -> (Lab, Lhsshd) {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 8_000_000);
    for (name, command) in [("down", "head -c 9000000 /dev/zero"), ("up", "cat >/dev/null")] {
        // The plots have several points, and the last ones the whole transfer.
        let files = ["local", "remote"].map(|side| lab.arg(&format!("{name}.{side}")));
        let command = format!("{command}; {}", wait_for_samples(&files, 5));
        let mut args = vec!["-o".to_owned(), format!("MetricsPath={}", lab.arg(name))];
        args.extend(["-o".to_owned(), "MetricsInterval=0.05".to_owned()]);
        args.extend(lab.client_options());
        args.extend(["-p".into(), server.port_arg(), format!("{}@127.0.0.1", me())]);
        let line = args.iter().map(|arg| format!("'{arg}'")).collect::<Vec<_>>().join(" ");
        let input = if name == "up" { "blob" } else { "/dev/null" };
        let client = our("lhssh");
        let command = command.replace('\'', "'\\''");
        lab.sh(&format!("{} {line} '{command}' <{input} >/dev/null", client.display())).ok(name);
    }
    (lab, server)
}

fn report(lab: &Lab, args: &[&str]) -> lh_interop::Ran {
    let mut all = vec!["report"];
    all.extend(args);
    lab.run(&our("longhaul"), &all)
}

/// Covers: longhaul -o
#[test]
fn a_browser_draws_the_report() {
    let Some([chromium]) = peers("a_browser_draws_the_report", ["chromium-headless-shell"]) else { return };
    let (lab, _server) = measured();
    report(&lab, &["-o", "page.html", "down.local", "down.remote", "up.local", "up.remote"]).ok("report");
    let page = lab.read("page.html");
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", " src=", "@import", "url("] {
        assert!(
            !without_namespace.contains(outside),
            "the page refers to something outside itself: {outside}"
        );
    }
    let dom = lab.drawn(&chromium, "page.html");
    assert!(dom.contains("data-drawn=\"yes\""), "the script ran to its end");
    for plot in ["throughput", "rtt", "cwnd", "retransmits", "window", "cpu"] {
        let section =
            dom.split("<section").find(|section| section.contains(&format!("id=\"{plot}\""))).expect(plot);
        // Two connections with two ends each: every end has at least one line, and its value in the legend.
        assert!(section.matches("<polyline").count() >= 4, "{plot}: {section}");
        assert!(section.matches("<b>").count() >= 4, "{plot}: values");
        assert!(section.contains("127.0.0.1 (remote)"), "{plot}: {section}");
        for points in section.split(" points=\"").skip(1) {
            let points = points.split('"').next().unwrap_or_default();
            assert!(!points.is_empty() && !points.contains("NaN"), "{plot}: {points}");
        }
    }
    assert!(dom.contains("What looks limiting"));
    assert_eq!(dom.matches("<tr role=\"row\" title=").count(), 2, "the two ends of a connection share a row");
    for label in ["CPU client, server", "Congestion control"] {
        let cell = dom.split(&format!("data-label=\"{label}\">")).nth(1).expect(label);
        assert!(!cell.starts_with('–') && !cell.starts_with("</td>"), "{label}: {}", &cell[..40]);
    }
    assert!(dom.contains("client: receive buffer at most") && dom.contains("server: send buffer at most"));

    // A click on the legend hides a line, and a second click shows it again.
    let click = "<script>const entry=document.querySelector('#throughput .legend button'),\
        line=document.querySelector('#throughput svg g'),seen=[];\
        for(let n=0;n<3;n+=1){seen.push(entry.getAttribute('aria-pressed')+getComputedStyle(line).display);entry.click();}\
        document.body.dataset.clicks=seen.join(' ');</script></body>";
    lab.write("click.html", &page.replace("</body>", click));
    let clicked = lab.drawn(&chromium, "click.html");
    assert!(
        clicked.contains("data-clicks=\"trueinline falsenone trueinline\""),
        "the legend toggles its line"
    );

    // With the pointer on the first plot, the cursor appears and the values are those of that time.
    let hover = "<script>const s=document.querySelector('#throughput svg'),b=s.getBoundingClientRect();\
        s.dispatchEvent(new PointerEvent('pointermove',{clientX:b.left+b.width/2,clientY:b.top+20}));\
        document.body.dataset.hover=getComputedStyle(s.querySelector('.cursor')).visibility\
        +' '+document.querySelector('#throughput .legend b').textContent;</script></body>";
    lab.write("hover.html", &page.replace("</body>", hover));
    let dom = lab.drawn(&chromium, "hover.html");
    let seen = dom.split("data-hover=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("hover");
    assert!(seen.starts_with("visible ") && seen.ends_with("B/s"), "{seen}");
}

/// The number in a text such as `12.3 MB/s`, in the unit's base.
fn number(text: &str) -> f64 {
    let (digits, unit) = text.split_once(' ').unwrap_or((text, ""));
    let factor = match unit.chars().next() {
        Some('k') => 1e3,
        Some('M') if unit != "ms" => 1e6,
        Some('G') => 1e9,
        Some('µ') => 1e-3,
        _ => 1.0,
    };
    digits.parse::<f64>().expect(text) * factor
}

/// Texts of the elements that begin with this tag, without the tags in them.
fn texts<'a>(part: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    part.split(begin).skip(1).filter_map(|rest| rest.split(end).next()).collect()
}

#[test]
fn report_fits_phones_and_screens() {
    let Some([chromium]) = peers("report_fits_phones_and_screens", ["chromium-headless-shell"]) else {
        return;
    };
    let (lab, _server) = measured();
    let files = ["down.local", "down.remote", "up.local", "up.remote"];
    report(&lab, &[&["-o", "page.html"], &files[..]].concat()).ok("report");
    let page = lab.read("page.html");
    let data = texts(&page, "id=\"data\">", "</script>")[0];
    let plots: serde_json::Value = serde_json::from_str(data).expect("the page's data");
    for width in [360, 800, 1400] {
        let shown = lab.shown(&chromium, "page.html", width);
        assert_eq!((shown.too_wide.as_str(), shown.faint.as_str()), ("", ""), "{width}");
        assert!(shown.console.is_empty(), "{width}: {:?}", shown.console);
        for plot in plots.as_array().expect("plots") {
            let id = plot["id"].as_str().expect("id");
            let begin = format!("id=\"{id}\">");
            let section = texts(&shown.dom, &begin, "</section>")[0];
            assert!(section.contains("role=\"img\" aria-label=\""), "{id}: {section}");
            let legend = texts(section, "<b>", "</b>");
            let cells = texts(section, "<td role=\"cell\">", "</td>");
            let lines = plot["lines"].as_array().expect("lines");
            assert_eq!((legend.len(), cells.len()), (lines.len(), 3 * lines.len()), "{id}");
            // On paper, the table is the legend as well.
            let rows = texts(section, "scope=\"row\">", "</th>");
            for (row, line) in rows.iter().zip(lines) {
                let colour = format!("var(--c{})", line["colour"]);
                assert!(row.starts_with("<svg") && row.contains(&colour), "{id}: {row}");
            }
            for (line, (legend, cells)) in lines.iter().zip(legend.iter().zip(cells.chunks(3))) {
                let last = line["points"].as_array().and_then(|all| all.last()).expect("a point");
                let last = last[1].as_f64().expect("a value");
                for text in [legend, &cells[2]] {
                    // Texts have at least two digits, and count whole bytes, segments and percents.
                    let tolerance = (0.06 * last).max(0.6);
                    assert!((number(text) - last).abs() <= tolerance, "{id}: {text} for {last}");
                }
                assert!(number(cells[0]) <= number(cells[1]), "{id}: lowest and highest: {cells:?}");
            }
        }
        let table = texts(&shown.dom, "class=\"cards\"", "</table>")[0];
        for (role, count) in [("columnheader", 11), ("rowheader", 2), ("cell", 20)] {
            let found = table.matches(&format!("role=\"{role}\"")).count();
            assert_eq!(found, count, "{role}: {table}");
        }
    }
    // What the checks would find: a wide part, grey on grey, and a message.
    let wrong = "<div style=\"width:2000px;color:#888;background:#999\">grey</div><script>console.log('seen')</script></body>";
    lab.write("wrong.html", &page.replace("</body>", wrong));
    let shown = lab.shown(&chromium, "wrong.html", 800);
    assert_eq!((shown.too_wide.as_str(), shown.faint.as_str()), ("HTML DIV", "grey 1.2"));
    assert_eq!(shown.console.len(), 1, "{:?}", shown.console);
}

#[test]
fn report_fits_with_long_names_and_large_values() {
    let Some([chromium]) = peers("report_fits_with_long_names_and_large_values", ["chromium-headless-shell"])
    else {
        return;
    };
    let lab = Lab::new();
    // A name without a place to break it, and a character that turns the direction of what follows.
    let long = format!("{}.example\u{202e}", "x".repeat(190));
    let mut lines = String::new();
    for (run, host, samples) in [("1", long.as_str(), 3), ("2", "short", 1)] {
        let about = serde_json::json!({
            "longhaul_metrics": 1, "run": run, "side": "local", "start": "2026-01-01T00:00:00Z", "host": host, "peer": "p",
            "cipher": "c",
        });
        lines += &format!("{about}\n");
        for at in 0..samples {
            let ssh = serde_json::json!({ "bytes_in": at * 900_000_000_000_000_u64, "bytes_out": 100 });
            // The round trip of a path that was interrupted: 4000 s, in microseconds.
            let tcp = serde_json::json!({ "segs_out": at, "rtt": 4_000_000_000_u64, "total_retrans": 0 });
            lines +=
                &format!("{}\n", serde_json::json!({ "run": run, "seconds": at, "ssh": ssh, "tcp": tcp }));
        }
    }
    lab.write("up.local", &lines);
    report(&lab, &["-o", "page.html", "up.local"]).ok("report");
    for width in [360, 800, 1400] {
        let shown = lab.shown(&chromium, "page.html", width);
        assert_eq!((shown.too_wide.as_str(), shown.faint.as_str()), ("", ""), "{width}");
        // As short as the space beside an axis, for the lines and in the tables.
        let sections = ["throughput", "rtt"].map(|id| {
            let begin = format!("id=\"{id}\">");
            texts(&shown.dom, &begin, "</section>").first().map_or("", |section| section).to_owned()
        });
        assert!(
            sections[0].contains(">900 TB/s</b>") && sections[0].contains(">900.0 TB/s</td>"),
            "{}",
            sections[0]
        );
        assert!(
            sections[1].contains(">4000 s</b>") && sections[1].contains(">4000.0 s</td>"),
            "{}",
            sections[1]
        );
        let cells = texts(texts(&shown.dom, "class=\"cards\"", "</table>")[0], "<td ", "</td>");
        assert!(!cells.iter().any(|cell| cell.contains(">-0")), "{cells:?}");
        assert!(!shown.dom.contains('\u{202e}'), "{width}");
    }
}

/// A file of metrics of one end: a sample in each second, where `None` is a time without connection.
fn metrics(side: &str, segments: &[Option<u64>]) -> String {
    let about = serde_json::json!({
        "longhaul_metrics": 1, "run": "1", "side": side, "start": "2026-01-01T00:00:00Z", "host": "h", "peer": "p",
        "cipher": "c",
    });
    let sample = |(at, segments): (usize, &Option<u64>)| {
        let ssh = serde_json::json!({ "bytes_in": at * 1_000_000, "bytes_out": 100 });
        let mut sample = serde_json::json!({ "run": "1", "seconds": at, "ssh": ssh });
        if let Some(count) = segments {
            sample["tcp"] = serde_json::json!({ "segs_out": count, "rtt": 9000, "total_retrans": 3 });
        }
        format!("{sample}\n")
    };
    format!("{about}\n{}", segments.iter().enumerate().map(sample).collect::<String>())
}

#[test]
fn report_leaves_a_gap_where_the_connection_was_lost() {
    let lab = Lab::new();
    let segments = [Some(1), Some(5), Some(9), None, None, None, Some(2), Some(4), Some(6)];
    lab.write("m.local", &metrics("local", &segments));
    lab.write("none.local", &metrics("local", &[]));
    report(&lab, &["-o", "page.html", "m.local"]).ok("report");
    let page = lab.read("page.html");
    assert!(page.contains("was interrupted for 4.0 s, from 2.0 s to 6.0 s, and went on"), "{page}");
    // A run without samples says so, and draws nothing.
    report(&lab, &["-o", "none.html", "none.local"]).ok("report");
    let none = lab.read("none.html");
    assert!(none.contains("No verdict: there is no sample") && !none.contains("id=\"throughput\""), "{none}");
    assert!(none.contains("data-label=\"Average\">–<"), "{none}");
    let test = "report_leaves_a_gap_where_the_connection_was_lost";
    let Some([chromium]) = peers(test, ["chromium-headless-shell"]) else { return };
    let dom = lab.drawn(&chromium, "page.html");
    let section = texts(&dom, "id=\"throughput\">", "</section>")[0];
    assert!(section.contains("class=\"outage\""), "{section}");
    let lines = texts(section, " points=\"", "\"");
    assert_eq!(lines.len(), 4, "received and sent, before and after: {section}");
    for name in ["page.html", "none.html"] {
        for width in [360, 768, 1400] {
            let shown = lab.shown(&chromium, name, width);
            assert_eq!((shown.too_wide.as_str(), shown.faint.as_str()), ("", ""), "{name} {width}");
            assert!(shown.console.is_empty(), "{name} {width}: {:?}", shown.console);
        }
    }
}

#[test]
fn the_default_file_and_standard_output() {
    let (lab, _server) = measured();
    report(&lab, &["up.local"]).ok("report");
    assert!(lab.read("report.html").starts_with("<!doctype html>"));
    // Flags may come before or after the files.
    for words in [["-o", "-", "up.local"], ["up.local", "-o", "-"]] {
        assert_eq!(report(&lab, &words).ok("stdout").text(), lab.read("report.html"));
    }
}

/// Covers: longhaul --csv
#[test]
fn csv_has_a_line_for_each_sample() {
    let (lab, _server) = measured();
    report(&lab, &["--csv", "down.local", "down.remote"]).ok("report");
    let table = lab.read("report.csv");
    let samples = |file: &str| lab.read(file).lines().filter(|line| line.contains("\"seconds\"")).count();
    assert_eq!(table.lines().count(), 1 + samples("down.local") + samples("down.remote"));
    let column = |name: &str| {
        table.lines().next().unwrap_or_default().split(',').position(|known| known == name).expect(name)
    };
    let (side, sent, cpu) = (column("side"), column("ssh_bytes_out"), column("ssh_cpu_micros"));
    let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let last_of = |name: &str| table.lines().map(cells).rfind(|cells| cells[side] == name).expect(name);
    assert!(last_of("remote")[sent].parse::<u64>().expect("bytes") > 9_000_000, "{table}");
    assert!(last_of("local")[cpu].parse::<u64>().expect("microseconds") > 0, "{table}");
    let (busiest, cores) = (column("busiest_thread"), column("busiest_thread_cores"));
    for name in ["local", "remote"] {
        // The last sample may follow so soon that no thread has taken part in between.
        let last = table.lines().map(cells).rfind(|cells| cells[side] == name && !cells[busiest].is_empty());
        let last = last.unwrap_or_else(|| panic!("{name}: {table}"));
        assert!((0.0..=1.0).contains(&last[cores].parse::<f64>().expect("cores")), "{name}: {table}");
    }
}

/// Without `MetricsInterval` there are samples, too; `lh_client` tests when.
#[test]
fn samples_have_all_groups_by_default() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let mut args = vec!["-o".to_owned(), format!("MetricsPath={}", lab.arg("short"))];
    args.extend(lab.client_options());
    let files = ["short.local", "short.remote"].map(|name| lab.arg(name));
    args.extend(["-p".into(), server.port_arg(), format!("{}@127.0.0.1", me()), wait_for_samples(&files, 4)]);
    lab.run(&our("lhssh"), &args).ok("lhssh");
    for side in ["short.local", "short.remote"] {
        let text = lab.read(side);
        let samples = text.lines().filter(|line| line.contains("\"seconds\"")).count();
        assert!(samples >= 4, "{side} has {samples} samples: {text}");
        assert!(text.contains("\"congestion_control\":\"") && text.contains("\"cpu_micros\":"), "{text}");
        assert!(text.contains("\"name\":\"main\""), "no thread: {text}");
    }
}

#[test]
fn bad_input_is_named_with_file_and_line() {
    let (lab, _server) = measured();
    let fails = |files: &[&str], expected: &str| {
        let ran = report(&lab, files);
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert_eq!(ran.err.trim_end(), format!("longhaul: {expected}"));
        assert!(!lab.path("report.html").exists());
    };
    let good = lab.read("down.local");
    let lines = good.lines().count();
    lab.write("cut", good.trim_end().trim_end_matches('}'));
    fails(
        &["up.local", "cut"],
        &format!("cut: line {lines}: the line is cut short (no complete JSON object)"),
    );
    fails(&["known_hosts"], "known_hosts: line 1: not JSON: this is no file of metrics");
    lab.write("other", "{\"a\": 1}\n");
    fails(
        &["other"],
        "other: line 1: neither the beginning of a run nor a sample: this is no file of metrics",
    );
    lab.write("empty", "");
    fails(&["empty"], "empty: no metrics in this file");
    fails(&["absent"], "absent: No such file or directory");
    lab.write("newer", "{\"longhaul_bench\": 7}\n");
    fails(&["newer"], "newer: line 1: results of longhaul bench in version 7; this program knows version 1");
    for (args, said) in
        [(&[][..], "nothing to do"), (&["rapport"], "unknown command rapport"), (&["report"], "no file")]
    {
        let ran = lab.run::<&str>(&our("longhaul"), args);
        assert_eq!((ran.code, ran.err.contains(said)), (2, true), "{}", ran.err);
    }
}
