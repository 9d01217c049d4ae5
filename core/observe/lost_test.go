package observe

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLostLinesAreCounted writes to a full disk, and then to one that has space again.
func TestLostLinesAreCounted(t *testing.T) {
	j, err := OpenJournal(JournalOptions{Dir: t.TempDir(), Program: "p", MaxSize: 1 << 20, Keep: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	disk := j.file
	j.file = full
	for range 3 {
		_, err := j.Write([]byte("x\n"))
		require.Error(t, err)
	}
	j.file = disk
	for range 2 {
		_, err := j.Write([]byte("y\n"))
		require.NoError(t, err)
	}
	text, err := os.ReadFile(disk.Name())
	require.NoError(t, err)
	require.Regexp(t, `^\S+ log: 3 lines before this one are lost: they could not be written\ny\ny\n$`, string(text))
}

// TestLostLinesAreCountedForMetrics: of whatever log.
func TestLostLinesAreCountedForMetrics(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	before := LinesLost()
	for _, format := range []string{"text", "json"} {
		log, err := NewLogger(full, "info", format)
		require.NoError(t, err)
		log.Info("lost")
		log.Debug("not written anyway")
	}
	require.EqualValues(t, 2, LinesLost()-before)
}
