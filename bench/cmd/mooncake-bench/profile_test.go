package main

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"testing"

	"github.com/stretchr/testify/require"
)

var sink []byte

func TestFlameGraph(t *testing.T) {
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 1
	sink = make([]byte, 1<<20)
	runtime.MemProfileRate = rate
	runtime.GC()
	dir := t.TempDir()
	profile, page := filepath.Join(dir, "allocs.pprof"), filepath.Join(dir, "allocs.html")
	f, err := os.Create(profile)
	require.NoError(t, err)
	require.NoError(t, pprof.Lookup("allocs").WriteTo(f, 0))
	require.NoError(t, f.Close())
	require.NoError(t, flameGraph(t.Context(), profile, page))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "TestFlameGraph", "the page has the stacks")
	require.Contains(t, string(text), "<script>", "and draws them")
	require.NotContains(t, string(text), `src="http`, "without another file")

	require.NoError(t, os.WriteFile(profile, []byte("no profile"), 0o600))
	require.ErrorContains(t, flameGraph(t.Context(), profile, page), profile)
}
