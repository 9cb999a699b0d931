//! Every keyword of `sshd_config`, in the order `sshd -T` prints them.
//!
//! One long file: that order follows the types of values and OpenSSH's history, so a part of it has no topic.

use crate::accounting::{AbsoluteDirectory, PrometheusListen, TransferLog, TransferLogRate};
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
    /// yes: the ports of -p also replace those of ListenAddress lines, so that a second server may include
    /// the file of the system's sshd; no: such lines keep their port, as with sshd. Our own keyword.
    /// Example: `PortForAllAddresses yes`
    port_for_all_addresses: bool = "no", "PortForAllAddresses", Global, Works;
    /// yes: PAM checks accounts and passwords, and opens sessions. Its library is loaded when the server
    /// starts. Static programs have no PAM and log that.
    /// Example: `UsePAM yes`
    use_pam: bool = "no", "UsePAM", Global, Works;
    /// PAM service name, a file in /etc/pam.d.
    /// Example: `PAMServiceName longhaul`
    pam_service_name: Option<String> = "sshd", "PAMServiceName", Match, Works;
    /// Time within which a client must log in: seconds, or a time such as 1m; 0: no limit.
    /// Example: `LoginGraceTime 30`
    login_grace_time: GraceTime = "120", "LoginGraceTime", Global, Works;
    /// The first X11 display number that forwards use.
    /// Example: `X11DisplayOffset 50`
    x11_display_offset: u32 = "10", "X11DisplayOffset", Match, Works;
    /// Failed authentication attempts after which a connection ends.
    /// Example: `MaxAuthTries 3`
    max_auth_tries: u32 = "6", "MaxAuthTries", Match, Works;
    /// Largest number of open sessions on one connection; 0 forbids sessions but permits forwards.
    /// Example: `MaxSessions 0`
    max_sessions: u32 = "10", "MaxSessions", Match, Works;
    /// Time without data from the client after which a message asks whether it lives: seconds, or a time such
    /// as 1m; 0: never.
    /// Example: `ClientAliveInterval 30`
    client_alive_interval: Seconds = "0", "ClientAliveInterval", Match, Works;
    /// Number of messages of ClientAliveInterval that may stay unanswered before the connection ends; 0: it
    /// never ends for that.
    /// Example: `ClientAliveCountMax 2`
    client_alive_count_max: u32 = "3", "ClientAliveCountMax", Match, Works;
    /// The smallest RSA key that is accepted, in bits.
    /// Example: `RequiredRSASize 2048`
    required_rsa_size: u32 = "1024", "RequiredRSASize" ["RSAMinSize"], Match, Works;
    /// File mode mask (umask) of the sockets of forwards, in octal.
    /// Example: `StreamLocalBindMask 0117`
    stream_local_bind_mask: OctalMask = "0177", "StreamLocalBindMask", Match, Works;
    /// Time after which a connection without any channel ends: seconds, or a time such as 10m; none: never.
    /// Example: `UnusedConnectionTimeout 10m`
    unused_connection_timeout: SecondsOrNone = "none", "UnusedConnectionTimeout", Match, Works;
    /// Whether root may log in: yes, no, prohibit-password (not by password or keyboard-interactive) or
    /// forced-commands-only (only by keys with a command, to run that).
    /// Example: `PermitRootLogin no`
    permit_root_login: PermitRootLogin = "prohibit-password", "PermitRootLogin", Match, Works;
    /// Host-based authentication: yes ignores .rhosts and .shosts, shosts-only ignores .rhosts, no reads
    /// both.
    /// Example: `IgnoreRhosts shosts-only`
    ignore_rhosts: IgnoreRhosts = "yes", "IgnoreRhosts", Match, Works;
    /// yes: host-based authentication ignores the known_hosts files of users.
    /// Example: `IgnoreUserKnownHosts yes`
    ignore_user_known_hosts: bool = "no", "IgnoreUserKnownHosts", Global, Works;
    /// yes: a user of a host that shosts.equiv or ~/.shosts names may log in because that host's key vouches
    /// for the user.
    /// Example: `HostbasedAuthentication yes`
    hostbased_authentication: bool = "no", "HostbasedAuthentication", Match, Works;
    /// yes: host-based authentication trusts the host name that the client states; no: the name must belong
    /// to the client's address.
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
    /// yes: remove credentials that the client has delegated at the logout; no: keep them.
    /// Example: `GSSAPICleanupCredentials no`
    gssapi_cleanup_credentials: bool = "yes", "GSSAPICleanupCredentials", Global, GSSAPI;
    /// no: do not store credentials that a client delegates.
    /// Example: `GSSAPIDelegateCredentials no`
    gssapi_delegate_credentials: bool = "yes", "GSSAPIDelegateCredentials", Global, GSSAPI;
    /// Kerberos key exchange, an addition of Debian.
    /// Example: `GSSAPIKeyExchange no`
    gssapi_key_exchange: bool = "no", "GSSAPIKeyExchange", Global, AcceptedWithoutEffect("there is no key exchange by Kerberos");
    /// no: accept any key of the key table, not only that of the host's own name. For hosts with several
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
    /// no: no login by keyboard-interactive, the questions of PAM.
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
    /// no: listeners of X11 forwards use every address instead of loopback only.
    /// Example: `X11UseLocalhost no`
    x11_use_localhost: bool = "yes", "X11UseLocalhost", Match, Works;
    /// no: sessions get no terminal.
    /// Example: `PermitTTY no`
    permit_tty: bool = "yes", "PermitTTY", Match, Works;
    /// no: do not run ~/.ssh/rc.
    /// Example: `PermitUserRC no`
    permit_user_rc: bool = "yes", "PermitUserRC", Match, Works;
    /// no: read a user's key files even if other users can write to them or to the directories above.
    /// Example: `StrictModes no`
    strict_modes: bool = "yes", "StrictModes", Global, Works;
    /// TCP keepalive probes of the kernel. yes (or transport): for the connection to the client; all: for
    /// those of TCP and X11 forwards, too; no: for none.
    /// Example: `TCPKeepAlive all`
    tcp_keep_alive: TcpKeepAlive = "yes", "TCPKeepAlive" ["KeepAlive"], Global, Works;
    /// yes: accounts with an empty password may log in with it.
    /// Example: `PermitEmptyPasswords yes`
    permit_empty_passwords: bool = "no", "PermitEmptyPasswords", Match, Works;
    /// Whether clients may compress: yes or delayed (both mean after the login), or no.
    /// Example: `Compression no`
    compression: ServerCompression = "delayed", "Compression", Global, Works;
    /// Addresses that remote forwards listen on: no (loopback), yes (all) or clientspecified (those that the
    /// client asks for).
    /// Example: `GatewayPorts clientspecified`
    gateway_ports: ServerGatewayPorts = "no", "GatewayPorts", Match, Works;
    /// yes: look up the name of each client's address, check that it resolves to that address, and use it in
    /// Match Host, from= and logs.
    /// Example: `UseDNS yes`
    use_dns: bool = "no", "UseDNS", Global, Works;
    /// Which TCP forwards are permitted: yes (all), no, local (-L, -D, -W) or remote (-R).
    /// Example: `AllowTcpForwarding local`
    allow_tcp_forwarding: AllowForwarding = "yes", "AllowTcpForwarding", Match, Works;
    /// no: no agent forwarding.
    /// Example: `AllowAgentForwarding no`
    allow_agent_forwarding: bool = "yes", "AllowAgentForwarding", Match, Works;
    /// Where the sockets of forwarded agents are created. user:DIRECTORY: in this directory, below the home
    /// directory unless it begins with a slash; if it is missing, it is created for the user alone.
    /// shared:DIRECTORY: in a new private directory below this one, which is removed with the socket. none:
    /// agents are not forwarded. Takes %h, %u, %U and %%. Directories that another user could replace are
    /// refused. If the keyword is not set, and the home directory cannot be written to or its path is too
    /// long for a socket, shared:/tmp is used.
    /// Example: `AgentSocketPath user:/run/user/%U/ssh`
    agent_socket_path: AgentSocketPath = "user:.ssh/agent", "AgentSocketPath", Match, Works;
    /// yes: no forwarding of any kind, regardless of other keywords.
    /// Example: `DisableForwarding yes`
    disable_forwarding: bool = "no", "DisableForwarding", Match, Works;
    /// Which forwards of Unix sockets are permitted: yes (all), no, local or remote.
    /// Example: `AllowStreamLocalForwarding no`
    allow_stream_local_forwarding: AllowForwarding = "yes", "AllowStreamLocalForwarding", Match, Works;
    /// yes: remove an old socket from the path of a forward before listening there.
    /// Example: `StreamLocalBindUnlink yes`
    stream_local_bind_unlink: bool = "no", "StreamLocalBindUnlink", Match, Works;
    /// The hash of fingerprints in the log: sha256 or md5.
    /// Example: `FingerprintHash md5`
    fingerprint_hash: ServerFingerprintHash = "sha256", "FingerprintHash", Global, Works;
    /// yes: write how the user has logged in to a file that SSH_USER_AUTH names in the session.
    /// Example: `ExposeAuthInfo yes`
    expose_auth_info: bool = "no", "ExposeAuthInfo", Match, Works;
    /// yes: refuse connections. For a Match block; the client's address gets a penalty (PerSourcePenalties).
    /// Example: `RefuseConnection yes`
    refuse_connection: bool = "no", "RefuseConnection", Match, Works;
    /// Announce Debian's version, an addition of Debian.
    /// Example: `DebianBanner no`
    debian_banner: bool = "yes", "DebianBanner", Global, AcceptedWithoutEffect("our identification names no distribution");
    /// File to which the listener writes its process id; none: no file.
    /// Example: `PidFile /run/lhsshd-2222.pid`
    pid_file: WordOrNone = "/run/lhsshd.pid", "PidFile", Global, Works;
    /// File of primes for the Diffie-Hellman group exchange.
    /// Example: `ModuliFile /etc/ssh/moduli.lab`
    moduli_file: Option<String> = "/etc/ssh/moduli", "ModuliFile", Global, Works;
    /// Path of the xauth program, which stores X11 authorization data for sessions.
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
    /// Command that runs instead of the one that the client asks for, which is in SSH_ORIGINAL_COMMAND.
    /// internal-sftp is the SFTP server inside lhsshd; none: no such command.
    /// Default: none
    /// Example: `ForceCommand internal-sftp -R`
    force_command: RestOrNone = "", "ForceCommand", Match, Works;
    /// Root directory of sessions. It and the directories above must belong to root, and only root may write
    /// to them. Takes %h, %u, %U and %%.
    /// Example: `ChrootDirectory /srv/sftp/%u`
    chroot_directory: WordOrNone = "none", "ChrootDirectory", Match, Works;
    /// File of the public keys of certificate authorities, one a line; certificates that they have signed log
    /// users in. The first line that is no public key (or has options) ends the list: authorities below it
    /// are not trusted, as with sshd, and the log names it.
    /// Example: `TrustedUserCAKeys /etc/ssh/user_ca.pub`
    trusted_user_ca_keys: WordOrNone = "none", "TrustedUserCAKeys", Match, Works;
    /// Files of revoked keys and certificates: key lists in text, or made by lhssh-keygen -k. A file that
    /// cannot be read or has a broken line refuses every key.
    /// Example: `RevokedKeys /etc/ssh/revoked_keys`
    revoked_keys: Words = "none", "RevokedKeys", Match, Works;
    /// Library for security keys.
    /// Example: `SecurityKeyProvider internal`
    security_key_provider: Option<String> = "internal", "SecurityKeyProvider", Global, AcceptedWithoutEffect("signatures of security keys need no library to be checked");
    /// File of names, one a line: a certificate logs the user in if one of its principals is among them.
    /// Takes tokens. none: one of its principals must be the user's name, unless
    /// AuthorizedPrincipalsCommand is set.
    /// Example: `AuthorizedPrincipalsFile /etc/ssh/principals/%u`
    authorized_principals_file: WordOrNone = "none", "AuthorizedPrincipalsFile", Match, Works;
    /// Text after our version in the identification line; none: no text.
    /// Default: none
    /// Example: `VersionAddendum lab-7`
    version_addendum: RestOrNone = "", "VersionAddendum", Global, Works;
    /// Program that prints lines of authorized_keys for a user: an absolute path, then arguments with tokens.
    /// Needs AuthorizedKeysCommandUser.
    /// Example: `AuthorizedKeysCommand /usr/local/bin/keys-of %u`
    authorized_keys_command: AbsoluteCommand = "none", "AuthorizedKeysCommand", Match, Works;
    /// The account that runs AuthorizedKeysCommand, best one that does nothing else.
    /// Example: `AuthorizedKeysCommandUser nobody`
    authorized_keys_command_user: WordOrNone = "none", "AuthorizedKeysCommandUser", Match, Works;
    /// Program that prints lines as in AuthorizedPrincipalsFile: an absolute path, then arguments with
    /// tokens. Needs AuthorizedPrincipalsCommandUser.
    /// Example: `AuthorizedPrincipalsCommand /usr/local/bin/principals-of %u %i`
    authorized_principals_command: AbsoluteCommand = "none", "AuthorizedPrincipalsCommand", Match, Works;
    /// The account that runs AuthorizedPrincipalsCommand, best one that does nothing else.
    /// Example: `AuthorizedPrincipalsCommandUser nobody`
    authorized_principals_command_user: WordOrNone = "none", "AuthorizedPrincipalsCommandUser", Match, Works;
    /// Socket of an agent that holds the private host keys, or SSH_AUTH_SOCK; HostKey names their public
    /// keys.
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
    /// Routing domain of sessions. Any value but none is an error, as on all systems whose processes have no
    /// routing domain.
    /// Example: `RDomain none`
    rdomain: NoRoutingDomain = "none", "RDomain", Match, Works;
    /// Program for session processes.
    /// Default: none
    /// Example: `SshdSessionPath /usr/lib/openssh/sshd-session`
    sshd_session_path: Option<String> = "", "SshdSessionPath", Global, AcceptedWithoutEffect("the server re-executes itself");
    /// Program for the unauthenticated phase.
    /// Default: none
    /// Example: `SshdAuthPath /usr/lib/openssh/sshd-auth`
    sshd_auth_path: Option<String> = "", "SshdAuthPath", Global, AcceptedWithoutEffect("the server re-executes itself");
    /// How much is logged: QUIET, FATAL, ERROR, INFO, VERBOSE, DEBUG (DEBUG1), DEBUG2 or DEBUG3. From DEBUG1
    /// on, the log shows what users do.
    /// Example: `LogLevel VERBOSE`
    log_level: LogLevel = "INFO", "LogLevel", Match, Works;
    /// Syslog facility of messages.
    /// Example: `SyslogFacility AUTHPRIV`
    syslog_facility: SyslogFacility = "AUTH", "SyslogFacility", Global, Works;
    /// Files of public keys that log a user in; relative paths begin in the home directory. Takes tokens, and
    /// wildcards (OpenSSH 10.6). none: no files.
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
    /// takes precedence.
    /// Default: all
    /// Example: `AllowUsers ada *@192.0.2.0/24`
    allow_users: Patterns = "", "AllowUsers", Match, Works;
    /// These users may not log in: patterns as in AllowUsers; may be repeated.
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
    /// Environment variables to set in every session, as NAME=VALUE.
    /// Default: none
    /// Example: `SetEnv SITE=lab`
    set_env: EnvValues = "", "SetEnv", Match, Works;
    /// Methods that must succeed: a list separated by commas, in this order. Of several lists, one is enough.
    /// any: one method is enough.
    /// Example: `AuthenticationMethods publickey,keyboard-interactive publickey,password`
    authentication_methods: AuthenticationMethods = "any", "AuthenticationMethods", Match, Works;
    /// Patterns file:module():line of places in the source code; messages from there are logged regardless of
    /// LogLevel.
    /// Example: `LogVerbose session.rs:*`
    log_verbose: LogVerbose = "none", "LogVerbose", Match, Works;
    /// Close channels that have been idle for a time: words kind=time. global=time closes all of them when
    /// none has had traffic for that time.
    /// Example: `ChannelTimeout session=1h direct-tcpip=10m`
    channel_timeout: ChannelTimeouts = "none", "ChannelTimeout", Match, Works;
    /// Name of a subsystem that clients may ask for, and its command. internal-sftp is the SFTP server inside
    /// lhsshd, and so are the usual paths of sftp-server (LonghaulSftp).
    /// Default: none
    /// Example: `Subsystem sftp internal-sftp`
    subsystem: Subsystems = "", "Subsystem", Match, Works;
    /// Limit of connections that have not logged in, as begin:percent:full. From begin on, this percentage of
    /// new ones is refused, rising to all of them at full. See FairStartups.
    /// Example: `MaxStartups 50:30:200`
    max_startups: MaxStartups = "10:30:100", "MaxStartups", Global, Works;
    /// Limit of connections of one source address that have not logged in.
    /// Example: `PerSourceMaxStartups 20`
    per_source_max_startups: NumberOrNone = "none", "PerSourceMaxStartups", Global, Works;
    /// Prefix lengths, in bits, of the networks that count as one source address: IPv4:IPv6.
    /// Example: `PerSourceNetBlockSize 32:64`
    per_source_net_block_size: NetBlockSize = "32:128", "PerSourceNetBlockSize", Global, Works;
    /// Refuse source addresses for a time after failed logins and the like: yes, no, or kind:time words.
    /// The kinds and their defaults: crash:90, authfail:5, invaliduser:5, noauth:1, grace-exceeded:10 and
    /// refuseconnection:10, which add up for an address; min:15, the sum from which it is refused, and
    /// max:600, the largest sum. max-sources4 and max-sources6 (65536): how many addresses are remembered;
    /// overflow and overflow6: when there are more, permissive forgets the one whose time ends first, and
    /// deny-all refuses everybody. An address whose sessions wait for their clients (ResumeGrace) may have
    /// some connections that end without an attempt to log in.
    /// Example: `PerSourcePenalties authfail:10s max:30m`
    per_source_penalties: Penalties = "yes", "PerSourcePenalties", Global, Works;
    /// Networks without penalties, separated by commas.
    /// Example: `PerSourcePenaltyExemptList 192.0.2.0/24,2001:db8::/32`
    per_source_penalty_exempt_list: WordOrNone = "none", "PerSourcePenaltyExemptList", Global, Works;
    /// Tunnels between network devices: yes, no, point-to-point or ethernet.
    /// Example: `PermitTunnel point-to-point`
    permit_tunnel: PermitTunnel = "no", "PermitTunnel", Match, Works;
    /// DSCP class of IP packets: the first word for sessions with a terminal, the second for all others; one
    /// word is for both. none: the system's default.
    /// Example: `IPQoS ef cs1`
    ip_qos: IpQos = "ef cs0", "IPQoS", Match, Works;
    /// Exchange keys again after this many bytes (or with K, M or G; default: as often as the cipher
    /// requires) and, as the second word, after this time: seconds, or a time such as 1h; none: no limit of
    /// time.
    /// Example: `RekeyLimit 16G 1h`
    rekey_limit: RekeyLimit = "default none", "RekeyLimit", Match, Works;
    /// What local forwards may connect to: host:port pairs, where * stands for any port; any or none.
    /// Example: `PermitOpen intranet:80 db:5432`
    permit_open: PermitForward = "any", "PermitOpen", Match, Works;
    /// Where remote forwards may listen: host:port or port; any or none.
    /// Example: `PermitListen 9000 localhost:9001`
    permit_listen: PermitForward = "any", "PermitListen", Match, Works;
    /// Whether ~/.ssh/environment and environment= of keys may set variables: yes, no, or patterns of names.
    /// Variables can change what a forced command does.
    /// Example: `PermitUserEnvironment LANG,LC_*`
    permit_user_environment: PermitUserEnvironment = "no", "PermitUserEnvironment", Global, Works;
    /// What the signature of a security key must prove: touch-required, verify-required (the PIN).
    /// max-pk-ok:N (0 to 255): N of a client's queries about keys that are not accepted are free, further
    /// ones count for MaxAuthTries. As in OpenSSH, a line without max-pk-ok makes the first one count. none:
    /// no option.
    /// Example: `PubkeyAuthOptions verify-required max-pk-ok:6`
    pubkey_auth_options: PubkeyAuthOptions = "none max-pk-ok:6", "PubkeyAuthOptions", Match, Works;

    /// Where to log a line for each connection, and for each file or command in it: who, from where, with
    /// which algorithms and key, how much, how long, how fast, and how it ended. An absolute path, syslog,
    /// journald or none. The file is opened for each line, so it may be renamed at any time. Our own keyword:
    /// OpenSSH does not know it.
    /// Example: `TransferLog /var/log/longhaul-transfers.log`
    transfer_log: TransferLog = "none", "TransferLog", Global, Works;
    /// Format of the lines of TransferLog: text (names and values), json, or hpn (the lines of HPN-SSH's
    /// server, with right counts). Our own keyword.
    /// Example: `TransferLogFormat json`
    transfer_log_format: TransferLogFormat = "text", "TransferLogFormat", Global, Works;
    /// yes: TransferLog also has a line for each SFTP request that changes names or attributes (rename,
    /// remove, mkdir, rmdir, setstat, symlink, hardlink and the like), with its outcome, and for each denied
    /// request. Our own keyword.
    /// Example: `TransferLogOperations yes`
    transfer_log_operations: bool = "no", "TransferLogOperations", Match, Works;
    /// Largest number of lines of TransferLog about the files, commands and requests of one connection, as
    /// number/time: as many at once, and as many in each such time. Lines beyond it are left out, and one
    /// with event=left_out says how many. none: every transfer has its line, and the log grows as fast as a
    /// user can open files. Our own keyword.
    /// Example: `TransferLogRate 100000/1h`
    transfer_log_rate: TransferLogRate = "none", "TransferLogRate", Match, Works;
    /// Address at which counters are served over HTTP, at the path /metrics, in the text format of
    /// Prometheus. It must be a loopback address unless the word public follows it. Our own keyword.
    /// Example: `PrometheusListen 127.0.0.1:9122`
    prometheus_listen: PrometheusListen = "none", "PrometheusListen", Global, Works;

    /// Whether a client that has logged in may open additional connections with a ticket, which is valid once
    /// and for 30 seconds. no: each connection must log in. Our own keyword.
    /// Example: `LonghaulTickets no`
    longhaul_tickets: bool = "yes", "LonghaulTickets", Match, Works;
    /// How long a session whose connection broke waits for its client, while its programs run on; 0: it ends
    /// at once. Only clients that ask for it (Resume) can continue it. The server must offer this before it
    /// knows the user: where it is 0 for the client's address, no Match User block can turn it on. The second
    /// time is for connections that end with an end of file and without a farewell, as those of clients that
    /// were killed, but also those whose jump host or load balancer has lost the client; 0: such a session
    /// ends at once. Our own keyword.
    /// Example: `ResumeGrace 10m 2m`
    resume_grace: ResumeGrace = "10m", "ResumeGrace", Match, Works;
    /// Largest number of sessions that wait for their clients (ResumeGrace): of one user, and of all users.
    /// Beyond it, the oldest one of the user with most of them ends. Our own keyword.
    /// Example: `ResumeMaxSessions 16:500`
    resume_max_sessions: ResumeMaxSessions = "64:1024", "ResumeMaxSessions", Global, Works;
    /// Memory that all waiting sessions (ResumeGrace) may use for what their clients have not acknowledged,
    /// in bytes or with K, M or G; none: 64 MiB for each. Beyond it, of the user whose sessions use most, the
    /// session that uses most ends. Our own keyword.
    /// Example: `ResumeMaxMemory 256M`
    resume_max_memory: ResumeMaxMemory = "1G", "ResumeMaxMemory", Global, Works;
    /// Largest number of connections of one account to this server; one more ends with a message. Additional
    /// connections of a session (LonghaulTickets; at most 64) and channels do not count. A session that waits
    /// for its client counts, but ends for a new login. The listener counts, so there is no limit with -i.
    /// Our own keyword.
    /// Example: `PerUserMaxConnections 4`
    per_user_max_connections: NumberOrNone = "none", "PerUserMaxConnections", Match, Works;
    /// Bytes that the connections of one account may move in a period, both directions together, as bytes (or
    /// with K, M or G) / time. The period begins with the first byte. Once they are used up, the account's
    /// sessions end within some seconds, and new ones are refused until it is over. The listener counts: a
    /// restart or a reload begins anew, and there is no quota with -i. Our own keyword.
    /// Example: `PerUserTransferQuota 200G/1d`
    per_user_transfer_quota: QuotaOrNone = "none", "PerUserTransferQuota", Match, Works;
    /// Whether the path of sftp-server in Subsystem and forced commands means the SFTP server inside lhsshd
    /// (internal) or that program (external). Our own keyword.
    /// Example: `LonghaulSftp external`
    longhaul_sftp: LonghaulSftp = "internal", "LonghaulSftp", Match, Works;
    /// Program that checks each file uploaded over SFTP before it gets its final name: an absolute path, then
    /// arguments with the tokens %u, %U and %h; the file's path is appended. Status 0 accepts the file. With
    /// any other status, or if the program cannot be run, the upload fails and the file is removed. Works
    /// with the SFTP server inside lhsshd (ForceCommand internal-sftp) and nothing else. Our own keyword.
    /// Example: `UploadHook /usr/bin/clamdscan --fdpass --quiet`
    upload_hook: HookCommand = "none", "UploadHook", Match, Works;
    /// Time that UploadHook may take for a file; then it is killed and the upload fails: seconds, or a time
    /// such as 2m; 0: no limit. Our own keyword.
    /// Example: `UploadHookTimeout 2m`
    upload_hook_timeout: Seconds = "10m", "UploadHookTimeout", Match, Works;
    /// Directory in which each terminal of a session is recorded, with times, in a file of its own (asciicast
    /// version 2, for asciinema): an absolute path, or none. Input is not recorded, except what the terminal
    /// shows of it. The directory and its files belong to root alone. If a file cannot be created or written,
    /// the session ends. Sessions without a terminal are not recorded. Our own keyword.
    /// Example: `RecordTerminal /var/log/longhaul/terminals`
    record_terminal: AbsoluteDirectory = "none", "RecordTerminal", Match, Works;
    /// yes: log connections whose key exchange a quantum computer could break; no-pq-kex and no: do not.
    /// Example: `WarnWeakCrypto no`
    warn_weak_crypto: WarnWeakCrypto = "yes", "WarnWeakCrypto", Match, Works;
    /// yes: at MaxStartups, the address that holds most connections loses its oldest one to a newcomer from
    /// another address; no: the newcomer is refused, as in OpenSSH. Our own keyword.
    /// Example: `FairStartups no`
    fair_startups: bool = "yes", "FairStartups", Global, Works;

    /// Networks of load balancers, separated by commas. A connection from there must begin with a header of
    /// the PROXY protocol (version 1 or 2), whose address counts as the client's for Match, penalties,
    /// MaxStartups and logs. Other connections are not affected. Our own keyword.
    /// Example: `ProxyProtocolFrom 192.0.2.0/28,2001:db8::/64`
    proxy_protocol_from: Networks = "none", "ProxyProtocolFrom", Global, Works;

    /// HPN-SSH. yes: windows of channels grow with the bandwidth-delay product of the path; no: they keep the
    /// size of HPNBufferSize, or 2 MiB.
    /// Example: `TcpRcvBufPoll no`
    tcp_rcv_buf_poll: bool = "yes", "TcpRcvBufPoll", Match, Works;
    /// HPN-SSH. yes: windows keep a size of 2 MiB, regardless of other keywords.
    /// Example: `HPNDisabled yes`
    hpn_disabled: bool = "no", "HPNDisabled", Match, Works;
    /// HPN-SSH. yes: clients may turn encryption off after authentication (NoneSwitch), in sessions without a
    /// terminal.
    /// Example: `NoneEnabled yes`
    none_enabled: bool = "no", "NoneEnabled", Match, Works;
    /// HPN-SSH. yes: clients that turn encryption off may do without the MAC, too.
    /// Example: `NoneMacEnabled yes`
    none_mac_enabled: bool = "no", "NoneMacEnabled", Match, Works;
    /// HPN-SSH. yes: use no worker threads for encryption, with any cipher.
    /// Example: `DisableMTAES yes`
    disable_mt_aes: bool = "no", "DisableMTAES", Match, Works;
    /// HPN-SSH. yes: listen for multipath TCP; plain TCP if the kernel has none.
    /// Example: `UseMPTCP yes`
    use_mptcp: bool = "no", "UseMPTCP", Global, Works;
    /// HPN-SSH (older versions): size of the TCP receive buffer, in KiB or with a unit. The kernel then no
    /// longer adapts it.
    /// Default: the kernel's, which grows
    /// Example: `TcpRcvBuf 8M`
    tcp_rcv_buf: BufferSize = "", "TcpRcvBuf", Match, Works;
    /// HPN-SSH (older versions): largest window of a channel, in KiB or with a unit; the fixed size with
    /// TcpRcvBufPoll no.
    /// Default: as large as is useful
    /// Example: `HPNBufferSize 64M`
    hpn_buffer_size: BufferSize = "", "HPNBufferSize", Match, Works;
    /// HPN-SSH (older versions): limit the window to half of the TCP buffer.
    /// Default: none
    /// Example: `HPNBufferLimit no`
    hpn_buffer_limit: Option<String> = "", "HPNBufferLimit", Match, AcceptedWithoutEffect("HPN-SSH has removed it, for it could close a window; HPNBufferSize caps windows");
    /// TCP congestion control of this connection: a name from
    /// /proc/sys/net/ipv4/tcp_allowed_congestion_control. Our own keyword.
    /// Default: the system's
    /// Example: `TcpCongestion bbr`
    tcp_congestion: Option<String> = "", "TcpCongestion", Match, Works;
    /// Highest rate at which the kernel sends, in bits per second (or with K, M or G); packets are evenly
    /// spaced. Our own keyword.
    /// Default: none
    /// Example: `TcpPacing 900M`
    tcp_pacing: BitRate = "", "TcpPacing", Match, Works;
    /// Highest rate at which a connection's data are received after the login, in bits per second (or with
    /// K, M or G). Our own keyword.
    /// Default: none
    /// Example: `ReceiveRate 100M`
    receive_rate: BitRate = "", "ReceiveRate", Match, Works;
    /// Highest rate at which all connections of one account together are received after their logins, in
    /// bits per second (or with K, M or G). Connections under different Match blocks share, each at its own
    /// rate. Our own keyword.
    /// Default: none
    /// Example: `PerUserReceiveRate 200M`
    per_user_receive_rate: BitRate = "", "PerUserReceiveRate", Match, Works;
    /// Highest rate at which the server sends on all connections of one account together, as
    /// PerUserReceiveRate. Our own keyword.
    /// Default: none
    /// Example: `PerUserSendRate 200M`
    per_user_send_rate: BitRate = "", "PerUserSendRate", Match, Works;
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
