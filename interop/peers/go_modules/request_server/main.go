// SFTP by pkg/sftp's request server for holders of the lab's keys. Arguments: directory of the lab; `disk`, or
// `emptied` for files that each OPEN for writing empties. Prints its port, ends with stdin.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"longhaul-peers/go_modules/lab"
)

// disk keeps files in the file system, with an open file for each handle.
type disk struct {
	// Every OPEN for writing empties the file: the flags are not looked at.
	empties bool
}

func (d disk) Fileread(r *sftp.Request) (io.ReaderAt, error) { return os.Open(r.Filepath) }

func (d disk) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	asked, flags := r.Pflags(), os.O_WRONLY|os.O_CREATE
	if asked.Trunc || d.empties {
		flags |= os.O_TRUNC
	}
	if asked.Excl && !d.empties {
		flags |= os.O_EXCL
	}
	return os.OpenFile(r.Filepath, flags, 0o666)
}

func (d disk) Filecmd(r *sftp.Request) error {
	switch r.Method {
	case "Setstat":
		return d.setstat(r)
	case "Rename":
		if _, err := os.Lstat(r.Target); err == nil {
			return os.ErrExist
		}
		return os.Rename(r.Filepath, r.Target)
	case "Mkdir":
		return os.Mkdir(r.Filepath, 0o777)
	case "Rmdir", "Remove":
		return os.Remove(r.Filepath)
	case "Link":
		return os.Link(r.Filepath, r.Target)
	case "Symlink":
		return os.Symlink(r.Filepath, r.Target)
	}
	return sftp.ErrSSHFxOpUnsupported
}

func (d disk) setstat(r *sftp.Request) error {
	flags, to := r.AttrFlags(), r.Attributes()
	if flags.Size {
		if err := os.Truncate(r.Filepath, int64(to.Size)); err != nil {
			return err
		}
	}
	if flags.Permissions {
		if err := os.Chmod(r.Filepath, to.FileMode()); err != nil {
			return err
		}
	}
	if flags.Acmodtime {
		return os.Chtimes(r.Filepath, to.AccessTime(), to.ModTime())
	}
	return nil
}

// PosixRename replaces what has the new name.
func (d disk) PosixRename(r *sftp.Request) error { return os.Rename(r.Filepath, r.Target) }

type listing []os.FileInfo

func (l listing) ListAt(into []os.FileInfo, offset int64) (int, error) {
	if offset >= int64(len(l)) {
		return 0, io.EOF
	}
	count := copy(into, l[offset:])
	if count < len(into) {
		return count, io.EOF
	}
	return count, nil
}

func (d disk) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Method == "Stat" {
		info, err := os.Stat(r.Filepath)
		return listing{info}, err
	}
	entries, err := os.ReadDir(r.Filepath)
	var all listing
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			all = append(all, info)
		}
	}
	return all, err
}

func (d disk) Lstat(r *sftp.Request) (sftp.ListerAt, error) {
	info, err := os.Lstat(r.Filepath)
	return listing{info}, err
}

func (d disk) Readlink(path string) (string, error) { return os.Readlink(path) }

func serve(connection net.Conn, config *ssh.ServerConfig, files sftp.Handlers) {
	_, channels, requests, err := ssh.NewServerConn(connection, config)
	if err != nil {
		log.Print(err)
		return
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, asked, err := offered.Accept()
		lab.Check(err)
		go func() {
			for request := range asked {
				request.Reply(request.Type == "subsystem" && string(request.Payload[4:]) == "sftp", nil)
			}
		}()
		go func() {
			if err := sftp.NewRequestServer(channel, files).Serve(); err != nil && err != io.EOF {
				log.Print(err)
			}
			channel.Close()
		}()
	}
}

func main() {
	directory, kind := os.Args[1], disk{empties: os.Args[2] == "emptied"}
	files := sftp.Handlers{FileGet: kind, FilePut: kind, FileCmd: kind, FileList: kind}
	text, err := os.ReadFile(lab.AuthorizedKeys(directory))
	lab.Check(err)
	known := map[string]bool{}
	for len(text) > 0 {
		key, _, _, rest, err := ssh.ParseAuthorizedKey(text)
		lab.Check(err)
		known[string(key.Marshal())], text = true, rest
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !known[string(key.Marshal())] {
			return nil, fmt.Errorf("not a key of the lab")
		}
		return nil, nil
	}}
	for _, file := range lab.HostKeys(directory) {
		text, err := os.ReadFile(file)
		lab.Check(err)
		key, err := ssh.ParsePrivateKey(text)
		lab.Check(err)
		config.AddHostKey(key)
	}
	listener := lab.Listen()
	for {
		connection, err := listener.Accept()
		lab.Check(err)
		go serve(connection, config, files)
	}
}
