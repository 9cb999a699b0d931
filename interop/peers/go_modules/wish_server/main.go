// scp and SFTP by charmbracelet's wish for holders of the lab's keys. Argument: directory of the lab. Prints its port, ends
// with stdin.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"

	"charm.land/ssh"
	"charm.land/wish/v2"
	"charm.land/wish/v2/scp"
	"github.com/pkg/sftp"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func serveFiles(session ssh.Session) {
	server, err := sftp.NewServer(session)
	check(err)
	if err := server.Serve(); err != nil && err != io.EOF {
		wish.Fatalln(session, "sftp:", err)
	}
}

func main() {
	lab := os.Args[1]
	// scp gets to this directory alone.
	files := scp.NewFileSystemHandler(lab)
	options := []ssh.Option{
		wish.WithAuthorizedKeys(filepath.Join(lab, "authorized_keys")),
		wish.WithSubsystem("sftp", serveFiles),
		wish.WithMiddleware(scp.Middleware(files, files)),
	}
	for _, name := range []string{"host_ed25519", "host_rsa", "host_ecdsa"} {
		options = append(options, wish.WithHostKeyPath(filepath.Join(lab, name)))
	}
	server, err := wish.NewServer(options...)
	check(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	check(server.Serve(listener))
}
