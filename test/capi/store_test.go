package capi_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStoreOfC calls every function of store_c.h.
func TestStoreOfC(t *testing.T) {
	const unused = "127.0.0.1:1" // Another process may take a port that was free a moment ago.
	run(t, program(t, "store_c_test.c"), master(t), unused)
}

// TestNativeStore makes 10,000 mixed calls of mooncake_native.h, and finds as many descriptors
// afterwards as before.
func TestNativeStore(t *testing.T) {
	run(t, program(t, "native_test.c"), master(t))
}

// TestMemoryOfCIsNotRead checks that Go never reads the previous content of memory that a call
// writes to: the garbage collector, which runs all the time here, would take it for pointers.
func TestMemoryOfCIsNotRead(t *testing.T) {
	t.Setenv("GOGC", "1")
	run(t, program(t, "stale_test.c"), master(t))
}

// TestOnlyTheHeadersNamesAreExported checks that a host sees no symbols of Go's runtime.
func TestOnlyTheHeadersNamesAreExported(t *testing.T) {
	text, err := exec.CommandContext(t.Context(), "nm", "-D", "--defined-only", library(t)+"/libmooncake.so").CombinedOutput()
	require.NoError(t, err, string(text))
	headers := headerNames(t)
	exported := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		name := fields[len(fields)-1]
		exported[name] = true
		assert.Contains(t, headers, name, "exported, and in no header")
	}
	for name := range headers {
		assert.True(t, exported[name], "%s is in a header and not exported", name)
	}
}
