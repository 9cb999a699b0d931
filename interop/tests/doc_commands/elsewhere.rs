//! Commands of the pages that other tests run, and those that no test can run.

use How::{Lacks, Script, Step, Test};

/// Where a command is run, or why nowhere.
pub(crate) enum How {
    /// By this function of this file.
    Test(&'static str, &'static str),
    /// By this script of `packaging/tests`.
    Script(&'static str),
    /// By this step of `cargo xtask test`, under another name or in a shorter form.
    Step(&'static str),
    /// By none, for this reason.
    Lacks(&'static str),
}

/// A command's beginning, and where it is run.
pub(crate) type Row = (&'static str, How);

const BENCH: &str = "interop/tests/bench.rs";
const KEYS: &str = "interop/tests/security_keys/built_in/mod.rs";
const MINUTES: &str =
    "measures for minutes to an hour; the step `bench` of `cargo xtask test` has each scenario in small";

/// Pages with their commands.
pub(crate) const ELSEWHERE: &[(&str, &[Row])] = &[
    (
        "README.md",
        &[
            ("cargo build --release --locked", Step("build")),
            ("cargo xtask test", Lacks("is the run that this test is part of")),
        ],
    ),
    (
        "docs/install.md",
        &[
            (
                "dnf install",
                Lacks(
                    "needs a system with dnf; packaging/tests/installed_rpm.sh installs the same files by rpm",
                ),
            ),
            ("tar xf longhaul-0.2.0-x86_64-linux", Test("xtask/src/dist/chroot.rs", "home")),
            ("longhaul-0.2.0-x86_64-linux", Test("xtask/src/dist/chroot.rs", "home")),
            ("cargo xtask dist", Step("packages")),
            ("dpkg --add-architecture", Lacks("fetches the lists of another architecture")),
            ("cargo build --release --locked", Step("build")),
            ("cargo xtask demo", Step("demo")),
            (
                "cargo xtask docs",
                Test("xtask/src/docs/installed.rs", "the_page_s_commands_install_manuals_and_completions"),
            ),
            (
                "install -D -m 644 -t ~/.local/share",
                Test("xtask/src/docs/installed.rs", "the_page_s_commands_install_manuals_and_completions"),
            ),
            ("cargo xtask names", Step("build")),
        ],
    ),
    (
        "docs/measuring.md",
        &[
            ("longhaul bench user@host", Test(BENCH, "bench_measures_and_leaves_nothing_behind")),
            ("longhaul bench --quick user@host", Test(BENCH, "quick_bench_has_rounds_of_its_main_rows")),
            ("longhaul bench --peer", Test(BENCH, "bench_measures_and_leaves_nothing_behind")),
            ("longhaul bench --time", Test(BENCH, "bench_takes_the_time_that_it_is_given")),
            ("longhaul bench --json", Test(BENCH, "bench_measures_and_leaves_nothing_behind")),
            ("longhaul bench --hosts", Test(BENCH, "bench_draws_a_matrix_of_a_list")),
        ],
    ),
    (
        "docs/long-paths.md",
        &[("cargo xtask wan", Test("xtask/src/wan.rs", "the_page_s_command_runs_at_both_ends_of_a_path"))],
    ),
    (
        "docs/fips.md",
        &[
            (
                "lhssh -V",
                Lacks(
                    "needs the module, which takes many minutes to compile; `cargo xtask fips` looks at this line",
                ),
            ),
            (
                "cargo build --release --locked --features fips",
                Lacks("compiles for many minutes; `cargo xtask fips` builds the same"),
            ),
            ("cargo xtask fips", Lacks("compiles for many minutes; RELEASING.md has it")),
        ],
    ),
    (
        "docs/keys.md",
        &[
            ("lhssh-keygen -t ed25519-sk  ", Test(KEYS, "fido_keys_need_no_provider_library")),
            (
                "lhssh-keygen -t ed25519-sk -O resident",
                Test(KEYS, "resident_fido_keys_are_read_from_devices"),
            ),
            ("lhssh-keygen -K", Test(KEYS, "resident_fido_keys_are_read_from_devices")),
            ("lhssh-add -K", Test(KEYS, "resident_fido_keys_are_read_from_devices")),
        ],
    ),
    (
        "docs/oidc.md",
        &[
            (
                "opkssh login",
                Lacks("needs a browser and a provider; interop/tests/recipes_oidc.rs has one of its own"),
            ),
            (
                "lhssh ada@server",
                Test("interop/tests/recipes_oidc.rs", "keys_with_tokens_of_an_openid_provider"),
            ),
        ],
    ),
    ("docs/pam.md", &[("lhsshd -t -f /etc/ssh/sshd_config", Script("container.sh"))]),
    ("docs/performance.md", &[("cargo xtask ", Lacks(MINUTES))]),
    (
        "docs/schedulers.md",
        &[
            (
                "kubectl",
                Lacks("needs a cluster of Kubernetes; doc_pages.rs runs the Job's command as its pods would"),
            ),
            ("printf '%s", Test(BENCH, "bench_draws_a_matrix_of_a_list")),
            ("sbatch --wait", Test(BENCH, "bench_draws_a_matrix_of_a_list")),
            ("longhaul report -o paths.html", Test(BENCH, "report_draws_the_matrix_of_all_shards")),
        ],
    ),
    (
        "CONTRIBUTING.md",
        &[
            ("cargo xtask peers", Step("peers")),
            ("cargo xtask test", Lacks("is the run that this test is part of, or a part of it")),
        ],
    ),
    (
        "RELEASING.md",
        &[
            ("cargo update", Lacks("writes to the lock files by the newest versions of that day")),
            ("sed -i", Lacks("is for the next version")),
            (
                "cargo test -p xtask pages_name",
                Test("xtask/src/guides.rs", "pages_name_the_packages_of_this_version"),
            ),
            ("cargo xtask ", Lacks("is the long form, for hours, of a step of `cargo xtask test`")),
            ("git tag", Lacks("publishes a release")),
            ("cd target/dist", Test("xtask/src/dist/signing.rs", "test")),
            ("minisign -", Test("xtask/src/dist/signing.rs", "test")),
        ],
    ),
];
