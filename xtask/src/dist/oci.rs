//! Container images in the OCI layout, created without a daemon: one static program and its configuration.
//! One image is for an ordinary user in a read-only root, one for root with several users.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lh_cli::flags::PROGRAMS;
use serde_json::{Value, json};

use super::bill::timestamp;
use super::layout::{LIB, USER};
use super::source::{Source, failed, output, sha256};
use super::tree::{Item, gzip, settle, write};
use crate::workspace::Outcome;

/// The images: suffix of the name, user of the programs, and path of the server's configuration.
const IMAGES: [(&str, &str, &str); 2] =
    [("", "1000:1000", "/etc/ssh/lhsshd_config"), ("-root", "0:0", "/etc/ssh/users_config")];

/// Creates `longhaul-VERSION-oci[-root]-ARCHITECTURE.tar` from a program. `libraries` are the libraries that
/// it loads: none, except for builds in tests.
pub(super) fn make(source: &Source, architecture: &str, program: &Path, libraries: &[PathBuf]) -> Outcome {
    let layer = layer(source, program, libraries)?;
    let unpacked = sha256(&layer);
    let layer = gzip(&layer)?;
    for (suffix, user, config) in IMAGES {
        let name = format!("longhaul-{}-oci{suffix}-{architecture}", source.version());
        let parent = source.scratch("oci")?;
        let directory = parent.join(&name);
        let blobs = directory.join("blobs/sha256");
        fs::create_dir_all(&blobs).map_err(failed(&blobs))?;
        let put = |bytes: &[u8], kind: &str| {
            let digest = sha256(bytes);
            fs::write(blobs.join(&digest), bytes).map_err(failed(&blobs))?;
            Ok::<Value, String>(json!({
                "mediaType": format!("application/vnd.oci.image.{kind}"),
                "digest": format!("sha256:{digest}"), "size": bytes.len(),
            }))
        };
        let platform = json!({
            "architecture": if architecture == "aarch64" { "arm64" } else { "amd64" }, "os": "linux",
        });
        let config = json!({
            "created": timestamp(source.epoch)?,
            "architecture": platform["architecture"],
            "os": platform["os"],
            "config": {
                "User": user,
                "Env": ["PATH=/usr/sbin:/usr/bin"],
                "Cmd": ["/usr/sbin/lhsshd", "-D", "-e", "-f", config],
                "WorkingDir": "/",
                "Volumes": {"/data": {}, "/keys": {}},
                "ExposedPorts": {"2222/tcp": {}},
                "Labels": {
                    "org.opencontainers.image.title": "Longhaul",
                    "org.opencontainers.image.version": source.version(),
                    "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
                },
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{unpacked}")]},
        });
        let config = put(config.to_string().as_bytes(), "config.v1+json")?;
        let layer = put(&layer, "layer.v1.tar+gzip")?;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config, "layers": [layer],
        });
        let mut manifest = put(manifest.to_string().as_bytes(), "manifest.v1+json")?;
        let tag = format!("{}{suffix}", source.version());
        manifest["platform"] = platform;
        // As `docker save` writes them: Podman and containerd take the first as the name of the image.
        manifest["annotations"] = json!({
            "io.containerd.image.name": format!("docker.io/library/longhaul:{tag}"),
            "org.opencontainers.image.ref.name": tag,
        });
        // Docker without containerd's store reads this list instead of the index.
        let path =
            |blob: &Value| format!("blobs/{}", blob["digest"].as_str().unwrap_or_default().replace(':', "/"));
        let docker = json!([{
            "Config": path(&config), "RepoTags": [format!("longhaul:{tag}")], "Layers": [path(&layer)],
        }]);
        let index = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest],
        });
        for (file, text) in [
            ("oci-layout", json!({"imageLayoutVersion": "1.0.0"})),
            ("index.json", index),
            ("manifest.json", docker),
        ] {
            super::source::write(&directory.join(file), &text.to_string())?;
        }
        settle(&parent, source.epoch)?;
        let to = source.out.join(format!("{name}.tar"));
        output(
            archive(source, "0")
                .arg("--create")
                .arg("--file")
                .arg(to)
                .arg("--directory")
                .arg(&directory)
                .arg("."),
        )?;
    }
    Ok(())
}

/// Returns the files of the images, as an archive.
fn layer(source: &Source, program: &Path, libraries: &[PathBuf]) -> Result<Vec<u8>, String> {
    let mut items = vec![Item::program(format!("{LIB}/longhaul"), program)];
    for program in PROGRAMS.iter().filter(|program| program.name != "longhaul") {
        items.push(Item::link(format!("{LIB}/{}", program.name), "longhaul"));
    }
    items.extend(USER.map(|name| Item::link(format!("usr/bin/{name}"), "../lib/longhaul/longhaul")));
    items.push(Item::link("usr/sbin/lhsshd", "../lib/longhaul/longhaul"));
    for file in ["passwd", "group", "lhsshd_config", "jump_config", "users_config"] {
        let from = source.root.join("packaging/oci").join(file);
        let text = fs::read(&from).map_err(failed(&from))?;
        let directory = if file.ends_with("config") { "etc/ssh" } else { "etc" };
        items.push(Item::text(format!("{directory}/{file}"), text));
    }
    items.extend(["var/empty", "keys", "proc", "dev", "sys", "tmp", "run"].map(Item::directory));
    for library in libraries {
        items.push(Item::program(library.display().to_string().trim_start_matches('/'), library));
    }
    let root = source.scratch("oci-root")?;
    write(&items, &root)?;
    // This directory belongs to the ordinary user: volumes get the owner of the directory that they cover.
    let data = source.scratch("oci-data")?;
    fs::create_dir(data.join("data")).map_err(failed(&data))?;
    settle(&root, source.epoch)?;
    settle(&data, source.epoch)?;
    let file = source.scratch("oci-layer")?.join("layer.tar");
    let names = fs::read_dir(&root).map_err(failed(&root))?.flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    output(
        archive(source, "0")
            .arg("--create")
            .arg("--file")
            .arg(&file)
            .arg("--directory")
            .arg(&root)
            .args(names),
    )?;
    output(
        archive(source, "1000")
            .arg("--append")
            .arg("--file")
            .arg(&file)
            .arg("--directory")
            .arg(data)
            .arg("data"),
    )?;
    fs::read(&file).map_err(failed(&file))
}

/// Returns a `tar` command whose output is equal for equal files.
fn archive(source: &Source, owner: &str) -> Command {
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--numeric-owner", "--format=gnu"]);
    command.args([
        format!("--owner={owner}"),
        format!("--group={owner}"),
        format!("--mtime=@{}", source.epoch),
    ]);
    command
}

/// Returns the libraries that a program loads, and the dynamic loader.
pub(super) fn libraries(program: &Path) -> Result<Vec<PathBuf>, String> {
    let list = output(Command::new("ldd").arg(program))?;
    Ok(list.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}
