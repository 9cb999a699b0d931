//! Translates a server's replies into outcomes of operations.

use bytes::Bytes;
use lh_sftp::batch::{self, Listing, PutFailure};
use lh_sftp::extended_attrs::{self, Ranges};
use lh_sftp::{Handle as RemoteHandle, Name, ReplyBody, Status, StatusCode, batched_extended_attrs};

use crate::end::{Done, Entry, Fault, FaultKind, Got, Handle, Info, Outcome};
use crate::names::display_name;

/// The form of reply that a request expects in EXTENDED_REPLY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The caller sees it from the answer.
    Plain,
    /// Nothing: the answer is a STATUS.
    Status,
    Listing,
    Put,
    Got,
    /// With extended attributes.
    GotKept,
    Ranges,
    Xattrs,
}

/// Returns the outcome of the operation that `body`, which came on this channel, answers.
pub(crate) fn outcome(body: ReplyBody, shape: Shape, channel: usize) -> Outcome {
    match body {
        // A request that expects STATUS alone is not confirmed by any other reply.
        body if shape == Shape::Status && !matches!(body, ReplyBody::Status(_)) => {
            Err(Fault::other("Bad message"))
        }
        ReplyBody::Status(Status { code: StatusCode::OK, .. }) => Ok(Done::Ok),
        ReplyBody::Status(status) => Err(fault(&status)),
        ReplyBody::Handle(handle) => Ok(Done::Opened(Handle::Remote(handle, channel), None)),
        ReplyBody::Data(data) => Ok(Done::Data(data)),
        ReplyBody::Attrs(attrs) => Ok(Done::Info(Info::of_attrs(&attrs))),
        ReplyBody::Names(names) => Ok(Done::Listed(Some(entries(names)))),
        ReplyBody::Extended(fields) => {
            extended(&fields, shape, channel).unwrap_or(Err(Fault::other("Bad message")))
        }
    }
}

fn entries(names: Vec<Name>) -> Vec<Entry> {
    let entry = |name: Name| Entry { name: name.name.into(), info: Info::of_attrs(&name.attrs) };
    names.into_iter().map(entry).collect()
}

/// `None` when it is not what was asked for.
fn extended(fields: &Bytes, shape: Shape, channel: usize) -> Option<Outcome> {
    Some(Ok(match shape {
        Shape::Plain | Shape::Status => Done::Extended(fields.clone()),
        Shape::Ranges => Done::Ranges(Ranges::read(fields).ok()?),
        Shape::Xattrs => Done::Xattrs(extended_attrs::read_xattrs(fields).ok()?),
        Shape::Listing => {
            let Listing { handle, names } = Listing::read(fields).ok()?;
            let handle = (!handle.is_empty()).then(|| Handle::Remote(RemoteHandle::new(&handle), channel));
            Done::Listing(handle, entries(names))
        }
        Shape::Put => {
            let failure = |failed: PutFailure| {
                let status = Status { code: failed.code, message: failed.text };
                (failed.index as usize, failed.step, fault(&status))
            };
            Done::Put(PutFailure::read_all(fields).ok()?.into_iter().map(failure).collect())
        }
        Shape::Got => {
            let got = batch::read_got(fields).ok()?;
            Done::Got(got.into_iter().map(|got| whole_file(got, None, fields)).collect())
        }
        Shape::GotKept => {
            let got = batched_extended_attrs::read_got(fields).ok()?;
            Done::Got(got.into_iter().map(|(got, xattrs)| whole_file(got, xattrs, fields)).collect())
        }
    }))
}

/// One file of an answer, which `fields` are.
fn whole_file(
    got: batch::Got<'_>,
    xattrs: Option<extended_attrs::Xattrs>,
    fields: &Bytes,
) -> Result<Got, Fault> {
    match got {
        Ok(file) => Ok(Got {
            info: Info::of_attrs(&file.attrs),
            whole: file.whole,
            data: fields.slice_ref(file.data),
            xattrs,
        }),
        Err((code, message)) => Err(fault(&Status { code, message })),
    }
}

fn fault(status: &Status) -> Fault {
    if status.code == StatusCode::FAILURE && status.message == lh_sftp::REPLACED {
        return Fault::replaced();
    }
    let kind = match status.code {
        StatusCode::EOF => FaultKind::Eof,
        StatusCode::NO_SUCH_FILE => FaultKind::NotFound,
        _ => FaultKind::Other,
    };
    Fault { kind, text: status_text(status) }
}

/// The words of OpenSSH's client for a status, which scripts know; the server's own, made harmless, where
/// OpenSSH's would say nothing.
pub fn status_text(status: &Status) -> String {
    let said = status.message.trim();
    match status.code {
        StatusCode::NO_SUCH_FILE => "No such file or directory".to_owned(),
        StatusCode::FAILURE if !said.is_empty() => display_name(said.as_bytes()),
        code => code.text().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_status_confirms_what_is_answered_by_one() {
        let ok = || ReplyBody::Status(Status { code: StatusCode::OK, message: String::new() });
        let others = [
            ReplyBody::Handle(RemoteHandle::new(b"h")),
            ReplyBody::Data(lh_sftp::Data::from(vec![1])),
            ReplyBody::Names(Vec::new()),
            ReplyBody::Attrs(lh_sftp::Attrs::NONE),
            ReplyBody::Extended(Bytes::new()),
        ];
        assert!(outcome(ok(), Shape::Status, 0).is_ok() && outcome(ok(), Shape::Plain, 0).is_ok());
        for body in others {
            assert!(outcome(body.clone(), Shape::Plain, 0).is_ok(), "{body:?}");
            let fault = outcome(body, Shape::Status, 0).err().map(|fault| fault.text);
            assert_eq!(fault.as_deref(), Some("Bad message"));
        }
    }
}
