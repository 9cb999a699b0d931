//! Follows the pages for a new machine as they are written: by an ordinary user with Debian's `PATH`, and by
//! root where a block says so.
//!
//! The machine is a recipe's world. Longhaul is installed where the packages put it; `server`, `gateway` and
//! `inside` are hosts in the user's `~/.ssh/config`. Nothing in the commands is replaced.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use lh_interop::pages::{Block, blocks};
use lh_interop::recipe::{RECIPE, Recipe};
use lh_interop::{find, skip};

/// Hosts of the user `me`. The accounts there are another user's, as on a real server.
const HOSTS: &str = "Host server gateway inside\n  HostName server\n  User bob\n";

/// Puts the programs where the packages put them, which is not the place of the other programs in a world.
const PROGRAMS: &str = r#"
for name in lhssh lhscp lhsftp lhssh-keygen lhssh-agent lhssh-add lhssh-keyscan longhaul; do
    ln -s /opt/longhaul/$name /usr/bin/
done
ln -s /opt/longhaul/lhsshd /usr/sbin/
"#;

/// The service of the package `longhaul-server`, on its port.
const SERVICE: &str = concat!(
    "mkdir /etc/ssh/lhsshd_config.d\ncat >/etc/ssh/lhsshd_config <<'END'\n",
    include_str!("../../packaging/config/lhsshd_config"),
    "\nEND\n/usr/sbin/lhsshd -p 2222 -f /etc/ssh/lhsshd_config -o UsePAM=no -E /var/log/service.log\n",
    "listening 2222\n"
);

/// Begins the lines of the transcript that stand between the outputs.
const MARK: &str = "@@@";

/// Returns a shell script that runs a block and prints its status, its output and its messages.
fn step(block: &Block) -> String {
    let Block { line, commands, as_root, .. } = block;
    let shell = if *as_root { "as_root" } else { "as_me" };
    format!(
        "cat >/tmp/commands <<'END OF BLOCK'\n{commands}\nEND OF BLOCK\n\
         {shell} sh -eu /tmp/commands </dev/null >/tmp/out 2>/tmp/err; echo \"{MARK} {line} $?\"\n\
         cat /tmp/out; echo; echo '{MARK}'; cat /tmp/err; echo\n"
    )
}

/// Runs a page's commands in a new world.
fn follow(name: &str, setup: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(name);
    let (mut wanted, mut steps) = (Vec::new(), String::new());
    for block in blocks(&fs::read_to_string(path).unwrap()) {
        if let Some(program) = block.needs.as_deref().filter(|program| find(program).is_none()) {
            skip(&format!("{name}:{}", block.line), &format!("not installed: {program}"));
            continue;
        }
        steps.push_str(&step(&block));
        wanted.push(block);
    }
    assert!(!wanted.is_empty(), "{name} has no commands that can be run");
    let look = format!(
        "as_root() {{ (cd && exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \"$@\"); }}\n\
         as_me() {{ (cd /home/me && exec setpriv --reuid me --regid me --init-groups env -i HOME=/home/me USER=me \
         LOGNAME=me SHELL=/bin/bash PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games LANG=C.UTF-8 \"$@\"); }}\n\
         {steps}echo '{MARK}'\n"
    );
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let setup = leak(format!("{PROGRAMS}{setup}"));
    let recipe = Recipe { config: HOSTS, setup, look: leak(look), ..RECIPE };
    let Some((seen, log)) = recipe.run_ours() else { return };
    println!("{seen}");
    let mut parts = seen.split(MARK).skip(1);
    let mut unkept = String::new();
    for block in wanted {
        let (ran, err) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (status, out) = ran.split_once('\n').unwrap_or_default();
        if status != format!(" {} 0", block.line) {
            let _ = writeln!(unkept, "{name}:{}: status{status}\n{}\n{out}{err}", block.line, block.commands);
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
