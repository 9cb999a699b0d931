//! Files of a package before they are packed: paths, modes and contents, written in order and with one
//! modification time.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::source::{Source, failed, output};
use crate::workspace::Outcome;

/// One file, link or directory.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Path from the root, without the first slash.
    pub path: String,
    pub what: What,
    /// A configuration file: packages keep what administrators change in it.
    pub is_config: bool,
}

/// Content of a path.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// A file with these contents and permissions.
    Text(Vec<u8>, u32),
    /// A copy of a file, with permissions.
    Copy(PathBuf, u32),
    /// A symbolic link.
    Link(String),
    /// An empty directory.
    Directory,
}

impl Item {
    pub(super) fn text(path: impl Into<String>, text: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), what: What::Text(text.into(), 0o644), is_config: false }
    }

    pub(super) fn config(path: impl Into<String>, text: impl Into<Vec<u8>>) -> Self {
        Self { is_config: true, ..Self::text(path, text) }
    }

    pub(super) fn script(path: impl Into<String>, text: impl Into<Vec<u8>>) -> Self {
        Self { what: What::Text(text.into(), 0o755), ..Self::text(path, "") }
    }

    pub(super) fn program(path: impl Into<String>, file: &Path) -> Self {
        Self { what: What::Copy(file.to_path_buf(), 0o755), ..Self::text(path, "") }
    }

    pub(super) fn link(path: impl Into<String>, to: impl Into<String>) -> Self {
        Self { what: What::Link(to.into()), ..Self::text(path, "") }
    }

    pub(super) fn directory(path: impl Into<String>) -> Self {
        Self { what: What::Directory, ..Self::text(path, "") }
    }
}

/// Writes the items below a directory.
pub(super) fn write(items: &[Item], below: &Path) -> Outcome {
    for item in items {
        let path = below.join(&item.path);
        let directory = if matches!(item.what, What::Directory) { Some(&*path) } else { path.parent() };
        for directory in directory.into_iter() {
            fs::create_dir_all(directory).map_err(failed(directory))?;
        }
        let mode = |mode: u32| fs::set_permissions(&path, fs::Permissions::from_mode(mode));
        match &item.what {
            What::Text(text, bits) => fs::write(&path, text).and_then(|()| mode(*bits)),
            What::Copy(file, bits) => fs::copy(file, &path).and_then(|_| mode(*bits)),
            What::Link(to) => symlink(to, &path),
            What::Directory => Ok(()),
        }
        .map_err(failed(&path))?;
    }
    Ok(())
}

/// Gives everything below a directory one modification time, and directories equal permissions, regardless of
/// the umask.
pub(super) fn settle(below: &Path, epoch: u64) -> Outcome {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(epoch);
    let mut waiting = vec![below.to_path_buf()];
    while let Some(path) = waiting.pop() {
        let meta = path.symlink_metadata().map_err(failed(&path))?;
        if meta.is_symlink() {
            continue;
        }
        if meta.is_dir() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed(&path))?;
            waiting.extend(fs::read_dir(&path).map_err(failed(&path))?.flatten().map(|entry| entry.path()));
        }
        fs::File::open(&path).and_then(|file| file.set_modified(time)).map_err(failed(&path))?;
    }
    Ok(())
}

/// Compresses with gzip; equal data gives equal output.
pub(super) fn gzip(text: &[u8]) -> Result<Vec<u8>, String> {
    let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    fs::write(file.path(), text).map_err(failed(file.path()))?;
    let output = Command::new("gzip").args(["-9", "--no-name", "--stdout"]).arg(file.path()).output();
    let output = output.map_err(|error| format!("gzip: {error}"))?;
    if output.status.success() { Ok(output.stdout) } else { Err(format!("gzip: {}", output.status)) }
}

/// Packs the directory `name` below `parent` into `file`; equal contents give equal files.
pub(super) fn tar(parent: &Path, name: &str, source: &Source, file: &Path) -> Outcome {
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    command
        .arg(format!("--mtime=@{}", source.epoch))
        .arg(format!("--use-compress-program=xz -{} --threads=1", source.compression()));
    command.arg("--create").arg("--file").arg(file).arg("--directory").arg(parent).arg(name);
    output(&mut command).map(drop)
}
