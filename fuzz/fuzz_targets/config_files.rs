//! `ssh_config` and `sshd_config` from memory, and the form in which the listener hands the latter on.
//! `Include` lines are left out: they would read this machine's files.
#![no_main]

use std::path::Path;

use lh_config::client::{self, Request, UserFile};
use lh_config::{Account, CommandFailure, ConnectionFacts, Environment, ServerConfig};
use libfuzzer_sys::fuzz_target;

struct Nothing;

impl Environment for Nothing {
    fn variable(&self, name: &str) -> Option<String> {
        (name.len() < 4).then(|| "value".to_owned())
    }
    fn run(&self, command: &str) -> Result<bool, CommandFailure> {
        match command.len() % 4 {
            0 => Err(CommandFailure::Abnormal(command.to_owned())),
            length => Ok(length == 2),
        }
    }
    fn sha1(&self, _: &[u8]) -> [u8; 20] {
        [7; 20]
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = ServerConfig::from_bytes(bytes);
    let text: String = String::from_utf8_lossy(bytes)
        .lines()
        .filter(|line| !line.to_ascii_lowercase().contains("include"))
        .map(|line| format!("{line}\n"))
        .collect();
    if let Ok(config) = ServerConfig::from_text(Path::new("sshd_config"), &text, &Nothing) {
        let again = ServerConfig::from_bytes(&config.to_bytes()).expect("reads what it wrote");
        assert_eq!(again.settings, config.settings);
        let facts = ConnectionFacts { user: Some("root".to_owned()), ..ConnectionFacts::default() };
        let _ = config.for_connection(&facts).expect("applies").dump(true, &|_| Vec::new());
    }
    let account = Account {
        name: "user".to_owned(),
        uid: 1000,
        home: "/nonexistent".into(),
        host_name: "here".to_owned(),
    };
    let user_file = UserFile::Text("ssh_config".into(), text);
    let request = Request { user_file, system_file: None, ..Request::new("host", account) };
    if let Ok(config) = client::load(&request, &Nothing) {
        let _ = config.dump(&|_| vec!["a".to_owned()]);
        let _ = config.identity_files(&Nothing);
        let _ = config.user_known_hosts_files();
    }
});
