//! Recipes for keys and accounts that may do one thing: wrappers for rsync, git, borg and scp, jumps, certificates, several factors.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// `rrsync` holds a backup key to one directory.
///
/// Covers: authorized_keys command (rrsync)
#[test]
fn rrsync_holds_a_key_to_a_directory() {
    Recipe {
        tools: &["rsync", "rrsync", "python3"],
        setup: "sed -i 's/^/restrict,command=\"rrsync -wo \\/srv\\/backup\" /' /home/bob/.ssh/authorized_keys\n\
                mkdir /srv/backup; chown bob: /srv/backup",
        client: "mkdir d; echo a >d/a; chmod 640 d/a; ln -s a d/l; rsync -a --delete d/ bob@server:d/; echo $?\n\
                 rsync -a bob@server:d/ back/ 2>/dev/null; echo $?; ssh bob@server id; echo $?; rsync -a d/ bob@server:/../etc/x/; echo $?",
        look: "tree /srv/backup",
        sees: &["/srv/backup/d/a", "0\n"],
        ..RECIPE
    }
    .run();
}

/// The old `validate-rsync` script, which looks at `SSH_ORIGINAL_COMMAND`.
///
/// Covers: authorized_keys command (SSH_ORIGINAL_COMMAND)
#[test]
fn validate_rsync_looks_at_the_original_command() {
    Recipe {
        tools: &["rsync"],
        setup: "cat >/usr/local/bin/validate-rsync <<'E'\n#!/bin/sh\ncase \"$SSH_ORIGINAL_COMMAND\" in\n\
                *\\&*|*\\;*|*\\|*) echo Rejected ;;\nrsync\\ --server*) $SSH_ORIGINAL_COMMAND ;;\n*) echo Rejected; exit 1 ;;\nesac\nE\n\
                chmod 755 /usr/local/bin/validate-rsync\n\
                sed -i 's/^/command=\"\\/usr\\/local\\/bin\\/validate-rsync\",no-pty,no-agent-forwarding,no-port-forwarding /' /home/bob/.ssh/authorized_keys",
        client: "mkdir d; seq 9999 >d/a; rsync -az d bob@server:; echo $?; rsync -a bob@server:d back; echo $?; ls back/d\n\
                 ssh bob@server 'rm -rf /'; echo $?; ssh bob@server; echo $?; ssh bob@server 'rsync --server; id'; echo $?\n\
                 ssh -W server:22 bob@server; echo $?; ssh -tt bob@server true >/dev/null; echo $?",
        look: "tree /home/bob/d",
        sees: &["Rejected\n1\n"],
        ..RECIPE
    }
    .run();
}

/// `borg serve` with a path and append-only mode.
///
/// Covers: authorized_keys command (borg serve)
#[test]
fn borg_serve_is_all_a_key_may_do() {
    Recipe {
        tools: &["borg"],
        setup: "mkdir /srv/borg; chown bob: /srv/borg\n\
                sed -i 's/^/command=\"borg serve --restrict-to-path \\/srv\\/borg --append-only\",restrict /' /home/bob/.ssh/authorized_keys",
        client: "export BORG_PASSPHRASE=x BORG_RELOCATED_REPO_ACCESS_IS_OK=yes; mkdir d; seq 50000 >d/a\n\
                 borg init -e repokey bob@server:/srv/borg/r 2>/dev/null; echo $?; borg create bob@server:/srv/borg/r::one d; echo $?\n\
                 borg list --short bob@server:/srv/borg/r; mkdir x; cd x; borg extract bob@server:/srv/borg/r::one; cmp d/a ../d/a; echo $?\n\
                 borg init -e none bob@server:/srv/other 2>&1 | grep -c 'not allowed\\|Repository path not allowed'; ssh bob@server id </dev/null >/dev/null 2>&1; echo $?",
        sees: &["0\n0\none\n0\n"],
        ..RECIPE
    }
    .run();
}

/// A git server as gitolite makes one: all people log in as `git`, the key's option says who it is.
///
/// Covers: authorized_keys command (git); ssh_config IdentityFile
#[test]
fn git_server_tells_people_by_their_keys() {
    Recipe {
        tools: &["git"],
        config: "Host git\n  HostName server\n  User git\nHost git-ro\n  HostName server\n  User git\n  IdentityFile ~/.ssh/ro\n  IdentitiesOnly yes\n",
        setup: "account git 2100; ssh-keygen -q -t ed25519 -N '' -C ro -f /home/me/.ssh/ro; chown me: /home/me/.ssh/ro*\n\
                { echo \"restrict,command=\\\"/usr/local/bin/git-auth ada rw\\\" $(cat /world/user_ed25519.pub)\"\n\
                  echo \"restrict,command=\\\"/usr/local/bin/git-auth eve ro\\\" $(cat /home/me/.ssh/ro.pub)\"; } >/home/git/.ssh/authorized_keys\n\
                cat >/usr/local/bin/git-auth <<'E'\n#!/bin/bash\ncase $SSH_ORIGINAL_COMMAND in\n\
                \"git-upload-pack 'team/app.git'\") ;;\n\"git-receive-pack 'team/app.git'\") [ $2 = rw ] || { echo \"DENIED: $1 may not write\" >&2; exit 1; } ;;\n\
                '') echo \"hello $1, this is git@server\"; exit 0 ;;\n*) echo \"invalid: $SSH_ORIGINAL_COMMAND\" >&2; exit 1 ;;\nesac\n\
                exec git shell -c \"$SSH_ORIGINAL_COMMAND\"\nE\nchmod 755 /usr/local/bin/git-auth\n\
                git init -q --bare -b main /home/git/team/app.git; chown -R git: /home/git",
        client: "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'\n\
                 git init -q -b main w; cd w; seq 20000 >f; git add f; git commit -qm one; git push -q git:team/app.git main; echo $?; cd ..\n\
                 git clone -q git-ro:team/app.git c; echo $?; cmp c/f w/f; cd c; git commit -q --allow-empty -m two; git push -q 2>&1; echo $?\n\
                 git ls-remote git:other.git; echo $?; ssh git; echo $?; ssh git-ro info; echo $?; git archive --remote=git:team/app.git HEAD | tar t; echo $?",
        sees: &["hello ada", "DENIED: eve"],
        ..RECIPE
    }
    .run();
}

/// `git-shell` as a login shell.
#[test]
fn git_shell_as_login_shell() {
    Recipe {
        tools: &["git", "git-shell"],
        setup: "account git 2100 /home/git $(command -v git-shell); git init -q --bare -b main /home/git/a.git; chown -R git: /home/git",
        client: "git clone -q git@server:a.git; echo $?; ssh git@server; echo $?; ssh git@server ls; echo $?; scp /etc/hostname git@server:; echo $?\n\
                 printf 'pwd\\n' | sftp git@server 2>/dev/null; echo $?",
        sees: &["fatal: "],
        differs: &[(
            "scp: no SFTP server answered on server; where it has none, -O copies by scp's old protocol\n",
            "",
            "the way out is told",
        )],
        ..RECIPE
    }
    .run();
}

/// A wrapper that lets `scp -t` to one directory pass.
#[test]
fn scp_wrapper_for_one_directory() {
    Recipe {
        setup: "cat >/usr/local/bin/only-scp <<'E'\n#!/bin/bash\n[[ $SSH_ORIGINAL_COMMAND =~ ^scp\\ (-[pvrd]+\\ )*-t\\ (--\\ )?/srv/in/?$ ]] || { echo 'only uploads' >&2; exit 7; }\n\
                exec $SSH_ORIGINAL_COMMAND\nE\nchmod 755 /usr/local/bin/only-scp; mkdir /srv/in; chown bob: /srv/in\n\
                sed -i 's/^/restrict,command=\"only-scp\" /' /home/bob/.ssh/authorized_keys",
        client: "echo words >f; mkdir d; echo in >d/in; scp -O f bob@server:/srv/in/; echo $?; scp -Orp d bob@server:/srv/in; echo $?\n\
                 scp -O f bob@server:/etc/; echo $?; scp -O bob@server:/srv/in/f g; echo $?; ssh bob@server id; echo $?",
        look: "tree /srv/in",
        sees: &["only uploads\n"],
        ..RECIPE
    }
    .run();
}

/// Every restriction of a key, one by one.
///
/// Covers: authorized_keys permitopen; authorized_keys permitlisten; authorized_keys no-port-forwarding; authorized_keys from
#[test]
fn keys_with_single_restrictions() {
    Recipe {
        setup: "key=$(cat /home/bob/.ssh/authorized_keys | head -1); n=0\n\
                for o in 'no-pty' 'no-port-forwarding' 'permitopen=\"server:22\"' 'permitopen=\"*:23\"' 'from=\"127.0.0.2\"' 'from=\"!127.0.0.1,*\"' \
                'from=\"server.example.org\"' 'expiry-time=\"20200101\"' 'expiry-time=\"20990101\"' 'restrict,pty' 'environment=\"A=b\"' 'command=\"echo forced\",permitopen=\"server:22\"' 'bogus' 'No-Pty'; do\n\
                account k$n $((2200+n)); echo \"$o $key\" >/home/k$n/.ssh/authorized_keys; n=$((n+1)); done",
        config: "Host *\n  PreferredAuthentications publickey\n",
        client: "for n in {0..13}; do echo \"== k$n\"; ssh k$n@server 'echo in $A'; echo $?; ssh -tt k$n@server true | tr -d '\\r'; echo ${PIPESTATUS[0]}\n\
                 ssh -W server:22 k$n@server </dev/null | head -c 4; echo \" ${PIPESTATUS[0]}\"; done 2>&1 | grep -v '^Connection to server closed'",
        sees: &["PTY allocation request failed", "forced\n", "administratively prohibited", "SSH-"],
        ..RECIPE
    }
    .run();
}

/// An account for jumps alone: no shell, no command, forwards to one place.
///
/// Covers: sshd_config PermitOpen; ssh -J; ssh_config ProxyJump
#[test]
fn jump_only_account_on_a_bastion() {
    Recipe {
        server: "Match User jump\n  PermitOpen inner:22\n  ForceCommand /usr/sbin/nologin\n  PermitTTY no\n  X11Forwarding no\n  AllowAgentForwarding no",
        setup: "account jump 2300",
        config: "Host inner\n  User bob\n  ProxyJump jump@bastion\nHost wrong\n  HostName server\n  ProxyJump jump@bastion\n",
        client: "ssh inner 'echo ${SSH_CONNECTION%% *}; id -un'; echo $?; ssh jump@bastion; echo $?; ssh jump@bastion id; echo $?; ssh wrong id 2>&1 | sed 's/port [0-9]*/port N/'; echo ${PIPESTATUS[0]}\n\
                 echo words >f; scp f inner:; echo $?; echo 'get f g' | sftp -b - inner; cat g; ssh -J jump@bastion,bob@inner bob@server id -un; echo $?\n\
                 scp -J jump@bastion f bob@inner:f2; echo $?; sftp -q -J jump@bastion bob@inner <<<ls",
        sees: &["127.0.0.1\nbob\n0\n", "This account is currently not available."],
        ..RECIPE
    }
    .run();
}

/// The old way through a bastion: `ProxyCommand ssh -W`, nested, with tokens.
///
/// Covers: ssh_config ProxyCommand; ssh -W; token %h
#[test]
fn bastion_by_nested_proxy_commands() {
    Recipe {
        config: "Host bastion\n  User bob\nHost inner\n  User bob\n  ProxyCommand ssh -q -W %h:%p bastion\nHost deep\n  HostName server\n  User bob\n\
                 ProxyCommand ssh -q inner exec bash -c '\"exec 3<>/dev/tcp/%h/%p; cat <&3 & cat >&3\"'\n",
        client: "ssh inner id -un; echo $?; ssh deep 'id -un; cat' <<<hi; echo $?; head -c 300000 /dev/urandom >f; scp -q f inner:; ssh inner cat f | cmp - f; echo $?",
        sees: &["bob\n0\nbob\nhi\n0\n0\n"],
        ..RECIPE
    }
    .run();
}

/// Two factors: a key, and then a password asked for by PAM.
///
/// Covers: sshd_config AuthenticationMethods; sshd_config KbdInteractiveAuthentication
#[test]
fn key_and_then_password_by_pam() {
    Recipe {
        tools: &["sshpass"],
        server: "KbdInteractiveAuthentication yes\nAuthenticationMethods publickey,keyboard-interactive",
        client: "export SSHPASS='correct horse battery'; sshpass -e ssh bob@server id -un; echo $?; SSHPASS=wrong sshpass -e ssh -o NumberOfPasswordPrompts=1 bob@server id -un; echo $?\n\
                 ssh -o BatchMode=yes bob@server true; echo $?; sshpass -e ssh -o PubkeyAuthentication=no bob@server true; echo $?\n\
                 echo words >f; sshpass -e scp -q f bob@server:; echo $?; printf '#!/bin/sh\\necho \"$SSHPASS\"\\necho \"$1\" >>~/asked\\n' >ask; chmod 700 ask\n\
                 SSH_ASKPASS=~/ask SSH_ASKPASS_REQUIRE=force ssh bob@server echo by askpass; cat asked",
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
        server: "KbdInteractiveAuthentication yes\nAuthenticationMethods publickey,keyboard-interactive:pam keyboard-interactive:pam",
        setup: "sed -i '1i auth required pam_google_authenticator.so' /etc/pam.d/sshd\n\
                printf 'JBSWY3DPEHPK3PXPJBSWY3DPEH\\n\" WINDOW_SIZE 17\\n\" TOTP_AUTH\\n12345678\\n87654321\\n' >/home/bob/.google_authenticator\n\
                chown bob: /home/bob/.google_authenticator; chmod 400 /home/bob/.google_authenticator",
        client: "cat >code <<'E'\n#!/usr/bin/python3\nimport base64,hmac,struct,time,sys\nopen('/home/me/asked','a').write(sys.argv[1]+'\\n')\n\
                 if 'Verification' in sys.argv[1]:\n  h=hmac.new(base64.b32decode('JBSWY3DPEHPK3PXPJBSWY3DPEH======'),struct.pack('>Q',int(time.time())//30),'sha1').digest()\n\
                 \x20 o=h[19]&15; print('%06d'%((struct.unpack('>I',h[o:o+4])[0]&0x7fffffff)%10**6))\nelse: print('correct horse battery')\nE\n\
                 chmod 700 code; export SSH_ASKPASS=~/code SSH_ASKPASS_REQUIRE=force; ssh bob@server id -un; echo $?\n\
                 printf '#!/bin/sh\\necho 000000\\n' >bad; chmod 700 bad; SSH_ASKPASS=~/bad ssh -o NumberOfPasswordPrompts=1 bob@server id; echo $?; cat asked",
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
        setup: "cp /world/user_rsa /home/me/.ssh/second; cat /world/user_rsa.pub >>/home/bob/.ssh/authorized_keys; chown me: /home/me/.ssh/second",
        client: "ssh -o BatchMode=yes bob@server id -un; echo $?; ssh -o BatchMode=yes -i .ssh/id_ed25519 -i .ssh/second bob@server id -un; echo $?\n\
                 ssh -o BatchMode=yes -o PubkeyAuthentication=no bob@server id -un; echo $?; ssh -v -o BatchMode=yes bob@server true 2>&1 | grep partial",
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
        server: "TrustedUserCAKeys /etc/ssh/ca.pub\nAuthorizedPrincipalsFile /etc/ssh/principals/%u\nAuthorizedKeysFile none",
        setup: "ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ca; mkdir /etc/ssh/principals; account dep 2310; account nop 2311\n\
                printf '# people\\nadmins\\nfrom=\"10.0.0.0/8\" remote\\ncommand=\"echo as %%u\" ops\\n' >/etc/ssh/principals/bob; echo deploy >/etc/ssh/principals/dep\n\
                sign() { cp /world/user_ed25519 /home/me/$1; cp /world/user_ed25519.pub /home/me/$1.pub; ssh-keygen -q -s /etc/ssh/ca -I id-$1 \"${@:2}\" /home/me/$1.pub; }\n\
                sign admin -n admins,x; sign deploy -n deploy; sign remote -n remote; sign ops -n ops; sign old -n admins -V -2d:-1d; sign none; sign forced -n admins -O force-command='echo cert says'\n\
                sign src -n admins -O source-address=192.0.2.1; sign nopty -n admins -O clear; sign bob -n bob; chown -R me: /home/me; rm /home/me/.ssh/id_ed25519",
        client: "for c in admin deploy remote ops old none forced src nopty bob; do for who in bob dep nop; do\n\
                 echo \"== $c to $who\"; ssh -o BatchMode=yes -i $c $who@server id -un; echo $?; done; done 2>&1; ssh -tt -i nopty bob@server true; echo $?",
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
        setup: "ssh-keygen -q -t ecdsa -N '' -f /etc/ssh/ca; echo \"cert-authority,principals=\\\"web,db\\\" $(cat /etc/ssh/ca.pub)\" >/home/bob/.ssh/authorized_keys\n\
                for n in 1 2 3; do ssh-keygen -q -t ed25519 -N '' -C k$n -f /home/me/k$n; ssh-keygen -q -s /etc/ssh/ca -I id$n -z $n -n web /home/me/k$n.pub; done\n\
                printf 'serial: 2\\n' >/root/spec; ssh-keygen -q -k -f /etc/ssh/krl -s /etc/ssh/ca.pub /root/spec; ssh-keygen -q -k -u -f /etc/ssh/krl /home/me/k3.pub\n\
                chown -R me: /home/me; rm /home/me/.ssh/id_ed25519",
        client: "for n in 1 2 3; do ssh -o BatchMode=yes -i k$n bob@server id -un; echo $?; done; rm k1-cert.pub; ssh -o BatchMode=yes -i k1 bob@server true; echo $?",
        look: "ssh-keygen -Q -f /etc/ssh/krl /home/me/k?.pub | sed 's/(.*)//'; echo $?; grep -o 'revoked' /var/log/sshd.log | sort -u",
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
        server: "AuthorizedKeysCommand /usr/local/bin/keys %u %k %t %f %h %U\nAuthorizedKeysCommandUser nobody\nAuthorizedKeysFile none",
        setup: "cat >/usr/local/bin/keys <<'E'\n#!/bin/sh\necho \"$(id -un) $1 $3 $5 $6\" >>/tmp/asked\n\
                case $1 in bob) echo '# from the directory'; echo \"environment=\\\"X=1\\\",restrict $(cat /world/user_ed25519.pub)\" ;; me) exit 1 ;; esac\nE\n\
                chmod 755 /usr/local/bin/keys",
        client: "ssh -o BatchMode=yes bob@server id -un; echo $?; ssh -o BatchMode=yes me@server id -un; echo $?; ssh -o BatchMode=yes who@server id; echo $?",
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
        server: "Port 22\nPort 2222\nPasswordAuthentication no\n\
                 Match LocalPort 2222\n  ForceCommand echo port\nMatch Address 127.0.0.2,127.0.0.4/30\n  ForceCommand echo from $(echo $SSH_CONNECTION | cut -d' ' -f1)\n\
                 Match LocalAddress 127.0.0.3 User bob,ann\n  ForceCommand echo inner\nMatch Group wheel,!staff\n  ForceCommand echo wheel\n\
                 Match User *,!bob,!me\n  ForceCommand echo another\nMatch all\n  SetEnv LAST=yes",
        setup: "account ann 2010; account cy 2011; account di 2012; group wheel 3000 cy,di; group staff 3001 di; ip addr add 127.0.0.5/8 dev lo",
        client: "ssh -p 2222 bob@server x; ssh -b 127.0.0.2 bob@server x; ssh -b 127.0.0.5 bob@server x; ssh bob@inner x; ssh ann@inner x; ssh cy@server x; ssh di@server x\n\
                 ssh bob@server 'echo own $LAST'; ssh ann@server x; ssh me@server 'echo me' ; echo $?",
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
        server: "AllowUsers bob ann@127.0.0.2 cy@bastion d?@127.0.0.0/8 eve root\nDenyUsers eve dy@127.0.0.2\nPermitRootLogin prohibit-password",
        setup: "n=2010; for who in ann cy di dy eve zoe; do account $who $n; n=$((n+1)); done; mkdir -p /root/.ssh; cp /world/authorized_keys /root/.ssh",
        client: "for who in bob ann cy di dy eve zoe root; do for from in 127.0.0.1 127.0.0.2; do ssh -o BatchMode=yes -b $from $who@server id -un 2>&1; echo $who $from $?; done; done",
        sees: &["bob 127.0.0.1 0", "ann 127.0.0.1 255", "ann 127.0.0.2 0"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// A script that tries a host with the wrong key time and again: what has been refused makes no room scarce for others.
///
/// Covers: sshd_config MaxStartups; sshd_config UsePAM
#[test]
fn refused_logins_leave_no_process_behind() {
    Recipe {
        server: "MaxStartups 5",
        config: "Host *\n  PreferredAuthentications publickey\n",
        client: "for n in {1..12}; do ssh nosuch@server true; ssh me@server true; done 2>&1 | sort | uniq -c; ssh bob@server id -un",
        sees: &["12 me@server: Permission denied", "bob\n"],
        pam: true,
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}
