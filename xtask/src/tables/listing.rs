//! A wildcard in a large directory, with and without attributes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use lh_interop::{Inetd, Lab, Lhsshd, find};

/// Entries of the directory.
pub(super) const ENTRIES: usize = 10_000;

/// Command, client and server, and the seconds of each round.
pub(super) type Listed = (&'static str, &'static str, Vec<f64>);

/// Lists in rounds, the clients in turns.
pub(super) fn measure(bins: &Path, rounds: usize) -> Result<Vec<Listed>, String> {
    let lab = Lab::new();
    let many = lab.path("many");
    std::fs::create_dir(&many).map_err(|error| error.to_string())?;
    for index in 0..ENTRIES {
        std::fs::write(many.join(format!("file{index:05}.dat")), "x").map_err(|error| error.to_string())?;
    }
    let ours = Lhsshd::start_program(&bins.join("lhsshd"), &lab, "", &[]);
    let stock = find("sshd").map(|sshd| Inetd::openssh(&lab, &sshd, ""));
    let lhsftp = bins.join("lhsftp");
    let mut pairs = vec![("Longhaul", lhsftp.clone(), ours.port_arg())];
    if let Some(stock) = &stock {
        pairs.push(("Longhaul's client, OpenSSH's server", lhsftp, stock.port_arg()));
        pairs.extend(find("sftp").map(|sftp| ("OpenSSH", sftp, stock.port_arg())));
    }
    let mut all: Vec<Listed> = Vec::new();
    for round in 0..=rounds {
        for command in ["ls -1", "ls -l"] {
            for (name, program, port) in &pairs {
                let took = list(&lab, program, port, command, &many)?;
                // The first round warms up.
                match all.iter_mut().find(|(known, of, _)| known == &command && of == name) {
                    Some((_, _, values)) => values.push(took),
                    None if round == 0 => all.push((command, name, Vec::new())),
                    None => {}
                }
            }
        }
    }
    Ok(all)
}

fn list(lab: &Lab, program: &Path, port: &str, command: &str, many: &Path) -> Result<f64, String> {
    lab.write("batch", &format!("{command} {}/*7.dat\n", many.display()));
    let mut sftp = Command::new(program);
    sftp.current_dir(lab.dir()).args(lab.client_options()).args(["-q", "-P", port, "-b", &lab.arg("batch")]);
    let begun = Instant::now();
    let done = sftp.arg("127.0.0.1").stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let took = begun.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let names = text.lines().filter(|line| line.ends_with("7.dat") && !line.starts_with("sftp>")).count();
    if names == ENTRIES / 10 {
        return Ok(took);
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(format!("{}: {names} names instead of {}: {said}", program.display(), ENTRIES / 10))
}
