//! Recipes for clients that keep running: in the background, as masters, with forwards that are added and
//! cancelled.

use lh_interop::recipe::{RECIPE, Recipe};

/// Scripts that take the output of a client that goes to the background (`x=$(ssh -fN …)`), and messages from
/// there.
///
/// Covers: ssh -f; ssh -N; ssh -E; ssh_config ControlPersist
#[test]
fn output_is_complete_when_the_client_goes_to_the_background() {
    Recipe {
        tools: &["nc"],
        config: "Host *\n  User bob\n",
        client: r#"captured() { x=$(sh -c "$1" 2>/dev/null); echo "$1: $? $x"; x=$(sh -c "$1" 2>&1); echo "both: $? $x"; }
captured 'ssh -fN server'; captured 'ssh -fN -L 9011:x:1 server'; captured 'ssh -f server "echo a; sleep 0.5; echo b"'
captured 'ssh -o ControlMaster=auto -o ControlPersist=yes -S c1 server echo hi'; captured 'ssh -M -S c2 -fN server'
captured 'ssh -f -S c1 server echo through'; captured 'ssh -fN -S c1 -L 9012:x:1 server'
ssh -S c2 -O forward -L 22:x:1 x; for c in c1 c2; do ssh -S $c -O exit x; done
ssh -v -fN -L 9003:nosuch.invalid:1 server 2>v; ssh -E log -fN -L 9004:nosuch.invalid:1 server
ssh -f -L 9005:nosuch.invalid:1 server 'until [ -e done ]; do sleep 0.1; done' 2>quiet
for p in 9003 9004 9005; do nc -d 127.0.0.1 $p; done; ssh server touch done; grep -c 'open failed' v log quiet"#,
        sees: &["both: 0 bind [127.0.0.1]:9011: Address already in use\n", "v:1\nlog:1\nquiet:0\n"],
        ..RECIPE
    }
    .run();
}

/// A master that is told to add, cancel and stop forwards of every kind, and answers where it cannot.
///
/// Covers: ssh -O; ssh_config ControlPath; ssh_config ControlMaster
#[test]
fn forwards_added_to_a_master_and_cancelled() {
    Recipe {
        tools: &["nc", "curl"],
        config: "Host m\n  HostName server\n  User bob\n  ControlPath ~/.ssh/%C\n  ControlMaster auto\n",
        client: r#"ssh -MNf m; ssh -O check m 2>&1 | sed 's/pid=[0-9]*/pid/'; banner() { head -c 7; echo; }
ssh -O forward -L 9001:localhost:22 m; nc -d 127.0.0.1 9001 | banner; ssh -O forward -R 9002:localhost:22 m
ssh -O forward -R 0:localhost:22 m | tr 0-9 d | cut -c1; ssh -O forward -D 9003 m
exec 5< <(exec curl -sN --socks5 127.0.0.1:9003 telnet://127.0.0.1:22 --max-time 60 </dev/null); banner <&5; kill $!; exec 5<&-
ssh -O cancel -L 9001:localhost:22 m; echo $?; nc -z 127.0.0.1 9001; echo $?; ssh -O cancel -L 9001:localhost:22 m; echo $?
ssh -O cancel -R 9002:localhost:22 m; echo $?; ssh -O cancel -D 9003 m; echo $?; ssh -O forward m; echo $?
ssh -O bogus m; echo $?; ssh -O forward -L 22:localhost:22 m; echo $?
ssh -O forward -L 9004:localhost:22 -L 9005:localhost:22 m; nc -z 127.0.0.1 9005; echo $?
ssh -O forward -L $HOME/so:localhost:22 m; nc -U so -d | banner; ls -l so | cut -c1-10; ssh -O forward -L $HOME/so:localhost:22 m; echo $?
ssh -O forward -R /tmp/rs:$HOME/so m; ssh m 'nc -U /tmp/rs -d | head -c 7; echo; stat -c %a /tmp/rs; ls -l /tmp/rs | cut -c1'
ssh -O proxy m </dev/null | head -c 4 | od -c | head -1; ssh -O stop m; ssh -O check m; echo $?
ssh -o ControlMaster=no -o ControlPath=none m id -un; ssh -O exit m; echo $?; ssh -S none -O check m; echo $?
ssh -S /nonexistent/x -O exit m; echo $?; ssh -O check -S /dev/null m; echo $?"#,
        sees: &[
            "SSH-2.0\nsrw-------\n",
            "mux_client_forward: forwarding request failed: Port forwarding failed\n",
            "Control socket connect(/nonexistent/x): No such file or directory\n",
        ],
        ..RECIPE
    }
    .run();
}

/// Remote dynamic forwards, `GatewayPorts`, addresses to listen on, and forwards that fail.
///
/// Covers: ssh -R; ssh -g; ssh_config GatewayPorts; ssh_config ExitOnForwardFailure; ssh_config PermitRemoteOpen; sshd_config GatewayPorts
#[test]
fn listeners_by_address_and_remote_dynamic_forwards() {
    Recipe {
        tools: &["nc", "curl", "ss"],
        server: "GatewayPorts clientspecified\n",
        config: "Host *\n  User bob\n",
        client: r#"up() { until nc -z $1 $2; do sleep 0.02; done; }; down() { while nc -z $1 $2; do sleep 0.02; done; }; ports() { awk '{print $4}' | LC_ALL=C sort; }
ssh -N -R 1080 server & p=$!; up 127.0.0.1 1080; for v in 4 5; do nc -X $v -x 127.0.0.1:1080 -d 127.0.0.3 22 | head -c 7; echo; done
curl -s --socks5-hostname 127.0.0.1:1080 telnet://nosuch.invalid:22 </dev/null 2>/dev/null; echo $?; kill $p; wait $p; echo $?; down 127.0.0.1 1080
ssh -N -R 1080 -o PermitRemoteOpen='127.0.0.3:22 inner:*' server 2>/dev/null & p=$!; up 127.0.0.1 1080
nc -X 5 -x 127.0.0.1:1080 -d 127.0.0.3 22 | head -c 7; echo; nc -X 5 -x 127.0.0.1:1080 -d 127.0.0.2 22 2>/dev/null; echo $?; kill $p
for a in '*:7000' 127.0.0.5:7000 '[::1]:7000' :7000 localhost:7000 0.0.0.0:7000 bastion:7000 10.9.9.9:7000; do
    eventually ! grep ':1B58 [0-9A-F:]* 0A' /proc/net/tcp /proc/net/tcp6
    echo "== $a"; ssh -o ExitOnForwardFailure=yes -R "$a:server:22" server 'ss -Htln sport = :7000' | ports; done
for how in '-o ExitOnForwardFailure=yes -L' -L -R '-o ExitOnForwardFailure=yes -R'; do ssh $how 22:x:1 server echo said; echo $?; done
look() { ssh "$@" server 'ss -Htln "( sport = :7001 or sport = :7002 )"' | ports; }
look -g -L 7001:server:22; look -o GatewayPorts=yes -L 7001:server:22 -D 7002; look -L '*:7001:server:22' -L 127.0.0.7:7002:x:1
ssh -L 7001:x:1 -L 7001:y:1 server true; echo $?; ssh -L 70000:x:1 server true; echo $?
ssh -R 0:x:1 -R 0:y:2 server true 2>&1 | sed 's/[0-9]\{5\}/P/'"#,
        sees: &[
            "SSH-2.0\nSSH-2.0\n97\n",
            "== bastion:7000\n127.0.0.2:7000\n",
            "Warning: remote port forwarding failed for listen port 22\n",
            "Allocated port P for remote forward to y:2\n",
        ],
        differs: &[(
            "connect_to nosuch.invalid port 22: failed: Temporary failure in name resolution",
            "connect_to nosuch.invalid: unknown host (Temporary failure in name resolution)",
            "one form for all failures, with the port",
        )],
        ..RECIPE
    }
    .run();
}
