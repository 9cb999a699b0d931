//! Emulation of the link by the kernel's queueing disciplines: netem for delay and loss, tbf for rate and
//! queue.
//!
//! netem delays and drops packets as the kernel passes them to it. So if loss is configured, the veth pair
//! carries single packets (`gso_max_segs 1`); otherwise each loss would drop 64 KiB.

use crate::netns::run;
use crate::packet::FRAME_LEN;
use crate::shape::Shape;

/// Commands, each as an argument list.
pub type Commands = Vec<Vec<String>>;

/// True when the kernel has both disciplines, which is tested by using them in this namespace.
pub fn available(netns: &str) -> bool {
    let netem =
        ["tc", "-n", netns, "qdisc", "add", "dev", "lo", "root", "handle", "1:", "netem", "delay", "1ms"];
    let tbf = [
        "tc", "-n", netns, "qdisc", "add", "dev", "lo", "parent", "1:1", "handle", "10:", "tbf", "rate",
        "1gbit", "burst", "128kb", "limit", "1mb",
    ];
    let works = run(&netem).is_ok() && run(&tbf).is_ok();
    let _ = run(&["tc", "-n", netns, "qdisc", "delete", "dev", "lo", "root"]);
    works
}

/// Commands that apply the shape to device `device` of the namespace.
pub fn commands(netns: &str, device: &str, shape: &Shape, mtu: u32) -> Commands {
    let word = |text: &str| text.to_owned();
    let mut all = Vec::new();
    if shape.loss > 0.0 {
        all.push(words(&["ip", "-n", netns, "link", "set", device, "gso_max_segs", "1"]));
    }
    // netem's limit counts packets of any size, so it must suffice for the smallest.
    let limit = (shape.in_flight() / 64).max(10_000);
    let mut netem =
        words(&["tc", "-n", netns, "qdisc", "add", "dev", device, "root", "handle", "1:", "netem"]);
    netem.extend([word("limit"), limit.to_string()]);
    netem.extend([word("delay"), format!("{}us", shape.delay.as_micros())]);
    if shape.loss > 0.0 {
        netem.extend([word("loss"), format!("{}%", shape.loss * 100.0)]);
    }
    all.push(netem);
    // The bucket holds a millisecond, and at least one large segment.
    let burst = (shape.rate / 8 / 1000).max(128 * 1024);
    let queue = shape.queue.max(u64::from(mtu) + FRAME_LEN);
    let mut tbf =
        words(&["tc", "-n", netns, "qdisc", "add", "dev", device, "parent", "1:1", "handle", "10:", "tbf"]);
    tbf.extend([word("rate"), format!("{}bit", shape.rate)]);
    tbf.extend([word("burst"), format!("{burst}b"), word("limit"), format!("{queue}b")]);
    all.push(tbf);
    all
}

pub(crate) fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn shape_becomes_tc_commands() {
        let shape = Shape {
            rate: 2_000_000_000,
            delay: Duration::from_millis(25),
            queue: 12_500_000,
            loss: 0.001,
            reorder: 0.0,
            jitter: Duration::ZERO,
        };
        let lines: Vec<String> =
            commands("ns", "wan0", &shape, 1500).iter().map(|argv| argv.join(" ")).collect();
        assert_eq!(
            lines,
            [
                "ip -n ns link set wan0 gso_max_segs 1",
                "tc -n ns qdisc add dev wan0 root handle 1: netem limit 97656 delay 25000us loss 0.1%",
                "tc -n ns qdisc add dev wan0 parent 1:1 handle 10: tbf rate 2000000000bit burst 250000b limit 12500000b",
            ]
        );
    }
}
