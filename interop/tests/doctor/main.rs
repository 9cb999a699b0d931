//! `longhaul doctor`: planted causes are named first, with their numbers.
//!
//! Paths are emulated between network namespaces, so these tests need root. The server is Debian's `sshd`
//! unless a test says otherwise, and the user has a login shell without start-up files of its own.

mod congestion;
mod delays;
mod jumps;
mod limits;
mod logins;
mod machines;
mod memory;
mod packets;
mod path;
mod path_setup;
mod quick_bench;
mod sessions;
mod shapers;
mod shells;
mod windows;

use lh_interop::{Lab, Lhsshd, our};
use serde_json::Value;

/// Covers: longhaul --local-dir
/// Covers: longhaul --remote-dir
#[test]
fn doctor_prints_a_page_and_leaves_no_file() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    std::fs::create_dir(lab.path("here")).unwrap();
    std::fs::create_dir(lab.path("there")).unwrap();
    let mut args = vec!["doctor".to_owned(), "--local-dir".to_owned(), lab.arg("here")];
    args.extend(["--remote-dir".to_owned(), lab.arg("there"), "-P".to_owned(), server.port_arg()]);
    args.extend(lab.client_options());
    args.push(format!("{}@127.0.0.1", lh_interop::me()));
    let page = lab.run(&our("longhaul"), &args).ok("doctor").text();
    assert!(page.contains("round trip") && page.contains("disks"), "{page}");
    assert!(page.contains("1. "), "{page}");
    for directory in ["here", "there"] {
        assert_eq!(std::fs::read_dir(lab.path(directory)).unwrap().count(), 0, "{directory}");
    }
    let unknown = lab.run(&our("longhaul"), &["doctor", "-F", "none", "-P", "1", "127.0.0.1"]);
    assert_eq!(unknown.code, 255);
    let refused = "longhaul: connect to host 127.0.0.1 port 1: Connection refused\n";
    assert_eq!((unknown.out.as_slice(), unknown.err.as_str()), (&b""[..], refused));
    // Programs get an object in any case.
    let unknown = lab.run(&our("longhaul"), &["doctor", "--json", "-F", "none", "-P", "1", "127.0.0.1"]);
    let value: Value = serde_json::from_slice(&unknown.out).expect("JSON");
    assert_eq!((unknown.code, &value["longhaul_doctor"]), (255, &serde_json::json!(1)));
    assert!(value["error"].as_str().is_some_and(|why| why.contains("Connection refused")), "{value}");
    assert_eq!(lab.run(&our("longhaul"), &["doctor"]).code, 2);
}
