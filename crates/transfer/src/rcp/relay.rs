//! One copy from a remote source to a remote sink, both at the other ends of blocking streams.
//!
//! What the source sends is checked before the sink gets it, as [`Sink`](super::Sink) checks it: names that
//! lead elsewhere or were not asked for, and directories without `-r`, end the copy.

use std::io::{self, ErrorKind, Read, Write};

use bytes::Bytes;
use lh_sys::errno_text;

use crate::names::display_name;

use super::Request;
use super::inbox::{Answer, Inbox};
use super::record::{Malformed, Record};
use super::violation::Violation;

/// Read in one go.
const CHUNK: usize = 256 * 1024;

/// Why a copy between two remote sides ended early.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// A side ended in the middle of something.
    #[error("lost connection")]
    Lost,
    /// A stream of this host cannot be read or written.
    #[error("{}", errno_text(.0))]
    Stream(#[from] io::Error),
    /// The source does not speak the protocol; the words of `scp`.
    #[error("protocol error: {0}")]
    Protocol(#[from] Violation),
    /// The source sends a name that leads elsewhere (CVE-2019-6111).
    #[error("error: unexpected filename: {}", display_name(.0))]
    Name(Vec<u8>),
    /// Text before the first record: a shell's message.
    #[error("{}", display_name(.0))]
    Shell(Vec<u8>),
    /// A side gives up, in its own words.
    #[error("{}", display_name(.0))]
    GaveUp(Vec<u8>),
}

impl From<Malformed> for RelayError {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Unknown => Violation::NoRecord.into(),
            Malformed::Protocol(why) => why.into(),
            Malformed::Name(name) => Self::Name(name),
        }
    }
}

/// One of the two remote sides: what it sends, and what is sent to it.
pub struct Peer<R, W> {
    input: R,
    output: W,
    inbox: Inbox,
}

impl<R: Read, W: Write> Peer<R, W> {
    /// A side that writes `input` and reads `output`.
    pub fn new(input: R, output: W) -> Self {
        Self { input, output, inbox: Inbox::default() }
    }

    /// Waits for more; false at the end of the stream.
    fn fill(&mut self) -> Result<bool, RelayError> {
        let mut space = vec![0; CHUNK];
        loop {
            match self.input.read(&mut space) {
                Ok(0) => return Ok(false),
                Ok(read) => {
                    space.truncate(read);
                    self.inbox.push(Bytes::from(space));
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn line(&mut self) -> Result<Option<Vec<u8>>, RelayError> {
        loop {
            match self.inbox.line() {
                Ok(Some(line)) => return Ok(Some(line)),
                Ok(None) if self.fill()? => {}
                Ok(None) if self.inbox.mid_line() => return Err(RelayError::Lost),
                Ok(None) => return Ok(None),
                Err(why) => return Err(why.into()),
            }
        }
    }

    fn answer(&mut self) -> Result<Answer, RelayError> {
        loop {
            match self.inbox.answer() {
                Some(answer) => return Ok(answer),
                None if self.fill()? => {}
                None => return Err(RelayError::Lost),
            }
        }
    }

    fn data(&mut self, most: u64) -> Result<Bytes, RelayError> {
        loop {
            match self.inbox.data(most) {
                Some(data) => return Ok(data),
                None if self.fill()? => {}
                None => return Err(RelayError::Lost),
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), RelayError> {
        self.output.write_all(bytes).and_then(|()| self.output.flush()).map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => RelayError::Lost,
            _ => error.into(),
        })
    }

    fn send_answer(&mut self, answer: &Answer) -> Result<(), RelayError> {
        let (text, fatal) = match answer {
            Answer::Fine => return self.send(&[0]),
            Answer::Failed(text) => (text.clone(), false),
            Answer::Fatal(text) => (text.clone(), true),
        };
        self.send(&Record::Failed { text, fatal }.encode())
    }
}

/// Carries what `request` allows from `source` to `sink`. `tell` gets what either says went wrong, made
/// printable. Returns whether nothing did.
///
/// # Errors
/// Why the copy ended early.
pub fn relay<R: Read, W: Write, S: Read, T: Write>(
    source: &mut Peer<R, W>,
    sink: &mut Peer<S, T>,
    request: &Request,
    recursive: bool,
    tell: &mut dyn FnMut(&str),
) -> Result<bool, RelayError> {
    let mut relay = Relay { source, sink, tell, well: true };
    if !relay.acknowledged()? {
        return Ok(false);
    }
    let mut depth = 0_u64;
    let mut first = true;
    while let Some(line) = relay.source.line()? {
        let record = match Record::parse(&line) {
            // `scp -f foo\*` where nothing matches: some shells say so themselves, on the same stream.
            Err(Malformed::Unknown) if first => return Err(RelayError::Shell(line)),
            record => record?,
        };
        first = false;
        match &record {
            Record::Dir { .. } if !recursive => {
                return Err(Violation::Directory.into());
            }
            Record::File { name, .. } | Record::Dir { name, .. } if depth == 0 && !request.allows(name) => {
                return Err(Violation::Name.into());
            }
            _ => {}
        }
        relay.sink.send(&[&line[..], b"\n"].concat())?;
        match record {
            // Nothing answers these.
            Record::Failed { text, fatal } => {
                relay.failed(&text);
                if fatal {
                    return Ok(false);
                }
            }
            Record::Times(_) => _ = relay.acknowledged()?,
            Record::Dir { .. } => depth += u64::from(relay.acknowledged()?),
            Record::EndDir => {
                depth = depth.checked_sub(1).ok_or(Violation::EndOfDirectory)?;
                relay.acknowledged()?;
            }
            Record::File { size, .. } => {
                if relay.acknowledged()? {
                    relay.file(size)?;
                }
            }
        }
    }
    Ok(relay.well)
}

struct Relay<'a, R, W, S, T> {
    source: &'a mut Peer<R, W>,
    sink: &'a mut Peer<S, T>,
    tell: &'a mut dyn FnMut(&str),
    well: bool,
}

impl<R: Read, W: Write, S: Read, T: Write> Relay<'_, R, W, S, T> {
    fn failed(&mut self, text: &[u8]) {
        self.well = false;
        (self.tell)(&display_name(text));
    }

    /// Passes on the sink's answer; whether it was a good one.
    fn acknowledged(&mut self) -> Result<bool, RelayError> {
        let answer = self.sink.answer()?;
        self.source.send_answer(&answer)?;
        match answer {
            Answer::Fine => return Ok(true),
            Answer::Failed(text) => self.failed(&text),
            Answer::Fatal(text) => return Err(RelayError::GaveUp(text)),
        }
        Ok(false)
    }

    /// Passes on a file's data and what both sides say about it.
    fn file(&mut self, size: u64) -> Result<(), RelayError> {
        let mut left = size;
        while left > 0 {
            let data = self.source.data(left)?;
            left -= data.len() as u64;
            self.sink.send(&data)?;
        }
        let answer = self.source.answer()?;
        self.sink.send_answer(&answer)?;
        match answer {
            Answer::Fine => {}
            Answer::Failed(text) => self.failed(&text),
            Answer::Fatal(text) => return Err(RelayError::GaveUp(text)),
        }
        self.acknowledged().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the relay made of these streams: the outcome, what the sink got, what the source was told, what
    /// was said.
    fn relayed(
        from_source: &[u8],
        from_sink: &[u8],
        recursive: bool,
    ) -> (Result<bool, String>, Vec<u8>, Vec<u8>, Vec<String>) {
        let request = Request::of(b"dir/wanted*", false).unwrap();
        let mut source = Peer::new(from_source, Vec::new());
        let mut sink = Peer::new(from_sink, Vec::new());
        let mut said = Vec::new();
        let result =
            relay(&mut source, &mut sink, &request, recursive, &mut |text| said.push(text.to_owned()));
        (result.map_err(|error| error.to_string()), sink.output, source.output, said)
    }

    #[test]
    fn files_and_directories_go_through_unchanged() {
        let sent =
            b"T1 0 2 0\nC0644 5 wanted.txt\nhello\0\x01scp: a: gone\nD0755 0 wanted\nC0600 0 in\n\0E\n";
        let answers = b"\0\0\0\0\0\0\0\0";
        let (result, got, told, said) = relayed(sent, answers, true);
        assert_eq!(result, Ok(false), "a file was gone");
        assert_eq!(got, sent);
        assert_eq!(told, answers);
        assert_eq!(said, ["scp: a: gone"]);
        let (result, got, ..) = relayed(b"C0644 2 wanted\nhi\0", b"\0\0\0", false);
        assert_eq!((result, &got[..]), (Ok(true), &b"C0644 2 wanted\nhi\0"[..]));
    }

    #[test]
    fn a_refused_file_has_no_data() {
        let sent = b"C0644 5 wanted1\nC0644 2 wanted2\nhi\0";
        let (result, got, told, said) = relayed(sent, b"\0\x01scp: \x1b[2J denied\n\0\0", false);
        assert_eq!(result, Ok(false));
        assert_eq!((&got[..], &told[..]), (&sent[..], &b"\0\x01scp: \x1b[2J denied\n\0\0"[..]));
        assert_eq!(said, ["scp: \\033[2J denied"]);
    }

    #[test]
    fn names_that_lead_elsewhere_never_reach_the_sink() {
        let unasked = "protocol error: filename does not match request";
        for (sent, recursive, why) in [
            (&b"C0644 1 .bashrc\nx\0"[..], false, unasked),
            (b"D0755 0 .ssh\n", true, unasked),
            (b"C0644 1 ../wanted\nx\0", false, "error: unexpected filename: ../wanted"),
            (b"D0755 0 wanted\nC0644 1 a\x1b/x\nx\0", true, "error: unexpected filename: a\\033/x"),
            (b"D0755 0 wanted\n", false, "protocol error: received directory without -r"),
            (b"E\n", true, "protocol error: unexpected end of directory"),
            (b"zsh: no matches found\n", false, "zsh: no matches found"),
            (b"C0644 9 wanted\nx", false, "lost connection"),
            (b"C0644 1 wanted\nx\0oh\n", false, "protocol error: expected control record"),
        ] {
            let (result, got, ..) = relayed(sent, b"\0\0\0\0", recursive);
            assert_eq!(result, Err(why.to_owned()));
            let leaked = [&b".bashrc"[..], b".ssh", b"../", b"a\x1b/"];
            assert!(!leaked.iter().any(|name| got.windows(name.len()).any(|part| part == *name)), "{why}");
        }
    }
}
