//! Limits of the installed programs' sizes, so that a package does not grow unnoticed.

use std::fs;

use super::build::Program;
use super::source::failed;

/// Largest size of all programs together, bytes.
const TOTAL: u64 = 12_000_000;
/// Programs with separate limits, bytes. The helper for tokens links no cryptography library.
const EACH: [(&str, u64); 1] = [("lhssh-pkcs11-helper", 600_000)];

/// Prints the programs' sizes.
///
/// # Errors
/// A program, or all together, are larger than their limit.
pub(super) fn check(programs: &[Program]) -> Result<(), String> {
    let size = |program: &Program| {
        fs::metadata(&program.file).map(|about| (program.name, about.len())).map_err(failed(&program.file))
    };
    let sizes = programs.iter().map(size).collect::<Result<Vec<_>, _>>()?;
    sizes.iter().for_each(|(name, size)| println!("dist: {size:>9} bytes  {name}, installed"));
    within(&sizes)
}

fn within(sizes: &[(&str, u64)]) -> Result<(), String> {
    for (name, limit) in EACH {
        if let Some((_, size)) = sizes.iter().find(|(each, size)| *each == name && *size > limit) {
            return Err(format!("{name} has {size} bytes, more than {limit} (xtask/src/dist/size.rs)"));
        }
    }
    match sizes.iter().map(|(_, size)| size).sum() {
        0..=TOTAL => Ok(()),
        sum => {
            Err(format!("the programs have {sum} bytes together, more than {TOTAL} (xtask/src/dist/size.rs)"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_above_their_limits_fail() {
        let helper = "lhssh-pkcs11-helper";
        assert_eq!(within(&[("longhaul", TOTAL - 600_000), (helper, 600_000)]), Ok(()));
        assert!(
            within(&[("longhaul", TOTAL - 600_000), (helper, 600_001)])
                .is_err_and(|why| why.contains(helper))
        );
        assert!(within(&[("longhaul", TOTAL - 1), (helper, 2)]).is_err_and(|why| why.contains("together")));
    }
}
