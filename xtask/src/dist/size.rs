//! Limits of the installed programs' sizes, so that a package does not grow unnoticed.

use std::fs;

use super::build::Program;
use super::source::failed;

/// Largest size of all programs together, bytes.
const TOTAL: u64 = 12_000_000;
/// Largest size of all programs of a release build without LTO, bytes: what they had on 2026-11-30, when the
/// packaged ones had 0.3 MB left, and about as much growth.
const RELEASE_TOTAL: u64 = 22_050_000;
/// Programs with separate limits, bytes. The helper for tokens links no cryptography library.
const EACH: [(&str, u64); 1] = [("lhssh-pkcs11-helper", 600_000)];

/// Prints the programs' sizes.
///
/// # Errors
/// A program, or all together, are larger than their limit.
pub(super) fn check(programs: &[Program]) -> Result<(), String> {
    within(&sizes(programs)?)
}

/// The same for the programs of a release build without optimisation across crates, as CI makes it. What is
/// packaged takes a quarter of an hour to build, so CI would not notice that it has grown.
///
/// # Errors
/// The programs are larger together than they were when the packaged ones were below their limit.
pub(super) fn check_release(programs: &[Program]) -> Result<(), String> {
    within_release(sizes(programs)?.iter().map(|(_, size)| size).sum())
}

fn within_release(sum: u64) -> Result<(), String> {
    let advice =
        ": run `cargo xtask dist`, and if that finds its programs small enough, raise the limit there";
    total(sum, RELEASE_TOTAL).map_err(|why| why + advice)
}

/// Compares the size of all programs with a limit.
fn total(sum: u64, limit: u64) -> Result<(), String> {
    if sum <= limit {
        return Ok(());
    }
    Err(format!("the programs have {sum} bytes together, more than {limit} (xtask/src/dist/size.rs)"))
}

fn sizes(programs: &[Program]) -> Result<Vec<(&'static str, u64)>, String> {
    let size = |program: &Program| {
        let about = fs::metadata(&program.file).map_err(failed(&program.file))?;
        println!("dist: {:>9} bytes  {}, installed", about.len(), program.name);
        Ok((program.name, about.len()))
    };
    programs.iter().map(size).collect()
}

fn within(sizes: &[(&str, u64)]) -> Result<(), String> {
    for (name, limit) in EACH {
        if let Some((_, size)) = sizes.iter().find(|(each, size)| *each == name && *size > limit) {
            return Err(format!("{name} has {size} bytes, more than {limit} (xtask/src/dist/size.rs)"));
        }
    }
    total(sizes.iter().map(|(_, size)| size).sum(), TOTAL)
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
        assert_eq!(within_release(RELEASE_TOTAL), Ok(()));
        assert!(within_release(RELEASE_TOTAL + 1).is_err_and(|why| why.contains("cargo xtask dist")));
    }
}
