package memory

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The mappings of a program: its code, its constants, what the linker has changed, data, and another file.
const smaps = `00400000-00402000 r--p 00000000 fe:00 7                   /opt/a b/mooncake
Rss:                   8 kB
Anonymous:             0 kB
00402000-016b0000 r-xp 00002000 fe:00 7                   /opt/a b/mooncake
Size:              19128 kB
Rss:               19124 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
02cfa000-02cfb000 r--p 028f9000 fe:00 7                   /opt/a b/mooncake
Rss:                   4 kB
Anonymous:             4 kB
02cfb000-02d99000 rw-p 028fa000 fe:00 7                   /opt/a b/mooncake
Rss:                 540 kB
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Rss:                4096 kB
Anonymous:             0 kB
7f0000000000-7f0000001000 r-xp 00000000 fe:00 8           /lib/libc.so
Rss:                   4 kB
Anonymous:             0 kB
`

func TestOnlyCodeThatTheFileHasAsWellIsDropped(t *testing.T) {
	got, err := codeOf(strings.NewReader(smaps), "/opt/a b/mooncake")
	require.NoError(t, err)
	require.Equal(t, []piece{{0x400000, 0x402000, 8 << 10}, {0x402000, 0x16b0000, 19124 << 10}}, got)
	got, err = codeOf(strings.NewReader("garbage\nRss: x kB\n\nAnonymous: 0 kB\n"), "/opt/a b/mooncake")
	require.NoError(t, err)
	require.Empty(t, got)
}

// fileResident is how much of files this process has mapped, in KiB.
func fileResident(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	return parseMeminfo(text, "RssFile") >> 10
}

func TestAProgramRunsOnWithoutItsCode(t *testing.T) {
	dropped, err := DropCode()
	require.NoError(t, err)
	require.NotZero(t, dropped, "this test was resident")
	for range 3 {
		_, err := DropCode()
		require.NoError(t, err)
		runtime.GC()
	}
	require.NotZero(t, fileResident(t), "what runs comes back")
}
