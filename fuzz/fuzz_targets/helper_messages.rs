//! Messages between programs and the helper that loads libraries of security keys, and signatures of files
//! (SSHSIG).
#![no_main]

use lh_crypto::SshSignature;
use lh_security_key::messages::{Reply, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Request::parse(bytes);
    if let Ok(reply) = Reply::parse(bytes) {
        let _ = reply.encode();
    }
    if let Ok(text) = core::str::from_utf8(bytes)
        && let Ok(signature) = SshSignature::from_armor(text)
    {
        let again = SshSignature::from_armor(&signature.to_armor()).expect("what was written can be read");
        assert_eq!(again.to_armor(), signature.to_armor());
        assert!(signature.verify("file", &[0; 64]).is_err(), "a signature of nothing that was signed");
    }
});
