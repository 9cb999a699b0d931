//! Bill of materials in the form of CycloneDX 1.5 (JSON).

use serde_json::{Value, json};

use super::dependencies::{Crate, Graph};
use super::source::{Source, sha256};

/// Returns the bill of all packaged programs. It depends only on the sources.
pub(super) fn cyclonedx(graph: &Graph, source: &Source) -> Result<String, String> {
    let components: Vec<Value> = graph.crates.iter().map(component).collect();
    let mut dependencies: Vec<Value> = graph
        .crates
        .iter()
        .map(|one| {
            let needs: Vec<String> = one.needs.iter().map(|need| reference(&graph.crates[*need])).collect();
            json!({"ref": reference(one), "dependsOn": needs})
        })
        .collect();
    let is_root = |one: &&Crate| graph.roots.contains(&one.name.as_str()) && !one.from_registry;
    let roots: Vec<String> = graph.crates.iter().filter(is_root).map(reference).collect();
    dependencies.push(json!({"ref": "longhaul", "dependsOn": roots}));
    let mut bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": "",
        "version": 1,
        "metadata": {
            "timestamp": timestamp(source.epoch)?,
            "component": {
                "type": "application", "bom-ref": "longhaul", "name": "longhaul", "version": source.version(),
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    bill["serialNumber"] = uuid(&bill.to_string()).into();
    serde_json::to_string_pretty(&bill).map(|text| text + "\n").map_err(|error| error.to_string())
}

fn component(one: &Crate) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(one),
        "name": one.name,
        "version": one.version,
        "scope": if one.is_linked { "required" } else { "excluded" },
        "licenses": [{"expression": one.licence}],
        "purl": reference(one),
    });
    if let Some(checksum) = &one.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if !one.repository.is_empty() {
        component["externalReferences"] = json!([{"type": "vcs", "url": one.repository}]);
    }
    component
}

fn reference(one: &Crate) -> String {
    format!("pkg:cargo/{}@{}", one.name, one.version.replace('+', "%2B"))
}

pub(super) fn timestamp(epoch: u64) -> Result<String, String> {
    let epoch = i64::try_from(epoch).map_err(|_| "SOURCE_DATE_EPOCH: too large".to_owned())?;
    let (year, month, day) = lh_sys::time::date(epoch.div_euclid(86_400));
    let second = epoch.rem_euclid(86_400);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    Ok(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60))
}

/// Returns an identifier that is derived from the contents (RFC 9562, version 8).
fn uuid(text: &str) -> String {
    let hash = sha256(text.as_bytes());
    format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        &hash[..8],
        &hash[8..12],
        &hash[13..16],
        &hash[17..20],
        &hash[20..32]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_those_of_the_calendar() {
        assert_eq!(timestamp(0).unwrap(), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp(1_800_000_061).unwrap(), "2027-01-15T08:01:01Z");
    }
}
