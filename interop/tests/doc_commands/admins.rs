//! Scenes of administrators: root sets up the machine, and a user installs for herself.

use lh_interop::page_machine::By::{Me, Root};

use crate::scene::Scene;

/// `diff` shows keywords that one server alone knows, but each line is a keyword with a value, and no port
/// differs.
const DIFFERENCES: &str = r#"
run >said || [ $? = 1 ]
cat said
grep -qx '> pamservicename sshd' said
fails grep '^[<>] port ' said
fails grep -Ev '^([<>] [a-z0-9]+ .+|[0-9,]+[acd][0-9,]+|---)$' said
"#;

/// Packages that the page installs exist: they are not installed, and a machine without lists of packages
/// cannot tell. The compiler's platform in front of them is not added.
const SIMULATED: &str = r#"
if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
    echo 'no lists of packages'
    exit 0
fi
command=${command##*&& }
[[ $command = 'apt install '* ]]
command="apt-get --simulate ${command#apt }"
run >said
grep '^Inst \| already the newest version' said
"#;

/// A machine with OpenSSH's server on port 22, and Longhaul's beside it.
pub(crate) const ADMINS: Scene = Scene {
    tools: &["sysctl", "ip"],
    setup: "",
    commands: &[
        (
            "docs/long-paths.md",
            &[
                (
                    "sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem",
                    Root,
                    "run >said; for name in rmem wmem; do grep -E \"^net.ipv4.tcp_$name = [0-9]+\\s[0-9]+\\s[0-9]+$\" said; done",
                ),
                (
                    "sysctl -w net.ipv4.tcp_rmem",
                    Root,
                    "run; [ \"$(sysctl -n net.ipv4.tcp_rmem)\" = $'4096\\t131072\\t67108864' ]",
                ),
                (
                    "sysctl -w net.ipv4.tcp_wmem",
                    Root,
                    "run; [ \"$(sysctl -n net.ipv4.tcp_wmem)\" = $'4096\\t65536\\t67108864' ]",
                ),
                ("sysctl net.ipv4.tcp_available", Root, "run | grep '= .*cubic'"),
                (
                    // Not every kernel has it.
                    "sysctl -w net.ipv4.tcp_congestion_control",
                    Root,
                    "if sysctl net.ipv4.tcp_available_congestion_control | grep -w bbr; then
                        run; [ \"$(sysctl -n net.ipv4.tcp_congestion_control)\" = bbr ]
                    else
                        fails run
                    fi",
                ),
            ],
        ),
        (
            "docs/beside-sshd.md",
            &[
                ("lhssh -p 2222 localhost", Me, "[ \"$(echo 'id -un' | run)\" = me ]"),
                // `diff` finds differences, and each is between two values.
                ("diff <(sshd -T", Root, DIFFERENCES),
            ],
        ),
        (
            "docs/migrating.md",
            &[("lhsshd -t -f /etc/ssh/sshd_config", Root, ""), ("diff <(sshd -T", Root, DIFFERENCES)],
        ),
        (
            "docs/pam.md",
            &[
                ("lhsshd -t -f /etc/ssh/lhsshd_config", Root, ""),
                (
                    "lhsshd -T -f /etc/ssh/lhsshd_config",
                    Root,
                    "run >said; grep -x 'pamservicename lhsshd' said; grep '^usepam ' said",
                ),
            ],
        ),
        (
            "docs/oidc.md",
            &[
                ("groupadd --system opksshuser", Root, "run; getent group opksshuser"),
                ("useradd -r -M", Root, "run; [ \"$(id -gn opksshuser)\" = opksshuser ]"),
                (
                    "chown root:opksshuser",
                    Root,
                    "mkdir /etc/opk; touch /etc/opk/providers /etc/opk/auth_id; run",
                ),
                (
                    "chmod 640",
                    Root,
                    "run; [ \"$(stat -c %U:%G:%a /etc/opk/auth_id)\" = root:opksshuser:640 ]",
                ),
                (
                    "install -o root -g opksshuser",
                    Root,
                    "run; [ \"$(stat -c %U:%G:%a /var/log/opkssh.log)\" = root:opksshuser:660 ]",
                ),
            ],
        ),
        (
            "docs/install.md",
            &[
                ("apt install gcc", Root, SIMULATED),
                ("rustup target add", Root, SIMULATED),
                ("apt install qemu-user", Root, SIMULATED),
            ],
        ),
        ("docs/fips.md", &[("apt install cmake", Root, SIMULATED)]),
        ("RELEASING.md", &[("apt install minisign", Root, SIMULATED)]),
        (
            "docs/performance.md",
            &[
                // `PID` stands for a process.
                (
                    "cat /proc/PID/schedstat",
                    Me,
                    "command=${command/PID/$$}; run | grep -E '^[0-9]+ [0-9]+ [0-9]+$'",
                ),
                ("awk '{print $16", Me, "command=${command/PID/$$}; run | grep -E '^[0-9]+$'"),
            ],
        ),
    ],
};

/// A checkout in which the programs are built. Each is a script that calls the one of the test.
pub(crate) const CHECKOUT: Scene = Scene {
    tools: &["install", "git"],
    setup: r#"
git init -q -b main /srv/longhaul.git
git -C /srv/longhaul.git -c user.name=me -c user.email=me@server commit -q --allow-empty -m first
chown -R me:me /srv/longhaul.git
for home in /root /home/me; do
    mkdir -p $home/longhaul/target/release
    for program in /opt/longhaul/*; do
        case $program in *.d | *.rlib | *.so) continue ;; esac
        if [ -f $program ]; then
            printf '#!/bin/sh\nexec %s "$@"\n' $program >$home/longhaul/target/release/${program##*/}
            chmod 755 $home/longhaul/target/release/${program##*/}
        fi
    done
    mkdir $home/longhaul/target/release/openssh-names
    for name in ssh scp sftp; do ln -s /opt/longhaul/lh$name $home/longhaul/target/release/openssh-names/$name; done
done
"#,
    commands: &[
        (
            "README.md",
            &[(
                "export PATH=",
                Me,
                "cd longhaul; run; [ \"$(type -p lhscp)\" = ~/longhaul/target/release/lhscp ]; lhssh -V",
            )],
        ),
        (
            "docs/install.md",
            &[
                (
                    // The address is that of the reader's copy.
                    "git clone REPOSITORY",
                    Me,
                    "mkdir clones; cd clones; ln -s /srv/longhaul.git REPOSITORY; run; \
                     [ \"$PWD\" = /home/me/clones/longhaul ]; git log --format=%s | grep -x first",
                ),
                ("mkdir -p ~/.local/bin", Me, ""),
                (
                    "for program in lhssh",
                    Me,
                    "cd longhaul; run; for name in lhssh lhscp longhaul; do ~/.local/bin/$name --version; done",
                ),
                (
                    "install target/release/{lhssh,",
                    Root,
                    "cd longhaul; run; for name in lhssh lhscp longhaul; do /usr/local/bin/$name --version; done",
                ),
                (
                    "install target/release/{lhsshd,",
                    Root,
                    "cd longhaul; run; /usr/local/sbin/lhsshd -V; [ -x /usr/local/sbin/lhsftp-server ]",
                ),
                (
                    "install -D -m 4711",
                    Root,
                    "cd longhaul; run; [ \"$(stat -c %U:%a /usr/libexec/lhssh-keysign)\" = root:4711 ]",
                ),
                (
                    "export PATH=\"$PWD/target/release/openssh-names",
                    Me,
                    "cd longhaul; run; ssh -V 2>&1 | grep '^OpenSSH_.*Longhaul'",
                ),
            ],
        ),
    ],
};

/// A token in software, where the page has a smart card's library.
pub(crate) const TOKEN: Scene = Scene {
    tools: &["softhsm2-util", "pkcs11-tool"],
    setup: r#"
library=/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so
mkdir -p ${library%/*}
ln -sf /usr/lib/softhsm/libsofthsm2.so $library
mkdir -p /home/me/.config/softhsm2 /home/me/tokens
printf 'directories.tokendir = /home/me/tokens\nobjectstore.backend = file\nlog.level = ERROR\n' \
    >/home/me/.config/softhsm2/softhsm2.conf
printf '#!/bin/sh\necho 1234\n' >/usr/local/bin/askpass
chmod 755 /usr/local/bin/askpass
export SOFTHSM2_CONF=/home/me/.config/softhsm2/softhsm2.conf
softhsm2-util --init-token --free --label card --so-pin 12345678 --pin 1234 >/dev/null
pkcs11-tool --module $library --login --pin 1234 --keypairgen --key-type rsa:2048 --id 01 --label rsa >/dev/null
"#,
    commands: &[(
        "docs/keys.md",
        &[
            (
                "lhssh-keygen -D /usr/lib/x86_64",
                Me,
                "run >card.pub; grep -c '^ssh-rsa ' card.pub; cp card.pub .ssh/authorized_keys",
            ),
            (
                "lhssh -I ",
                Me,
                "export SSH_ASKPASS=/usr/local/bin/askpass SSH_ASKPASS_REQUIRE=force; [ \"$(echo 'id -un' | run)\" = me ]",
            ),
            (
                "lhssh-add -s ",
                Me,
                r#"
export SSH_ASKPASS=/usr/local/bin/askpass SSH_ASKPASS_REQUIRE=force
eval "$(lhssh-agent -a /tmp/agent)"
run
[ "$(lhssh host id -un)" = me ]
"#,
            ),
            ("lhssh-add -e ", Me, "export SSH_AUTH_SOCK=/tmp/agent; run; fails lhssh-add -l"),
            (
                "lhssh-keygen -s ca.pub -D",
                Me,
                r#"
export SSH_ASKPASS=/usr/local/bin/askpass SSH_ASKPASS_REQUIRE=force
cp card.pub ca.pub
lhssh-keygen -q -t ed25519 -N '' -f ada
run
lhssh-keygen -L -f ada-cert.pub | grep 'Signing CA: RSA'
"#,
            ),
        ],
    )],
};
