//! An emulated FIDO security key (CTAP 2.0 with PIN protocol 1 and credential management), behind a UNIX
//! socket that transports the reports of CTAPHID.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{HMAC_SHA256, Key as MacKey, sign as mac};
use aws_lc_rs::rand::fill;

use super::cbor::{Value, map};
use super::crypto::{Pair, certificate, decrypt, encrypt, point};

const REPORT: usize = 64;
/// Commands of CTAPHID, with the bit of a message's first report.
const INIT: u8 = 0x86;
const CBOR: u8 = 0x90;
const CANCEL: u8 = 0x91;
/// Flags of signed data.
const TOUCHED: u8 = 1;
const VERIFIED: u8 = 4;
const HAS_KEY: u8 = 0x40;
const HAS_EXTENSIONS: u8 = 0x80;
/// The device's token for requests with a PIN.
const TOKEN: [u8; 32] = [7; 32];
/// Protection of keys that are hidden without a PIN.
const HIDDEN: i64 = 3;

/// Error numbers of CTAP.
mod error {
    pub(super) const UNSUPPORTED_ALGORITHM: u8 = 0x26;
    pub(super) const KEEPALIVE_CANCEL: u8 = 0x2d;
    pub(super) const NO_CREDENTIALS: u8 = 0x2e;
    pub(super) const USER_ACTION_TIMEOUT: u8 = 0x2f;
    pub(super) const PIN_INVALID: u8 = 0x31;
    pub(super) const PIN_AUTH_INVALID: u8 = 0x33;
    pub(super) const PIN_AUTH_BLOCKED: u8 = 0x34;
    pub(super) const PIN_NOT_SET: u8 = 0x35;
    pub(super) const PIN_REQUIRED: u8 = 0x36;
}

struct Key {
    id: Vec<u8>,
    application: String,
    user: Value,
    pair: Pair,
    resident: bool,
    protection: i64,
}

/// State and settings of a security key.
pub(super) struct State {
    pub(super) pin: Option<String>,
    /// Whether the user touches the device when it blinks.
    pub(super) touched: bool,
    /// Whether the maker's key signs new keys, with a certificate, instead of the new key itself.
    pub(super) attested: bool,
    /// Whether it supports Ed25519.
    pub(super) ed25519: bool,
    keys: Vec<Key>,
    wrong_pins: u32,
    counter: u32,
    agreement: PrivateKey,
    /// Answers to the requests for the next of several.
    more: Vec<Value>,
}

/// A security key that is plugged in.
pub(super) struct Authenticator {
    pub(super) path: PathBuf,
    pub(super) state: Arc<Mutex<State>>,
}

impl Authenticator {
    pub(super) fn start(path: &Path, pin: Option<&str>) -> Self {
        let state = Arc::new(Mutex::new(State {
            pin: pin.map(str::to_owned),
            touched: true,
            attested: false,
            ed25519: true,
            keys: Vec::new(),
            wrong_pins: 0,
            counter: 0,
            agreement: PrivateKey::generate(&ECDH_P256).unwrap(),
            more: Vec::new(),
        }));
        let listener = UnixListener::bind(path).unwrap();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { path: path.to_owned(), state }
    }
}

/// Answers the messages of one connection.
fn serve(mut stream: UnixStream, state: &Mutex<State>) {
    while let Some((command, body)) = receive(&mut stream) {
        let answer = match command {
            INIT => [&body[..8], &[0, 0, 0, 1, 2, 1, 0, 0, 0x0c]].concat(),
            CBOR => match state.lock().unwrap().answer(&body) {
                Some(Ok(value)) => [&[0][..], &value.map_or(Vec::new(), |value| value.encode())].concat(),
                Some(Err(error)) => vec![error],
                // Waits for a touch: the next report is a cancellation or the end.
                None => match receive(&mut stream) {
                    Some((CANCEL, _)) => vec![error::KEEPALIVE_CANCEL],
                    _ => return,
                },
            },
            _ => continue,
        };
        let command = if command == INIT { INIT } else { CBOR };
        let channel: &[u8] = if command == INIT { &[0xff; 4] } else { &[0, 0, 0, 1] };
        if send(&mut stream, channel, command, &answer).is_err() {
            return;
        }
    }
}

fn receive(stream: &mut UnixStream) -> Option<(u8, Vec<u8>)> {
    let mut report = [0; REPORT];
    stream.read_exact(&mut report).ok()?;
    let (command, length) = (report[4], usize::from(u16::from_be_bytes([report[5], report[6]])));
    let mut body = report[7..].to_vec();
    while body.len() < length {
        stream.read_exact(&mut report).ok()?;
        body.extend(&report[5..]);
    }
    body.truncate(length);
    Some((command, body))
}

fn send(stream: &mut UnixStream, channel: &[u8], command: u8, body: &[u8]) -> std::io::Result<()> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    let (first, rest) = body.split_at(body.len().min(REPORT - 7));
    let mut reports = vec![[channel, &[command], &length, first].concat()];
    let rest = rest.chunks(REPORT - 5).zip(0u8..);
    reports.extend(rest.map(|(part, number)| [channel, &[number], part].concat()));
    for mut report in reports {
        report.resize(REPORT, 0);
        stream.write_all(&report)?;
    }
    Ok(())
}

/// An answer without or with data, or an error; `None` while the device waits for a touch.
type Answer = Option<Result<Option<Value>, u8>>;

impl State {
    /// Lifts the block after wrong PINs.
    pub(super) fn plug_in_again(&mut self) {
        self.wrong_pins = 0;
    }

    fn answer(&mut self, message: &[u8]) -> Answer {
        let (command, mut rest) = (message[0], &message[1..]);
        let request = if rest.is_empty() { map::<i64>([]) } else { Value::decode(&mut rest) };
        match command {
            1 => self.make_key(&request),
            2 => Some(self.sign(&request).map(Some)),
            4 => Some(Ok(Some(self.describe()))),
            6 => Some(self.client_pin(&request).map(Some)),
            8 => Some(self.next()),
            0x0a | 0x41 => Some(self.manage(&request)),
            other => panic!("unexpected command {other}"),
        }
    }

    fn describe(&self) -> Value {
        let options = [
            ("rk", true.into()),
            ("up", true.into()),
            ("clientPin", self.pin.is_some().into()),
            ("credentialMgmtPreview", true.into()),
        ];
        map([
            (1, Value::List(vec!["FIDO_2_0".into(), "FIDO_2_1_PRE".into()])),
            (2, Value::List(vec!["credProtect".into()])),
            (3, Value::Bytes(vec![0; 16])),
            (4, map(options)),
            (5, 1200.into()),
            (6, Value::List(vec![1.into()])),
        ])
    }

    /// Checks the proof of the PIN over `data`.
    fn verified(&self, proof: Option<&Value>, data: &[u8]) -> Result<bool, u8> {
        let expected = &mac(&MacKey::new(HMAC_SHA256, &TOKEN), data).as_ref()[..16].to_vec();
        match proof {
            Some(proof) if proof.bytes() == expected => Ok(true),
            Some(_) => Err(error::PIN_AUTH_INVALID),
            None => Ok(false),
        }
    }

    fn make_key(&mut self, request: &Value) -> Answer {
        let proof = request.get(8);
        // An empty proof only asks for a touch.
        if proof.is_some_and(|proof| proof.bytes().is_empty()) {
            let error = if self.pin.is_some() { error::PIN_INVALID } else { error::PIN_NOT_SET };
            return self.touched.then_some(Err(error));
        }
        Some(self.make_key_now(request, proof).map(Some))
    }

    fn make_key_now(&mut self, request: &Value, proof: Option<&Value>) -> Result<Value, u8> {
        let hash = request.get(1).unwrap().bytes();
        let verified = self.verified(proof, hash)?;
        if self.pin.is_some() && !verified {
            return Err(error::PIN_REQUIRED);
        }
        if !self.touched {
            return Err(error::USER_ACTION_TIMEOUT);
        }
        let algorithm = request.get(4).unwrap().list()[0].get("alg").unwrap().int();
        let pair = match algorithm {
            -8 if self.ed25519 => Pair::ed25519(),
            -7 => Pair::ecdsa(),
            _ => return Err(error::UNSUPPORTED_ALGORITHM),
        };
        let mut id = vec![0; 64];
        fill(&mut id).unwrap();
        let resident = request.get(7).and_then(|options| options.get("rk")) == Some(&true.into());
        let protection = request.get(6).and_then(|extensions| extensions.get("credProtect"));
        let key = Key {
            id,
            application: request.get(2).and_then(|party| party.get("id")).unwrap().text().to_owned(),
            user: request.get(3).unwrap().clone(),
            pair,
            resident,
            protection: protection.map_or(1, Value::int),
        };
        let mut flags = TOUCHED | HAS_KEY | if verified { VERIFIED } else { 0 };
        let mut extensions = Vec::new();
        if let Some(level) = protection {
            flags |= HAS_EXTENSIONS;
            extensions = map([("credProtect", level.clone())]).encode();
        }
        let length = u16::try_from(key.id.len()).unwrap().to_be_bytes();
        let attested = [&[0; 16], &length[..], &key.id, &key.pair.public().encode(), &extensions].concat();
        let data = [self.signed_head(&key.application, flags), attested].concat();
        let signed = [&data, hash].concat();
        let statement = if self.attested {
            let maker = Pair::ecdsa();
            let chain = Value::List(vec![Value::Bytes(certificate(&maker))]);
            map([("alg", Value::Int(-7)), ("sig", Value::Bytes(maker.sign(&signed))), ("x5c", chain)])
        } else {
            map([("alg", algorithm.into()), ("sig", Value::Bytes(key.pair.sign(&signed)))])
        };
        if resident {
            self.keys
                .retain(|old| !(old.resident && old.application == key.application && old.user == key.user));
        }
        self.keys.push(key);
        Ok(map([(1, "packed".into()), (2, Value::Bytes(data)), (3, statement)]))
    }

    fn signed_head(&mut self, application: &str, flags: u8) -> Vec<u8> {
        self.counter += 1;
        let party = digest(&SHA256, application.as_bytes());
        [party.as_ref(), &[flags], &self.counter.to_be_bytes()].concat()
    }

    fn sign(&mut self, request: &Value) -> Result<Value, u8> {
        let application = request.get(1).unwrap().text().to_owned();
        let hash = request.get(2).unwrap().bytes();
        let verified = self.verified(request.get(6), hash)?;
        let touch = request.get(5).and_then(|options| options.get("up")) != Some(&false.into());
        let allowed: Option<Vec<_>> = request
            .get(3)
            .map(|list| list.list().iter().map(|key| key.get("id").unwrap().bytes().to_vec()).collect());
        let fits = |key: &Key| {
            let named = allowed.as_ref().map_or(key.resident, |ids| ids.contains(&key.id));
            key.application == application && named && (verified || key.protection < HIDDEN)
        };
        let found: Vec<usize> = (0..self.keys.len()).filter(|at| fits(&self.keys[*at])).collect();
        if found.is_empty() {
            return Err(error::NO_CREDENTIALS);
        }
        if touch && !self.touched {
            return Err(error::USER_ACTION_TIMEOUT);
        }
        let flags = if touch { TOUCHED } else { 0 } | if verified { VERIFIED } else { 0 };
        let mut answers = Vec::new();
        for at in &found {
            let data = self.signed_head(&application, flags);
            let key = &self.keys[*at];
            let signature = key.pair.sign(&[&data, hash].concat());
            let mut answer = vec![(1, key.name()), (2, Value::Bytes(data)), (3, Value::Bytes(signature))];
            if key.resident {
                answer.push((4, map([("id", key.user.get("id").unwrap().clone())])));
            }
            if answers.is_empty() && found.len() > 1 {
                answer.push((5, i64::try_from(found.len()).unwrap().into()));
            }
            answers.push(map(answer));
        }
        Ok(self.first_of(answers))
    }

    /// Returns the first answer, and keeps the others for requests for the next.
    fn first_of(&mut self, mut answers: Vec<Value>) -> Value {
        let first = answers.remove(0);
        answers.reverse();
        self.more = answers;
        first
    }

    fn next(&mut self) -> Result<Option<Value>, u8> {
        self.more.pop().map(Some).ok_or(error::NO_CREDENTIALS)
    }

    fn client_pin(&mut self, request: &Value) -> Result<Value, u8> {
        match request.get(2).unwrap().int() {
            2 => {
                let public = self.agreement.compute_public_key().unwrap();
                Ok(map([(1, point(public.as_ref(), -25))]))
            }
            5 => {
                let pin = self.pin.as_ref().ok_or(error::PIN_NOT_SET)?;
                let peer = request.get(3).unwrap();
                let (x, y) = (peer.get(-2).unwrap().bytes(), peer.get(-3).unwrap().bytes());
                let peer = UnparsedPublicKey::new(&ECDH_P256, [&[4], x, y].concat());
                let hashed = |secret: &[u8]| Ok(digest(&SHA256, secret).as_ref().to_vec());
                let secret = agree(&self.agreement, &peer, 0, hashed).unwrap();
                let pin_hash = decrypt(&secret, request.get(6).unwrap().bytes());
                if self.wrong_pins >= 3 {
                    return Err(error::PIN_AUTH_BLOCKED);
                }
                if pin_hash != digest(&SHA256, pin.as_bytes()).as_ref()[..16] {
                    self.wrong_pins += 1;
                    let blocked = self.wrong_pins >= 3;
                    return Err(if blocked { error::PIN_AUTH_BLOCKED } else { error::PIN_INVALID });
                }
                self.wrong_pins = 0;
                Ok(map([(2, Value::Bytes(encrypt(&secret, &TOKEN)))]))
            }
            other => panic!("unexpected PIN command {other}"),
        }
    }

    /// Credential management.
    fn manage(&mut self, request: &Value) -> Result<Option<Value>, u8> {
        let command = request.get(1).unwrap().int();
        let parameters = request.get(2);
        if !matches!(command, 3 | 5) {
            let signed = [vec![u8::try_from(command).unwrap()], parameters.map_or(Vec::new(), Value::encode)];
            if !self.verified(request.get(4), &signed.concat())? {
                return Err(error::PIN_REQUIRED);
            }
        }
        let mut answers = Vec::new();
        match command {
            1 => {
                let stored = i64::try_from(self.residents().count()).unwrap();
                answers.push(vec![(1, stored.into()), (2, 20.into())]);
            }
            2 => {
                let mut names: Vec<_> = self.residents().map(|key| key.application.clone()).collect();
                names.sort();
                names.dedup();
                for name in &names {
                    let hash = digest(&SHA256, name.as_bytes());
                    let party = map([("id", name.as_str().into())]);
                    answers.push(vec![(3, party), (4, hash.as_ref().into())]);
                }
                number(&mut answers, 5);
            }
            4 => {
                let wanted = parameters.and_then(|parameters| parameters.get(1)).unwrap().bytes();
                let of = self
                    .residents()
                    .filter(|key| digest(&SHA256, key.application.as_bytes()).as_ref() == wanted);
                answers.extend(of.map(|key| {
                    let protection = (10, key.protection.into());
                    vec![(6, key.user.clone()), (7, key.name()), (8, key.pair.public()), protection]
                }));
                number(&mut answers, 9);
            }
            3 | 5 => return self.next(),
            other => panic!("unexpected management command {other}"),
        }
        if answers.is_empty() {
            return Err(error::NO_CREDENTIALS);
        }
        Ok(Some(self.first_of(answers.into_iter().map(map).collect())))
    }

    fn residents(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(|key| key.resident)
    }
}

/// Adds the number of answers to the first, sorted by its key.
fn number(answers: &mut [Vec<(i64, Value)>], at: i64) {
    let count = i64::try_from(answers.len()).unwrap();
    if let Some(first) = answers.first_mut() {
        first.push((at, count.into()));
        first.sort_by_key(|entry| entry.0);
    }
}

impl Key {
    fn name(&self) -> Value {
        map([("id", self.id.as_slice().into()), ("type", "public-key".into())])
    }
}
