//! Signals end copies whose local files are on a file system that does not answer.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Output, Stdio};

use lh_interop::held_fs::HeldFs;
use lh_interop::{Lab, Lhsshd, eventually, make_blob, our, skip_unavailable};
use rustix::process::{Pid, Signal, kill_process};

const SIZE: usize = 4 << 20;

struct Setup {
    /// Unmounted before its directory is removed.
    held: HeldFs,
    server: Lhsshd,
    lab: Lab,
}

fn setup(test: &str) -> Option<Setup> {
    mounted(test).inspect(|setup| setup.held.leave_out_flush())
}

/// Like [`setup`], with a file system that hears when a file is closed.
fn mounted(test: &str) -> Option<Setup> {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    match HeldFs::mount(&lab.path("held"), &vec![7; SIZE]) {
        Ok(held) => Some(Setup { held, server, lab }),
        Err(problem) => {
            skip_unavailable(test, &format!("no file system in user space can be mounted: {problem}"));
            None
        }
    }
}

impl Setup {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(our("lhscp"));
        command.args(self.lab.client_options()).args(["-P", &self.server.port_arg(), "-q"]).args(words);
        command.env("HOME", self.lab.path("home")).env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A download into the file of the held file system, slow enough to be stopped in its middle.
    fn slow_download(&self) -> Command {
        make_blob(&self.lab.path("blob"), SIZE);
        self.held.set_content(b"");
        let (file, blob) = (self.held.file(), self.remote("blob"));
        self.command(&["-l", "16000", "--in-place", &blob, file.to_str().unwrap()])
    }

    fn remote(&self, name: &str) -> String {
        format!("127.0.0.1:{}", self.lab.arg(name))
    }

    /// Waits until `is_true`; a copy that ends before fails the test.
    fn during(&self, child: &mut Child, what: &str, is_true: impl Fn() -> bool) {
        eventually(what, || {
            if let Some(status) = child.try_wait().unwrap() {
                self.held.release();
                let mut said = String::new();
                child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("{what}: ended before with {status}: {said}");
            }
            is_true()
        });
    }

    /// Sends the signal once the file system has a request that it does not read. Returns the output of
    /// `child`, which ends although the file system never answers.
    fn end(&self, mut child: Child, signal: Signal) -> Output {
        self.during(&mut child, "a request waits for the file system", || self.held.has_unread());
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(self.held.has_unread(), "the file system was not to answer");
        output
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_signal_ends_an_upload_whose_read_hangs() {
    let Some(setup) = setup("a_signal_ends_an_upload_whose_read_hangs") else { return };
    let (file, copy) = (setup.held.file(), setup.remote("copy"));
    let words = ["-l", "16000", "--json", file.to_str().unwrap(), &copy];
    for signal in [Signal::INT, Signal::TERM] {
        let before = setup.held.reads();
        let mut child = setup.command(&words).spawn().unwrap();
        // In the middle of the file: the journal names the part file.
        setup.during(&mut child, "data are read", || setup.held.reads() > before + 8);
        setup.held.stop_reading();
        let output = setup.end(child, signal);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(130), "{signal:?}: {said}");
        assert!(said.contains("interrupted: 0 files are complete; the same command again goes on from here"));
        assert!(said.contains("left behind: the unfinished file ") && said.contains("/.copy."), "{said}");
        let events = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = events.lines().last().unwrap_or_default();
        assert!(last.contains("\"end\"") && last.contains("\"interrupted\""), "{events}");
        setup.held.release();
    }
    let output = setup.command(&words[2..]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("resumed"), "the journal was kept");
    assert!(std::fs::read(setup.lab.path("copy")).unwrap() == vec![7; SIZE]);
}

#[test]
fn a_signal_ends_a_download_whose_write_hangs() {
    let Some(setup) = setup("a_signal_ends_a_download_whose_write_hangs") else { return };
    let mut child = setup.slow_download().spawn().unwrap();
    setup.during(&mut child, "data are written", || setup.held.content().len() > SIZE / 8);
    setup.held.stop_reading();
    let output = setup.end(child, Signal::TERM);
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(said(&output).contains("interrupted"), "{}", said(&output));
}

/// The copy has stopped, and the last thing it does is to close its file. The process cannot end before the
/// file system answers, but the copy is over.
#[test]
fn a_signal_ends_a_copy_whose_last_close_hangs() {
    let Some(setup) = mounted("a_signal_ends_a_copy_whose_last_close_hangs") else { return };
    let heard = setup.lab.path("heard");
    let mut child = setup.slow_download().stderr(std::fs::File::create(&heard).unwrap()).spawn().unwrap();
    setup.during(&mut child, "data are written", || setup.held.content().len() > SIZE / 8);
    setup.held.hold_closing();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    eventually("the copy says that it was interrupted", || {
        std::fs::read_to_string(&heard).unwrap().contains("interrupted: 0 files are complete")
    });
    assert_eq!(setup.held.waiting(), 1, "the file system was not to answer");
    setup.held.release();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{}", std::fs::read_to_string(&heard).unwrap());
}

/// The first look at a source may be before the login.
#[test]
fn a_signal_ends_a_copy_whose_stat_hangs() {
    let Some(setup) = setup("a_signal_ends_a_copy_whose_stat_hangs") else { return };
    let (file, copy) = (setup.held.file(), setup.remote("copy"));
    for flags in [&["-r"][..], &["-O"], &["--sync"]] {
        for signal in [Signal::INT, Signal::TERM] {
            setup.held.stop_reading();
            let words = [flags, &[file.to_str().unwrap(), &copy]].concat();
            let output = setup.end(setup.command(&words).spawn().unwrap(), signal);
            setup.held.release();
            let ended = (output.status.code(), output.status.signal());
            let expected = [(Some(130), None), (None, Some(signal.as_raw()))];
            assert!(expected.contains(&ended), "{flags:?} {signal:?}: {ended:?} {}", said(&output));
        }
    }
}

#[test]
fn a_signal_ends_a_tree_whose_directory_hangs() {
    let Some(setup) = setup("a_signal_ends_a_tree_whose_directory_hangs") else { return };
    std::fs::write(setup.lab.path("a"), b"beside").unwrap();
    setup.held.stop_reading();
    let (first, held) = (setup.lab.arg("a"), setup.lab.arg("held"));
    let (copy, target) = (setup.remote("tree"), setup.lab.path("tree"));
    std::fs::create_dir(&target).unwrap();
    let child = setup.command(&["-r", &first, &held, &copy]).spawn().unwrap();
    let output = setup.end(child, Signal::INT);
    let ended = (output.status.code(), output.status.signal());
    assert!([(Some(130), None), (None, Some(2))].contains(&ended), "{ended:?} {}", said(&output));
}
