package introspect

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Another user can have put a pipe where sockets are looked for.
func TestFindDoesNotWaitForAPipe(t *testing.T) {
	p := placesIn(short(t))
	require.NoError(t, os.MkdirAll(filepath.Join(p.runtime, "mooncake"), 0o700))
	require.NoError(t, unix.Mkfifo(filepath.Join(p.runtime, "mooncake", "admin"), 0o600))
	require.NoError(t, os.Mkdir(p.temp, 0o755))
	require.NoError(t, unix.Mkfifo(p.temporary(p.temp), 0o600))
	found := make(chan Found, 1)
	go func() { found <- Find(p) }()
	select {
	case f := <-found:
		assert.Empty(t, f)
	case <-time.After(time.Minute):
		for _, dir := range p.own() { // Let it go.
			if f, err := os.OpenFile(dir, os.O_RDWR|unix.O_NONBLOCK, 0); err == nil {
				defer f.Close()
			}
		}
		t.Fatal("it waits for a writer of the pipe")
	}
}

// What is removed is removed in the folder that was looked at, although another one is at
// its path by now.
func TestSweepIsOfTheFolderThatWasOpened(t *testing.T) {
	base := short(t)
	dir, away := filepath.Join(base, "admin"), filepath.Join(base, "away")
	require.NoError(t, os.Mkdir(dir, 0o700))
	leftBehind(t, dir, "master-4242.sock")
	folder, err := openFolder(dir)
	require.NoError(t, err)
	defer folder.Close()
	require.NoError(t, os.Rename(dir, away))
	require.NoError(t, os.Mkdir(dir, 0o700))
	precious := leftBehind(t, dir, "master-4242.sock")
	sweep(folder)
	_, err = os.Lstat(precious)
	require.NoError(t, err, "it lies in another folder")
	assert.NoFileExists(t, filepath.Join(away, "master-4242.sock"))
}

func TestSweepLeavesAlone(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		socket string
		spoil  func(t *testing.T, dir, socket string)
	}{
		"what more than one user may change": {"master-4242.sock", func(t *testing.T, dir, _ string) {
			require.NoError(t, os.Chmod(dir, 0o777))
		}},
		"a socket of another user": {"master-4242.sock", func(t *testing.T, _, socket string) {
			if os.Lchown(socket, 4711, 4711) != nil {
				t.Skip("only root gives files away")
			}
		}},
		"a hidden name that is not ours": {".profile", func(*testing.T, string, string) {}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := short(t)
			path := leftBehind(t, dir, c.socket)
			require.NoError(t, os.Chtimes(path, long, long))
			c.spoil(t, dir, path)
			folder, err := openFolder(dir)
			require.NoError(t, err)
			defer folder.Close()
			sweep(folder)
			_, err = os.Lstat(path)
			assert.NoError(t, err)
		})
	}
}

// Whoever can make names in a folder for temporary files could have root look at as many
// places as they like, and at those of others.
func TestSearchedAreFoldersOfTheUserWhoseNumberTheyHave(t *testing.T) {
	p := placesIn(short(t))
	p.uid = 0
	require.NoError(t, os.Mkdir(p.temp, 0o755))
	me := Places{uid: os.Geteuid()}.temporary(p.temp)
	for _, dir := range []string{me, p.temp + "/mooncake-4711", p.temp + "/mooncake-12x", p.temp + "/mooncake-0" + filepath.Base(me)[len("mooncake-"):]} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	require.NoError(t, os.Symlink(me, p.temp+"/mooncake-4712"))
	var got []string
	for _, dir := range p.searched() {
		if filepath.Dir(dir) == p.temp && (len(got) == 0 || got[0] != dir) {
			got = append(got, dir)
		}
	}
	assert.Equal(t, []string{me}, got)
}

// Root asks whoever listens, and what comes back is printed.
func TestAnErrorOfAnotherProcessCannotSpeakToTheTerminal(t *testing.T) {
	path := filepath.Join(short(t), "x.sock")
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error": {"code": -1, "message": "no\u001b[2J\u009b1m\nlicense"}}`)
	})}
	go s.Serve(ln) //nolint:errcheck // It ends with the test.
	defer s.Close()
	_, err = NewClient(path).Plugins(bounded(t))
	assert.EqualError(t, err, "no\uFFFD[2J\uFFFD1m\nlicense")
}
