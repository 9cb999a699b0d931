//! Encoding of a client's authentication methods on their way to the monitor.

use lh_auth::gss::GssAttempt;
use lh_auth::server::{HostBasedAttempt, Method, PublicKeyAttempt, ResumeAttempt, TicketAttempt};
use lh_wire::{Reader, WireError, Writer};
use zeroize::Zeroizing;

use super::fields::{put_option, read_option, text};

/// Appends a method and its data.
pub(super) fn put_method(out: &mut Vec<u8>, method: &Method) {
    match method {
        Method::None => out.put_u8(0),
        Method::Password(password) => {
            out.put_u8(1);
            out.put_string(password);
        }
        Method::PasswordChange => out.put_u8(2),
        Method::PublicKey(PublicKeyAttempt { algorithm, key, signature, hostbound, signed: _ }) => {
            out.put_u8(3);
            out.put_string(algorithm.as_bytes());
            out.put_string(key);
            out.put_bool(*hostbound);
            put_option(out, signature.as_deref());
        }
        Method::KeyboardInteractive(submethods) => {
            out.put_u8(4);
            out.put_string(submethods.as_bytes());
        }
        Method::Responses(responses) => {
            out.put_u8(5);
            out.put_u32(u32::try_from(responses.len()).unwrap_or(u32::MAX));
            for response in responses {
                out.put_string(response);
            }
        }
        Method::HostBased(HostBasedAttempt { algorithm, key, host, local_user, signature }) => {
            out.put_u8(7);
            for field in [algorithm.as_bytes(), key, host.as_bytes(), local_user.as_bytes(), signature] {
                out.put_string(field);
            }
        }
        Method::Gss(GssAttempt::Begin(mechanisms)) => {
            out.put_u8(8);
            out.put_u32(u32::try_from(mechanisms.len()).unwrap_or(u32::MAX));
            mechanisms.iter().for_each(|each| out.put_string(each));
        }
        Method::Gss(GssAttempt::Token(token)) => {
            out.put_u8(9);
            out.put_string(token);
        }
        Method::Gss(GssAttempt::Mic(mic)) => {
            out.put_u8(10);
            out.put_string(mic);
        }
        Method::Gss(GssAttempt::Complete) => out.put_u8(11),
        Method::Ticket(TicketAttempt { key, signature }) => {
            out.put_u8(20);
            out.put_string(key);
            out.put_string(signature);
        }
        Method::Resume(ResumeAttempt { fields, export }) => {
            out.put_u8(21);
            out.put_string(fields);
            out.put_string(export);
        }
        Method::Other(name) => {
            out.put_u8(6);
            out.put_string(name.as_bytes());
        }
    }
}

/// Decodes the result of [`put_method`].
pub(super) fn read_method(reader: &mut Reader<'_>) -> Result<Method, WireError> {
    Ok(match reader.u8()? {
        0 => Method::None,
        1 => Method::Password(Zeroizing::new(reader.string()?.to_vec())),
        2 => Method::PasswordChange,
        3 => Method::PublicKey(PublicKeyAttempt {
            algorithm: text(reader)?,
            key: reader.string()?.to_vec(),
            hostbound: reader.boolean()?,
            signature: read_option(reader)?.map(<[u8]>::to_vec),
            signed: Vec::new(),
        }),
        4 => Method::KeyboardInteractive(text(reader)?),
        5 => {
            let count = reader.u32()?;
            let mut responses = Vec::new();
            for _ in 0..count {
                responses.push(Zeroizing::new(reader.string()?.to_vec()));
            }
            Method::Responses(responses)
        }
        6 => Method::Other(text(reader)?),
        7 => Method::HostBased(HostBasedAttempt {
            algorithm: text(reader)?,
            key: reader.string()?.to_vec(),
            host: text(reader)?,
            local_user: text(reader)?,
            signature: reader.string()?.to_vec(),
        }),
        8 => {
            let mut mechanisms = Vec::new();
            for _ in 0..reader.u32()? {
                mechanisms.push(reader.string()?.to_vec());
            }
            Method::Gss(GssAttempt::Begin(mechanisms))
        }
        9 => Method::Gss(GssAttempt::Token(reader.string()?.to_vec())),
        10 => Method::Gss(GssAttempt::Mic(reader.string()?.to_vec())),
        11 => Method::Gss(GssAttempt::Complete),
        20 => Method::Ticket(TicketAttempt {
            key: reader.string()?.to_vec(),
            signature: reader.string()?.to_vec(),
        }),
        21 => Method::Resume(ResumeAttempt {
            fields: reader.string()?.to_vec(),
            export: Zeroizing::new(reader.string()?.to_vec()),
        }),
        _ => return Err(WireError::Invalid { what: "kind of method" }),
    })
}
