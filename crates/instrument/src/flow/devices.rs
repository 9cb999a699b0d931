//! Counters of network devices (`/proc/net/dev`, proc(5)): the traffic of all programs.

use std::collections::HashMap;

/// Bytes that each device has received and sent.
#[derive(Debug, Clone, Default)]
pub(super) struct Devices(HashMap<String, [u64; 2]>);

/// Traffic of a device during a transfer, bytes/s.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeviceRate {
    pub(crate) name: String,
    pub(crate) received: f64,
    pub(crate) sent: f64,
    /// Length of the measurement, seconds.
    pub(crate) seconds: f64,
}

impl Devices {
    /// Reads the lines of `/proc/net/dev`, which may be joined by `;`.
    pub(super) fn of(text: &str) -> Self {
        let device = |line: &str| {
            let (name, counters) = line.split_once(':')?;
            let counters: Vec<u64> =
                counters.split_whitespace().map_while(|word| word.parse().ok()).collect();
            Some((lh_client::sanitise(name.trim()), [*counters.first()?, *counters.get(8)?]))
        };
        Self(text.split([';', '\n']).filter_map(device).collect())
    }

    /// Returns the devices of this machine.
    pub(super) fn here() -> Self {
        Self::of(&std::fs::read_to_string("/proc/net/dev").unwrap_or_default())
    }

    /// Returns the rates since `before`, `seconds` ago.
    pub(super) fn since(&self, before: &Self, seconds: f64) -> Vec<DeviceRate> {
        let rate = |(name, now): (&String, &[u64; 2])| {
            let before = before.0.get(name)?;
            let [received, sent] =
                [0, 1].map(|index| now[index].saturating_sub(before[index]) as f64 / seconds.max(0.1));
            Some(DeviceRate { name: name.clone(), received, sent, seconds })
        };
        self.0.iter().filter_map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_from_the_counters() {
        let of = |received: u64, sent: u64| {
            Devices::of(&format!(
                "  eth0: {received} 9 0 0 0 0 0 0 {sent} 8 0 0 0 0 0 0;Inter-| Receive;  lo:1 2;\n"
            ))
        };
        let got = of(5_000, 9_000).since(&of(1_000, 1_000), 2.0);
        let [rate] = &got[..] else { panic!("{got:?}") };
        assert_eq!((rate.name.as_str(), rate.received, rate.sent), ("eth0", 2_000.0, 4_000.0));
        assert!(Devices::of("").since(&of(1, 1), 1.0).is_empty());
    }
}
