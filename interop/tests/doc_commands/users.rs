//! Scenes of users: they copy, look and measure, without root's help.

use lh_interop::page_machine::By::{Me, Root};

use crate::scene::Scene;

/// `device` has no SFTP, and `two` has other files in `/data` than this machine.
pub(crate) const USERS: Scene = Scene {
    tools: &["git", "jq", "curl", "python3"],
    setup: r#"
serve device 'Port 2200
Subsystem none /bin/false'
listening 2200
mkdir /flash /srv/two /srv/web
chmod 777 /flash /srv/two
cp /home/me/big.h5 /data/big.h5
chown me:me /data/big.h5
unshare --mount sh -ec 'mount --bind /srv/two /data
exec /usr/sbin/lhsshd -p 2202 -f /etc/ssh/lhsshd_config -o UsePAM=no -o PidFile=/run/two.pid -E /var/log/sshd-two.log'
listening 2202
echo page >/srv/web/page
(cd /srv/web && exec python3 -m http.server --bind 127.0.0.1 80) </dev/null >/dev/null 2>&1 &
listening 80
git init -q -b main /home/me/repo.git
git -C /home/me/repo.git -c user.name=me -c user.email=me@server commit -q --allow-empty -m first
"#,
    commands: &[
        (
            "docs/quick-start.md",
            &[
                ("GIT_SSH_COMMAND=", Me, "run; git -C repo log --format=%s | grep -x first"),
                (
                    "lhssh -N -L",
                    Me,
                    r#"
run & forward=$!
listening 8080
curl -s http://localhost:8080/page | grep -x page
kill $forward
"#,
                ),
            ],
        ),
        (
            "docs/copying.md",
            &[
                ("lhscp -3 ", Me, "run; cmp big.h5 /srv/two/big.h5; rm /srv/two/big.h5"),
                ("lhscp -R ", Me, "run; cmp big.h5 /srv/two/big.h5; rm /srv/two/big.h5"),
                ("lhscp -O ", Me, "run; cmp big.h5 /flash/big.h5; fails lhscp big.h5 device:/flash/"),
            ],
        ),
        (
            "docs/long-paths.md",
            &[
                ("lhscp -r results server", Me, "run; diff -r results /data/results; rm -r /data/results"),
                ("lhscp --pace", Me, "rm /data/big.h5; run; cmp big.h5 /data/big.h5"),
                (
                    "lhscp -o Metrics",
                    Me,
                    "run; [ -s ssh_stack_metrics.local ]; [ -s ssh_stack_metrics.remote ]",
                ),
                (
                    "longhaul report",
                    Me,
                    "run; grep -q '</html>' report.html; rm report.html ssh_stack_metrics.*",
                ),
            ],
        ),
        (
            "docs/metrics.md",
            &[
                (
                    "lhscp -o Metrics",
                    Me,
                    "rm /data/big.h5; run; cmp big.h5 /data/big.h5; [ \"$(stat -c %U /data/big.h5)\" = user ]",
                ),
                ("longhaul report ssh", Me, "run; grep -q '</html>' report.html; rm report.html"),
                (
                    "longhaul report --csv",
                    Me,
                    "run >table; grep -q '^[^,]*,.*cpu' table; [ $(wc -l <table) -gt 1 ]",
                ),
            ],
        ),
        (
            "docs/json.md",
            &[(
                "lhscp -r --json",
                Me,
                "[ \"$(run)\" = 'complete 2 files 100008 bytes' ]; rm -r /data/results",
            )],
        ),
        (
            "docs/journals.md",
            &[
                (
                    // The number is that of a copy that was cut off.
                    "longhaul transfers resume",
                    Me,
                    r#"
lhscp -q -l 2000 big.h5 server:/data/resumed & copy=$!
eventually sh -c 'find /data -name ".resumed.*" -size +64k | grep .'
kill -TERM $copy
wait $copy || :
[ ! -e /data/resumed ]
id=$(longhaul transfers | grep -o '^[0-9a-f]\{4\}')
command=${command/3f2a/$id}
run
cmp big.h5 /data/resumed
"#,
                ),
                (
                    "longhaul transfers clean",
                    Me,
                    r#"
lhscp -q -l 2000 big.h5 server:/data/cleaned & copy=$!
eventually sh -c 'find /data -name ".cleaned.*" -size +64k | grep .'
kill -TERM $copy
wait $copy || :
id=$(longhaul transfers | grep -o '^[0-9a-f]\{4\}')
command=${command/3f2a/$id}
run
[ -z "$(find /data -name '.cleaned.*')" ]
longhaul transfers | grep -x 'no unfinished transfers'
"#,
                ),
                (
                    "XDG_STATE_HOME=",
                    Me,
                    "chmod -w .; run; chmod +w .; diff -r results /data/results; [ -d /var/tmp/longhaul-me ]; rm -r /data/results",
                ),
            ],
        ),
        (
            "docs/keys.md",
            &[
                (
                    "lhssh-keyscan",
                    Me,
                    "run; [ \"$(tail -1 .ssh/known_hosts)\" = \"server $(cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub)\" ]",
                ),
                ("lhssh-keygen -F server", Me, "run | grep ssh-ed25519"),
                (
                    "lhssh-keygen -R server",
                    Me,
                    "cp .ssh/known_hosts saved; run; fails lhssh-keygen -F server; mv saved .ssh/known_hosts",
                ),
            ],
        ),
        (
            "docs/server.md",
            &[
                ("curl -s http://127.0.0.1:9122", Me, "run | grep '^lhsshd_sessions'"),
                (
                    "longhaul sessions",
                    Me,
                    r#"
lhssh server 'touch /tmp/session; exec sleep 1000' & session=$!
eventually test -e /tmp/session
id=$(longhaul sessions | grep ' command .* connected' | grep -o '^[0-9a-f]*')
command=${command/388a569b/$id}
run >said
case $command in
*--end*) grep -x "$id: ended" said; fails wait $session ;;
*) grep '^ID  *USER  *FROM  *SINCE  *RUNS  *STATE' said; kill $session ;;
esac
rm /tmp/session
"#,
                ),
                (
                    "ps -C lhsshd-session",
                    Me,
                    r#"
lhssh -tt server 'touch /tmp/session; exec sleep 1000' & session=$!
eventually test -e /tmp/session
run >said
grep '^root .* lhsshd-session: me \[priv\]$' said
grep '^me .* lhsshd-session: me@pts/[0-9]*$' said
kill $session
"#,
                ),
            ],
        ),
        (
            "docs/troubleshooting.md",
            &[
                ("lhssh -G host", Me, "[ \"$(run)\" = 'user me' ]"),
                ("lhssh -G -v host", Me, "run | grep 'Applying options for'"),
                ("lhssh -G -vvv host", Me, "run | grep -i match"),
            ],
        ),
    ],
};

/// Watches a download, whose process stands in for that of the page. The view ends by a signal, or with the
/// process.
const WATCH: &str = r#"
cd /home/me
me() { if [ $(id -u) = 0 ]; then as_me "$@"; else "$@"; fi; }
me sh -c 'cd; echo $$ >/tmp/client; exec lhssh -o Metrics=yes -o MetricsInterval=1 user@host \
    "while head -c 1000000 /dev/zero; do sleep 0.1; done"' >/dev/null & job=$!
eventually test -s ssh_stack_metrics.remote
client=$(cat /tmp/client)
command="exec ${command/4711/$client}"
run >/tmp/said 2>&1 & view=$!
eventually grep -q '[0-9] [kM]B/s' /tmp/said || { cat /tmp/said; exit 1; }
case $command in
*$client*) kill $client; wait $view ;;
*) kill $view; wait $view || [ $? = 143 ]; kill $client ;;
esac
wait $job || :
rm /tmp/client /tmp/said ssh_stack_metrics.*
"#;

/// Measurements: half a minute each, in which most processes wait.
pub(crate) const MEASURING: Scene = Scene {
    tools: &["ss"],
    setup: r#"
result() {
    printf '{"longhaul_bench":1,"host":"user@host","server":"SSH-2.0-Longhaul_0","missing":[],"rows":[%s]}\n' \
        '{"table":"throughput by cipher and MAC, through a pipe","row":"aes128-gcm","column":"up","unit":"bytes_per_second","values":['$1']}'
}
result 100e6,101e6,102e6 >/home/me/old.json
result 97e6,98e6,101.5e6 >/home/me/new.json
"#,
    commands: &[(
        "docs/measuring.md",
        &[
            (
                "longhaul doctor user@host",
                Me,
                "run | tee said; grep '^longhaul doctor: ' said; grep '^  upload  *[0-9.]* .B/s' said; \
                 [ -z \"$(ls -A /home/user | grep longhaul)\" ]",
            ),
            ("longhaul doctor --watch user@host", Me, WATCH),
            // Of a process the view needs root where `kernel.yama.ptrace_scope` is not 0.
            ("longhaul doctor --watch 4711", Root, WATCH),
            ("longhaul doctor --watch ssh_stack_metrics", Me, WATCH),
            ("longhaul compare", Me, "run >said; cat said; grep 'aes128-gcm' said"),
            ("longhaul report -o runs.html", Me, "run; grep -q '</html>' runs.html"),
        ],
    )],
};
