package demo

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSettingsOfTheUser: they reach the master, and the demo leaves out its own value of a setting that the user has set.
func TestSettingsOfTheUser(t *testing.T) {
	p := &pool{opts: Default()}
	ports := []int{1, 2, 3}
	assert.Contains(t, p.masterArgs(ports), "master.lease_ttl=200ms")
	assert.NotContains(t, p.masterArgs(ports), "--config")
	p.opts.Config, p.opts.Set = "/c.yaml", []string{"master.lease_ttl=1s", "log.level=debug"}
	args := p.masterArgs(ports)
	assert.NotContains(t, args, "master.lease_ttl=200ms")
	assert.Equal(t, []string{"--config", "/c.yaml", "--set", "master.lease_ttl=1s", "--set", "log.level=debug"}, args[len(args)-6:])
	assert.Equal(t, len(args)-6, slices.Index(args, "--config"))
	assert.Equal(t, []string{"--set", "a=b"}, p.own("a", "b"))
	p.opts.Set = []string{"a=c"}
	assert.Empty(t, p.own("a", "b"))
}
