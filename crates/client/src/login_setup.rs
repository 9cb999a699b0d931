//! The settings of a login, from the configuration and the connection.

use std::net::SocketAddr;
use std::path::PathBuf;

use lh_driver::Link;

use crate::algorithms;
use crate::error::ClientError;
use crate::identity::{IdentityConfig, SessionProof};
use crate::log::Log;
use crate::login::LoginConfig;
use crate::options::{Options, SystemEnvironment};
use crate::ui::UserInterface;

/// Returns the proof with which an agent checks that it is used for this session.
pub(crate) fn session_proof(link: &Link) -> Option<SessionProof> {
    let (host_key, signature) = link.session_proof()?;
    Some(SessionProof {
        host_key: host_key.to_vec(),
        session_id: link.session_id()?.to_vec(),
        signature: signature.to_vec(),
    })
}

/// Methods in OpenSSH's default order, for an unset `PreferredAuthentications`.
const METHODS: [&str; 5] =
    [lh_auth::gss::GSS_METHOD, "hostbased", "publickey", "keyboard-interactive", "password"];

/// Returns the paths of `CertificateFile`s with their tokens expanded.
fn certificate_files(config: &lh_config::ClientConfig) -> Result<Vec<PathBuf>, ClientError> {
    let texts = config.certificate_file.0.iter().filter(|text| !text.eq_ignore_ascii_case("none"));
    let expanded = texts.map(|text| config.expand_path(text, &SystemEnvironment));
    expanded.map(|path| path.map_err(|why| ClientError::Config(why.to_string()))).collect()
}

/// Returns the settings of a login at the host with this address. `untrusted`: its key is unknown, so the
/// user types no secret.
///
/// # Errors
/// A token or an algorithm in the configuration is invalid.
pub(crate) fn login_config(
    options: &Options,
    address: Option<SocketAddr>,
    untrusted: bool,
) -> Result<LoginConfig, ClientError> {
    use lh_auth::gss::GSS_METHOD;
    use lh_config::enums::ClientPubkeyAuthentication;
    let config = &options.config;
    let preferred: Vec<String> = match config.preferred_authentications.as_deref() {
        Some(list) => list.split(',').map(str::to_owned).collect(),
        None => METHODS.map(str::to_owned).to_vec(),
    };
    let allowed = |method: &String| match method.as_str() {
        GSS_METHOD => lh_sys::gssapi::SUPPORTED && *config.gssapi_authentication,
        "publickey" => !matches!(*config.pubkey_authentication, ClientPubkeyAuthentication::No),
        "hostbased" => *config.hostbased_authentication,
        // A secret typed here would reach an impostor that answers in place of the host.
        "password" => *config.password_authentication && !untrusted && !*config.batch_mode,
        "keyboard-interactive" => *config.kbd_interactive_authentication && !untrusted && !*config.batch_mode,
        _ => false,
    };
    let files =
        config.identity_files(&SystemEnvironment).map_err(|why| ClientError::Config(why.to_string()))?;
    let default_names =
        ["id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "id_mldsa44_ed25519"];
    let explicit = files.iter().any(|file| file.configured);
    let paths: Vec<PathBuf> = if files.is_empty() && !config.identity_file.is_set() {
        default_names.iter().map(|name| config.account.home.join(".ssh").join(name)).collect()
    } else {
        files.into_iter().map(|file| file.path).collect()
    };
    Ok(LoginConfig {
        user: config.user().to_owned(),
        host: config.host.clone(),
        alias: config.host_key_alias.value.clone(),
        peer: address.map_or_else(
            || "via proxy".to_owned(),
            |address| format!("[{}]:{}", address.ip().to_canonical(), address.port()),
        ),
        methods: preferred.into_iter().filter(allowed).collect(),
        password_prompts: *config.number_of_password_prompts,
        kbd_interactive_devices: config.kbd_interactive_devices.value.clone().unwrap_or_default(),
        pubkey_algorithms: algorithms::user_keys(config)?,
        hostbased_algorithms: algorithms::host_based(config)?,
        local_user: config.account.name.clone(),
        delegate: *config.gssapi_delegate_credentials,
        required_rsa_size: *config.required_rsa_size,
        identities: IdentityConfig {
            files: paths,
            explicit,
            certificates: certificate_files(config)?,
            only: *config.identities_only,
            session: None,
            add: *config.add_keys_to_agent,
            agent: options.agent_socket(),
            passphrase_tries: *config.number_of_password_prompts,
            provider: security_key_provider(config.security_key_provider.value.as_deref()),
            token_library: config.pkcs11_provider.value.clone(),
            fingerprint: options.fingerprint_hash(),
        },
    })
}

/// Returns the library for security keys: the configured one (`$NAME` is read from the environment), else the
/// one in OpenSSH's environment variable, else only the built-in support.
fn security_key_provider(configured: Option<&str>) -> String {
    let of = |name: &str| std::env::var(name).ok();
    match configured {
        Some(text) => match text.strip_prefix('$').filter(|name| !name.is_empty()) {
            Some(name) => of(name).unwrap_or_default(),
            None => text.to_owned(),
        },
        None => of("SSH_SK_PROVIDER").unwrap_or_else(|| lh_security_key::INTERNAL.to_owned()),
    }
}

/// Returns the public keys that would be tried on the host, in order (`-Z`), as lines of `authorized_keys`.
/// Contacts only the agent.
///
/// # Errors
/// The configuration is invalid.
pub fn public_keys(options: &Options, ui: &mut dyn UserInterface) -> Result<Vec<String>, ClientError> {
    let mut log = Log::new(ui, options.log_level, true);
    let login = login_config(options, None, false)?;
    let identities = crate::identity::Identities::gather(login.identities, &mut log);
    let line = |identity: &crate::identity::Identity| {
        let line = identity.public.as_ref()?.to_openssh_line(&identity.name);
        Some(format!("{}\n", line.trim_end()))
    };
    Ok(identities.list.iter().filter_map(line).collect())
}
