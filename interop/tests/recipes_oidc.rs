//! Recipes for logins by an OpenID provider: keys that carry a token, and certificates that last minutes
//! (docs/oidc.md).

use lh_interop::recipe::{RECIPE, Recipe};

/// The provider, its users' logins and the verifier, as a file in the world.
const PROGRAM: &str = concat!(
    "cat >/usr/local/bin/oidc <<'END'\n",
    include_str!("oidc/oidc.py"),
    "END\nchmod 755 /usr/local/bin/oidc\n\
     mkdir /etc/opk /srv/op; echo 'http://127.0.0.1:8080 longhaul' >/etc/opk/providers\n\
     printf '%s http://127.0.0.1:8080\\n' 'bob ada@example.org' 'bob ben@example.org' 'ann ben@example.org' >/etc/opk/auth_id\n\
     account ann 2003; : >/home/ann/.ssh/authorized_keys; rm /home/bob/.ssh/authorized_keys /home/me/.ssh/id_ed25519*\n\
     ssh-keygen -q -t ed25519 -N '' -f /srv/op/ca; cp /srv/op/ca.pub /etc/ssh/user_ca.pub\n\
     for port in 8080 8081; do /usr/bin/python3 /usr/local/bin/oidc provider $port /srv/op </dev/null >/srv/op/log.$port 2>&1 & listening $port; done\n"
);

/// Keys that carry an OpenID token in a certificate, as opkssh makes them: the authority is the key itself,
/// and a program that the server asks checks the token.
///
/// Covers: sshd_config AuthorizedKeysCommand (opkssh); authorized_keys cert-authority
#[test]
fn keys_with_tokens_of_an_openid_provider() {
    Recipe {
        tools: &["/usr/bin/python3", "/usr/lib/python3/dist-packages/cryptography/__init__.py"],
        server: "AuthorizedKeysCommand /usr/local/bin/oidc verify %u %k %t\nAuthorizedKeysCommandUser nobody",
        setup: PROGRAM,
        client: r#"
export op=http://127.0.0.1:8080
login() {
    name=$1
    shift
    rm -f $name $name.pub
    ssh-keygen -q -t ecdsa -N '' -f $name
    ssh-keygen -q -s $name -I $2 -n opkssh-wildcard -O extension:openpubkey-pkt=$(oidc token $1 $2 ${3:-$name} $4) $name.pub
}
try() {
    echo "== $1 as $2"
    ssh -o BatchMode=yes -i $1 $2@server 'id -un; tty >/dev/null; echo $?'; echo $?
}
login ada $op ada@example.org
login ben $op ben@example.org
login eve $op eve@example.org
try ada bob
try ada ann
try ben ann
try eve bob
head -c 300000 /dev/urandom >f
scp -q -i ada f bob@server:g
ssh -tt -i ada bob@server 'sha256sum <g; tty' 2>/dev/null | cut -c1-8 >h
sha256sum <f | cut -c1-8 | cmp - <(tr -d '\r' <h | head -1) && sed 1d h
eval "$(ssh-agent)" >/dev/null
ssh-add -q ada
ssh -o BatchMode=yes bob@server echo by the agent
ssh-agent -k >/dev/null
echo '== a token that has expired'
login old $op ada@example.org old lifetime=-1
try old bob
echo '== for another program'
login aud $op ada@example.org aud audience=mail
try aud bob
echo '== by another provider'
login other http://127.0.0.1:8081 ada@example.org
try other bob
echo '== of another key'
login stolen $op ada@example.org ada
try stolen bob
echo '== without a token'
ssh-keygen -q -t ecdsa -N '' -f none
ssh-keygen -q -s none -I x -n opkssh-wildcard none.pub
try none bob
echo '== the key alone'
rm ada-cert.pub
try ada bob
"#,
        look: "sort /tmp/verified | uniq",
        sees: &[
            "== ada as bob\nbob\n1\n0\n",
            "== ada as ann\n255\n",
            "== ben as ann\nann\n",
            "== eve as bob\n255\n",
            "/dev/pts\nby the agent\n",
            "== old as bob\n255\n",
            "== stolen as bob\n255\n",
            "bob an expired token",
            "bob a token for another audience",
            "bob a provider that is not trusted",
            "bob the certificate is for another key than the token",
            "ann ada@example.org may not log in as ann",
        ],
        ..RECIPE
    }
    .run();
}

/// The same with opkssh itself at both ends, set up as the page says: its login, its certificate, its
/// verifier. The provider asks no password; it is reached by HTTPS.
///
/// Covers: sshd_config AuthorizedKeysCommand (opkssh)
#[test]
fn opkssh_logs_in_and_verifies() {
    Recipe {
        tools: &[
            "/usr/bin/python3",
            "/usr/bin/openssl",
            "/usr/lib/python3/dist-packages/cryptography/__init__.py",
        ],
        fetched: &["opkssh/opkssh"],
        server: r#"
AuthorizedKeysCommand /usr/local/bin/opkssh verify %u %k %t
AuthorizedKeysCommandUser opksshuser
"#,
        setup: concat!(
            "cat >/usr/local/bin/oidc <<'END'\n",
            include_str!("oidc/oidc.py"),
            "END\nchmod 755 /usr/local/bin/oidc; install -m 755 /opt/peers/opkssh/opkssh /usr/local/bin/opkssh\n\
            mkdir /srv/op /etc/opk\n\
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /srv/op/key -out /srv/op/cert.pem -days 2 \
                -subj /CN=provider -addext subjectAltName=IP:127.0.0.1 2>/dev/null\n\
            cat /srv/op/key /srv/op/cert.pem >/srv/op/both; cat /srv/op/cert.pem >>/etc/ssl/certs/ca-certificates.crt\n\
            groupadd --system opksshuser; useradd -r -M -s /usr/sbin/nologin -g opksshuser opksshuser\n\
            echo 'https://127.0.0.1:8443 longhaul 12h' >/etc/opk/providers; echo 'bob ada@example.org https://127.0.0.1:8443' >/etc/opk/auth_id\n\
            chown root:opksshuser /etc/opk/providers /etc/opk/auth_id; chmod 640 /etc/opk/providers /etc/opk/auth_id\n\
            install -o root -g opksshuser -m 660 /dev/null /var/log/opkssh.log\n\
            account ann 2003; rm /home/bob/.ssh/authorized_keys /home/ann/.ssh/authorized_keys /home/me/.ssh/id_ed25519*\n\
            /usr/bin/python3 /usr/local/bin/oidc provider 8443 /srv/op /srv/op/both </dev/null >/srv/op/log 2>&1 & listening 8443\n"
        ),
        client: r#"
export SSL_CERT_FILE=/srv/op/cert.pem
login() {
    : >$1.log
    opkssh login --disable-browser-open --provider=https://127.0.0.1:8443,longhaul,secret,openid -i ~/$1 >$1.log 2>&1 &
    until grep -q 'Open your browser to' $1.log || ! kill -0 $!; do sleep 0.02; done
    oidc browser http://localhost:3000/login $1@example.org
    wait $!; echo login $?
}
try() { echo "== $1 as $2"; ssh -o BatchMode=yes -i $1 $2@server 'id -un'; echo $?; }
login ada
login eve
try ada bob
try ada ann
try eve bob
head -c 300000 /dev/urandom >f
scp -q -i ada f bob@server:g
scp -q -i ada bob@server:g h
cmp f h && echo the same
eval "$(ssh-agent)" >/dev/null
ssh-add -q ada
ssh -o BatchMode=yes bob@server echo by the agent
ssh-agent -k >/dev/null
ssh-keygen -Lf ada-cert.pub | grep -A1 'Key ID\|Principals' | sed 's/^ *//'
mv ada-cert.pub kept
try ada bob
"#,
        look: r#"
cd /home/me
mv kept ada-cert.pub
again() {
    ssh -o BatchMode=yes -o StrictHostKeyChecking=no -i ada bob@server id -un 2>/dev/null; echo $?
}
again
echo '== another provider counts'
echo 'https://127.0.0.1:9443 longhaul 12h' >/etc/opk/providers
again
grep -q policy /var/log/opkssh.log && echo opkssh says why
"#,
        sees: &[
            "login 0\nlogin 0\n== ada as bob\nbob\n0\n== ada as ann\n255\n== eve as bob\n255\n",
            "the same\nby the agent\n",
            "Key ID: \"ada@example.org\"",
            "opkssh-wildcard",
            "bob\n0\n== another provider counts\n255\nopkssh says why\n",
        ],
        ..RECIPE
    }
    .run();
}

/// A small authority that signs users' keys for five minutes when they show a token: nothing runs at the
/// server.
///
/// Covers: sshd_config TrustedUserCAKeys (certificates that last minutes)
#[test]
fn certificates_of_minutes_by_a_small_authority() {
    Recipe {
        tools: &["/usr/bin/python3", "/usr/lib/python3/dist-packages/cryptography/__init__.py"],
        server: "TrustedUserCAKeys /etc/ssh/user_ca.pub\nAuthorizedKeysFile none",
        setup: PROGRAM,
        client: r#"
op=http://127.0.0.1:8080
try() { echo "== $1 as $2"; ssh -o BatchMode=yes -i $1 $2@server id -un; echo $?; }
for who in ada ben; do
    ssh-keygen -q -t ecdsa -N '' -f $who
    oidc certificate $op $who@example.org $who >$who-cert.pub
done
try ada bob
try ada ann
try ben ann
ssh-keygen -Lf ada-cert.pub | grep -A1 'Principals\|Key ID' | sed 's/^ *//'
"#,
        look: r#"
cp /home/me/ada.pub /srv/old.pub
ssh-keygen -q -s /srv/op/ca -I old -n bob -V -10m:-1m /srv/old.pub
cp /home/me/ada /srv/old
ssh -o BatchMode=yes -o StrictHostKeyChecking=no -i /srv/old bob@server id -un 2>/dev/null; echo $?
grep -o 'Certificate invalid: .*' /var/log/sshd.log | sort -u
"#,
        sees: &[
            "== ada as bob\nbob\n0\n",
            "== ada as ann\n255\n",
            "== ben as ann\nann\n0\n",
            "255\nCertificate invalid: expired\n",
        ],
        ..RECIPE
    }
    .run();
}
