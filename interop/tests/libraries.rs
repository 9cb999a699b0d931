//! PAM's and Kerberos' libraries are loaded at run time: behaviour of the programs without them.

use std::path::Path;

use lh_interop::{Lab, Lhsshd, Ran, our};

/// A directory whose libraries are found before the system's, and cannot be loaded.
fn unusable(lab: &Lab) -> String {
    let directory = lab.path("libraries");
    std::fs::create_dir(&directory).unwrap();
    for name in ["libpam.so.0", "libgssapi_krb5.so.2"] {
        std::fs::write(directory.join(name), "").unwrap();
    }
    directory.display().to_string()
}

fn without_libraries(lab: &Lab, program: &str, args: &[&str]) -> Ran {
    let variable = format!("LD_LIBRARY_PATH={}", unusable(lab));
    let program = our(program).display().to_string();
    lab.run(Path::new("/usr/bin/env"), &[&[&*variable, &*program], args].concat())
}

fn checked(keyword: &str) -> Ran {
    let lab = Lab::new();
    let key = lab.arg("host_ed25519");
    without_libraries(&lab, "lhsshd", &["-t", "-f", "none", "-h", &key, "-o", keyword])
}

#[test]
fn no_server_starts_without_the_pam_that_it_is_to_use() {
    let ran = checked("UsePAM yes");
    assert_eq!(ran.code, 255, "{}", ran.err);
    assert!(ran.err.contains("UsePAM: ") && ran.err.contains("libpam.so.0"), "{}", ran.err);
    let ran = checked("UsePAM no");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn a_server_without_kerberos_library_says_so_and_starts() {
    let ran = checked("GSSAPIAuthentication yes");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("GSSAPIAuthentication: ") && ran.err.contains("libgssapi_krb5.so.2"),
        "{}",
        ran.err
    );
}

#[test]
fn a_client_without_kerberos_library_logs_in_by_other_means() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "GSSAPIAuthentication yes");
    let port = server.port_arg();
    let mut args = lab.client_options();
    args.extend(
        ["-v", "-o", "GSSAPIAuthentication=yes", "-p", &port, "127.0.0.1", "echo in"].map(str::to_owned),
    );
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ran = without_libraries(&lab, "lhssh", &args);
    assert_eq!((ran.code, ran.text().as_str()), (0, "in\n"), "{}", ran.err);
    assert!(ran.err.contains("libgssapi_krb5.so.2: file too short"), "{}", ran.err);
}
