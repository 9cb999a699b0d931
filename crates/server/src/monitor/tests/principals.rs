//! Certificates and files of principals.

use std::path::PathBuf;

use lh_crypto::{CertificateFields, CertificateKind, SystemRandom};

use super::*;

/// A monitor that trusts an authority, and the certificate of a user.
struct Certified {
    scene: Scene,
    certificate: PublicKey,
    /// `AuthorizedPrincipalsFile`, which does not exist yet.
    file: PathBuf,
    _directory: tempfile::TempDir,
}

impl Certified {
    /// `principals` are those of the certificate.
    fn new(principals: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let [authorities, file] = ["authorities", "principals"].map(|name| directory.path().join(name));
        let mut scene = Scene::new(&format!(
            "TrustedUserCAKeys {}\nAuthorizedPrincipalsFile {}\n",
            authorities.display(),
            file.display()
        ));
        let authority = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
        std::fs::write(authorities, authority.public().to_openssh_line("")).unwrap();
        let fields = CertificateFields {
            serial: 0,
            kind: CertificateKind::User,
            key_id: "ada's".to_owned(),
            principals: principals.iter().map(|&name| name.to_owned()).collect(),
            valid_after: 0,
            valid_before: u64::MAX,
            critical_options: Vec::new(),
            extensions: Vec::new(),
        };
        let signed = fields.to_be_signed(scene.key.public(), authority.public(), &mut SystemRandom).unwrap();
        let signature = authority.sign("ssh-ed25519", &signed).unwrap();
        let certificate = CertificateFields::finish(signed, &signature).unwrap();
        scene.monitor.sign_first(0, "ssh-ed25519", &[3; 32]).unwrap().unwrap();
        Self { scene, certificate, file, _directory: directory }
    }

    /// Returns whether the certificate is acceptable, as a client asks before it signs.
    fn is_acceptable(&mut self) -> bool {
        let verdict = self.scene.decide(Method::PublicKey(PublicKeyAttempt {
            algorithm: "ssh-ed25519-cert-v01@openssh.com".into(),
            key: self.certificate.blob().to_vec(),
            signature: None,
            signed: Vec::new(),
            hostbound: false,
        }));
        matches!(verdict.unwrap(), Verdict::KeyOk)
    }
}

#[test]
fn large_principals_files_are_read_for_each_query() {
    let mut certified = Certified::new(&["web", "db"]);
    let many = "other # a comment\n".repeat(100_000);
    std::fs::write(&certified.file, &many).unwrap();
    assert!(!certified.is_acceptable());
    let ours = "no-such-option db\nno-pty web # one more\n";
    std::fs::write(&certified.file, format!("{many}{ours}{many}")).unwrap();
    assert!(certified.is_acceptable());
    // Nothing of the file has stayed in memory.
    std::fs::remove_file(&certified.file).unwrap();
    assert!(!certified.is_acceptable());
}

#[test]
fn small_principals_files_are_read_once_for_each_connection() {
    let mut certified = Certified::new(&["web"]);
    std::fs::write(&certified.file, "db\nweb\n").unwrap();
    assert!(certified.is_acceptable());
    std::fs::remove_file(&certified.file).unwrap();
    assert!(certified.is_acceptable());
}
