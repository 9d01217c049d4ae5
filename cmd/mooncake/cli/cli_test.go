package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

func testEnv() (e *env, stdout, stderr *bytes.Buffer) {
	inner, stdout, stderr := clitest.New()
	return &env{inner}, stdout, stderr
}

func run(e *env, args []string) int { return Run(e.Env, args) }

// TestEveryCommandIsDocumented: a short text, an example where there is something to run,
// and no flag that shows twice.
func TestEveryCommandIsDocumented(t *testing.T) {
	e, _, _ := testEnv()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		assert.NotEmpty(t, c.Short, c.CommandPath())
		if c.Runnable() && !c.HasSubCommands() && !c.Hidden {
			assert.NotEmpty(t, c.Example, "%s has no example", c.CommandPath())
		}
		var help bytes.Buffer
		c.SetOut(&help)
		c.SetErr(&help)
		require.NoError(t, c.Help())
		seen := map[string]bool{}
		for _, line := range strings.Split(help.String(), "\n") {
			name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strings.HasPrefix(name, "--") {
				assert.False(t, seen[name], "%s shows %s twice", c.CommandPath(), name)
				seen[name] = true
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(e.root())
}

func TestGflagsSyntaxReachesTheRole(t *testing.T) {
	e, _, _ := testEnv()
	root := e.root()
	assert.Equal(t, []string{"master", "--rpc_port", "1", "--enable_metric_reporting=false"},
		command.Normalize(root, []string{"master", "-rpc_port", "1", "-noenable_metric_reporting"}))
	assert.Equal(t, []string{"client", "put", "k", "--value", "-v", "--master_server_address=h:1"},
		command.Normalize(root, []string{"client", "put", "k", "-value", "-v", "-master_server_address=h:1"}))
	assert.Equal(t, []string{"plugins", "list", "-o", "json"}, command.Normalize(root, []string{"plugins", "list", "-o", "json"}))
}

func TestUnknownVerbNamesTheNearest(t *testing.T) {
	e, _, stderr := testEnv()
	assert.Equal(t, command.ExitUsage, run(e, []string{"mooncake", "stroe"}))
	assert.Contains(t, stderr.String(), `unknown command "stroe"; did you mean store?`)
}

func TestVersion(t *testing.T) {
	e, stdout, _ := testEnv()
	assert.Equal(t, command.ExitOK, run(e, []string{"mooncake", "version", "-o", "json"}))
	assert.Contains(t, stdout.String(), `"evict": [`)
	stdout.Reset()
	assert.Equal(t, command.ExitOK, run(e, []string{"/usr/bin/mooncake_master", "--version"}))
	assert.True(t, strings.HasPrefix(stdout.String(), "mooncake "))
}

func TestGflagsSyntaxOfTransferEngineBench(t *testing.T) {
	e, _, _ := testEnv()
	assert.Equal(t, []string{"bench", "transfer", "--mode=target", "--block_size", "4096", "--auto_discovery=false", "--threads", "2", "--logtostderr", "--v=1"},
		command.Normalize(e.root(), []string{"bench", "transfer", "-mode=target", "--block-size", "4096", "-noauto_discovery", "-threads", "2", "-logtostderr", "-v=1"}))
}
