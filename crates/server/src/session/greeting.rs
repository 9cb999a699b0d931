//! The greeting of a login at a terminal: messages of PAM's modules, the last login, the message of the day.

use std::path::Path;

use lh_sys::records::Last;
use lh_sys::users::User;

/// Returns the text, with line ends for a terminal in raw mode; `None` for users with a file `.hushlogin`.
pub(super) fn text(user: &User, said: &str, last: Option<&Last>, motd: Option<&Path>) -> Option<String> {
    if user.home.join(".hushlogin").exists() {
        return None;
    }
    let mut text = said.to_owned();
    if let Some(Last { time, host }) = last {
        let time = lh_sys::time::ctime_text(*time);
        // The lastlog file may hold control characters that other programs wrote.
        let host: String = host.chars().filter(|&c| !lh_wire::is_hidden(c)).collect();
        match host.as_str() {
            "" => text.push_str(&format!("Last login: {time}\n")),
            host => text.push_str(&format!("Last login: {time} from {host}\n")),
        }
    }
    if let Some(motd) = motd.and_then(|path| std::fs::read(path).ok()) {
        text.push_str(&String::from_utf8_lossy(&motd));
    }
    Some(text.replace("\r\n", "\n").replace('\n', "\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_openssh_s_order_and_words() {
        let home = tempfile::tempdir().unwrap();
        let user = crate::testing::user(1, home.path(), "/bin/sh");
        let motd = home.path().join("motd");
        std::fs::write(&motd, "Be kind.\n").unwrap();
        let last = Last { time: 1_700_000_000, host: "client.example\x1b".into() };
        let time = lh_sys::time::ctime_text(last.time);
        assert_eq!(
            text(&user, "You have mail.\n", Some(&last), Some(&motd)).unwrap(),
            format!("You have mail.\r\nLast login: {time} from client.example\r\nBe kind.\r\n")
        );
        assert_eq!(text(&user, "", None, None).unwrap(), "");
        let nowhere = Last { host: String::new(), ..last };
        assert_eq!(text(&user, "", Some(&nowhere), None).unwrap(), format!("Last login: {time}\r\n"));
        std::fs::write(home.path().join(".hushlogin"), "").unwrap();
        assert_eq!(text(&user, "x", Some(&nowhere), Some(&motd)), None);
    }
}
