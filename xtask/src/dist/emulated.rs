//! Tests programs for another processor under qemu's user mode: keys, signatures, a login and copies with
//! OpenSSH's server, and a copy with the program's own SFTP server.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::musl_headers;
use super::platform::STATIC;
use super::source::failed;
use crate::disk::OTHER_TARGETS;
use crate::workspace::{Outcome, UNOPTIMISED, add_library, call, cargo, target_dir};

/// Size of the copied file, bytes: larger than a channel's window and than many requests.
const BLOB_LEN: usize = 24 << 20;

/// The test script. It runs in a directory with the names of the programs; `$Q` is the path of `qemu`,
/// `$SSHD` that of a server, or empty.
const SCRIPT: &str = r#"set -eu
PATH=$PWD:$PATH
./run lhssh -V
./run lhssh-keygen -q -t ed25519 -N '' -f key
./run lhssh-keygen -q -t ecdsa -N '' -f host
./run lhssh-keygen -Y sign -q -f key -n file blob >/dev/null
echo "me $(cat key.pub)" >signers
./run lhssh-keygen -Y verify -q -f signers -I me -n file -s blob.sig <blob
./run lhscp -D "$PWD/sftp-server" blob x:"$PWD/over-pipe"
cmp blob over-pipe
[ -n "$SSHD" ] || { echo 'SKIPPED dist: no sshd is installed, so programs for another processor log in nowhere'; exit 0; }
cp key.pub authorized
printf 'HostKey %s/host\nAuthorizedKeysFile %s/authorized\nStrictModes no\nUsePAM no\nSubsystem sftp internal-sftp\n' \
    "$PWD" "$PWD" >sshd_config
mkdir -p /run/sshd 2>/dev/null || true
for algorithms in 'aes128-gcm@openssh.com curve25519-sha256' 'chacha20-poly1305@openssh.com ecdh-sha2-nistp384' \
    'aes256-ctr sntrup761x25519-sha512@openssh.com'; do
    set -- $algorithms
    printf 'Host h\n ProxyCommand %s -i -f %s/sshd_config\n IdentityFile %s/key\n IdentitiesOnly yes\n Ciphers %s\n KexAlgorithms %s\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n BatchMode yes\n' \
        "$SSHD" "$PWD" "$PWD" "$1" "$2" >config
    [ "$(./run lhssh -F config h 'printf "%s" "in"; exit 7' || echo " $?")" = 'in 7' ]
    rm -f up down
    ./run lhscp -F config blob h:"$PWD/up"
    ./run lhscp -F config --verify h:"$PWD/up" down
    cmp blob down
done
echo "dist: $(./run longhaul --version) works under $Q"
"#;

/// Tests the program with all names for 64-bit ARM, as a step of the test command. The directory of
/// the checks for this processor has the macros and build scripts already.
pub(crate) fn test_debug() -> Outcome {
    let [_, platform] = &STATIC;
    let triple = platform.triple;
    if !add_library("emulated", triple)? {
        return Ok(());
    }
    if let Some(command) = platform.missing_compiler() {
        println!("emulated: SKIPPED: no C compiler for {triple}: {command}");
        return Ok(());
    }
    let Some(headers) = musl_headers::directory()? else {
        println!("emulated: SKIPPED: musl's headers for {triple} cannot be downloaded");
        return Ok(());
    };
    let mut command = cargo();
    command.args(["build", "--locked", "--target", triple, "--package", "longhaul-multi"]);
    // Emulated cryptography without any optimisation would take minutes.
    command.args(UNOPTIMISED).args(["--config", "profile.dev.package.aws-lc-sys.opt-level=2"]);
    command.args(["--config", "profile.dev.debug=false"]);
    command.envs(platform.variables.iter().copied());
    let flags = format!("-isystem {}", headers.display());
    command.env(format!("CFLAGS_{}", triple.replace('-', "_")), flags);
    let target = target_dir().join(OTHER_TARGETS);
    call(command.env("CARGO_TARGET_DIR", &target))?;
    test(&target.join(triple).join("debug/longhaul-multi"), platform.architecture())
}

/// Tests the program with all names, built for `architecture`. Reports when there is no emulator.
pub(super) fn test(program: &Path, architecture: &str) -> Outcome {
    if architecture == std::env::consts::ARCH {
        return Ok(());
    }
    let emulators = [format!("qemu-{architecture}"), format!("qemu-{architecture}-static")];
    let Some(qemu) = emulators.iter().find_map(|name| lh_interop::find(name)) else {
        println!("SKIPPED dist: the programs for {architecture} are not tried: apt-get install qemu-user");
        return Ok(());
    };
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let at = |name: &str| directory.path().join(name);
    for name in ["lhssh", "lhssh-keygen", "lhscp", "lhsftp-server", "longhaul"] {
        symlink(program, at(&format!("bin-{name}"))).map_err(failed(&at(name)))?;
    }
    let shown = directory.path().display();
    // The program selects its function by the name with which it is called.
    let run = format!("name=$1; shift\nexec {} -0 \"$name\" {shown}/bin-\"$name\" \"$@\"", qemu.display());
    lh_interop::script(&at("run"), &run);
    lh_interop::script(&at("sftp-server"), &format!("exec {shown}/run lhsftp-server \"$@\""));
    lh_interop::make_blob(&at("blob"), BLOB_LEN);
    let sshd = lh_interop::find("sshd").map_or_else(String::new, |path| path.display().to_string());
    let status = Command::new("sh")
        .args(["-c", SCRIPT])
        .current_dir(directory.path())
        .env("Q", &qemu)
        .env("SSHD", sshd)
        .status()
        .map_err(|error| format!("sh: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the programs for {architecture} fail under emulation: {status}"))
    }
}
