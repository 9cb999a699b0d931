//! Jump hosts: the diagnosis names the limiting part of the path, before the jump host or after it.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use lh_interop::tunnel::free_port;
use lh_link::path::Side;

use super::path_setup::{PathSetup, Plan, first, spec};

/// A file of the client's configuration: jump hosts have nothing else of it.
fn configuration(setup: &PathSetup) -> String {
    let lab = &setup.lab;
    let lines = [
        "IdentitiesOnly yes\nBatchMode yes\nStrictHostKeyChecking no\nWarnWeakCrypto no".to_owned(),
        format!("UserKnownHostsFile {}", lab.arg("known")),
        format!("IdentityFile {}", lab.arg("user_ed25519")),
    ];
    lab.write("jump.conf", &lines.join("\n"));
    lab.arg("jump.conf")
}

/// The setup's server once more, at the near end; killed when dropped.
struct NearServer(Child);

impl NearServer {
    fn start(setup: &PathSetup, port: u16) -> Self {
        let [near, far] = [Side::Near, Side::Far].map(|side| format!("ListenAddress {}", side.ipv4()));
        let config = setup.lab.read("sshd.conf").replace(&far, &near);
        let config = config.replace(&format!("Port {}", setup.port), &format!("Port {port}"));
        setup.lab.write("near.conf", &config);
        let program = setup.lab.arg(&setup.user.name);
        let mut command = setup.wan.command(Side::Near, &program);
        command.args(["-D", "-e", "-f", &setup.lab.arg("near.conf")]);
        let log = std::fs::File::create(setup.lab.path("near.log")).unwrap();
        let server = Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let patience = Instant::now() + Duration::from_secs(20);
        while !setup.lab.read("near.log").contains("Server listening") && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }
}

impl Drop for NearServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_the_way_to_a_jump_host() {
    let plan = Plan { spec: spec(200, 80), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_the_way_to_a_jump_host", &plan) else { return };
    setup.sysctl(Side::Near, "tcp_wmem", "4096 16384 131072");
    // The server is its own jump host.
    let jump_host = format!("{}@{}:{}", setup.user.name, Side::Far.ipv4(), setup.port);
    let config = configuration(&setup);
    let diagnosis = setup.examine(&["-F", &config, "-J", &jump_host], "jump_host");
    let words =
        ["The way to the jump host 10.88.0.2 limits uploads", "send buffer", "longhaul doctor 10.88.0.2"];
    first(&diagnosis, "jump_host", &words);
    assert!(!diagnosis.to_string().contains("from the jump host 10"), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_the_way_behind_a_jump_host() {
    let plan = Plan { spec: spec(40, 30), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_the_way_behind_a_jump_host", &plan) else { return };
    let port = free_port();
    let _near = NearServer::start(&setup, port);
    let jump_host = format!("{}@{}:{port}", setup.user.name, Side::Near.ipv4());
    let config = configuration(&setup);
    let diagnosis = setup.examine(&["-F", &config, "-J", &jump_host], "jump_host");
    let words = [
        "The way from the jump host 10.88.0.1 to the server limits",
        "ms from there",
        "ss -tin dst 10.88.0.2",
    ];
    first(&diagnosis, "jump_host", &words);
    let alone = diagnosis["measured"]["jump_host"]["upload_bytes_per_second"].as_f64().unwrap();
    let through = diagnosis["measured"]["upload"]["bytes_per_second"].as_f64().unwrap();
    assert!((2e6..5.2e6).contains(&through) && alone > 1.5 * through, "planted 5 MB/s: {diagnosis:#}");
}
