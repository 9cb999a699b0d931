//! Counters that sessions report to the listener, which adds them up. Reports hold totals, so a lost one
//! costs nothing.

/// Number of counters.
pub(crate) const COUNT: usize = ROWS.len();
/// Length of a report, bytes.
pub(crate) const REPORT_LENGTH: usize = 1 + 8 * COUNT;
/// First byte of a report.
pub(crate) const REPORT: u8 = b'C';

/// The index of a counter in [`ROWS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    BytesIn,
    BytesOut,
    Rekeys,
    FailedAttempts,
    Commands,
    UploadsComplete,
    UploadsFailed,
    DownloadsComplete,
    DownloadsFailed,
    UploadBytes,
    DownloadBytes,
    LogErrors,
}

/// Name, labels and help text of each counter; rows with equal names stand together.
pub(crate) const ROWS: [(&str, &str, &str); 12] = [
    ("received_bytes_total", "", "Bytes received over connections, with everything SSH puts around data."),
    ("sent_bytes_total", "", "Bytes sent over connections."),
    ("rekeys_total", "", "Key exchanges after the first."),
    ("failed_attempts_total", "", "Attempts to log in that failed."),
    ("commands_total", "", "Commands and shells that have ended."),
    ("files_total", "{direction=\"upload\",outcome=\"complete\"}", "Files transferred over SFTP."),
    ("files_total", "{direction=\"upload\",outcome=\"failed\"}", ""),
    ("files_total", "{direction=\"download\",outcome=\"complete\"}", ""),
    ("files_total", "{direction=\"download\",outcome=\"failed\"}", ""),
    ("file_bytes_total", "{direction=\"upload\"}", "Bytes of files transferred over SFTP."),
    ("file_bytes_total", "{direction=\"download\"}", ""),
    ("transfer_log_errors_total", "", "Lines of TransferLog that could not be written."),
];

/// The value of each counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counters([u64; COUNT]);

impl Counters {
    pub(crate) fn add(&mut self, counter: Counter, by: u64) {
        self.0[counter as usize] = self.0[counter as usize].saturating_add(by);
    }

    pub(crate) const fn set(&mut self, counter: Counter, to: u64) {
        self.0[counter as usize] = to;
    }

    /// Adds the increase from `before` to `now`.
    pub(crate) fn grow(&mut self, before: &Self, now: &Self) {
        for (sum, (before, now)) in self.0.iter_mut().zip(before.0.iter().zip(&now.0)) {
            *sum = sum.saturating_add(now.saturating_sub(*before));
        }
    }

    /// Returns each counter's row and value.
    pub(crate) fn rows(
        &self,
    ) -> impl Iterator<Item = (&'static (&'static str, &'static str, &'static str), u64)> {
        ROWS.iter().zip(self.0)
    }

    pub(crate) fn report(&self) -> [u8; REPORT_LENGTH] {
        let mut report = [REPORT; REPORT_LENGTH];
        for (place, value) in
            report.iter_mut().skip(1).zip(self.0.iter().flat_map(|value| value.to_be_bytes()))
        {
            *place = value;
        }
        report
    }

    pub(crate) fn read(report: &[u8; REPORT_LENGTH]) -> Option<Self> {
        let (&REPORT, values) = report.split_first()? else { return None };
        let mut counters = Self::default();
        let (values, _) = values.as_chunks::<8>();
        for (counter, value) in counters.0.iter_mut().zip(values) {
            *counter = u64::from_be_bytes(*value);
        }
        Some(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_arrive_and_add_up() {
        let mut first = Counters::default();
        first.add(Counter::BytesIn, 5);
        first.set(Counter::LogErrors, 1);
        assert_eq!(Counters::read(&first.report()), Some(first));
        assert_eq!(Counters::read(&[0; REPORT_LENGTH]), None);
        let mut second = first;
        second.add(Counter::BytesIn, 10);
        let mut sum = first;
        sum.grow(&first, &second);
        assert_eq!(sum, second);
        assert_eq!(
            second.rows().next().map(|(row, value)| (row.0, value)),
            Some(("received_bytes_total", 15))
        );
        assert_eq!(
            second.rows().last().map(|(row, value)| (row.0, value)),
            Some(("transfer_log_errors_total", 1))
        );
    }
}
