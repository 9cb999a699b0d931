// SFTP by gliderlabs/ssh and pkg/sftp for holders of the lab's keys. Argument: directory of the lab. Prints its port, ends with stdin.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/gliderlabs/ssh"
	"github.com/pkg/sftp"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	lab := os.Args[1]
	text, err := os.ReadFile(filepath.Join(lab, "authorized_keys"))
	check(err)
	var known []ssh.PublicKey
	for len(text) > 0 {
		key, _, _, rest, err := ssh.ParseAuthorizedKey(text)
		check(err)
		known, text = append(known, key), rest
	}
	server := &ssh.Server{
		PublicKeyHandler: func(ctx ssh.Context, key ssh.PublicKey) bool {
			for _, each := range known {
				if ssh.KeysEqual(key, each) {
					return true
				}
			}
			return false
		},
		SubsystemHandlers: map[string]ssh.SubsystemHandler{"sftp": func(session ssh.Session) {
			server, err := sftp.NewServer(session)
			check(err)
			if err := server.Serve(); err != nil && err != io.EOF {
				log.Print(err)
			}
			session.Exit(0)
		}},
	}
	for _, name := range []string{"host_ed25519", "host_rsa", "host_ecdsa"} {
		check(server.SetOption(ssh.HostKeyFile(filepath.Join(lab, name))))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	check(server.Serve(listener))
}
