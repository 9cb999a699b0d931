//! The result of a flow, from samples of both ends and from the lines that the server's script prints.

use lh_metrics::Sample;

use super::super::shapers::Shaper;
use super::super::turns::Turns;
use super::*;

/// Sixty samples, 50 ms apart from half a second on: 1 MB/s on uploads, 600 kB/s on downloads.
fn samples() -> Vec<Point> {
    let sample = |n: u64| {
        let tcp = vec![
            ("bytes_acked", 50_000 * n),
            ("min_rtt", 20_000 + n),
            ("options", WINDOW_SCALING),
            ("rtt", 21_000),
            ("snd_mss", 1448),
            ("data_segs_out", 40 * n),
            ("total_retrans", n / 7),
            ("delivery_rate_app_limited", n % 2),
        ];
        let ssh = vec![
            ("bytes_in", 30_000 * n),
            ("bytes_out", 51_000 * n),
            ("rekeys", n / 11),
            ("cpu_micros", 9_000 * n),
            ("send_credit", if n.is_multiple_of(4) { 90_000 } else { 0 }),
            ("receive_window", 2_000_000 + n),
        ];
        Sample { tcp, ssh, ..Sample::default() }
    };
    (0..60).map(|n| Point { seconds: 0.5 + 0.05 * n as f64, sample: sample(n) }).collect()
}

/// The lines of the script: those of both directions, and those of downloads.
const SCRIPT: &str = "p=7 (sshd) S 1 7 7 0 -1 4194560 100 0 0 0 100 50 0 0 20 0 1 0 100
q=7 (sshd) S 1 7 7 0 -1 4194560 100 0 0 0 300 150 0 0 20 0 1 0 100
b=/proc/7/task/7/schedstat:100000000 50000000 9;
e=/proc/7/task/7/schedstat:700000000 350000000 99;
g=/sys/fs/cgroup/a|20000 100000|nr_periods 10 nr_throttled 3 throttled_usec 70000;
h=/sys/fs/cgroup/a|20000 100000|nr_periods 40 nr_throttled 12 throttled_usec 280000;
j=/sys/fs/cgroup/a|1000000|max|max 4 high 0 oom_kill 1 full 20000;
w=/sys/fs/cgroup/a|1000000|max|max 12 high 0 oom_kill 3 full 60000;
D=eth0: 1000000 1 0 0 0 0 0 0 9000000 1 0 0 0 0 0 0;
E=eth0: 4000000 1 0 0 0 0 0 0 36000000 1 0 0 0 0 0 0;
m=IpExt: InCEPkts InECT0Pkts;IpExt: 3 90;
n=IpExt: InCEPkts InECT0Pkts;IpExt: 18 540;
y=cpu  900 0 100 100 0 0 0 70 0 0
z=cpu  2700 0 300 1160 0 0 0 210 0 0
A=Cpus_allowed: f 4
U=6 12
T=9 27
R=4711 strace
";
const OF_DOWNLOADS: &str = "o=ESTAB 0 0 a:22 b:5 tos:0x48
s=cubic rtt:50.1/0.1 mss:1448 cwnd:100 data_segs_out:1400 retrans:0/7 snd_wnd:65536
B=device eth0;qdisc tbf 8001: root rate 90Mbit burst 15Kb; Sent 1 bytes (dropped 5, overlimits 70);
F=device eth0;qdisc tbf 8001: root rate 90Mbit burst 15Kb; Sent 3 bytes (dropped 15, overlimits 210);
";

/// A flow of three seconds of which both ends have samples.
fn shown(direction: Direction) -> Shown {
    let data = Some((0.5, 3.5));
    let shown =
        Shown { local: samples(), remote: samples(), pings: vec![(2.0, 0.03)], data, ..Shown::default() };
    match direction {
        Direction::Up => Shown { out: SCRIPT.into(), ..shown },
        Direction::Down => Shown { err: format!("{SCRIPT}{OF_DOWNLOADS}").into(), ..shown },
    }
}

/// True for numbers that differ by rounding only.
fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs()
}

#[test]
fn upload_is_read_from_the_samples_of_this_end() {
    let flow = summarise(Direction::Up, &shown(Direction::Up));
    assert!(close(flow.rate, 1e6) && close(flow.moved, 59.0 * 51_000.0), "{flow:?}");
    assert_eq!((flow.seconds, flow.samples, flow.ping), (3.0, 42, Some(0.03)));
    assert_eq!((flow.rekeys.count, flow.rekeys.bytes_each), (4, 512_500.0));
    let windows = SshWindows { closed: 32.0 / 42.0, server: Some(90_000.0), constant: None, granted: None };
    assert_eq!(flow.windows, windows);
    assert_eq!(flow.application, Application { starved: Some(0.5), unread: Some(0.5), taken: None });
    assert_eq!((flow.tcp.least_rtt, flow.tcp.scales_windows), (Some(0.02), Some(true)));
    assert_eq!(flow.tcp.acknowledges_selectively, Some(false));
    let sender = flow.tcp.sender.as_ref().unwrap();
    assert_eq!((sender.segments, sender.resent, sender.loaded_rtt), (2360.0, 8.0, Some(0.021)));
    assert!(flow.tcp.drops.is_some() && flow.packets.mark.is_none() && flow.packets.shapers.is_empty());
    assert!(close(flow.client.cpu.unwrap(), 0.18), "{flow:?}");
}

#[test]
fn flow_with_rare_samples_has_a_rate_all_the_same() {
    // Packets of a slow cipher keep this end from its samples. What was under way arrives half a second late.
    let rare = || {
        let mut shown = shown(Direction::Down);
        shown.local.truncate(1);
        (shown.moved.received, shown.ended) = (1_400_000, Some(4.0));
        shown
    };
    let flow = summarise(Direction::Down, &rare());
    assert!(close(flow.rate, 400_000.0) && !flow.is_significant(), "{flow:?}");
    // Those behind the warm-up are of one moment.
    let mut shown = rare();
    shown.local =
        vec![Point { seconds: 3.4, ..samples()[7].clone() }, Point { seconds: 3.45, ..samples()[7].clone() }];
    assert!(close(summarise(Direction::Down, &shown).rate, 400_000.0));
    // One that broke off has none.
    let failure = Some("the connection was closed".to_owned());
    assert_eq!(summarise(Direction::Down, &Shown { failure, ..rare() }).rate, 0.0);
}

#[test]
fn command_that_is_slow_sets_the_rate_of_an_upload() {
    let looks = (0..20).map(|n| format!("C={:.2} {}\n", 7.0 + 0.2 * f64::from(n), 80_000 * n));
    let text = looks.chain([SCRIPT.to_owned()]).collect::<String>();
    let flow = summarise(Direction::Up, &Shown { out: text.into(), ..shown(Direction::Up) });
    assert_eq!(flow.application.taken, Some(flow.rate));
    assert!(close(flow.rate, 0.4e6), "{flow:?}");
}

#[test]
fn download_without_samples_of_the_server_is_read_from_its_socket() {
    let mut shown = shown(Direction::Down);
    let of_samples = summarise(Direction::Down, &shown);
    assert_eq!(of_samples.tcp.sender.as_ref().unwrap().segments, 2360.0);
    assert!(close(of_samples.server.cpu.unwrap(), 0.18), "{of_samples:?}");
    shown.remote.clear();
    let flow = summarise(Direction::Down, &shown);
    assert!(close(flow.rate, 0.6e6), "{flow:?}");
    assert_eq!(flow.windows, SshWindows { granted: Some(2_000_059.0), ..SshWindows::default() });
    assert_eq!(flow.tcp.sender.as_ref().unwrap().segments, 1400.0);
    assert_eq!(flow.packets.mark, Some(0x48));
    let [Shaper { delayed, dropped, .. }] = &flow.packets.shapers[..] else { panic!("{flow:?}") };
    assert_eq!((*delayed, *dropped), (140.0, 10.0));
    // Three seconds of processor time in three seconds.
    assert!(close(flow.server.cpu.unwrap(), 1.0), "{flow:?}");
}

#[test]
fn script_tells_what_the_server_used() {
    let flow = summarise(Direction::Up, &shown(Direction::Up));
    let Turns { ran, waited } = flow.server.turns.unwrap();
    assert!(close(ran, 0.2) && close(waited, 0.1), "{flow:?}");
    let quota = flow.server.quota.unwrap();
    assert_eq!((quota.periods, quota.throttled), (30, 9));
    let memory = flow.server.memory.unwrap();
    assert_eq!((memory.reached, memory.killed), (8, 2));
    assert_eq!(flow.server.memory_groups["/sys/fs/cgroup/a"].killed, 3);
    assert!(close(flow.server.stolen.unwrap(), 140.0 / 2140.0));
    assert!(close(flow.server.idle.unwrap(), 1060.0 / 3200.0));
    assert_eq!(flow.server.stopped, Some(Stopped { found: 9, looks: 27 }));
    assert_eq!(flow.server.tracer.unwrap().name, "strace");
    assert_eq!((flow.server.devices[0].received, flow.server.devices[0].sent), (1e6, 9e6));
    assert!(close(flow.packets.marked.unwrap(), 15.0 / 465.0));
}

#[test]
fn flow_without_data_has_only_its_failure() {
    let failure = Some("the connection was closed".to_owned());
    let flow = summarise(Direction::Up, &Shown { data: None, failure, ..shown(Direction::Up) });
    assert_eq!((flow.rate, flow.samples, flow.is_significant()), (0.0, 0, false));
    assert!(flow.failure.is_some() && flow.server.turns.is_none() && flow.tcp.sender.is_none());
}
