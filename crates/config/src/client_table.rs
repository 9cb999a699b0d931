//! Every keyword of `ssh_config`, in the order `ssh -G` prints them.
//!
//! One long file: that order follows the types of values and OpenSSH's history, so a part of it has no topic.

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
    /// Made by [`load`](crate::client::load). Each field has its keyword's name and dereferences to its
    /// value.
    pub struct ClientSettings;

    /// The rows of `ssh_config`.
    pub static CLIENT_KEYWORDS;

    /// The user to log in as. A user on the command line (user@host, -l) takes precedence.
    /// Default: the local user's name
    /// Example: `User ada`
    user: Option<String> = "", "User", Match, Works;
    /// The real name or address to connect to, where Host or the command line has a short name. %h stands for
    /// the name as typed, %% for a percent sign.
    /// Default: the name as typed
    /// Example: `Hostname %h.example.org`
    hostname: Option<String> = "", "Hostname", Match, Works;
    /// The port to connect to.
    /// Example: `Port 2222`
    port: Port = "22", "Port", Match, Works;
    /// Which addresses of a name are used: any, inet (IPv4) or inet6.
    /// Example: `AddressFamily inet6`
    address_family: AddressFamily = "any", "AddressFamily", Match, Works;
    /// yes: never ask for a password, a passphrase or about a host key; what needs an answer fails instead.
    /// For scripts.
    /// Example: `BatchMode yes`
    batch_mode: bool = "no", "BatchMode", Match, Works;
    /// no: when CanonicalizeHostname finds no full name, end instead of using the name as typed.
    /// Example: `CanonicalizeFallbackLocal no`
    canonicalize_fallback_local: bool = "yes", "CanonicalizeFallbackLocal", Match, Works;
    /// yes: complete short names with the domains of CanonicalDomains, then read the configuration again
    /// under the full name. always does so for connections by ProxyCommand and ProxyJump too.
    /// Example: `CanonicalizeHostname yes`
    canonicalize_hostname: CanonicalizeHostname = "no", "CanonicalizeHostname", Match, Works;
    /// yes: also compare the host key with the one that known_hosts has for the address, and warn if they
    /// differ.
    /// Example: `CheckHostIP yes`
    check_host_ip: bool = "no", "CheckHostIP", Match, Works;
    /// yes: compress the connection. Useful on slow lines only; on fast ones it costs a core.
    /// Example: `Compression yes`
    compression: bool = "no", "Compression", Match, Works;
    /// Share one connection among several sessions. yes: this one becomes the master, which listens at
    /// ControlPath; auto: use the master that listens there, or become it; ask and autoask: like yes and
    /// auto, but the user confirms each use; no: use a master that is there.
    /// Example: `ControlMaster auto`
    control_master: ControlMaster = "no", "ControlMaster", Match, Works;
    /// yes: let lhssh-keysign sign with the host's keys for HostbasedAuthentication. Only in the system's
    /// file.
    /// Example: `EnableSSHKeysign yes`
    enable_ssh_keysign: bool = "no", "EnableSSHKeysign", Match, Works;
    /// yes: ignore all forwards of the files and the command line. lhscp and lhsftp set it.
    /// Example: `ClearAllForwardings yes`
    clear_all_forwardings: bool = "no", "ClearAllForwardings", Match, Works;
    /// yes: end if a forward cannot be set up.
    /// Example: `ExitOnForwardFailure yes`
    exit_on_forward_failure: bool = "no", "ExitOnForwardFailure", Match, Works;
    /// The hash of displayed fingerprints: sha256 or md5.
    /// Example: `FingerprintHash md5`
    fingerprint_hash: FingerprintHash = "sha256", "FingerprintHash", Match, Works;
    /// yes: forward X11, and have the server set DISPLAY. Anyone who can read the user's files on the server
    /// can reach the local display.
    /// Example: `ForwardX11 yes`
    forward_x11: bool = "no", "ForwardX11", Match, Works;
    /// yes: forwarded X11 clients may do everything that local ones may. no: the X server restricts them, and
    /// new ones may connect for ForwardX11Timeout only.
    /// Example: `ForwardX11Trusted yes`
    forward_x11_trusted: bool = "no", "ForwardX11Trusted", Match, Works;
    /// yes: local forwards listen on every address instead of loopback, so other hosts can use them.
    /// Example: `GatewayPorts yes`
    gateway_ports: bool = "no", "GatewayPorts", Match, Works;
    /// yes: log in by Kerberos (gssapi-with-mic).
    /// Example: `GSSAPIAuthentication yes`
    gssapi_authentication: bool = "no", "GSSAPIAuthentication", Match, GSSAPI;
    /// Kerberos key exchange, an addition of Debian.
    /// Example: `GSSAPIKeyExchange no`
    gssapi_key_exchange: bool = "no", "GSSAPIKeyExchange", Match, AcceptedWithoutEffect("only users log in by Kerberos, hosts have keys");
    /// yes: delegate the user's Kerberos credentials to the host.
    /// Example: `GSSAPIDelegateCredentials yes`
    gssapi_delegate_credentials: bool = "no", "GSSAPIDelegateCredentials", Match, GSSAPI;
    /// Trust DNS for the names of Kerberos, an addition of Debian.
    /// Example: `GSSAPITrustDns no`
    gssapi_trust_dns: bool = "no", "GSSAPITrustDns", Match, AcceptedWithoutEffect("dns_canonicalize_hostname in krb5.conf decides");
    /// Rekey when Kerberos credentials are renewed, an addition of Debian.
    /// Example: `GSSAPIRenewalForcesRekey no`
    gssapi_renewal_forces_rekey: bool = "no", "GSSAPIRenewalForcesRekey", Match, AcceptedWithoutEffect("there is no key exchange by Kerberos");
    /// Methods of the Kerberos key exchange, an addition of Debian.
    /// Default: none
    /// Example: `GSSAPIKexAlgorithms gss-group14-sha256-`
    gssapi_kex_algorithms: Option<String> = "", "GSSAPIKexAlgorithms", Match, AcceptedWithoutEffect("there is no key exchange by Kerberos");
    /// yes: new lines of known_hosts have a hash instead of the name, so the file does not reveal which hosts
    /// were visited.
    /// Example: `HashKnownHosts yes`
    hash_known_hosts: bool = "no", "HashKnownHosts", Match, Works;
    /// yes: try host-based authentication, in which the key of this host vouches for the user. Needs
    /// EnableSSHKeysign.
    /// Example: `HostbasedAuthentication yes`
    hostbased_authentication: bool = "no", "HostbasedAuthentication", Match, Works;
    /// yes: offer only the keys of IdentityFile and CertificateFile, even if the agent holds more.
    /// Example: `IdentitiesOnly yes`
    identities_only: bool = "no", "IdentitiesOnly", Match, Works;
    /// no: do not answer questions of the server (keyboard-interactive, as PAM asks).
    /// Example: `KbdInteractiveAuthentication no`
    kbd_interactive_authentication: bool = "yes", "KbdInteractiveAuthentication"
        ["ChallengeResponseAuthentication", "SKeyAuthentication", "TISAuthentication"], Match, Works;
    /// yes: do not check the host key of loopback addresses.
    /// Example: `NoHostAuthenticationForLocalhost yes`
    no_host_authentication_for_localhost: bool = "no", "NoHostAuthenticationForLocalhost", Match, Works;
    /// no: do not log in by password.
    /// Example: `PasswordAuthentication no`
    password_authentication: bool = "yes", "PasswordAuthentication", Match, Works;
    /// yes: allow LocalCommand.
    /// Example: `PermitLocalCommand yes`
    permit_local_command: bool = "no", "PermitLocalCommand", Match, Works;
    /// yes: ProxyCommand passes a connected socket on its standard output and ends.
    /// Example: `ProxyUseFdpass yes`
    proxy_use_fdpass: bool = "no", "ProxyUseFdpass", Match, Works;
    /// no: do not log in by key. yes and host-bound bind signatures to the host key where the server can,
    /// unbound never does.
    /// Example: `PubkeyAuthentication no`
    pubkey_authentication: ClientPubkeyAuthentication = "yes", "PubkeyAuthentication" ["DSAAuthentication"], Match, Works;
    /// Ask the server for a terminal: auto (for a shell), no (-T), yes (-t) or force (-tt).
    /// Example: `RequestTTY force`
    request_tty: RequestTty = "auto", "RequestTTY", Match, Works;
    /// What kind of session: default (shell or command), none (-N) or subsystem (-s).
    /// Example: `SessionType none`
    session_type: SessionType = "default", "SessionType", Match, Works;
    /// yes: standard input is /dev/null (-n).
    /// Example: `StdinNull yes`
    stdin_null: bool = "no", "StdinNull", Match, Works;
    /// yes: go to the background just before the command runs (-f).
    /// Example: `ForkAfterAuthentication yes`
    fork_after_authentication: bool = "no", "ForkAfterAuthentication", Match, Works;
    /// yes: remove an old socket from the path of a forward before listening there.
    /// Example: `StreamLocalBindUnlink yes`
    stream_local_bind_unlink: bool = "no", "StreamLocalBindUnlink", Match, Works;
    /// How host keys are checked. ask: the user confirms new ones; accept-new: new ones are added to
    /// known_hosts; yes: new ones are refused; no (or off): new ones are added, and a changed one causes a
    /// warning. A changed key is refused with every other value.
    /// Example: `StrictHostKeyChecking accept-new`
    strict_host_key_checking: StrictHostKeyChecking = "ask", "StrictHostKeyChecking", Match, Works;
    /// TCP keepalive probes of the kernel. yes (or transport): for the connection to the server; all: for
    /// those of TCP and X11 forwards, too; no: for none. Probes notice a dead host within about half a minute
    /// during the login, later after two hours unless the kernel is told otherwise; ServerAliveInterval does
    /// so within seconds.
    /// Example: `TCPKeepAlive all`
    tcp_keep_alive: TcpKeepAlive = "yes", "TCPKeepAlive" ["KeepAlive"], Match, Works;
    /// Ask the server for a tunnel between network devices: point-to-point (or yes), ethernet, or no.
    /// Example: `Tunnel point-to-point`
    tunnel: Tunnel = "no", "Tunnel", Match, Works;
    /// Look up fingerprints of host keys in DNS (SSHFP records). yes: accept a key that an answer signed by
    /// DNSSEC confirms; ask: show what was found and ask the user; no: do not look.
    /// Example: `VerifyHostKeyDNS ask`
    verify_host_key_dns: YesNoAsk = "no", "VerifyHostKeyDNS", Match, Works;
    /// yes: show the host key as a picture of characters.
    /// Example: `VisualHostKey yes`
    visual_host_key: bool = "no", "VisualHostKey", Match, Works;
    /// yes: after the login, add the server's other host keys to known_hosts, once it has proved that it
    /// holds them, and remove those that it no longer has; ask: ask the user first. Only if the host's key
    /// came from a file of UserKnownHostsFile, or the user has just confirmed it. The default is no if
    /// UserKnownHostsFile is set, or VerifyHostKeyDNS to another value than no.
    /// Example: `UpdateHostKeys ask`
    update_host_keys: YesNoAsk = "yes", "UpdateHostKeys", Match, Works;
    /// yes: ~C in a terminal session opens a command line that adds and removes forwards.
    /// Example: `EnableEscapeCommandline yes`
    enable_escape_commandline: bool = "no", "EnableEscapeCommandline", Match, Works;
    /// yes: warn about key exchanges that a quantum computer could break; no-pq-kex and no: do not.
    /// Example: `WarnWeakCrypto no`
    warn_weak_crypto: WarnWeakCrypto = "yes", "WarnWeakCrypto", Match, Works;
    /// The largest number of dots in a name that CanonicalizeHostname completes.
    /// Example: `CanonicalizeMaxDots 0`
    canonicalize_max_dots: u32 = "1", "CanonicalizeMaxDots", Match, Works;
    /// Number of attempts to connect, one second apart.
    /// Example: `ConnectionAttempts 3`
    connection_attempts: u32 = "1", "ConnectionAttempts", Match, Works;
    /// How long after the login untrusted X11 clients may connect: seconds, or a time such as 1h; 0: for as
    /// long as the connection lasts.
    /// Example: `ForwardX11Timeout 1h`
    forward_x11_timeout: Seconds = "1200", "ForwardX11Timeout", Match, Works;
    /// Number of times to ask for a password, or for the passphrase of a key, before giving up.
    /// Example: `NumberOfPasswordPrompts 1`
    number_of_password_prompts: u32 = "3", "NumberOfPasswordPrompts", Match, Works;
    /// Number of keepalive messages (ServerAliveInterval) that may stay unanswered before the connection is
    /// given up.
    /// Example: `ServerAliveCountMax 2`
    server_alive_count_max: u32 = "3", "ServerAliveCountMax", Match, Works;
    /// Time without data from the server after which a keepalive message asks whether it lives: seconds, or a
    /// time such as 1m; 0: never, but a connection that can be resumed (Resume) is asked after 15 seconds.
    /// Example: `ServerAliveInterval 15`
    server_alive_interval: Seconds = "0", "ServerAliveInterval", Match, Works;
    /// The smallest RSA key that is accepted, of hosts and of users, in bits.
    /// Example: `RequiredRSASize 2048`
    required_rsa_size: u32 = "1024", "RequiredRSASize" ["RSAMinSize"], Match, Works;
    /// Send the keystrokes of terminals at even intervals, followed by packets without content, so that their
    /// timing reveals nothing: yes (every 20 ms), no, or interval:N for N milliseconds.
    /// Example: `ObscureKeystrokeTiming interval:50`
    obscure_keystroke_timing: ObscureKeystrokeTiming = "yes", "ObscureKeystrokeTiming", Match, Works;
    /// The local address to connect from.
    /// Default: the kernel's choice
    /// Example: `BindAddress 192.0.2.7`
    bind_address: Option<String> = "", "BindAddress", Match, Works;
    /// The network interface whose address to connect from.
    /// Default: the kernel's choice
    /// Example: `BindInterface eth1`
    bind_interface: Option<String> = "", "BindInterface", Match, Works;
    /// Packet ciphers, best first; + - ^ edit the default.
    /// Default: the list that `lhssh -G host` prints
    /// Example: `Ciphers ^aes256-gcm@openssh.com`
    ciphers: AlgorithmList = "", "Ciphers", Match, Works;
    /// Socket of the shared connection; none: share nothing. Takes tokens: %C, a hash of host, port, user and
    /// jump, makes it unique.
    /// Default: none
    /// Example: `ControlPath ~/.ssh/control-%C`
    control_path: Option<String> = "", "ControlPath", Match, Works;
    /// The name to look up in known_hosts and in host certificates, instead of the host's name.
    /// Default: the host's name
    /// Example: `HostKeyAlias cluster`
    host_key_alias: Option<String> = "", "HostKeyAlias", Match, Works;
    /// Kinds of host keys, best first; + - ^ edit the default.
    /// Default: the list that `lhssh -G host` prints, beginning with the kinds that are known of the host
    /// Example: `HostKeyAlgorithms ssh-ed25519`
    host_key_algorithms: AlgorithmList = "", "HostKeyAlgorithms", Match, Works;
    /// Kinds of keys for HostbasedAuthentication; + - ^ edit the default.
    /// Default: the list that `lhssh -G host` prints
    /// Example: `HostbasedAcceptedAlgorithms ssh-ed25519`
    hostbased_accepted_algorithms: AlgorithmList = "", "HostbasedAcceptedAlgorithms" ["HostbasedKeyTypes", "HostbasedAcceptedKeyTypes"], Match, Works;
    /// Socket of the agent: a path with tokens, SSH_AUTH_SOCK, $VARIABLE, or none.
    /// Default: the value of SSH_AUTH_SOCK
    /// Example: `IdentityAgent ~/.ssh/agent.sock`
    identity_agent: Option<String> = "", "IdentityAgent", Match, Works;
    /// Patterns of unknown keywords to ignore. The line must stand before the first such keyword. For files
    /// that other programs read, too.
    /// Default: none
    /// Example: `IgnoreUnknown UseKeychain,AddressBook*`
    ignore_unknown: Option<String> = "", "IgnoreUnknown", Match, Works;
    /// Devices to ask the server for in keyboard-interactive authentication.
    /// Default: the server's choice
    /// Example: `KbdInteractiveDevices pam`
    kbd_interactive_devices: Option<String> = "", "KbdInteractiveDevices", Match, Works;
    /// Key exchange methods, best first; + - ^ edit the default.
    /// Default: the list that `lhssh -G host` prints
    /// Example: `KexAlgorithms mlkem768x25519-sha256`
    kex_algorithms: AlgorithmList = "", "KexAlgorithms", Match, Works;
    /// Signature algorithms that certificate authorities of hosts may have used; + - ^ edit the default.
    /// Default: the list that `lhssh -G host` prints
    /// Example: `CASignatureAlgorithms -rsa-sha2-256`
    ca_signature_algorithms: AlgorithmList = "", "CASignatureAlgorithms", Match, Works;
    /// Command to run on this host after the login, by the user's shell. Takes tokens. Needs
    /// PermitLocalCommand yes.
    /// Default: none
    /// Example: `LocalCommand notify-send "connected to %n"`
    local_command: RestOfLine = "", "LocalCommand", Match, Works;
    /// Command to run on the server instead of a shell. Takes tokens.
    /// Default: none
    /// Example: `RemoteCommand tmux new -A -s main`
    remote_command: RestOfLine = "", "RemoteCommand", Match, Works;
    /// How much is logged: QUIET, FATAL, ERROR, INFO, VERBOSE, DEBUG (DEBUG1), DEBUG2 or DEBUG3.
    /// Example: `LogLevel VERBOSE`
    log_level: LogLevel = "INFO", "LogLevel", Match, Works;
    /// Message authentication codes, best first, for ciphers that need one; + - ^ edit the default.
    /// Default: the list that `lhssh -G host` prints
    /// Example: `MACs umac-64-etm@openssh.com`
    macs: AlgorithmList = "", "MACs", Match, Works;
    /// Library of PKCS#11 tokens, such as smart cards, whose keys are tried; none: no library.
    /// Default: none
    /// Example: `PKCS11Provider /usr/lib/x86_64-linux-gnu/opensc-pkcs11.so`
    pkcs11_provider: Option<String> = "", "PKCS11Provider" ["SmartcardDevice"], Match, Works;
    /// Authentication methods in the order in which to try them, separated by commas.
    /// Default: gssapi-with-mic,hostbased,publickey,keyboard-interactive,password
    /// Example: `PreferredAuthentications publickey,password`
    preferred_authentications: Option<String> = "", "PreferredAuthentications", Match, Works;
    /// Command whose standard input and output are the connection; none: connect directly. Takes %% %h %n %p
    /// %r.
    /// Default: none
    /// Example: `ProxyCommand nc -X 5 -x proxy:1080 %h %p`
    proxy_command: RestOfLine = "", "ProxyCommand", Match, Works;
    /// Jump hosts to connect through, in this order, separated by commas: user@host:port, of which the user
    /// and the port may be left out. Each uses the configuration of its own Host blocks. none: connect
    /// directly.
    /// Default: none
    /// Example: `ProxyJump ada@gateway:2222`
    proxy_jump: Option<String> = "", "ProxyJump", Match, Works;
    /// Files of host keys that are refused: key lists in text, or made by lhssh-keygen -k. A file that cannot
    /// be read refuses all.
    /// Default: none
    /// Example: `RevokedHostKeys /etc/ssh/revoked_hosts`
    revoked_host_keys: Words = "", "RevokedHostKeys", Match, Works;
    /// Program that prints lines of known_hosts for the host; they count like those of the files. Takes
    /// tokens.
    /// Default: none
    /// Example: `KnownHostsCommand /usr/local/bin/host-keys %t %H`
    known_hosts_command: RestOfLine = "", "KnownHostsCommand", Match, Works;
    /// Library that talks to FIDO security keys (keys whose type ends in -sk). internal means libfido2, where
    /// it is installed.
    /// Example: `SecurityKeyProvider /usr/local/lib/libsk-libfido2.so`
    security_key_provider: Option<String> = "internal", "SecurityKeyProvider", Match, Works;
    /// Signature algorithms for logging in by key; + - ^ edit the default.
    /// Default: the list that `lhssh -G host` prints
    /// Example: `PubkeyAcceptedAlgorithms +ssh-rsa`
    pubkey_accepted_algorithms: AlgorithmList = "", "PubkeyAcceptedAlgorithms" ["PubkeyAcceptedKeyTypes"], Match, Works;
    /// Path of the xauth program, which makes and reads X11 authorization data.
    /// Example: `XAuthLocation /usr/local/bin/xauth`
    xauth_location: Option<String> = "/usr/bin/xauth", "XAuthLocation", Match, Works;
    /// End with this text instead of connecting. For hosts that are gone, in a Host or Match block.
    /// Default: none
    /// Example: `RefuseConnection "moved to data2.example.org"`
    refuse_connection: Option<String> = "", "RefuseConnection", Match, Works;
    /// Text after our version in the identification line, which the server logs.
    /// Default: none
    /// Example: `VersionAddendum lab-7`
    version_addendum: RestOfLine = "", "VersionAddendum", Match, Works;
    /// Private key to try; may be repeated. Files of -i are tried first. none: no default keys. Takes tokens.
    /// Default: ~/.ssh/id_rsa, ~/.ssh/id_ecdsa, ~/.ssh/id_ecdsa_sk, ~/.ssh/id_ed25519, ~/.ssh/id_ed25519_sk,
    /// ~/.ssh/id_mldsa44_ed25519
    /// Example: `IdentityFile ~/.ssh/id_lab`
    identity_file: Files = "", "IdentityFile" ["IdentityFile2"], Match, Works;
    /// Domains with which CanonicalizeHostname completes short names, tried in this order.
    /// Example: `CanonicalDomains example.org lab.example.org`
    canonical_domains: CanonicalDomains = "none", "CanonicalDomains", Match, Works;
    /// Certificate to offer, of a key of IdentityFile or of the agent; may be repeated. Takes tokens.
    /// Default: the name of each identity file with -cert.pub behind it
    /// Example: `CertificateFile ~/.ssh/id_lab-cert.pub`
    certificate_file: Files = "", "CertificateFile", Match, Works;
    /// Files of known host keys that hold for all users.
    /// Example: `GlobalKnownHostsFile /etc/ssh/known_hosts.lab`
    global_known_hosts_file: Words = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2", "GlobalKnownHostsFile", Match, Works;
    /// The user's files of known host keys; new keys are added to the first one. none: no file. Takes tokens.
    /// Example: `UserKnownHostsFile ~/.ssh/known_hosts ~/.ssh/known_hosts.lab`
    user_known_hosts_file: Words = "~/.ssh/known_hosts ~/.ssh/known_hosts2", "UserKnownHostsFile", Match, Works;
    /// Patterns of environment variables to send to the server; -PATTERN removes what earlier lines have
    /// named. The server accepts those that its AcceptEnv names.
    /// Default: none
    /// Example: `SendEnv LANG LC_*`
    send_env: EnvPatterns = "", "SendEnv", Match, Works;
    /// Environment variables to set on the server, as NAME=VALUE; it accepts those that its AcceptEnv names.
    /// TERM is the type of the session's terminal, and needs no AcceptEnv.
    /// Default: none
    /// Example: `SetEnv OMP_NUM_THREADS=4`
    set_env: EnvValues = "", "SetEnv", Match, Works;
    /// Listen on this host as a SOCKS proxy whose connections the server makes: address:port or port.
    /// Default: none
    /// Example: `DynamicForward 1080`
    dynamic_forward: DynamicForwards = "", "DynamicForward", Match, Works;
    /// Listen on this host (address:port, port or the path of a socket); the server connects to the second
    /// word (host:port or the path of a socket).
    /// Default: none
    /// Example: `LocalForward 8080 intranet:80`
    local_forward: LocalForwards = "", "LocalForward", Match, Works;
    /// Listen on the server (address:port, port or the path of a socket); this host connects to the second
    /// word (host:port or the path of a socket). Without a second word, the server's listener is a SOCKS
    /// proxy.
    /// Default: none
    /// Example: `RemoteForward 9000 localhost:3000`
    remote_forward: RemoteForwards = "", "RemoteForward", Match, Works;
    /// Patterns file:module():line of places in the source code; messages from there are logged regardless of
    /// LogLevel.
    /// Example: `LogVerbose session.rs:*`
    log_verbose: LogVerbose = "none", "LogVerbose", Match, Works;
    /// Close channels that have been idle for a time: words kind=time. global=time closes all of them when
    /// none has had traffic for that time.
    /// Example: `ChannelTimeout session=30m direct-tcpip=5m`
    channel_timeout: ChannelTimeouts = "none", "ChannelTimeout", Match, Works;
    /// What a remote SOCKS forward (-R port) may connect to: host:port pairs, any or none.
    /// Example: `PermitRemoteOpen intranet:80 intranet:443`
    permit_remote_open: PermitForward = "any", "PermitRemoteOpen", Match, Works;
    /// Add keys to the agent when they are used: yes or no. ask: the user confirms that; confirm: the agent
    /// asks before each use of the key; a time: the agent forgets the key after it.
    /// Example: `AddKeysToAgent 8h`
    add_keys_to_agent: AddKeysToAgent = "no", "AddKeysToAgent", Match, Works;
    /// Let the server use the agent: yes, no, or the socket (or $VARIABLE) of another agent. Anyone who can
    /// read the user's files on the server can use its keys.
    /// Example: `ForwardAgent yes`
    forward_agent: ForwardAgent = "no", "ForwardAgent", Match, Works;
    /// How long connecting to each address may take, and again how long identification and key exchange may
    /// take: seconds, or a time such as 1m. With ProxyJump or ProxyCommand, one limit for all of it.
    /// Example: `ConnectTimeout 10`
    connect_timeout: SecondsOrNone = "none", "ConnectTimeout", Match, Works;
    /// Numbers of the tunnel's network devices, local or local:remote; any: the next free one.
    /// Example: `TunnelDevice 0:1`
    tunnel_device: TunnelDevice = "any:any", "TunnelDevice", Match, Works;
    /// Which CNAME records CanonicalizeHostname may follow, as source:target, each a list of patterns.
    /// Example: `CanonicalizePermittedCNAMEs *.lab.example.org:*.example.org`
    canonicalize_permitted_cnames: PermittedCnames = "none", "CanonicalizePermittedCNAMEs", Match, Works;
    /// How long the master stays in the background after its last session: yes (until lhssh -O exit), no, or
    /// a time.
    /// Example: `ControlPersist 10m`
    control_persist: ControlPersist = "no", "ControlPersist", Match, Works;
    /// The character that, after a newline, begins escapes such as ~. in terminal sessions: one character, ^
    /// and a letter, or none.
    /// Example: `EscapeChar ^B`
    escape_char: EscapeChar = "~", "EscapeChar", Match, Works;
    /// DSCP class of IP packets: the first word for sessions with a terminal, the second for all others; one
    /// word is for both. none: the system's default.
    /// Example: `IPQoS ef cs1`
    ip_qos: IpQos = "ef cs0", "IPQoS", Match, Works;
    /// Exchange keys again after this many bytes (or with K, M or G; default: as often as the cipher
    /// requires) and, as the second word, after this time: seconds, or a time such as 1h; none: no limit of
    /// time.
    /// Example: `RekeyLimit 16G 1h`
    rekey_limit: RekeyLimit = "default none", "RekeyLimit", Match, Works;
    /// File mode mask (umask) of the sockets of forwards, in octal.
    /// Example: `StreamLocalBindMask 0117`
    stream_local_bind_mask: OctalMask = "0177", "StreamLocalBindMask", Match, Works;
    /// Syslog facility of messages with -y.
    /// Example: `SyslogFacility LOCAL1`
    syslog_facility: SyslogFacility = "USER", "SyslogFacility", Match, Works;
    /// The name that Match tagged compares; -P sets it.
    /// Default: none
    /// Example: `Tag lab`
    tag: Option<String> = "", "Tag", Match, Works;

    /// HPN-SSH. yes: windows of channels grow with the bandwidth-delay product of the path; no: they keep the
    /// size of HPNBufferSize, or 2 MiB.
    /// Example: `TcpRcvBufPoll no`
    tcp_rcv_buf_poll: bool = "yes", "TcpRcvBufPoll", Match, Works;
    /// HPN-SSH. yes: windows keep a size of 2 MiB, regardless of other keywords.
    /// Example: `HPNDisabled yes`
    hpn_disabled: bool = "no", "HPNDisabled", Match, Works;
    /// HPN-SSH. yes: permit NoneSwitch, which turns encryption off after authentication. Has no effect by
    /// itself.
    /// Example: `NoneEnabled yes`
    none_enabled: bool = "no", "NoneEnabled", Match, Works;
    /// HPN-SSH. yes: turn encryption off after authentication; needs NoneEnabled on both ends. In a file it
    /// holds for commands and copies without any forwarding, on the command line for everything but
    /// terminals. Between Longhaul ends packets stay protected against changes.
    /// Example: `NoneSwitch yes`
    none_switch: bool = "no", "NoneSwitch", Match, Works;
    /// HPN-SSH. yes: where encryption is off (NoneSwitch), do without the MAC, too; needs NoneMacEnabled on
    /// the server.
    /// Example: `NoneMacEnabled yes`
    none_mac_enabled: bool = "no", "NoneMacEnabled", Match, Works;
    /// HPN-SSH. yes: use no worker threads for encryption, with any cipher.
    /// Example: `DisableMTAES yes`
    disable_mt_aes: bool = "no", "DisableMTAES", Match, Works;
    /// HPN-SSH. yes: use multipath TCP; plain TCP if the kernel or the server has none.
    /// Example: `UseMPTCP yes`
    use_mptcp: bool = "no", "UseMPTCP", Match, Works;
    /// HPN-SSH. yes: try the addresses of a name in parallel, IPv6 and IPv4 in turn (RFC 8305).
    /// Example: `HappyEyes yes`
    happy_eyes: bool = "no", "HappyEyes", Match, Works;
    /// HPN-SSH: milliseconds between the attempts of HappyEyes; 0 means 250.
    /// Example: `HappyDelay 100`
    happy_delay: u32 = "250", "HappyDelay", Match, Works;
    /// What to do when the connection breaks. yes: connect again and continue the session, for as long as the
    /// server keeps it (its ResumeGrace); a time: for this time at most; no: end. Servers without ResumeGrace
    /// do not support it; with them, lhscp and lhsftp log in again and resume their files. Our own keyword.
    /// Example: `Resume 1m`
    resume: Resume = "yes", "Resume", Match, Works;
    /// HPN-SSH. yes: write measurements of both ends of the connection (TCP_INFO, windows, bytes) to files
    /// while it lasts, as JSON lines; `longhaul report` draws them.
    /// Example: `Metrics yes`
    metrics: bool = "no", "Metrics", Match, Works;
    /// HPN-SSH: path of the files of Metrics, to which .local and .remote are appended. Setting it sets
    /// Metrics. Takes tokens, ~ and variables like ControlPath.
    /// Default: ./ssh_stack_metrics
    /// Example: `MetricsPath ~/metrics/%n`
    metrics_path: Option<String> = "", "MetricsPath", Match, Works;
    /// HPN-SSH: seconds between the samples of Metrics, also fractions such as 0.2.
    /// Default: 0.1 at first, then a twentieth of the time that the connection has lasted, at most 5
    /// Example: `MetricsInterval 0.2`
    metrics_interval: Interval = "5", "MetricsInterval", Match, Works;
    /// HPN-SSH. yes: connect to FallbackPort if Port cannot be reached. Has an effect only if Fallback or
    /// FallbackPort is configured, because the default port is 22 already.
    /// Example: `Fallback no`
    fallback: bool = "yes", "Fallback", Match, Works;
    /// HPN-SSH: the port that Fallback tries.
    /// Example: `FallbackPort 2222`
    fallback_port: Port = "22", "FallbackPort", Match, Works;
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
}

/// Keywords that are parsed and ignored: name, and whether OpenSSH reports that at its default log level.
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
