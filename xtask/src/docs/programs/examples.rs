//! The EXAMPLES of the manual pages: tasks, each with its commands.
//!
//! `interop/tests/manual_examples.rs` includes this file and runs them.

/// A task, and its commands.
pub(crate) type Example = (&'static str, &'static str);

/// The examples of each page.
pub(crate) const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "lhssh",
        &[
            ("Run a command:", "lhssh ada@data1 uname -a"),
            ("Reach a host behind a gateway:", "lhssh -J ada@gateway inside"),
            (
                "Forward a local port to a web server there, and be a SOCKS proxy, without a session:",
                "lhssh -N -L 8080:intranet:80 -D 1080 data1",
            ),
            ("Stream a tree:", "tar cf - results | lhssh data1 'tar xf - -C /data'"),
            (
                "Share one connection among many commands:",
                "lhssh -M -S ~/.ssh/s -f -N data1\nlhssh -S ~/.ssh/s data1 hostname\nlhssh -S ~/.ssh/s -O \
                exit data1",
            ),
            ("Show what the configuration means for a host:", "lhssh -G data1"),
        ],
    ),
    (
        "lhscp",
        &[
            (
                "Copy a tree up, and files by a pattern down:",
                "lhscp -r results data1:/data/\nlhscp 'data1:/data/results/*.csv' .",
            ),
            ("Keep everything that can be kept:", "lhscp -r --preserve tree data1:backup/"),
            ("Read back all that was written, and compare:", "lhscp --verify big.h5 data1:/data/"),
            (
                "Copy part of a tree; see what would be copied first:",
                "lhscp -r --dry-run --exclude '*.tmp' --exclude cache/ results data1:/data/\nlhscp -r \
                --manifest list.txt results data1:/data/",
            ),
            (
                "Keep a copy up to date, every night:",
                "lhscp --sync --delete --max-delete 1000 results data1:/data/",
            ),
            ("Send evenly, at 800 Mbit/s:", "lhscp --pace 800M big.h5 data1:/data/"),
            (
                "Spread a tree over four processes:",
                "seq 4 | xargs -P 4 -I{} lhscp -rq --shard {}/4 results data1:/data/",
            ),
            (
                "Leave a list of all copied files with their sums; copy what failed once more:",
                "lhscp -r --manifest-out results.manifest --failed-out failed results data1:/data/\nlhscp -r \
                --manifest failed results data1:/data/",
            ),
            (
                "Copy at night, also when the network fails for hours:",
                "lhscp -rq --retry-for 12h results data1:/data/",
            ),
            (
                "Be read by a program:",
                "lhscp -r --json results data1:/data/ | jq 'select(.event == \"end\")'",
            ),
            ("Copy between two servers through this host:", "lhscp -3 one:/data/big.h5 two:/data/"),
        ],
    ),
    (
        "lhsftp",
        &[
            ("Look around:", "lhsftp data1\nsftp> cd /data\nsftp> ls -lt\nsftp> get -R results"),
            (
                "A batch, as from cron:",
                "printf 'cd /drop\\nput report.csv\\n-rm report.old\\n' | lhsftp -b - data1",
            ),
            ("Continue an upload:", "echo 'reput big.h5' | lhsftp -b - data1:/data"),
        ],
    ),
    (
        "lhsftp-server",
        &[
            ("In another server's sshd_config:", "Subsystem sftp /usr/local/sbin/lhsftp-server -l INFO"),
            (
                "Read only, beginning in /pub; in lhsshd's configuration:",
                "Subsystem sftp internal-sftp -R -d /pub",
            ),
            ("An upload-only drop box:", "ForceCommand internal-sftp -d /drop -P read,readdir,remove"),
            ("The names of requests for -P and -p:", "lhsftp-server -Q requests"),
        ],
    ),
    (
        "lhsshd",
        &[
            (
                "Check a configuration, and print what it means for one user:",
                "lhsshd -t -f /etc/ssh/lhsshd_config\nlhsshd -T -f /etc/ssh/lhsshd_config -C \
                user=ada,addr=192.0.2.7",
            ),
            (
                "A server for oneself, in the foreground:",
                "lhssh-keygen -q -t ed25519 -N '' -f ~/host_key\nlhsshd -D -e -f none -p 2222 -h ~/host_key \
                -o ListenAddress=127.0.0.1 \\\n    -o 'Subsystem=sftp internal-sftp' -o PidFile=none",
            ),
            ("Show one connection in every detail:", "lhsshd -ddd -p 2222"),
            (
                "A key that may run backups from one network only, in authorized_keys:",
                "restrict,command=\"rrsync -ro /data\",from=\"192.0.2.0/24\" ssh-ed25519 AAAA... backup",
            ),
        ],
    ),
    (
        "lhssh-keygen",
        &[
            (
                "Make a key, and show its fingerprint:",
                "lhssh-keygen -t ed25519 -f ~/.ssh/id_lab\nlhssh-keygen -l -f ~/.ssh/id_lab.pub",
            ),
            ("Forget a host whose key has changed:", "lhssh-keygen -R data1"),
            (
                "Sign a certificate for a user, good for a day:",
                "lhssh-keygen -s ca -I ada@lab -n ada -V +1d id_lab.pub",
            ),
            (
                "Sign a certificate for a host:",
                "lhssh-keygen -s host_ca -h -I data1 -n data1,data1.example.org ssh_host_ed25519_key.pub",
            ),
            ("Revoke a certificate:", "lhssh-keygen -k -f revoked -u id_lab-cert.pub"),
            (
                "Sign a file, and verify it:",
                "lhssh-keygen -Y sign -f id_lab -n file data.csv\nlhssh-keygen -Y verify -f allowed_signers \
                -I ada@lab -n file -s data.csv.sig < data.csv",
            ),
        ],
    ),
    (
        "lhssh-agent",
        &[
            (
                "For a shell and everything started from it:",
                "eval \"$(lhssh-agent)\"\nlhssh-add ~/.ssh/id_ed25519",
            ),
            ("For one command:", "lhssh-agent sh -c 'lhssh-add && lhscp -r results data1:/data/'"),
            (
                "On a socket of a fixed name, where keys are forgotten after eight hours:",
                "lhssh-agent -a ~/.ssh/agent.sock -t 8h",
            ),
        ],
    ),
    (
        "lhssh-add",
        &[
            ("Add a key for eight hours, confirmed at each use:", "lhssh-add -c -t 8h ~/.ssh/id_lab"),
            ("List, and remove all:", "lhssh-add -l\nlhssh-add -D"),
            (
                "A key that the forwarded agent uses for one host only, through a gateway:",
                "lhssh-add -h gateway -h 'gateway>ada@data1' ~/.ssh/id_lab",
            ),
        ],
    ),
    (
        "lhssh-keyscan",
        &[
            (
                "Collect keys of some hosts, and look at the fingerprints:",
                "lhssh-keyscan -t ed25519 data1 data2 > keys\nlhssh-keygen -l -f keys",
            ),
            ("Of a list of hosts, with hashed names:", "lhssh-keyscan -H -f hosts.txt"),
            ("As DNS records:", "lhssh-keyscan -D data1"),
        ],
    ),
    (
        "longhaul",
        &[
            ("Find out what limits a path:", "longhaul doctor data1"),
            (
                "Measure a path beside OpenSSH's client, and fail when it has become slower:",
                "longhaul bench --json --peer stock=/usr/bin/ssh data1 >new.json\nlonghaul compare old.json \
                new.json --fail-below 0.9",
            ),
            (
                "Draw a copy:",
                "lhscp -o Metrics=yes big.h5 data1:/data/\nlonghaul report ssh_stack_metrics.local \
                ssh_stack_metrics.remote",
            ),
            ("As a table for another program:", "longhaul report --csv -o - ssh_stack_metrics.local | head"),
            (
                "Prove that a copy is right, now or later:",
                "lhscp -r --manifest-out results.manifest results data1:/data/\nlonghaul verify \
                results.manifest",
            ),
            (
                "Resume what was cut off, and remove what nothing has worked on for a month:",
                "longhaul transfers\nlonghaul transfers resume 3f2a\nlonghaul transfers clean --older-than 30d",
            ),
            (
                "See which sessions wait for their clients, and end one:",
                "longhaul sessions\nlonghaul sessions --end 388a",
            ),
            (
                "Check another place, and report files that nothing has copied there:",
                "longhaul verify --extra results.manifest backup1:/srv/data",
            ),
        ],
    ),
    (
        "lhssh-keysign",
        &[(
            "Install it, as root:",
            "install -m 4711 target/release/lhssh-keysign /usr/libexec/lhssh-keysign",
        )],
    ),
    ("lhssh-sk-helper", &[("Make a key in hardware:", "lhssh-keygen -t ed25519-sk")]),
    (
        "lhssh-pkcs11-helper",
        &[("List the keys of a smart card:", "lhssh-keygen -D /usr/lib/x86_64-linux-gnu/opensc-pkcs11.so")],
    ),
];
