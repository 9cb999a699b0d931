//! The client.

use std::fs;
use std::sync::Arc;

use russh::client::{self, Handler};
use russh::keys::{PrivateKeyWithHashAlg, load_secret_key, ssh_key};
use russh_sftp::client::SftpSession;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::Failure;

struct AnyHostKey;

impl Handler for AnyHostKey {
    type Error = russh::Error;

    async fn check_server_key(&mut self, _: &ssh_key::PublicKey) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

async fn put(sftp: &SftpSession, from: &str, to: &str) -> Result<(), Failure> {
    let mut file = sftp.create(to).await?;
    file.write_all(&fs::read(from)?).await?;
    file.shutdown().await?;
    Ok(())
}

async fn get(sftp: &SftpSession, from: &str) -> Result<Vec<u8>, Failure> {
    let mut data = Vec::new();
    sftp.open(from).await?.read_to_end(&mut data).await?;
    Ok(data)
}

pub(crate) async fn run(port: u16, user: &str, lab: &str) -> Result<(), Failure> {
    let config = Arc::new(client::Config::default());
    let mut session = client::connect(config, ("127.0.0.1", port), AnyHostKey).await?;
    let key =
        PrivateKeyWithHashAlg::new(Arc::new(load_secret_key(format!("{lab}/user_ed25519"), None)?), None);
    if !session.authenticate_publickey(user, key).await?.success() {
        return Err("not logged in".into());
    }
    let channel = session.channel_open_session().await?;
    channel.request_subsystem(true, "sftp").await?;
    let sftp = SftpSession::new(channel.into_stream()).await?;

    put(&sftp, &format!("{lab}/blob"), &format!("{lab}/far/up")).await?;
    fs::write(format!("{lab}/down"), get(&sftp, &format!("{lab}/far/up")).await?)?;
    sftp.create_dir(format!("{lab}/far/small")).await?;
    let mut names = Vec::new();
    for entry in fs::read_dir(format!("{lab}/small"))? {
        let name = entry?.file_name().into_string().map_err(|_| "a name")?;
        let (near, far) = (format!("{lab}/small/{name}"), format!("{lab}/far/small/{name}"));
        put(&sftp, &near, &far).await?;
        if get(&sftp, &far).await? != fs::read(&near)? {
            return Err(format!("{name} came back changed").into());
        }
        names.push(name);
    }
    let mut listed: Vec<String> =
        sftp.read_dir(format!("{lab}/far/small")).await?.map(|entry| entry.file_name()).collect();
    names.sort();
    listed.sort();
    if names != listed {
        return Err(format!("{names:?} were listed as {listed:?}").into());
    }

    // The library sends its arguments in their order. It calls the first one the link, and its example gives
    // the target first.
    let target = format!("{lab}/far/up");
    sftp.symlink(&target, format!("{lab}/far/link")).await?;
    if sftp.read_link(format!("{lab}/far/link")).await? != target {
        return Err("another target".into());
    }
    sftp.symlink(format!("{lab}/far/link2"), &target).await?;
    for name in ["moved.from", "gone"] {
        let mut file = sftp.create(format!("{lab}/far/{name}")).await?;
        file.write_all(b"moved").await?;
        file.shutdown().await?;
    }
    sftp.rename(format!("{lab}/far/moved.from"), format!("{lab}/far/moved")).await?;
    sftp.remove_file(format!("{lab}/far/gone")).await?;
    println!("done");
    Ok(())
}
