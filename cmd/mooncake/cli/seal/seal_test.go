package seal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

func TestSeal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seal.json")
	call := func(code int, args ...string) string {
		var out, bad bytes.Buffer
		e := &command.Env{Stdin: os.Stdin, Stdout: &out, Stderr: &bad}
		require.Equal(t, code, cli.Run(e, append([]string{"mooncake", "seal"}, args...)), "%q: %s", args, bad.String())
		return out.String() + bad.String()
	}
	require.Contains(t, call(0, "new", file), `seal_keys: "file:`+file+`"`)
	require.Contains(t, call(command.ExitUsage, "new", file), "has keys already")
	require.Contains(t, call(0, "new", file, "--tenant", "team-a"), "team-a")
	call(command.ExitUsage, "new", file, "--tenant", strings.Repeat("x", 1<<17))
	later := strings.TrimSpace(call(0, "rotate", file, "--later"))
	shown := call(0, "show", file)
	require.Equal(t, 2, strings.Count(shown, "reads and seals"), "one of each tenant")
	require.Regexp(t, later+` .* reads\n`, shown)
	call(0, "use", file, later)
	require.Regexp(t, later+` .* reads and seals\n`, call(0, "show", file))
	require.Contains(t, call(command.ExitUsage, "drop", file, later), "make another one current first")
	last := strings.TrimSpace(call(0, "rotate", file))
	call(0, "drop", file, later)
	require.Contains(t, call(0, "show", file, "-o", "json"), `"id": "`+last+`"`)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(raw), later)
	require.Contains(t, call(command.ExitUsage, "use", file), "ID of a key")
}
