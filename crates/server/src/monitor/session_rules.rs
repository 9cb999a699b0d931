//! The rules of a session: values of the keywords that a `Match` block may set and that apply for as long as
//! the session lasts.
//!
//! A session keeps the rules of its login. If other rules apply to the client's new address or time, the
//! session may not be resumed.

use lh_config::server_table::ServerSettings;
use lh_config::table::Value as _;

/// Returns the rules, one on each line, in the form that `lhsshd -T` prints. Speeds, buffers, logging and
/// decisions of the login are not among them.
pub(super) fn of(settings: &ServerSettings) -> Vec<String> {
    let mut lines = Vec::new();
    macro_rules! add {
        ($($field:ident $name:literal)*) => {
            $( settings.$field.value.dump($name, &mut lines); )*
        };
    }
    add! {
        pam_service_name "PAMServiceName"
        max_sessions "MaxSessions"
        stream_local_bind_mask "StreamLocalBindMask"
        stream_local_bind_unlink "StreamLocalBindUnlink"
        unused_connection_timeout "UnusedConnectionTimeout"
        x11_forwarding "X11Forwarding"
        x11_use_localhost "X11UseLocalhost"
        permit_tty "PermitTTY"
        record_terminal "RecordTerminal"
        permit_user_rc "PermitUserRC"
        permit_empty_passwords "PermitEmptyPasswords"
        gateway_ports "GatewayPorts"
        allow_tcp_forwarding "AllowTcpForwarding"
        allow_agent_forwarding "AllowAgentForwarding"
        agent_socket_path "AgentSocketPath"
        disable_forwarding "DisableForwarding"
        allow_stream_local_forwarding "AllowStreamLocalForwarding"
        force_command "ForceCommand"
        chroot_directory "ChrootDirectory"
        accept_env "AcceptEnv"
        set_env "SetEnv"
        channel_timeout "ChannelTimeout"
        subsystem "Subsystem"
        permit_tunnel "PermitTunnel"
        permit_open "PermitOpen"
        permit_listen "PermitListen"
        pubkey_auth_options "PubkeyAuthOptions"
        transfer_log_operations "TransferLogOperations"
        longhaul_tickets "LonghaulTickets"
        longhaul_sftp "LonghaulSftp"
        upload_hook "UploadHook"
        upload_hook_timeout "UploadHookTimeout"
        none_enabled "NoneEnabled"
        none_mac_enabled "NoneMacEnabled"
    }
    lines
}

/// Word of the line with the account's user id, before the rules of a login.
const ACCOUNT: &str = "account ";

/// Like [`of`], for a login as the account with this user id.
pub(super) fn of_login(settings: &ServerSettings, uid: u32) -> Vec<String> {
    let mut lines = vec![format!("{ACCOUNT}{uid}")];
    lines.append(&mut of(settings));
    lines
}

/// Returns the user id and the rules of a login. Servers of version 0.2.0 and older recorded no user id.
pub(super) fn split_account(login: &[String]) -> (Option<&str>, &[String]) {
    match login.split_first() {
        Some((first, rules)) if first.starts_with(ACCOUNT) => (first.strip_prefix(ACCOUNT), rules),
        _ => (None, login),
    }
}

/// Returns the keywords whose rules at the login differ from the current ones.
pub(super) fn differences<'a>(login: &'a [String], now: &'a [String]) -> Vec<&'a str> {
    let missing = |from: &'a [String], other: &'a [String]| from.iter().filter(|line| !other.contains(line));
    let keyword = |line: &'a String| line.split(' ').next().unwrap_or(line);
    let mut keywords: Vec<&str> = missing(login, now).chain(missing(now, login)).map(keyword).collect();
    keywords.sort_unstable();
    keywords.dedup();
    keywords
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(login: &str, now: &str) -> Vec<String> {
        let [login, now] = [login, now].map(|lines| of(&crate::testing::settings(lines)));
        differences(&login, &now).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn rules_that_differ_are_named() {
        assert!(between("", "").is_empty());
        // Keywords about the network path, the log or the login itself may differ.
        assert!(
            between("", "TcpPacing 1M\nIPQoS none\nLogLevel DEBUG\nMaxAuthTries 2\nBanner /x").is_empty()
        );
        // Different spellings of equal rules.
        assert!(between("PermitTTY yes\nForceCommand none", "AllowTcpForwarding all").is_empty());
        for line in [
            "ForceCommand internal-sftp",
            "ChrootDirectory /srv/%u",
            "PermitTTY no",
            "AllowTcpForwarding local",
            "AllowStreamLocalForwarding no",
            "AllowAgentForwarding no",
            "AgentSocketPath shared:/run/agents",
            "DisableForwarding yes",
            "X11Forwarding yes",
            "PermitOpen db:5432",
            "PermitListen 9000",
            "PermitTunnel yes",
            "GatewayPorts yes",
            "MaxSessions 1",
            "SetEnv A=b",
            "AcceptEnv A",
            "PermitUserRC no",
            "Subsystem sftp internal-sftp -R",
            "ChannelTimeout session=1h",
            "PubkeyAuthOptions verify-required",
            "NoneEnabled yes",
            "UploadHook /bin/false",
            "UploadHookTimeout 1m",
            "RecordTerminal /var/log/terminals",
        ] {
            let keyword = line.split(' ').next().unwrap();
            assert_eq!(between("", line), [keyword]);
            assert_eq!(between(line, ""), [keyword]);
        }
        let both = between("PermitOpen db:1\nPermitTTY no", "PermitOpen db:2");
        assert_eq!(both, ["PermitOpen", "PermitTTY"]);
    }

    /// Every keyword that a `Match` block may set is a rule of sessions, or is listed here. A new keyword
    /// must be added to one of the two lists.
    #[test]
    fn every_match_keyword_has_its_place() {
        const DECIDED_ELSEWHERE: &str = "X11DisplayOffset MaxAuthTries ClientAliveInterval ClientAliveCountMax \
            RequiredRSASize PerUserMaxConnections PerUserTransferQuota TransferLogRate PermitRootLogin IgnoreRhosts HostbasedAuthentication \
            HostbasedUsesNameFromPacketOnly PubkeyAuthentication KerberosAuthentication GSSAPIAuthentication \
            PasswordAuthentication KbdInteractiveAuthentication ExposeAuthInfo RefuseConnection Banner \
            TrustedUserCAKeys RevokedKeys AuthorizedPrincipalsFile AuthorizedKeysCommand \
            AuthorizedKeysCommandUser AuthorizedPrincipalsCommand AuthorizedPrincipalsCommandUser \
            CASignatureAlgorithms HostbasedAcceptedAlgorithms PubkeyAcceptedAlgorithms RDomain LogLevel \
            AuthorizedKeysFile AllowUsers DenyUsers AllowGroups DenyGroups AuthenticationMethods LogVerbose \
            IPQoS RekeyLimit ResumeGrace TcpRcvBufPoll HPNDisabled DisableMTAES TcpRcvBuf HPNBufferSize \
            HPNBufferLimit TcpCongestion TcpPacing ReceiveRate PerUserReceiveRate \
            PerUserSendRate WarnWeakCrypto";
        let here: Vec<&str> = DECIDED_ELSEWHERE.split_ascii_whitespace().collect();
        let rules = include_str!("session_rules.rs");
        for keyword in lh_config::server_table::SERVER_KEYWORDS {
            let is_rule = rules.contains(&format!(" \"{}\"\n", keyword.name));
            let may_match = keyword.scope == lh_config::table::Scope::Match;
            assert_eq!(is_rule || here.contains(&keyword.name), may_match, "{}", keyword.name);
            assert!(!is_rule || !here.contains(&keyword.name), "{} has two places", keyword.name);
        }
    }
}
