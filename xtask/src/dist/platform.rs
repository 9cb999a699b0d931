//! Platforms for which programs are built, and the requirements of a machine that builds for them.

use std::path::Path;

use super::dependencies::TARGET;
use crate::workspace::has_library;

/// A platform for which programs are built.
#[derive(Debug, Clone, Copy)]
pub(super) struct Platform {
    /// The compiler's name of the platform.
    pub triple: &'static str,
    /// Prefix of the binary tools for the platform.
    pub tools: &'static str,
    /// Variables for the compilers of Rust and C.
    pub variables: &'static [(&'static str, &'static str)],
    /// Additional flags for the C compiler.
    pub c_flags: &'static str,
    pub linker_flags: &'static [&'static str],
}

/// The platform of the packages.
pub(super) const PACKAGED: Platform = Platform {
    triple: TARGET,
    tools: "",
    variables: &[],
    // No panic unwinds through C.
    c_flags: "-fno-asynchronous-unwind-tables",
    // Functions with equal code are stored once, and relocated addresses take one bit each.
    linker_flags: &["--icf=all", "-z,pack-relative-relocs"],
};

/// The static builds: programs that need no library of the system.
pub(super) const STATIC: [Platform; 2] = [
    Platform {
        triple: "x86_64-unknown-linux-musl",
        tools: "",
        variables: &[("CC_x86_64_unknown_linux_musl", "musl-gcc")],
        c_flags: "",
        linker_flags: &[],
    },
    // Debian has no musl compiler for ARM, so glibc's compiler is used with musl's headers.
    Platform {
        triple: "aarch64-unknown-linux-musl",
        tools: "aarch64-linux-gnu-",
        variables: &[
            ("CC_aarch64_unknown_linux_musl", "aarch64-linux-gnu-gcc"),
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "aarch64-linux-gnu-gcc"),
        ],
        c_flags: "-isystem /usr/include/aarch64-linux-musl",
        linker_flags: &[],
    },
];

impl Platform {
    /// Returns the commands that install the missing requirements for this platform; `None` if none are
    /// missing.
    pub(super) fn missing(&self) -> Result<Option<String>, String> {
        let mut missing = Vec::new();
        if !has_library(self.triple)? {
            missing.push(format!("rustup target add {}", self.triple));
        }
        missing.extend(self.missing_compiler());
        let headers = self.c_flags.split_whitespace().filter(|flag| flag.starts_with("/usr/include/"));
        if headers.into_iter().any(|path| !Path::new(path).is_dir()) {
            missing.push(
                "dpkg --add-architecture arm64; apt-get update; apt-get install musl-dev:arm64".to_owned(),
            );
        }
        let commands = missing.join("; ");
        Ok((!missing.is_empty())
            .then(|| format!("NOT MADE: static programs for {}; first: {commands}", self.triple)))
    }

    /// Returns the command that installs the C compiler for this platform; `None` if there is one.
    pub(super) fn missing_compiler(&self) -> Option<String> {
        let compiler = self.variables.first().map_or("cc", |(_, compiler)| compiler);
        if lh_interop::find(compiler).is_some() {
            return None;
        }
        let package = if compiler == "musl-gcc" { "musl-tools" } else { "gcc-aarch64-linux-gnu" };
        Some(format!("apt-get install {package}"))
    }

    pub(super) fn architecture(&self) -> &'static str {
        self.triple.split_once('-').map_or(self.triple, |(architecture, _)| architecture)
    }
}
