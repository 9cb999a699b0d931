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

    /// Port to listen on; may be repeated.
    /// Example: `Port 2222`
    port: Ports = "22", "Port", Global, Works;
    /// Address families to listen on: any, inet (IPv4) or inet6.
    /// Example: `AddressFamily inet`
    address_family: AddressFamily = "any", "AddressFamily", Global, Works;
    /// Address to listen on, with or without a port; may be repeated.
    /// Default: all addresses
    /// Example: `ListenAddress 192.0.2.7:2222`
    listen_address: ListenAddresses = "", "ListenAddress", Global, Works;
    /// yes: the ports of -p count for ListenAddress lines with a port too, so that a server on another port may
    /// include the file of the system's sshd; no: such lines keep their port, as with sshd. Our own keyword.
    /// Example: `PortForAllAddresses yes`
    port_for_all_addresses: bool = "no", "PortForAllAddresses", Global, Works;
    /// yes: PAM checks accounts and passwords, and opens sessions. Only where the program is built with the
    /// feature pam.
    /// Example: `UsePAM yes`
    use_pam: bool = "no", "UsePAM", Global, Works;
    /// PAM service name, a file in /etc/pam.d.
    /// Example: `PAMServiceName longhaul`
    pam_service_name: Option<String> = "sshd", "PAMServiceName", Match, Works;
    /// Time to log in; 0: as long as it takes.
    /// Example: `LoginGraceTime 30`
    login_grace_time: GraceTime = "120", "LoginGraceTime", Global, Works;
    /// First X11 display number that is used.
    /// Example: `X11DisplayOffset 50`
    x11_display_offset: u32 = "10", "X11DisplayOffset", Match, Works;
    /// Failed attempts to log in that one connection may make.
    /// Example: `MaxAuthTries 3`
    max_auth_tries: u32 = "6", "MaxAuthTries", Match, Works;
    /// Sessions that may be open on one connection; 0 forbids sessions and leaves forwards.
    /// Example: `MaxSessions 0`
    max_sessions: u32 = "10", "MaxSessions", Match, Works;
    /// Seconds without data from the client after which it is asked whether it lives; 0: never. Where it is not set,
    /// clients that may resume their sessions (ResumeGrace) are asked after 20 seconds.
    /// Example: `ClientAliveInterval 30`
    client_alive_interval: Seconds = "0", "ClientAliveInterval", Match, Works;
    /// How many of these may stay unanswered before the connection is ended; 0: end none.
    /// Example: `ClientAliveCountMax 2`
    client_alive_count_max: u32 = "3", "ClientAliveCountMax", Match, Works;
    /// The smallest RSA key that is accepted, in bits.
    /// Example: `RequiredRSASize 2048`
    required_rsa_size: u32 = "1024", "RequiredRSASize" ["RSAMinSize"], Match, Works;
    /// File mode mask of forwarded Unix sockets, in octal.
    /// Example: `StreamLocalBindMask 0117`
    stream_local_bind_mask: OctalMask = "0177", "StreamLocalBindMask", Match, Works;
    /// How long a connection without any channel stays open.
    /// Example: `UnusedConnectionTimeout 10m`
    unused_connection_timeout: SecondsOrNone = "none", "UnusedConnectionTimeout", Match, Works;
    /// Whether root may log in: yes, no, prohibit-password (by key only) or forced-commands-only (by keys
    /// with a command).
    /// Example: `PermitRootLogin no`
    permit_root_login: PermitRootLogin = "prohibit-password", "PermitRootLogin", Match, Works;
    /// Host-based authentication: yes ignores .rhosts and .shosts, shosts-only ignores .rhosts, no reads
    /// both.
    /// Example: `IgnoreRhosts shosts-only`
    ignore_rhosts: IgnoreRhosts = "yes", "IgnoreRhosts", Match, Works;
    /// yes: the user's known_hosts does not count for host-based authentication.
    /// Example: `IgnoreUserKnownHosts yes`
    ignore_user_known_hosts: bool = "no", "IgnoreUserKnownHosts", Global, Works;
    /// yes: users of hosts that are named in shosts.equiv or ~/.shosts log in by the key of their host.
    /// Example: `HostbasedAuthentication yes`
    hostbased_authentication: bool = "no", "HostbasedAuthentication", Match, Works;
    /// yes: trust the name that the client states in host-based authentication, instead of looking up its
    /// address.
    /// Example: `HostbasedUsesNameFromPacketOnly yes`
    hostbased_uses_name_from_packet_only: bool = "no", "HostbasedUsesNameFromPacketOnly", Match, Works;
    /// no: no login by key.
    /// Example: `PubkeyAuthentication no`
    pubkey_authentication: bool = "yes", "PubkeyAuthentication" ["DSAAuthentication"], Match, Works;
    /// Check passwords by Kerberos.
    /// Example: `KerberosAuthentication no`
    kerberos_authentication: bool = "no", "KerberosAuthentication", Match, AcceptedWithoutEffect("passwords are checked by PAM, whose pam_krb5 asks Kerberos");
    /// Fall back to local passwords.
    /// Example: `KerberosOrLocalPasswd yes`
    kerberos_or_local_passwd: bool = "yes", "KerberosOrLocalPasswd", Global, AcceptedWithoutEffect("passwords are checked by PAM, whose pam_krb5 asks Kerberos");
    /// Destroy tickets at logout.
    /// Example: `KerberosTicketCleanup yes`
    kerberos_ticket_cleanup: bool = "yes", "KerberosTicketCleanup", Global, AcceptedWithoutEffect("passwords are checked by PAM, whose pam_krb5 asks Kerberos");
    /// Get AFS tokens.
    /// Example: `KerberosGetAFSToken no`
    kerberos_get_afs_token: bool = "no", "KerberosGetAFSToken", Global, AcceptedWithoutEffect("passwords are checked by PAM, whose pam_krb5 asks Kerberos");
    /// yes: users log in by Kerberos (gssapi-with-mic), with the host's keys of /etc/krb5.keytab.
    /// Example: `GSSAPIAuthentication yes`
    gssapi_authentication: bool = "no", "GSSAPIAuthentication", Match, GSSAPI;
    /// no: credentials that the client gave stay after the logout.
    /// Example: `GSSAPICleanupCredentials no`
    gssapi_cleanup_credentials: bool = "yes", "GSSAPICleanupCredentials", Global, GSSAPI;
    /// no: do not keep credentials that a client delegates.
    /// Example: `GSSAPIDelegateCredentials no`
    gssapi_delegate_credentials: bool = "yes", "GSSAPIDelegateCredentials", Global, GSSAPI;
    /// Kerberos key exchange, an addition of Debian.
    /// Example: `GSSAPIKeyExchange no`
    gssapi_key_exchange: bool = "no", "GSSAPIKeyExchange", Global, AcceptedWithoutEffect("there is no key exchange by Kerberos");
    /// no: take any key of the key table instead of that of the host's own name. For hosts with several
    /// names.
    /// Example: `GSSAPIStrictAcceptorCheck no`
    gssapi_strict_acceptor_check: bool = "yes", "GSSAPIStrictAcceptorCheck", Global, GSSAPI;
    /// Renew credentials at rekey, an addition of Debian.
    /// Example: `GSSAPIStoreCredentialsOnRekey no`
    gssapi_store_credentials_on_rekey: bool = "no", "GSSAPIStoreCredentialsOnRekey", Global, AcceptedWithoutEffect("there is no key exchange by Kerberos");
    /// Methods of the Kerberos key exchange, an addition of Debian.
    /// Default: none
    /// Example: `GSSAPIKexAlgorithms gss-group14-sha256-`
    gssapi_kex_algorithms: Option<String> = "", "GSSAPIKexAlgorithms", Global, AcceptedWithoutEffect("there is no key exchange by Kerberos");
    /// no: no login by password.
    /// Example: `PasswordAuthentication no`
    password_authentication: bool = "yes", "PasswordAuthentication", Match, Works;
    /// no: no login by questions (keyboard-interactive), as PAM asks them.
    /// Example: `KbdInteractiveAuthentication no`
    kbd_interactive_authentication: bool = "yes", "KbdInteractiveAuthentication"
        ["ChallengeResponseAuthentication", "SKeyAuthentication"], Match, Works;
    /// no: do not show /etc/motd to login shells. PAM often shows it instead.
    /// Example: `PrintMotd no`
    print_motd: bool = "yes", "PrintMotd", Global, Works;
    /// no: do not show when the user logged in last.
    /// Example: `PrintLastLog no`
    print_last_log: bool = "yes", "PrintLastLog", Global, Works;
    /// yes: allow X11 forwarding.
    /// Example: `X11Forwarding yes`
    x11_forwarding: bool = "no", "X11Forwarding", Match, Works;
    /// no: X11 forwards listen on every address instead of loopback.
    /// Example: `X11UseLocalhost no`
    x11_use_localhost: bool = "yes", "X11UseLocalhost", Match, Works;
    /// no: no terminals.
    /// Example: `PermitTTY no`
    permit_tty: bool = "yes", "PermitTTY", Match, Works;
    /// no: do not run ~/.ssh/rc.
    /// Example: `PermitUserRC no`
    permit_user_rc: bool = "yes", "PermitUserRC", Match, Works;
    /// no: read the user's files even if others can write to them or their directories.
    /// Example: `StrictModes no`
    strict_modes: bool = "yes", "StrictModes", Global, Works;
    /// Which idle connections the kernel probes: yes (or transport; the one to the client), all (those of TCP and X11
    /// forwards too) or no.
    /// Example: `TCPKeepAlive all`
    tcp_keep_alive: TcpKeepAlive = "yes", "TCPKeepAlive" ["KeepAlive"], Global, Works;
    /// yes: accounts with an empty password log in with it.
    /// Example: `PermitEmptyPasswords yes`
    permit_empty_passwords: bool = "no", "PermitEmptyPasswords", Match, Works;
    /// no: no compression. yes and delayed (after the login) mean the same.
    /// Example: `Compression no`
    compression: ServerCompression = "delayed", "Compression", Global, Works;
    /// Addresses that remote forwards listen on: no (loopback), yes (all) or clientspecified.
    /// Example: `GatewayPorts clientspecified`
    gateway_ports: ServerGatewayPorts = "no", "GatewayPorts", Match, Works;
    /// yes: look up the name of each client's address, check that it leads back, and use it in Match Host,
    /// from= and logs.
    /// Example: `UseDNS yes`
    use_dns: bool = "no", "UseDNS", Global, Works;
    /// TCP forwards: yes, no, local (-L only) or remote (-R only).
    /// Example: `AllowTcpForwarding local`
    allow_tcp_forwarding: AllowForwarding = "yes", "AllowTcpForwarding", Match, Works;
    /// no: no agent forwarding.
    /// Example: `AllowAgentForwarding no`
    allow_agent_forwarding: bool = "yes", "AllowAgentForwarding", Match, Works;
    /// Where the sockets of forwarded agents are made. user:DIRECTORY: in this directory, below the home directory
    /// unless it begins with a slash; it is made, for the user alone, where it is missing. shared:DIRECTORY: in a new
    /// private directory below this one, which is removed with the socket. none: agents are not forwarded. Takes %h,
    /// %u, %U and %%. Directories that another user could replace are refused. Where the keyword is not set and the
    /// home directory cannot be written to, or its path is too long for a socket, shared:/tmp is used.
    /// Example: `AgentSocketPath user:/run/user/%U/ssh`
    agent_socket_path: AgentSocketPath = "user:.ssh/agent", "AgentSocketPath", Match, Works;
    /// yes: no forwarding of any kind, regardless of other keywords.
    /// Example: `DisableForwarding yes`
    disable_forwarding: bool = "no", "DisableForwarding", Match, Works;
    /// Forwards of Unix sockets: yes, no, local or remote.
    /// Example: `AllowStreamLocalForwarding no`
    allow_stream_local_forwarding: AllowForwarding = "yes", "AllowStreamLocalForwarding", Match, Works;
    /// yes: remove an old socket before listening on its path.
    /// Example: `StreamLocalBindUnlink yes`
    stream_local_bind_unlink: bool = "no", "StreamLocalBindUnlink", Match, Works;
    /// The hash of fingerprints in the log: sha256 or md5.
    /// Example: `FingerprintHash md5`
    fingerprint_hash: ServerFingerprintHash = "sha256", "FingerprintHash", Global, Works;
    /// yes: write how the user has logged in to a file that SSH_USER_AUTH names in the session.
    /// Example: `ExposeAuthInfo yes`
    expose_auth_info: bool = "no", "ExposeAuthInfo", Match, Works;
    /// yes: refuse connections. For a Match block; the address gets a penalty (PerSourcePenalties).
    /// Example: `RefuseConnection yes`
    refuse_connection: bool = "no", "RefuseConnection", Match, Works;
    /// Announce Debian's version, an addition of Debian.
    /// Example: `DebianBanner no`
    debian_banner: bool = "yes", "DebianBanner", Global, AcceptedWithoutEffect("our identification names no distribution");
    /// Where the process id of the listener is written; none: nowhere.
    /// Example: `PidFile /run/lhsshd-2222.pid`
    pid_file: WordOrNone = "/run/lhsshd.pid", "PidFile", Global, Works;
    /// Primes for the group exchange of Diffie and Hellman.
    /// Example: `ModuliFile /etc/ssh/moduli.lab`
    moduli_file: Option<String> = "/etc/ssh/moduli", "ModuliFile", Global, Works;
    /// Path of the xauth program.
    /// Example: `XAuthLocation /usr/local/bin/xauth`
    xauth_location: Option<String> = "/usr/bin/xauth", "XAuthLocation", Global, Works;
    /// Packet ciphers that are accepted; + - ^ edit the default. The client's order decides.
    /// Default: the list that `lhsshd -T` prints
    /// Example: `Ciphers -chacha20-poly1305@openssh.com`
    ciphers: AlgorithmList = "", "Ciphers", Global, Works;
    /// Message authentication codes that are accepted; + - ^ edit the default.
    /// Default: the list that `lhsshd -T` prints
    /// Example: `MACs hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com`
    macs: AlgorithmList = "", "MACs", Global, Works;
    /// File whose text is shown before authentication; none: no text.
    /// Example: `Banner /etc/issue.net`
    banner: WordOrNone = "none", "Banner", Match, Works;
    /// Command that is run instead of what the client asks for, which it finds in SSH_ORIGINAL_COMMAND.
    /// internal-sftp is the SFTP server inside lhsshd; none: no such command.
    /// Default: none
    /// Example: `ForceCommand internal-sftp -R`
    force_command: RestOrNone = "", "ForceCommand", Match, Works;
    /// Root directory of sessions. It and its parents must belong to root and be writable by root only. Takes %h,
    /// %u, %U and %%.
    /// Example: `ChrootDirectory /srv/sftp/%u`
    chroot_directory: WordOrNone = "none", "ChrootDirectory", Match, Works;
    /// File of public keys whose certificates log users in.
    /// Example: `TrustedUserCAKeys /etc/ssh/user_ca.pub`
    trusted_user_ca_keys: WordOrNone = "none", "TrustedUserCAKeys", Match, Works;
    /// Files of keys and certificates that are refused: key lists in text, or made by lhssh-keygen -k. A file
    /// that cannot be read, or a broken line, refuses all.
    /// Example: `RevokedKeys /etc/ssh/revoked_keys`
    revoked_keys: Words = "none", "RevokedKeys", Match, Works;
    /// Library for security keys.
    /// Example: `SecurityKeyProvider internal`
    security_key_provider: Option<String> = "internal", "SecurityKeyProvider", Global, AcceptedWithoutEffect("signatures of security keys need no library to be checked");
    /// File of names, one a line; a certificate logs the user in when one of them is among its principals.
    /// Takes tokens. none: the user's own name counts.
    /// Example: `AuthorizedPrincipalsFile /etc/ssh/principals/%u`
    authorized_principals_file: WordOrNone = "none", "AuthorizedPrincipalsFile", Match, Works;
    /// Text after our version in the identification line; none: no text.
    /// Default: none
    /// Example: `VersionAddendum lab-7`
    version_addendum: RestOrNone = "", "VersionAddendum", Global, Works;
    /// Program that prints lines of authorized_keys for a user; an absolute path, then arguments with tokens.
    /// Needs AuthorizedKeysCommandUser.
    /// Example: `AuthorizedKeysCommand /usr/local/bin/keys-of %u`
    authorized_keys_command: AbsoluteCommand = "none", "AuthorizedKeysCommand", Match, Works;
    /// The user that runs it, best one that owns no files.
    /// Example: `AuthorizedKeysCommandUser nobody`
    authorized_keys_command_user: WordOrNone = "none", "AuthorizedKeysCommandUser", Match, Works;
    /// Program that prints lines as in AuthorizedPrincipalsFile; an absolute path, then arguments with
    /// tokens.
    /// Example: `AuthorizedPrincipalsCommand /usr/local/bin/principals-of %u %i`
    authorized_principals_command: AbsoluteCommand = "none", "AuthorizedPrincipalsCommand", Match, Works;
    /// The user that runs it.
    /// Example: `AuthorizedPrincipalsCommandUser nobody`
    authorized_principals_command_user: WordOrNone = "none", "AuthorizedPrincipalsCommandUser", Match, Works;
    /// Socket of an agent that holds the private host keys, whose public halves HostKey names; or
    /// SSH_AUTH_SOCK.
    /// Example: `HostKeyAgent /run/host-agent.sock`
    host_key_agent: WordOrNone = "none", "HostKeyAgent", Global, Works;
    /// Key exchange methods that are accepted; + - ^ edit the default. The client's order decides.
    /// Default: the list that `lhsshd -T` prints
    /// Example: `KexAlgorithms -diffie-hellman-group14-sha256`
    kex_algorithms: AlgorithmList = "", "KexAlgorithms", Global, Works;
    /// Signature algorithms that certificate authorities of users may have used; + - ^ edit the default.
    /// Default: the list that `lhsshd -T` prints
    /// Example: `CASignatureAlgorithms -rsa-sha2-256`
    ca_signature_algorithms: AlgorithmList = "", "CASignatureAlgorithms", Match, Works;
    /// Kinds of keys for host-based authentication; + - ^ edit the default.
    /// Default: the list that `lhsshd -T` prints
    /// Example: `HostbasedAcceptedAlgorithms ssh-ed25519`
    hostbased_accepted_algorithms: AlgorithmList = "", "HostbasedAcceptedAlgorithms" ["HostbasedAcceptedKeyTypes"], Match, Works;
    /// Signature algorithms of host keys that are offered; + - ^ edit the default.
    /// Default: the list that `lhsshd -T` prints
    /// Example: `HostKeyAlgorithms ssh-ed25519,rsa-sha2-512`
    host_key_algorithms: AlgorithmList = "", "HostKeyAlgorithms", Global, Works;
    /// Signature algorithms for logging in by key; + - ^ edit the default.
    /// Default: the list that `lhsshd -T` prints
    /// Example: `PubkeyAcceptedAlgorithms +ssh-rsa`
    pubkey_accepted_algorithms: AlgorithmList = "", "PubkeyAcceptedAlgorithms" ["PubkeyAcceptedKeyTypes"], Match, Works;
    /// Routing domain of sessions.
    /// Example: `RDomain none`
    rdomain: WordOrNone = "none", "RDomain", Match, AcceptedWithoutEffect("Linux has no routing domains");
    /// Program for session processes.
    /// Default: none
    /// Example: `SshdSessionPath /usr/lib/openssh/sshd-session`
    sshd_session_path: Option<String> = "", "SshdSessionPath", Global, AcceptedWithoutEffect("the server re-executes itself");
    /// Program for the unauthenticated phase.
    /// Default: none
    /// Example: `SshdAuthPath /usr/lib/openssh/sshd-auth`
    sshd_auth_path: Option<String> = "", "SshdAuthPath", Global, AcceptedWithoutEffect("the server re-executes itself");
    /// How much is logged: QUIET, FATAL, ERROR, INFO, VERBOSE, DEBUG (DEBUG1), DEBUG2 or DEBUG3. From DEBUG1
    /// on the log shows what users do.
    /// Example: `LogLevel VERBOSE`
    log_level: LogLevel = "INFO", "LogLevel", Match, Works;
    /// Facility of the system's log.
    /// Example: `SyslogFacility AUTHPRIV`
    syslog_facility: SyslogFacility = "AUTH", "SyslogFacility", Global, Works;
    /// Files of keys that log a user in; paths that are not absolute begin in the home directory. Takes
    /// tokens, and wildcards (OpenSSH 10.6). none: no files.
    /// Example: `AuthorizedKeysFile .ssh/authorized_keys /etc/ssh/keys/%u`
    authorized_keys_file: Words = ".ssh/authorized_keys .ssh/authorized_keys2", "AuthorizedKeysFile", Match, Works;
    /// Private host key, or the public one of a key in HostKeyAgent; may be repeated.
    /// Default: the ssh_host_*_key files in /etc/ssh that are there
    /// Example: `HostKey /etc/ssh/ssh_host_ed25519_key`
    host_key: Files = "", "HostKey" ["HostDSAKey"], Global, Works;
    /// Certificate of a host key; may be repeated.
    /// Default: none
    /// Example: `HostCertificate /etc/ssh/ssh_host_ed25519_key-cert.pub`
    host_certificate: Files = "", "HostCertificate", Global, Works;
    /// Only these users may log in: patterns, also USER@HOST or USER@NETWORK/BITS; may be repeated. DenyUsers
    /// comes first.
    /// Default: all
    /// Example: `AllowUsers ada *@192.0.2.0/24`
    allow_users: Patterns = "", "AllowUsers", Match, Works;
    /// These users may not log in: patterns as AllowUsers has them; may be repeated.
    /// Default: none
    /// Example: `DenyUsers guest*`
    deny_users: Patterns = "", "DenyUsers", Match, Works;
    /// Only members of these groups may log in: patterns; may be repeated.
    /// Default: all
    /// Example: `AllowGroups ssh-users`
    allow_groups: Patterns = "", "AllowGroups", Match, Works;
    /// Members of these groups may not log in: patterns; may be repeated.
    /// Default: none
    /// Example: `DenyGroups nologin`
    deny_groups: Patterns = "", "DenyGroups", Match, Works;
    /// Patterns of environment variables that clients may set; may be repeated.
    /// Default: none
    /// Example: `AcceptEnv LANG LC_*`
    accept_env: EnvPatterns = "", "AcceptEnv", Match, Works;
    /// Environment variables of every session, as NAME=VALUE.
    /// Default: none
    /// Example: `SetEnv SITE=lab`
    set_env: EnvValues = "", "SetEnv", Match, Works;
    /// Methods that must succeed, with commas in between, in this order; several such lists: any one of them.
    /// any: one method is enough.
    /// Example: `AuthenticationMethods publickey,keyboard-interactive publickey,password`
    authentication_methods: AuthenticationMethods = "any", "AuthenticationMethods", Match, Works;
    /// Places of our source, as file:module():line patterns, that log everything.
    /// Example: `LogVerbose session.rs:*`
    log_verbose: LogVerbose = "none", "LogVerbose", Match, Works;
    /// Kinds of channels that are closed when they are idle for a time, as kind=time; global=time ends all
    /// sessions when none has had traffic.
    /// Example: `ChannelTimeout session=1h direct-tcpip=10m`
    channel_timeout: ChannelTimeouts = "none", "ChannelTimeout", Match, Works;
    /// A name that clients may ask for, and its command. internal-sftp is the SFTP server inside lhsshd, and
    /// so are the usual paths of sftp-server (LonghaulSftp).
    /// Default: none
    /// Example: `Subsystem sftp internal-sftp`
    subsystem: Subsystems = "", "Subsystem", Match, Works;
    /// Connections that may be logging in at a time: begin:percent:full. From begin on, percent of new ones
    /// are refused, rising to all at full. See FairStartups.
    /// Example: `MaxStartups 50:30:200`
    max_startups: MaxStartups = "10:30:100", "MaxStartups", Global, Works;
    /// Connections of one source address that may be logging in.
    /// Example: `PerSourceMaxStartups 20`
    per_source_max_startups: NumberOrNone = "none", "PerSourceMaxStartups", Global, Works;
    /// Leading bits of an address that count as one source, for IPv4:IPv6.
    /// Example: `PerSourceNetBlockSize 32:64`
    per_source_net_block_size: NetBlockSize = "32:128", "PerSourceNetBlockSize", Global, Works;
    /// Refuse source addresses for a time after failed logins and the like: yes, no, or kind:time words
    /// (authfail, invaliduser, noauth, grace-exceeded, crash, refuseconnection; min, max). An address at which a
    /// session waits for its client (ResumeGrace) has a reserve of connections that may end without an attempt.
    /// Example: `PerSourcePenalties authfail:10s max:30m`
    per_source_penalties: Penalties = "yes", "PerSourcePenalties", Global, Works;
    /// Networks without penalties, separated by commas.
    /// Example: `PerSourcePenaltyExemptList 192.0.2.0/24,2001:db8::/32`
    per_source_penalty_exempt_list: WordOrNone = "none", "PerSourcePenaltyExemptList", Global, Works;
    /// Tunnels between network devices: yes, no, point-to-point or ethernet.
    /// Example: `PermitTunnel point-to-point`
    permit_tunnel: PermitTunnel = "no", "PermitTunnel", Match, Works;
    /// DSCP class of packets, of terminals and, as the second word, of everything else; none: leave it alone.
    /// Example: `IPQoS ef cs1`
    ip_qos: IpQos = "ef cs0", "IPQoS", Match, Works;
    /// Exchange keys again after this many bytes (with K, M or G) and, as the second word, after a time;
    /// default: what the cipher demands.
    /// Example: `RekeyLimit 16G 1h`
    rekey_limit: RekeyLimit = "default none", "RekeyLimit", Match, Works;
    /// What local forwards may connect to: host:port pairs, where * stands for any port; any or none.
    /// Example: `PermitOpen intranet:80 db:5432`
    permit_open: PermitForward = "any", "PermitOpen", Match, Works;
    /// Where remote forwards may listen: host:port or port; any or none.
    /// Example: `PermitListen 9000 localhost:9001`
    permit_listen: PermitForward = "any", "PermitListen", Match, Works;
    /// Let ~/.ssh/environment and environment= of keys set variables: yes, no, or a pattern of names.
    /// Variables can change what a forced command does.
    /// Example: `PermitUserEnvironment LANG,LC_*`
    permit_user_environment: PermitUserEnvironment = "no", "PermitUserEnvironment", Global, Works;
    /// What security keys must have done: touch-required, verify-required (PIN), both, or none. max-pk-ok:N (0 to 255): so
    /// many of a client's queries about keys that would not do are free, further ones count against MaxAuthTries. As in
    /// OpenSSH, a line without max-pk-ok makes the first one count.
    /// Example: `PubkeyAuthOptions verify-required max-pk-ok:6`
    pubkey_auth_options: PubkeyAuthOptions = "none max-pk-ok:6", "PubkeyAuthOptions", Match, Works;

    /// A line for each connection and for each file or command in it: who, from where, with which algorithms
    /// and key, how much, how long and how fast, and how it ended. An absolute path, syslog, journald or
    /// none. A file is opened anew for each line, so it may be renamed at any time. Our own keyword: OpenSSH
    /// does not know it.
    /// Example: `TransferLog /var/log/longhaul-transfers.log`
    transfer_log: TransferLog = "none", "TransferLog", Global, Works;
    /// How those lines look: text (names and values), json, or hpn (the lines of HPN-SSH's server, with right
    /// counts). Our own keyword.
    /// Example: `TransferLogFormat json`
    transfer_log_format: TransferLogFormat = "text", "TransferLogFormat", Global, Works;
    /// yes: TransferLog also has a line for each SFTP request that changes names or attributes (rename, remove,
    /// mkdir, rmdir, setstat, symlink, hardlink and the like), with its outcome, and for each request that is
    /// denied. Our own keyword.
    /// Example: `TransferLogOperations yes`
    transfer_log_operations: bool = "no", "TransferLogOperations", Match, Works;
    /// Serve counters over HTTP, in the text format of Prometheus, at /metrics of this address: a loopback
    /// one, unless the word public follows it. Our own keyword.
    /// Example: `PrometheusListen 127.0.0.1:9122`
    prometheus_listen: PrometheusListen = "none", "PrometheusListen", Global, Works;

    /// no: a client that has logged in may not bring additional connections without another login. Tickets are
    /// good once and for half a minute. Our own keyword.
    /// Example: `LonghaulTickets no`
    longhaul_tickets: bool = "yes", "LonghaulTickets", Match, Works;
    /// How long a session waits for its client when the connection breaks, while its programs run on; 0: it ends
    /// at once. Only clients that ask for it (Resume) can go on with it. The connection is offered it before the
    /// user is known: what is 0 for an address is off for all users from there. A second time is for connections
    /// that end with an end of file and no farewell, as those of clients that were killed, but also those whose jump
    /// host or load balancer has lost the client; 0: such a session ends at once. Without it, 15 seconds or the first
    /// time, whichever is shorter. Our own keyword.
    /// Example: `ResumeGrace 10m 2m`
    resume_grace: ResumeGrace = "10m", "ResumeGrace", Match, Works;
    /// How many sessions of one user, and of all users, wait for their clients (ResumeGrace). Beyond that the oldest
    /// of the user with most ends. Our own keyword.
    /// Example: `ResumeMaxSessions 16:500`
    resume_max_sessions: ResumeMaxSessions = "64:1024", "ResumeMaxSessions", Global, Works;
    /// How much memory sessions that wait (ResumeGrace) keep in all for what their clients have not
    /// acknowledged, in bytes or with K, M or G; none: 64 MiB for each. Beyond that the session that keeps
    /// most ends, of the user whose sessions keep most. Our own keyword.
    /// Example: `ResumeMaxMemory 256M`
    resume_max_memory: ResumeMaxMemory = "1G", "ResumeMaxMemory", Global, Works;
    /// Connections of one user account that may be logged in at a time, at this server; one more is told so and
    /// ends. Additional connections of a session (LonghaulTickets) and channels do not count, a session that waits
    /// for its client does, but ends for a new login. Counted by the listener: not with -i. Our own keyword.
    /// Example: `PerUserMaxConnections 4`
    per_user_max_connections: NumberOrNone = "none", "PerUserMaxConnections", Match, Works;
    /// Bytes that the connections of one user account may move in a period, both directions together, as
    /// bytes (or with K, M or G) / time. The period begins with the first byte; once they are used up, the
    /// account's sessions end within some seconds, and new ones are refused until it is over. Kept by the
    /// listener: it begins anew with a restart or a reload, and there is none with -i. Our own keyword.
    /// Example: `PerUserTransferQuota 200G/1d`
    per_user_transfer_quota: QuotaOrNone = "none", "PerUserTransferQuota", Match, Works;
    /// Whether the path of sftp-server in Subsystem and forced commands means the server inside lhsshd
    /// (internal) or that program (external). Our own keyword.
    /// Example: `LonghaulSftp external`
    longhaul_sftp: LonghaulSftp = "internal", "LonghaulSftp", Match, Works;
    /// A program that looks at each file uploaded over SFTP before it gets its final name: an absolute path, then
    /// arguments with the tokens %u, %U and %h. The file's path is added as the last argument. Status 0 accepts
    /// the file; with any other one, or if the program cannot be run, the upload fails and the file is removed.
    /// Works with the SFTP server inside lhsshd (ForceCommand internal-sftp) and nothing else. Our own keyword.
    /// Example: `UploadHook /usr/bin/clamdscan --fdpass --quiet`
    upload_hook: HookCommand = "none", "UploadHook", Match, Works;
    /// How long UploadHook may take for a file; then it is killed and the upload fails. 0: as long as it takes.
    /// Our own keyword.
    /// Example: `UploadHookTimeout 2m`
    upload_hook_timeout: Seconds = "10m", "UploadHookTimeout", Match, Works;
    /// A directory in which each terminal that a session uses is recorded, as it appears and with its times, in a file
    /// of its own (asciicast version 2, for asciinema): an absolute path, or none. What is typed is not recorded,
    /// unless the terminal shows it. The directory and its files belong to root alone; where a file cannot be made
    /// or written, the session ends. Sessions without a terminal are not recorded. Our own keyword.
    /// Example: `RecordTerminal /var/log/longhaul/terminals`
    record_terminal: AbsoluteCommand = "none", "RecordTerminal", Match, Works;
    /// Log connections whose key exchange a quantum computer could break: yes, or no-pq-kex and no for silence.
    /// Example: `WarnWeakCrypto no`
    warn_weak_crypto: WarnWeakCrypto = "yes", "WarnWeakCrypto", Match, Works;
    /// At MaxStartups, the address that holds most connections loses its oldest one to newcomers of others;
    /// no: the newcomer is refused, as in OpenSSH. Our own keyword.
    /// Example: `FairStartups no`
    fair_startups: bool = "yes", "FairStartups", Global, Works;

    /// Networks of load balancers, separated by commas. Connections from there must begin with a header of
    /// the PROXY protocol (version 1 or 2), and the address that it names is the client's: for Match,
    /// penalties, MaxStartups and logs. From elsewhere nothing changes. Our own keyword.
    /// Example: `ProxyProtocolFrom 192.0.2.0/28,2001:db8::/64`
    proxy_protocol_from: Networks = "none", "ProxyProtocolFrom", Global, Works;

    /// HPN-SSH: windows grow with the path; no fixes them, at HPNBufferSize or 2 MiB.
    /// Example: `TcpRcvBufPoll no`
    tcp_rcv_buf_poll: bool = "yes", "TcpRcvBufPoll", Match, Works;
    /// HPN-SSH: yes keeps windows at 2 MiB, regardless of other keywords.
    /// Example: `HPNDisabled yes`
    hpn_disabled: bool = "no", "HPNDisabled", Match, Works;
    /// HPN-SSH: yes lets clients do without encryption after authentication, where they have no terminal.
    /// Example: `NoneEnabled yes`
    none_enabled: bool = "no", "NoneEnabled", Match, Works;
    /// HPN-SSH: yes lets them drop the MAC with the cipher.
    /// Example: `NoneMacEnabled yes`
    none_mac_enabled: bool = "no", "NoneMacEnabled", Match, Works;
    /// HPN-SSH: no threads for ciphers, whichever cipher it is.
    /// Example: `DisableMTAES yes`
    disable_mt_aes: bool = "no", "DisableMTAES", Match, Works;
    /// HPN-SSH: listen for multipath TCP; plain TCP where the kernel has none.
    /// Example: `UseMPTCP yes`
    use_mptcp: bool = "no", "UseMPTCP", Global, Works;
    /// HPN-SSH, removed there: the TCP receive buffer, which then no longer grows by itself. Without a unit
    /// in KiB.
    /// Default: the kernel's, which grows
    /// Example: `TcpRcvBuf 8M`
    tcp_rcv_buf: BufferSize = "", "TcpRcvBuf", Match, Works;
    /// HPN-SSH, removed there: windows grow no further than this; with TcpRcvBufPoll no they have this size.
    /// Without a unit in KiB.
    /// Default: as large as is useful
    /// Example: `HPNBufferSize 64M`
    hpn_buffer_size: BufferSize = "", "HPNBufferSize", Match, Works;
    /// HPN-SSH, removed there: halve the window against the TCP buffer.
    /// Default: none
    /// Example: `HPNBufferLimit no`
    hpn_buffer_limit: Option<String> = "", "HPNBufferLimit", Match, AcceptedWithoutEffect("HPN-SSH has removed it, for it could close a window; HPNBufferSize caps windows");
    /// Longhaul: TCP's congestion control for this connection, a name from
    /// /proc/sys/net/ipv4/tcp_allowed_congestion_control.
    /// Default: the system's
    /// Example: `TcpCongestion bbr`
    tcp_congestion: Option<String> = "", "TcpCongestion", Match, Works;
    /// Longhaul: the kernel sends no faster than this, in bits per second with K, M or G, and evenly.
    /// Default: none
    /// Example: `TcpPacing 900M`
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
