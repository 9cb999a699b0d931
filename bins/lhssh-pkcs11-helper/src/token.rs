//! One token: its session, its login, its keys.

use cryptoki::context::Pkcs11;
use cryptoki::error::{Error, RvError};
use cryptoki::object::{Attribute, AttributeType, CertificateType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;
use lh_crypto::PublicKey;
use lh_security_key::pkcs11::messages::Reply;

use crate::error::TokenError;
use crate::sign::{self, Signed};

/// A key that the token shows.
pub(crate) struct Key {
    pub(crate) public: PublicKey,
    pub(crate) label: String,
    /// `CKA_ID`, which the private key shares.
    id: Vec<u8>,
}

/// What is missing before the token signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    /// Nothing.
    Done,
    /// The user's PIN.
    Needed,
    /// A login in which the user types the PIN at the reader.
    OnTheReader,
}

/// A token with an open session.
pub(crate) struct Token {
    session: Session,
    label: String,
    login_required: bool,
    /// The reader has keys of its own for the PIN.
    reader_asks: bool,
    logged_in: bool,
    keys: Vec<Key>,
}

impl Token {
    pub(crate) fn open(context: &Pkcs11, slot: Slot) -> Result<Self, Error> {
        let info = context.get_token_info(slot)?;
        let session = context.open_ro_session(slot)?;
        Ok(Self {
            session,
            label: info.label().trim_end().to_owned(),
            login_required: info.login_required(),
            reader_asks: info.protected_authentication_path(),
            logged_in: false,
            keys: Vec::new(),
        })
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }

    /// Shows no keys of this token any more.
    pub(crate) fn forget(&mut self) {
        self.keys.clear();
    }

    pub(crate) const fn login(&self) -> Login {
        match (self.login_required && !self.logged_in, self.reader_asks) {
            (false, _) => Login::Done,
            (true, false) => Login::Needed,
            (true, true) => Login::OnTheReader,
        }
    }

    /// Logs in, where the token requires it. Without a PIN the reader asks for it.
    ///
    /// # Errors
    /// [`TokenError::Login`].
    pub(crate) fn log_in(&mut self, pin: Option<&str>) -> Result<(), TokenError> {
        if self.login_required && !self.logged_in {
            self.present_pin(UserType::User, pin)?;
            self.logged_in = true;
        }
        Ok(())
    }

    fn present_pin(&self, user: UserType, pin: Option<&str>) -> Result<(), TokenError> {
        let pin = pin.map(|pin| AuthPin::new(pin.into()));
        match self.session.login(user, pin.as_ref()) {
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(()),
            Err(error) => Err(TokenError::Login(error)),
        }
    }

    /// Lists the keys: public key objects, then those of certificates.
    pub(crate) fn list(&mut self) {
        let mut keys = Vec::new();
        let certificates =
            [Attribute::Class(ObjectClass::CERTIFICATE), Attribute::CertificateType(CertificateType::X_509)];
        for template in [&[Attribute::Class(ObjectClass::PUBLIC_KEY)][..], &certificates] {
            for object in self.session.find_objects(template).unwrap_or_default() {
                keys.extend(self.key(object));
            }
        }
        self.keys = keys;
    }

    /// Reads the key of a public key or certificate; `None` for kinds that SSH does not know.
    fn key(&self, object: ObjectHandle) -> Option<Key> {
        const WANTED: [AttributeType; 9] = [
            AttributeType::Class,
            AttributeType::KeyType,
            AttributeType::Id,
            AttributeType::Label,
            AttributeType::Modulus,
            AttributeType::PublicExponent,
            AttributeType::EcParams,
            AttributeType::EcPoint,
            AttributeType::Value,
        ];
        let (mut class, mut kind) = (None, None);
        let (mut id, mut label) = (Vec::new(), String::new());
        let (mut modulus, mut exponent, mut parameters, mut point, mut value) = Default::default();
        for attribute in self.session.get_attributes(object, &WANTED).ok()? {
            match attribute {
                Attribute::Class(found) => class = Some(found),
                Attribute::KeyType(found) => kind = Some(found),
                Attribute::Id(found) => id = found,
                Attribute::Label(found) => label = String::from_utf8_lossy(&found).trim_end().to_owned(),
                Attribute::Modulus(found) => modulus = found,
                Attribute::PublicExponent(found) => exponent = found,
                Attribute::EcParams(found) => parameters = found,
                Attribute::EcPoint(found) => point = found,
                Attribute::Value(found) => value = found,
                _ => {}
            }
        }
        let public = match kind {
            _ if class == Some(ObjectClass::CERTIFICATE) => PublicKey::from_x509(&value),
            Some(KeyType::RSA) => PublicKey::from_rsa_numbers(&modulus, &exponent),
            Some(KeyType::EC | KeyType::EC_EDWARDS) => PublicKey::from_token_point(&parameters, &point),
            _ => None,
        };
        Some(Key { public: public?, label, id })
    }

    /// Signs with the key of this blob. A key that wants the PIN for each signature gets it here.
    ///
    /// # Errors
    /// The key is gone, the algorithm does not fit, or the token refuses.
    pub(crate) fn sign(
        &mut self,
        blob: &[u8],
        algorithm: &str,
        signed: &Signed<'_>,
        pin: Option<&str>,
    ) -> Result<Reply, TokenError> {
        let failed = TokenError::Signature;
        let key = self.keys.iter().find(|key| key.public.blob() == blob).ok_or(TokenError::KeyGone)?;
        let template = [Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::Id(key.id.clone())];
        let objects = self.session.find_objects(&template).map_err(failed)?;
        let private = *objects.first().ok_or(TokenError::NoPrivateKey)?;
        let plan = sign::plan(&key.public, algorithm, signed)?;
        let always = self
            .session
            .get_attributes(private, &[AttributeType::AlwaysAuthenticate])
            .is_ok_and(|found| matches!(found[..], [Attribute::AlwaysAuthenticate(true)]));
        let raw = if always {
            if pin.is_none() && !self.reader_asks {
                return Ok(Reply::PinWanted(self.label.clone()));
            }
            // The login belongs between the start of the operation and its data, which leaves only the
            // mechanisms that hash by themselves.
            let mechanism = plan.hashing.ok_or(TokenError::PinAtEachUse)?;
            self.session.sign_init(&mechanism, private).map_err(failed)?;
            self.present_pin(UserType::ContextSpecific, pin)?;
            self.session.sign_update(signed.data).map_err(failed)?;
            self.session.sign_final().map_err(failed)?
        } else {
            match self.session.sign(&plan.mechanism, private, &plan.input) {
                Ok(raw) => raw,
                // The card was taken out and put back.
                Err(Error::Pkcs11(RvError::UserNotLoggedIn, _)) if pin.is_none() => {
                    self.logged_in = false;
                    return Ok(Reply::PinWanted(self.label.clone()));
                }
                Err(error) => return Err(failed(error)),
            }
        };
        sign::blob(&key.public, algorithm, &raw).map(Reply::Signature)
    }
}
