//! Messages between programs and the helpers that load libraries of security keys and tokens, requests to the
//! set-uid helper for host keys, and signatures of files (SSHSIG).
#![no_main]

use lh_auth::keysign;
use lh_crypto::SshSignature;
use lh_security_key::messages::{Reply, Request};
use lh_security_key::{FileKey, pkcs11};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Request::parse(bytes);
    if let Ok(reply) = Reply::parse(bytes) {
        let _ = reply.encode();
    }
    let _ = pkcs11::messages::Request::parse(bytes);
    if let Ok(reply) = pkcs11::messages::Reply::parse(bytes) {
        let _ = reply.encode();
    }
    if let Ok((descriptor, data)) = keysign::read_request(bytes) {
        assert_eq!(keysign::request(descriptor, data), bytes);
    }
    if let Ok(signature) = keysign::read_answer(bytes) {
        assert_eq!(keysign::answer(signature), bytes);
    }
    let _ = FileKey::parse(bytes, None);
    if let Ok(text) = core::str::from_utf8(bytes)
        && let Ok(signature) = SshSignature::from_armor(text)
    {
        let again = SshSignature::from_armor(&signature.to_armor()).expect("what was written can be read");
        assert_eq!(again.to_armor(), signature.to_armor());
        assert!(signature.verify("file", &[0; 64]).is_err(), "a signature of nothing that was signed");
    }
});
