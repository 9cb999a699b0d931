//go:build tools

// Package opkssh names the program, so that `go build` finds it at the version that go.mod pins.
package opkssh

import _ "github.com/openpubkey/opkssh"
