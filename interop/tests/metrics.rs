//! Metrics of both ends: the files that `Metrics` writes, HPN-SSH's request on the wire, and metrics that are
//! unavailable.

use std::io::BufReader;
use std::path::Path;

use lh_interop::{
    Inetd, Lab, Lhsshd, Ran, Terminal, find, make_blob, me, our, peers, skip, wait_for_samples,
};
use lh_metrics::{Run, read_runs};

const PYTHON: &str = "/usr/bin/python3";

fn runs(lab: &Lab, name: &str) -> Vec<Run> {
    let file = std::fs::File::open(lab.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    read_runs(BufReader::new(file)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn lhssh(lab: &Lab, port: u16, options: &[&str], command: &str) -> Ran {
    let mut args: Vec<String> = Vec::new();
    for option in options {
        args.extend(["-o".to_owned(), (*option).to_owned()]);
    }
    args.extend(lab.client_options());
    args.extend(["-p".into(), port.to_string(), format!("{}@127.0.0.1", me()), command.into()]);
    lab.run(&our("lhssh"), &args)
}

/// Returns the last value of a metric in a run.
fn last(run: &Run, tcp: bool, name: &str) -> u64 {
    let sample = &run.points.last().expect("samples").sample;
    let value = if tcp { sample.tcp(name) } else { sample.ssh(name) };
    value.unwrap_or_else(|| panic!("no {name} in {sample:?}"))
}

fn peer_script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name).to_string_lossy().into_owned()
}

/// Covers: ssh_config Metrics; ssh_config MetricsInterval; wire stack-metrics@hpnssh.org
#[test]
fn metrics_of_both_ends_are_written() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let options = ["Metrics=yes", "MetricsInterval=0.1", "RekeyLimit=2M"];
    // The regular samples at the end have the whole transfer.
    let files = ["ssh_stack_metrics.local", "ssh_stack_metrics.remote"].map(|name| lab.arg(name));
    let command = format!("head -c 9000000 /dev/zero; {}", wait_for_samples(&files, 6));
    let ran = lhssh(&lab, server.port, &options, &command);
    assert_eq!(ran.ok("lhssh").out.len(), 9_000_000);
    // Without MetricsPath the files are in the working directory, under HPN-SSH's names.
    let (local, remote) = (runs(&lab, "ssh_stack_metrics.local"), runs(&lab, "ssh_stack_metrics.remote"));
    let ([local], [remote]) = (&local[..], &remote[..]) else { panic!("{local:?} {remote:?}") };
    assert_eq!(local.about.run, remote.about.run);
    assert!(local.about.peer.starts_with("SSH-2.0-Longhaul_"), "{}", local.about.peer);
    assert!(!local.about.cipher.is_empty());
    for run in [local, remote] {
        assert!(run.points.len() >= 6, "{}", run.points.len());
        assert!(run.points.is_sorted_by(|a, b| a.seconds <= b.seconds));
        assert!(last(run, true, "rtt") > 0);
        // The number of key exchanges for 9 MB depends on the data in flight when each begins, and so on the
        // machine's load.
        assert!(last(run, false, "rekeys") >= 1, "9 MB with RekeyLimit=2M");
        assert!(
            last(run, false, "receive_window") == 0,
            "the last sample is of a connection without channels"
        );
        assert!(run.points.iter().any(|point| point.sample.ssh("receive_window") >= Some(2 << 20)));
    }
    assert_eq!(last(local, false, "rekeys"), last(remote, false, "rekeys"));
    assert!(last(local, false, "bytes_in") > 9_000_000);
    assert!(last(remote, false, "bytes_out") > 9_000_000);
    assert!(last(remote, true, "bytes_acked") > 9_000_000, "the kernel of the end that sent");
    assert!(last(local, true, "bytes_received") > 9_000_000);

    // A second run is appended to the first.
    lhssh(&lab, server.port, &["Metrics=yes"], "true").ok("again");
    let again = runs(&lab, "ssh_stack_metrics.local");
    assert_eq!(again.len(), 2);
    assert!(again[1].points.len() >= 2, "one at the beginning and one at the end, however short");
    assert!(runs(&lab, "ssh_stack_metrics.remote")[1].points.len() >= 2);
}

/// Covers: ssh_config MetricsPath
#[test]
fn metrics_path_enables_metrics_and_names_the_files() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    lhssh(&lab, server.port, &[&format!("MetricsPath={}/of-%n", lab.arg("home"))], "true").ok("lhssh");
    assert_eq!(runs(&lab, "home/of-127.0.0.1.local").len(), 1);
    assert_eq!(runs(&lab, "home/of-127.0.0.1.remote").len(), 1);
    assert!(!lab.path("ssh_stack_metrics.local").exists());
    // In another host's block it has no effect.
    lab.write("config", "Host elsewhere\nMetricsPath elsewhere\n");
    let mut args = vec!["-F".to_owned(), lab.arg("config")];
    args.extend(lab.client_options().into_iter().skip(2));
    args.extend(["-p".into(), server.port_arg(), format!("{}@127.0.0.1", me()), "true".into()]);
    lab.run(&our("lhssh"), &args).ok("lhssh -F");
    assert!(!lab.path("elsewhere.local").exists());
}

/// Covers: ssh_config Metrics (of lhscp and lhsftp)
#[test]
fn copies_are_measured_too() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 3 << 20);
    let mut args = vec!["-o".to_owned(), format!("MetricsPath={}", lab.arg("scp"))];
    args.extend(lab.client_options());
    args.extend([
        "-P".into(),
        server.port_arg(),
        lab.arg("blob"),
        format!("{}@127.0.0.1:{}", me(), lab.arg("up")),
    ]);
    lab.run(&our("lhscp"), &args).ok("lhscp");
    assert!(last(&runs(&lab, "scp.local")[0], false, "bytes_out") > 3 << 20);
    assert!(last(&runs(&lab, "scp.remote")[0], false, "bytes_in") > 3 << 20);
    lab.write("batch", &format!("get {} {}\n", lab.arg("blob"), lab.arg("down")));
    let mut args =
        vec!["-b".to_owned(), lab.arg("batch"), "-o".to_owned(), format!("MetricsPath={}", lab.arg("sftp"))];
    args.extend(lab.client_options());
    args.extend(["-P".into(), server.port_arg(), format!("{}@127.0.0.1", me())]);
    lab.run(&our("lhsftp"), &args).ok("lhsftp");
    assert!(last(&runs(&lab, "sftp.local")[0], false, "bytes_in") > 3 << 20);
}

/// Covers: wire stack-metrics@hpnssh.org (asked by HPN-SSH)
#[test]
fn an_hpn_client_is_answered_in_its_own_format() {
    let lab = Lab::new();
    if lab.run(Path::new(PYTHON), &["-c", "import paramiko"]).code != 0 {
        return skip(
            "an_hpn_client_is_answered_in_its_own_format",
            "Debian's python3-paramiko is not installed",
        );
    }
    let server = Lhsshd::start(&lab, "");
    let ask = |identification: &str| {
        let script = peer_script("hpn_metrics_client.py");
        let args = ["-W", "ignore", &script, &server.port_arg(), &me(), &lab.arg(""), identification];
        lab.run(Path::new(PYTHON), &args).ok("asking").text()
    };
    let said = ask("SSH-2.0-OpenSSH_10.2p1_hpn18.8.0");
    let names: Vec<&str> = said.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names[0], "kernel_version");
    let base = "state ca_state retransmits probes backoff options snd_wscale rcv_wscale rto ato snd_mss rcv_mss unacked sacked lost \
        retrans fackets last_data_sent last_ack_sent last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd \
        advmss reordering rcv_rtt rcv_space total_retrans";
    let base: Vec<String> = base.split_whitespace().map(|name| format!("tcpi_{name}")).collect();
    assert_eq!(names[1..=base.len()], base, "HPN-SSH's columns in its order");
    let value = |name: &str| -> u64 {
        let line = said.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {said}")).parse().unwrap()
    };
    assert_eq!(value("tcpi_state"), 1, "established");
    assert!(value("tcpi_rtt") > 0);
    // The version names the columns: each kernel's new ones are present as far as the kernel has them.
    let version = value("kernel_version");
    for (since, name) in [
        (0x03_0f00, "tcpi_pacing_rate"),
        (0x04_0100, "tcpi_bytes_received"),
        (0x04_0a00, "tcpi_busy_time"),
        (0x05_0400, "tcpi_snd_wnd"),
        (0x05_0500, "tcpi_fastopen_client_fail"),
    ] {
        assert_eq!(version >= since, names.contains(&name), "{name} with version {version:#x}");
    }
    assert!(!said.contains("ssh_"), "nothing that HPN-SSH does not know: {said}");
    // Our own clients get SSH metrics beside the kernel's.
    assert!(ask("SSH-2.0-Longhaul_9.9").contains("\nssh_receive_window "));
}

/// Covers: wire stack-metrics@hpnssh.org (answered by HPN-SSH)
#[test]
fn hpn_server_is_queried_for_metrics() {
    let lab = Lab::new();
    if lab.run(Path::new(PYTHON), &["-c", "import paramiko"]).code != 0 {
        return skip("hpn_server_is_queried_for_metrics", "Debian's python3-paramiko is not installed");
    }
    let serve = |kind: &str| {
        let script = peer_script("hpn_metrics_server.py");
        let args = ["-W".to_owned(), "ignore".into(), script, lab.arg(""), kind.to_owned()];
        Inetd::start(&lab, Path::new(PYTHON), &args)
    };
    let run = |kind: &str| {
        let server = serve(kind);
        let path = format!("MetricsPath={}", lab.arg(kind));
        let ran = lhssh(&lab, server.port, &[&path, "MetricsInterval=0.2"], "anything").ok(kind);
        assert_eq!(ran.text(), "done\n");
        ran.err
    };
    assert_eq!(run("good"), "");
    let remote = &runs(&lab, "good.remote")[0];
    assert!(remote.points.len() >= 4, "{}", remote.points.len());
    assert_eq!((last(remote, true, "rtt"), last(remote, true, "bytes_acked")), (12_345, 1 << 33));
    let windows: Vec<_> = remote.points.iter().map(|point| point.sample.tcp("snd_cwnd").unwrap()).collect();
    assert_eq!(windows[..3], [11, 12, 13], "one answer for each question, in order");

    // An answer that is under way at the end does not take the place of the last sample.
    assert_eq!(run("late"), "");
    let remote = &runs(&lab, "late.remote")[0];
    assert!(
        last(remote, true, "snd_cwnd") >= 1000,
        "of the time after the command: {:?}",
        remote.points.last()
    );

    let refused = run("refuse");
    let notice = "Remote does not support stack metric polling. Local data only.";
    assert_eq!(refused.matches(notice).count(), 1, "{refused}");
    let broken = run("broken");
    assert!(broken.contains("Metrics: answer of the remote side:"), "{broken}");
    for kind in ["refuse", "broken"] {
        assert!(runs(&lab, &format!("{kind}.local"))[0].points.len() >= 4);
    }
}

/// Covers: ssh_config Metrics (other servers)
#[test]
fn other_servers_are_not_queried_for_metrics() {
    let Some([sshd]) = peers("other_servers_are_not_queried_for_metrics", ["sshd"]) else { return };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "LogLevel DEBUG2");
    let ran = lhssh(&lab, server.port, &["MetricsPath=m"], "true").ok("lhssh");
    assert!(
        ran.err.contains("Remote does not support stack metric polling. Local data only."),
        "{}",
        ran.err
    );
    assert!(last(&runs(&lab, "m.local")[0], true, "rtt") > 0);
    assert!(!lab.path("m.remote").exists());
    assert!(!server.log().contains("stack-metrics"), "{}", server.log());
}

#[test]
fn metrics_failures_do_not_end_the_session() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let ran =
        lhssh(&lab, server.port, &["MetricsPath=/nonexistent/directory/m"], "echo fine").ok("no directory");
    assert_eq!(ran.text(), "fine\n");
    assert!(ran.err.contains("Metrics: /nonexistent/directory/m.local: "), "{}", ran.err);
    if Path::new("/dev/full").exists() {
        std::os::unix::fs::symlink("/dev/full", lab.path("full.local")).unwrap();
        let ran = lhssh(&lab, server.port, &["MetricsPath=full"], "echo fine").ok("full");
        assert_eq!(ran.text(), "fine\n");
        assert_eq!(ran.err.matches("No space left").count(), 1, "{}", ran.err);
        assert!(!runs(&lab, "full.remote").is_empty());
    }
    // With ProxyCommand this end has no TCP connection to measure; the other end has one.
    if let Some(nc) = find("nc").or_else(|| find("socat")) {
        let dial = if nc.ends_with("nc") { "%h %p" } else { "- TCP:%h:%p" };
        let proxy = format!("ProxyCommand={} {dial}", nc.display());
        lhssh(&lab, server.port, &["MetricsPath=p", &proxy], "true").ok("proxy");
        assert_eq!(runs(&lab, "p.local")[0].points[0].sample.tcp("rtt"), None);
        assert!(runs(&lab, "p.remote")[0].points[0].sample.tcp("rtt").is_some());
    } else {
        skip("metrics_with_proxy_command", "not installed: nc, socat");
    }
    for wrong in ["MetricsInterval=0", "MetricsInterval=soon"] {
        let ran = lhssh(&lab, server.port, &[wrong], "true");
        assert_eq!((ran.code, ran.err.contains("invalid time value")), (255, true), "{wrong}: {}", ran.err);
    }
}

/// The last line of a copy shows the average and the peak rate.
#[test]
fn the_last_line_of_a_copy_has_the_peak() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 3 << 20);
    let check = |screen: &str| {
        let line = screen.split(['\r', '\n']).rfind(|line| line.contains("100%")).expect("a last line");
        let (average, peak) = line.split_once(" peak ").unwrap_or_else(|| panic!("no peak in {line:?}"));
        assert!(average.trim_end().ends_with("B/s"), "{line:?}");
        assert!(peak.split_whitespace().next().is_some_and(|rate| rate.ends_with("B/s")), "{line:?}");
    };
    let mut args = lab.client_options();
    args.extend(["-P".into(), server.port_arg()]);
    let there = format!("{}@127.0.0.1", me());
    let mut scp = args.clone();
    scp.extend([lab.arg("blob"), format!("{there}:{}", lab.arg("up"))]);
    let mut terminal = Terminal::start(&our("lhscp"), &scp, lab.dir(), &lab.path("home"));
    terminal.expect("100%");
    terminal.expect("\n");
    check(&terminal.screen());
    assert_eq!(terminal.wait(), 0);
    args.push(there);
    let mut terminal = Terminal::start(&our("lhsftp"), &args, lab.dir(), &lab.path("home"));
    terminal.expect("sftp> ");
    terminal.send(&format!("get {} down\n", lab.arg("blob")));
    terminal.expect("100%");
    terminal.expect("sftp> ");
    check(&terminal.screen());
    terminal.send("quit\n");
    assert_eq!(terminal.wait(), 0);
}
