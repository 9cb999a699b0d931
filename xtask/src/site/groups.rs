//! The pages of the site. `interop/tests/doc_commands` reads them as well: it runs their commands.

/// The groups of the navigation: heading, and source files with their titles.
pub(crate) const GROUPS: &[(&str, &[(&str, &str)])] = &[
    (
        "Start",
        &[
            ("README.md", "Longhaul"),
            ("docs/quick-start.md", "Quick start"),
            ("docs/install.md", "Install"),
            ("docs/migrating.md", "From OpenSSH or HPN-SSH"),
        ],
    ),
    (
        "Guides",
        &[
            ("docs/copying.md", "Copying"),
            ("docs/long-paths.md", "Long paths"),
            ("docs/many-files.md", "Many files"),
            ("docs/journals.md", "Journals and part files"),
            ("docs/schedulers.md", "Sharding and schedulers"),
            ("docs/server.md", "The server"),
            ("docs/beside-sshd.md", "Beside sshd"),
            ("docs/pam.md", "PAM"),
            ("docs/containers.md", "Containers"),
            ("docs/keys.md", "Keys"),
            ("docs/fips.md", "FIPS 140-3"),
            ("docs/oidc.md", "Logins by OpenID"),
            ("docs/measuring.md", "Measuring a path"),
            ("docs/troubleshooting.md", "Troubleshooting"),
        ],
    ),
    (
        "Reference",
        &[
            ("docs/algorithms.md", "Algorithms"),
            ("docs/compat.md", "Compatibility"),
            ("docs/compat-tests.md", "Compatibility tests"),
            ("docs/json.md", "Events (JSON)"),
            ("docs/metrics.md", "Metrics and logs"),
            ("docs/protocol.md", "Protocol extensions"),
            ("docs/performance.md", "Performance"),
            ("docs/tables.md", "Tables of the field"),
        ],
    ),
    (
        "Design",
        &[
            ("docs/architecture.md", "Architecture"),
            ("docs/security.md", "Security"),
            ("SECURITY.md", "Reporting"),
            ("CONTRIBUTING.md", "Contributing"),
            ("CHANGELOG.md", "Changes"),
            ("RELEASING.md", "Releasing"),
            ("docs/lab/emulated-path.md", "Lab: emulated path"),
            ("docs/lab/2026-11-22-measurements.md", "Lab: measurements"),
            ("docs/lab/2026-11-23-measurements.md", "Lab: nightly copies"),
            ("docs/lab/2026-11-25-measurements.md", "Lab: the copy engine, before and after"),
            ("docs/lab/2026-11-27-hostile-logins.md", "Lab: honest logins beside hostile connections"),
            ("docs/lab/2026-11-28-measurements.md", "Lab: notes on the tables of performance"),
            ("docs/lab/2026-11-30-measurements.md", "Lab: round trips with stock servers"),
        ],
    ),
];
