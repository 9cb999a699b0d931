//! Moduli for Diffie-Hellman group exchange (`-M`): generates candidates without small factors, and screens
//! them for safe primes.
//!
//! The files have the format of moduli(5): time, type, tests, tries, size, generator and the number in
//! hexadecimal.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lh_crypto::{Random as _, SystemRandom, is_probable_prime};
use lh_sys::errno_text;

use crate::arguments::Arguments;
use crate::console::{Outcome, error, fatal, note, shown};
use crate::times;

/// Modulus types of moduli(5).
const SAFE: u32 = 2;
const SOPHIE_GERMAIN: u32 = 4;
/// Test flags of moduli(5).
const SIEVED: u32 = 2;
const MILLER_RABIN: u32 = 4;

/// Default of `-O prime-tests`, as in ssh-keygen.
const ROUNDS: u32 = 100;
/// Permitted modulus sizes, bits.
const BITS: std::ops::RangeInclusive<u32> = 512..=16384;
/// Numbers sieved at once: enough for some dozens of safe primes of common sizes.
const WINDOW: usize = 1 << 24;
/// Numbers with a prime factor below this limit are not candidates.
const SMALL: usize = 1 << 20;
/// Interval at which the position in the input is saved.
const CHECKPOINT: Duration = Duration::from_secs(300);
/// Upper limit of a line, bytes.
const MAX_LINE: u64 = 64 * 1024;

/// Settings of `-O`.
#[derive(Default)]
struct Options {
    bits: Option<u32>,
    start: Option<Vec<u8>>,
    lines: Option<u64>,
    start_line: u64,
    checkpoint: Option<PathBuf>,
    generator: u32,
    rounds: Option<u32>,
}

pub(crate) fn run(arguments: &Arguments, task: &str) -> Outcome {
    let generating = match task {
        "generate" => true,
        "screen" => false,
        other => return Err(fatal(format!("Unsupported moduli option {}", lh_client::sanitise(other)))),
    };
    let out = match arguments.operands.as_slice() {
        [] => return Err(fatal("No output file specified")),
        [out] => PathBuf::from(out),
        _ => return Err(fatal("Too many output files specified")),
    };
    let mut options = Options::default();
    for option in &arguments.values.options {
        options.add(&option.to_string_lossy(), generating)?;
    }
    if generating { generate(&options, &out) } else { screen(arguments, &options, &out) }
}

impl Options {
    fn add(&mut self, option: &str, generating: bool) -> Outcome {
        let clean = lh_client::sanitise(option);
        let bad = || fatal(format!("Invalid number: {clean}"));
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let number = || value.parse::<u32>().map_err(|_| bad());
        match (name, generating) {
            ("bits", true) => self.bits = Some(number()?),
            ("start", true) => self.start = Some(from_hex(value).ok_or_else(bad)?),
            // Accepted and ignored: the sieve has a fixed size.
            ("memory", true) => drop(number()?),
            ("lines", false) => self.lines = Some(value.parse().map_err(|_| bad())?),
            ("start-line", false) => self.start_line = value.parse().map_err(|_| bad())?,
            ("checkpoint", false) => self.checkpoint = Some(value.into()),
            ("generator", false) => self.generator = number()?,
            ("prime-tests", false) => self.rounds = Some(number()?.max(1)),
            _ => {
                let what = if generating { "generation" } else { "screening" };
                return Err(fatal(format!("Option \"{clean}\" is unsupported for moduli {what}")));
            }
        }
        Ok(())
    }
}

/// Writes candidates: numbers `q` such that neither `q` nor `2q + 1` has a small factor.
fn generate(options: &Options, out: &Path) -> Outcome {
    let bits = options.bits.unwrap_or(0);
    if !BITS.contains(&bits) {
        let least = BITS.start();
        note(&if bits < *least {
            format!("Too few bits: {bits} < {least}")
        } else {
            format!("Too many bits: {bits} > {}", BITS.end())
        });
        return Err(fatal("modulus candidate generation failed"));
    }
    let failed = |why: io::Error| {
        fatal(format!("Couldn't open modulus candidate file \"{}\": {}", shown(out), errno_text(&why)))
    };
    let mut file = io::BufWriter::new(File::create(out).map_err(failed)?);
    let start = options.start.clone().unwrap_or_else(|| random_start(bits - 1));
    let began = Instant::now();
    note(&format!("{} Sieve next {WINDOW} plus {bits}-bit", times::show(times::now())));
    let mut count = 0u64;
    for index in sieve(&start) {
        let candidate = plus(&start, 2 * index as u64);
        let time = stamp();
        let line = format!("{time} {SOPHIE_GERMAIN} {SIEVED} 0 {} 0 {}\n", bits - 1, to_hex(&candidate));
        file.write_all(line.as_bytes()).map_err(failed)?;
        count += 1;
    }
    file.flush().map_err(failed)?;
    note(&format!(
        "{} Found {count} candidates in {} seconds",
        times::show(times::now()),
        began.elapsed().as_secs()
    ));
    Ok(())
}

/// A random odd number of this many bits, with its two highest bits set, so that its double has the wanted
/// size.
fn random_start(bits: u32) -> Vec<u8> {
    let mut bytes = vec![0; bits.div_ceil(8) as usize];
    SystemRandom.fill(&mut bytes);
    let top = (bits - 1) % 8;
    if let Some(first) = bytes.first_mut() {
        *first &= (0xffu16 >> (7 - top)) as u8;
        *first |= 1 << top;
    }
    if let Some(last) = bytes.last_mut() {
        *last |= 1;
    }
    bytes
}

/// The indices `i` for which neither `start + 2i` nor `2 (start + 2i) + 1` has a small factor.
fn sieve(start: &[u8]) -> impl Iterator<Item = usize> {
    let mut composite = vec![false; WINDOW];
    for prime in small_primes() {
        let start = modulo(start, prime as u64) as usize;
        let half = prime.div_ceil(2);
        // Solves start + 2i = 0 and 2 start + 4i + 1 = 0 modulo the prime; `half` is the inverse of two.
        let first = (prime - start) % prime * half % prime;
        let second = (2 * prime - (2 * start + 1) % prime) % prime * half % prime * half % prime;
        for from in [first, second] {
            composite.iter_mut().skip(from).step_by(prime).for_each(|mark| *mark = true);
        }
    }
    composite.into_iter().enumerate().filter(|(_, composite)| !composite).map(|(index, _)| index)
}

/// The odd primes below [`SMALL`].
fn small_primes() -> impl Iterator<Item = usize> {
    let mut composite = vec![false; SMALL];
    for number in (3..).step_by(2).take_while(|number| number * number < SMALL) {
        if !composite[number] {
            composite.iter_mut().skip(number * number).step_by(2 * number).for_each(|mark| *mark = true);
        }
    }
    (3..SMALL).step_by(2).filter(move |number| !composite[*number])
}

/// A line of a moduli file.
struct Line {
    tests: u32,
    tries: u32,
    size: u32,
    generator: u32,
    /// The modulus, `2q + 1`.
    p: Vec<u8>,
    q: Vec<u8>,
}

impl Line {
    /// Parses a line; `None` if it is invalid, or if its number does not have the stated size.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        fields.next().filter(|time| time.bytes().all(|byte| byte.is_ascii_digit()))?;
        let mut number = || fields.next()?.parse::<u32>().ok();
        let (kind, tests, tries, mut size) = (number()?, number()?, number()?, number()?);
        let generator = u32::from_str_radix(fields.next()?, 16).ok()?;
        let value = from_hex(fields.next()?)?;
        let (p, q) = if kind == SOPHIE_GERMAIN {
            size += 1;
            (double_plus_one(&value), value)
        } else {
            (value.clone(), halve(&value))
        };
        let bits = bit_length(&p);
        (bits == size + 1 && BITS.contains(&bits))
            .then_some(Self { tests, tries, size, generator, p, q })
            .filter(|_| fields.next().is_none())
    }

    /// Generator of the large subgroup: the stated one, or the smallest that is known to be one.
    fn generator(&self) -> u32 {
        if self.generator != 0 {
            return self.generator;
        }
        match (modulo(&self.p, 24), modulo(&self.p, 12), modulo(&self.p, 10)) {
            (11, _, _) => 2,
            (_, 5, _) => 3,
            (_, _, 3 | 7) => 5,
            _ => 0,
        }
    }

    /// Returns whether both numbers are prime. The most selective test comes first.
    fn is_safe(&self, rounds: u32) -> bool {
        is_probable_prime(&self.q, 1, &mut SystemRandom)
            && is_probable_prime(&self.p, rounds, &mut SystemRandom)
            && is_probable_prime(&self.q, rounds.saturating_sub(1), &mut SystemRandom)
    }
}

/// Writes the candidates that are safe primes.
fn screen(arguments: &Arguments, options: &Options, out: &Path) -> Outcome {
    let mut input: Box<dyn BufRead> = match arguments.file.as_deref().filter(|path| path.as_os_str() != "-") {
        None => Box::new(BufReader::new(io::stdin())),
        Some(path) => Box::new(BufReader::new(File::open(path).map_err(|why| {
            let why = errno_text(&why);
            fatal(format!("Couldn't open modulus candidate file \"{}\": {why}", shown(path)))
        })?)),
    };
    let failed = |why: io::Error| fatal(format!("Couldn't write \"{}\": {}", shown(out), errno_text(&why)));
    let done = options.checkpoint.as_deref().and_then(|path| fs::read_to_string(path).ok());
    let done = done.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0);
    let first = options.start_line.max(done);
    let mut file = File::options()
        .append(done > 0)
        .truncate(done == 0)
        .create(true)
        .write(true)
        .open(out)
        .map_err(failed)?;
    let rounds = options.rounds.unwrap_or(ROUNDS);
    let (began, mut saved) = (Instant::now(), Instant::now());
    let (mut found, mut candidates, mut number) = (0u64, 0u64, 0u64);
    let mut raw = Vec::new();
    loop {
        raw.clear();
        let read = io::Read::take(&mut input, MAX_LINE).read_until(b'\n', &mut raw);
        if read.map_err(|why| error(format!("reading candidates: {}", errno_text(&why))))? == 0 {
            break;
        }
        number += 1;
        if number <= first {
            continue;
        }
        if options.lines.is_some_and(|lines| number > options.start_line + lines) {
            break;
        }
        if let Some(path) = options.checkpoint.as_deref().filter(|_| saved.elapsed() > CHECKPOINT) {
            saved = Instant::now();
            fs::write(path, format!("{}\n", number - 1)).map_err(failed)?;
        }
        let Some(line) = Line::parse(String::from_utf8_lossy(&raw).trim()) else { continue };
        let generator = line.generator();
        if generator == 0 || (options.generator != 0 && options.generator != generator) {
            continue;
        }
        candidates += 1;
        if !line.is_safe(rounds) {
            continue;
        }
        found += 1;
        let tries = if line.tests & MILLER_RABIN == 0 { rounds } else { line.tries.saturating_add(rounds) };
        let text = format!(
            "{} {SAFE} {} {tries} {} {generator:x} {}\n",
            stamp(),
            line.tests | MILLER_RABIN,
            line.size,
            to_hex(&line.p)
        );
        file.write_all(text.as_bytes()).map_err(failed)?;
    }
    if let Some(path) = &options.checkpoint {
        // The file is complete, so there is nothing to resume.
        let _ = fs::remove_file(path);
    }
    note(&format!(
        "{} Found {found} safe primes of {candidates} candidates in {} seconds",
        times::show(times::now()),
        began.elapsed().as_secs()
    ));
    Ok(())
}

/// Current time in the form of moduli(5): `20300131120000`.
fn stamp() -> String {
    times::show_compact(times::now()).replace('T', "")
}

/// Length of a big-endian number, bits.
fn bit_length(magnitude: &[u8]) -> u32 {
    let zeros = magnitude.iter().take_while(|byte| **byte == 0).count();
    let top = magnitude.get(zeros).map_or(8, |byte| byte.leading_zeros());
    (magnitude.len() - zeros) as u32 * 8 - if zeros == magnitude.len() { 0 } else { top }
}

fn modulo(magnitude: &[u8], modulus: u64) -> u64 {
    magnitude.iter().fold(0, |rest, byte| (rest << 8 | u64::from(*byte)) % modulus)
}

fn plus(magnitude: &[u8], addend: u64) -> Vec<u8> {
    let mut sum = magnitude.to_vec();
    let mut carry = u128::from(addend);
    for byte in sum.iter_mut().rev() {
        carry += u128::from(*byte);
        *byte = carry as u8;
        carry >>= 8;
    }
    if carry > 0 {
        sum.insert(0, carry as u8);
    }
    sum
}

fn double_plus_one(magnitude: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    out.extend_from_slice(magnitude);
    let mut carry = 1;
    for byte in out.iter_mut().rev() {
        let high = *byte >> 7;
        *byte = *byte << 1 | carry;
        carry = high;
    }
    out
}

fn halve(magnitude: &[u8]) -> Vec<u8> {
    let mut out = magnitude.to_vec();
    let mut carry = 0;
    for byte in &mut out {
        let low = *byte & 1;
        *byte = *byte >> 1 | carry << 7;
        carry = low;
    }
    out
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() > 8192 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let text = if text.len() % 2 == 1 { format!("0{text}") } else { text.to_owned() };
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

fn to_hex(magnitude: &[u8]) -> String {
    let zeros = magnitude.iter().take_while(|byte| **byte == 0).count();
    magnitude[zeros..].iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Parses lines of candidates.
#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    for line in String::from_utf8_lossy(bytes).lines() {
        if let Some(line) = Line::parse(line.trim()) {
            let _ = line.generator();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sieve_leaves_numbers_without_small_factors() {
        let start = random_start(511);
        assert_eq!(bit_length(&start), 511);
        let indices: Vec<usize> = sieve(&start).collect();
        // About one in two hundred remains.
        assert!((20_000..400_000).contains(&indices.len()), "{}", indices.len());
        for index in indices.iter().step_by(1000) {
            let q = plus(&start, 2 * *index as u64);
            for prime in [3, 5, 7, 11, 13, 9973, 1_048_573] {
                assert_ne!(modulo(&q, prime), 0);
                assert_ne!(modulo(&double_plus_one(&q), prime), 0);
            }
        }
    }

    proptest! {
        #[test]
        fn byte_arithmetic_matches_integers(value in any::<u64>(), addend in any::<u32>(), modulus in 1u64..1 << 40) {
            let bytes = value.to_be_bytes();
            let wide = |bytes: &[u8]| bytes.iter().fold(0u128, |sum, byte| sum << 8 | u128::from(*byte));
            prop_assert_eq!(modulo(&bytes, modulus), value % modulus);
            prop_assert_eq!(wide(&plus(&bytes, u64::from(addend))), u128::from(value) + u128::from(addend));
            prop_assert_eq!(wide(&double_plus_one(&bytes)), u128::from(value) * 2 + 1);
            prop_assert_eq!(wide(&halve(&bytes)), u128::from(value / 2));
            prop_assert_eq!(bit_length(&bytes), 64 - value.leading_zeros());
            prop_assert_eq!(wide(&from_hex(&to_hex(&bytes)).unwrap_or_default()), u128::from(value));
        }

        #[test]
        fn arbitrary_lines_do_not_panic(line in "([0-9 ]{1,14}|[2-6] |[0-9A-F]{1,40}|\\PC){0,10}") {
            if let Some(line) = Line::parse(&line) {
                let _ = line.generator();
            }
        }
    }
}
