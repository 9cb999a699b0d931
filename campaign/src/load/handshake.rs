//! The key exchange of an honest client over a socket.

use crate::client::{Client, End};
use crate::explore::sockets::Socket;

/// The key exchange of an honest client.
pub(super) fn handshake(client: &mut Client<Socket>) -> Result<(), End> {
    client.identify()?;
    exchange_keys(client)
}

/// The key exchange that follows the identification lines.
pub(super) fn exchange_keys(client: &mut Client<Socket>) -> Result<(), End> {
    client.send_kexinit();
    let theirs = wait_for(client, 20)?;
    client.on_kexinit(&theirs);
    client.send_public();
    let reply = wait_for(client, 31)?;
    client.on_reply(&reply)?;
    client.send_newkeys();
    wait_for(client, 21)?;
    client.on_newkeys();
    Ok(())
}

pub(super) fn wait_for(client: &mut Client<Socket>, number: u8) -> Result<Vec<u8>, End> {
    loop {
        let payload = client.receive()?;
        if payload[0] == number {
            return Ok(payload);
        }
    }
}
