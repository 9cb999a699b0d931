"""Symbolic links and many files with paramiko's SFTP client. Arguments: port, user, directory of the lab."""

import os
import sys

import paramiko

port, user, lab = int(sys.argv[1]), sys.argv[2], sys.argv[3]


def far(*name):
    return os.path.join(lab, "far", *name)


def here(*name):
    return os.path.join(lab, *name)


with paramiko.SSHClient() as ssh:
    ssh.set_missing_host_key_policy(paramiko.WarningPolicy())
    ssh.connect("127.0.0.1", port, user, key_filename=here("user_ed25519"), allow_agent=False, look_for_keys=False)
    sftp = ssh.open_sftp()
    sftp.put(here("blob"), far("up"))
    sftp.get(far("up"), here("down"))
    sftp.mkdir(far("small"))
    for name in os.listdir(here("small")):
        sftp.put(here("small", name), far("small", name))
    assert sorted(sftp.listdir(far("small"))) == sorted(os.listdir(here("small")))
    sftp.symlink(far("up"), far("link"))
    sftp.symlink("nowhere", far("link2"))
    assert sftp.readlink(far("link")) == far("up")
    for name in ("moved.from", "gone"):
        with sftp.open(far(name), "w") as file:
            file.write(name.split(".")[0])
    sftp.rename(far("moved.from"), far("moved"))
    sftp.remove(far("gone"))
print("done")
