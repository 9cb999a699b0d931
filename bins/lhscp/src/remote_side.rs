//! `-t` and `-f`: the remote side of the old protocol, on standard input and output.
//!
//! Started by the `scp -O` of somebody else, by WinSCP, by what is built into network equipment.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use lh_cli::flags::Parsed;
use lh_transfer::Current;
use lh_transfer::rcp::{self, Options, Party, Request, Sink, Source};

use crate::FAILURE;

/// Serves one copy; returns the exit status.
pub(crate) fn run(parsed: &Parsed) -> u8 {
    let streams = || -> io::Result<(File, File)> {
        Ok((
            io::stdin().as_fd().try_clone_to_owned()?.into(),
            io::stdout().as_fd().try_clone_to_owned()?.into(),
        ))
    };
    let Ok((mut input, mut output)) = streams() else { return FAILURE };
    let options = Options {
        recursive: parsed.has('r'),
        preserve: parsed.has('p'),
        target_must_be_dir: parsed.has('d'),
        remote_side: true,
        bits_per_second: None,
    };
    let mut party: Box<dyn Party> = if parsed.has('f') {
        let paths = parsed.operands.iter().map(|path| path.as_bytes().to_vec()).collect();
        Box::new(Source::new(paths, options, Instant::now()))
    } else if let [target] = &parsed.operands[..] {
        Box::new(Sink::new(target.as_bytes().to_vec(), Request::anything(), options))
    } else {
        use std::io::Write;
        let _ = output.write_all(b"\x01scp: ambiguous target\n");
        return FAILURE;
    };
    let mut report = Told { verbose: parsed.has('v') };
    rcp::run(&mut *party, &mut input, &mut output, &mut report);
    u8::from(party.failures() > 0 || !party.is_finished())
}

/// What goes wrong is told in the protocol; only `-v` says more, on standard error.
struct Told {
    verbose: bool,
}

impl rcp::Report for Told {
    fn event(&mut self, event: rcp::Event, _now: Instant) {
        if let rcp::Event::Debug(text) = event
            && self.verbose
        {
            eprintln!("{text}");
        }
    }

    fn progress(&mut self, _current: Option<Current<'_>>, _now: Instant) {}

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}
