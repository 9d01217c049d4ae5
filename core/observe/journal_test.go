package observe_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/observe"
)

func open(t *testing.T, o observe.JournalOptions) *observe.Journal {
	t.Helper()
	j, err := observe.OpenJournal(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	return j
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.log.INFO.*"))
	require.NoError(t, err)
	return found
}

func TestJournal(t *testing.T) {
	dir := t.TempDir()
	j := open(t, observe.JournalOptions{Dir: dir, Program: "mooncake_master", MaxSize: 1 << 20, Keep: 2})
	_, err := j.Write([]byte("one\n"))
	require.NoError(t, err)
	found := files(t, dir)
	require.Len(t, found, 1)
	assert.Regexp(t, `^mooncake_master\..+\..+\.log\.INFO\.\d{8}-\d{6}\.\d+$`, filepath.Base(found[0]))
	to, err := os.Readlink(filepath.Join(dir, "mooncake_master.INFO"))
	require.NoError(t, err)
	assert.Equal(t, filepath.Base(found[0]), to, "a relative link survives a move of the directory")
	text, err := os.ReadFile(filepath.Join(dir, "mooncake_master.INFO"))
	require.NoError(t, err)
	assert.Equal(t, "one\n", string(text))

	require.NoError(t, j.Close())
	require.NoError(t, j.Close())
	_, err = j.Write([]byte("late\n"))
	assert.ErrorIs(t, err, fs.ErrClosed)
}

// Every line is in one of the files, whole and once, while the journal goes from file to
// file under many writers; only Keep files stay.
func TestJournalGoesFromFileToFile(t *testing.T) {
	for _, keep := range []int{3, 64} {
		dir := t.TempDir()
		j := open(t, observe.JournalOptions{Dir: dir, Program: "p", MaxSize: 100, Keep: keep})
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := range 50 {
					_, err := fmt.Fprintf(j, "writer %d line %d\n", w, i)
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
		seen := map[string]int{}
		for _, path := range files(t, dir) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
				seen[line]++
			}
		}
		if keep == 3 {
			require.Len(t, files(t, dir), 3)
			continue
		}
		require.Greater(t, len(files(t, dir)), 10)
		for w := range 4 {
			for i := range 50 {
				require.Equal(t, 1, seen[fmt.Sprintf("writer %d line %d", w, i)])
			}
		}
	}
}

func TestJournalLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "mooncake_client.h.u.log.INFO.20000101-000000.1")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	for range 3 {
		open(t, observe.JournalOptions{Dir: dir, Program: "mooncake_master", MaxSize: 1, Keep: 1})
	}
	require.FileExists(t, other)
	require.Len(t, files(t, dir), 2)
}

func TestJournalWithoutADirectory(t *testing.T) {
	_, err := observe.OpenJournal(observe.JournalOptions{Dir: filepath.Join(t.TempDir(), "none"), Program: "p", MaxSize: 1, Keep: 1})
	require.ErrorContains(t, err, "none")
	require.ErrorContains(t, err, "must exist and be writable")
}

// A journal whose directory goes away goes on with the file that it has.
func TestJournalOutlivesItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(dir, 0o755))
	j := open(t, observe.JournalOptions{Dir: dir, Program: "p", MaxSize: 1, Keep: 1})
	require.NoError(t, os.RemoveAll(dir))
	for range 3 {
		_, err := j.Write([]byte("still\n"))
		require.NoError(t, err)
	}
}
