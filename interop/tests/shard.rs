//! One tree copied by many processes, each with a share: started by hand, and as tasks of a job array.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use lh_interop::{Lab, Lhsshd, assert_same_tree, find, make_tree, our, skip};

fn arguments(lab: &Lab, server: &Lhsshd) -> Vec<String> {
    let mut all = lab.client_options();
    all.extend(["-P".to_owned(), server.port_arg(), "-rq".to_owned()]);
    all
}

/// Covers: lhscp --shard
#[test]
fn shares_copied_at_the_same_time_are_the_tree() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "MaxStartups 100\n");
    make_tree(&lab.path("tree"), 120);
    let target = format!("127.0.0.1:{}", lab.arg("there"));
    let children: Vec<_> = (1..=4)
        .map(|number| {
            Command::new(our("lhscp"))
                .args(arguments(&lab, &server))
                // Half of them as pods of an indexed Job of Kubernetes.
                .args(["--shard", &if number > 2 { "auto/4".to_owned() } else { format!("{number}/4") }])
                .args(["tree/.", &target])
                .env("JOB_COMPLETION_INDEX", (number - 1).to_string())
                .current_dir(lab.dir())
                .env("HOME", lab.path("home"))
                .stdin(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert_same_tree(&lab.path("tree"), &lab.path("there"));
    let left = fs::read_dir(lab.path("home/.local/state/longhaul")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "journals of shares that are complete");
    for (wrong, said) in [("5/4", "bad shard"), ("auto/0", "bad shard"), ("auto", "no task of a job array")] {
        let mut all = arguments(&lab, &server);
        all.extend(["--shard", wrong, "tree", &target].map(str::to_owned));
        let ran = lab.run(&our("lhscp"), &all);
        assert_eq!(ran.code, 1, "{wrong}");
        assert!(ran.err.contains(said), "{}", ran.err);
    }
}

/// Runs `lhscp -r` with these words; the status and the messages.
fn copy(lab: &Lab, server: &Lhsshd, words: &[&str]) -> (i32, String) {
    let mut all = arguments(lab, server);
    all.extend(words.iter().map(|&word| word.to_owned()));
    let ran = lab.run(&our("lhscp"), &all);
    (ran.code, ran.err)
}

/// Covers: lhscp --shard
#[test]
fn shards_and_plain_copies_agree_on_the_place() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_tree(&lab.path("tree"), 40);
    let at = |name: &str| format!("127.0.0.1:{}", lab.arg(name));
    for source in ["tree", "tree/."] {
        // To a directory that exists, upwards and downwards.
        for (from, prefix) in [(source.to_owned(), true), (at(source), false)] {
            let place = |name: &str| if prefix { at(name) } else { lab.arg(name) };
            for name in ["plain", "shards"] {
                let _ = fs::remove_dir_all(lab.path(name));
                fs::create_dir(lab.path(name)).unwrap();
            }
            assert_eq!(copy(&lab, &server, &[&from, &place("plain")]).0, 0);
            for shard in ["1/3", "2/3", "3/3"] {
                let (code, err) = copy(&lab, &server, &["--shard", shard, &from, &place("shards")]);
                assert_eq!(code, 0, "{from} {shard}: {err}");
            }
            assert_same_tree(&lab.path("plain"), &lab.path("shards"));
            // To one that does not.
            let new = |name: &str| format!("new-{name}");
            for name in ["plain", "shards"] {
                let _ = fs::remove_dir_all(lab.path(&new(name)));
            }
            assert_eq!(copy(&lab, &server, &[&from, &place("new-plain")]).0, 0);
            assert_same_tree(&lab.path("tree"), &lab.path("new-plain"));
            for shard in ["1/3", "2/3", "3/3"] {
                let (code, err) = copy(&lab, &server, &["--shard", shard, &from, &place("new-shards")]);
                if source == "tree" {
                    // The second share would find what the first one has made, and go into it.
                    assert_eq!(code, 1, "{from} {shard}: {err}");
                    assert!(err.contains("new-shards: No such file or directory; with --shard"), "{err}");
                    assert!(!lab.path("new-shards").exists(), "nothing is left behind");
                } else {
                    assert_eq!(code, 0, "{from} {shard}: {err}");
                }
            }
            if source == "tree/." {
                assert_same_tree(&lab.path("tree"), &lab.path("new-shards"));
            }
        }
    }
}

/// Covers: lhscp --shard
#[test]
fn a_job_array_of_slurm_moves_a_tree() {
    let test = "a_job_array_of_slurm_moves_a_tree";
    if !lh_interop::is_root() {
        return skip(test, "Slurm's daemons on one machine need root");
    }
    for program in ["slurmctld", "slurmd", "munged", "sbatch"] {
        if find(program).is_none() {
            return skip(test, &format!("not installed: {program}"));
        }
    }
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "MaxStartups 100\n");
    make_tree(&lab.path("tree"), 90);
    fs::create_dir_all(lab.path("there")).unwrap();
    let words: Vec<String> =
        arguments(&lab, &server).iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
    let line = format!(
        "HOME={} {} {} --shard auto '{}' '127.0.0.1:{}'",
        lab.arg("home"),
        our("lhscp").display(),
        words.join(" "),
        lab.arg("tree"),
        lab.arg("there")
    );
    lab.write("task.sh", &format!("#!/bin/sh\n{line}\n"));
    lh_interop::open_to_all(&lab.path("task.sh"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/slurm-array.sh");
    lab.run(&script, &["3".to_owned(), lab.arg("task.sh")]).ok("the job array");
    assert_same_tree(&lab.path("tree"), &lab.path("there/tree"));
}
