//! Verdicts on planted records.

use super::*;
use lh_metrics::{RunHeader, Sample, Side, ThreadTime};

const SECOND: u64 = 1_000_000;

/// A run of ten seconds that sends 100 MB, in eleven samples whose counters grow evenly to `end`.
fn run(end: &[(&'static str, u64)], ssh: &[(&'static str, u64)], control: &str) -> Run {
    let settings = ["snd_cwnd", "snd_mss", "rtt"];
    let points = (0..=10).map(|second| {
        let tcp = end
            .iter()
            .map(|&(name, value)| (name, if settings.contains(&name) { value } else { value * second / 10 }));
        let mut own = vec![("bytes_in", 0), ("bytes_out", 10_000_000 * second), ("send_credit", 1 << 20)];
        for &(name, value) in ssh {
            own.retain(|(known, _)| *known != name);
            own.push((name, if name == "cpu_micros" { value * second / 10 } else { value }));
        }
        let congestion_control = Some(control.to_owned());
        Point {
            seconds: second as f64,
            sample: Sample { tcp: tcp.collect(), ssh: own, congestion_control, ..Sample::default() },
        }
    });
    Run { about: RunHeader::default(), side: Side::Local, points: points.collect() }
}

/// The verdict on an upload of 10 MB/s for ten seconds with this record of the client.
fn verdict_on(run: &Run) -> String {
    let evidence = Evidence {
        sender: Some(run),
        receiver: None,
        is_upload: true,
        average: 1e7,
        moved: 1e8,
        seconds: 10.0,
    };
    verdict(&evidence)
}

/// The verdict on a run whose process uses these threads for that percentage of the time.
fn judged_with_threads(percent: &[(&str, u64)]) -> String {
    let all: u64 = percent.iter().map(|(_, percent)| percent).sum();
    let mut run = run(&[("busy_time", 10 * SECOND)], &[("cpu_micros", all * SECOND / 10)], "cubic");
    for (second, point) in (0..).zip(&mut run.points) {
        let thread = |(id, &(name, percent)): (u32, &(&str, u64))| ThreadTime {
            id,
            name: name.to_owned(),
            cpu_micros: percent * second * 10_000,
        };
        point.sample.threads = (1..).zip(percent).map(thread).collect();
    }
    verdict_on(&run)
}

#[test]
fn losses_of_a_full_queue_are_no_limit() {
    // Recorded over 200 Mb/s with a round trip of 40 ms and a queue of as much: what slow start loses, and a
    // few segments each time that the queue is full again.
    let judge = |at_losses: u64, later: &[u64]| {
        let end = [("snd_cwnd", 880), ("snd_mss", 1448), ("rtt", 52_000), ("busy_time", 10 * SECOND)];
        let mut run = run(&end, &[], "cubic");
        for (second, point) in run.points.iter_mut().enumerate() {
            let after = |each: &&u64| **each <= second as u64;
            let lost = if second > 0 { 96 } else { 0 } + 20 * later.iter().filter(after).count() as u64;
            let rtt = if second == 0 || second == 1 || later.contains(&(second as u64)) {
                at_losses
            } else {
                44_000
            };
            point.sample.tcp.retain(|(name, _)| *name != "rtt" || second == 10);
            let acked = 22_700_000 * second as u64;
            let more = [("total_retrans", lost), ("min_rtt", 40_000), ("bytes_acked", acked)];
            point.sample.tcp.extend(more.into_iter().chain([("data_segs_out", acked / 1448)]));
            if second < 10 {
                point.sample.tcp.push(("rtt", rtt));
            }
        }
        let evidence = Evidence {
            sender: Some(&run),
            receiver: None,
            is_upload: true,
            average: 22.7e6,
            moved: 227e6,
            seconds: 10.0,
        };
        verdict(&evidence)
    };
    for (at_losses, later) in [(79_000, &[][..]), (79_000, &[4, 7]), (46_000, &[4, 7])] {
        let got = judge(at_losses, later);
        assert!(
            got.starts_with("TCP's congestion window, that is, the path"),
            "{at_losses}, {later:?}: {got}"
        );
    }
}

#[test]
fn threads_that_share_the_work_do_not_limit() {
    // Together these use as much as one busy core, and each of them has time to spare.
    let shared = judged_with_threads(&[("main", 45), ("packets", 30), ("packets", 20)]);
    assert!(shared.starts_with("Nothing stands out"), "{shared}");
    let full = judged_with_threads(&[("main", 30), ("packets", 97), ("resolve", 0)]);
    let expected = "The processor of the client: one core was busy, with the thread packets of its SSH process for \
                    97 % of the time (2 threads together 1.3 cores).";
    assert!(full.starts_with(expected), "{full}");
    let alone = judged_with_threads(&[("main", 90)]);
    assert!(alone.contains("the thread main of its SSH process for 90 % of the time. A cipher"), "{alone}");
}

fn judged(end: &[(&'static str, u64)], ssh: &[(&'static str, u64)], control: &str) -> String {
    let path = [
        ("snd_cwnd", 100),
        ("snd_mss", 1000),
        ("rtt", 10_000),
        ("busy_time", 10 * SECOND),
        ("data_segs_out", 100_000),
    ];
    let mut tcp = end.to_vec();
    tcp.extend(path.iter().filter(|(name, _)| !end.iter().any(|(known, _)| known == name)));
    let run = run(&tcp, ssh, control);
    verdict_on(&run)
}

#[test]
fn verdict_names_each_limit_with_its_evidence() {
    let says = |tcp: &[_], ssh: &[_], expected: &str| {
        let got = judged(tcp, ssh, "cubic");
        assert!(got.starts_with(expected), "{got}");
        got
    };
    says(&[], &[], "TCP's congestion window");
    let got = says(&[], &[("send_credit", 0)], "The SSH window of the server: in 100 % of 11 samples");
    assert!(got.ends_with("OpenSSH 2 MiB."), "{got}");
    // 30 kB in each round trip of 10 ms are 3 MB/s; in each of 50 microseconds they would be 600 MB/s.
    let got = says(&[], &[("send_credit", 30_000)], "The SSH window of the server");
    assert!(got.ends_with("OpenSSH 2 MiB."), "{got}");
    let got = says(
        &[("rtt", 50)],
        &[("send_credit", 30_000)],
        "The SSH window of the server: in 100 % of 11 samples",
    );
    assert!(got.ends_with("at the server is slower than the path."), "{got}");
    says(
        &[],
        &[("cpu_micros", 9 * SECOND)],
        "The processor of the client: its SSH process used 90 % of a core",
    );
    let got = says(
        &[],
        &[("cpu_micros", 12 * SECOND)],
        "The processor of the client: its SSH process used 1.2 cores with all its threads, a limit where",
    );
    assert!(!got.contains("100 %"), "{got}");
    says(&[("rwnd_limited", 5 * SECOND)], &[], "The receiver's TCP window: the client waited for it 50 %");
    let buffer = [("send_buffer_limit", 4_194_304)];
    let got = says(&[("sndbuf_limited", 5 * SECOND)], &buffer, "The send buffer of the client");
    assert!(got.contains("net.ipv4.tcp_wmem (now 4.2 MB at most)"), "{got}");
    says(&[("busy_time", 2 * SECOND)], &[], "The source of the data at the client");
    says(&[("snd_cwnd", 10_000)], &[], "Nothing stands out");
}

#[test]
fn rate_limit_takes_precedence() {
    let limited = [("rate_limit", 11_000_000), ("cpu_micros", 10 * SECOND)];
    let got = judged(&[("busy_time", SECOND)], &limited, "cubic");
    assert_eq!(got, "The rate limit that was asked for (-l, --pace, TcpPacing): 10.0 MB/s of 11.0 MB/s.");
    let far = [("rate_limit", 90_000_000)];
    assert!(judged(&[("busy_time", SECOND)], &far, "cubic").starts_with("The source"));
}

#[test]
fn loss_is_named_only_where_it_can_limit() {
    // 10 MB/s over 10 ms: at a loss of 0.0007 Reno reaches 4.6 MB/s.
    let lossy = [("total_retrans", 70)];
    let got = judged(&lossy, &[], "cubic");
    assert!(got.starts_with("Loss on the path: the client sent 0.07 % of 100000 segments again"), "{got}");
    assert!(got.contains("bbr instead of cubic"), "{got}");
    // BBR does not slow down for so little loss, and is not advised where it is in use.
    assert!(judged(&lossy, &[], "bbr").starts_with("TCP's congestion window"));
    let much = judged(&[("total_retrans", 3000)], &[], "bbr");
    assert!(much.starts_with("Loss on the path") && !much.contains("bbr instead"), "{much}");
    // The same loss on loopback: 50 microseconds and segments of 64 KiB allow a thousand times the rate.
    let loopback = [("total_retrans", 70), ("rtt", 50), ("snd_mss", 65_483)];
    assert!(!judged(&loopback, &[], "cubic").starts_with("Loss"));
    // A handful of lost segments is not significant.
    assert!(!judged(&[("total_retrans", 70), ("data_segs_out", 900)], &[], "cubic").starts_with("Loss"));
}

#[test]
fn start_up_losses_of_bbr_limit_no_run() {
    let tcp = [
        ("snd_cwnd", 100),
        ("snd_mss", 1000),
        ("rtt", 10_000),
        ("busy_time", 10 * SECOND),
        ("data_segs_out", 100_000),
        ("bytes_acked", 100_000_000),
        ("total_retrans", 3000),
    ];
    let even = run(&tcp, &[], "bbr");
    assert!(verdict_on(&even).starts_with("Loss on the path"), "{}", verdict_on(&even));
    // All of them between the second sample and the third.
    let mut start = even;
    for (second, point) in start.points.iter_mut().enumerate() {
        let lost = point.sample.tcp.iter_mut().find(|(name, _)| *name == "total_retrans").unwrap();
        lost.1 = if second < 2 { 0 } else { 3000 };
    }
    assert!(verdict_on(&start).starts_with("TCP's congestion window"), "{}", verdict_on(&start));
}

#[test]
fn too_little_evidence_gives_no_verdict() {
    let run = Run { points: run(&[], &[], "cubic").points[..3].to_vec(), ..run(&[], &[], "cubic") };
    let all = Evidence {
        sender: Some(&run),
        receiver: None,
        is_upload: false,
        average: 1e7,
        moved: 2e7,
        seconds: 2.0,
    };
    assert!(verdict(&all).starts_with("No verdict: 3 samples of the server"));
    assert!(verdict(&Evidence { moved: 1e5, ..all }).starts_with("No verdict: 100.0 kB in 2.0 s"));
    let all = Evidence { sender: None, receiver: Some(&run), moved: 2e7, ..all };
    assert!(verdict(&all).contains("no figures of the server"));
}
