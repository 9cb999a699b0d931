//! Dialogues on a terminal.

mod common;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::Child;

use common::{OURS, TestDirectory};
use lh_sys::pty::Pty;
use lh_sys::spawn::Program;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Limit against hanging; not an expected duration.
const LIMIT: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// The program on a pseudo terminal of its own.
struct Dialogue {
    master: File,
    child: Child,
    shown: String,
}

impl Dialogue {
    fn start(directory: &TestDirectory, arguments: &[&str]) -> Self {
        let pty = Pty::allocate().expect("a terminal");
        let slave = || pty.open_slave().expect("opens");
        let mut program = Program::new(OURS)
            .dir(directory.path(""))
            .stdio(slave(), slave(), slave())
            .controlling_terminal();
        for argument in arguments {
            program = program.arg(argument);
        }
        let environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
        let child = program.env(environment).spawn().expect("starts");
        Self { master: pty.into_master().into(), child, shown: String::new() }
    }

    /// Reads output up to a text, and drops it.
    fn expect(&mut self, text: &str) {
        while !self.shown.contains(text) {
            assert!(self.read(), "the end before {text:?}: {:?}", self.shown);
        }
        let end = self.shown.find(text).expect("is there") + text.len();
        self.shown.drain(..end);
    }

    fn say(&mut self, line: &str) {
        self.master.write_all(line.as_bytes()).expect("typed");
    }

    /// The remaining output and the exit status.
    fn end(mut self) -> (String, Option<i32>) {
        while self.read() {}
        (self.shown, self.child.wait().expect("ends").code())
    }

    /// Reads more output; `false` at the end.
    fn read(&mut self) -> bool {
        let ready = poll(&mut [PollFd::new(&self.master, PollFlags::IN)], Some(&LIMIT)).expect("polls");
        assert!(ready > 0, "no output after {:?}", self.shown);
        let mut buffer = [0; 1024];
        match self.master.read(&mut buffer) {
            // A terminal whose other end is closed reads as an error.
            Ok(0) | Err(_) => false,
            Ok(count) => {
                self.shown.push_str(&String::from_utf8_lossy(&buffer[..count]));
                true
            }
        }
    }
}

#[test]
fn key_is_generated_in_a_dialogue() {
    let directory = TestDirectory::new();
    let mut talk = Dialogue::start(&directory, &["-a", "2", "-C", "me"]);
    talk.expect("Generating public/private ed25519 key pair.\r\nEnter file in which to save the key (");
    talk.expect("/.ssh/id_ed25519): ");
    talk.say("key\n");
    talk.expect("Enter passphrase (empty for no passphrase): ");
    talk.say("first\n");
    talk.expect("\r\nEnter same passphrase again: ");
    talk.say("second\n");
    talk.expect("\r\nPassphrases do not match.  Try again.\r\nEnter passphrase (empty for no passphrase): ");
    talk.say("third\n");
    talk.expect("\r\nEnter same passphrase again: ");
    talk.say("third\n");
    talk.expect(
        "\r\nYour identification has been saved in key\r\nYour public key has been saved in key.pub\r\n",
    );
    talk.expect("The key fingerprint is:\r\nSHA256:");
    talk.expect(" me\r\nThe key's randomart image is:\r\n+--[ED25519 256]--+\r\n");
    let (rest, status) = talk.end();
    assert!(rest.ends_with("\r\n+----[SHA256]-----+\r\n"), "{rest}");
    assert_eq!(status, Some(0));
    assert_eq!(directory.ours(&["-y", "-P", "third", "-f", "key"]), directory.text("key.pub"));
}

#[test]
fn passphrase_dialogue_never_shows_it() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "old secret", "-a", "2", "-f", "key", "-C", "me"]);
    let mut talk = Dialogue::start(&directory, &["-p", "-a", "2", "-f", "key"]);
    talk.expect("Enter old passphrase: ");
    talk.say("old secret\n");
    talk.expect("\r\nKey has comment 'me'\r\nEnter new passphrase (empty for no passphrase): ");
    talk.say("new secret\n");
    talk.expect("\r\nEnter same passphrase again: ");
    talk.say("new secret\n");
    let (rest, status) = talk.end();
    assert_eq!(rest, "\r\nYour identification has been saved with the new passphrase.\r\n");
    assert_eq!(status, Some(0));
    let mut talk = Dialogue::start(&directory, &["-p", "-f", "key", "-P", "new secret"]);
    talk.expect("Enter new passphrase (empty for no passphrase): ");
    talk.say("a\n");
    talk.expect("Enter same passphrase again: ");
    talk.say("b\n");
    let (rest, status) = talk.end();
    assert_eq!((rest.as_str(), status), ("\r\nPass phrases do not match.  Try again.\r\n", Some(1)));
    assert_eq!(directory.ours(&["-y", "-P", "new secret", "-f", "key"]), directory.text("key.pub"));
}

#[test]
fn overwriting_and_comments_are_prompted() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "", "-f", "key", "-C", "me"]);
    let before = directory.text("key");
    for (answer, status) in [("n\n", 1), ("\n", 1), ("yes\n", 0)] {
        let mut talk =
            Dialogue::start(&directory, &["-q", "-t", "ed25519", "-N", "", "-f", "key", "-C", "me"]);
        talk.expect("key already exists.\r\nOverwrite (y/n)? ");
        talk.say(answer);
        assert_eq!(talk.end().1, Some(status), "{answer:?}");
        assert_eq!(directory.text("key") == before, status == 1, "{answer:?}");
    }
    let mut talk = Dialogue::start(&directory, &["-c", "-f", "key"]);
    talk.expect("Old comment: me\r\nNew comment: ");
    talk.say("somebody else\n");
    talk.expect("Comment 'somebody else' applied\r\n");
    assert_eq!(talk.end().1, Some(0));
    assert!(directory.text("key.pub").ends_with(" somebody else\n"));
}

#[test]
fn interrupt_leaves_no_key() {
    let directory = TestDirectory::new();
    let mut talk = Dialogue::start(&directory, &["-t", "ed25519", "-f", "key"]);
    talk.expect("Enter passphrase (empty for no passphrase): ");
    talk.say("\u{3}");
    assert_eq!(talk.end().1, None, "killed by the signal");
    assert_eq!(directory.names(), Vec::<String>::new());
}
