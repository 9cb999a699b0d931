use std::collections::VecDeque;

use bytes::Bytes;
use lh_crypto::{FingerprintHash, KeyType, PrivateKey};
use lh_wire::msg::{
    Rest, ServiceAccept, UserauthBanner, UserauthFailure, UserauthInfoRequest, UserauthPkOk, UserauthRequest,
    UserauthSuccess,
};
use lh_wire::{Message, NameList, PacketSink, Writer};

use super::publickey::choose_algorithm;
use super::*;
use crate::identity::IdentityConfig;
use crate::testing::FakeUi;
use crate::ui::LogLevel;

/// A server with prepared answers.
#[derive(Default)]
struct Script {
    answers: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    sig_algs: Option<String>,
    bound: Option<Vec<u8>>,
    several: bool,
    /// Number of packets sent before the first wait for an answer.
    before: Option<usize>,
    wants_keys: bool,
    /// Calls about early channel messages.
    early: Vec<&'static str>,
}

impl Packets for Script {
    fn sink(&mut self) -> &mut dyn PacketSink {
        &mut self.sent
    }
    fn next(&mut self, _log: &mut Log<'_>) -> Result<Bytes, ClientError> {
        self.before.get_or_insert(self.sent.len());
        let next = self.answers.pop_front().map(Bytes::from);
        next.ok_or_else(|| ClientError::lost(LogLevel::Error, "nothing more in the script"))
    }
    fn server_sig_algs(&self) -> Option<String> {
        self.sig_algs.clone()
    }
    fn bound_host_key(&self) -> Option<Vec<u8>> {
        self.bound.clone()
    }

    fn wants_keys(&self) -> bool {
        self.wants_keys
    }

    fn send_early_data(&mut self) {
        self.early.push("sent");
    }

    fn early_dropped(&mut self) {
        self.early.push("dropped");
    }

    fn handles_several_requests(&mut self, _log: &mut Log<'_>) -> Result<bool, ClientError> {
        Ok(self.several)
    }

    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

impl Script {
    fn new(answers: Vec<Vec<u8>>) -> Self {
        let mut all = VecDeque::from([ServiceAccept::new(b"ssh-userauth").to_payload()]);
        all.extend(answers);
        Self { answers: all, ..Self::default() }
    }

    /// Method names of the sent requests.
    fn methods(&self) -> Vec<String> {
        let request = |payload: &Vec<u8>| match UserauthRequest::decode(payload) {
            Ok(request) => String::from_utf8_lossy(request.method).into_owned(),
            Err(_) => format!("message {}", payload[0]),
        };
        self.sent.iter().skip(1).map(request).collect()
    }
}

fn failure(methods: &str, partial: bool) -> Vec<u8> {
    let methods = NameList::from_content(methods.as_bytes()).expect("name-list");
    UserauthFailure::new(methods, partial).to_payload()
}

fn success() -> Vec<u8> {
    UserauthSuccess::new().to_payload()
}

fn question(name: &str, texts: &[(&str, bool)]) -> Vec<u8> {
    let mut prompts = Vec::new();
    for (text, echo) in texts {
        prompts.put_string(text.as_bytes());
        prompts.put_bool(*echo);
    }
    UserauthInfoRequest::new(name.as_bytes(), b"", b"", texts.len() as u32, Rest(&prompts)).to_payload()
}

fn config() -> LoginConfig {
    LoginConfig {
        user: "me".to_owned(),
        host: "h.example".to_owned(),
        alias: None,
        peer: "[192.0.2.1]:22".to_owned(),
        methods: ["publickey", "keyboard-interactive", "password"].map(str::to_owned).to_vec(),
        password_prompts: 3,
        kbd_interactive_devices: String::new(),
        pubkey_algorithms: lh_crypto::key_algorithms::DEFAULT.map(str::to_owned).to_vec(),
        delegate: false,
        required_rsa_size: 1024,
        hostbased_algorithms: Vec::new(),
        local_user: "me".to_owned(),
        identities: IdentityConfig {
            files: Vec::new(),
            explicit: true,
            certificates: Vec::new(),
            only: false,
            agent: None,
            session: None,
            add: lh_config::special::AddKeysToAgent::default(),
            passphrase_tries: 3,
            provider: "internal".to_owned(),
            token_library: None,
            fingerprint: FingerprintHash::Sha256,
        },
    }
}

/// Logs in to the scripted server, with these answers from the user.
fn run(script: &mut Script, config: &LoginConfig, answers: &[&str]) -> (Result<(), String>, FakeUi) {
    let (result, ui) = needed(script, config, answers);
    (result.map(drop), ui)
}

/// Like [`run`], but returns what the login has needed.
fn needed(script: &mut Script, config: &LoginConfig, answers: &[&str]) -> (Result<Needed, String>, FakeUi) {
    let mut ui = FakeUi::answering(answers);
    let machine = Machine::new(&config.user, b"session", None);
    let result = log_in(script, machine, config, &mut Log::new(&mut ui, LogLevel::Info, false));
    (result.map_err(|error| error.to_string()), ui)
}

fn key_file(directory: &tempfile::TempDir, name: &str, passphrase: Option<&str>) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let key = PrivateKey::generate(KeyType::Ed25519, None).expect("a key");
    let text = key.to_openssh("", passphrase.map(|text| (text.as_bytes(), 1))).expect("a key file");
    let path = directory.path().join(name);
    std::fs::write(&path, text.as_bytes()).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("mode");
    path
}

#[test]
fn empty_method_list_means_trying_all_methods() {
    let refused = || failure("", false);
    let mut script = Script::new(vec![refused(), refused(), success()]);
    let (result, _) = run(&mut script, &config(), &["right"]);
    assert_eq!(result, Ok(()));
    assert_eq!(script.methods(), ["none", "keyboard-interactive", "password"]);
}

#[test]
fn a_server_that_never_has_enough_is_given_up() {
    let answers = (0..1000).map(|_| failure("keyboard-interactive", true)).collect();
    let mut script = Script::new(answers);
    let (result, _) = run(&mut script, &config(), &[]);
    assert_eq!(result, Err("me@h.example: Permission denied (keyboard-interactive).".to_owned()));
    assert_eq!(script.methods().len(), 1 + MOST_STEPS as usize);
}

#[test]
fn password_is_asked_for_three_times() {
    let refused = || failure("password", false);
    let mut script = Script::new(vec![refused(), refused(), refused(), refused()]);
    let (result, ui) = run(&mut script, &config(), &["a", "b", "c", "d"]);
    assert_eq!(result, Err("me@h.example: Permission denied (password).".to_owned()));
    assert_eq!(ui.asked, ["me@h.example's password: "; 3]);
    assert_eq!(ui.messages, ["Permission denied, please try again."; 2]);
    assert_eq!(script.methods(), ["none", "password", "password", "password"]);
}

/// Additional connections log in again without the user.
#[test]
fn a_login_knows_whether_it_has_needed_the_user() {
    let directory = tempfile::tempdir().expect("directory");
    let mut with_keys = config();
    with_keys.identities.files =
        vec![key_file(&directory, "locked", Some("secret")), key_file(&directory, "open", None)];
    let refused = |methods| failure(methods, false);
    for (replies, config, answers, expected) in [
        (vec![success()], config(), &[][..], Needed::Nobody),
        (vec![refused("password"), success()], config(), &["right"], Needed::User),
        (vec![refused("keyboard-interactive"), question("", &[]), success()], config(), &[], Needed::User),
        // Both keys are tried, because the server refuses the first one.
        (vec![refused("publickey"), refused("publickey"), success()], with_keys.clone(), &[], Needed::Nobody),
        // A password after a key, as a second factor.
        (
            vec![refused("publickey"), refused("publickey"), failure("password", true), success()],
            with_keys.clone(),
            &["right"],
            Needed::User,
        ),
    ] {
        let mut script = Script::new(replies);
        let (result, _) = needed(&mut script, &config, answers);
        assert_eq!(result, Ok(expected), "{:?}", script.methods());
    }
    // The server accepts the key with a passphrase.
    let file = key_file(&directory, "only", Some("secret"));
    let text = std::fs::read(&file).expect("key file");
    let public = PrivateKey::parse_public(&text).expect("public half");
    let accepted = UserauthPkOk::new(b"ssh-ed25519", public.blob()).to_payload();
    let mut locked = config();
    locked.identities.files = vec![file];
    let mut script = Script::new(vec![refused("publickey"), accepted, success()]);
    let (result, ui) = needed(&mut script, &locked, &["secret"]);
    assert_eq!((result, ui.asked.len()), (Ok(Needed::User), 1), "{:?}", ui.asked);
}

#[test]
fn a_banner_is_shown_without_its_escape_sequences() {
    let banner = UserauthBanner::new(b"Welcome\x1b[2J\n", b"").to_payload();
    let (result, ui) = run(&mut Script::new(vec![banner, success()]), &config(), &[]);
    assert_eq!(result, Ok(()));
    assert_eq!(ui.banners, ["Welcome\\033[2J\n"]);
    let long = UserauthBanner::new(&[b'x'; 200_000], b"").to_payload();
    let (_, ui) = run(&mut Script::new(vec![long, success()]), &config(), &[]);
    assert_eq!(ui.banners, ["x".repeat(200_000)], "all of it, as with OpenSSH");
}

#[test]
fn questions_are_prefixed_with_user_and_host() {
    let mut script = Script::new(vec![
        failure("keyboard-interactive,password", false),
        question("Token", &[("Code: ", true), ("PIN: ", false)]),
        question("", &[]),
        success(),
    ]);
    let (result, ui) = run(&mut script, &config(), &["123456", "0000"]);
    assert_eq!(result, Ok(()));
    assert_eq!(ui.messages, ["Token"]);
    assert_eq!(ui.asked, ["(me@h.example) Code: ", "(me@h.example) PIN: "]);
    assert_eq!(script.methods(), ["none", "keyboard-interactive", "message 61", "message 61"]);
}

#[test]
fn server_that_asks_nothing_ends_the_method() {
    let again = || failure("keyboard-interactive", false);
    let mut script = Script::new(vec![again(), question("", &[]), again()]);
    let (result, _) = run(&mut script, &config(), &[]);
    assert_eq!(result, Err("me@h.example: Permission denied (keyboard-interactive).".to_owned()));
}

/// The server announces support for such signatures after the key exchange, during the login.
///
/// Covers: wire publickey-hostbound-v00@openssh.com
#[test]
fn signatures_include_the_host_once_the_server_supports_it() {
    let directory = tempfile::tempdir().expect("directory");
    let mut config = config();
    config.identities.files = vec![key_file(&directory, "id", None)];
    let mut script = Script::new(vec![failure("publickey", false), success()]);
    script.bound = Some(b"host key".to_vec());
    let (result, _) = run(&mut script, &config, &[]);
    assert_eq!(result, Ok(()));
    assert_eq!(script.methods(), ["none", "publickey-hostbound-v00@openssh.com"]);
}

#[test]
fn two_factors_in_sequence_log_in() {
    let directory = tempfile::tempdir().expect("directory");
    let mut config = config();
    config.identities.files = vec![key_file(&directory, "id", None)];
    let mut script = Script::new(vec![failure("publickey", false), failure("password", true), success()]);
    let (result, ui) = run(&mut script, &config, &["secret"]);
    assert_eq!(result, Ok(()));
    assert_eq!(ui.asked, ["me@h.example's password: "]);
    assert_eq!(script.methods(), ["none", "publickey", "password"]);
}

#[test]
fn encrypted_key_is_offered_before_the_passphrase_prompt() {
    let directory = tempfile::tempdir().expect("directory");
    let locked = key_file(&directory, "locked", Some("open"));
    let mut config = config();
    config.identities.files = vec![locked.clone()];
    let prompt = format!("Enter passphrase for key '{}': ", locked.display());
    // Refused: no prompt.
    let refused = failure("publickey", false);
    let mut script = Script::new(vec![refused.clone(), refused.clone()]);
    let (result, ui) = run(&mut script, &config, &["open"]);
    assert_eq!(result, Err("me@h.example: Permission denied (publickey).".to_owned()));
    assert!(ui.asked.is_empty());
    // Accepted: prompts until the passphrase is right.
    let text = std::fs::read(&locked).expect("key file");
    let public = PrivateKey::parse_public(&text).expect("public half");
    let accepted = UserauthPkOk::new(b"ssh-ed25519", public.blob()).to_payload();
    let mut script = Script::new(vec![refused.clone(), accepted.clone(), success()]);
    let (result, ui) = run(&mut script, &config, &["wrong", "open"]);
    assert_eq!(result, Ok(()));
    assert_eq!(ui.asked, [prompt.clone(), prompt.clone()]);
    assert_eq!(script.methods(), ["none", "publickey", "publickey"]);
    // Never right: the next method follows at once, without waiting for a reply that cannot come.
    let mut script = Script::new(vec![failure("publickey,password", false), accepted, success()]);
    let (result, ui) = run(&mut script, &config, &["a", "b", "c", "password"]);
    assert_eq!(result, Ok(()));
    assert_eq!(ui.asked[3], "me@h.example's password: ");
    assert_eq!(script.methods(), ["none", "publickey", "password"]);
}

#[test]
fn invented_pk_ok_gets_no_signature() {
    let directory = tempfile::tempdir().expect("directory");
    let mut config = config();
    config.identities.files = vec![key_file(&directory, "locked", Some("open"))];
    let other = PrivateKey::generate(KeyType::Ed25519, None).expect("a key");
    let accepted = UserauthPkOk::new(b"ssh-ed25519", other.public().blob()).to_payload();
    let mut script = Script::new(vec![failure("publickey", false), accepted]);
    let (result, ui) = run(&mut script, &config, &["open"]);
    assert!(result.is_err_and(|text| text.contains("Permission denied")));
    assert!(ui.asked.is_empty());
}

#[test]
fn rsa_keys_use_the_algorithms_of_the_server() {
    let key = PrivateKey::generate(KeyType::Rsa, Some(2048)).expect("a key");
    let choose = |allowed: &[&str], server: Option<&str>| {
        let allowed: Vec<String> = allowed.iter().map(|&name| name.to_owned()).collect();
        choose_algorithm(key.public(), &allowed, server)
    };
    let modern = ["rsa-sha2-512", "rsa-sha2-256"];
    assert_eq!(choose(&modern, Some("ssh-ed25519,rsa-sha2-256")).as_deref(), Some("rsa-sha2-256"));
    assert_eq!(choose(&modern, Some("ssh-ed25519")), None);
    assert_eq!(choose(&modern, None).as_deref(), Some("rsa-sha2-512"));
    // SHA-1 only if the configuration asks for it; an old server then knows it.
    assert_eq!(choose(&["rsa-sha2-512", "ssh-rsa"], None).as_deref(), Some("ssh-rsa"));
}

/// A login with a configured key (or a default one, if not `explicit`).
fn with_key(key: std::path::PathBuf, explicit: bool) -> LoginConfig {
    let mut config = config();
    config.identities.files = vec![key];
    config.identities.explicit = explicit;
    config
}

#[test]
fn configured_key_is_sent_with_the_first_request() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = with_key(key_file(&directory, "k", None), true);
    let mut script = Script { several: true, ..Script::new(vec![failure("publickey", false), success()]) };
    let (result, _) = run(&mut script, &config, &[]);
    assert_eq!(result, Ok(()));
    assert_eq!(script.methods(), ["none", "publickey"]);
    assert_eq!(script.before, Some(3), "service, none and the key wait for nothing");
    // A server not known to handle several requests at once.
    let mut script = Script::new(vec![failure("publickey", false), success()]);
    assert_eq!(run(&mut script, &config, &[]).0, Ok(()));
    assert_eq!((script.before, script.methods()), (Some(1), vec!["none".to_owned(), "publickey".to_owned()]));
}

/// A server that announces that it accepts keys, and does accept the first one.
///
/// Covers: wire first-flight@longhaul
#[test]
fn default_key_is_sent_first_if_the_server_wants_keys() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = with_key(key_file(&directory, "k", None), false);
    let answers = || vec![failure("publickey", false), failure("publickey", false)];
    let mut script = Script { several: true, wants_keys: true, ..Script::new(answers()) };
    assert!(run(&mut script, &config, &[]).0.is_err());
    assert_eq!((script.before, script.methods()), (Some(3), vec!["none".to_owned(), "publickey".to_owned()]));
    // Early channel messages follow the signature, and are dropped with it, not with `none`.
    assert_eq!(script.early, ["sent", "dropped"]);
}

#[test]
fn refused_first_key_continues_the_normal_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = with_key(key_file(&directory, "k", None), true);
    let refused = || failure("publickey,password", false);
    let mut script = Script { several: true, ..Script::new(vec![refused(), refused(), success()]) };
    let (result, ui) = run(&mut script, &config, &["right"]);
    assert_eq!(result, Ok(()));
    assert_eq!(ui.asked, ["me@h.example's password: "]);
    assert_eq!(script.methods(), ["none", "publickey", "password"]);
    // A server that accepts `none` replies once.
    let mut script = Script { several: true, ..Script::new(vec![success()]) };
    assert_eq!(run(&mut script, &config, &[]).0, Ok(()));
}

#[test]
fn default_keys_are_not_offered_unasked() {
    let directory = tempfile::tempdir().expect("a directory");
    let plain = key_file(&directory, "plain", None);
    for config in [
        with_key(plain.clone(), false),
        LoginConfig { methods: vec!["password".to_owned()], ..with_key(plain.clone(), true) },
    ] {
        let mut script = Script { several: true, ..Script::new(vec![failure("password", false), success()]) };
        let (result, ui) = run(&mut script, &config, &["right"]);
        assert_eq!(result, Ok(()));
        assert_eq!(ui.asked, ["me@h.example's password: "]);
        assert_eq!(script.methods(), ["none", "password"]);
        assert_eq!(script.before, Some(2), "only the first request waits for nothing");
    }
    // A configured encrypted key is offered without a passphrase prompt until the server wants it.
    let config = with_key(key_file(&directory, "locked", Some("secret")), true);
    let refused = || failure("publickey", false);
    let mut script = Script { several: true, ..Script::new(vec![refused(), refused()]) };
    let (result, ui) = run(&mut script, &config, &["secret"]);
    assert_eq!(result, Err("me@h.example: Permission denied (publickey).".to_owned()));
    assert_eq!(ui.asked, [""; 0]);
    assert_eq!((script.before, script.methods()), (Some(3), vec!["none".to_owned(), "publickey".to_owned()]));
}
