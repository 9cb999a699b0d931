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
    /// Made by [`load`](crate::client::load). Each field has its keyword's name and dereferences to its
    /// value.
    pub struct ClientSettings;

    /// The rows of `ssh_config`.
    pub static CLIENT_KEYWORDS;

    /// The user to log in as. A user on the command line (user@host, -l) comes first.
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
    /// yes: never ask for a password, a passphrase or about a host key; what would have to be asked fails
    /// instead. For scripts.
    /// Example: `BatchMode yes`
    batch_mode: bool = "no", "BatchMode", Match, Works;
    /// no: when CanonicalizeHostname finds no full name, end instead of using the name as typed.
    /// Example: `CanonicalizeFallbackLocal no`
    canonicalize_fallback_local: bool = "yes", "CanonicalizeFallbackLocal", Match, Works;
    /// yes: complete short names with the domains of CanonicalDomains, then read the configuration again
    /// under the full name. always does so for connections by ProxyCommand and ProxyJump too.
    /// Example: `CanonicalizeHostname yes`
    canonicalize_hostname: CanonicalizeHostname = "no", "CanonicalizeHostname", Match, Works;
    /// yes: compare the key with the one that known_hosts has for the address, too, and warn where they
    /// differ.
    /// Example: `CheckHostIP yes`
    check_host_ip: bool = "no", "CheckHostIP", Match, Works;
    /// yes: compress what is sent. Useful on slow lines only; it costs a core on fast ones.
    /// Example: `Compression yes`
    compression: bool = "no", "Compression", Match, Works;
    /// Share one connection among several sessions: yes makes this one the master that listens at
    /// ControlPath, auto uses a master or becomes one, ask and autoask have each use confirmed.
    /// Example: `ControlMaster auto`
    control_master: ControlMaster = "no", "ControlMaster", Match, Works;
    /// yes: let lhssh-keysign sign with the host's keys for HostbasedAuthentication. Only in the system's
    /// file.
    /// Example: `EnableSSHKeysign yes`
    enable_ssh_keysign: bool = "no", "EnableSSHKeysign", Match, Works;
    /// yes: drop all forwards of files and command line. lhscp and lhsftp set it.
    /// Example: `ClearAllForwardings yes`
    clear_all_forwardings: bool = "no", "ClearAllForwardings", Match, Works;
    /// yes: end when a forward that was asked for cannot be set up.
    /// Example: `ExitOnForwardFailure yes`
    exit_on_forward_failure: bool = "no", "ExitOnForwardFailure", Match, Works;
    /// The hash of fingerprints that are shown: sha256 or md5.
    /// Example: `FingerprintHash md5`
    fingerprint_hash: FingerprintHash = "sha256", "FingerprintHash", Match, Works;
    /// yes: forward X11 and set DISPLAY there. Who can read the user's files there can reach the local
    /// display.
    /// Example: `ForwardX11 yes`
    forward_x11: bool = "no", "ForwardX11", Match, Works;
    /// yes: forwarded X11 clients may do everything that local ones may. no: they are restricted, and let in
    /// for ForwardX11Timeout.
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
    /// yes: try to log in as this host's user, vouched for by the key of this host. Needs EnableSSHKeysign.
    /// Example: `HostbasedAuthentication yes`
    hostbased_authentication: bool = "no", "HostbasedAuthentication", Match, Works;
    /// yes: offer only the keys of IdentityFile and CertificateFile, even if the agent has more.
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
    /// yes: ProxyCommand hands over a connected socket on its standard output and ends.
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
    /// yes: remove an old socket before listening on its path.
    /// Example: `StreamLocalBindUnlink yes`
    stream_local_bind_unlink: bool = "no", "StreamLocalBindUnlink", Match, Works;
    /// What to do about host keys: ask (new ones), accept-new (take new ones), yes (refuse new ones) or no
    /// (take new ones and warn about changed ones). A changed key is refused by all but no.
    /// Example: `StrictHostKeyChecking accept-new`
    strict_host_key_checking: StrictHostKeyChecking = "ask", "StrictHostKeyChecking", Match, Works;
    /// Which idle connections the kernel probes: yes (or transport; the one to the server), all (those of TCP and X11
    /// forwards too) or no. Probes notice a dead host after hours; ServerAliveInterval does so within seconds.
    /// Example: `TCPKeepAlive all`
    tcp_keep_alive: TcpKeepAlive = "yes", "TCPKeepAlive" ["KeepAlive"], Match, Works;
    /// Ask for a tunnel between network devices: point-to-point (yes) or ethernet.
    /// Example: `Tunnel point-to-point`
    tunnel: Tunnel = "no", "Tunnel", Match, Works;
    /// Look for host keys in DNS (SSHFP): yes takes keys that signed answers vouch for, ask shows what was
    /// found.
    /// Example: `VerifyHostKeyDNS ask`
    verify_host_key_dns: YesNoAsk = "no", "VerifyHostKeyDNS", Match, Works;
    /// yes: show the host key as a picture.
    /// Example: `VisualHostKey yes`
    visual_host_key: bool = "no", "VisualHostKey", Match, Works;
    /// yes: add further keys that the server proves to have to known_hosts, and remove those it no longer
    /// has; ask: ask first. Only where the key was known and the files are the user's own.
    /// Example: `UpdateHostKeys ask`
    update_host_keys: YesNoAsk = "yes", "UpdateHostKeys", Match, Works;
    /// yes: ~C opens a command line for forwards in a session.
    /// Example: `EnableEscapeCommandline yes`
    enable_escape_commandline: bool = "no", "EnableEscapeCommandline", Match, Works;
    /// Warn about key exchanges that a quantum computer could break: yes, or no-pq-kex and no for silence.
    /// Example: `WarnWeakCrypto no`
    warn_weak_crypto: WarnWeakCrypto = "yes", "WarnWeakCrypto", Match, Works;
    /// The most dots a name may have to be completed by CanonicalizeHostname.
    /// Example: `CanonicalizeMaxDots 0`
    canonicalize_max_dots: u32 = "1", "CanonicalizeMaxDots", Match, Works;
    /// How often to try connecting, a second apart.
    /// Example: `ConnectionAttempts 3`
    connection_attempts: u32 = "1", "ConnectionAttempts", Match, Works;
    /// How long untrusted X11 clients are let in after the login; 0: always.
    /// Example: `ForwardX11Timeout 1h`
    forward_x11_timeout: Seconds = "1200", "ForwardX11Timeout", Match, Works;
    /// How often to ask for a password.
    /// Example: `NumberOfPasswordPrompts 1`
    number_of_password_prompts: u32 = "3", "NumberOfPasswordPrompts", Match, Works;
    /// How many keepalives may stay unanswered before the connection is given up.
    /// Example: `ServerAliveCountMax 2`
    server_alive_count_max: u32 = "3", "ServerAliveCountMax", Match, Works;
    /// Seconds without data from the server after which it is asked whether it lives; 0: never.
    /// Example: `ServerAliveInterval 15`
    server_alive_interval: Seconds = "0", "ServerAliveInterval", Match, Works;
    /// The smallest RSA key that is accepted, in bits, of hosts and users.
    /// Example: `RequiredRSASize 2048`
    required_rsa_size: u32 = "1024", "RequiredRSASize" ["RSAMinSize"], Match, Works;
    /// Send keystrokes of terminals at even distances with chaff after them, so that their timing reveals
    /// nothing: yes, no, or interval:N milliseconds (20).
    /// Example: `ObscureKeystrokeTiming interval:50`
    obscure_keystroke_timing: ObscureKeystrokeTiming = "yes", "ObscureKeystrokeTiming", Match, Works;
    /// The local address to connect from.
    /// Default: the kernel's choice
    /// Example: `BindAddress 192.0.2.7`
    bind_address: Option<String> = "", "BindAddress", Match, Works;
    /// The interface whose address to connect from.
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
    /// The name of the host in known_hosts and in certificates, instead of its real one.
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
    /// Patterns of keywords to pass over where they are unknown; before the first of them. For files that
    /// other programs read too.
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
    /// Command that is run here after the login, by the user's shell; takes tokens. Needs PermitLocalCommand
    /// yes.
    /// Default: none
    /// Example: `LocalCommand notify-send "connected to %n"`
    local_command: RestOfLine = "", "LocalCommand", Match, Works;
    /// Command that is run there instead of a shell; takes tokens.
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
    /// Order of authentication methods.
    /// Default: gssapi-with-mic,hostbased,publickey,keyboard-interactive,password
    /// Example: `PreferredAuthentications publickey,password`
    preferred_authentications: Option<String> = "", "PreferredAuthentications", Match, Works;
    /// Command whose standard input and output are the connection; none: connect directly. Takes %% %h %n %p
    /// %r.
    /// Default: none
    /// Example: `ProxyCommand nc -X 5 -x proxy:1080 %h %p`
    proxy_command: RestOfLine = "", "ProxyCommand", Match, Works;
    /// Hosts to go through, user@host:port separated by commas, of which only the host is needed, each with its own configuration; none:
    /// connect directly.
    /// Default: none
    /// Example: `ProxyJump ada@gateway:2222`
    proxy_jump: Option<String> = "", "ProxyJump", Match, Works;
    /// Files of host keys that are refused: key lists in text, or made by lhssh-keygen -k. A file that cannot
    /// be read refuses all.
    /// Default: none
    /// Example: `RevokedHostKeys /etc/ssh/revoked_hosts`
    revoked_host_keys: Words = "", "RevokedHostKeys", Match, Works;
    /// Program that prints lines of known_hosts for the host; it is read beside the files. Takes tokens.
    /// Default: none
    /// Example: `KnownHostsCommand /usr/local/bin/host-keys %t %H`
    known_hosts_command: RestOfLine = "", "KnownHostsCommand", Match, Works;
    /// Library for keys in hardware (-sk). internal, OpenSSH's built-in one, is not available.
    /// Example: `SecurityKeyProvider /usr/local/lib/libsk-libfido2.so`
    security_key_provider: Option<String> = "internal", "SecurityKeyProvider", Match, Works;
    /// Signature algorithms for logging in by key; + - ^ edit the default.
    /// Default: the list that `lhssh -G host` prints
    /// Example: `PubkeyAcceptedAlgorithms +ssh-rsa`
    pubkey_accepted_algorithms: AlgorithmList = "", "PubkeyAcceptedAlgorithms" ["PubkeyAcceptedKeyTypes"], Match, Works;
    /// Path of the xauth program.
    /// Example: `XAuthLocation /usr/local/bin/xauth`
    xauth_location: Option<String> = "/usr/bin/xauth", "XAuthLocation", Match, Works;
    /// End at once with this text instead of connecting; for hosts that are gone, in a Host or Match block.
    /// Default: none
    /// Example: `RefuseConnection "moved to data2.example.org"`
    refuse_connection: Option<String> = "", "RefuseConnection", Match, Works;
    /// Text after our version in the identification line, which the server logs.
    /// Default: none
    /// Example: `VersionAddendum lab-7`
    version_addendum: RestOfLine = "", "VersionAddendum", Match, Works;
    /// Private key to try; may be repeated, and files of -i come first. none: no default keys. Takes tokens.
    /// Default: ~/.ssh/id_rsa, ~/.ssh/id_ecdsa, ~/.ssh/id_ecdsa_sk, ~/.ssh/id_ed25519, ~/.ssh/id_ed25519_sk,
    /// ~/.ssh/id_mldsa44_ed25519
    /// Example: `IdentityFile ~/.ssh/id_lab`
    identity_file: Files = "", "IdentityFile" ["IdentityFile2"], Match, Works;
    /// Domains to complete short names with, in order.
    /// Example: `CanonicalDomains example.org lab.example.org`
    canonical_domains: CanonicalDomains = "none", "CanonicalDomains", Match, Works;
    /// Certificate to offer, for a key of IdentityFile or of the agent; may be repeated. Takes tokens.
    /// Default: the name of each identity file with -cert.pub behind it
    /// Example: `CertificateFile ~/.ssh/id_lab-cert.pub`
    certificate_file: Files = "", "CertificateFile", Match, Works;
    /// Host keys of the system.
    /// Example: `GlobalKnownHostsFile /etc/ssh/known_hosts.lab`
    global_known_hosts_file: Words = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2", "GlobalKnownHostsFile", Match, Works;
    /// Host keys of the user; new ones are added to the first file. none: no file. Takes tokens.
    /// Example: `UserKnownHostsFile ~/.ssh/known_hosts ~/.ssh/known_hosts.lab`
    user_known_hosts_file: Words = "~/.ssh/known_hosts ~/.ssh/known_hosts2", "UserKnownHostsFile", Match, Works;
    /// Patterns of environment variables to send; -PATTERN takes earlier ones out. The server takes those of
    /// its AcceptEnv.
    /// Default: none
    /// Example: `SendEnv LANG LC_*`
    send_env: EnvPatterns = "", "SendEnv", Match, Works;
    /// Environment variables to set there, as NAME=VALUE; the server takes those of its AcceptEnv.
    /// TERM is the type of the session's terminal, and needs no AcceptEnv.
    /// Default: none
    /// Example: `SetEnv OMP_NUM_THREADS=4`
    set_env: EnvValues = "", "SetEnv", Match, Works;
    /// Listen here as a SOCKS proxy that connects from the server: address:port or port.
    /// Default: none
    /// Example: `DynamicForward 1080`
    dynamic_forward: DynamicForwards = "", "DynamicForward", Match, Works;
    /// Listen here, connect from the server: address:port or port or a socket, then host:port or a socket.
    /// Default: none
    /// Example: `LocalForward 8080 intranet:80`
    local_forward: LocalForwards = "", "LocalForward", Match, Works;
    /// Listen on the server, connect from here: address:port or port or a socket, then host:port or a socket.
    /// Without the second it is a SOCKS proxy.
    /// Default: none
    /// Example: `RemoteForward 9000 localhost:3000`
    remote_forward: RemoteForwards = "", "RemoteForward", Match, Works;
    /// Places of our source, as file:module():line patterns, that log everything.
    /// Example: `LogVerbose session.rs:*`
    log_verbose: LogVerbose = "none", "LogVerbose", Match, Works;
    /// Kinds of channels that are closed when they are idle for a time, as kind=time; global=time ends all
    /// sessions when none has had traffic.
    /// Example: `ChannelTimeout session=30m direct-tcpip=5m`
    channel_timeout: ChannelTimeouts = "none", "ChannelTimeout", Match, Works;
    /// What a remote SOCKS forward (-R port) may reach: host:port pairs, any or none.
    /// Example: `PermitRemoteOpen intranet:80 intranet:443`
    permit_remote_open: PermitForward = "any", "PermitRemoteOpen", Match, Works;
    /// Put keys into the agent when they are used: yes, ask, confirm, or a time after which it forgets them.
    /// Example: `AddKeysToAgent 8h`
    add_keys_to_agent: AddKeysToAgent = "no", "AddKeysToAgent", Match, Works;
    /// Let the server use the agent: yes, no, or the socket (or $VARIABLE) of another agent. Who can read the
    /// user's files there can use its keys.
    /// Example: `ForwardAgent yes`
    forward_agent: ForwardAgent = "no", "ForwardAgent", Match, Works;
    /// How long connecting, identification and key exchange may take.
    /// Example: `ConnectTimeout 10`
    connect_timeout: SecondsOrNone = "none", "ConnectTimeout", Match, Works;
    /// Numbers of the tunnel's devices, local or local:remote; any: the next free one.
    /// Example: `TunnelDevice 0:1`
    tunnel_device: TunnelDevice = "any:any", "TunnelDevice", Match, Works;
    /// CNAMEs that may be followed when names are completed, as patterns source:target.
    /// Example: `CanonicalizePermittedCNAMEs *.lab.example.org:*.example.org`
    canonicalize_permitted_cnames: PermittedCnames = "none", "CanonicalizePermittedCNAMEs", Match, Works;
    /// How long the master stays after its last session: yes (until ssh -O exit), no, or a time.
    /// Example: `ControlPersist 10m`
    control_persist: ControlPersist = "no", "ControlPersist", Match, Works;
    /// The escape character of terminal sessions: a character, ^ and a letter, or none.
    /// Example: `EscapeChar ^B`
    escape_char: EscapeChar = "~", "EscapeChar", Match, Works;
    /// DSCP class of packets, of terminals and, as the second word, of everything else; none: leave it alone.
    /// Example: `IPQoS ef cs1`
    ip_qos: IpQos = "ef cs0", "IPQoS", Match, Works;
    /// Exchange keys again after this many bytes (with K, M or G) and, as the second word, after a time;
    /// default: what the cipher demands.
    /// Example: `RekeyLimit 16G 1h`
    rekey_limit: RekeyLimit = "default none", "RekeyLimit", Match, Works;
    /// File mode mask of forwarded Unix sockets, in octal.
    /// Example: `StreamLocalBindMask 0117`
    stream_local_bind_mask: OctalMask = "0177", "StreamLocalBindMask", Match, Works;
    /// Facility of the system's log for -y.
    /// Example: `SyslogFacility LOCAL1`
    syslog_facility: SyslogFacility = "USER", "SyslogFacility", Match, Works;
    /// A name that Match tagged looks for; -P sets it.
    /// Default: none
    /// Example: `Tag lab`
    tag: Option<String> = "", "Tag", Match, Works;

    /// HPN-SSH: windows grow with the path; no fixes them, at HPNBufferSize or 2 MiB.
    /// Example: `TcpRcvBufPoll no`
    tcp_rcv_buf_poll: bool = "yes", "TcpRcvBufPoll", Match, Works;
    /// HPN-SSH: yes keeps windows at 2 MiB, regardless of other keywords.
    /// Example: `HPNDisabled yes`
    hpn_disabled: bool = "no", "HPNDisabled", Match, Works;
    /// HPN-SSH: yes allows that nothing is encrypted after authentication. By itself it changes nothing: see
    /// NoneSwitch.
    /// Example: `NoneEnabled yes`
    none_enabled: bool = "no", "NoneEnabled", Match, Works;
    /// HPN-SSH: do without encryption after authentication; needs NoneEnabled here and there. In a file, for
    /// commands and copies without any forwarding; on the command line, for everything but terminals. Between
    /// Longhaul ends packets stay tamper-proof.
    /// Example: `NoneSwitch yes`
    none_switch: bool = "no", "NoneSwitch", Match, Works;
    /// HPN-SSH: drop the MAC with the cipher; needs NoneMacEnabled on the server too.
    /// Example: `NoneMacEnabled yes`
    none_mac_enabled: bool = "no", "NoneMacEnabled", Match, Works;
    /// HPN-SSH: no threads for ciphers, whichever cipher it is.
    /// Example: `DisableMTAES yes`
    disable_mt_aes: bool = "no", "DisableMTAES", Match, Works;
    /// HPN-SSH: use multipath TCP; plain TCP where the kernel or the server has none.
    /// Example: `UseMPTCP yes`
    use_mptcp: bool = "no", "UseMPTCP", Match, Works;
    /// HPN-SSH: try addresses side by side, IPv6 and IPv4 in turn (RFC 8305).
    /// Example: `HappyEyes yes`
    happy_eyes: bool = "no", "HappyEyes", Match, Works;
    /// HPN-SSH: milliseconds between those tries; 0 is the default.
    /// Example: `HappyDelay 100`
    happy_delay: u32 = "250", "HappyDelay", Match, Works;
    /// When the connection breaks, connect again and go on where it broke, for as long as the server keeps the
    /// session (ResumeGrace), or for this time at most. Has no effect with servers that do not offer it. Copies
    /// (lhscp, lhsftp) that could not go on log in again and resume their files. Our own keyword.
    /// Example: `Resume 1m`
    resume: Resume = "yes", "Resume", Match, Works;
    /// HPN-SSH: write figures of both ends of the connection (TCP_INFO, windows, bytes) to files while it
    /// lasts, as JSON lines; `longhaul report` draws them.
    /// Example: `Metrics yes`
    metrics: bool = "no", "Metrics", Match, Works;
    /// HPN-SSH: where to write them: this path with .local and .remote behind it. Setting it sets Metrics.
    /// Takes tokens, ~ and variables as ControlPath.
    /// Default: ./ssh_stack_metrics
    /// Example: `MetricsPath ~/metrics/%n`
    metrics_path: Option<String> = "", "MetricsPath", Match, Works;
    /// HPN-SSH: seconds between samples; fractions such as 0.2 will do. Unless it is set, samples are taken
    /// every 0.1 s at first and less and less often, down to every 5 s.
    /// Example: `MetricsInterval 0.2`
    metrics_interval: Interval = "5", "MetricsInterval", Match, Works;
    /// HPN-SSH: try FallbackPort when the port cannot be reached. Only where one of the two is configured:
    /// the default port is 22 already, where HPN-SSH falls back to.
    /// Example: `Fallback no`
    fallback: bool = "yes", "Fallback", Match, Works;
    /// HPN-SSH: the port of Fallback.
    /// Example: `FallbackPort 2222`
    fallback_port: Port = "22", "FallbackPort", Match, Works;
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
