//! The steps of a command line: sources beside each other on one host, copied over one connection.

use std::ffi::OsString;

use crate::command_line::Arguments;
use crate::outputs::{LocalEnd, OutputError};
use crate::place::{Host, Place, bytes};

/// One step of the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Local to local: what cp(1) is for.
    Local(OsString),
    /// Sources on this host, for a remote target.
    Upload(Vec<Vec<u8>>),
    /// Sources on one remote host.
    Download(Host, Vec<Vec<u8>>),
    /// Sources on one remote host, for a target on another.
    Relay(Host, Vec<Vec<u8>>),
}

impl Step {
    /// Returns which end of its copies is on this host.
    pub(crate) const fn local_end(&self) -> LocalEnd {
        match self {
            Self::Upload(_) => LocalEnd::Source,
            Self::Download(..) => LocalEnd::Target,
            Self::Local(_) | Self::Relay(..) => LocalEnd::Neither,
        }
    }
}

/// Neighbouring sources on one host go over one connection, in one plan.
pub(crate) fn steps(arguments: &Arguments) -> Vec<Step> {
    let to_remote = matches!(arguments.target, Place::Remote { .. });
    let mut steps: Vec<Step> = Vec::new();
    for source in &arguments.sources {
        match (source, steps.last_mut()) {
            (Place::Local(path), Some(Step::Upload(paths))) => paths.push(bytes(path)),
            (Place::Local(path), _) if to_remote => steps.push(Step::Upload(vec![bytes(path)])),
            (Place::Local(path), _) => steps.push(Step::Local(path.clone())),
            (Place::Remote { host, path }, Some(Step::Download(last, paths) | Step::Relay(last, paths)))
                if host == last =>
            {
                paths.push(path.clone());
            }
            (Place::Remote { host, path }, _) if to_remote => {
                steps.push(Step::Relay(host.clone(), vec![path.clone()]));
            }
            (Place::Remote { host, path }, _) => {
                steps.push(Step::Download(host.clone(), vec![path.clone()]));
            }
        }
    }
    steps
}

/// Why a file for programs is not begun.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BeginError {
    #[error("{0}: not for copies on this host, which cp makes")]
    Local(&'static str),
    #[error("{0}: not with -R, where the first host's scp copies")]
    Direct(&'static str),
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Begins the files for programs, if the command line asks for them. They tell of what this program copies.
///
/// # Errors
/// There is a step that this program does not make itself, or a file cannot be written.
pub(crate) fn begin_outputs(arguments: &Arguments, steps: &[Step]) -> Result<(), BeginError> {
    let Some(flag) = arguments.outputs.flags() else { return Ok(()) };
    for step in steps {
        match step {
            Step::Local(_) => return Err(BeginError::Local(flag)),
            Step::Relay(..) if arguments.direct => return Err(BeginError::Direct(flag)),
            _ => {}
        }
    }
    Ok(arguments.outputs.begin()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_is_wrong() {
        let output = OutputError::of("--failed-out", "/x/y".as_ref())(rustix::io::Errno::ACCESS.into());
        for (text, expected) in [
            (
                BeginError::Local("--failed-out").to_string(),
                "--failed-out: not for copies on this host, which cp makes",
            ),
            (
                BeginError::Direct("--manifest-out").to_string(),
                "--manifest-out: not with -R, where the first host's scp copies",
            ),
            (BeginError::from(output).to_string(), "--failed-out /x/y: Permission denied"),
        ] {
            assert_eq!(text, expected);
        }
    }
}
