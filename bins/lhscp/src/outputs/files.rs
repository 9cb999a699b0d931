//! Files that are complete or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Creates a file with another name in the directory of `path`.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(meta) if !meta.is_file() => return Err(io::Error::other("is not a regular file")),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for number in 0..100 {
        let mut other = std::ffi::OsString::from(".");
        other.push(name);
        other.push(format!(".{}-{number}.tmp", std::process::id()));
        let other = path.with_file_name(other);
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o666).open(&other) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => return file.map(|file| (other, file)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Creates a file without a name on the file system of `path`, which need not exist.
pub(super) fn unnamed_file_beside(path: &Path) -> io::Result<File> {
    let (name, file) = create_beside(path)?;
    fs::remove_file(name)?;
    Ok(file)
}

/// Writes `path` under another name first, so that it is complete or as it was.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    let (name, file) = create_beside(path)?;
    let written = (|| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
        fs::rename(&name, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&name);
    }
    written
}
