//! The table of commands: names, operands, flags and help.

/// Kind of a command's operands, for completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Nothing that can be completed.
    Nothing,
    /// Local paths.
    Local,
    /// A local directory.
    LocalDirectory,
    /// Remote paths.
    Remote,
    /// A remote directory.
    RemoteDirectory,
    /// A mode, owner or group, then a remote path.
    ValueThenRemote,
    /// A remote path, then a local one.
    RemoteThenLocal,
    /// A local path, then a remote one.
    LocalThenRemote,
}

/// A command's name and what follows it.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Name to type, in upper or lower case.
    pub name: &'static str,
    /// Kind of its operands.
    pub names: Names,
    /// Letters of its flags.
    pub flags: &'static str,
    /// For `help`: arguments and explanation. `None` for second names.
    pub help: Option<(&'static str, &'static str)>,
}

const fn entry(name: &'static str, names: Names, args: &'static str, about: &'static str) -> Entry {
    Entry { name, names, flags: "", help: Some((args, about)) }
}

const fn alias(name: &'static str, names: Names) -> Entry {
    Entry { name, names, flags: "", help: None }
}

impl Entry {
    const fn with_flags(self, flags: &'static str) -> Self {
        Self { flags, ..self }
    }

    /// Returns the row of a command, by its name in any case.
    pub(crate) fn find(name: &[u8]) -> Option<&'static Self> {
        COMMANDS.iter().find(|entry| name.eq_ignore_ascii_case(entry.name.as_bytes()))
    }
}

/// Flags of commands that copy.
const COPY_FLAGS: &str = "afpPrR";

/// Flags of `ls`.
const LIST_FLAGS: &str = "1afhlnrSt";

/// All commands, in the order in which `help` shows them.
pub static COMMANDS: &[Entry] = &[
    entry("bye", Names::Nothing, "", "Quit sftp"),
    entry("cd", Names::RemoteDirectory, "[path]", "Change remote directory to 'path'"),
    alias("chdir", Names::RemoteDirectory),
    entry("chgrp", Names::ValueThenRemote, "[-h] grp path", "Change group of file 'path' to 'grp'")
        .with_flags("h"),
    entry("chmod", Names::ValueThenRemote, "[-h] mode path", "Change permissions of file 'path' to 'mode'")
        .with_flags("h"),
    entry("chown", Names::ValueThenRemote, "[-h] own path", "Change owner of file 'path' to 'own'")
        .with_flags("h"),
    entry("copy", Names::Remote, "oldpath newpath", "Copy remote file"),
    entry("cp", Names::Remote, "oldpath newpath", "Copy remote file"),
    entry("df", Names::Remote, "[-hi] [path]", "Show space of the file system that holds 'path'")
        .with_flags("hi"),
    alias("dir", Names::Remote).with_flags(LIST_FLAGS),
    entry("exit", Names::Nothing, "", "Quit sftp"),
    entry("get", Names::RemoteThenLocal, "[-afpR] remote [local]", "Download file").with_flags(COPY_FLAGS),
    entry("help", Names::Nothing, "", "Display this help text"),
    entry("lcd", Names::LocalDirectory, "[path]", "Change local directory to 'path'"),
    alias("lchdir", Names::LocalDirectory),
    entry("lls", Names::Local, "[ls-options [path]]", "Display local directory listing"),
    entry("lmkdir", Names::Local, "[-p] path", "Create local directory").with_flags("p"),
    entry("ln", Names::Remote, "[-s] oldpath newpath", "Link remote file (-s for symlink)").with_flags("s"),
    entry("lpwd", Names::Nothing, "", "Print local working directory"),
    entry("ls", Names::Remote, "[-1afhlnrSt] [path]", "Display remote directory listing")
        .with_flags(LIST_FLAGS),
    entry("lumask", Names::Nothing, "umask", "Set local umask to 'umask'"),
    alias("mget", Names::RemoteThenLocal).with_flags(COPY_FLAGS),
    entry("mkdir", Names::Remote, "[-p] path", "Create remote directory").with_flags("p"),
    alias("mput", Names::LocalThenRemote).with_flags(COPY_FLAGS),
    entry("progress", Names::Nothing, "", "Toggle display of progress meter"),
    entry("put", Names::LocalThenRemote, "[-afpR] local [remote]", "Upload file").with_flags(COPY_FLAGS),
    entry("pwd", Names::Nothing, "", "Display remote working directory"),
    entry("quit", Names::Nothing, "", "Quit sftp"),
    entry("reget", Names::RemoteThenLocal, "[-fpR] remote [local]", "Resume download file")
        .with_flags(COPY_FLAGS),
    entry("rename", Names::Remote, "oldpath newpath", "Rename remote file").with_flags("l"),
    entry("reput", Names::LocalThenRemote, "[-fpR] local [remote]", "Resume upload file")
        .with_flags(COPY_FLAGS),
    entry("rm", Names::Remote, "path", "Delete remote file"),
    entry("rmdir", Names::RemoteDirectory, "path", "Remove remote directory"),
    entry("symlink", Names::Remote, "oldpath newpath", "Symlink remote file"),
    entry("version", Names::Nothing, "", "Show SFTP version"),
    entry("!", Names::Nothing, "[command]", "Execute 'command' in local shell, or start one"),
    entry("?", Names::Nothing, "", "Synonym for help"),
];
