package capi_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// declared finds the name of a function in a preprocessed header.
var declared = regexp.MustCompile(`(?m)\b([A-Za-z_]\w*)\s*\([^;{}]*\)\s*;`)

// typedef finds the name of a function type, which is no function.
var typedef = regexp.MustCompile(`(?m)^typedef [^;{}]*\([^;{}]*\)\s*;`)

// headerNames lists the functions that the headers of this project declare.
func headerNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(root + "/cmd/libmooncake/include/*.h")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	names := map[string]bool{}
	for _, file := range files {
		// Without the lines of the system's headers, which come with markers.
		text, err := exec.CommandContext(t.Context(), "gcc", "-E", "-fpreprocessed", "-dD", file).Output()
		require.NoError(t, err)
		for _, m := range declared.FindAllStringSubmatch(typedef.ReplaceAllString(string(text), ""), -1) {
			names[m[1]] = true
		}
	}
	return names
}
