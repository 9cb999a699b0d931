//! A sample of one end of a connection at one time.

use lh_sys::tcp_info::{FIELDS, TcpInfo};

/// Names of this process's own values; docs/metrics.md has their meaning and units.
pub const SSH_FIELDS: [&str; 11] = [
    "bytes_in",
    "bytes_out",
    "channels",
    "receive_window",
    "send_credit",
    "queued",
    "rekeys",
    "cpu_micros",
    "receive_buffer_limit",
    "send_buffer_limit",
    "rate_limit",
];

/// Counters and queue sizes of the connection: the first of [`SSH_FIELDS`], in their units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "docs/metrics.md has the meaning of the names")]
pub struct Counters {
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub channels: u64,
    pub receive_window: u64,
    pub send_credit: u64,
    pub queued: u64,
    pub rekeys: u64,
}

/// Sources of a sample.
#[derive(Debug)]
pub struct Source {
    /// Counters of the connection.
    pub counters: Counters,
    /// The kernel's data; `None` where there is no TCP connection (behind a proxy command).
    pub tcp: Option<TcpInfo>,
    /// Name of TCP's congestion control.
    pub congestion_control: Option<String>,
    /// The program's own rate limit, bytes/s.
    pub rate_limit: Option<u64>,
}

/// Processor time of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTime {
    /// Id of the thread, unique in its process while it runs.
    pub id: u32,
    /// Its name; [`Sample::of`] and readers leave printable ASCII only.
    pub name: String,
    /// Processor time since it began, microseconds.
    pub cpu_micros: u64,
}

/// Named values. Names are those of [`FIELDS`] and [`SSH_FIELDS`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// The kernel's values; empty where there is no TCP connection (behind a proxy command).
    pub tcp: Vec<(&'static str, u64)>,
    /// The process's own values; empty where the peer does not send them.
    pub ssh: Vec<(&'static str, u64)>,
    /// Name of TCP's congestion control, where it is known.
    pub congestion_control: Option<String>,
    /// The threads of the SSH process with the most CPU time, at most [`MOST_THREADS`]; empty if they are not
    /// known.
    pub threads: Vec<ThreadTime>,
}

/// Upper limit of threads in a sample.
pub const MOST_THREADS: usize = 32;
/// Upper limit of a thread's name in Linux, bytes (`TASK_COMM_LEN` without its zero byte).
const LONGEST_THREAD: usize = 15;

/// Upper limit of a congestion control's name in Linux, bytes (`TCP_CA_NAME_MAX`).
const LONGEST_NAME: usize = 16;

impl Sample {
    /// The current values of this end, and the version of the kernel's part.
    pub fn of(source: Source) -> (Self, Option<(u8, u8)>) {
        let Source { counters, tcp, congestion_control, rate_limit } = source;
        // Destructured without `..`, so that a new field cannot be forgotten.
        let Counters { bytes_in, bytes_out, channels, receive_window, send_credit, queued, rekeys } =
            counters;
        let cpu = u64::try_from(lh_sys::time::process_cpu().as_micros()).unwrap_or(u64::MAX);
        // Without a TCP connection, TCP's buffers are no limit.
        let (receive_limit, send_limit) = match tcp {
            Some(_) => lh_sys::tuning::buffer_limits(),
            None => (None, None),
        };
        let counted =
            [bytes_in, bytes_out, channels, receive_window, send_credit, queued, rekeys, cpu].map(Some);
        let limits = [receive_limit, send_limit, rate_limit];
        let values = SSH_FIELDS.into_iter().zip(counted.into_iter().chain(limits));
        let mut sample = Self {
            tcp: tcp.as_ref().map(|info| info.fields().collect()).unwrap_or_default(),
            ssh: values.filter_map(|(name, value)| Some((name, value?))).collect(),
            congestion_control: congestion_control.filter(|_| tcp.is_some()),
            threads: Vec::new(),
        };
        sample.take_own_threads();
        (sample, tcp.map(|tcp| tcp.version()))
    }

    /// Sets the name of a congestion control from a peer or a file. A name that no kernel would use is
    /// ignored.
    pub(crate) fn take_congestion_control(&mut self, name: &str) {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !name.is_empty() && name.len() < LONGEST_NAME && name.chars().all(plain) {
            self.congestion_control = Some(name.to_owned());
        }
    }

    /// Adds the threads of this process, those with the most CPU time first.
    pub(crate) fn take_own_threads(&mut self) {
        let mut threads = lh_sys::threads::all().unwrap_or_default();
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.cpu));
        for thread in threads {
            let micros = u64::try_from(thread.cpu.as_micros()).unwrap_or(u64::MAX);
            self.take_thread(thread.id, &thread.name, micros);
        }
    }

    /// Adds a thread, from the kernel, a peer or a file. Those beyond [`MOST_THREADS`] are ignored.
    pub(crate) fn take_thread(&mut self, id: u32, name: &str, cpu_micros: u64) {
        if self.threads.len() < MOST_THREADS {
            let plain = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
            let name = name.chars().take(LONGEST_THREAD).map(plain).collect();
            self.threads.push(ThreadTime { id, name, cpu_micros });
        }
    }

    /// Adds a value with a known name; others are ignored.
    pub(crate) fn take(&mut self, tcp: bool, name: &str, value: u64) {
        if tcp {
            if let Some(field) = FIELDS.iter().find(|field| field.name == name) {
                self.tcp.push((field.name, value));
            }
        } else if let Some(known) = SSH_FIELDS.into_iter().find(|known| *known == name) {
            self.ssh.push((known, value));
        }
    }

    /// Value of one of the kernel's fields.
    pub fn tcp(&self, name: &str) -> Option<u64> {
        find(&self.tcp, name)
    }

    /// Value of one of SSH's fields.
    pub fn ssh(&self, name: &str) -> Option<u64> {
        find(&self.ssh, name)
    }
}

fn find(values: &[(&'static str, u64)], name: &str) -> Option<u64> {
    values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_has_the_threads_of_this_process() {
        let counters = Counters::default();
        let source = Source { counters, tcp: None, congestion_control: None, rate_limit: None };
        let (sample, _) = Sample::of(source);
        assert!(!sample.threads.is_empty() && sample.threads.len() <= MOST_THREADS, "{sample:?}");
        assert!(sample.threads.is_sorted_by_key(|thread| std::cmp::Reverse(thread.cpu_micros)), "{sample:?}");
    }

    #[test]
    fn names_of_threads_are_printable_and_few() {
        let mut sample = Sample::default();
        for id in 0..100 {
            sample.take_thread(id, "a\u{1b}[2J\u{202e} and more than fits", 5);
        }
        assert_eq!(sample.threads.len(), MOST_THREADS);
        assert_eq!(sample.threads[0].name, "a?[2J? and more");
    }
}
