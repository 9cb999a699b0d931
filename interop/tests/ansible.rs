//! Ansible with Longhaul's programs under OpenSSH's names, against Longhaul's server and Debian's.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use lh_interop::{
    Inetd, Lab, Lhsshd, Ran, TestUser, assert_same_file, is_root, make_blob, me, peers, script, skip,
};

/// A lab with the files that the playbook copies, and Ansible's settings.
struct Controller {
    lab: Lab,
    ansible: PathBuf,
    /// `PATH=…` with our programs in front.
    path: String,
}

impl Controller {
    fn new(test: &str, program: &str) -> Option<Self> {
        let [ansible] = peers(test, [program])?;
        let lab = Lab::new();
        make_blob(&lab.path("blob"), 1_500_000);
        lab.write("with 'quotes' & blanks", "here\n");
        script(&lab.path("script.sh"), "for word; do echo \"$word\"; done");
        let (_, path) = lab.openssh_names(&["ssh", "scp", "sftp"]);
        let options =
            lab.client_options().iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        // Without BatchMode, because `sshpass` types passwords.
        let options = options.replace("'-o' 'BatchMode=yes'", "");
        lab.write(
            "ansible.cfg",
            &format!(
                "[defaults]\nlocal_tmp={tmp}/local\nremote_tmp={tmp}/remote\nretry_files_enabled=False\n\
                 nocows=True\n[ssh_connection]\nretries=0\n\
                 ssh_args={options} -C -o ControlMaster=auto -o ControlPersist=20s\ncontrol_path_dir={tmp}/cp\n",
                tmp = lab.dir().display()
            ),
        );
        Some(Self { lab, ansible, path })
    }

    /// Runs Ansible against `user@127.0.0.1:port` with these variables in its environment.
    fn run(&self, user: &str, port: u16, env: &[&str], args: &[&str]) -> Ran {
        let inventory = format!(
            "there ansible_host=127.0.0.1 ansible_port={port} ansible_user={user} \
             ansible_python_interpreter=/usr/bin/python3\n"
        );
        self.lab.write("inventory", &inventory);
        let mut words = vec![self.path.as_str(), "ANSIBLE_CONFIG=ansible.cfg", "LC_ALL=C.UTF-8"];
        words.extend(env);
        let ansible = self.ansible.to_string_lossy();
        words.extend([&*ansible, "-i", "inventory"]);
        words.extend(args);
        self.lab.run(Path::new("env"), &words)
    }

    /// Runs the whole playbook once and checks its results.
    fn play(&self, port: u16, round: &str, env: &[&str]) {
        let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/ansible.yml");
        let variables = format!("lab={} round={round}", self.lab.dir().display());
        let ran = self.run(&me(), port, env, &["-e", &variables, &book.to_string_lossy()]).ok(round);
        assert!(ran.text().contains("failed=0"), "{round}: {}", ran.text());
        let there = |name: &str| self.lab.path(&format!("{round}/{name}"));
        assert_same_file(&self.lab.path("blob"), &there("blob"));
        assert_same_file(&self.lab.path("blob"), &there("fetched"));
        assert_eq!(std::fs::metadata(there("blob")).unwrap().permissions().mode() & 0o777, 0o640, "{round}");
        assert_eq!(self.lab.read(&format!("{round}/with 'quotes' & blanks")), "here\n", "{round}");
        assert_eq!(self.lab.read(&format!("{round}/made")), format!("round {round}\n"));
    }
}

/// Ansible moves its modules and files in every way it has, over a master connection that outlives each
/// command, then over a second master after the first was told to exit.
///
/// Covers: ssh_config ControlPersist; ssh -O stop; ssh -C; ssh -t; ssh_config ControlPath; wire mux
#[test]
fn a_playbook_runs_with_every_way_to_move_its_files() {
    let Some(here) = Controller::new("a_playbook_runs", "ansible-playbook") else { return };
    let Some([sshd]) = peers("a_playbook_runs", ["sshd"]) else { return };
    let ours = Lhsshd::start(&here.lab, "");
    let theirs = Inetd::openssh(&here.lab, &sshd, "");
    let logins = |log: &str| log.matches("Accepted publickey").count();
    let piped = ["ANSIBLE_PIPELINING=1", "ANSIBLE_SSH_TRANSFER_METHOD=sftp"];
    let by_scp = ["ANSIBLE_PIPELINING=0", "ANSIBLE_SSH_TRANSFER_METHOD=scp"];
    for (index, (round, env)) in [("ours-piped", piped), ("ours-scp", by_scp)].into_iter().enumerate() {
        here.play(ours.port, round, &env);
        assert_eq!(logins(&ours.log()), 2 * (index + 1), "{round}: a connection before the reset, one after");
        stop(&here);
    }
    let by_sftp = ["ANSIBLE_PIPELINING=0", "ANSIBLE_SSH_TRANSFER_METHOD=sftp"];
    here.play(theirs.port, "theirs-sftp", &by_sftp);
    assert_eq!(logins(&theirs.log()), 2, "a connection before the reset, one after");
    stop(&here);
}

/// Stops the remaining masters, so that no round uses the master of an earlier one.
fn stop(here: &Controller) {
    let sockets =
        "for s in cp/*; do test -S \"$s\" || continue; openssh-names/ssh -O exit -S \"$s\" x || exit 1; done";
    here.lab.sh(sockets).ok("ssh -O exit");
}

/// Ansible's results for a host that is down, has another host key, or does not know the user's key, and for
/// a password typed by `sshpass`.
///
/// Covers: ssh_config NumberOfPasswordPrompts; ssh_config StrictHostKeyChecking; ssh_config PreferredAuthentications
#[test]
fn ansible_tells_unreachable_hosts_from_failed_tasks() {
    let Some(here) = Controller::new("unreachable_hosts", "ansible") else { return };
    let server = Lhsshd::start(&here.lab, "PasswordAuthentication yes\n");
    let ad_hoc = |user: &str, port: u16, more: &[&str]| {
        let words = [&["there", "-m", "command", "-a", "id -un"], more].concat();
        here.run(user, port, &[], &words)
    };
    assert!(ad_hoc(&me(), server.port, &[]).ok("it works at all").text().contains(&me()));
    stop(&here);
    let unreachable = |ran: Ran, why: &str| {
        assert_eq!(ran.code, 4, "{why}: {}", ran.text());
        assert!(ran.text().contains("UNREACHABLE!") && ran.text().contains(why), "{why}: {}", ran.text());
    };
    unreachable(ad_hoc(&me(), lh_interop::tunnel::free_port(), &[]), "Connection refused");
    unreachable(ad_hoc("no-such-user", server.port, &[]), "Permission denied");
    let known = here.lab.read("known_hosts");
    here.lab.write("known_hosts", "");
    unreachable(ad_hoc(&me(), server.port, &[]), "Host key verification failed.");
    here.lab.write("known_hosts", &known);
    if !is_root() {
        return skip("unreachable_hosts", "a user with a password needs root");
    }
    let Some(_) = peers("unreachable_hosts", ["sshpass"]) else { return };
    let user = TestUser::new(&here.lab);
    let place = here.lab.path("for-everybody");
    std::fs::create_dir(&place).unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let place = format!("ansible_remote_tmp={}", place.display());
    let typed = |password: &str| {
        let variable = format!("ansible_password='{password}'");
        ad_hoc(
            &user.name,
            server.port,
            &[
                "-e",
                &variable,
                "-e",
                &place,
                "-e",
                "ansible_ssh_common_args='-o IdentityFile=none -o PubkeyAuthentication=no'",
            ],
        )
    };
    assert!(typed(user.password).ok("by password").text().contains(&user.name));
    stop(&here);
    let refused = typed("wrong");
    assert_eq!(refused.code, 4, "{}", refused.text());
    assert!(refused.text().contains("Invalid/incorrect password"), "{}", refused.text());
}
