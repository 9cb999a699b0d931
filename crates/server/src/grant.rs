//! The grant: tells the user session process who has logged in, under which rules, and the state of the
//! connection.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use lh_sys::ids::Ids;
use lh_sys::users::User;
use lh_wire::{Reader, WireError, Writer};
use zeroize::Zeroizing;

use crate::key_options::KeyOptions;
use crate::log::Level;
use crate::monitor_ipc::fields::{optional_text, put_list, put_option, read_list, read_option, text};

/// A grant. See the module documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) user: User,
    pub(crate) ids: Ids,
    /// Names of the user's groups, for `Match Group`: the session process evaluates the configuration again.
    pub(crate) groups: Vec<String>,
    pub(crate) options: KeyOptions,
    /// The password is too old: the session may only change it.
    pub(crate) must_change_password: bool,
    /// The login was by ticket: another connection of the session has logged in.
    pub(crate) joined: bool,
    /// The reason sent to the client when the connection must end at once; `None` lets it go on.
    pub(crate) refusal: Option<String>,
    pub(crate) level: Level,
    /// Proofs of the user's identity, one line for each method that succeeded (`ExposeAuthInfo`).
    pub(crate) proofs: String,
    /// Messages about the used keys, sent to the client as SSH_MSG_DEBUG.
    pub(crate) remarks: Vec<String>,
    /// Fingerprint of the key that was used last; empty without a key.
    pub(crate) key: String,
    /// Messages from PAM modules for the user.
    pub(crate) said: String,
    /// Kerberos credentials that the client has delegated, in the form that `lh_sys::gssapi::store` takes.
    pub(crate) credentials: Option<Zeroizing<Vec<u8>>>,
    /// The session identifier that the monitor signed. The connection that is handed over must have it.
    pub(crate) session_id: Vec<u8>,
    /// The serialized transport state, which the monitor does not parse.
    pub(crate) state: Zeroizing<Vec<u8>>,
}

/// Upper bound of the length prefixes and flags in front of a grant's last three fields, bytes.
const LENGTHS: usize = 16;

impl Grant {
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let Self { user, ids, groups, options, must_change_password, level, proofs, remarks, said, .. } =
            self;
        let Self { credentials, session_id, state, joined, refusal, key, .. } = self;
        // The fields without secrets: reallocations while they grow leave copies, which is harmless here.
        let mut out = Vec::new();
        let User { name, uid, gid, home, shell, gecos } = user;
        out.put_string(name.as_bytes());
        out.put_u32(*uid);
        out.put_u32(*gid);
        put_path(&mut out, home);
        put_path(&mut out, shell);
        out.put_string(gecos.as_bytes());
        out.put_u32(ids.uid);
        out.put_u32(ids.gid);
        out.put_u32(u32::try_from(ids.groups.len()).unwrap_or(u32::MAX));
        ids.groups.iter().for_each(|gid| out.put_u32(*gid));
        put_list(&mut out, groups);
        put_options(&mut out, options);
        out.put_bool(*must_change_password);
        out.put_bool(*joined);
        put_option(&mut out, refusal.as_ref().map(String::as_bytes));
        out.put_u8(*level as u8);
        out.put_string(proofs.as_bytes());
        put_list(&mut out, remarks);
        out.put_string(key.as_bytes());
        out.put_string(said.as_bytes());
        let open = out;
        // The exact capacity, because wiping costs at least an instruction for each of its bytes.
        let secrets = credentials.as_ref().map_or(0, |credentials| credentials.len()) + state.len();
        let mut out = Zeroizing::new(Vec::with_capacity(open.len() + session_id.len() + secrets + LENGTHS));
        out.extend_from_slice(&open);
        put_option(&mut out, credentials.as_ref().map(|credentials| &credentials[..]));
        out.put_string(session_id);
        out.put_string(state);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let user = User {
            name: text(&mut reader)?,
            uid: reader.u32()?,
            gid: reader.u32()?,
            home: path(&mut reader)?,
            shell: path(&mut reader)?,
            gecos: text(&mut reader)?,
        };
        let (uid, gid, count) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let mut ids = Ids { uid, gid, groups: Vec::new() };
        for _ in 0..count {
            ids.groups.push(reader.u32()?);
        }
        let grant = Self {
            user,
            ids,
            groups: read_list(&mut reader)?,
            options: read_options(&mut reader)?,
            must_change_password: reader.boolean()?,
            joined: reader.boolean()?,
            refusal: optional_text(&mut reader)?,
            level: Level::from_number(reader.u8()?),
            proofs: text(&mut reader)?,
            remarks: read_list(&mut reader)?,
            key: text(&mut reader)?,
            said: text(&mut reader)?,
            credentials: read_option(&mut reader)?.map(|bytes| Zeroizing::new(bytes.to_vec())),
            session_id: reader.string()?.to_vec(),
            state: Zeroizing::new(reader.string()?.to_vec()),
        };
        reader.finish()?;
        Ok(grant)
    }
}

fn put_path(out: &mut Vec<u8>, path: &Path) {
    out.put_string(path.as_os_str().as_bytes());
}

fn path(reader: &mut Reader<'_>) -> Result<PathBuf, WireError> {
    Ok(OsString::from_vec(reader.string()?.to_vec()).into())
}

pub(crate) fn put_options(out: &mut Vec<u8>, options: &KeyOptions) {
    // Destructured by name, so that a new option cannot be forgotten here.
    let KeyOptions {
        pty,
        port_forwarding,
        agent_forwarding,
        x11_forwarding,
        user_rc,
        cert_authority,
        command,
        environment,
        from,
        source_address,
        expires,
        permit_open,
        permit_listen,
        principals,
        tunnel,
        no_touch_required,
        verify_required,
    } = options;
    let flags = [
        pty,
        port_forwarding,
        agent_forwarding,
        x11_forwarding,
        user_rc,
        cert_authority,
        no_touch_required,
        verify_required,
    ];
    flags.into_iter().for_each(|flag| out.put_bool(*flag));
    for value in [command, from, source_address, principals, tunnel] {
        put_option(out, value.as_deref().map(str::as_bytes));
    }
    let expires = expires.map(i64::to_be_bytes);
    put_option(out, expires.as_ref().map(<[u8; 8]>::as_slice));
    out.put_u32(u32::try_from(environment.len()).unwrap_or(u32::MAX));
    for (name, value) in environment {
        out.put_string(name.as_bytes());
        out.put_string(value.as_bytes());
    }
    put_list(out, permit_open);
    put_list(out, permit_listen);
}

pub(crate) fn read_options(reader: &mut Reader<'_>) -> Result<KeyOptions, WireError> {
    let mut flags = [false; 8];
    for flag in &mut flags {
        *flag = reader.boolean()?;
    }
    let [
        pty,
        port_forwarding,
        agent_forwarding,
        x11_forwarding,
        user_rc,
        cert_authority,
        no_touch_required,
        verify_required,
    ] = flags;
    let mut value = || -> Result<Option<String>, WireError> {
        Ok(read_option(reader)?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    };
    let (command, from, source_address) = (value()?, value()?, value()?);
    let (principals, tunnel) = (value()?, value()?);
    let expires = match read_option(reader)? {
        None => None,
        Some(bytes) => Some(i64::from_be_bytes(
            bytes.try_into().map_err(|_| WireError::Invalid { what: "time of expiry" })?,
        )),
    };
    let mut environment = Vec::new();
    for _ in 0..reader.u32()? {
        environment.push((text(reader)?, text(reader)?));
    }
    Ok(KeyOptions {
        pty,
        port_forwarding,
        agent_forwarding,
        x11_forwarding,
        user_rc,
        cert_authority,
        command,
        environment,
        from,
        source_address,
        expires,
        permit_open: read_list(reader)?,
        permit_listen: read_list(reader)?,
        principals,
        tunnel,
        no_touch_required,
        verify_required,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grant_round_trips() {
        let text = "restrict,pty,command=\"echo \\\"x\\\"\",environment=\"A=b\",from=\"10.0.0.0/8\",expiry-time=\"20990101Z\",\
                    permitopen=\"db:5432\",permitlisten=\"8080\",tunnel=\"1\"";
        let grant = Grant {
            user: User {
                name: "ada".into(),
                uid: 1000,
                gid: 100,
                home: "/home/ada".into(),
                shell: "/bin/sh".into(),
                gecos: "Ada".into(),
            },
            ids: Ids { uid: 1000, gid: 100, groups: vec![100, 27] },
            groups: vec!["users".into(), "sudo".into()],
            options: KeyOptions::parse(text).unwrap(),
            must_change_password: true,
            joined: true,
            refusal: Some("Too many connections".into()),
            level: Level::Debug1,
            proofs: "publickey ssh-ed25519 AAAA\n".into(),
            remarks: vec!["/home/ada/.ssh/authorized_keys:1: key options: pty".into()],
            key: "SHA256:abc".into(),
            said: "You have mail.\n".into(),
            credentials: Some(Zeroizing::new(vec![6; 900])),
            session_id: vec![4; 32],
            state: Zeroizing::new(vec![5; 1000]),
        };
        let bytes = grant.encode();
        // A vector that had grown would have left a copy of the secrets behind and have spare capacity.
        assert!(bytes.capacity() < bytes.len() + LENGTHS);
        assert_eq!(Grant::decode(&bytes).unwrap(), grant);
        for end in 0..bytes.len() {
            assert!(Grant::decode(&bytes[..end]).is_err());
        }
    }
}
