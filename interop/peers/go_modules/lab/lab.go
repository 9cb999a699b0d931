// Package lab has what the servers for the tests share: the lab's keys, and how they begin and end.
package lab

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
)

// Check ends the program on an error.
func Check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// HostKeys returns the files of the host's keys in the lab's directory.
func HostKeys(directory string) []string {
	var files []string
	for _, name := range []string{"host_ed25519", "host_rsa", "host_ecdsa"} {
		files = append(files, filepath.Join(directory, name))
	}
	return files
}

// AuthorizedKeys returns the file of the keys that may log in.
func AuthorizedKeys(directory string) string { return filepath.Join(directory, "authorized_keys") }

// Listen listens on loopback and prints the port. The program ends with its standard input.
func Listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Check(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return listener
}
