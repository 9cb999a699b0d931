//! Ansible, compared by what it prints and does: a playbook by each way to move files, and hosts that it
//! cannot use. `ansible.rs` looks at its connections.

use lh_interop::recipe::{RECIPE, Recipe};

/// Covers: ssh_config ControlPersist; ssh_config ControlMaster; ssh_config ControlPath
#[test]
fn a_playbook_shows_and_does_the_same() {
    Recipe {
        tools: &["ansible", "ansible-playbook", "python3"],
        config: "\
Host one
  HostName server
  User bob
Host closed
  HostName server
  Port 9
Host strange
  HostName server
  User nobody-here
  PasswordAuthentication no
",
        client: r#"
export ANSIBLE_NOCOWS=1 ANSIBLE_FORKS=1 ANSIBLE_PYTHON_INTERPRETER=/usr/bin/python3 ANSIBLE_DEPRECATION_WARNINGS=0
echo one >hosts
mkdir -p files/sub
seq 40000 >files/numbers
echo 'it is "quoted"' >"files/sub/a name"
echo 'host {{ inventory_hostname }}' >template.j2
printf '#!/bin/sh\necho script "$1" by $(id -un)\n' >script.sh
cat >book.yml <<'E'
- hosts: all
  gather_facts: false
  tasks:
    - raw: echo raw; exit 3
      register: said
      failed_when: said.rc != 3 or said.stdout_lines != ["raw"]
    - command: { cmd: tr a-z A-Z, stdin: grüße }
      register: said
    - debug: { var: said.stdout }
    - copy: { src: files/, dest: "up-{{ inventory_hostname }}/", mode: "0640", directory_mode: "0750" }
    - template: { src: template.j2, dest: "up-{{ inventory_hostname }}/made" }
    - script: script.sh first
      register: said
    - debug: { var: said.stdout_lines }
    - shell: echo out; echo err >&2; exit 4
      ignore_errors: true
    - fetch: { src: "up-{{ inventory_hostname }}/numbers", dest: fetched/ }
    - meta: reset_connection
    - file: { path: "up-{{ inventory_hostname }}/sub", state: absent }
E
plain() { sed -E 's/"(delta|end|start)": "[^"]*"/"\1": ""/g; s/\*+$//'; }
for round in 'sftp 0' 'scp 0' 'piped 1'; do
    echo "=== $round"
    export ANSIBLE_SSH_TRANSFER_METHOD=${round% *} ANSIBLE_PIPELINING=${round#* }
    ansible-playbook -i hosts book.yml 2>&1 | plain; echo ${PIPESTATUS[0]}
    cmp files/numbers fetched/one/up-one/numbers; echo $?
    ssh one 'cat up-one/made; find up-* -type f | sort; rm -r up-*'
    rm -r fetched
done
echo === unusable
for host in closed strange gone.invalid; do
    ansible -i $host, all -m ping 2>&1; echo ${PIPESTATUS[0]}
done
"#,
        sees: &["host one\n", "\"stdout\": \"out\"", "UNREACHABLE!", "=== piped 1\n"],
        ..RECIPE
    }
    .run();
}
