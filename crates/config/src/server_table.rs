//! Every keyword of `sshd_config`, in the order `sshd -T` prints them.

use crate::accounting::{PrometheusListen, TransferLog};
use crate::algorithms::AlgorithmList;
use crate::enums::*;
use crate::network::{BitRate, BufferSize};
use crate::server_values::*;
use crate::special::{ChannelTimeouts, IpQos, LogVerbose, PermitForward};
use crate::table::{GSSAPI, Status::*, keyword_table};
use crate::value::*;

keyword_table! {
    dialect Server;

    /// The server's configuration: every keyword with its value and where it came from.
    ///
    /// Part of [`ServerConfig`](crate::server::ServerConfig), which dereferences to it.
    pub struct ServerSettings;

    /// The rows of `sshd_config`.
    pub static SERVER_KEYWORDS;

    /// Ports to listen on.
    port: Ports = "22", "Port", Global, Works;
    /// Address families to listen on.
    address_family: AddressFamily = "any", "AddressFamily", Global, Works;
    /// Addresses to listen on; none: all.
    listen_address: ListenAddresses = "", "ListenAddress", Global, Works;
    /// Use PAM.
    use_pam: bool = "no", "UsePAM", Global, Works;
    /// PAM service name.
    pam_service_name: Option<String> = "sshd", "PAMServiceName", Match, Works;
    /// Time to log in.
    login_grace_time: GraceTime = "120", "LoginGraceTime", Global, Works;
    /// First X11 display number.
    x11_display_offset: u32 = "10", "X11DisplayOffset", Match, Works;
    /// Authentication attempts per connection.
    max_auth_tries: u32 = "6", "MaxAuthTries", Match, Works;
    /// Open sessions per connection.
    max_sessions: u32 = "10", "MaxSessions", Match, Works;
    /// Time between keepalives when nothing is received.
    client_alive_interval: Seconds = "0", "ClientAliveInterval", Match, Works;
    /// Unanswered keepalives until giving up.
    client_alive_count_max: u32 = "3", "ClientAliveCountMax", Match, Works;
    /// Smallest RSA key accepted, in bits.
    required_rsa_size: u32 = "1024", "RequiredRSASize" ["RSAMinSize"], Match, Works;
    /// File mode mask of forwarded Unix sockets.
    stream_local_bind_mask: OctalMask = "0177", "StreamLocalBindMask", Match, Works;
    /// How long a connection without channels stays.
    unused_connection_timeout: SecondsOrNone = "none", "UnusedConnectionTimeout", Match, Works;
    /// Whether and how root may log in.
    permit_root_login: PermitRootLogin = "prohibit-password", "PermitRootLogin", Match, Works;
    /// Ignore .rhosts and .shosts.
    ignore_rhosts: IgnoreRhosts = "yes", "IgnoreRhosts", Match, Works;
    /// Ignore the user's known_hosts for host-based authentication.
    ignore_user_known_hosts: bool = "no", "IgnoreUserKnownHosts", Global, Works;
    /// Host-based authentication.
    hostbased_authentication: bool = "no", "HostbasedAuthentication", Match, Works;
    /// Trust the client's name in host-based authentication.
    hostbased_uses_name_from_packet_only: bool = "no", "HostbasedUsesNameFromPacketOnly", Match, Works;
    /// Public key authentication.
    pubkey_authentication: bool = "yes", "PubkeyAuthentication" ["DSAAuthentication"], Match, Works;
    /// Kerberos passwords.
    kerberos_authentication: bool = "no", "KerberosAuthentication", Match, AcceptedWithoutEffect("passwords are checked by PAM, whose pam_krb5 asks Kerberos");
    /// Fall back to local passwords.
    kerberos_or_local_passwd: bool = "yes", "KerberosOrLocalPasswd", Global, AcceptedWithoutEffect("passwords are checked by PAM, whose pam_krb5 asks Kerberos");
    /// Destroy tickets at logout.
    kerberos_ticket_cleanup: bool = "yes", "KerberosTicketCleanup", Global, AcceptedWithoutEffect("passwords are checked by PAM, whose pam_krb5 asks Kerberos");
    /// AFS tokens.
    kerberos_get_afs_token: bool = "no", "KerberosGetAFSToken", Global, AcceptedWithoutEffect("passwords are checked by PAM, whose pam_krb5 asks Kerberos");
    /// Logins by Kerberos (gssapi-with-mic).
    gssapi_authentication: bool = "no", "GSSAPIAuthentication", Match, GSSAPI;
    /// Destroy credentials at logout.
    gssapi_cleanup_credentials: bool = "yes", "GSSAPICleanupCredentials", Global, GSSAPI;
    /// Keep delegated credentials.
    gssapi_delegate_credentials: bool = "yes", "GSSAPIDelegateCredentials", Global, GSSAPI;
    /// Kerberos key exchange (a Debian addition).
    gssapi_key_exchange: bool = "no", "GSSAPIKeyExchange", Global, AcceptedWithoutEffect("there is no key exchange by Kerberos");
    /// Match the host's own name.
    gssapi_strict_acceptor_check: bool = "yes", "GSSAPIStrictAcceptorCheck", Global, GSSAPI;
    /// Renew credentials at rekey (a Debian addition).
    gssapi_store_credentials_on_rekey: bool = "no", "GSSAPIStoreCredentialsOnRekey", Global, AcceptedWithoutEffect("there is no key exchange by Kerberos");
    /// Kerberos key exchange methods (a Debian addition).
    gssapi_kex_algorithms: Option<String> = "", "GSSAPIKexAlgorithms", Global, AcceptedWithoutEffect("there is no key exchange by Kerberos");
    /// Password authentication.
    password_authentication: bool = "yes", "PasswordAuthentication", Match, Works;
    /// Keyboard-interactive authentication.
    kbd_interactive_authentication: bool = "yes", "KbdInteractiveAuthentication"
        ["ChallengeResponseAuthentication", "SKeyAuthentication"], Match, Works;
    /// Show the message of the day.
    print_motd: bool = "yes", "PrintMotd", Global, Works;
    /// Show the last login.
    print_last_log: bool = "yes", "PrintLastLog", Global, Works;
    /// Allow X11 forwarding.
    x11_forwarding: bool = "no", "X11Forwarding", Match, Works;
    /// X11 listens on the loopback address.
    x11_use_localhost: bool = "yes", "X11UseLocalhost", Match, Works;
    /// Allow terminals.
    permit_tty: bool = "yes", "PermitTTY", Match, Works;
    /// Run ~/.ssh/rc.
    permit_user_rc: bool = "yes", "PermitUserRC", Match, Works;
    /// Check owner and mode of the user's files.
    strict_modes: bool = "yes", "StrictModes", Global, Works;
    /// TCP keepalive probes.
    tcp_keep_alive: bool = "yes", "TCPKeepAlive" ["KeepAlive"], Global, Works;
    /// Allow accounts without a password.
    permit_empty_passwords: bool = "no", "PermitEmptyPasswords", Match, Works;
    /// Allow compression.
    compression: ServerCompression = "delayed", "Compression", Global, Works;
    /// Addresses remote forwards listen on.
    gateway_ports: ServerGatewayPorts = "no", "GatewayPorts", Match, Works;
    /// Look up client names.
    use_dns: bool = "no", "UseDNS", Global, Works;
    /// Allow TCP forwarding.
    allow_tcp_forwarding: AllowForwarding = "yes", "AllowTcpForwarding", Match, Works;
    /// Allow agent forwarding.
    allow_agent_forwarding: bool = "yes", "AllowAgentForwarding", Match, Works;
    /// No forwarding of any kind.
    disable_forwarding: bool = "no", "DisableForwarding", Match, Works;
    /// Allow Unix socket forwarding.
    allow_stream_local_forwarding: AllowForwarding = "yes", "AllowStreamLocalForwarding", Match, Works;
    /// Remove an old socket before listening on its path.
    stream_local_bind_unlink: bool = "no", "StreamLocalBindUnlink", Match, Works;
    /// Hash of logged fingerprints.
    fingerprint_hash: ServerFingerprintHash = "sha256", "FingerprintHash", Global, Works;
    /// Tell the session how the user authenticated.
    expose_auth_info: bool = "no", "ExposeAuthInfo", Match, Works;
    /// Refuse connections that match.
    refuse_connection: bool = "no", "RefuseConnection", Match, Works;
    /// Announce Debian's version (a Debian addition).
    debian_banner: bool = "yes", "DebianBanner", Global, AcceptedWithoutEffect("our identification names no distribution");
    /// Where the process id is written.
    pid_file: WordOrNone = "/run/lhsshd.pid", "PidFile", Global, Works;
    /// Primes for group exchange.
    moduli_file: Option<String> = "/etc/ssh/moduli", "ModuliFile", Global, Works;
    /// The xauth program.
    xauth_location: Option<String> = "/usr/bin/xauth", "XAuthLocation", Global, Works;
    /// Packet ciphers.
    ciphers: AlgorithmList = "", "Ciphers", Global, Works;
    /// Message authentication codes.
    macs: AlgorithmList = "", "MACs", Global, Works;
    /// File shown before authentication.
    banner: WordOrNone = "none", "Banner", Match, Works;
    /// Command run instead of what the client asks for.
    force_command: RestOrNone = "", "ForceCommand", Match, Works;
    /// Root directory of sessions; tokens.
    chroot_directory: WordOrNone = "none", "ChrootDirectory", Match, Works;
    /// Certificate authorities for users.
    trusted_user_ca_keys: WordOrNone = "none", "TrustedUserCAKeys", Match, Works;
    /// Files of revoked keys.
    revoked_keys: Words = "none", "RevokedKeys", Match, Works;
    /// Library for security keys.
    security_key_provider: Option<String> = "internal", "SecurityKeyProvider", Global, AcceptedWithoutEffect("signatures of security keys need no library to be checked");
    /// File of certificate principals; tokens.
    authorized_principals_file: WordOrNone = "none", "AuthorizedPrincipalsFile", Match, Works;
    /// Text after our version in the identification line.
    version_addendum: RestOrNone = "", "VersionAddendum", Global, Works;
    /// Program that prints authorized keys; tokens.
    authorized_keys_command: AbsoluteCommand = "none", "AuthorizedKeysCommand", Match, Works;
    /// Who runs it.
    authorized_keys_command_user: WordOrNone = "none", "AuthorizedKeysCommandUser", Match, Works;
    /// Program that prints principals; tokens.
    authorized_principals_command: AbsoluteCommand = "none", "AuthorizedPrincipalsCommand", Match, Works;
    /// Who runs it.
    authorized_principals_command_user: WordOrNone = "none", "AuthorizedPrincipalsCommandUser", Match, Works;
    /// Agent that holds the host keys.
    host_key_agent: WordOrNone = "none", "HostKeyAgent", Global, Works;
    /// Key exchange methods.
    kex_algorithms: AlgorithmList = "", "KexAlgorithms", Global, Works;
    /// Signature algorithms of certificate authorities.
    ca_signature_algorithms: AlgorithmList = "", "CASignatureAlgorithms", Match, Works;
    /// Algorithms for host-based authentication.
    hostbased_accepted_algorithms: AlgorithmList = "", "HostbasedAcceptedAlgorithms" ["HostbasedAcceptedKeyTypes"], Match, Works;
    /// Host key algorithms.
    host_key_algorithms: AlgorithmList = "", "HostKeyAlgorithms", Global, Works;
    /// Algorithms for public key authentication.
    pubkey_accepted_algorithms: AlgorithmList = "", "PubkeyAcceptedAlgorithms" ["PubkeyAcceptedKeyTypes"], Match, Works;
    /// Routing domain of sessions.
    rdomain: WordOrNone = "none", "RDomain", Match, AcceptedWithoutEffect("Linux has no routing domains");
    /// Program for session processes.
    sshd_session_path: Option<String> = "", "SshdSessionPath", Global, AcceptedWithoutEffect("the server re-executes itself");
    /// Program for the unauthenticated phase.
    sshd_auth_path: Option<String> = "", "SshdAuthPath", Global, AcceptedWithoutEffect("the server re-executes itself");
    /// How much to log.
    log_level: LogLevel = "INFO", "LogLevel", Match, Works;
    /// Where to log.
    syslog_facility: SyslogFacility = "AUTH", "SyslogFacility", Global, Works;
    /// Files of authorized keys; tokens.
    authorized_keys_file: Words = ".ssh/authorized_keys .ssh/authorized_keys2", "AuthorizedKeysFile", Match, Works;
    /// Files of host keys.
    host_key: Files = "", "HostKey" ["HostDSAKey"], Global, Works;
    /// Certificates of host keys.
    host_certificate: Files = "", "HostCertificate", Global, Works;
    /// Users who may log in.
    allow_users: Patterns = "", "AllowUsers", Match, Works;
    /// Users who may not.
    deny_users: Patterns = "", "DenyUsers", Match, Works;
    /// Groups whose members may log in.
    allow_groups: Patterns = "", "AllowGroups", Match, Works;
    /// Groups whose members may not.
    deny_groups: Patterns = "", "DenyGroups", Match, Works;
    /// Environment variables clients may set.
    accept_env: EnvPatterns = "", "AcceptEnv", Match, Works;
    /// Environment variables of every session.
    set_env: EnvValues = "", "SetEnv", Match, Works;
    /// Methods that must succeed, in order.
    authentication_methods: AuthenticationMethods = "any", "AuthenticationMethods", Match, Works;
    /// Source places that always log.
    log_verbose: LogVerbose = "none", "LogVerbose", Match, Works;
    /// Channel types that end when idle.
    channel_timeout: ChannelTimeouts = "none", "ChannelTimeout", Match, Works;
    /// Subsystems clients may ask for.
    subsystem: Subsystems = "", "Subsystem", Match, Works;
    /// Limits on unauthenticated connections.
    max_startups: MaxStartups = "10:30:100", "MaxStartups", Global, Works;
    /// The same per source address.
    per_source_max_startups: NumberOrNone = "none", "PerSourceMaxStartups", Global, Works;
    /// What counts as one source address.
    per_source_net_block_size: NetBlockSize = "32:128", "PerSourceNetBlockSize", Global, Works;
    /// Time-outs for sources that misbehave.
    per_source_penalties: Penalties = "yes", "PerSourcePenalties", Global, Works;
    /// Sources without penalties.
    per_source_penalty_exempt_list: WordOrNone = "none", "PerSourcePenaltyExemptList", Global, Works;
    /// Allow network tunnels.
    permit_tunnel: PermitTunnel = "no", "PermitTunnel", Match, Works;
    /// DSCP of connections.
    ip_qos: IpQos = "ef cs0", "IPQoS", Match, Works;
    /// When to exchange keys again.
    rekey_limit: RekeyLimit = "default none", "RekeyLimit", Match, Works;
    /// What forwards may connect to.
    permit_open: PermitForward = "any", "PermitOpen", Match, Works;
    /// Where remote forwards may listen.
    permit_listen: PermitForward = "any", "PermitListen", Match, Works;
    /// Read ~/.ssh/environment.
    permit_user_environment: PermitUserEnvironment = "no", "PermitUserEnvironment", Global, Works;
    /// What security keys must have done.
    pubkey_auth_options: PubkeyAuthOptions = "none", "PubkeyAuthOptions", Match, Works;

    /// A line for each connection and for each file or command in it: who, from where, with which algorithms and key, how much, how long and how fast, and how it ended. A file is opened anew for each line, so it may be renamed at any time. Our own keyword: OpenSSH does not know it.
    transfer_log: TransferLog = "none", "TransferLog", Global, Works;
    /// How those lines look: names and values, JSON, or the lines of HPN-SSH's server (whose counts are right here). Our own keyword.
    transfer_log_format: TransferLogFormat = "text", "TransferLogFormat", Global, Works;
    /// Serve counters over HTTP, in the text format of Prometheus, at /metrics of this address: a loopback one, unless the word public follows it. Our own keyword.
    prometheus_listen: PrometheusListen = "none", "PrometheusListen", Global, Works;

    /// Let a client that has logged in bring further connections without another login, by tickets that are good once and for half a minute. Our own keyword.
    longhaul_tickets: bool = "yes", "LonghaulTickets", Match, Works;
    /// Whether the path of sftp-server means the server inside lhsshd or that program. Our own keyword.
    longhaul_sftp: LonghaulSftp = "internal", "LonghaulSftp", Match, Works;
    /// At MaxStartups, the address that holds most connections loses one to newcomers of others. Our own keyword.
    fair_startups: bool = "yes", "FairStartups", Global, Works;

    /// HPN-SSH: windows grow with the path; `no` fixes them, at HPNBufferSize or 2 MiB.
    tcp_rcv_buf_poll: bool = "yes", "TcpRcvBufPoll", Match, Works;
    /// HPN-SSH: windows stay at 2 MiB, whatever else is configured.
    hpn_disabled: bool = "no", "HPNDisabled", Match, Works;
    /// HPN-SSH: let clients do without encryption after authentication, where they have no terminal.
    none_enabled: bool = "no", "NoneEnabled", Match, Works;
    /// HPN-SSH: let them drop the MAC with the cipher.
    none_mac_enabled: bool = "no", "NoneMacEnabled", Match, Works;
    /// HPN-SSH: no threads for ciphers, whichever cipher it is.
    disable_mt_aes: bool = "no", "DisableMTAES", Match, Works;
    /// HPN-SSH: listen for multipath TCP; plain TCP where the kernel has none.
    use_mptcp: bool = "no", "UseMPTCP", Global, Works;
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

/// Keywords that are read and dropped, with a "Deprecated option" line as OpenSSH prints.
pub(crate) static SERVER_IGNORED: &[&str] = &[
    "Protocol",
    "ServerKeyBits",
    "KeyRegenerationInterval",
    "RhostsAuthentication",
    "RSAAuthentication",
    "RhostsRSAAuthentication",
    "CheckMail",
    "UseLogin",
    "VerifyReverseMapping",
    "ReverseMappingCheck",
    "AuthorizedKeysFile2",
    "UsePrivilegeSeparation",
    "KerberosTgtPassing",
    "AFSTokenPassing",
    "PAMAuthenticationViaKbdInt",
    "SkeyAuthentication",
];
