package bench_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

// TestBenchProfile: a second of each load over a real pool, in files that their readers can
// read and that name what did the work.
func TestBenchProfile(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	dir := filepath.Join(t.TempDir(), "new", "folder")
	e, stdout, stderr := clitest.New()
	require.Equal(t, command.ExitOK, cli.Run(e, []string{"mooncake", "bench", "profile", "--seconds", "1", "--out", dir}), stderr.String())
	assert.Contains(t, stdout.String(), dir)
	for load, names := range map[string]struct{ cpu, allocs string }{
		"store-put": {"/plugins/transport-tcp.", "/core/store/client.(*Client).BatchPut"},
		"store-get": {"/plugins/transport-tcp.", "/core/store/client.(*Client).GetFragments"},
		"master":    {"/core/api/", "/core/master.(*Service).PutStart"},
	} {
		p := readProfile(t, filepath.Join(dir, load, "cpu.pprof"))
		if len(p.Sample) >= 50 { // A machine that is busy with other work has fewer.
			assert.True(t, strings.Contains(p.String(), names.cpu), "%s has no %s", load, names.cpu)
		}
		assert.False(t, strings.Contains(p.String(), "transport-shm"), "tcp moves the bytes")
		p = readProfile(t, filepath.Join(dir, load, "allocs.pprof"))
		assert.True(t, strings.Contains(p.String(), names.allocs), "%s has no %s", load, names.allocs)
		p = readProfile(t, filepath.Join(dir, load, "block.pprof"))
		assert.NotEmpty(t, p.Sample, "%s waits for answers", load)
		readProfile(t, filepath.Join(dir, load, "mutex.pprof")) // Whether a lock is waited for is chance.
	}
}

func readProfile(t *testing.T, path string) *profile.Profile {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	p, err := profile.ParseData(data)
	require.NoError(t, err, path)
	require.NotEmpty(t, p.SampleType, path)
	return p
}

func TestBenchProfileRefuses(t *testing.T) {
	for _, seconds := range []string{"0", "-1", "601"} {
		e, _, stderr := clitest.New()
		assert.Equal(t, command.ExitUsage, cli.Run(e, []string{"mooncake", "bench", "profile", "--seconds", seconds, "--out", t.TempDir()}))
		assert.Contains(t, stderr.String(), "want 1 to 600")
	}
}
