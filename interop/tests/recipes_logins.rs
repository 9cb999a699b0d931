//! Recipes for logins: several factors, certificates, keys from a program, `Match` blocks, lists of allowed
//! and denied users.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Two factors: a key, and then a password asked for by PAM.
///
/// Covers: sshd_config AuthenticationMethods; sshd_config KbdInteractiveAuthentication
#[test]
fn key_and_then_password_by_pam() {
    Recipe {
        tools: &["sshpass"],
        server: "KbdInteractiveAuthentication yes\nAuthenticationMethods publickey,keyboard-interactive",
        client: r#"
export SSHPASS='correct horse battery'
sshpass -e ssh bob@server id -un; echo $?
SSHPASS=wrong sshpass -e ssh -o NumberOfPasswordPrompts=1 bob@server id -un; echo $?
ssh -o BatchMode=yes bob@server true; echo $?
sshpass -e ssh -o PubkeyAuthentication=no bob@server true; echo $?
echo words >f
sshpass -e scp -q f bob@server:; echo $?
printf '#!/bin/sh\necho "$SSHPASS"\necho "$1" >>~/asked\n' >ask
chmod 700 ask
SSH_ASKPASS=~/ask SSH_ASKPASS_REQUIRE=force ssh bob@server echo by askpass
cat asked
"#,
        pam: true,
        sees: &["bob\n0\n", "by askpass", "Permission denied (keyboard-interactive)"],
        ..RECIPE
    }
    .run();
}

/// Google Authenticator's codes, by key or password first.
#[test]
fn one_time_codes_by_pam() {
    Recipe {
        tools: &["google-authenticator", "python3"],
        server: r#"
KbdInteractiveAuthentication yes
AuthenticationMethods publickey,keyboard-interactive:pam keyboard-interactive:pam
"#,
        setup: r#"
sed -i '1i auth required pam_google_authenticator.so' /etc/pam.d/sshd
printf 'JBSWY3DPEHPK3PXPJBSWY3DPEH\n" WINDOW_SIZE 17\n" TOTP_AUTH\n12345678\n87654321\n' >/home/bob/.google_authenticator
chown bob: /home/bob/.google_authenticator
chmod 400 /home/bob/.google_authenticator
"#,
        client: r#"
cat >code <<'E'
#!/usr/bin/python3
import base64,hmac,struct,time,sys
open('/home/me/asked','a').write(sys.argv[1]+'\n')
if 'Verification' in sys.argv[1]:
  h=hmac.new(base64.b32decode('JBSWY3DPEHPK3PXPJBSWY3DPEH======'),struct.pack('>Q',int(time.time())//30),'sha1').digest()
  o=h[19]&15; print('%06d'%((struct.unpack('>I',h[o:o+4])[0]&0x7fffffff)%10**6))
else: print('correct horse battery')
E
chmod 700 code
export SSH_ASKPASS=~/code SSH_ASKPASS_REQUIRE=force
ssh bob@server id -un; echo $?
printf '#!/bin/sh\necho 000000\n' >bad
chmod 700 bad
SSH_ASKPASS=~/bad ssh -o NumberOfPasswordPrompts=1 bob@server id; echo $?
cat asked
"#,
        pam: true,
        sees: &["bob\n0\n", "Verification code"],
        ..RECIPE
    }
    .run();
}

/// Either of two ways in, told by the list after a failure.
#[test]
fn either_key_and_password_or_two_keys() {
    Recipe {
        server: "AuthenticationMethods publickey,password publickey,publickey",
        setup: r#"
cp /world/user_rsa /home/me/.ssh/second
cat /world/user_rsa.pub >>/home/bob/.ssh/authorized_keys
chown me: /home/me/.ssh/second
"#,
        client: r#"
ssh -o BatchMode=yes bob@server id -un; echo $?
ssh -o BatchMode=yes -i .ssh/id_ed25519 -i .ssh/second bob@server id -un; echo $?
ssh -o BatchMode=yes -o PubkeyAuthentication=no bob@server id -un; echo $?
ssh -v -o BatchMode=yes bob@server true 2>&1 | grep partial
"#,
        sees: &["Authenticated using \"publickey\" with partial success.", "bob\n0"],
        ..RECIPE
    }
    .run();
}

/// A user authority with principals in a file for each account.
///
/// Covers: sshd_config TrustedUserCAKeys; sshd_config AuthorizedPrincipalsFile
#[test]
fn certificates_with_principals_files() {
    Recipe {
        server: r#"
TrustedUserCAKeys /etc/ssh/ca.pub
AuthorizedPrincipalsFile /etc/ssh/principals/%u
AuthorizedKeysFile none
"#,
        setup: r#"
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ca
mkdir /etc/ssh/principals
account dep 2310
account nop 2311
printf '# people\nadmins\nfrom="10.0.0.0/8" remote\ncommand="echo as %%u" ops\n' >/etc/ssh/principals/bob
echo deploy >/etc/ssh/principals/dep
sign() {
    cp /world/user_ed25519 /home/me/$1
    cp /world/user_ed25519.pub /home/me/$1.pub
    ssh-keygen -q -s /etc/ssh/ca -I id-$1 "${@:2}" /home/me/$1.pub
}
sign admin -n admins,x
sign deploy -n deploy
sign remote -n remote
sign ops -n ops
sign old -n admins -V -2d:-1d
sign none
sign forced -n admins -O force-command='echo cert says'
sign src -n admins -O source-address=192.0.2.1
sign nopty -n admins -O clear
sign bob -n bob
chown -R me: /home/me
rm /home/me/.ssh/id_ed25519
"#,
        client: r#"
for c in admin deploy remote ops old none forced src nopty bob; do for who in bob dep nop; do
echo "== $c to $who"; ssh -o BatchMode=yes -i $c $who@server id -un; echo $?; done; done 2>&1
ssh -tt -i nopty bob@server true; echo $?
"#,
        sees: &["== admin to bob\nbob\n0\n", "cert says", "as %u"],
        ..RECIPE
    }
    .run();
}

/// Certificates whose authority stands in `authorized_keys`, and revoked ones.
///
/// Covers: authorized_keys cert-authority; authorized_keys principals; sshd_config RevokedKeys
#[test]
fn certificates_by_authorized_keys_and_revoked() {
    Recipe {
        server: "RevokedKeys /etc/ssh/krl",
        setup: r#"
ssh-keygen -q -t ecdsa -N '' -f /etc/ssh/ca
echo "cert-authority,principals=\"web,db\" $(cat /etc/ssh/ca.pub)" >/home/bob/.ssh/authorized_keys
for n in 1 2 3; do
    ssh-keygen -q -t ed25519 -N '' -C k$n -f /home/me/k$n
    ssh-keygen -q -s /etc/ssh/ca -I id$n -z $n -n web /home/me/k$n.pub
done
printf 'serial: 2\n' >/root/spec
ssh-keygen -q -k -f /etc/ssh/krl -s /etc/ssh/ca.pub /root/spec
ssh-keygen -q -k -u -f /etc/ssh/krl /home/me/k3.pub
chown -R me: /home/me
rm /home/me/.ssh/id_ed25519
"#,
        client: r#"
for n in 1 2 3; do ssh -o BatchMode=yes -i k$n bob@server id -un; echo $?; done
rm k1-cert.pub
ssh -o BatchMode=yes -i k1 bob@server true; echo $?
"#,
        look: r#"
ssh-keygen -Q -f /etc/ssh/krl /home/me/k?.pub | sed 's/(.*)//'; echo $?
grep -o 'revoked' /var/log/sshd.log | sort -u
"#,
        sees: &["bob\n0\n", "255\n255\n255"],
        ..RECIPE
    }
    .run();
}

/// Keys from a program, as directories and clouds provide them.
///
/// Covers: sshd_config AuthorizedKeysCommand; sshd_config AuthorizedKeysCommandUser; sshd_config AuthorizedPrincipalsCommand
#[test]
fn keys_from_a_program() {
    Recipe {
        server: r#"
AuthorizedKeysCommand /usr/local/bin/keys %u %k %t %f %h %U
AuthorizedKeysCommandUser nobody
AuthorizedKeysFile none
"#,
        setup: r#"
cat >/usr/local/bin/keys <<'E'
#!/bin/sh
echo "$(id -un) $1 $3 $5 $6" >>/tmp/asked
case $1 in bob) echo '# from the directory'; echo "environment=\"X=1\",restrict $(cat /world/user_ed25519.pub)" ;; me) exit 1 ;; esac
E
chmod 755 /usr/local/bin/keys
"#,
        client: r#"
ssh -o BatchMode=yes bob@server id -un; echo $?
ssh -o BatchMode=yes me@server id -un; echo $?
ssh -o BatchMode=yes who@server id; echo $?
"#,
        look: "sort -u /tmp/asked",
        sees: &["bob\n0\n", "nobody bob ssh-ed25519 /home/bob 2002"],
        ..RECIPE
    }
    .run();
}

/// Blocks by address, group, local port, and what the first of several says.
///
/// Covers: sshd_config Match (Address, LocalPort, LocalAddress)
#[test]
fn match_by_address_group_and_port() {
    Recipe {
        server: r#"
Port 22
Port 2222
PasswordAuthentication no
Match LocalPort 2222
  ForceCommand echo port
Match Address 127.0.0.2,127.0.0.4/30
  ForceCommand echo from $(echo $SSH_CONNECTION | cut -d' ' -f1)
Match LocalAddress 127.0.0.3 User bob,ann
  ForceCommand echo inner
Match Group wheel,!staff
  ForceCommand echo wheel
Match User *,!bob,!me
  ForceCommand echo another
Match all
  SetEnv LAST=yes
"#,
        setup: r#"
account ann 2010
account cy 2011
account di 2012
group wheel 3000 cy,di
group staff 3001 di
ip addr add 127.0.0.5/8 dev lo
"#,
        client: r#"
ssh -p 2222 bob@server x
ssh -b 127.0.0.2 bob@server x
ssh -b 127.0.0.5 bob@server x
ssh bob@inner x
ssh ann@inner x
ssh cy@server x
ssh di@server x
ssh bob@server 'echo own $LAST'
ssh ann@server x
ssh me@server 'echo me'; echo $?
"#,
        sees: &["port\nfrom 127.0.0.2\nfrom 127.0.0.5\ninner\ninner\nwheel\nanother\nown yes\n"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// Allow and deny lists, by user and group, with hosts.
///
/// Covers: sshd_config AllowGroups; sshd_config DenyUsers; sshd_config AllowUsers
#[test]
fn allow_and_deny_lists() {
    Recipe {
        server: r#"
AllowUsers bob ann@127.0.0.2 cy@bastion d?@127.0.0.0/8 eve root
DenyUsers eve dy@127.0.0.2
PermitRootLogin prohibit-password
"#,
        setup: r#"
n=2010
for who in ann cy di dy eve zoe; do account $who $n; n=$((n+1)); done
mkdir -p /root/.ssh
cp /world/authorized_keys /root/.ssh
"#,
        client: r#"
for who in bob ann cy di dy eve zoe root; do
    for from in 127.0.0.1 127.0.0.2; do
        ssh -o BatchMode=yes -b $from $who@server id -un 2>&1
        echo $who $from $?
    done
done
"#,
        sees: &["bob 127.0.0.1 0", "ann 127.0.0.1 255", "ann 127.0.0.2 0"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// A script that tries a host with the wrong key time and again: what has been refused makes no room scarce
/// for others.
///
/// Covers: sshd_config MaxStartups; sshd_config UsePAM
#[test]
fn refused_logins_leave_no_process_behind() {
    Recipe {
        server: "MaxStartups 5",
        config: "Host *\n  PreferredAuthentications publickey\n",
        client: r#"
for n in {1..12}; do ssh nosuch@server true; ssh me@server true; done 2>&1 | sort | uniq -c
ssh bob@server id -un
"#,
        sees: &["12 me@server: Permission denied", "bob\n"],
        pam: true,
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}
