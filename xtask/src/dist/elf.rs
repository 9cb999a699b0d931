//! The list of crates inside a program, in the form of cargo-auditable: a section `.dep-v0` with compressed
//! JSON. Scanners for vulnerabilities read it.

use serde_json::json;

use super::dependencies::Graph;
use super::tree::gzip;

/// Returns the contents of the section.
pub(super) fn crate_list(graph: &Graph) -> Result<Vec<u8>, String> {
    let packages: Vec<_> = graph
        .crates
        .iter()
        .map(|one| {
            let source = if one.from_registry { "crates.io" } else { "local" };
            let mut package = json!({"name": one.name, "version": one.version, "source": source});
            if !one.is_linked {
                package["kind"] = "build".into();
            }
            if !one.needs.is_empty() {
                package["dependencies"] = json!(one.needs);
            }
            if one.name == graph.roots[0] {
                package["root"] = true.into();
            }
            package
        })
        .collect();
    zlib(json!({ "packages": packages }).to_string().as_bytes())
}

/// Returns a zlib stream (RFC 1950): gzip's stream with another header and another checksum.
fn zlib(data: &[u8]) -> Result<Vec<u8>, String> {
    /// Length of gzip's header without a file name, and of its trailer (checksum and length).
    const HEADER: usize = 10;
    const TRAILER: usize = 8;
    let file = gzip(data)?;
    let deflated = file.len().checked_sub(TRAILER).and_then(|end| file.get(HEADER..end));
    let mut out = vec![0x78, 0xda];
    out.extend(deflated.ok_or("gzip: a file without a header")?);
    out.extend(adler32(data).to_be_bytes());
    Ok(out)
}

fn adler32(data: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    for byte in data {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zlib_stream_is_read_by_others() {
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
        let data: Vec<u8> = (0..200_000u32).map(|each| (each % 251) as u8).collect();
        let script = "import sys,zlib; sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read()))";
        let mut child = std::process::Command::new("python3")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let stream = zlib(&data).unwrap();
        let writer = std::thread::spawn(move || std::io::Write::write_all(&mut input, &stream));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.stdout == data);
    }
}
