//! Packages: one program under many names, as a tarball for a home directory, `.deb` and `.rpm`, with a bill
//! of materials, licences, checksums and debug symbols.

mod bill;
mod build;
mod chroot;
mod configs;
mod container;
mod deb;
mod dependencies;
mod elf;
mod emulated;
mod layout;
mod licences;
mod make;
mod musl_headers;
mod oci;
mod platform;
mod reproducible;
mod rpm;
mod signing;
mod size;
mod source;
mod tarball;
mod tree;
mod units;

pub(crate) use self::emulated::test_debug as emulated_test;
use self::source::Source;
use crate::workspace::{Outcome, target_dir};

const USAGE: &str = "usage: cargo xtask dist [--static | --check-reproducible | --test [SUITE]]";

/// Tests the packages in CI, with the existing programs of the release build.
pub(crate) fn short_test() -> Outcome {
    let here = Source::here()?;
    let built = target_dir().join("release");
    chroot::test(&Source { out: here.build.join("short"), built: Some(built), ..here }, None)
}

/// `cargo xtask dist`
pub(crate) fn run(args: &[String]) -> Outcome {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => make::make(&Source::here()?).map(drop),
        ["--static"] => make::make_static(&Source::here()?),
        ["--check-reproducible"] => reproducible::check(),
        ["--test"] => chroot::test(&Source::here()?, None),
        ["--test", suite] => chroot::test(&Source::here()?, Some(suite)),
        _ => Err(USAGE.to_owned()),
    }
}
