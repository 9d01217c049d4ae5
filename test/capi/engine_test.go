package capi_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	metahttp "github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
)

// TestEngineOfC calls every function of transfer_engine_c.h, with processes that are killed and
// restarted.
func TestEngineOfC(t *testing.T) {
	srv := httptest.NewServer(metahttp.NewHandler(memory.New(memory.Limits{}), nil))
	defer srv.Close()
	run(t, program(t, "engine_c_test.c"), srv.URL+"/metadata")
}

// TestHeadersAlone includes each header alone, in C and in C++, and both together.
func TestHeadersAlone(t *testing.T) {
	headers, err := filepath.Glob(root + "/cmd/libmooncake/include/*.h")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(headers), 3)
	all := ""
	var texts []string
	for _, h := range headers {
		line := "#include \"" + filepath.Base(h) + "\"\n"
		texts = append(texts, line+line)
		all += line
	}
	for _, text := range append(texts, all) {
		file := filepath.Join(t.TempDir(), "alone")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		for _, how := range [][]string{{"gcc", "-x", "c", "-std=c11"}, {"g++", "-x", "c++", "-std=c++17"}} {
			args := append(how[1:], "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", root+"/cmd/libmooncake/include", file)
			out, err := exec.CommandContext(t.Context(), how[0], args...).CombinedOutput()
			require.NoError(t, err, "%s: %s%s", how[0], text, out)
		}
	}
}
