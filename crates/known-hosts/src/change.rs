//! Changes files: adds entries, or replaces the contents.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use lh_crypto::{PublicKey, Random};

use crate::names::hash_name;

/// Returns the line for `names` (usually host and address). With `random`, each name is hashed on a separate
/// line.
pub fn entry_lines(names: &[&str], key: &PublicKey, random: Option<&mut dyn Random>) -> String {
    let key = key.to_openssh_line("");
    let key = key.trim_end();
    match random {
        None => format!("{} {key}\n", names.join(",")),
        Some(random) => names.iter().map(|name| format!("{} {key}\n", hash_name(name, random))).collect(),
    }
}

/// Appends entries to a file, which is created if it does not exist (with the mode that the umask leaves;
/// a missing directory is an error). A newline is added to a last line without one.
///
/// # Errors
/// Errors of the operating system.
pub fn append(
    path: &Path,
    names: &[&str],
    key: &PublicKey,
    random: Option<&mut dyn Random>,
) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let mut text = String::new();
    if !ends_with_newline(&mut file)? {
        text.push('\n');
    }
    text.push_str(&entry_lines(names, key, random));
    // A single write keeps the lines of two clients that add a key at once apart.
    file.write_all(text.as_bytes())
}

fn ends_with_newline(file: &mut fs::File) -> io::Result<bool> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last[0] == b'\n')
}

/// Replaces a file and keeps its mode; the old contents are kept as `path.old`. Returns the path of the old
/// file.
///
/// # Errors
/// Errors of the operating system. The file is complete at every moment.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<PathBuf> {
    let mode = fs::metadata(path)?.mode() & 0o777;
    let with_suffix = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let fresh = with_suffix(&format!(".{}", std::process::id()));
    let result = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(contents)?;
        file.sync_all()?;
        let old = with_suffix(".old");
        match fs::remove_file(&old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::hard_link(path, &old)?;
        fs::rename(&fresh, path)?;
        Ok(old)
    })();
    if result.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    result
}
