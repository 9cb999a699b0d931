//! Rates of disks, with the time until the data are on them.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::shell::quoted;
use crate::target::Remote;
use crate::task::{Shown, random};

/// A file that is written grows until it takes this long.
const DISK_TIME: f64 = 0.7;
/// First and largest size of such a file, MiB.
const DISK_SIZES: [u64; 5] = [1, 4, 16, 64, 256];

/// A disk that was written to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Disk {
    pub(crate) directory: String,
    /// Bytes per second, with the time until the data are on the disk.
    pub(crate) rate: f64,
    pub(crate) bytes: f64,
}

/// Writes a file of this machine, which is removed.
///
/// # Errors
/// It cannot be written.
pub(crate) fn disk_here(directory: &Path) -> std::io::Result<Disk> {
    let path = directory.join(format!(".longhaul-doctor-{}", std::process::id()));
    let block = random(1 << 20);
    let mut result = Err(std::io::ErrorKind::InvalidInput.into());
    for size in DISK_SIZES {
        let begun = Instant::now();
        let written = File::create(&path).and_then(|mut file| {
            for _ in 0..size {
                file.write_all(&block)?;
            }
            file.sync_all()
        });
        let took = begun.elapsed().as_secs_f64();
        let bytes = (size << 20) as f64;
        let directory = directory.display().to_string();
        result = written.map(|()| Disk { directory, rate: bytes / took.max(1e-6), bytes });
        if result.is_err() || took >= DISK_TIME {
            break;
        }
    }
    let _ = std::fs::remove_file(&path);
    result
}

/// Writes a file of the server, which is removed.
///
/// # Errors
/// It cannot be written: the server's words.
pub(crate) fn disk_there(remote: &mut Remote, directory: &str) -> Result<Disk, String> {
    let quoted = quoted(directory);
    let mut result = Err("no size was written".to_owned());
    for size in DISK_SIZES {
        let script = format!(
            "cd {quoted} || exit 1; f=.longhaul-doctor-$$; trap 'rm -f $f' EXIT; trap 'exit 1' HUP INT TERM\n\
             echo begin; e=$(dd if=/dev/zero of=$f bs=1048576 count={size} conv=fsync 2>&1) && echo end || \
             echo \"$e\" | head -n 1 >&2; pwd"
        );
        let shown: Shown = remote.script(&script, Duration::from_secs(20));
        let at = |word: &[u8]| {
            let has = |piece: &[u8]| piece.windows(word.len()).any(|part| part == word);
            shown.pieces.iter().find(|(_, piece)| has(piece)).map(|(at, _)| *at)
        };
        let (Some(begin), Some(end)) = (at(b"begin"), at(b"end")) else {
            return Err(shown.failure.clone().unwrap_or_else(|| {
                let said = lh_client::sanitise(shown.err_text().trim());
                if said.is_empty() { "nothing can be written".to_owned() } else { said }
            }));
        };
        let took = (end - begin).max(1e-3);
        let bytes = (size << 20) as f64;
        let named = shown.text().lines().last().map(lh_client::sanitise).unwrap_or_default();
        result = Ok(Disk { directory: named, rate: bytes / took, bytes });
        if took >= DISK_TIME {
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_disk_is_measured_and_left_clean() {
        let directory = tempfile::tempdir().unwrap();
        let disk = disk_here(directory.path()).unwrap();
        assert!(disk.rate > 0.0 && disk.bytes >= 1e6, "{disk:?}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(disk_here(&directory.path().join("missing")).is_err());
    }
}
