use std::ffi::{OsStr, OsString};

use super::*;

fn parse(program: &Program, arguments: &[&str]) -> Result<Parsed, Stop> {
    program.parse(arguments.iter().map(OsString::from))
}

fn operands(parsed: &Parsed) -> Vec<&str> {
    parsed.operands.iter().map(|operand| operand.to_str().expect("text")).collect()
}

#[test]
fn flags_cluster_and_values_may_be_attached() {
    let parsed = parse(&SSH, &["-vvv", "-tt", "-p22", "-qp", "2222", "-oUser=x", "host"]).expect("parses");
    assert_eq!(parsed.count('v'), 3);
    assert_eq!(parsed.count('t'), 2);
    assert_eq!(parsed.values('p').collect::<Vec<_>>(), ["22", "2222"]);
    assert_eq!(parsed.text('p').as_deref(), Some("2222"));
    assert_eq!(parsed.text('o').as_deref(), Some("User=x"));
    assert_eq!(operands(&parsed), ["host"]);
}

#[test]
fn ssh_accepts_flags_after_host_not_after_command() {
    let parsed = parse(&SSH, &["-4", "host", "-p", "22", "ls", "-l", "-v"]).expect("parses");
    assert!(parsed.has('4') && parsed.has('p') && !parsed.has('l') && !parsed.has('v'));
    assert_eq!(operands(&parsed), ["host", "ls", "-l", "-v"]);
    let parsed = parse(&SSH, &["host", "--", "-weird", "x"]).expect("parses");
    assert_eq!(operands(&parsed), ["host", "-weird", "x"]);
    // `--` before the host ends flags completely.
    let parsed = parse(&SSH, &["--", "host", "-p", "22"]).expect("parses");
    assert_eq!(operands(&parsed), ["host", "-p", "22"]);
}

#[test]
fn scp_stops_at_the_first_operand() {
    let parsed = parse(&SCP, &["-rp", "a", "-q", "b:"]).expect("parses");
    assert!(parsed.has('r') && parsed.has('p') && !parsed.has('q'));
    assert_eq!(operands(&parsed), ["a", "-q", "b:"]);
    let parsed = parse(&SCP, &["-", "b:"]).expect("a lone dash is an operand");
    assert_eq!(operands(&parsed), ["-", "b:"]);
}

#[test]
fn long_flags_take_values_in_both_forms() {
    let parsed =
        parse(&SCP, &["-r", "--retries", "3", "--retries=7", "--in-place", "a", "--json"]).expect("parses");
    assert_eq!(parsed.long_text("retries").as_deref(), Some("7"));
    assert!(parsed.has('r') && parsed.has_long("in-place") && !parsed.has_long("json"));
    assert_eq!(operands(&parsed), ["a", "--json"]);
    for wrong in [&["--retries"][..], &["--in-place=yes"], &["--retriesx", "1"], &["--retr"]] {
        assert_eq!(parse(&SCP, wrong).expect_err("a mistake").status, 1, "{wrong:?}");
    }
}

#[test]
fn errors_print_usage_and_the_programs_status() {
    let stop = parse(&SSH, &["-!"]).expect_err("unknown");
    assert_eq!(stop.status, 255);
    assert!(stop.err.starts_with("lhssh: unknown option -- !\nusage: lhssh [-"), "{}", stop.err);
    let stop = parse(&SCP, &["-P"]).expect_err("value missing");
    assert_eq!(stop.status, 1);
    assert!(stop.err.starts_with("lhscp: option requires an argument -- P\nusage: "), "{}", stop.err);
    assert!(parse(&SSH, &["-\u{e9}"]).is_err());
}

#[test]
fn version_1_is_refused_in_openssh_s_words() {
    for program in [&SSH, &SCP, &SFTP] {
        let stop = parse(program, &["-1", "host"]).expect_err("refused");
        assert_eq!(stop.err, "SSH protocol v.1 is no longer supported\n");
        assert_eq!((stop.status, stop.out.as_str()), (255, ""));
    }
}

#[test]
fn flags_that_openssh_has_removed_are_unknown() {
    // OpenSSH 9.2 and later do not know it either.
    let stop = parse(&KEYGEN, &["-x"]).expect_err("unknown");
    assert!(stop.err.starts_with("lhssh-keygen: unknown option -- x\nusage: "), "{}", stop.err);
}

#[test]
fn messages_use_the_name_of_the_call() {
    for (program, called, name) in [
        (&SCP, "scp", "scp"),
        (&SCP, "/usr/lib/openssh-names/scp", "scp"),
        (&SCP, "lhscp", "lhscp"),
        (&SCP, "./target/lhscp", "lhscp"),
        (&SCP, "ssh", "lhscp"),
        (&KEYGEN, "ssh-keygen", "ssh-keygen"),
        (&SSHD, "", "lhsshd"),
    ] {
        assert_eq!(program.name_when_called(OsStr::new(called)), name);
    }
}

#[test]
fn version_under_openssh_names_has_its_number() {
    assert!(SSH.version_when_called("ssh").starts_with("OpenSSH_10.5p1 Longhaul_"));
    assert!(SSH.version_when_called("lhssh").starts_with("Longhaul_"));
}

#[test]
fn help_names_every_documented_flag() {
    for program in [&SSH, &SCP, &SSHD, &KEYGEN, &AGENT, &ADD, &KEYSCAN] {
        let stop = parse(program, &["--help"]).expect_err("stops");
        assert_eq!(stop.status, 0);
        for flag in program.flags.iter().filter(|flag| !flag.help.is_empty()) {
            let spelled = flag.spelled();
            assert!(stop.out.contains(&format!("\n  {spelled} ")), "{} {spelled}", program.name);
        }
        for (index, flag) in program.flags.iter().enumerate() {
            let twice = program.flags.iter().skip(index + 1).any(|other| other.spelled() == flag.spelled());
            assert!(!twice, "{} has {} twice", program.name, flag.spelled());
        }
        assert!(program.usage().lines().all(|line| line.len() <= 80), "{}", program.usage());
    }
}

#[test]
fn every_openssh_flag_letter_is_known() {
    let check = |program: &Program, letters: &str| {
        let mut chars = letters.chars().peekable();
        while let Some(letter) = chars.next() {
            let valued = chars.next_if_eq(&':').is_some();
            let flag = program.flag(letter).unwrap_or_else(|| panic!("{} -{letter}", program.name));
            assert_eq!(flag.value.is_some(), valued, "{} -{letter}", program.name);
        }
    };
    check(&SSH, "1246ab:c:e:fgi:kl:m:no:p:qstvxAB:CD:E:F:GI:J:KL:MNO:P:Q:R:S:TVw:W:XYyZ");
    check(&SCP, "346ABCTpqrsvRD:F:J:P:S:c:i:l:o:X:O");
    check(&SSHD, "46DdeGiqrtTVC:E:b:c:f:g:h:k:o:p:u:QR");
    check(&KEYGEN, "ABHKLQUceghiklpquvyC:D:E:F:I:M:N:O:P:R:V:Y:Z:a:b:f:m:n:r:s:t:w:z:");
    check(&AGENT, "cDdksTUuVE:a:O:P:t:");
    check(&ADD, "vkKlLNCcdDTxXqQE:e:h:H:s:S:t:");
    check(&KEYSCAN, "46cDHqvf:O:p:T:t:");
}

#[test]
fn flags_are_accepted_among_operands() {
    let words = ["report", "a", "b", "-o", "x", "c", "--", "-o"];
    let parsed = LONGHAUL.parse_anywhere(words.map(OsString::from)).expect("parses");
    assert_eq!(parsed.text('o').as_deref(), Some("x"));
    assert_eq!(parsed.operands, ["report", "a", "b", "c", "-o"]);
}
