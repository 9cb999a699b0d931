// scp and SFTP by charmbracelet's wish for holders of the lab's keys. Argument: directory of the lab. Prints its port, ends
// with stdin.
package main

import (
	"io"
	"os"

	"charm.land/ssh"
	"charm.land/wish/v2"
	"charm.land/wish/v2/scp"
	"github.com/pkg/sftp"

	"longhaul-peers/go_modules/lab"
)

func serveFiles(session ssh.Session) {
	server, err := sftp.NewServer(session)
	lab.Check(err)
	if err := server.Serve(); err != nil && err != io.EOF {
		wish.Fatalln(session, "sftp:", err)
	}
}

func main() {
	directory := os.Args[1]
	// scp gets to this directory alone.
	files := scp.NewFileSystemHandler(directory)
	options := []ssh.Option{
		wish.WithAuthorizedKeys(lab.AuthorizedKeys(directory)),
		wish.WithSubsystem("sftp", serveFiles),
		wish.WithMiddleware(scp.Middleware(files, files)),
	}
	for _, file := range lab.HostKeys(directory) {
		options = append(options, wish.WithHostKeyPath(file))
	}
	server, err := wish.NewServer(options...)
	lab.Check(err)
	lab.Check(server.Serve(lab.Listen()))
}
