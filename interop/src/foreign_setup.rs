//! One SFTP server of another program, and the operations of `lhscp` and `lhsftp` on it, which the tests of
//! all such servers share. Files are compared byte by byte.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::cuts::{Break, Cuts};
use crate::{Lab, Ran, TestUser, assert_same_file, assert_same_tree, make_blob, me, our};

/// Form in which a server stores the target of a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Targets {
    /// The server stores targets unchanged.
    Kept,
    /// The server makes targets absolute, relative to its directory.
    MadeAbsolute,
}

impl Targets {
    /// Checks that `link` has the requested target.
    pub fn check(self, link: &Path, asked: &str) {
        let made = fs::read_link(link).unwrap_or_else(|error| panic!("{}: {error}", link.display()));
        match self {
            Self::Kept => assert_eq!(made, Path::new(asked), "{}", link.display()),
            Self::MadeAbsolute => {
                let end = asked.trim_start_matches("../").trim_start_matches('/');
                assert!(made.is_absolute() && made.ends_with(end), "{}: {}", link.display(), made.display());
            }
        }
    }
}

/// A server, and a directory to which it may write.
pub struct ForeignServerSetup<'a> {
    lab: &'a Lab,
    port: u16,
    user: String,
    dir: PathBuf,
    /// Flags before all others, for servers that do not use the lab's host keys.
    options: Vec<String>,
    /// Keeps the server's user until the test ends.
    _user: Option<TestUser>,
}

impl<'a> ForeignServerSetup<'a> {
    /// Creates a setup with the directory `far` of the lab.
    pub fn new(lab: &'a Lab, port: u16) -> Self {
        fs::create_dir_all(lab.path("far")).unwrap();
        Self { lab, port, user: me(), dir: lab.path("far"), options: Vec::new(), _user: None }
    }

    /// Creates a setup with a directory in the home of a test user.
    pub fn of_user(lab: &'a Lab, port: u16, user: TestUser) -> Self {
        let dir = user.home.join("far");
        let (name, path) = (user.name.clone(), dir.display().to_string());
        lab.run(Path::new("install"), &["-d", "-o", &name, &path]).ok("install");
        Self { user: name, dir, _user: Some(user), ..Self::new(lab, port) }
    }

    /// Returns the setup with these flags for each program.
    #[must_use]
    pub fn with_options(self, options: &[&str]) -> Self {
        Self { options: options.iter().map(|&option| option.to_owned()).collect(), ..self }
    }

    fn args(&self, flags: &[&str]) -> Vec<String> {
        let mut args = self.options.clone();
        args.extend(self.lab.client_options());
        args.extend(["-P".to_owned(), self.port.to_string()]);
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        args
    }

    /// Returns the name of a file of the setup, in the form that `lhscp` expects.
    pub fn far(&self, name: &str) -> String {
        format!("{}@127.0.0.1:{}/{name}", self.user, self.dir.display())
    }

    /// Runs `lhscp` with these flags, to or from the setup.
    pub fn scp(&self, flags: &[&str], from: &str, to: &str) -> Ran {
        let mut args = self.args(flags);
        args.extend([from.to_owned(), to.to_owned()]);
        self.lab.run(&our("lhscp"), &args)
    }

    /// Runs the commands as a batch in `lhsftp`.
    pub fn sftp(&self, commands: &str) -> Ran {
        self.lab.write("batch", commands);
        let mut args = self.args(&["-b", &self.lab.arg("batch")]);
        args.push(format!("{}@127.0.0.1", self.user));
        self.lab.run(&our("lhsftp"), &args)
    }

    /// Makes copies of all kinds in both directions, with both programs.
    pub fn exercise(&self, targets: Targets) {
        let (lab, dir) = (self.lab, &self.dir);
        make_blob(&lab.path("blob"), 8 << 20);
        make_small(&lab.path("small"));

        self.scp(&[], &lab.arg("blob"), &self.far("up")).ok("lhscp up");
        assert_same_file(&lab.path("blob"), &dir.join("up"));
        self.scp(&[], &self.far("up"), &lab.arg("down")).ok("lhscp down");
        assert_same_file(&lab.path("blob"), &lab.path("down"));
        self.scp(&["-rp"], &lab.arg("small"), &self.far("small")).ok("lhscp -r up");
        assert_same_tree(&lab.path("small"), &dir.join("small"));
        self.scp(&["-rp"], &self.far("small"), &lab.arg("small.down")).ok("lhscp -r down");
        assert_same_tree(&lab.path("small"), &lab.path("small.down"));
        for tree in [dir.join("small"), lab.path("small.down")] {
            let meta = fs::metadata(tree.join("file 7")).unwrap();
            assert_eq!((meta.mtime(), meta.mode() & 0o777), (1_600_000_007, 0o640), "{}", tree.display());
        }
        // The target is an existing, longer file.
        make_blob(&lab.path("short"), 100_001);
        self.scp(&[], &lab.arg("short"), &self.far("up")).ok("lhscp over a longer file");
        assert_same_file(&lab.path("short"), &dir.join("up"));

        let (here, there) = (lab.dir().display(), dir.display());
        let commands = format!(
            "mkdir {there}/d\n\
             put -p {here}/blob {there}/d/blob\n\
             get -p {there}/d/blob {here}/blob.sftp\n\
             put -R -p {here}/small {there}/d/small\n\
             get -R -p {there}/d/small {here}/small.sftp\n\
             rename {there}/d/blob {there}/d/renamed\n\
             put {here}/short {there}/d/gone\n\
             rm {there}/d/gone\n\
             ls -l {there}/d\n"
        );
        let ran = self.sftp(&commands).ok("lhsftp");
        assert_same_file(&lab.path("blob"), &lab.path("blob.sftp"));
        assert_same_file(&lab.path("blob"), &dir.join("d/renamed"));
        assert_same_tree(&lab.path("small"), &dir.join("d/small"));
        assert_same_tree(&lab.path("small"), &lab.path("small.sftp"));
        let text = ran.text();
        let listed = |name: &str| text.lines().any(|line| !line.starts_with("sftp>") && line.contains(name));
        assert!(listed("renamed") && listed("small") && !listed("gone"), "{text}");
        assert_eq!(part_files(dir), Vec::<PathBuf>::new(), "left over");
        self.make_links(targets);
        self.copy_links(targets);
    }

    /// Completes files whose first part exists, in both directions.
    pub fn resume(&self) {
        let (lab, dir) = (self.lab, &self.dir);
        let whole = fs::read(lab.path("blob")).unwrap();
        fs::write(dir.join("half"), &whole[..whole.len() / 2]).unwrap();
        fs::write(lab.path("half"), &whole[..whole.len() / 3]).unwrap();
        let (here, there) = (lab.dir().display(), dir.display());
        let commands = format!("reput {here}/blob {there}/half\nreget {there}/half {here}/half\n");
        self.sftp(&commands).ok("lhsftp reput and reget");
        assert_same_file(&lab.path("blob"), &dir.join("half"));
        assert_same_file(&lab.path("blob"), &lab.path("half"));
    }

    /// Creates links with `lhsftp`, to an existing file and to a missing one.
    pub fn make_links(&self, targets: Targets) {
        let dir = &self.dir;
        fs::create_dir_all(dir.join("links")).unwrap();
        fs::set_permissions(dir.join("links"), fs::Permissions::from_mode(0o777)).unwrap();
        let there = dir.display();
        let commands = format!(
            "ln -s {there}/up {there}/links/absolute\n\
             ln -s nowhere {there}/links/dangling\n\
             cd {there}/links\n\
             ln -s ../up relative\n\
             ls -l\n"
        );
        self.sftp(&commands).ok("lhsftp ln -s");
        targets.check(&dir.join("links/absolute"), dir.join("up").to_str().unwrap());
        targets.check(&dir.join("links/dangling"), "nowhere");
        targets.check(&dir.join("links/relative"), "../up");
        assert_eq!(fs::read_dir(dir.join("links")).unwrap().count(), 3);
    }

    /// Copies the tree of [`ForeignServerSetup::exercise`], with a link in it, with `lhscp`.
    pub fn copy_links(&self, targets: Targets) {
        let (lab, dir) = (self.lab, &self.dir);
        std::os::unix::fs::symlink("file 1", lab.path("small/link to a file")).unwrap();
        self.scp(&["-r", "--links"], &lab.arg("small"), &self.far("with links")).ok("lhscp with links");
        targets.check(&dir.join("with links/link to a file"), "file 1");
        fs::remove_file(lab.path("small/link to a file")).unwrap();
    }
}

/// Files of sizes at which programs fail, and one that several channels share.
const SIZES: [(&str, usize); 7] = [
    ("empty", 0),
    ("one", 1),
    ("below", 32_767),
    ("packet", 32_768),
    ("above", 32_769),
    ("two packets", 65_537),
    ("large", 6 << 20),
];

/// Number of bytes of a connection, in both directions, before it breaks: in the middle of the large file.
const BREAK_AFTER: u64 = 5 << 19;

impl ForeignServerSetup<'_> {
    /// Makes copies in which only data count: over one channel and several, over existing files, continued
    /// after a break.
    pub fn exercise_data(&self) {
        let lab = self.lab;
        for (tree, by) in [("tree", 0), ("next", 3)] {
            fs::create_dir_all(lab.path(tree)).unwrap();
            for (n, (name, _)) in SIZES.iter().enumerate() {
                make_blob(&lab.path(tree).join(name), SIZES[(n + by) % SIZES.len()].1);
            }
        }
        for (n, flags) in [&[][..], &["-j", "4"], &["--verify"], &["--in-place"]].iter().enumerate() {
            let there = self.far(&format!("tree{n}"));
            self.scp(&[flags, &["-r"][..]].concat(), &lab.arg("tree"), &there).ok("lhscp -r up");
            self.check(flags, "tree", &format!("tree{n}"));
            // The targets are longer and shorter files.
            self.scp(&[flags, &["-r"][..]].concat(), &lab.arg("next/."), &there).ok("lhscp -r over files");
            self.check(flags, "next", &format!("tree{n}"));
        }
        self.continue_copies();
        self.sftp_data();
        assert_eq!(part_files(&self.dir), Vec::<PathBuf>::new(), "left over");
    }

    /// Compares a file or tree on the server with its source, after copying it back with these flags.
    pub fn check(&self, flags: &[&str], source: &str, name: &str) {
        let (lab, back) = (self.lab, self.lab.path("back"));
        self.scp(&[flags, &["-r"][..]].concat(), &self.far(name), &lab.arg("back")).ok("lhscp down");
        let there = self.dir.join(name);
        for copy in [&back, &there] {
            let same = if back.is_dir() { assert_same_tree } else { assert_same_file };
            same(&lab.path(source), copy);
        }
        if back.is_dir() { fs::remove_dir_all(back) } else { fs::remove_file(back) }.unwrap();
    }

    /// Makes copies that a broken connection ends, and continues them.
    fn continue_copies(&self) {
        let lab = self.lab;
        let large = "tree/large";
        for (n, flags) in [&["-j", "4"][..], &["--in-place"]].iter().enumerate() {
            let name = format!("continued{n}");
            let through = |from: &str, to: &str| {
                let relay = Cuts::to(self.port, vec![(BREAK_AFTER, Break::Reset)]);
                lab.know(relay.port);
                let mut args = self.options.clone();
                args.extend(lab.client_options());
                args.extend(["--retries", "0", "-P", &relay.port.to_string()].map(str::to_owned));
                args.extend(flags.iter().map(|&flag| flag.to_owned()));
                args.extend([from.to_owned(), to.to_owned()]);
                let ran = lab.run(&our("lhscp"), &args);
                assert!(ran.code != 0 && relay.broken() == 1, "{flags:?}: not broken: {}", ran.err);
            };
            through(&lab.arg(large), &self.far(&name));
            self.scp(flags, &lab.arg(large), &self.far(&name)).ok("lhscp continued, up");
            self.check(flags, large, &name);
            through(&self.far(&name), &lab.arg("continued"));
            self.scp(flags, &self.far(&name), &lab.arg("continued")).ok("lhscp continued, down");
            assert_same_file(&lab.path(large), &lab.path("continued"));
            fs::remove_file(lab.path("continued")).unwrap();
        }
    }

    /// Continues files with `reput` and `reget`. Returns the exit status of `reput`.
    pub fn reput(&self) -> i32 {
        let (lab, tree, there) = (self.lab, self.lab.arg("tree"), self.dir.display());
        let whole = fs::read(lab.path("tree/large")).unwrap();
        fs::write(lab.path("half"), &whole[..whole.len() / 2]).unwrap();
        self.scp(&["--in-place"], &lab.arg("half"), &self.far("half")).ok("the first half");
        let ran = self.sftp(&format!("reput {tree}/large {there}/half\n"));
        if ran.code == 0 {
            self.check(&[], "tree/large", "half");
            self.sftp(&format!("reget {there}/half {}\n", lab.arg("half"))).ok("lhsftp reget");
            assert_same_file(&lab.path("tree/large"), &lab.path("half"));
        }
        ran.code
    }

    /// Tests `lhsftp`'s data operations. A rename over a file must succeed, or fail and leave both files
    /// unchanged.
    fn sftp_data(&self) {
        let (lab, tree, there) = (self.lab, self.lab.arg("tree"), self.dir.display());
        let commands = format!(
            "put {tree}/large {there}/f\nget {there}/f {}\nput {tree}/one {there}/f\nput {tree}/above {there}/g\n",
            lab.arg("got")
        );
        self.sftp(&commands).ok("lhsftp put and get");
        assert_same_file(&lab.path("tree/large"), &lab.path("got"));
        self.check(&[], "tree/one", "f");
        let renamed = self.sftp(&format!("rename {there}/g {there}/f\n"));
        assert!([0, 1].contains(&renamed.code), "rename: {} {}", renamed.code, renamed.err);
        self.check(&[], if renamed.code == 0 { "tree/above" } else { "tree/one" }, "f");
    }
}

/// Creates forty files of sizes up to 120 KB, each with a different time.
fn make_small(root: &Path) {
    fs::create_dir_all(root.join("below")).unwrap();
    for number in 0..40_u32 {
        let name = if number % 3 == 0 { format!("below/file {number}") } else { format!("file {number}") };
        let path = root.join(name);
        make_blob(&path, (number * number * 75) as usize);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000 + u64::from(number));
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }
}

/// Returns the part files that were not renamed at completion.
fn part_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if hidden {
            found.push(path.clone());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(part_files(&path));
        }
    }
    found
}
