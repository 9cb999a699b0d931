// Runs a command and copies `blob` both ways over a pipe and over SFTP. Arguments: port, user, directory of the lab.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func check(what string, err error) {
	if err != nil {
		log.Fatalf("%s: %v", what, err)
	}
}

func copyFile(to io.Writer, from io.Reader, what string) {
	_, err := io.Copy(to, from)
	check(what, err)
}

func main() {
	port, user, lab := os.Args[1], os.Args[2], os.Args[3]
	path := func(name string) string { return filepath.Join(lab, name) }
	key, err := os.ReadFile(path("user_ecdsa"))
	check("read key", err)
	signer, err := ssh.ParsePrivateKey(key)
	check("parse key", err)
	known, err := knownhosts.New(path("known_hosts"))
	check("known_hosts", err)
	config := &ssh.ClientConfig{
		// The client asks for new keys as well, at another rhythm than the server.
		Config:            ssh.Config{RekeyThreshold: 20 << 20},
		User:              user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback:   known,
		HostKeyAlgorithms: []string{"ssh-ed25519"},
	}
	client, err := ssh.Dial("tcp", "127.0.0.1:"+port, config)
	check("dial", err)
	defer client.Close()

	session, err := client.NewSession()
	check("session", err)
	out, err := session.Output("echo out; exit 7")
	exit, isExit := err.(*ssh.ExitError)
	if !isExit || exit.ExitStatus() != 7 || !bytes.Equal(out, []byte("out\n")) {
		log.Fatalf("exec: %q %v", out, err)
	}

	blob, err := os.Open(path("blob"))
	check("open", err)
	session, err = client.NewSession()
	check("session", err)
	session.Stdin = blob
	check("pipe up", session.Run(fmt.Sprintf("cat > '%s'", path("pipe.up"))))

	down, err := os.Create(path("pipe.down"))
	check("create", err)
	session, err = client.NewSession()
	check("session", err)
	session.Stdout = down
	check("pipe down", session.Run(fmt.Sprintf("cat '%s'", path("pipe.up"))))

	files, err := sftp.NewClient(client)
	check("sftp", err)
	_, err = blob.Seek(0, io.SeekStart)
	check("seek", err)
	remote, err := files.Create(path("sftp.up"))
	check("sftp create", err)
	copyFile(remote, blob, "sftp up")
	check("close", remote.Close())
	remote, err = files.Open(path("sftp.up"))
	check("sftp open", err)
	local, err := os.Create(path("sftp.down"))
	check("create", err)
	copyFile(local, remote, "sftp down")
}
