//! Congestion marks (ECN, RFC 3168) that a system has received, by its own counters.

/// Packets that a system received since it started: those with a congestion mark, and all that could have had
/// one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReceivedMarks {
    marked: f64,
    capable: f64,
}

impl ReceivedMarks {
    /// Reads the lines `IpExt:` of `/proc/net/netstat`: one with names, one with values. They may be joined
    /// by `;`.
    pub(super) fn of_netstat(text: &str) -> Option<Self> {
        let mut lines = text.split([';', '\n']).filter_map(|line| line.trim().strip_prefix("IpExt:"));
        let (names, values) = (lines.next()?.split_whitespace(), lines.next()?.split_whitespace());
        let all: Vec<(&str, f64)> = names
            .zip(values)
            .map(|(name, value)| Some((name, value.parse().ok()?)))
            .collect::<Option<_>>()?;
        let value = |name: &str| all.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let marked = value("InCEPkts")?;
        let capable = marked + value("InECT0Pkts").unwrap_or(0.0) + value("InECT1Pkts").unwrap_or(0.0);
        Some(Self { marked, capable })
    }

    /// The counters of this machine.
    pub(super) fn here() -> Option<Self> {
        Self::of_netstat(&std::fs::read_to_string("/proc/net/netstat").ok()?)
    }

    /// Part of the packets since `before` that had a mark; `None` where none could have had one.
    pub(super) fn part_since(self, before: Self) -> Option<f64> {
        let capable = self.capable - before.capable;
        (capable > 0.0).then(|| ((self.marked - before.marked) / capable).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_marked_packets_follows_from_the_counters() {
        let of = |ect: u64, ce: u64| {
            let text = format!(
                "TcpExt: A;TcpExt: 1;IpExt: InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts;IpExt: 9 0 {ect} {ce};"
            );
            ReceivedMarks::of_netstat(&text).unwrap()
        };
        assert_eq!(of(1090, 13).part_since(of(100, 3)), Some(0.01));
        assert_eq!(of(100, 3).part_since(of(100, 3)), None);
        for text in ["", "IpExt: InCEPkts;", "IpExt: InCEPkts;IpExt: x;", "IpExt: A;IpExt: 1"] {
            assert_eq!(ReceivedMarks::of_netstat(text), None, "{text}");
        }
    }
}
