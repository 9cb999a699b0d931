//! The loaded configuration: typed settings, and values derived from several of them.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use crate::client_table::ClientSettings;
use crate::environment::{Account, Environment};
use crate::error::ConfigError;
use crate::expand_error::ExpandError;
use crate::forward::Endpoint;
use crate::names::bracketed;
use crate::note::Note;
use crate::special::ForwardAgent;
use crate::token::{Tokens, expand_environment, expand_tilde};

/// The client's configuration for one destination. Dereferences to [`ClientSettings`], which has one field
/// per keyword.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Every keyword.
    pub settings: ClientSettings,
    /// The destination on the command line, without user and port.
    pub original_host: String,
    /// The name or address to connect to, in lower case: `Hostname` expanded, or the original destination.
    pub host: String,
    /// The local user.
    pub account: Account,
    /// Notes for the log (unsupported old keywords, keywords without effect).
    pub notes: Vec<Note>,
}

/// A key file to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFile {
    /// The path as configured.
    pub text: String,
    /// The path with its tokens expanded.
    pub path: PathBuf,
    /// The user configured this file, so its absence is logged.
    pub configured: bool,
}

/// One hop of `ProxyJump`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JumpHost {
    /// User, if given.
    pub user: Option<String>,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port, if given.
    pub port: Option<u16>,
}

impl JumpHost {
    /// Parses `[user@]host[:port]` or `ssh://[user@]host[:port]`, where `%40` in the user means `@`.
    pub fn parse(text: &str) -> Option<Self> {
        let uri = text.strip_prefix("ssh://");
        let text = uri.map_or(text, |rest| rest.trim_end_matches('/'));
        let (user, rest) = match text.rsplit_once('@') {
            Some((user, rest)) if !user.is_empty() => {
                let user = if uri.is_some() { percent_decoded(user) } else { user.to_string() };
                (Some(user), rest)
            }
            Some(_) => return None,
            None => (None, text),
        };
        let (host, port) = if let Some(inner) = rest.strip_prefix('[') {
            let (host, after) = inner.split_once(']')?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return None,
            }
        } else {
            match rest.split_once(':') {
                // A second colon: a bare IPv6 address.
                Some((_, port)) if port.contains(':') => (rest, None),
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            }
        };
        let port = match port {
            None => None,
            Some(text) => Some(crate::forward::parse_port(text).filter(|port| *port != 0)?),
        };
        (!host.is_empty() && !host.starts_with('-')).then(|| Self { user, host: host.to_string(), port })
    }

    /// Parses a complete `ProxyJump` value; `none` yields an empty list.
    pub fn parse_list(text: &str) -> Option<Vec<Self>> {
        if text.eq_ignore_ascii_case("none") {
            return Some(Vec::new());
        }
        text.split(',').map(Self::parse).collect()
    }
}

/// Decodes `%XX`. Other percent signs stay as they are: they begin tokens.
fn percent_decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let [first, rest @ ..] = bytes {
        let escaped = rest.get(..2).filter(|_| *first == b'%').and_then(|digits| {
            let digits = digits.iter().all(u8::is_ascii_hexdigit).then_some(digits)?;
            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|&byte| byte != 0)
        });
        out.push(escaped.unwrap_or(*first));
        bytes = if escaped.is_some() { rest.get(2..).unwrap_or_default() } else { rest };
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

impl std::fmt::Display for JumpHost {
    /// Writes `[user@]host[:port]`, which can be parsed again.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        f.write_str(&bracketed(&self.host))?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl ClientConfig {
    /// Returns the user to log in as: `User`, or the local user's name.
    pub fn user(&self) -> &str {
        self.settings.user.as_deref().unwrap_or(&self.account.name)
    }

    /// Returns the port to connect to.
    pub fn port(&self) -> u16 {
        self.settings.port.value.0
    }

    /// Returns the host's name in known_hosts: `HostKeyAlias` or the host.
    pub fn host_key_name(&self) -> &str {
        self.settings.host_key_alias.as_deref().unwrap_or(&self.host)
    }

    /// Returns whether the connection uses neither a command nor a jump host.
    pub fn is_direct(&self) -> bool {
        self.settings.proxy_command.command().is_none() && self.proxy_jump().is_empty()
    }

    /// Returns the hops of `ProxyJump`, outermost first; empty without it.
    pub fn proxy_jump(&self) -> Vec<JumpHost> {
        self.settings.proxy_jump.as_deref().and_then(JumpHost::parse_list).unwrap_or_default()
    }

    /// Returns the hops of `ProxyJump` with their tokens (`%% %h %n %p %r`) expanded.
    ///
    /// # Errors
    /// Unknown tokens.
    pub fn expanded_proxy_jump(&self, environment: &dyn Environment) -> Result<Vec<JumpHost>, ExpandError> {
        let tokens = self.tokens(environment).only("hnpr");
        let mut hops = self.proxy_jump();
        for hop in &mut hops {
            hop.host = tokens.expand(&hop.host)?;
            if let Some(user) = &mut hop.user {
                *user = tokens.expand(user)?;
            }
        }
        Ok(hops)
    }

    /// Returns the `%` tokens of paths and commands: `%C %d %h %i %j %k %L %l %n %p %r %u`.
    pub fn tokens(&self, environment: &dyn Environment) -> Tokens {
        tokens(
            &self.account,
            environment,
            &self.host,
            &self.original_host,
            self.user(),
            self.port(),
            self.settings.host_key_alias.as_deref().unwrap_or(&self.original_host),
            self.settings.proxy_jump.as_deref().unwrap_or(""),
        )
    }

    /// Expands `~`, `${ENV}` and tokens of a path.
    ///
    /// # Errors
    /// Unknown tokens, unset variables, unknown users.
    pub fn expand_path(&self, text: &str, environment: &dyn Environment) -> Result<PathBuf, ExpandError> {
        let text = expand_tilde(text, &self.account.home, |user| environment.home_of(user))?;
        // Every start of a client expands several paths, most of which have no token.
        let text = if text.contains('%') { self.tokens(environment).expand(&text)? } else { text };
        expand_environment(&text, environment).map(PathBuf::from)
    }

    /// Returns the key files to try, in order.
    ///
    /// # Errors
    /// As [`expand_path`](Self::expand_path).
    pub fn identity_files(&self, environment: &dyn Environment) -> Result<Vec<IdentityFile>, ExpandError> {
        let configured = self.settings.identity_file.is_set();
        let texts = self.settings.identity_file.0.iter().filter(|text| !text.eq_ignore_ascii_case("none"));
        texts
            .map(|text| {
                Ok(IdentityFile {
                    text: text.clone(),
                    path: self.expand_path(text, environment)?,
                    configured,
                })
            })
            .collect()
    }

    /// Returns the user's known_hosts files; the loader has expanded them.
    pub fn user_known_hosts_files(&self) -> Vec<PathBuf> {
        self.settings.user_known_hosts_file.list().iter().map(PathBuf::from).collect()
    }

    /// Returns the system's known_hosts files, with `~` expanded.
    ///
    /// # Errors
    /// An unknown user.
    pub fn global_known_hosts_files(
        &self,
        environment: &dyn Environment,
    ) -> Result<Vec<PathBuf>, ExpandError> {
        let files = self.settings.global_known_hosts_file.list();
        let expand = |text: &String| expand_tilde(text, &self.account.home, |user| environment.home_of(user));
        files.iter().map(|text| expand(text).map(PathBuf::from)).collect()
    }

    /// Expands the paths and commands that `ssh -G` shows expanded.
    pub(super) fn expand_shared_paths(&mut self, environment: &dyn Environment) -> Result<(), ConfigError> {
        // OpenSSH names the keyword in only some of these messages.
        let nameless = |why: ExpandError| ConfigError::new(why.to_string());
        let of = |keyword: &'static str| move |why| ConfigError::new(format!("{keyword}: {why}"));
        if let Some(path) = self.settings.control_path.value.take() {
            let path = self.expand_path(&path, environment).map_err(nameless)?;
            self.settings.control_path.value = Some(path.to_string_lossy().into_owned());
        }
        if let Some(path) = self.settings.metrics_path.value.take() {
            let path = self.expand_path(&path, environment).map_err(of("MetricsPath"))?;
            self.settings.metrics_path.value = Some(path.to_string_lossy().into_owned());
        }
        // `${}` in it belongs to the remote shell.
        if let Some(text) = &self.settings.remote_command.value.0 {
            let command = self.tokens(environment).expand(text).map_err(of("RemoteCommand"))?;
            self.settings.remote_command.value.0 = Some(command);
        }
        if let Some(text) = self.settings.identity_agent.value.clone()
            && text != "SSH_AUTH_SOCK"
            && !text.eq_ignore_ascii_case("none")
            && (!text.starts_with('$') || text.starts_with("${"))
        {
            let path = self.expand_path(&text, environment).map_err(of("IdentityAgent"))?;
            self.settings.identity_agent.value = Some(path.to_string_lossy().into_owned());
        }
        if let ForwardAgent::Path(text) = &self.settings.forward_agent.value
            && (!text.starts_with('$') || text.starts_with("${"))
        {
            let path = self.expand_path(text, environment).map_err(of("ForwardAgent"))?;
            self.settings.forward_agent.value = ForwardAgent::Path(path.to_string_lossy().into_owned());
        }
        self.expand_forwards(environment).map_err(nameless)?;
        let expanded = |keyword: &'static str, files: &[String]| {
            let expand = |file: &String| {
                self.expand_path(file, environment).map(|path| path.to_string_lossy().into_owned())
            };
            files.iter().map(expand).collect::<Result<Vec<_>, _>>().map_err(of(keyword))
        };
        let known = expanded("UserKnownHostsFile", self.settings.user_known_hosts_file.list())?;
        let revoked = expanded("RevokedHostKeys", self.settings.revoked_host_keys.list())?;
        // `none` stays, for the output of `ssh -G`.
        for (files, expanded) in [
            (&mut self.settings.user_known_hosts_file, known),
            (&mut self.settings.revoked_host_keys, revoked),
        ] {
            if !expanded.is_empty() {
                files.value.0 = expanded;
            }
        }
        Ok(())
    }

    /// Expands the paths of Unix sockets in forwards.
    fn expand_forwards(&mut self, environment: &dyn Environment) -> Result<(), ExpandError> {
        let s = &self.settings;
        let lists = [&s.local_forward.value.0, &s.remote_forward.value.0, &s.dynamic_forward.value.0];
        if lists.iter().all(|list| list.is_empty()) {
            return Ok(());
        }
        let tokens = self.tokens(environment);
        let expand = |endpoint: &mut Endpoint| -> Result<(), ExpandError> {
            if let Endpoint::Unix(path) = endpoint {
                let text = tokens.expand(path)?;
                *path = expand_environment(&text, environment)?;
            }
            Ok(())
        };
        let s = &mut self.settings;
        let forwards = s.local_forward.value.0.iter_mut().chain(&mut s.remote_forward.value.0);
        for forward in forwards.chain(&mut s.dynamic_forward.value.0) {
            expand(&mut forward.listen)?;
            forward.connect.as_mut().map_or(Ok(()), expand)?;
        }
        Ok(())
    }

    /// Returns the output of `ssh -G`. `defaults` returns the default list of an algorithm keyword
    /// (`Ciphers`, `KexAlgorithms`, …), to which a configured edit is applied.
    pub fn dump(&self, defaults: &dyn Fn(&str) -> Vec<String>) -> String {
        let mut settings = self.settings.clone();
        settings.resolve_edits(defaults);
        let mut out = format!("host {}\n", self.original_host);
        for line in settings.dump_lines(true) {
            out.push_str(&line);
            out.push('\n');
        }
        out
    }
}

/// Returns the tokens that most keywords accept.
#[allow(clippy::too_many_arguments)]
pub(super) fn tokens(
    account: &Account,
    environment: &dyn Environment,
    host: &str,
    original_host: &str,
    user: &str,
    port: u16,
    key_alias: &str,
    jump: &str,
) -> Tokens {
    let local = &account.host_name;
    let digest = environment.sha1(format!("{local}{host}{port}{user}{jump}").as_bytes());
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Tokens::new()
        .with('C', hash)
        .with('L', local.split('.').next().unwrap_or(local))
        .with('d', account.home.to_string_lossy())
        .with('h', host)
        .with('i', account.uid.to_string())
        .with('j', jump)
        .with('k', key_alias)
        .with('l', local)
        .with('n', original_host)
        .with('p', port.to_string())
        .with('r', user)
        .with('u', &account.name)
}

impl Deref for ClientConfig {
    type Target = ClientSettings;
    fn deref(&self) -> &ClientSettings {
        &self.settings
    }
}

impl DerefMut for ClientConfig {
    fn deref_mut(&mut self) -> &mut ClientSettings {
        &mut self.settings
    }
}
