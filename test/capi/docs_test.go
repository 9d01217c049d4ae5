package capi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var inC = regexp.MustCompile("(?s)```c\n(.*?)```")

// TestTheProgramOfTheDocumentation builds the program of docs/python.md as the page says, with the
// result of make libmooncake.
func TestTheProgramOfTheDocumentation(t *testing.T) {
	if _, err := exec.LookPath("pkg-config"); err != nil {
		t.Skip("pkg-config is not installed")
	}
	page, err := os.ReadFile(root + "/docs/python.md")
	require.NoError(t, err)
	code := inC.FindStringSubmatch(string(page))
	require.NotNil(t, code, "docs/python.md has no program in C")

	folder := filepath.Join(t.TempDir(), "with space")
	text, err := exec.CommandContext(t.Context(), root+"/scripts/libmooncake.sh", folder).CombinedOutput()
	require.NoError(t, err, string(text))
	require.NoFileExists(t, folder+"/include/mooncake_native.h")

	source, program := filepath.Join(folder, "page.c"), filepath.Join(folder, "page")
	require.NoError(t, os.WriteFile(source, []byte(code[1]), 0o600))
	build := exec.CommandContext(t.Context(), "sh", "-c", `eval gcc -Wall -Wextra -Werror -o '"$1"' '"$2"' $(pkg-config --cflags --libs mooncake)`, "sh", program, source)
	build.Env = append(os.Environ(), "PKG_CONFIG_PATH="+folder+"/lib/pkgconfig")
	text, err = build.CombinedOutput()
	require.NoError(t, err, string(text))

	t.Setenv("LD_LIBRARY_PATH", folder+"/lib")
	run := exec.CommandContext(t.Context(), program, master(t))
	text, err = run.Output()
	require.NoError(t, err)
	require.Equal(t, "hello", strings.TrimSpace(string(text)))
}
