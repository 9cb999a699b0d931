//! Development commands: the README's test command and demonstration, structure checks, generated docs.

mod bench;
mod beside;
mod busy;
mod campaign;
mod comment_width;
mod compat;
mod covers;
mod demo;
mod disk;
mod dist;
mod docs;
mod executables;
mod fips;
mod fuzz;
#[cfg(test)]
mod guides;
mod hangs;
mod layers;
mod memory;
mod minimal;
mod miri;
mod msrv;
mod names;
mod peers;
mod processors;
mod regress;
#[cfg(test)]
mod security;
#[cfg(test)]
mod shown_commands;
mod site;
mod suites;
mod systems;
mod tables;
mod test;
mod wan;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  bench [--scenario …] [--cipher …] [--size …] [--rounds N] [--peer NAME=PATH …] [--out DIR] [--smoke]
            build, then measure beside OpenSSH, other peers that are installed, and what the machine
            can do; reports in target/bench (bench --help shows all options)
  demo [--dir PATH] [--size BYTES] [--files N] [--no-peer]
            build, start a server on loopback, copy a tree and a big file up and down, compare
            checksums, print MB/s (and OpenSSH's beside where installed), clean up
  test [--quick] [--only STEP[,STEP…]]
            everything CI runs; as root it installs the Debian packages it needs. --quick: the checks
            of the sources and the tests that need no other programs, in a few minutes; `--only ?` names all steps,
            also doctor and properties, which run only by name
  peers     install the programs of other people that the tests talk to (as root)
  compat [--check] [--uncovered]
            write the tables of docs/compat.md and docs/compat-tests.md from the code (or check that they
            are current, or list what works without a test that says so)
  docs [--out DIR]
            write manual pages and shell completions from the tables of flags and keywords
            (default: target/docs)
  dist [--static | --check-reproducible | --test [SUITE]]
            build the packages into target/dist: .deb, .rpm, a tarball for a home directory, debug symbols,
            bill of materials, licences, checksums, and static programs and container images where this
            machine can build them. --static makes only those, or says what is missing;
            --check-reproducible builds all again in another directory and compares; --test installs and
            removes the packages in new Debian systems and runs the images (as root)
  site [--out DIR]
            write the documentation as a static site (default: target/site) and check its links
  names [--profile PROFILE]
            make target/release/openssh-names: links with OpenSSH's names to the programs that are built
  layers    check that dependencies of crates point one way, that modules form no cycles, and that
            sans-IO crates do no I/O
  fips [--release]
            build the programs with AWS-LC's FIPS module into target/fips, and check their algorithms and that they
            work with OpenSSH's (needs cmake, Go and a C compiler; takes many minutes; docs/fips.md)
  fuzz [SECONDS] [--for DURATION] [--only TARGET,…] [--coverage]
            run every fuzz target for that many seconds (default 5), or all of them for a duration
            (10m, 2h) on all cores; --coverage prints the lines that the inputs found so far reach
  explore [--for DURATION] [--seed N] [--only TEXT] [--servers] [--clients]
            insert messages, right and slightly wrong, at every point of connections: in memory against our
            state machines, and over sockets against lhsshd and sshd, whose reactions are compared
            (campaign/reviewed.list); with --for every single insertion over sockets, or only those against
            servers or clients (docs/security.md)
  faults [--rounds N] [--for DURATION] [--seed N] [--only TEXT] [--small]
            kill either end of copies at random moments, fill their disks, take mounts away, stop processes,
            break, reset and falsify connections: afterwards the same command must leave identical trees,
            and no file may ever have wrong contents under its final name (as root; docs/security.md)
  load [--short] [--idle N] [--burst N] [--hostile N] [--honest N]
            measure idle sessions, logins begun at once, and honest logins beside hostile connections
  cuts [--cuts N] [--for DURATION] [--seed N] [--size MIB] [--only TEXT] [--rate MBIT] [--each N] [--long-stops N]
            cut the paths of sessions with Resume (pipes, rsync, git, forwards, sshfs, borg, a master) between network
            namespaces: no byte and no exit status may be wrong, no session left (as root; docs/security.md);
            --size: what each program moves, at least (24 MiB); --rate: of the path (80); --each: cuts in each
            program's run; --long-stops: how often a client is stopped for 60 s (1)
  nightly [--files N] [--round-trip MS] [--only TEXT]
            make a tree of N files (2000) and synchronise it over a path of 50 ms, up and down: killed twice, to
            the end, unchanged, by contents, changed; compare the trees, the counts and the manifests each time,
            and show rsync's times (docs/many-files.md)
  regress [--newest] [--bins DIR] [--only PROGRAM,…] [--keep DIR] [TEST…]
            run OpenSSH's own regression tests (Debian's openssh-tests) with our programs in place
            of theirs, and compare with interop/regress.list; --newest: the tests of the newest OpenSSH, in a system of
            Debian unstable that is made for it (as root; interop/regress-newest.list)
  suites [--bins DIR] [SUITE…]
            run the test suites of pkg/sftp, x/crypto/ssh, asyncssh, scp.py and rclone, and ssh-audit, fetched from
            their registries, with our programs under OpenSSH's names
  tables [--out FILE] [--bins DIR] [--rounds N] [--smoke]
            write docs/tables.md: throughput by cipher and MAC, processor time, cost of sessions, listings,
            beside OpenSSH and historical figures (as root; a quarter of an hour). --smoke: does it work?
  wan [--rtt TIME] [--rate RATE] [--loss PART] [--queue BYTES] [--far 'SERVER'] … [--] [COMMAND…]
            run a command, and a server at the far end, over an emulated wide-area path (as root);
            docs/long-paths.md has more, `cargo xtask wan --help` every option
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rest = args.get(1..).unwrap_or_default();
    let outcome = match args.first().map(String::as_str) {
        Some("bench") => bench::run(rest),
        Some("demo") => demo::run(rest),
        Some("test") => test::run(rest),
        Some("peers") => peers::install(),
        Some("layers") => layers::check(),
        Some("names") => names::run(rest),
        Some("compat") => compat::run(rest),
        Some("dist") => dist::run(rest),
        Some("docs") => docs::run(rest),
        Some("fips") => fips::run(rest),
        Some("fuzz") => fuzz::run(rest),
        Some("explore") => campaign::explore(rest),
        Some("faults") => campaign::faults(rest),
        Some("cuts") => campaign::cuts(rest),
        Some("load") => campaign::load(rest),
        Some("nightly") => campaign::nightly(rest),
        Some("regress") => regress::run(rest),
        Some("site") => site::run(rest),
        Some("suites") => suites::run(rest),
        Some("tables") => tables::run(rest),
        Some("wan") => wan::run(rest),
        Some("help" | "--help" | "-h") => {
            print!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("xtask: {text}");
            ExitCode::FAILURE
        }
    }
}
