package capi_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStoreOfC goes through store_c.h.
func TestStoreOfC(t *testing.T) {
	const nobody = "127.0.0.1:1" // A port that was free a moment ago may be somebody's now.
	run(t, program(t, "store_c_test.c"), master(t), nobody)
}

// TestNativeStore goes through mooncake_native.h: 10,000 mixed calls after which there are
// as many descriptors as before.
func TestNativeStore(t *testing.T) {
	run(t, program(t, "native_test.c"), master(t))
}

// TestMemoryOfCIsNotLookedAt: what was in the memory that a call writes to is nobody's
// business, least of all the garbage collector's, which here is at work all the time.
func TestMemoryOfCIsNotLookedAt(t *testing.T) {
	t.Setenv("GOGC", "1")
	run(t, program(t, "stale_test.c"), master(t))
}

// TestOnlyTheHeadersNamesAreExported: a host must not meet symbols of Go's.
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
