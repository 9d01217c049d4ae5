package evictsim_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/evictsim"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	prefix "github.com/mooncake-go/mooncake/plugins/evict-prefix"
	s3fifo "github.com/mooncake-go/mooncake/plugins/evict-s3fifo"
	sieve "github.com/mooncake-go/mooncake/plugins/evict-sieve"
)

// TestTheBuiltinTraceTellsPoliciesApart: a policy behaves as itself under another name, and as no other.
func TestTheBuiltinTraceTellsPoliciesApart(t *testing.T) {
	trace, err := evictsim.Builtin()
	require.NoError(t, err)
	again, err := evictsim.Builtin()
	require.NoError(t, err)
	require.Equal(t, trace, again, "it is always the same")
	contenders := []evictsim.Contender{{Name: "lru", Factory: lru.Factory()}}
	for name, f := range map[string]func() evictsim.Contender{
		"mine":   func() evictsim.Contender { return evictsim.Contender{Factory: lru.Factory()} },
		"prefix": func() evictsim.Contender { return evictsim.Contender{Factory: prefix.Factory()} },
		"s3fifo": func() evictsim.Contender { return evictsim.Contender{Factory: s3fifo.Factory()} },
		"sieve":  func() evictsim.Contender { return evictsim.Contender{Factory: sieve.Factory()} },
	} {
		c := f()
		c.Name = name
		contenders = append(contenders, c)
	}
	results, err := evictsim.Sweep(t.Context(), trace, evictsim.Options{Contenders: contenders, Capacities: evictsim.Fitting(trace), Parallel: 2})
	require.NoError(t, err)
	assert.Equal(t, []string{"lru"}, results.Alike("mine"))
	assert.Equal(t, []string{"mine"}, results.Alike("lru"))
	for _, name := range []string{"prefix", "s3fifo", "sieve"} {
		assert.Empty(t, results.Alike(name), name)
	}
}

func TestATraceFile(t *testing.T) {
	trace, err := evictsim.LoadFile("testdata/small.jsonl")
	require.NoError(t, err)
	require.Positive(t, trace.Blocks())
	_, err = evictsim.LoadFile(filepath.Join(t.TempDir(), "absent"))
	require.ErrorContains(t, err, "absent")
	_, err = evictsim.LoadFile("builtin.go")
	require.ErrorContains(t, err, "builtin.go: ")
}
