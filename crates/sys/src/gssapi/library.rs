//! Bindings to MIT's library, whose interface is RFC 2744's with a few additional functions.
#![expect(unsafe_code, reason = "libgssapi_krb5 and libkrb5 are C libraries")]

use std::ffi::{CString, c_int};
use std::path::Path;
use std::ptr::null_mut;

use super::GssError;

mod acceptor;
mod handles;
mod initiator;
mod interface;

pub use acceptor::Acceptor;
use handles::{OwnCredential, kerberos, lend};
pub use initiator::Initiator;
use interface::{Api, GSS_C_INITIATE, KeyValue, KeyValues};

/// Loads the library, which the first context does otherwise. A process that will enter a chroot calls this
/// before, because the chroot may contain another library.
///
/// # Errors
/// The library is not installed, or not MIT's.
pub fn load() -> Result<(), GssError> {
    Api::load().map(drop)
}

/// Returns true when this principal (`name@REALM`) may log in as this user of the system: according to
/// `~/.k5login` where it exists, otherwise by the name alone (`krb5_kuserok`).
///
/// # Errors
/// The library is missing, Kerberos is not configured, or this is no name of a principal.
pub fn may_log_in(principal: &str, user: &str) -> Result<bool, GssError> {
    let api = Api::load()?;
    let (Ok(principal), Ok(user)) = (CString::new(principal), CString::new(user)) else { return Ok(false) };
    let failed = |what: &str, code: c_int| GssError::new(format!("{what}: error {code}"));
    let mut context = null_mut();
    // SAFETY: the context is released below, once, and the principal before it; the strings live during the
    // calls.
    unsafe {
        let code = (api.krb5_init_context)(&mut context);
        if code != 0 {
            return Err(failed("krb5_init_context", code));
        }
        let mut parsed = null_mut();
        let code = (api.krb5_parse_name)(context, principal.as_ptr(), &mut parsed);
        let answer = if code == 0 {
            let may = (api.krb5_kuserok)(context, parsed, user.as_ptr()) != 0;
            (api.krb5_free_principal)(context, parsed);
            Ok(may)
        } else {
            Err(failed("krb5_parse_name", code))
        };
        (api.krb5_free_context)(context);
        answer
    }
}

/// Writes credentials from [`Acceptor::delegated`] to a file: a credential cache that only this process's
/// user may read.
///
/// # Errors
/// The library is missing, the bytes are not credentials, or the file cannot be written.
pub fn store(exported: &[u8], file: &Path) -> Result<(), GssError> {
    let cache = CString::new(format!("FILE:{}", file.display()))
        .map_err(|_| GssError::new("NUL in the file's name"))?;
    let api = Api::load()?;
    let mut credential = OwnCredential::none(api);
    let mut minor = 0;
    // SAFETY: the buffer lives during the call.
    let major = unsafe { (api.gss_import_cred)(&mut minor, &lend(exported), &mut credential.handle) };
    api.check(major, minor)?;
    let entry = KeyValue { key: c"ccache".as_ptr(), value: cache.as_ptr() };
    let entries = KeyValues { count: 1, elements: &entry };
    // SAFETY: the credential is live; names and values are strings that live during the call.
    let major = unsafe {
        (api.gss_store_cred_into)(
            &mut minor,
            credential.handle,
            GSS_C_INITIATE,
            &kerberos(),
            1,
            0,
            &entries,
            null_mut(),
            null_mut(),
        )
    };
    api.check(major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_host_fails_with_a_text() {
        // No realm has such a host, and the user of the tests need not have a ticket.
        let mut initiator = Initiator::new("no-such-host.invalid", true).unwrap();
        let error = initiator.step(b"").unwrap_err();
        assert!(!error.text.is_empty());
        assert!(initiator.mic(b"data").is_err());
    }

    #[test]
    fn invalid_credentials_are_not_stored() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("cache");
        for bytes in [&b""[..], b"x", &[0; 64], &[0xff; 4096]] {
            assert!(store(bytes, &file).is_err());
            assert!(!file.exists());
        }
    }
}
