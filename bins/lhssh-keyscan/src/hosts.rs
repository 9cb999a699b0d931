//! Hosts to query: names, lists of names, ranges of addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::PlanError;
use crate::key_kind::KeyKind;

/// Upper limit of addresses in one range.
const MOST_OF_A_RANGE: u128 = 1 << 20;

/// One line or operand.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    /// Addresses to try one after the other, and the names to print the key for.
    Names { addresses: String, names: String },
    /// `count` consecutive addresses from `first` on.
    Range { first: IpAddr, count: u128 },
}

/// All hosts to query.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hosts {
    entries: Vec<Entry>,
}

/// One query: a host and a key type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    /// Addresses to try one after the other, separated by commas.
    pub(crate) addresses: String,
    /// Names to print the key for, separated by commas.
    pub(crate) names: String,
    /// The key type to request.
    pub(crate) kind: KeyKind,
}

impl Hosts {
    /// Adds a line of a file: `addresses [names]`, with a comment after `#`.
    ///
    /// # Errors
    /// The range of addresses is wrong or too large.
    pub(crate) fn add_line(&mut self, line: &str) -> Result<(), PlanError> {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split([' ', '\t', '\r']).filter(|word| !word.is_empty());
        match words.next() {
            Some(addresses) => self.add(addresses, words.next()),
            None => Ok(()),
        }
    }

    /// # Errors
    /// The range of addresses is wrong or too large.
    pub(crate) fn add(&mut self, addresses: &str, names: Option<&str>) -> Result<(), PlanError> {
        let entry = match range(addresses)? {
            Some((first, count)) => Entry::Range { first, count },
            None => {
                Entry::Names { addresses: addresses.to_owned(), names: names.unwrap_or(addresses).to_owned() }
            }
        };
        self.entries.push(entry);
        Ok(())
    }

    /// All queries, with every key type of a host before the next host.
    pub(crate) fn jobs(self, kinds: Vec<KeyKind>) -> impl Iterator<Item = Job> + Send {
        let hosts = self.entries.into_iter().flat_map(|entry| {
            let (pair, range) = match entry {
                Entry::Names { addresses, names } => (Some((addresses, names)), None),
                Entry::Range { first, count } => {
                    let addresses = (0..count).map(move |offset| {
                        let text = plus(first, offset).to_string();
                        (text.clone(), text)
                    });
                    (None, Some(addresses))
                }
            };
            pair.into_iter().chain(range.into_iter().flatten())
        });
        hosts.flat_map(move |(addresses, names)| {
            let job = move |kind| Job { addresses: addresses.clone(), names: names.clone(), kind };
            kinds.clone().into_iter().map(job)
        })
    }
}

fn plus(first: IpAddr, offset: u128) -> IpAddr {
    match first {
        IpAddr::V4(v4) => Ipv4Addr::from(u32::from(v4).wrapping_add(offset as u32)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6).wrapping_add(offset)).into(),
    }
}

/// Parses `address/bits`; `None` for other text. As in ssh-keyscan, network and broadcast addresses are
/// included.
fn range(text: &str) -> Result<Option<(IpAddr, u128)>, PlanError> {
    let Some((address, bits)) = text.split_once('/') else { return Ok(None) };
    let Ok(address) = address.parse::<IpAddr>() else { return Ok(None) };
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.parse::<u32>().ok().filter(|bits| *bits <= width);
    let bits = bits.ok_or_else(|| PlanError::Range(text.to_owned()))?;
    let count = 1_u128.checked_shl(width - bits).unwrap_or(u128::MAX);
    if count > MOST_OF_A_RANGE {
        return Err(PlanError::LargeRange(text.to_owned()));
    }
    let mask = !(count - 1);
    let first = match address {
        IpAddr::V4(v4) => Ipv4Addr::from(u32::from(v4) & mask as u32).into(),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & mask).into(),
    };
    Ok(Some((first, count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(lines: &[&str]) -> Vec<(String, String)> {
        let mut hosts = Hosts::default();
        for line in lines {
            hosts.add_line(line).expect("a line");
        }
        hosts.jobs(vec![KeyKind::Ed25519]).map(|job| (job.addresses, job.names)).collect()
    }

    #[test]
    fn lines_have_addresses_and_names() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            asked(&["a.example", "1.2.3.4,1.2.3.5\tname,n  # comment", "# nothing", "  "]),
            [pair("a.example", "a.example"), pair("1.2.3.4,1.2.3.5", "name,n")]
        );
    }

    #[test]
    fn ranges_are_expanded_to_addresses() {
        let addresses: Vec<String> =
            asked(&["10.0.0.6/30"]).into_iter().map(|(address, _)| address).collect();
        assert_eq!(addresses, ["10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7"]);
        assert_eq!(asked(&["::1/128"]).len(), 1);
        let mut hosts = Hosts::default();
        let mut refusal = |text: &str| hosts.add(text, None).expect_err(text).to_string();
        for bad in ["10.0.0.0/33", "10.0.0.0/x"] {
            assert_eq!(refusal(bad), format!("Invalid address range \"{bad}\""));
        }
        for large in ["::/0", "10.0.0.0/4"] {
            assert_eq!(refusal(large), format!("Address range \"{large}\" is too large"));
        }
        // A name with a slash is accepted as a name, which will not resolve.
        assert!(hosts.add("what/ever", None).is_ok());
    }
}
