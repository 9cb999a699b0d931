//! Follows the pages for a new machine as they are written: by an ordinary user with Debian's `PATH`, and by
//! root where a block says so.
//!
//! The machine is a recipe's world. Longhaul is installed where the packages put it; `server`, `gateway` and
//! `inside` are hosts in the user's `~/.ssh/config`. Nothing in the commands is replaced.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use lh_interop::page_machine::{By, PROGRAMS, SERVICE, Transcript};
use lh_interop::pages::blocks;
use lh_interop::recipe::{RECIPE, Recipe};
use lh_interop::{find, skip};

/// Hosts of the user `me`. The accounts there are another user's, as on a real server.
const HOSTS: &str = "Host server gateway inside\n  HostName server\n  User bob\n";

/// Runs a page's commands in a new world.
fn follow(name: &str, setup: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(name);
    let (mut wanted, mut steps) = (Vec::new(), Transcript::default());
    for block in blocks(&fs::read_to_string(path).unwrap()) {
        if let Some(program) = block.needs.as_deref().filter(|program| find(program).is_none()) {
            skip(&format!("{name}:{}", block.line), &format!("not installed: {program}"));
            continue;
        }
        steps.add(if block.as_root { By::Root } else { By::Me }, "sh -eu", &block.commands);
        wanted.push(block);
    }
    assert!(!wanted.is_empty(), "{name} has no commands that can be run");
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let setup = leak(format!("{PROGRAMS}{setup}"));
    let recipe = Recipe { config: HOSTS, setup, look: leak(steps.commands()), ..RECIPE };
    let Some((seen, log)) = recipe.run_ours() else { return };
    println!("{seen}");
    let mut unkept = String::new();
    for (block, step) in wanted.iter().zip(steps.read(&seen)) {
        let (out, err) = (step.out, step.err);
        if step.status != "0" {
            let _ = writeln!(
                unkept,
                "{name}:{}: status {}\n{}\n{out}{err}",
                block.line, step.status, block.commands
            );
        }
        for text in block.unkept(out, err) {
            let _ = writeln!(unkept, "{name}:{}: the page shows\n{text}\nprinted:\n{out}{err}", block.line);
        }
    }
    assert!(unkept.is_empty(), "{unkept}\n--- server\n{log}");
}

#[test]
fn the_readme_can_be_followed() {
    follow("README.md", SERVICE);
}

#[test]
fn the_quick_start_can_be_followed() {
    follow("docs/quick-start.md", SERVICE);
}

/// On a machine without the packages' service.
#[test]
fn the_page_about_the_server_can_be_followed() {
    follow("docs/server.md", "ln -s /opt/longhaul/lhsshd /usr/local/sbin/\n");
}
