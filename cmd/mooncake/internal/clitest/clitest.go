// Package clitest makes environments for tests of verbs.
package clitest

import (
	"bytes"
	"strings"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

// New returns an environment without variables and with empty input, and where its outputs go.
func New() (e *command.Env, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &command.Env{
		Builtins: builtin.Plugins(), Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Program: "mooncake", Version: "dev",
	}, stdout, stderr
}
