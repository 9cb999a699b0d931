//! The options before a key in `authorized_keys` (sshd(8), AUTHORIZED_KEYS FILE FORMAT).

/// Largest number of environment variables that one key may set; OpenSSH's limit.
const MAX_ENVIRONMENT: usize = 1024;
/// Largest number of `permitopen=` and of `permitlisten=` entries; OpenSSH's limit.
const MAX_PERMITS: usize = 4096;

/// Rights and restrictions of a login with one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyOptions {
    /// The login may allocate a terminal.
    pub pty: bool,
    /// The login may forward TCP and Unix sockets.
    pub port_forwarding: bool,
    /// The login may forward its agent.
    pub agent_forwarding: bool,
    /// The login may forward X11.
    pub x11_forwarding: bool,
    /// `~/.ssh/rc` is run at the login.
    pub user_rc: bool,
    /// The key belongs to a certificate authority.
    pub cert_authority: bool,
    /// `command="…"`: runs in place of the client's command.
    pub command: Option<String>,
    /// `environment="NAME=value"`; of several with one name, the first.
    pub environment: Vec<(String, String)>,
    /// `from="…"`: hosts and addresses that logins may come from.
    pub from: Option<String>,
    /// Addresses that logins with the certificate may come from (`source-address`).
    pub source_address: Option<String>,
    /// `expiry-time="…"`: time from which the key is not accepted, seconds since 1970.
    pub expires: Option<i64>,
    /// `permitopen="host:port"`: permitted targets of local forwards.
    pub permit_open: Vec<String>,
    /// `permitlisten="[host:]port"`: permitted listeners of remote forwards.
    pub permit_listen: Vec<String>,
    /// `principals="…"` (only together with `cert-authority`).
    pub principals: Option<String>,
    /// `tunnel="n"`: the tunnel device to use.
    pub tunnel: Option<String>,
    /// `no-touch-required`: signatures count without a touch of the security key.
    pub no_touch_required: bool,
    /// `verify-required`: the security key must have verified its user (PIN or biometrics).
    pub verify_required: bool,
}

impl Default for KeyOptions {
    /// Everything is allowed and nothing is forced: the options of a key that has none.
    fn default() -> Self {
        Self {
            pty: true,
            port_forwarding: true,
            agent_forwarding: true,
            x11_forwarding: true,
            user_rc: true,
            cert_authority: false,
            command: None,
            environment: Vec::new(),
            from: None,
            source_address: None,
            expires: None,
            permit_open: Vec::new(),
            permit_listen: Vec::new(),
            principals: None,
            tunnel: None,
            no_touch_required: false,
            verify_required: false,
        }
    }
}

/// Why a key's options make it unusable. `Display` is the text that OpenSSH logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// An unknown option.
    #[error("unknown key option")]
    Unknown,
    /// A value without its closing quote.
    #[error("missing end quote")]
    NoEndQuote,
    /// A value without its opening quote.
    #[error("missing start quote")]
    NoStartQuote,
    /// An option is followed by something other than a comma.
    #[error("unexpected end-of-options")]
    Separator,
    /// An option that is allowed once occurs twice.
    #[error("multiple \"{0}\" clauses")]
    Repeated(&'static str),
    /// An option has an invalid value.
    #[error("invalid {0}")]
    Invalid(&'static str),
    /// More entries of an option than its limit.
    #[error("too many {0}")]
    TooMany(&'static str),
}

/// Returns the index where the options end: the first blank outside quotes.
pub(crate) fn options_end(line: &str) -> usize {
    let bytes = line.as_bytes();
    let mut quoted = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' if !quoted => return at,
            b'\\' if bytes.get(at + 1) == Some(&b'"') => at += 1,
            b'"' => quoted = !quoted,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

impl KeyOptions {
    /// Lists the key line's rights and restrictions for `ssh -v`, as OpenSSH does. `place` is FILE:LINE.
    /// `environment`: this server accepts variables from keys.
    pub(crate) fn remarks(&self, place: &str, environment: bool) -> Vec<String> {
        let tunnel = self.tunnel.as_ref().map(|number| format!("tun={number}"));
        let named = [
            (self.agent_forwarding, "agent-forwarding"),
            (self.command.is_some(), "command"),
            (environment && !self.environment.is_empty(), "environment"),
            (self.expires.is_some(), "expires"),
            (self.no_touch_required, "no-touch-required"),
            (!self.permit_open.is_empty(), "permitopen"),
            (!self.permit_listen.is_empty(), "permitlisten"),
            (self.port_forwarding, "port-forwarding"),
            (self.principals.is_some(), "principals"),
            (self.pty, "pty"),
            (tunnel.is_some(), tunnel.as_deref().unwrap_or_default()),
            (self.verify_required, "uv"),
            (self.user_rc, "user-rc"),
            (self.x11_forwarding, "x11-forwarding"),
        ];
        let mut options = format!("{place}: key options:");
        for (_, name) in named.iter().filter(|(counts, _)| *counts) {
            options.extend([" ", name]);
        }
        let mut remarks = vec![options];
        if environment {
            let variable = |(name, value): &(String, String)| format!("{place}: environment: {name}={value}");
            remarks.extend(self.environment.iter().map(variable));
        }
        remarks
    }

    /// Parses a comma-separated list of options. It does not check expiry: an expired key is refused when it
    /// is used.
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        let mut options = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            rest = options.one(rest)?;
            match rest.strip_prefix(',') {
                // As in sshd, a trailing comma is accepted: such lines are in use.
                Some(more) => rest = more,
                None if rest.is_empty() => {}
                None => return Err(OptionError::Separator),
            }
        }
        Ok(options)
    }

    /// Parses the first option of `text` and returns the text after it.
    fn one<'a>(&mut self, text: &'a str) -> Result<&'a str, OptionError> {
        let end = text.find([',', '=']).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        let word = word.to_ascii_lowercase();
        let Some(rest) = rest.strip_prefix('=') else {
            self.flag(&word)?;
            return Ok(rest);
        };
        let (value, rest) = quoted(rest)?;
        self.value(&word, value)?;
        Ok(rest)
    }

    fn flag(&mut self, word: &str) -> Result<(), OptionError> {
        match word {
            "restrict" => {
                self.pty = false;
                self.port_forwarding = false;
                self.agent_forwarding = false;
                self.x11_forwarding = false;
                self.user_rc = false;
            }
            "cert-authority" => self.cert_authority = true,
            "no-touch-required" => self.no_touch_required = true,
            "verify-required" => self.verify_required = true,
            _ => {
                let (on, name) = match word.strip_prefix("no-") {
                    Some(name) => (false, name),
                    None => (true, word),
                };
                match name {
                    "pty" => self.pty = on,
                    "port-forwarding" => self.port_forwarding = on,
                    "agent-forwarding" => self.agent_forwarding = on,
                    "x11-forwarding" => self.x11_forwarding = on,
                    "user-rc" => self.user_rc = on,
                    _ => return Err(OptionError::Unknown),
                }
            }
        }
        Ok(())
    }

    fn value(&mut self, word: &str, value: String) -> Result<(), OptionError> {
        match word {
            "command" => once(&mut self.command, value, "command"),
            "from" => once(&mut self.from, value, "from"),
            "principals" => once(&mut self.principals, value, "principals"),
            "tunnel" => {
                let sound = value == "any" || value.parse::<u32>().is_ok();
                if !sound {
                    return Err(OptionError::Invalid("tun device"));
                }
                once(&mut self.tunnel, value, "tunnel")
            }
            "expiry-time" => {
                let time = lh_sys::time::parse(&value).ok_or(OptionError::Invalid("expiry time"))?;
                // Of several expiry times the earliest counts, as in OpenSSH.
                self.expires = Some(self.expires.map_or(time, |known| known.min(time)));
                Ok(())
            }
            "environment" => {
                let (name, content) =
                    value.split_once('=').ok_or(OptionError::Invalid("environment string"))?;
                let sound = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
                if !sound {
                    return Err(OptionError::Invalid("environment string"));
                }
                if self.environment.len() >= MAX_ENVIRONMENT {
                    return Err(OptionError::TooMany("environment strings"));
                }
                if !self.environment.iter().any(|(known, _)| known == name) {
                    self.environment.push((name.to_owned(), content.to_owned()));
                }
                Ok(())
            }
            "permitopen" => permit(&mut self.permit_open, value, false),
            "permitlisten" => permit(&mut self.permit_listen, value, true),
            _ => Err(OptionError::Unknown),
        }
    }
}

/// Stores the value of an option that is allowed once.
fn once(slot: &mut Option<String>, value: String, name: &'static str) -> Result<(), OptionError> {
    if slot.is_some() {
        return Err(OptionError::Repeated(name));
    }
    *slot = Some(value);
    Ok(())
}

fn permit(list: &mut Vec<String>, value: String, bare_port: bool) -> Result<(), OptionError> {
    let port = match split_host_port(&value) {
        Some((_, port)) => port,
        None if bare_port => value.as_str(),
        None => return Err(OptionError::Invalid("permission string")),
    };
    // Port 0 is not a port: a client names it only to request any free one.
    if port != "*" && !port.parse::<u16>().is_ok_and(|port| port != 0) {
        return Err(OptionError::Invalid("permission port"));
    }
    if list.len() >= MAX_PERMITS {
        return Err(OptionError::TooMany("permission directives"));
    }
    list.push(value);
    Ok(())
}

/// Splits `host:port` or `[v6]:port`.
pub fn split_host_port(text: &str) -> Option<(&str, &str)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return Some((host, rest.strip_prefix(':')?));
    }
    let (host, port) = text.rsplit_once(':')?;
    (!host.contains(':')).then_some((host, port))
}

/// Parses `"…"` with `\"` for a quote inside, and returns the text after it.
fn quoted(text: &str) -> Result<(String, &str), OptionError> {
    let inner = text.strip_prefix('"').ok_or(OptionError::NoStartQuote)?;
    let mut value = String::new();
    let mut chars = inner.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if chars.peek().is_some_and(|&(_, next)| next == '"') => {
                chars.next();
                value.push('"');
            }
            '"' => return Ok((value, inner.get(at + 1..).unwrap_or_default())),
            c => value.push(c),
        }
    }
    Err(OptionError::NoEndQuote)
}

#[cfg(test)]
mod tests {
    #[test]
    fn remarks_list_what_a_key_may_do() {
        let remarks =
            |text: &str, environment| super::KeyOptions::parse(text).unwrap().remarks("f:1", environment);
        assert_eq!(
            remarks("", false),
            ["f:1: key options: agent-forwarding port-forwarding pty user-rc x11-forwarding"]
        );
        assert_eq!(remarks("restrict", false), ["f:1: key options:"]);
        let text =
            "restrict,pty,command=\"id\",environment=\"A=b\",permitopen=\"a:1\",from=\"::1\",tunnel=\"3\"";
        assert_eq!(remarks(text, false), ["f:1: key options: command permitopen pty tun=3"]);
        assert_eq!(
            remarks(text, true),
            ["f:1: key options: command environment permitopen pty tun=3", "f:1: environment: A=b"]
        );
    }

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn everything_at_once() {
        let options = KeyOptions::parse(
            r#"restrict,pty,command="echo \"a, b\" \\x",from="10.0.0.0/8,!10.1.*",environment="A=b=c",environment="A=d",permitopen="h:80",permitopen="[::1]:*",permitlisten="8080",expiry-time="20300102Z""#,
        )
        .unwrap();
        assert!(options.pty && !options.port_forwarding && !options.user_rc);
        assert_eq!(options.command.as_deref(), Some(r#"echo "a, b" \\x"#));
        assert_eq!(options.environment, [("A".to_owned(), "b=c".to_owned())]);
        assert_eq!(options.permit_open, ["h:80", "[::1]:*"]);
        assert_eq!(options.expires, Some(1_893_542_400));
    }

    #[test]
    fn names_are_not_case_sensitive_and_later_wins() {
        let options = KeyOptions::parse("No-PTY,PTY,X11-Forwarding,no-user-rc").unwrap();
        assert!(options.pty && options.x11_forwarding && !options.user_rc);
    }

    #[test]
    fn nothing_need_follow_the_last_comma() {
        assert_eq!(KeyOptions::parse("no-pty,"), KeyOptions::parse("no-pty"));
    }

    #[test]
    fn mistakes_make_the_key_unusable() {
        use OptionError as E;
        for (text, error) in [
            ("nopty", E::Unknown),
            ("command=ls", E::NoStartQuote),
            (r#"command="ls"#, E::NoEndQuote),
            (r#"command="ls"pty"#, E::Separator),
            ("pty,,", E::Unknown),
            (r#"command="a",command="b""#, E::Repeated("command")),
            (r#"environment="=x""#, E::Invalid("environment string")),
            (r#"environment="A B=x""#, E::Invalid("environment string")),
            (r#"permitopen="h""#, E::Invalid("permission string")),
            (r#"permitopen="h:99999""#, E::Invalid("permission port")),
            (r#"permitopen="h:0""#, E::Invalid("permission port")),
            (r#"permitlisten="0""#, E::Invalid("permission port")),
            (r#"expiry-time="2030""#, E::Invalid("expiry time")),
            (r#"expiry-time="20301301""#, E::Invalid("expiry time")),
            (r#"frob="x""#, E::Unknown),
        ] {
            assert_eq!(KeyOptions::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn options_end_where_their_quotes_do() {
        assert_eq!(options_end(r#"command="a b" ssh-rsa"#), 13);
        assert_eq!(options_end(r#"command="a \" b" ssh-rsa"#), 16);
        assert_eq!(options_end("pty"), 3);
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,200}") {
            let _ = KeyOptions::parse(&text);
            prop_assert!(options_end(&text) <= text.len());
        }

        #[test]
        fn near_misses_are_answered(text in "(command=|environment=|pty|,|\"|\\\\|A=b|permitopen=|h:1|restrict){0,20}") {
            let _ = KeyOptions::parse(&text);
        }
    }
}
