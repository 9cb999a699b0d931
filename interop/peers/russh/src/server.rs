//! The server.

use std::collections::HashMap;
use std::fs::{self, File as Open, FileTimes, Metadata, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use russh::keys::ssh_key::PublicKey;
use russh::keys::{load_secret_key, parse_public_key_base64};
use russh::server::{self, Auth, Msg, Session};
use russh::{Channel, ChannelId};
use russh_sftp::protocol::{
    Attrs, Data, File, FileAttributes, Handle, Name, OpenFlags, Status, StatusCode, Version,
};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::Failure;

/// One client.
struct Client {
    known: Arc<Vec<PublicKey>>,
    channels: HashMap<ChannelId, Channel<Msg>>,
}

impl server::Handler for Client {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, _: &str, key: &PublicKey) -> Result<Auth, Self::Error> {
        let known = self.known.iter().any(|known| known.key_data() == key.key_data());
        Ok(if known { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        _: &mut Session,
    ) -> Result<bool, Self::Error> {
        self.channels.insert(channel.id(), channel);
        Ok(true)
    }

    async fn channel_eof(&mut self, channel: ChannelId, session: &mut Session) -> Result<(), Self::Error> {
        session.exit_status_request(channel, 0)?;
        session.close(channel)
    }

    async fn subsystem_request(
        &mut self,
        id: ChannelId,
        name: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        match self.channels.remove(&id) {
            Some(channel) if name == "sftp" => {
                session.channel_success(id)?;
                russh_sftp::server::run(channel.into_stream(), Files::default()).await;
                Ok(())
            }
            _ => session.channel_failure(id),
        }
    }
}

/// Open files and directories of an SFTP session.
#[derive(Default)]
struct Files {
    given: u64,
    files: HashMap<String, (String, Open)>,
    directories: HashMap<String, Vec<File>>,
}

/// The reply for an error of the file system.
fn failed(error: std::io::Error) -> StatusCode {
    match error.kind() {
        std::io::ErrorKind::NotFound => StatusCode::NoSuchFile,
        std::io::ErrorKind::PermissionDenied => StatusCode::PermissionDenied,
        _ => StatusCode::Failure,
    }
}

fn done(id: u32, result: std::io::Result<()>) -> Result<Status, StatusCode> {
    result.map_err(failed)?;
    let (error_message, language_tag) = ("Success".to_owned(), String::new());
    Ok(Status { id, status_code: StatusCode::Ok, error_message, language_tag })
}

fn attributes(meta: &Metadata) -> FileAttributes {
    FileAttributes {
        size: Some(meta.len()),
        uid: Some(meta.uid()),
        gid: Some(meta.gid()),
        permissions: Some(meta.mode()),
        atime: u32::try_from(meta.atime()).ok(),
        mtime: u32::try_from(meta.mtime()).ok(),
        ..FileAttributes::empty()
    }
}

fn set(path: &str, attrs: &FileAttributes) -> std::io::Result<()> {
    if let Some(size) = attrs.size {
        OpenOptions::new().write(true).open(path)?.set_len(size)?;
    }
    if let Some(mode) = attrs.permissions {
        fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))?;
    }
    if let (Some(accessed), Some(modified)) = (attrs.atime, attrs.mtime) {
        let time = |seconds: u32| UNIX_EPOCH + Duration::from_secs(seconds.into());
        let times = FileTimes::new().set_accessed(time(accessed)).set_modified(time(modified));
        Open::open(path)?.set_times(times)?;
    }
    Ok(())
}

impl Files {
    fn handle(&mut self) -> String {
        self.given += 1;
        self.given.to_string()
    }

    fn file(&self, handle: &str) -> Result<&(String, Open), StatusCode> {
        self.files.get(handle).ok_or(StatusCode::Failure)
    }
}

impl russh_sftp::server::Handler for Files {
    type Error = StatusCode;

    fn unimplemented(&self) -> StatusCode {
        StatusCode::OpUnsupported
    }

    async fn init(&mut self, _: u32, _: HashMap<String, String>) -> Result<Version, StatusCode> {
        Ok(Version::new())
    }

    async fn open(
        &mut self,
        id: u32,
        path: String,
        flags: OpenFlags,
        attrs: FileAttributes,
    ) -> Result<Handle, StatusCode> {
        let file = OpenOptions::from(flags).open(&path).map_err(failed)?;
        if let Some(mode) = attrs.permissions.filter(|_| flags.contains(OpenFlags::CREATE)) {
            file.set_permissions(Permissions::from_mode(mode & 0o777)).map_err(failed)?;
        }
        let handle = self.handle();
        self.files.insert(handle.clone(), (path, file));
        Ok(Handle { id, handle })
    }

    async fn close(&mut self, id: u32, handle: String) -> Result<Status, StatusCode> {
        let known = self.files.remove(&handle).is_some() || self.directories.remove(&handle).is_some();
        if known { done(id, Ok(())) } else { Err(StatusCode::Failure) }
    }

    async fn read(&mut self, id: u32, handle: String, offset: u64, len: u32) -> Result<Data, StatusCode> {
        let mut data = vec![0; len.min(1 << 17) as usize];
        let got = self.file(&handle)?.1.read_at(&mut data, offset).map_err(failed)?;
        data.truncate(got);
        if got == 0 { Err(StatusCode::Eof) } else { Ok(Data { id, data }) }
    }

    async fn write(
        &mut self,
        id: u32,
        handle: String,
        offset: u64,
        data: Vec<u8>,
    ) -> Result<Status, StatusCode> {
        done(id, self.file(&handle)?.1.write_all_at(&data, offset))
    }

    async fn lstat(&mut self, id: u32, path: String) -> Result<Attrs, StatusCode> {
        fs::symlink_metadata(path).map(|meta| Attrs { id, attrs: attributes(&meta) }).map_err(failed)
    }

    async fn stat(&mut self, id: u32, path: String) -> Result<Attrs, StatusCode> {
        fs::metadata(path).map(|meta| Attrs { id, attrs: attributes(&meta) }).map_err(failed)
    }

    async fn fstat(&mut self, id: u32, handle: String) -> Result<Attrs, StatusCode> {
        let meta = self.file(&handle)?.1.metadata().map_err(failed)?;
        Ok(Attrs { id, attrs: attributes(&meta) })
    }

    async fn setstat(&mut self, id: u32, path: String, attrs: FileAttributes) -> Result<Status, StatusCode> {
        done(id, set(&path, &attrs))
    }

    async fn fsetstat(
        &mut self,
        id: u32,
        handle: String,
        attrs: FileAttributes,
    ) -> Result<Status, StatusCode> {
        done(id, set(&self.file(&handle)?.0, &attrs))
    }

    async fn opendir(&mut self, id: u32, path: String) -> Result<Handle, StatusCode> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().into_string().map_err(|_| StatusCode::Failure)?;
            entries.push(File::new(name, attributes(&entry.metadata().map_err(failed)?)));
        }
        let handle = self.handle();
        self.directories.insert(handle.clone(), entries);
        Ok(Handle { id, handle })
    }

    async fn readdir(&mut self, id: u32, handle: String) -> Result<Name, StatusCode> {
        let entries = self.directories.get_mut(&handle).ok_or(StatusCode::Failure)?;
        let files: Vec<File> = entries.drain(..entries.len().min(20)).collect();
        if files.is_empty() { Err(StatusCode::Eof) } else { Ok(Name { id, files }) }
    }

    async fn remove(&mut self, id: u32, path: String) -> Result<Status, StatusCode> {
        done(id, fs::remove_file(path))
    }

    async fn mkdir(&mut self, id: u32, path: String, _: FileAttributes) -> Result<Status, StatusCode> {
        done(id, fs::create_dir(path))
    }

    async fn rmdir(&mut self, id: u32, path: String) -> Result<Status, StatusCode> {
        done(id, fs::remove_dir(path))
    }

    async fn realpath(&mut self, id: u32, path: String) -> Result<Name, StatusCode> {
        let path = if path.is_empty() { "." } else { &path };
        let real = fs::canonicalize(path).map_err(failed)?;
        Ok(Name { id, files: vec![File::dummy(real.to_string_lossy())] })
    }

    async fn rename(&mut self, id: u32, old: String, new: String) -> Result<Status, StatusCode> {
        if fs::symlink_metadata(&new).is_ok() {
            return Err(StatusCode::Failure);
        }
        done(id, fs::rename(old, new))
    }

    async fn readlink(&mut self, id: u32, path: String) -> Result<Name, StatusCode> {
        let target = fs::read_link(path).map_err(failed)?;
        Ok(Name { id, files: vec![File::dummy(target.to_string_lossy())] })
    }

    async fn symlink(&mut self, id: u32, link: String, target: String) -> Result<Status, StatusCode> {
        done(id, std::os::unix::fs::symlink(target, link))
    }
}

fn keys(lab: &str) -> Result<(server::Config, Vec<PublicKey>), Failure> {
    let mut config = server::Config::default();
    for name in ["host_ed25519", "host_ecdsa"] {
        config.keys.push(load_secret_key(format!("{lab}/{name}"), None)?);
    }
    let text = fs::read_to_string(format!("{lab}/authorized_keys"))?;
    let blobs = text.lines().filter_map(|line| line.split_whitespace().nth(1));
    Ok((config, blobs.filter_map(|blob| parse_public_key_base64(blob).ok()).collect()))
}

pub(crate) async fn run(lab: &str) -> Result<(), Failure> {
    let (config, known) = keys(lab)?;
    let (config, known) = (Arc::new(config), Arc::new(known));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let accept = async {
        while let Ok((stream, _)) = listener.accept().await {
            let client = Client { known: Arc::clone(&known), channels: HashMap::new() };
            let config = Arc::clone(&config);
            tokio::spawn(async move {
                match server::run_stream(config, stream, client).await {
                    Ok(session) => drop(session.await),
                    Err(error) => eprintln!("{error}"),
                }
            });
        }
    };
    let mut rest = Vec::new();
    let mut stdin = tokio::io::stdin();
    tokio::select! {
        () = accept => {}
        _ = stdin.read_to_end(&mut rest) => {}
    }
    // A thread still reads stdin.
    std::process::exit(0)
}
