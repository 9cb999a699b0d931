//! What sessions report to the listener, where `PrometheusListen` wants it: totals, over the socket that told of the login.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::counters::{Counters, REPORT, REPORT_LENGTH};

/// One session's end.
pub(super) struct Reports {
    control: OwnedFd,
    /// What has come of the next report.
    inbox: Vec<u8>,
    counted: Counters,
}

impl Reports {
    /// `first` is the byte that has been read of it already, if it is no word about the login.
    pub(super) fn new(control: OwnedFd, first: Option<u8>) -> Self {
        Self {
            control,
            inbox: first.filter(|byte| *byte == REPORT).into_iter().collect(),
            counted: Counters::default(),
        }
    }

    /// What to wait for.
    pub(super) const fn control(&self) -> &OwnedFd {
        &self.control
    }

    /// Adds to `sum` what has been reported; false when no more will come.
    pub(super) fn read(&mut self, sum: &mut Counters) -> bool {
        loop {
            let mut buffer = [0; 4 * REPORT_LENGTH];
            match recv(self.control.as_fd(), &mut buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((n, _)) => self.inbox.extend_from_slice(buffer.get(..n).unwrap_or_default()),
                Err(Errno::INTR) => continue,
                Err(error) => return error == Errno::AGAIN,
            }
            while let Some((report, rest)) = self.inbox.split_first_chunk::<REPORT_LENGTH>() {
                // A session of another version, after a restart, does not make sense.
                let Some(now) = Counters::read(report) else { return false };
                sum.grow(&self.counted, &now);
                self.counted = now;
                self.inbox = rest.to_vec();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counter;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn totals_of_a_session_are_counted_once() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut sum = Counters::default();
        let mut counters = Counters::default();
        counters.add(Counter::BytesIn, 100);
        let report = counters.report();
        theirs.write_all(&report[1..]).unwrap();
        let mut reports = Reports::new(ours.into(), Some(report[0]));
        assert!(reports.read(&mut sum));
        assert_eq!(sum, counters);
        counters.add(Counter::BytesIn, 11);
        theirs.write_all(&counters.report()[..20]).unwrap();
        assert!(reports.read(&mut sum));
        theirs.write_all(&counters.report()[20..]).unwrap();
        drop(theirs);
        assert!(!reports.read(&mut sum));
        assert_eq!(sum, counters);
    }
}
