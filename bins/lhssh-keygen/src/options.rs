//! Certificate options of `-O`.

use std::net::IpAddr;

use lh_config::cidr;

use crate::console::{Outcome, fatal};

/// Extensions of a user's certificate unless `-O` removes them.
const PERMITS: [(&str, &str); 5] = [
    ("x11-forwarding", "permit-X11-forwarding"),
    ("agent-forwarding", "permit-agent-forwarding"),
    ("port-forwarding", "permit-port-forwarding"),
    ("pty", "permit-pty"),
    ("user-rc", "permit-user-rc"),
];

/// A name and its optional value.
pub(crate) type CertificateOption = (String, Option<Vec<u8>>);

/// The collected options.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// State of each entry of [`PERMITS`].
    permits: [bool; PERMITS.len()],
    no_touch_required: bool,
    verify_required: bool,
    force_command: Option<String>,
    source_address: Option<String>,
    other_critical: Vec<CertificateOption>,
    other_extensions: Vec<CertificateOption>,
}

impl Options {
    /// Options of a new certificate: users have all permits, hosts none.
    pub(crate) fn new(host: bool) -> Self {
        Self { permits: [!host; PERMITS.len()], ..Self::default() }
    }

    /// Adds one `-O`.
    pub(crate) fn add(&mut self, option: &str) -> Outcome {
        let lower = option.to_ascii_lowercase();
        if let Some(permit) = lower.strip_prefix("permit-").and_then(place) {
            self.permits[permit] = true;
            return Ok(());
        }
        if let Some(permit) = lower.strip_prefix("no-").and_then(place) {
            self.permits[permit] = false;
            return Ok(());
        }
        match lower.as_str() {
            "clear" => {
                self.permits = [false; PERMITS.len()];
                self.no_touch_required = false;
                self.verify_required = false;
            }
            "no-touch-required" => self.no_touch_required = true,
            "touch-required" => self.no_touch_required = false,
            "verify-required" => self.verify_required = true,
            "no-verify-required" => self.verify_required = false,
            _ => return self.add_valued(option, &lower),
        }
        Ok(())
    }

    fn add_valued(&mut self, option: &str, lower: &str) -> Outcome {
        let value = |prefix: &str| lower.starts_with(prefix).then(|| &option[prefix.len()..]);
        if let Some(command) = value("force-command=") {
            set(&mut self.force_command, command, "force-command")
        } else if let Some(list) = value("source-address=") {
            set(&mut self.source_address, list, "source-address")?;
            // Certificates do not support host names and exceptions here.
            match list.split(',').find(|item| item.starts_with('!') || !cidr::is_network_list(item)) {
                Some(bad) => Err(fatal(format!("{}\nInvalid source-address list", why_no_network(bad)))),
                None => Ok(()),
            }
        } else if let Some(text) = value("critical:") {
            self.other_critical.push(split(text));
            Ok(())
        } else if let Some(text) = value("extension:") {
            self.other_extensions.push(split(text));
            Ok(())
        } else {
            Err(fatal(format!("Unsupported certificate option \"{}\"", lh_client::sanitise(option))))
        }
    }

    /// Critical options.
    pub(crate) fn critical(&self) -> Vec<CertificateOption> {
        let mut options = self.other_critical.clone();
        let mut put = |name: &str, value: Option<&String>| {
            options.push((name.to_owned(), value.map(|value| value.as_bytes().to_vec())));
        };
        if let Some(command) = &self.force_command {
            put("force-command", Some(command));
        }
        if let Some(list) = &self.source_address {
            put("source-address", Some(list));
        }
        if self.verify_required {
            put("verify-required", None);
        }
        options
    }

    /// Extensions.
    pub(crate) fn extensions(&self) -> Vec<CertificateOption> {
        let mut options = self.other_extensions.clone();
        let permitted = PERMITS.iter().zip(self.permits).filter(|(_, permitted)| *permitted);
        options.extend(permitted.map(|((_, name), _)| ((*name).to_owned(), None)));
        if self.no_touch_required {
            options.push(("no-touch-required".to_owned(), None));
        }
        options
    }
}

fn place(name: &str) -> Option<usize> {
    PERMITS.iter().position(|(short, _)| *short == name)
}

/// OpenSSH's line about an entry of a list that is neither an address nor a network.
fn why_no_network(entry: &str) -> String {
    let shown = lh_client::sanitise(entry);
    let has_form = entry.split_once('/').is_some_and(|(address, length)| {
        address.parse::<IpAddr>().is_ok() && length.parse::<u32>().is_ok_and(|length| length <= 128)
    });
    if has_form {
        format!("Inconsistent mask length for network \"{shown}\"")
    } else {
        format!("Invalid network entry \"{shown}\"")
    }
}

/// Sets an option that may occur only once and needs a value.
fn set(slot: &mut Option<String>, value: &str, name: &str) -> Outcome {
    if value.is_empty() {
        return Err(fatal(format!("Empty {name} option")));
    }
    if slot.is_some() {
        return Err(fatal(format!("{name} already specified")));
    }
    *slot = Some(value.to_owned());
    Ok(())
}

/// Splits `name` or `name=value`.
fn split(text: &str) -> CertificateOption {
    match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.as_bytes().to_vec())),
        None => (text.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(options: &[CertificateOption]) -> Vec<&str> {
        options.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn permits_apply_in_order() {
        let mut options = Options::new(false);
        for option in ["no-pty", "CLEAR", "permit-PTY", "permit-x11-forwarding", "no-x11-forwarding"] {
            options.add(option).expect("known");
        }
        assert_eq!(names(&options.extensions()), ["permit-pty"]);
        assert_eq!(names(&options.critical()), Vec::<&str>::new());
        assert_eq!(names(&Options::new(true).extensions()), Vec::<&str>::new());
        assert_eq!(Options::new(false).extensions().len(), 5);
    }

    #[test]
    fn addresses_must_be_networks() {
        for (list, good) in [
            ("192.0.2.1", true),
            ("192.0.2.0/24,2001:db8::/32", true),
            ("192.0.2.1/24", false),
            ("host.example", false),
            ("bad", false),
            ("192.0.2.0/24,!192.0.2.1", false),
            ("*", false),
            ("", false),
        ] {
            let mut options = Options::new(false);
            assert_eq!(options.add(&format!("source-address={list}")).is_ok(), good, "{list}");
        }
    }
}
