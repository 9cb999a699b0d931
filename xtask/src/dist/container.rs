//! Tests the container images without a container engine: unpacks them as their index describes, and runs
//! them in namespaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::source::{Source, failed, output, sha256, shown_commands};
use crate::workspace::{Outcome, call};

/// Tests both images of this machine's architecture. Both contain equal files.
pub(super) fn test(source: &Source) -> Outcome {
    for suffix in ["", "-root"] {
        let archive = source.out.join(format!("longhaul-{}-oci{suffix}-x86_64.tar", source.version()));
        if !archive.exists() {
            println!("SKIPPED dist: {} was not made", archive.display());
            return Ok(());
        }
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = |name: &str| directory.path().join(name);
        for name in ["image", "root", "volumes"] {
            fs::create_dir(path(name)).map_err(failed(&path(name)))?;
        }
        output(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(path("image")))?;
        let config = unpack(&path("image"), &path("root"))?;
        let user = if suffix.is_empty() { "1000:1000" } else { "0:0" };
        if config["config"]["User"] != user {
            return Err(format!("{}: runs as {}", archive.display(), config["config"]["User"]));
        }
        let command = config["config"]["Cmd"].as_array().ok_or("no command in the image")?;
        for file in command.iter().filter_map(Value::as_str).filter(|word| word.starts_with('/')) {
            let file = path("root").join(file.trim_start_matches('/'));
            file.symlink_metadata().map_err(failed(&file))?;
        }
        if suffix.is_empty() {
            run(source, &path("root"), &path("volumes"))?;
            podman(source, &path("root"))?;
        }
    }
    Ok(())
}

/// Unpacks an image and returns its configuration. Every blob is compared with its digest.
fn unpack(image: &Path, to: &Path) -> Result<Value, String> {
    let read = |path: &Path| fs::read(path).map_err(failed(path));
    let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).map_err(|error| error.to_string());
    let blob = |descriptor: &Value| -> Result<(PathBuf, Vec<u8>), String> {
        let digest = descriptor["digest"].as_str().and_then(|text| text.strip_prefix("sha256:"));
        let path = image.join("blobs/sha256").join(digest.ok_or("a descriptor without a digest")?);
        let bytes = read(&path)?;
        let is_right = Some(sha256(&bytes).as_str()) == digest && descriptor["size"] == bytes.len();
        if is_right { Ok((path, bytes)) } else { Err(format!("{}: other contents", path.display())) }
    };
    let index = parse(&read(&image.join("index.json"))?)?;
    let manifest = parse(&blob(&index["manifests"][0])?.1)?;
    let config = parse(&blob(&manifest["config"])?.1)?;
    let (layer, _) = blob(&manifest["layers"][0])?;
    let compressed = fs::File::open(&layer).map_err(failed(&layer))?;
    let gzip = Command::new("gzip").args(["--decompress", "--stdout"]).stdin(compressed).output();
    let unpacked = gzip.map_err(|error| format!("gzip: {error}"))?.stdout;
    if config["rootfs"]["diff_ids"][0] != format!("sha256:{}", sha256(&unpacked)) {
        return Err("the configuration names another layer".to_owned());
    }
    output(Command::new("tar").args(["--numeric-owner", "-xpf"]).arg(&layer).arg("-C").arg(to))?;
    Ok(config)
}

/// Runs the test in separate namespaces.
fn run(source: &Source, root: &Path, volumes: &Path) -> Outcome {
    // Ordinary users must reach the directories below.
    for directory in [root.parent().unwrap_or(root), root, volumes] {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(directory, open).map_err(failed(directory))?;
    }
    call(in_namespaces(source, "container.sh").arg(root).arg(volumes))
}

/// Returns the command that runs a script of `packaging/tests` in separate namespaces.
fn in_namespaces(source: &Source, script: &str) -> Command {
    let namespaces =
        ["--mount", "--pid", "--mount-proc", "--net", "--uts", "--ipc", "--fork", "--kill-child"];
    let mut command = Command::new("unshare");
    command.args(namespaces).arg("sh").arg(source.root.join("packaging/tests").join(script));
    command
}

/// Runs the commands of `docs/containers.md` with Podman, where it is installed. `root` is an unpacked image.
fn podman(source: &Source, root: &Path) -> Outcome {
    if lh_interop::find("podman").is_none() {
        println!("SKIPPED dist: podman is not installed, so the images run in no container engine");
        return Ok(());
    }
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let commands = directory.path().join("commands");
    let shown = shown_commands(&source.root.join("docs/containers.md"))?;
    fs::write(&commands, shown).map_err(failed(&commands))?;
    let work = directory.path().join("work");
    fs::create_dir(&work).map_err(failed(&work))?;
    let mut command = in_namespaces(source, "podman.sh");
    let status = command.arg(&source.out).arg(root).arg(&work).arg(&commands).status();
    match status.map_err(|error| format!("unshare: {error}"))?.code() {
        Some(0) => Ok(()),
        Some(77) => {
            println!("SKIPPED dist: podman runs no container here");
            Ok(())
        }
        code => Err(format!("podman.sh: status {code:?}")),
    }
}
