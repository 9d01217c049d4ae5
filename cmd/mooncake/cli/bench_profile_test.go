package cli

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

// TestBenchProfile: a second of each load over a real pool, in files that their readers can
// read and that name what did the work.
func TestBenchProfile(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	dir := filepath.Join(t.TempDir(), "new", "folder")
	e, stdout, stderr := testEnv()
	require.Equal(t, command.ExitOK, run(e, []string{"mooncake", "bench", "profile", "--seconds", "1", "--out", dir}), stderr.String())
	assert.Contains(t, stdout.String(), dir)
	for load, names := range map[string]struct{ cpu, allocs string }{
		"store-put": {"/plugins/transport-tcp.", "/core/store.(*Client).BatchPut"},
		"store-get": {"/plugins/transport-tcp.", "/core/store.(*Client).BatchGetInto"},
		"master":    {"/core/api/", "/core/master.(*Service).PutStart"},
	} {
		samples, folded := readProfile(t, filepath.Join(dir, load, "cpu"))
		if samples >= 50 { // A machine that is busy with other work has fewer.
			assert.True(t, strings.Contains(folded, names.cpu), "%s has no %s", load, names.cpu)
		}
		assert.False(t, strings.Contains(folded, "transport-shm"), "tcp moves the bytes")
		_, folded = readProfile(t, filepath.Join(dir, load, "allocs"))
		assert.True(t, strings.Contains(folded, names.allocs), "%s has no %s", load, names.allocs)
		samples, _ = readProfile(t, filepath.Join(dir, load, "block"))
		assert.Positive(t, samples, "%s waits for answers", load)
		readProfile(t, filepath.Join(dir, load, "mutex")) // Whether a lock is waited for is chance.
	}
}

// readProfile reads the three files of a profile: how many samples it has, and its folded
// stacks.
func readProfile(t *testing.T, path string) (samples int, folded string) {
	t.Helper()
	data, err := os.ReadFile(path + ".pprof")
	require.NoError(t, err)
	p, err := profile.ParseData(data)
	require.NoError(t, err, path)
	require.NotEmpty(t, p.SampleType, path)
	text, err := os.ReadFile(path + ".folded")
	require.NoError(t, err)
	assert.Equal(t, len(p.Sample) > 0, len(text) > 0, path)
	image, err := os.ReadFile(path + ".svg")
	require.NoError(t, err)
	var svg struct {
		Boxes []struct {
			Title string `xml:"title"`
		} `xml:"g"`
	}
	require.NoError(t, xml.Unmarshal(image, &svg), path)
	assert.Equal(t, len(p.Sample) > 0, len(svg.Boxes) > 1, path)
	return len(p.Sample), string(text)
}

func TestBenchProfileRefuses(t *testing.T) {
	for _, seconds := range []string{"0", "-1", "601"} {
		e, _, stderr := testEnv()
		assert.Equal(t, command.ExitUsage, run(e, []string{"mooncake", "bench", "profile", "--seconds", seconds, "--out", t.TempDir()}))
		assert.Contains(t, stderr.String(), "want 1 to 600")
	}
}
