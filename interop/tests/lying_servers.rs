//! Copies to and from faulty servers: the data arrive intact, or a message names the file and the exit status
//! is not 0.
//!
//! They run over the pipes of `-D`, and over SSH where several channels matter. `lh_interop::lying`
//! implements the faults; [`lh_interop::lying::copies::expected`] says what a copy must achieve with each.

use std::fs;
use std::path::{Path, PathBuf};

use lh_interop::lying::Lie;
use lh_interop::lying::copies::{self, Case, files, make_sources, wrong};
use lh_interop::{Lab, Lhsshd, make_blob, our};

/// Writes a program without arguments that starts a server with these faults.
fn liar(lab: &Lab, lies: &[Lie]) -> String {
    copies::liar(lab, env!("CARGO_BIN_EXE_lh-lying-sftp"), lies)
}

/// Copies all trees in both directions with all flags, over pipes.
fn over_pipes(lies: &[Lie]) {
    copies::over_pipes(env!("CARGO_BIN_EXE_lh-lying-sftp"), lies);
}

/// Covers: lhscp --verify; lhscp --in-place
#[test]
fn reused_handles_corrupt_nothing() {
    over_pipes(&[Lie::ReusedHandles, Lie::OneHandle]);
}

#[test]
fn odd_but_correct_servers_copy_everything() {
    over_pipes(&[Lie::OutOfOrder, Lie::DropsRequests, Lie::ShortReads, Lie::OddTimes, Lie::SizeEmpties]);
    over_pipes(&[Lie::NoSeeks, Lie::RemovesOpened, Lie::MakesNoUpdated, Lie::LongReads]);
}

/// Covers: lhscp -X
#[test]
fn dropped_requests_are_asked_for_again_fewer_at_a_time() {
    let lab = Lab::new();
    make_sources(&lab);
    let server = liar(&lab, &[Lie::DropsMany]);
    for flags in [&[][..], &["--verify"]] {
        for upload in [true, false] {
            for tree in ["big", "small"] {
                let case = Case { lab: &lab, lie: Lie::DropsMany, upload, tree, flags };
                case.check(|from, to| {
                    let tuned = ["-r", "-v", "-X", "answer-timeout=1", "-D", &server];
                    let ran = lab.run(&our("lhscp"), &[&tuned[..], flags, &[from, to]].concat());
                    assert!(ran.code == 0 || tree == "small", "{upload} {flags:?}: {}", ran.err);
                    assert!(ran.code == 0 || ran.err.contains("did not answer in 1 s"), "{}", ran.err);
                    // The requests of eight small files fit.
                    assert!(
                        ran.err.contains("the server has not answered") || tree == "small",
                        "nothing was dropped: {}",
                        ran.err
                    );
                    ran
                });
            }
        }
    }
}

#[test]
fn unserved_limits_are_reported() {
    over_pipes(&[Lie::LimitsNotKept, Lie::StaleSizes, Lie::EarlyEof, Lie::CutsWriteOnly]);
}

#[test]
fn replies_with_other_ids_corrupt_nothing() {
    over_pipes(&[Lie::WrongIds, Lie::TwiceAnswered, Lie::RotatedIds]);
    let lab = Lab::new();
    make_sources(&lab);
    for lie in [Lie::WrongIds, Lie::TwiceAnswered] {
        let (server, from, to) = (liar(&lab, &[lie]), lab.arg("big"), format!("h:{}", lab.arg("to")));
        let ran = lab.run(&our("lhscp"), &["-r", "-D", &server, &from, &to]);
        assert!(ran.code != 0 && ran.err.contains("ID mismatch"), "{lie:?}: {} {}", ran.code, ran.err);
    }
}

#[test]
fn limits_that_are_not_announced_are_reported() {
    over_pipes(&[Lie::FewOpens, Lie::StaleFstat]);
}

/// What is refused because much is open is opened again when less is.
#[test]
fn unannounced_limits_of_open_files_lose_no_file() {
    over_pipes(&[Lie::FewHandles, Lie::DeniesTenth]);
    let lab = Lab::new();
    fs::create_dir_all(lab.path("many")).unwrap();
    (0..80).for_each(|n| make_blob(&lab.path("many").join(format!("file{n}")), 40_000 + n));
    let server = liar(&lab, &[Lie::DeniesTenth]);
    for flags in [&[][..], &["--verify"], &["--in-place"]] {
        for upload in [true, false] {
            let case = Case { lab: &lab, lie: Lie::DeniesTenth, upload, tree: "many", flags };
            case.check(|from, to| {
                let args = [&["-r", "-D", &server][..], flags, &[from, to]].concat();
                let ran = lab.run(&our("lhscp"), &args);
                assert!(ran.err.contains("the tenth file is refused"), "it was never tried: {}", ran.err);
                ran
            });
        }
    }
}

#[test]
fn refused_requests_lose_no_data() {
    over_pipes(&[Lie::NoFsetstat, Lie::NoSetstat, Lie::NoRemove, Lie::NoRename]);
}

#[test]
fn colliding_names_are_reported() {
    over_pipes(&[Lie::FoldsCase]);
    let lab = Lab::new();
    fs::create_dir_all(lab.path("tree/sub")).unwrap();
    let names = ["tree/sub/Readme", "tree/sub/README", "tree/sub/readme", "tree/other"];
    names.iter().for_each(|name| lab.write(name, &format!("this is {name}\n")));
    fs::create_dir_all(lab.path("folded")).unwrap();
    fs::create_dir_all(lab.path("exact")).unwrap();
    for (lies, directory, code, arrived) in [(&[Lie::FoldsCase][..], "folded", 1, 2), (&[], "exact", 0, 4)] {
        for flags in [&[][..], &["--in-place"], &["--verify"]] {
            let _ = fs::remove_dir_all(lab.path(directory).join("tree"));
            let (from, to, server) = (lab.arg("tree"), format!("h:{}", lab.arg(directory)), liar(&lab, lies));
            let args = [&["-r", "-D", &server][..], flags, &[&from, &to]].concat();
            let ran = lab.run(&our("lhscp"), &args);
            assert_eq!(ran.code, code, "{directory} {flags:?}: {}", ran.err);
            assert_eq!(ran.err.matches("differs by case only").count(), 4 - arrived, "{}", ran.err);
            assert_eq!(files(&lab.path(directory)).len(), arrived, "{directory} {flags:?}: {}", ran.err);
        }
    }
}

/// Covers: lhscp --links; sftp symlink; sftp ln
#[test]
fn symbolic_links_are_never_reversed() {
    // Link and target. The server starts in the laboratory's directory, where a reversed link would be made.
    let links =
        [("one", "file"), ("two", "../x"), ("three", "/nowhere/of/lhscp"), ("four", "made-by-nobody")];
    for lies in [
        &[][..],
        &[Lie::LinkFirst],
        &[Lie::LinkFirst, Lie::NoRemove],
        &[Lie::NoReadlink],
        &[Lie::LinkFirst, Lie::NoReadlink],
        &[Lie::NoLinks],
        &[Lie::BareReplies],
    ] {
        let lab = Lab::new();
        fs::create_dir_all(lab.path("tree/sub")).unwrap();
        lab.write("tree/file", "text\n");
        for (link, to) in links {
            std::os::unix::fs::symlink(to, lab.path("tree/sub").join(link)).unwrap();
        }
        let server = liar(&lab, lies);
        let entries =
            || fs::read_dir(lab.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        let leads_to = |path: &Path| fs::read_link(path).ok().map(|to| to.to_string_lossy().into_owned());
        // What is made here is made right, or there is an error.
        let well = matches!(lies, [] | [Lie::LinkFirst | Lie::NoReadlink | Lie::BareReplies]);
        fs::create_dir_all(lab.path("copies")).unwrap();
        lab.write("batch", "");
        let mut before = entries();
        for round in 0..2 {
            let to = format!("h:{}", lab.arg("copies"));
            let ran = lab.run(&our("lhscp"), &["-r", "--links", "-D", &server, &lab.arg("tree"), &to]);
            let what = format!("{lies:?} {round}: {} {}", ran.code, ran.err);
            assert!(!well || ran.code == 0, "{what}");
            for (link, to) in links {
                let made = leads_to(&lab.path("copies/tree/sub").join(link));
                assert!(
                    made.as_deref() == Some(to) || (ran.code == 1 && ran.err.contains(link)),
                    "{link}: {made:?} {what}"
                );
            }
        }
        for (link, to) in links {
            let path = lab.path("copies").join(link).to_string_lossy().into_owned();
            lab.write("batch", &format!("ln -s {to} {path}\n"));
            let ran = lab.run(&our("lhsftp"), &["-b", &lab.arg("batch"), "-D", &server]);
            let made = leads_to(Path::new(&path));
            let what = format!("{link}: {made:?} {lies:?} {}", ran.err);
            // No link is tried at an absolute path that is not asked for.
            let well = well && (link != "three" || !lies.contains(&Lie::LinkFirst));
            assert!(
                made.as_deref() == Some(to) || (!well && ran.code == 1 && ran.err.contains(to)),
                "{what}"
            );
        }
        if well {
            let mut after = entries();
            before.sort();
            after.sort();
            assert_eq!(before, after, "{lies:?}");
        }
    }
}

#[test]
fn verify_detects_wrongly_stored_data() {
    over_pipes(&[Lie::ShortWrites, Lie::Zeroed, Lie::ZeroedUnseen, Lie::Truncated]);
}

#[test]
fn verify_detects_bytes_behind_the_end() {
    over_pipes(&[Lie::Padded, Lie::PadsEmpty, Lie::PaddedUnseen, Lie::StoresBlocks]);
}

/// The size is asked for when the file is closed: what is wrong never gets its final name.
#[test]
fn wrong_sizes_are_reported_without_reading_back() {
    let lab = Lab::new();
    make_sources(&lab);
    for (lie, tree, file) in [
        (Lie::Truncated, "big", "file0"),
        (Lie::Padded, "big", "file0"),
        (Lie::StoresBlocks, "big", "file0"),
        (Lie::PadsEmpty, "small", "file0"),
    ] {
        let server = liar(&lab, &[lie]);
        for flags in [&[][..], &["-p"], &["--in-place"]] {
            let _ = fs::remove_dir_all(lab.path("to"));
            fs::create_dir_all(lab.path("to")).unwrap();
            let (from, to) = (lab.arg(tree), format!("h:{}", lab.arg("to")));
            let args = [&["-r", "-D", &server][..], flags, &[&from, &to]].concat();
            let ran = lab.run(&our("lhscp"), &args);
            let what = format!("{lie:?} {flags:?}: {}", ran.err);
            assert_eq!(ran.code, 1, "{what}");
            assert!(ran.err.contains(file) && ran.err.contains("the server says that it has"), "{what}");
            let in_place = flags.contains(&"--in-place");
            assert_eq!(lab.path("to").join(tree).join(file).exists(), in_place, "{what}");
        }
    }
}

#[test]
fn verify_detects_swapped_contents_and_wrong_names() {
    over_pipes(&[Lie::Swapped, Lie::WrongNames, Lie::MixedReads]);
}

/// These faults are always found; the tests above would also pass with a check that finds nothing.
#[test]
fn injected_faults_are_reported_with_the_file_name() {
    let lab = Lab::new();
    make_sources(&lab);
    for lie in [
        Lie::ShortWrites,
        Lie::Zeroed,
        Lie::ZeroedUnseen,
        Lie::Truncated,
        Lie::Padded,
        Lie::PaddedUnseen,
        Lie::StoresBlocks,
        Lie::WrongNames,
    ] {
        let server = liar(&lab, &[lie]);
        for flags in [&["--verify"][..], &["--verify", "--in-place"]] {
            let _ = fs::remove_dir_all(lab.path("to"));
            fs::create_dir_all(lab.path("to")).unwrap();
            let to = format!("h:{}", lab.arg("to"));
            let from = lab.arg("big");
            let args = [&["-r", "-D", &server][..], flags, &[&from, &to]].concat();
            let ran = lab.run(&our("lhscp"), &args);
            assert_eq!(ran.code, 1, "{lie:?} {flags:?}: {}", ran.err);
            assert!(ran.err.contains("file0"), "{lie:?} {flags:?}: {}", ran.err);
        }
    }
}

/// Covers: lhscp -j
#[test]
fn several_channels_to_faulty_servers_corrupt_nothing() {
    let lab = Lab::new();
    make_blob(&lab.path("small-one"), 3_000);
    fs::create_dir_all(lab.path("large")).unwrap();
    for (n, size) in [(0, 20_000_000), (1, 9_000_001), (2, 40_000)] {
        make_blob(&lab.path("large").join(format!("file{n}")), size);
    }
    for lie in [
        Lie::ReusedHandles,
        Lie::OneHandle,
        Lie::CutsWriteOnly,
        Lie::OutOfOrder,
        Lie::ShortReads,
        Lie::ZeroedUnseen,
        Lie::RemovesOpened,
    ] {
        let server = Lhsshd::start(&lab, &format!("Subsystem sftp {}\n", liar(&lab, &[lie])));
        for flags in [&["-j", "1"][..], &["-j", "2"], &["-j", "2", "--in-place"], &["-j", "3", "--verify"]] {
            for upload in [true, false] {
                let case = Case { lab: &lab, lie, upload, tree: "large", flags };
                case.check(|from, to| {
                    let mut args = lab.client_options();
                    args.extend(["-r", "-P", &server.port_arg()].map(str::to_owned));
                    args.extend(flags.iter().map(|&flag| flag.to_owned()));
                    args.extend([from, to].map(|path| path.replace("h:", "127.0.0.1:")));
                    lab.run(&our("lhscp"), &args)
                });
            }
        }
    }
}

/// Covers: sftp reput; sftp put; sftp get
#[test]
fn lhsftp_commands_handle_faulty_servers() {
    let lab = Lab::new();
    make_sources(&lab);
    make_blob(&lab.path("whole"), 300_000);
    let begin = fs::read(lab.path("whole")).unwrap();
    for lie in [
        Lie::ReusedHandles,
        Lie::OneHandle,
        Lie::CutsWriteOnly,
        Lie::OutOfOrder,
        Lie::NoSeeks,
        Lie::RemovesOpened,
    ] {
        let _ = fs::remove_dir_all(lab.path("there"));
        let _ = fs::remove_dir_all(lab.path("back"));
        for directory in ["there", "back"] {
            fs::create_dir_all(lab.path(directory)).unwrap();
        }
        fs::write(lab.path("there/whole"), &begin[..100_000]).unwrap();
        lab.write(
            "batch",
            &format!(
                "cd {there}\nput {here}/small/*\nput -r {here}/mixed\nreput {here}/whole\nlcd {back}\nget file*\nget -r mixed\n",
                there = lab.arg("there"),
                here = lab.dir().display(),
                back = lab.arg("back"),
            ),
        );
        let server = liar(&lab, &[lie]);
        let ran = lab.run(&our("lhsftp"), &["-b", &lab.arg("batch"), "-D", &server]);
        assert_eq!(ran.code, 0, "{lie:?}: {}", ran.err);
        assert_eq!(wrong(&lab.path("small"), &lab.path("there")), Vec::<PathBuf>::new(), "{lie:?}");
        assert_eq!(wrong(&lab.path("mixed"), &lab.path("back/mixed")), Vec::<PathBuf>::new(), "{lie:?}");
        assert_eq!(wrong(&lab.path("small"), &lab.path("back")), Vec::<PathBuf>::new(), "{lie:?}");
        assert!(fs::read(lab.path("there/whole")).unwrap() == begin, "{lie:?}");
    }
}
