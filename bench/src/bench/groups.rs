//! Files with the system's groups of one size for diffie-hellman-group-exchange (RFC 4419).

use std::collections::BTreeMap;

use super::{Bench, set_mode};

/// The system's groups (moduli(5)).
const SYSTEM: &str = "/etc/ssh/moduli";

/// Name of the file with groups of `bits`, in the lab's directory.
pub(crate) fn file_name(bits: u16) -> String {
    format!("moduli-{bits}")
}

/// Writes a file for each size that the system has, and returns the sizes in bits. There are none on a system
/// without such a file.
pub(crate) fn write(bench: &Bench) -> Result<Vec<u16>, String> {
    let mut sizes: BTreeMap<u16, String> = BTreeMap::new();
    let text = std::fs::read_to_string(SYSTEM).unwrap_or_default();
    for line in text.lines() {
        // The number is the index of the highest bit: 2047 for 2048 bits.
        let highest = line.split_ascii_whitespace().nth(4).and_then(|number| number.parse::<u16>().ok());
        if let Some(bits) = highest.and_then(|highest| highest.checked_add(1)) {
            sizes.entry(bits).or_default().push_str(&format!("{line}\n"));
        }
    }
    for (bits, lines) in &sizes {
        bench.lab.write(&file_name(*bits), lines);
        set_mode(&bench.lab.path(&file_name(*bits)), 0o644)?;
    }
    Ok(sizes.into_keys().collect())
}
