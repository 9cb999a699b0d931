//! A post-quantum KEM combined with X25519: `mlkem768x25519-sha256` (draft-ietf-sshm-mlkem-hybrid-kex) and
//! `sntrup761x25519-sha512` (draft-ietf-sshm-ntruprime-ssh).
//!
//! The client sends the KEM's public key followed by an X25519 value, the server a ciphertext followed by an
//! X25519 value. K is a *string*, not an mpint: the hash of both secrets, the post-quantum one first.

use super::ecdh::{Curve, Key as EcdhKey};
use super::secret::SharedSecret;
use crate::{Hash, KexError};
use aws_lc_rs::kem::{Ciphertext, DecapsulationKey, EncapsulationKey, ML_KEM_768};
use core::convert::Infallible;
use sntrup::sntrup761;

const X25519_LEN: usize = 32;
const FAILED: KexError = KexError::Library { what: "agree on a post-quantum secret" };
const WRONG_LENGTH: KexError = KexError::BadPublicValue { why: "wrong length" };

/// A post-quantum key encapsulation method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kem {
    Mlkem768,
    Sntrup761,
}

impl Kem {
    const fn hash(self) -> Hash {
        match self {
            Self::Mlkem768 => Hash::Sha256,
            Self::Sntrup761 => Hash::Sha512,
        }
    }

    const fn public_len(self) -> usize {
        match self {
            Self::Mlkem768 => 1184,
            Self::Sntrup761 => 1158,
        }
    }

    const fn ciphertext_len(self) -> usize {
        match self {
            Self::Mlkem768 => 1088,
            Self::Sntrup761 => 1039,
        }
    }

    fn combine(self, post_quantum: &[u8], classical: &[u8]) -> SharedSecret {
        SharedSecret::from_string(self.hash().digest(&[post_quantum, classical]).as_ref())
    }
}

pub(super) struct ClientKey {
    kem: KemKey,
    ecdh: EcdhKey,
}

enum KemKey {
    Mlkem768(DecapsulationKey),
    Sntrup761(sntrup761::DecapsulationKey),
}

impl ClientKey {
    pub(super) fn generate(kem: Kem) -> Result<(Self, Vec<u8>), KexError> {
        let mut public = Vec::with_capacity(kem.public_len() + X25519_LEN);
        let kem = match kem {
            Kem::Mlkem768 => {
                let private = DecapsulationKey::generate(&ML_KEM_768).map_err(|_| FAILED)?;
                let bytes =
                    private.encapsulation_key().and_then(|key| key.key_bytes()).map_err(|_| FAILED)?;
                public.extend_from_slice(bytes.as_ref());
                KemKey::Mlkem768(private)
            }
            Kem::Sntrup761 => {
                let (encapsulate, private) = sntrup761::generate_key(&mut LibraryRng);
                public.extend_from_slice(encapsulate.as_ref());
                KemKey::Sntrup761(private)
            }
        };
        let (ecdh, ecdh_public) = EcdhKey::generate(Curve::X25519)?;
        public.extend_from_slice(&ecdh_public);
        Ok((Self { kem, ecdh }, public))
    }

    pub(super) fn agree(&self, server_public: &[u8]) -> Result<SharedSecret, KexError> {
        let kem = match &self.kem {
            KemKey::Mlkem768(_) => Kem::Mlkem768,
            KemKey::Sntrup761(_) => Kem::Sntrup761,
        };
        let (ciphertext, ecdh_public) = split(server_public, kem.ciphertext_len())?;
        let classical = self.ecdh.agree(ecdh_public)?;
        match &self.kem {
            KemKey::Mlkem768(private) => {
                let secret = private.decapsulate(Ciphertext::from(ciphertext)).map_err(|_| FAILED)?;
                Ok(kem.combine(secret.as_ref(), &classical))
            }
            KemKey::Sntrup761(private) => {
                let ciphertext = ciphertext.try_into().map_err(|_| WRONG_LENGTH)?;
                Ok(kem.combine(private.decapsulate(&ciphertext).as_ref(), &classical))
            }
        }
    }
}

/// Performs the server's side: returns its public value and the secret.
pub(super) fn respond(kem: Kem, client_public: &[u8]) -> Result<(Vec<u8>, SharedSecret), KexError> {
    let (encapsulate, ecdh_public) = split(client_public, kem.public_len())?;
    let (ecdh, our_ecdh_public) = EcdhKey::generate(Curve::X25519)?;
    let classical = ecdh.agree(ecdh_public)?;
    let mut public = Vec::with_capacity(kem.ciphertext_len() + X25519_LEN);
    let secret = match kem {
        Kem::Mlkem768 => {
            // The library performs the modulus check of FIPS 203 section 7.2 here.
            const BAD: KexError = KexError::BadPublicValue { why: "not an ML-KEM key" };
            let key = EncapsulationKey::new(&ML_KEM_768, encapsulate).map_err(|_| BAD)?;
            let (ciphertext, secret) = key.encapsulate().map_err(|_| BAD)?;
            public.extend_from_slice(ciphertext.as_ref());
            kem.combine(secret.as_ref(), &classical)
        }
        Kem::Sntrup761 => {
            let key = sntrup761::EncapsulationKey::try_from(encapsulate).map_err(|_| WRONG_LENGTH)?;
            let (ciphertext, secret) = key.encapsulate(&mut LibraryRng);
            public.extend_from_slice(ciphertext.as_ref());
            kem.combine(secret.as_ref(), &classical)
        }
    };
    public.extend_from_slice(&our_ecdh_public);
    Ok((public, secret))
}

fn split(value: &[u8], kem_len: usize) -> Result<(&[u8], &[u8]), KexError> {
    match value.split_at_checked(kem_len) {
        Some((kem, ecdh)) if ecdh.len() == X25519_LEN => Ok((kem, ecdh)),
        _ => Err(WRONG_LENGTH),
    }
}

/// AWS-LC's generator behind the interface that `sntrup` requires.
struct LibraryRng;

impl rand_core::TryRng for LibraryRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        crate::Random::fill(&mut crate::SystemRandom, out);
        Ok(())
    }
}

impl rand_core::TryCryptoRng for LibraryRng {}
