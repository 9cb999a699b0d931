//! Checks that docs/algorithms.md has the registry's rows as tables. A FIPS build has only some of them.
#![cfg(not(feature = "fips"))]

use std::fmt::Write as _;
use std::path::Path;

use lh_crypto::registry::{COMPRESSIONS, End, KEYS, Kind, Starts};
use lh_crypto::{Cipher, KexAlgorithm, KexFamily, Listing, Mac, Offered};

const HEAD: &str = "\
# Algorithms

For administrators who edit `Ciphers`, `MACs`, `KexAlgorithms`, `HostKeyAlgorithms` and their relatives. After it you know every name that a
configuration may contain, what is offered without one, and where each algorithm is specified. `lhssh -Q` prints the same names,
except those of `NoneSwitch`.

Rows are in the order of preference. The client prefers AES-GCM to ChaCha20-Poly1305 where the CPU has instructions for AES.

The column \"offered by\" says which end has the name in its default list, so offers it without configuration:

- *client, server*: both ends.
- *client*: `lhssh` and the other clients. A server offers it only where its configuration names it.
- *only where named*: neither end, unless its configuration names it. Algorithms for old equipment are weak.
- *with `NoneSwitch`, after login*: no list may name it; [protocol.md](protocol.md) says how both ends agree on it.

Builds with AWS-LC's FIPS module ([fips.md](fips.md)) have only the algorithms with \"yes\" in the column FIPS. The tables come from the
registry (`crates/crypto/src/registry.rs`); a test compares them.
";

/// Names in the lists of key exchange methods that are in no registry.
const ANNOUNCEMENTS: &str = "
Each end adds names to its list that are no methods, but announce what it can do; a configuration cannot name them. The client adds
`ext-info-c` and `kex-strict-c-v00@openssh.com`, the server `ext-info-s` and `kex-strict-s-v00@openssh.com` (RFC 8308; strict key
exchange in OpenSSH's PROTOCOL).
";

fn offered(listing: Listing) -> &'static str {
    match listing.offered {
        Offered::ByBoth => "client, server",
        Offered::ByClient => "client",
        Offered::OnRequest => "only where named",
        Offered::Legacy => "only where named: old equipment",
        Offered::AfterLogin => "with `NoneSwitch`, after login",
    }
}

fn table(page: &mut String, title: &str, columns: &[&str], rows: &[Vec<String>]) {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let _ = write!(page, "\n## {title}\n\n");
    page.push_str(&line(columns.iter().map(|name| (*name).to_owned()).collect()));
    page.push_str(&line(columns.iter().map(|_| "---".to_owned()).collect()));
    rows.iter().for_each(|row| page.push_str(&line(row.clone())));
}

fn row(name: &str, details: &[String], listing: Listing) -> Vec<String> {
    let mut row = vec![format!("`{name}`")];
    row.extend_from_slice(details);
    let fips = if listing.approved { "yes" } else { "" };
    row.extend([offered(listing).to_owned(), fips.to_owned(), listing.source.to_owned()]);
    row
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let kex: Vec<_> = KexAlgorithm::ALL
        .iter()
        .map(|kex| {
            let family = match kex.family() {
                KexFamily::Ecdh => "elliptic curve",
                KexFamily::DhGroup => "finite field",
                KexFamily::DhGex => "finite field of the server's choice",
                KexFamily::Hybrid => "post-quantum and elliptic curve",
            };
            row(
                kex.name(),
                &[family.to_owned(), format!("{:?}", kex.hash()).replace("Sha", "SHA-")],
                kex.listing(),
            )
        })
        .collect();
    table(&mut page, "Key exchange", &["name", "method", "hash", "offered by", "FIPS", "source"], &kex);
    page.push_str(ANNOUNCEMENTS);

    let mut keys: Vec<_> = KEYS.iter().collect();
    keys.sort_by_key(|key| key.listing.rank);
    let keys: Vec<_> =
        keys.iter().map(|key| row(key.name, &[format!("`{}`", key.certificate)], key.listing)).collect();
    let columns = ["name", "with a certificate", "offered by", "FIPS", "source"];
    table(&mut page, "Signatures of host keys and users' keys", &columns, &keys);
    page.push_str("\nServers accept users' keys of every algorithm that the client offers by default.\n");

    let mut ciphers: Vec<_> = Cipher::ALL.iter().collect();
    ciphers.extend([Cipher::INTEGRITY_ONLY, Cipher::NONE]);
    let ciphers: Vec<_> = ciphers
        .iter()
        .map(|cipher| {
            let mac = if cipher.is_aead() { "its own" } else { "negotiated" };
            let details = [(8 * cipher.key_len).to_string(), mac.to_owned()];
            row(cipher.name, &details, cipher.listing)
        })
        .collect();
    table(&mut page, "Ciphers", &["name", "key, bits", "MAC", "offered by", "FIPS", "source"], &ciphers);

    let macs: Vec<_> = Mac::ALL
        .iter()
        .chain([Mac::NONE])
        .map(|mac| {
            let order = if mac.etm { "encrypt-then-MAC" } else { "encrypt-and-MAC" };
            let details = [(8 * mac.key_len).to_string(), (8 * mac.tag_len).to_string(), order.to_owned()];
            row(mac.name, &details, mac.listing)
        })
        .collect();
    let columns = ["name", "key, bits", "tag, bits", "order", "offered by", "FIPS", "source"];
    table(&mut page, "MACs", &columns, &macs);

    let compressions: Vec<_> = COMPRESSIONS
        .iter()
        .map(|each| {
            let starts = match each.starts {
                Starts::Never => "never",
                Starts::AfterLogin => "after login",
                Starts::AtOnce => "before login",
            };
            let mut row = row(each.name, &[starts.to_owned()], each.listing);
            row.remove(3);
            row
        })
        .collect();
    table(&mut page, "Compression", &["name", "starts", "offered by", "source"], &compressions);

    page.push_str("\n## Known names that are not implemented\n\n");
    page.push_str(
        "A configuration may contain these names of OpenSSH; they are left out of what is offered.\n\n",
    );
    for name in Kind::ALL.iter().flat_map(|kind| kind.foreign()) {
        let _ = writeln!(page, "- `{name}`");
    }
    page
}

#[test]
fn page_of_algorithms_is_the_registry() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("algorithms.md");
    std::fs::write(&made, page()).unwrap();
    let stored = std::fs::read_to_string(root.join("docs/algorithms.md")).unwrap_or_default();
    assert!(stored == page(), "docs/algorithms.md is out of date: cp {} docs/", made.display());
}

#[test]
fn page_names_every_algorithm_once_in_its_table() {
    let page = page();
    for kind in Kind::ALL {
        for name in kind.names().iter().filter(|name| **name != "none") {
            assert_eq!(page.matches(&format!("`{name}`")).count(), 1, "{name}");
        }
        assert!(kind.defaults(End::Server).iter().all(|name| kind.defaults(End::Client).contains(name)));
    }
}
