//! Values of keywords that limit a user's connections and transfers.

use crate::line::Arguments;
use crate::table::Value;
use crate::units::{parse_size, parse_time};
use crate::value_error::{Syntax, ValueError};
use std::time::Duration;

/// A number of bytes that may be transferred in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferQuota {
    /// Bytes of both directions together.
    pub bytes: u64,
    /// The period, in whole seconds.
    pub period: Duration,
}

/// `PerUserTransferQuota`: `BYTES/TIME` or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaOrNone(pub Option<TransferQuota>);

impl Value for QuotaOrNone {
    const KIND: &'static str = "bytes, with K, M or G, / time; or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        let quota = word.split_once('/').and_then(|(bytes, period)| {
            let bytes = parse_size(bytes).filter(|bytes| *bytes > 0)?;
            let period = parse_time(period).filter(|seconds| *seconds > 0)?;
            Some(TransferQuota { bytes, period: Duration::from_secs(period) })
        });
        quota.map(|quota| Self(Some(quota))).ok_or_else(|| args.malformed(Syntax::Spec, &word))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self.0 {
            None => format!("{name} none"),
            Some(TransferQuota { bytes, period }) => format!("{name} {bytes}/{}", period.as_secs()),
        });
    }
}

/// `PerSourceMaxStartups` and similar limits: a number or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NumberOrNone(pub Option<u32>);

impl Value for NumberOrNone {
    const KIND: &'static str = "number or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let mut copy = args.clone();
        if copy.next_word().is_some_and(|word| word == "none") {
            *args = copy;
            return Ok(Self(None));
        }
        u32::parse(args).map(|n| Self(Some(n)))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(self.0.map_or(format!("{name} none"), |n| format!("{name} {n}")));
    }
}
