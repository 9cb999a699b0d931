//! Login shells that start slowly or print text, and other programs in place of a shell.

use std::process::{Command, Stdio};

use lh_interop::{Inetd, Lab, find, our, peers, script, skip};
use serde_json::Value;

use super::path_setup::{PathSetup, Plan, Server, first, spec, takes};

/// A program of Python that passes on a megabyte a second.
const SLOW: &str = "import os, time\nwhile data := os.read(0, 16384):\n while data: data = data[os.write(1, data):]\n time.sleep(0.016)";
/// The same, with 400 kB/s.
const SLOWER: &str = "import os, time\nwhile data := os.read(0, 16384):\n while data: data = data[os.write(1, data):]\n time.sleep(0.04)";

#[test]
fn doctor_names_the_slow_line_of_a_start_up_file() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_the_slow_line_of_a_start_up_file", &plan) else {
        return;
    };
    std::fs::write(setup.user.home.join(".bash_profile"), "# comment\nsleep 2.5\n").unwrap();
    let diagnosis = setup.examine(&[], "shell_startup");
    first(&diagnosis, "shell_startup", &["sleep 2.5", ".bash_profile line 2"]);
    // What was typed into the shell is not in the user's history.
    assert!(!setup.user.home.join(".bash_history").exists());
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_start_up_files_that_print() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_start_up_files_that_print", &plan) else { return };
    std::fs::write(setup.user.home.join(".bashrc"), "echo 'Welcome to the cluster'\n").unwrap();
    first(&setup.examine(&[], "shell_output"), "shell_output", &["Welcome to the cluster", ".bashrc"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_forced_command_that_starts_slowly() {
    let config = "ForceCommand sleep 2; exec ${SHELL} -c \"${SSH_ORIGINAL_COMMAND:-exit}\"";
    let plan = Plan { spec: spec(100, 20), config, ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_forced_command_that_starts_slowly", &plan) else {
        return;
    };
    first(&setup.examine(&[], "command_start"), "command_start", &["ForceCommand", "2.0 s"]);
}

/// A pipe in front of the output, and no terminal, whose shell would have no such pipe.
#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_output_that_reaches_ssh_slowly() {
    let test = "doctor_names_output_that_reaches_ssh_slowly";
    if find("python3").is_none() {
        return skip(test, "python3 is not installed");
    }
    let tools = Lab::new();
    script(
        &tools.path("slow"),
        &format!("\"$SHELL\" -c \"${{SSH_ORIGINAL_COMMAND:-exit}}\" | python3 -c '{SLOW}'"),
    );
    let config = format!("ForceCommand {}\nPermitTTY no", tools.arg("slow"));
    let plan = Plan { spec: spec(100, 20), config: &config, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let diagnosis = setup.examine(&[], "command_output");
    first(&diagnosis, "command_output", &["limits downloads", "app_limited", "ForceCommand"]);
    let rate = diagnosis["measured"]["download"]["bytes_per_second"].as_f64().unwrap();
    assert!((0.2e6..1.1e6).contains(&rate), "planted 1 MB/s: {diagnosis:#}");
    assert!(!diagnosis["findings"].to_string().contains("\"dscp\""), "{diagnosis:#}");
    assert!(diagnosis["missing"].to_string().contains("the server gives no terminal"), "{diagnosis:#}");
    assert_eq!(diagnosis["measured"]["shell_seconds"], serde_json::json!([]), "{diagnosis:#}");
}

/// A pipe in front of the input that passes on this much, bytes/s.
fn names_slow_input(test: &str, kind: Server, (pipe, planted): (&str, f64)) {
    if find("python3").is_none() {
        return skip(test, "python3 is not installed");
    }
    let tools = Lab::new();
    script(
        &tools.path("slow"),
        &format!("python3 -c '{pipe}' | \"$SHELL\" -c \"${{SSH_ORIGINAL_COMMAND:-exit}}\""),
    );
    let config = format!("ForceCommand {}\nPermitTTY no", tools.arg("slow"));
    let plan = Plan { spec: spec(100, 20), config: &config, server: kind, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let diagnosis = setup.examine(&[], "command_input");
    first(&diagnosis, "command_input", &["which limits uploads", "SSH window of", "ForceCommand"]);
    let rate = diagnosis["measured"]["upload"]["bytes_per_second"].as_f64().unwrap();
    let limits = 0.5 * planted..1.1 * planted;
    assert!(limits.contains(&rate), "planted {planted} B/s: {diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_command_that_takes_its_input_slowly() {
    let test = "doctor_names_a_command_that_takes_its_input_slowly";
    names_slow_input(test, Server::OpenSsh, (SLOW, 1e6));
}

/// Its windows grow at first, and then follow what the command takes: TCP has nothing to do for seconds.
#[test]
fn doctor_names_a_slow_input_behind_windows_that_grow() {
    let test = "doctor_names_a_slow_input_behind_windows_that_grow";
    names_slow_input(test, Server::Longhaul, (SLOWER, 0.4e6));
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_an_sftp_server_that_starts_late() {
    let config = "Subsystem sftp sleep 1.5; exec /usr/lib/openssh/sftp-server";
    let plan = Plan { spec: spec(100, 20), config, ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_an_sftp_server_that_starts_late", &plan) else { return };
    let diagnosis = setup.examine(&[], "sftp_start");
    first(&diagnosis, "sftp_start", &["SFTP starts late", "internal-sftp"]);
    takes(&diagnosis, 1.5);
}

/// A pipe in front of the server's program, which holds back what it is to write.
#[test]
fn doctor_names_an_sftp_server_that_is_slow_while_it_runs() {
    let test = "doctor_names_an_sftp_server_that_is_slow_while_it_runs";
    if find("python3").is_none() {
        return skip(test, "python3 is not installed");
    }
    let tools = Lab::new();
    script(&tools.path("slow"), &format!("python3 -c '{SLOW}' | /usr/lib/openssh/sftp-server"));
    let config = format!("Subsystem sftp {}", tools.arg("slow"));
    let plan = Plan { spec: spec(100, 20), config: &config, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let diagnosis = setup.examine(&[], "sftp_rate");
    first(&diagnosis, "sftp_rate", &["SFTP writes a file at", "on uploads", "internal-sftp"]);
    let rate = diagnosis["measured"]["sftp_file"]["write_bytes_per_second"].as_f64().unwrap();
    assert!((0.5e6..1.1e6).contains(&rate), "planted 1 MB/s: {diagnosis:#}");
    let left = std::fs::read_dir(&setup.user.home).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("longhaul")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn doctor_quotes_what_answers_in_place_of_a_shell() {
    let lab = Lab::new();
    for (config, words) in [
        ("ForceCommand internal-sftp\n", "This service allows sftp connections only."),
        (
            "ForceCommand echo git only; exit 3\n",
            "another program answers in place of the shell: \\\"git only\\\"",
        ),
        ("ForceCommand echo no >&2; exit 3\n", "commands give no output (status 3): \\\"no\\\""),
    ] {
        let Some([sshd]) = peers("doctor_quotes_what_answers_in_place_of_a_shell", ["sshd"]) else { return };
        let server = Inetd::openssh(&lab, &sshd, config);
        let mut command = Command::new(our("longhaul"));
        command.args(["doctor", "--json"]).args(lab.client_options()).args(["-P", &server.port_arg()]);
        let done = command.arg("127.0.0.1").stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let value: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert!(value["missing"].to_string().contains(words), "{words}: {value:#}");
        assert!(value["measured"]["logins_seconds"][0]["key_exchange"].is_number(), "{value:#}");
    }
}
