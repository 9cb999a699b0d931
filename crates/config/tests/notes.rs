//! Notes for the log: which lines of a client's configuration apply, as `-v` shows it.

mod common;

use common::Home;
use lh_config::enums::LogLevel;

#[test]
fn notes_say_which_blocks_apply() {
    let home = Home::new();
    let config = home
        .with_text("h", "Include none/*\nMatch user x\nMatch exec \"test 1\" !host h\nHost h\nMatch all\n")
        .expect("loads");
    let notes: Vec<_> = config
        .notes
        .iter()
        .skip(1)
        .map(|note| (note.level, note.text.split_once("given ").map_or(note.text.as_str(), |parts| parts.1)))
        .collect();
    assert_eq!(
        notes,
        [
            (LogLevel::Debug1, "line 1: include ~/.ssh/none/* matched no files"),
            (LogLevel::Debug2, "checking match for 'user x' host h originally h"),
            (LogLevel::Debug3, "line 2: not matched 'user \"x\"'"),
            (LogLevel::Debug2, "match not found"),
            (LogLevel::Debug2, "checking match for 'exec \"test 1\" !host h' host h originally h"),
            (LogLevel::Debug1, "Executing command: 'test 1'"),
            (LogLevel::Debug3, "line 3: not matched 'exec \"test 1\"'"),
            (LogLevel::Debug3, "line 3: not matched '!host \"h\"'"),
            (LogLevel::Debug2, "match not found"),
            (LogLevel::Debug1, "line 4: Applying options for h"),
            (LogLevel::Debug2, "checking match for 'all' host h originally h"),
            (LogLevel::Debug3, "line 5: matched 'all'"),
            (LogLevel::Debug2, "match found"),
        ]
    );
}

#[test]
fn directories_of_includes_that_cannot_be_read_are_named() {
    let home = Home::new();
    home.write(".ssh/other.conf", "Compression yes\n");
    // Root may read any directory, but not a link to itself.
    let unreadable = home.path(".ssh/conf.d");
    std::os::unix::fs::symlink("conf.d", &unreadable).expect("a link");
    let config = home.with_text("h", "Include conf.d/* other*\n").expect("loads");
    assert!(*config.compression, "the other files are included");
    let named = |text: &str| text.contains(&format!(": {}: ", unreadable.display()));
    assert!(config.notes.iter().any(|note| note.level == LogLevel::Debug1 && named(&note.text)));
    let text = format!("Include {}/*\nUseDNS yes\n", unreadable.display());
    let path = home.write("sshd", &text);
    let config = lh_config::ServerConfig::load(Some(&path), &[], &home.world).expect("loads");
    assert!(config.use_dns.value);
    assert!(config.notes.iter().any(|note| note.level == LogLevel::Error && named(&note.text)));
}
