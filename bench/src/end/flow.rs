//! Writing zeros to a program and reading its output, with byte counts over time.

use std::io::{self, Read, Write};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Moved;

/// Size of one read or write, bytes: more than a pipe holds.
const BLOCK: usize = 256 << 10;
/// Sampling interval of the byte count.
const SPAN: Duration = Duration::from_millis(50);

/// Bytes over time.
struct Count {
    start: Instant,
    /// Samples: time since the start, and the bytes by then.
    samples: Vec<(Duration, u64)>,
    bytes: u64,
}

impl Count {
    fn new() -> Self {
        Self { start: Instant::now(), samples: Vec::new(), bytes: 0 }
    }

    fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.sample(self.start.elapsed());
    }

    fn sample(&mut self, now: Duration) {
        if self.samples.last().is_none_or(|(last, _)| now.saturating_sub(*last) >= SPAN) {
            self.samples.push((now, self.bytes));
        }
    }

    /// Total bytes, and the rate of the second half of the time between first and last byte.
    fn result(&self) -> Moved {
        let rate = || {
            let (&(first, _), &(last, end)) = (self.samples.first()?, self.samples.last()?);
            let middle = first + (last - first) / 2;
            let &(from, begin) = self.samples.iter().find(|(at, _)| *at >= middle)?;
            Some(((end - begin) as f64 / (last - from).as_secs_f64()) as u64)
        };
        Moved { bytes: self.bytes, steady: rate().unwrap_or(0) }
    }
}

/// Writes zeros for `duration` and then closes. The bytes that a program accepts equal the bytes it sends,
/// except for some buffers.
pub fn feed(mut into: impl Write + Send + 'static, duration: Duration) -> JoinHandle<Moved> {
    std::thread::spawn(move || {
        let block = vec![0; BLOCK];
        let mut count = Count::new();
        while count.start.elapsed() < duration {
            match into.write(&block) {
                Ok(0) => break,
                Ok(written) => count.add(written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        count.result()
    })
}

/// Reads to the end of the output.
pub fn meter(mut from: impl Read + Send + 'static) -> JoinHandle<Moved> {
    std::thread::spawn(move || {
        let mut block = vec![0; BLOCK];
        let mut count = Count::new();
        loop {
            match from.read(&mut block) {
                Ok(0) => break,
                Ok(read) => count.add(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        count.result()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_rate_is_that_of_the_second_half() {
        let mut count = Count::new();
        for step in 0..100_u32 {
            count.bytes += if step < 40 { 10 } else { 1000 };
            count.sample(SPAN * step);
        }
        let moved = count.result();
        assert_eq!(moved.bytes, 60_400);
        assert_eq!(moved.steady, 20_000, "1000 bytes in 50 ms");
        assert_eq!(Count::new().result(), Moved::default());
    }

    #[test]
    fn all_read_bytes_are_counted() {
        let moved = meter(io::repeat(7).take(1_000_000)).join().unwrap();
        assert_eq!(moved.bytes, 1_000_000);
    }
}
