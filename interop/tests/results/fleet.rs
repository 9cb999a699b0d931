//! `longhaul bench --hosts` with paths that another host measures.

use lh_interop::{me, our, script};
use serde_json::Value;

use super::Ends;

/// The host that measures is asked by `lhssh`, and measures with a configuration of its own.
#[test]
fn host_that_measures_is_asked_for_its_path() {
    let ends = Ends::start();
    let (lab, asked) = (&ends.lab, ends.lab.arg("asked"));
    // The `longhaul` of that host: it has no flags of connections, which its own configuration would name.
    let own: Vec<String> = lab.client_options();
    let own = own.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let body = format!(
        "printf '%s\\n' \"$@\" >>'{asked}'\nshift\nexec '{}' bench {own} -P {} \"$@\"",
        our("longhaul").display(),
        ends.server.port
    );
    script(&lab.path("bin/longhaul"), &body);
    let host = format!("{}@127.0.0.1", me());
    lab.write("paths.txt", &format!("{host} {host}\n{host} nowhere.invalid  # has no address\n"));
    let out =
        ends.run(&["bench", "--json", "--hosts", &lab.arg("paths.txt"), "--html", &lab.arg("paths.html")]);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2, "{out}");
    let [measured, lost] = &lines[..] else { panic!("{out}") };
    assert_eq!((measured["from"].as_str(), measured["error"].as_str()), (Some(host.as_str()), None), "{out}");
    let rows = measured["run"]["rows"].as_array().expect("rows");
    let has = |column: &str| {
        rows.iter().any(|row| {
            let is_it = row["table"].as_str().is_some_and(|table| table.starts_with("throughput"));
            is_it && row["column"] == column && row["median"].as_f64().is_some_and(|median| median > 0.0)
        })
    };
    assert!(has("up") && has("down"), "{measured:#}");
    assert!(lost["run"].is_null(), "{lost:#}");
    let why = lost["error"].as_str().expect("a reason");
    assert!(why.contains("Could not resolve hostname nowhere.invalid"), "{why}");
    // It got the flags of measurements, and the host by itself.
    let asked = lab.read("asked");
    let first: Vec<&str> = asked.lines().take_while(|line| *line != "--").collect();
    assert_eq!(first.first(), Some(&"bench"), "{asked}");
    for word in ["--quick", "--json", "-q", "-B", "--remote-dir"] {
        assert!(first.contains(&word), "{word}: {asked}");
    }
    assert!(!first.contains(&"-i") && !first.contains(&"--hosts") && !first.contains(&"--html"), "{asked}");
    assert!(asked.lines().any(|line| line == "nowhere.invalid"), "{asked}");
    let page = lab.read("paths.html");
    assert!(page.contains("data-up=") && page.contains("nowhere.invalid"), "{page}");
    for directory in ["here", "there"] {
        assert_eq!(std::fs::read_dir(lab.path(directory)).unwrap().count(), 0, "{directory}");
    }
}
