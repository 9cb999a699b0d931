//! Every keyword of `ssh_config`, in the order `ssh -G` prints them.

use crate::algorithms::AlgorithmList;
use crate::enums::*;
use crate::forward::{DynamicForwards, LocalForwards, RemoteForwards};
use crate::network::{BitRate, BufferSize};
use crate::special::*;
use crate::table::{GSSAPI, Status::*, keyword_table};
use crate::value::*;

keyword_table! {
    dialect Client;

    /// The client's configuration: every keyword with its value and where it came from.
    ///
    /// Made by [`load`](crate::client::load). Fields are named after the keywords; each dereferences to its value.
    pub struct ClientSettings;

    /// The rows of `ssh_config`.
    pub static CLIENT_KEYWORDS;

    /// The user to log in as.
    user: Option<String> = "", "User", Match, Works;
    /// The real name or address to connect to; tokens %% and %h.
    hostname: Option<String> = "", "Hostname", Match, Works;
    /// The port to connect to.
    port: Port = "22", "Port", Match, Works;
    /// Which address families to use.
    address_family: AddressFamily = "any", "AddressFamily", Match, Works;
    /// Never ask for anything.
    batch_mode: bool = "no", "BatchMode", Match, Works;
    /// Whether an unresolvable name is an error when canonicalizing.
    canonicalize_fallback_local: bool = "yes", "CanonicalizeFallbackLocal", Match, Works;
    /// Complete short names from CanonicalDomains.
    canonicalize_hostname: CanonicalizeHostname = "no", "CanonicalizeHostname", Match, Works;
    /// Also check the address in known_hosts.
    check_host_ip: bool = "no", "CheckHostIP", Match, Works;
    /// Compress the connection.
    compression: bool = "no", "Compression", Match, Works;
    /// Share one connection among several sessions.
    control_master: ControlMaster = "no", "ControlMaster", Match, Works;
    /// Use ssh-keysign for host-based authentication.
    enable_ssh_keysign: bool = "no", "EnableSSHKeysign", Match, Works;
    /// Forget all forwards of files and command line.
    clear_all_forwardings: bool = "no", "ClearAllForwardings", Match, Works;
    /// Give up when a forward cannot be set up.
    exit_on_forward_failure: bool = "no", "ExitOnForwardFailure", Match, Works;
    /// Hash of displayed fingerprints.
    fingerprint_hash: FingerprintHash = "sha256", "FingerprintHash", Match, Works;
    /// Forward X11.
    forward_x11: bool = "no", "ForwardX11", Match, Works;
    /// Forwarded X11 clients are trusted.
    forward_x11_trusted: bool = "no", "ForwardX11Trusted", Match, Works;
    /// Forwards listen on every address.
    gateway_ports: bool = "no", "GatewayPorts", Match, Works;
    /// Log in by Kerberos (gssapi-with-mic).
    gssapi_authentication: bool = "no", "GSSAPIAuthentication", Match, GSSAPI;
    /// Kerberos key exchange (a Debian addition).
    gssapi_key_exchange: bool = "no", "GSSAPIKeyExchange", Match, AcceptedWithoutEffect("only users log in by Kerberos, hosts have keys");
    /// Give the host the user's Kerberos credentials.
    gssapi_delegate_credentials: bool = "no", "GSSAPIDelegateCredentials", Match, GSSAPI;
    /// Trust DNS for Kerberos names (a Debian addition).
    gssapi_trust_dns: bool = "no", "GSSAPITrustDns", Match, AcceptedWithoutEffect("dns_canonicalize_hostname in krb5.conf decides");
    /// Rekey when Kerberos credentials are renewed (a Debian addition).
    gssapi_renewal_forces_rekey: bool = "no", "GSSAPIRenewalForcesRekey", Match, AcceptedWithoutEffect("there is no key exchange by Kerberos");
    /// Kerberos key exchange methods (a Debian addition).
    gssapi_kex_algorithms: Option<String> = "", "GSSAPIKexAlgorithms", Match, AcceptedWithoutEffect("there is no key exchange by Kerberos");
    /// Write hashed names to known_hosts.
    hash_known_hosts: bool = "no", "HashKnownHosts", Match, Works;
    /// Host-based authentication.
    hostbased_authentication: bool = "no", "HostbasedAuthentication", Match, Works;
    /// Use only the configured identities, not everything the agent has.
    identities_only: bool = "no", "IdentitiesOnly", Match, Works;
    /// Keyboard-interactive authentication.
    kbd_interactive_authentication: bool = "yes", "KbdInteractiveAuthentication"
        ["ChallengeResponseAuthentication", "SKeyAuthentication", "TISAuthentication"], Match, Works;
    /// No host key check for the loopback address.
    no_host_authentication_for_localhost: bool = "no", "NoHostAuthenticationForLocalhost", Match, Works;
    /// Password authentication.
    password_authentication: bool = "yes", "PasswordAuthentication", Match, Works;
    /// Allow LocalCommand.
    permit_local_command: bool = "no", "PermitLocalCommand", Match, Works;
    /// ProxyCommand hands over a connected socket.
    proxy_use_fdpass: bool = "no", "ProxyUseFdpass", Match, Works;
    /// Public key authentication.
    pubkey_authentication: ClientPubkeyAuthentication = "yes", "PubkeyAuthentication" ["DSAAuthentication"], Match, Works;
    /// Ask the server for a terminal.
    request_tty: RequestTty = "auto", "RequestTTY", Match, Works;
    /// What kind of session.
    session_type: SessionType = "default", "SessionType", Match, Works;
    /// Standard input is /dev/null.
    stdin_null: bool = "no", "StdinNull", Match, Works;
    /// Go to the background before the command runs.
    fork_after_authentication: bool = "no", "ForkAfterAuthentication", Match, Works;
    /// Remove an old socket before listening on its path.
    stream_local_bind_unlink: bool = "no", "StreamLocalBindUnlink", Match, Works;
    /// What to do about unknown and changed host keys.
    strict_host_key_checking: StrictHostKeyChecking = "ask", "StrictHostKeyChecking", Match, Works;
    /// TCP keepalive probes.
    tcp_keep_alive: bool = "yes", "TCPKeepAlive" ["KeepAlive"], Match, Works;
    /// Ask for a network tunnel.
    tunnel: Tunnel = "no", "Tunnel", Match, Works;
    /// Look for host keys in DNS.
    verify_host_key_dns: YesNoAsk = "no", "VerifyHostKeyDNS", Match, Works;
    /// Show the host key as a picture.
    visual_host_key: bool = "no", "VisualHostKey", Match, Works;
    /// Learn further host keys from the server.
    update_host_keys: YesNoAsk = "yes", "UpdateHostKeys", Match, Works;
    /// Allow the ~C command line.
    enable_escape_commandline: bool = "no", "EnableEscapeCommandline", Match, Works;
    /// Warn about key exchanges that are weak.
    warn_weak_crypto: WarnWeakCrypto = "yes", "WarnWeakCrypto", Match, Works;
    /// Most dots of a name that is still completed.
    canonicalize_max_dots: u32 = "1", "CanonicalizeMaxDots", Match, Works;
    /// How often to try connecting.
    connection_attempts: u32 = "1", "ConnectionAttempts", Match, Works;
    /// How long untrusted X11 is allowed, in seconds.
    forward_x11_timeout: Seconds = "1200", "ForwardX11Timeout", Match, Works;
    /// How often to ask for a password.
    number_of_password_prompts: u32 = "3", "NumberOfPasswordPrompts", Match, Works;
    /// Unanswered keepalives until giving up.
    server_alive_count_max: u32 = "3", "ServerAliveCountMax", Match, Works;
    /// Time between keepalives when nothing is received.
    server_alive_interval: Seconds = "0", "ServerAliveInterval", Match, Works;
    /// Smallest RSA key accepted, in bits.
    required_rsa_size: u32 = "1024", "RequiredRSASize" ["RSAMinSize"], Match, Works;
    /// Hide when keys are typed.
    obscure_keystroke_timing: ObscureKeystrokeTiming = "yes", "ObscureKeystrokeTiming", Match, Works;
    /// Address to connect from.
    bind_address: Option<String> = "", "BindAddress", Match, Works;
    /// Interface to connect from.
    bind_interface: Option<String> = "", "BindInterface", Match, Works;
    /// Packet ciphers.
    ciphers: AlgorithmList = "", "Ciphers", Match, Works;
    /// Socket of the shared connection; tokens.
    control_path: Option<String> = "", "ControlPath", Match, Works;
    /// Name of the host in known_hosts.
    host_key_alias: Option<String> = "", "HostKeyAlias", Match, Works;
    /// Host key algorithms.
    host_key_algorithms: AlgorithmList = "", "HostKeyAlgorithms", Match, Works;
    /// Algorithms for host-based authentication.
    hostbased_accepted_algorithms: AlgorithmList = "", "HostbasedAcceptedAlgorithms" ["HostbasedKeyTypes", "HostbasedAcceptedKeyTypes"], Match, Works;
    /// Socket of the authentication agent, SSH_AUTH_SOCK, none, or $VARIABLE; tokens.
    identity_agent: Option<String> = "", "IdentityAgent", Match, Works;
    /// Keywords to pass over when unknown.
    ignore_unknown: Option<String> = "", "IgnoreUnknown", Match, Works;
    /// Devices for keyboard-interactive authentication.
    kbd_interactive_devices: Option<String> = "", "KbdInteractiveDevices", Match, Works;
    /// Key exchange methods.
    kex_algorithms: AlgorithmList = "", "KexAlgorithms", Match, Works;
    /// Signature algorithms of certificate authorities.
    ca_signature_algorithms: AlgorithmList = "", "CASignatureAlgorithms", Match, Works;
    /// Command run here after connecting; tokens.
    local_command: RestOfLine = "", "LocalCommand", Match, Works;
    /// Command run there; tokens.
    remote_command: RestOfLine = "", "RemoteCommand", Match, Works;
    /// How much to log.
    log_level: LogLevel = "INFO", "LogLevel", Match, Works;
    /// Message authentication codes.
    macs: AlgorithmList = "", "MACs", Match, Works;
    /// Library with PKCS#11 keys.
    pkcs11_provider: Option<String> = "", "PKCS11Provider" ["SmartcardDevice"], Match, AcceptedWithoutEffect("no support for PKCS#11; keys on a token can be used through an agent");
    /// Order of authentication methods.
    preferred_authentications: Option<String> = "", "PreferredAuthentications", Match, Works;
    /// Command whose input and output are the connection; tokens %% %h %n %p %r.
    proxy_command: RestOfLine = "", "ProxyCommand", Match, Works;
    /// Hosts to go through, separated by commas.
    proxy_jump: Option<String> = "", "ProxyJump", Match, Works;
    /// Files of revoked host keys; tokens.
    revoked_host_keys: Words = "", "RevokedHostKeys", Match, Works;
    /// Program that says which host keys are valid; tokens.
    known_hosts_command: RestOfLine = "", "KnownHostsCommand", Match, Works;
    /// Library for security keys.
    security_key_provider: Option<String> = "internal", "SecurityKeyProvider", Match, Works;
    /// Algorithms for public key authentication.
    pubkey_accepted_algorithms: AlgorithmList = "", "PubkeyAcceptedAlgorithms" ["PubkeyAcceptedKeyTypes"], Match, Works;
    /// The xauth program.
    xauth_location: Option<String> = "/usr/bin/xauth", "XAuthLocation", Match, Works;
    /// Refuse to connect, with this text.
    refuse_connection: Option<String> = "", "RefuseConnection", Match, Works;
    /// Text after our version in the identification line.
    version_addendum: RestOfLine = "", "VersionAddendum", Match, Works;
    /// Key files to try; tokens.
    identity_file: Files = "", "IdentityFile" ["IdentityFile2"], Match, Works;
    /// Domains to complete short names with.
    canonical_domains: CanonicalDomains = "none", "CanonicalDomains", Match, Works;
    /// Certificates to offer; tokens.
    certificate_file: Files = "", "CertificateFile", Match, Works;
    /// Known hosts of the system.
    global_known_hosts_file: Words = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2", "GlobalKnownHostsFile", Match, Works;
    /// Known hosts of the user; tokens.
    user_known_hosts_file: Words = "~/.ssh/known_hosts ~/.ssh/known_hosts2", "UserKnownHostsFile", Match, Works;
    /// Environment variables to send.
    send_env: EnvPatterns = "", "SendEnv", Match, Works;
    /// Environment variables to set there.
    set_env: EnvValues = "", "SetEnv", Match, Works;
    /// SOCKS listeners here.
    dynamic_forward: DynamicForwards = "", "DynamicForward", Match, Works;
    /// Listeners here that connect from the server.
    local_forward: LocalForwards = "", "LocalForward", Match, Works;
    /// Listeners on the server that connect from here.
    remote_forward: RemoteForwards = "", "RemoteForward", Match, Works;
    /// Source places that always log.
    log_verbose: LogVerbose = "none", "LogVerbose", Match, Works;
    /// Channel types that end when idle.
    channel_timeout: ChannelTimeouts = "none", "ChannelTimeout", Match, Works;
    /// What a remote SOCKS forward may reach.
    permit_remote_open: PermitForward = "any", "PermitRemoteOpen", Match, Works;
    /// Put used keys into the agent.
    add_keys_to_agent: AddKeysToAgent = "no", "AddKeysToAgent", Match, Works;
    /// Forward the agent.
    forward_agent: ForwardAgent = "no", "ForwardAgent", Match, Works;
    /// How long connecting may take.
    connect_timeout: SecondsOrNone = "none", "ConnectTimeout", Match, Works;
    /// Tunnel units.
    tunnel_device: TunnelDevice = "any:any", "TunnelDevice", Match, Works;
    /// CNAMEs that may be followed when canonicalizing.
    canonicalize_permitted_cnames: PermittedCnames = "none", "CanonicalizePermittedCNAMEs", Match, Works;
    /// How long a shared connection outlives its first session.
    control_persist: ControlPersist = "no", "ControlPersist", Match, Works;
    /// The escape character of terminal sessions.
    escape_char: EscapeChar = "~", "EscapeChar", Match, Works;
    /// DSCP of the connection.
    ip_qos: IpQos = "ef cs0", "IPQoS", Match, Works;
    /// When to exchange keys again.
    rekey_limit: RekeyLimit = "default none", "RekeyLimit", Match, Works;
    /// File mode mask of forwarded Unix sockets.
    stream_local_bind_mask: OctalMask = "0177", "StreamLocalBindMask", Match, Works;
    /// Where -y logs to.
    syslog_facility: SyslogFacility = "USER", "SyslogFacility", Match, Works;
    /// A name that Match tagged looks for.
    tag: Option<String> = "", "Tag", Match, Works;

    /// HPN-SSH: windows grow with the path; `no` fixes them, at HPNBufferSize or 2 MiB.
    tcp_rcv_buf_poll: bool = "yes", "TcpRcvBufPoll", Match, Works;
    /// HPN-SSH: windows stay at 2 MiB, whatever else is configured.
    hpn_disabled: bool = "no", "HPNDisabled", Match, Works;
    /// HPN-SSH: allow that nothing is encrypted after authentication.
    none_enabled: bool = "no", "NoneEnabled", Match, Works;
    /// HPN-SSH: do without encryption after authentication; needs NoneEnabled here and there. In a file, for commands and copies without any forwarding; on the command line, for everything but terminals. Between Longhaul ends packets stay tamper-proof.
    none_switch: bool = "no", "NoneSwitch", Match, Works;
    /// HPN-SSH: drop the MAC with the cipher; needs NoneMacEnabled on the server too.
    none_mac_enabled: bool = "no", "NoneMacEnabled", Match, Works;
    /// HPN-SSH: no threads for ciphers, whichever cipher it is.
    disable_mt_aes: bool = "no", "DisableMTAES", Match, Works;
    /// HPN-SSH: use multipath TCP; plain TCP where the kernel or the server has none.
    use_mptcp: bool = "no", "UseMPTCP", Match, Works;
    /// HPN-SSH: try addresses side by side, IPv6 and IPv4 in turn (RFC 8305).
    happy_eyes: bool = "no", "HappyEyes", Match, Works;
    /// HPN-SSH: milliseconds between those tries; 0 is the default.
    happy_delay: u32 = "250", "HappyDelay", Match, Works;
    /// HPN-SSH: write figures of both ends of the connection (TCP_INFO, windows, bytes) to files while it lasts, as JSON lines; `longhaul report` draws them.
    metrics: bool = "no", "Metrics", Match, Works;
    /// HPN-SSH: where to write them: this path with .local and .remote behind it (./ssh_stack_metrics). Setting it sets Metrics. Tokens, ~ and variables as in ControlPath.
    metrics_path: Option<String> = "", "MetricsPath", Match, Works;
    /// HPN-SSH: seconds between samples; fractions such as 0.2 will do. Unless it is set, samples are taken every 0.1 s at first and less and less often, down to every 5 s.
    metrics_interval: Interval = "5", "MetricsInterval", Match, Works;
    /// HPN-SSH: try FallbackPort when the port cannot be reached. Only where one of the two is configured: the default port is 22 already, where HPN-SSH falls back to.
    fallback: bool = "yes", "Fallback", Match, Works;
    /// HPN-SSH: that port.
    fallback_port: Port = "22", "FallbackPort", Match, Works;
    /// HPN-SSH, removed there: the TCP receive buffer, which then no longer grows by itself. Without a unit in KiB.
    tcp_rcv_buf: BufferSize = "", "TcpRcvBuf", Match, Works;
    /// HPN-SSH, removed there: windows grow no further than this; with TcpRcvBufPoll no they have this size. Without a unit in KiB.
    hpn_buffer_size: BufferSize = "", "HPNBufferSize", Match, Works;
    /// HPN-SSH, removed there: halve the window against the TCP buffer.
    hpn_buffer_limit: Option<String> = "", "HPNBufferLimit", Match, AcceptedWithoutEffect("HPN-SSH has removed it, for it could close a window; HPNBufferSize caps windows");
    /// Longhaul: TCP's congestion control for this connection, a name from /proc/sys/net/ipv4/tcp_allowed_congestion_control.
    tcp_congestion: Option<String> = "", "TcpCongestion", Match, Works;
    /// Longhaul: the kernel sends no faster than this.
    tcp_pacing: BitRate = "", "TcpPacing", Match, Works;
}

/// Keywords that are read and dropped: their name, and whether OpenSSH says so at its usual log level.
pub(crate) static CLIENT_IGNORED: &[(&str, bool)] = &[
    ("Protocol", false),
    ("Cipher", false),
    ("FallBackToRsh", false),
    ("GlobalKnownHostsFile2", false),
    ("UserKnownHostsFile2", false),
    ("RhostsAuthentication", false),
    ("UseRoaming", false),
    ("UseRsh", false),
    ("UsePrivilegedPort", false),
    ("AFSTokenPassing", true),
    ("KerberosAuthentication", true),
    ("KerberosTgtPassing", true),
    ("RSAAuthentication", true),
    ("RhostsRSAAuthentication", true),
    ("CompressionLevel", true),
];
