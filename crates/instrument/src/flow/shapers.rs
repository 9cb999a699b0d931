//! Traffic shapers of the sending device (tc(8)): queueing disciplines and classes with a rate.

use std::process::Command;

/// Shell function `K`: prints the queueing disciplines and classes of the device on the route to the client,
/// with their counters, a semicolon behind each line. Many users have no directory of system programs in
/// their path.
pub(super) const FUNCTION: &str = r#"K() { ( PATH=$PATH:/usr/sbin:/sbin; set -- $(ip -o route get "${SSH_CONNECTION%% *}"); while [ $# -gt 1 ] && [ "$1" != dev ]; do shift; done; [ $# -gt 1 ] && { echo "device $2"; tc -s qdisc show dev "$2"; tc -s class show dev "$2"; } | tr "\n" ";" ) 2>/dev/null; }"#;

/// A queueing discipline or class, and what it did during a transfer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shaper {
    pub(crate) device: String,
    /// Kind of the queueing discipline: `tbf`, `htb`, `fq`.
    pub(crate) kind: String,
    /// Its handle, or the class's identifier.
    pub(crate) handle: String,
    pub(crate) is_class: bool,
    /// It has no other queueing discipline above it.
    pub(crate) is_root: bool,
    /// The rate that it permits, bytes/s.
    pub(crate) rate: f64,
    /// The rate is that of each connection.
    pub(crate) is_of_each: bool,
    /// Packets that it has held back and dropped.
    pub(crate) delayed: f64,
    pub(crate) dropped: f64,
}

/// The shapers of the devices at one end; their counters so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Shapers(Vec<Shaper>);

impl Shapers {
    /// Those of this machine's devices.
    pub(super) fn here() -> Self {
        let qdiscs = run_tc(&["-s", "qdisc", "show"]);
        let mut all = Self::of(&qdiscs);
        let mut devices: Vec<&str> = Vec::new();
        for line in qdiscs.lines().filter(|line| has_classes(line)) {
            devices.extend(after(line, "dev").filter(|device| !devices.contains(device)));
        }
        for device in devices {
            let classes = run_tc(&["-s", "class", "show", "dev", device]);
            all.0.extend(Self::of(&format!("device {device}\n{classes}")).0);
        }
        all
    }

    /// Reads what `tc -s` prints, or the function `K`.
    pub(super) fn of(text: &str) -> Self {
        let mut device = "";
        let mut all: Vec<Shaper> = Vec::new();
        // Counters below a line of another kind belong to no shaper.
        let mut is_shaper = false;
        for line in text.split([';', '\n']).map(str::trim) {
            if let Some(name) = line.strip_prefix("device ") {
                device = name;
            } else if line.starts_with("qdisc ") || line.starts_with("class ") {
                let shaper = shaper(line, device);
                is_shaper = shaper.is_some();
                all.extend(shaper);
            } else if let Some(last) = all.last_mut().filter(|_| is_shaper) {
                let count = |word| after(line, word).and_then(|text| text.parse::<f64>().ok());
                let delayed = if last.kind == "fq" { count("throttled") } else { count("overlimits") };
                last.delayed = delayed.unwrap_or(last.delayed);
                last.dropped = count("(dropped").unwrap_or(last.dropped);
            }
        }
        Self(all)
    }

    /// The shapers, with what they have counted since `before`.
    pub(super) fn since(self, before: &Self) -> Vec<Shaper> {
        let grown = |mut shaper: Shaper| {
            let is_same = |other: &&Shaper| other.device == shaper.device && other.handle == shaper.handle;
            if let Some(before) = before.0.iter().find(is_same) {
                shaper.delayed = (shaper.delayed - before.delayed).max(0.0);
                shaper.dropped = (shaper.dropped - before.dropped).max(0.0);
            }
            shaper
        };
        self.0.into_iter().map(grown).collect()
    }
}

/// Output of `tc`; nothing where it is not installed.
fn run_tc(args: &[&str]) -> String {
    let path = ["/usr/sbin/tc", "/sbin/tc"].into_iter().find(|path| std::path::Path::new(path).exists());
    let done = Command::new(path.unwrap_or("tc")).args(args).output();
    done.map_or_else(|_| String::new(), |done| String::from_utf8_lossy(&done.stdout).into_owned())
}

/// True for queueing disciplines whose rates are those of their classes.
fn has_classes(line: &str) -> bool {
    line.starts_with("qdisc htb ") || line.starts_with("qdisc hfsc ")
}

/// A line of `tc` about a queueing discipline or class that has a rate.
fn shaper(line: &str, device: &str) -> Option<Shaper> {
    let mut words = line.split_whitespace();
    let (is_class, kind, handle) = (words.next()? == "class", words.next()?, words.next()?);
    let limit = match (kind, is_class) {
        ("tbf" | "netem", false) => after(line, "rate"),
        ("fq", false) => after(line, "maxrate"),
        ("cake", false) => after(line, "bandwidth"),
        ("htb", true) => after(line, "ceil"),
        // The upper limit of a class; its other curves are shares.
        ("hfsc", true) => line.split_once(" ul ").and_then(|(_, curve)| after(curve, "m2")),
        _ => None,
    };
    let rate = limit.and_then(bytes_per_second)?;
    Some(Shaper {
        device: lh_client::sanitise(after(line, "dev").unwrap_or(device)),
        kind: kind.to_owned(),
        handle: lh_client::sanitise(handle),
        is_class,
        is_root: line.split_whitespace().any(|word| word == "root"),
        rate,
        is_of_each: kind == "fq",
        delayed: 0.0,
        dropped: 0.0,
    })
}

/// The word after this one.
fn after<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let next = line.split_whitespace().skip_while(|each| *each != word).nth(1)?;
    Some(next.trim_end_matches([',', ')']))
}

/// Reads a rate as `tc` prints it: `800Kbit`, `6Mbit`, `1Gbit`.
fn bytes_per_second(text: &str) -> Option<f64> {
    let digits = text.strip_suffix("bit")?;
    let number = digits.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor = match digits.strip_prefix(number)? {
        "" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return None,
    };
    let bits: f64 = number.parse().ok()?;
    (bits > 0.0).then_some(bits * factor / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TBF: &str = "qdisc tbf 8007: root refcnt 2 rate 6Mbit burst 16Kb lat 30ms ; \
                       Sent 900 bytes 9 pkt (dropped 3, overlimits 40 requeues 0) ; backlog 0b 0p requeues 0;";

    #[test]
    fn token_bucket_counts_what_it_held_back() {
        let before = Shapers::of(&format!("device eth0;{TBF}class tbf 8007:1 parent 8007: ;"));
        let now = TBF.replace("dropped 3, overlimits 40", "dropped 4, overlimits 90");
        let got = Shapers::of(&format!("device eth0;{now}")).since(&before);
        let [shaper] = &got[..] else { panic!("{got:?}") };
        assert_eq!((shaper.device.as_str(), shaper.kind.as_str()), ("eth0", "tbf"));
        assert_eq!((shaper.rate, shaper.delayed, shaper.dropped), (750_000.0, 50.0, 1.0));
        assert!(shaper.is_root && !shaper.is_class && !shaper.is_of_each);
    }

    #[test]
    fn devices_are_named_in_the_lines_of_all_devices() {
        let text = "qdisc noqueue 0: dev lo root refcnt 2 \n Sent 0 bytes 0 pkt (dropped 0, overlimits 7 requeues 0) \n\
                    qdisc fq 8001: dev eth1 root refcnt 2 limit 10000p flow_limit 100p maxrate 10Mbit low_rate 550Kbit\n \
                    Sent 7 bytes 7 pkt (dropped 1, overlimits 0 requeues 0)\n  gc 0, highprio 0, throttled 53\n";
        let got = Shapers::of(text).0;
        let [shaper] = &got[..] else { panic!("{got:?}") };
        assert_eq!((shaper.device.as_str(), shaper.rate, shaper.delayed), ("eth1", 1.25e6, 53.0));
        assert!(shaper.is_of_each);
    }

    #[test]
    fn classes_have_the_rate_that_they_reach_at_most() {
        let htb = "device d;qdisc htb 1: root refcnt 2 r2q 10 default 0x10 direct_packets_stat 0;\
                   class htb 1:10 parent 1:1 prio 0 rate 20Mbit ceil 30Mbit burst 1600b cburst 1593b ;\
                   Sent 5 bytes 5 pkt (dropped 0, overlimits 12 requeues 0) ;";
        let got = Shapers::of(htb).0;
        let [shaper] = &got[..] else { panic!("{got:?}") };
        assert!(
            shaper.is_class && shaper.handle == "1:10" && shaper.rate == 3.75e6 && shaper.delayed == 12.0
        );
        let hfsc = "class hfsc 1:1 parent 1: ls m1 0bit d 0us m2 5Mbit ul m1 0bit d 0us m2 8Mbit";
        assert_eq!(shaper_rate(hfsc), Some(1e6));
        assert_eq!(shaper_rate("class hfsc 1:1 parent 1: ls m1 0bit d 0us m2 5Mbit"), None);
    }

    fn shaper_rate(line: &str) -> Option<f64> {
        shaper(line, "d").map(|shaper| shaper.rate)
    }

    #[test]
    fn disciplines_without_a_rate_are_none() {
        let rate = |rest: &str| shaper_rate(&format!("qdisc {rest}"));
        assert_eq!(rate("cake 8001: root refcnt 2 bandwidth 100Mbit diffserv3"), Some(12.5e6));
        assert_eq!(rate("cake 8001: root refcnt 2 bandwidth unlimited diffserv3"), None);
        assert_eq!(rate("fq_codel 0: root refcnt 2 limit 10240p flows 1024"), None);
        assert_eq!(rate("netem 1: root refcnt 2 limit 1000 delay 50ms rate 1Gbit"), Some(125e6));
        assert_eq!(rate("netem 1: root refcnt 2 limit 1000 delay 50ms"), None);
        assert_eq!(Shapers::of(""), Shapers::default());
    }
}
