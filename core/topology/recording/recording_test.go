package recording

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sample = header + ` 1
== a/b/file
one
two
== a/empty
== a/link -> b/file
== absolute -> /a/b
== dangling -> nowhere
== folder/
== loop -> loop
`

func read(t testing.TB, text string) *Recording {
	t.Helper()
	r, err := Read(strings.NewReader(text))
	require.NoError(t, err)
	return r
}

func TestReadAndWrite(t *testing.T) {
	var out bytes.Buffer
	_, err := read(t, sample).WriteTo(&out)
	require.NoError(t, err)
	require.Equal(t, sample, out.String())
	// Blank lines, comments and folders with something in them do not come back.
	out.Reset()
	_, err = read(t, header+"\n\n# of the machine room\n== a/\n== a/b\nx\n").WriteTo(&out)
	require.NoError(t, err)
	require.Equal(t, header+" 1\n== a/b\nx\n", out.String())
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "empty",
		"== a\n":                          "does not begin with",
		"\x7fELF":                         "does not begin with",
		header + "\nstray\n":              "line 2",
		header + "\n== ../a\n":            "line 2",
		header + "\n== /a\n":              "not the path",
		header + "\n== .\n":               "not the path",
		header + "\n== a/../b\n":          "not the path",
		header + "\n== \n":                "not the path",
		header + "\n== a\n== a -> b\n":    "twice",
		header + "\n== a -> \n":           "target",
		header + "\n== a\n== a/b\n":       "a is not a folder",
		header + "\n== a -> b\n== a/b/\n": "a is not a folder",
		header + "\n== a\n" + strings.Repeat("x", maxPath*5) + "\n": "too long",
	} {
		_, err := Read(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%.60q", text)
		require.True(t, errs.Is(err, errs.DeserializeFail), "%v", err)
		require.Less(t, len(err.Error()), 400)
	}
	_, err := Read(strings.NewReader(header + "\n== a\n" + strings.Repeat(strings.Repeat("x", 1023)+"\n", MaxBytes/1024)))
	require.ErrorContains(t, err, "more than 33554432 bytes")
}

// The file system passes the tests of the standard library, links apart that lead nowhere.
func TestFileSystem(t *testing.T) {
	sound := strings.NewReplacer("== dangling -> nowhere\n", "", "== loop -> loop\n", "").Replace(sample)
	require.NoError(t, fstest.TestFS(read(t, sound).FS(), "a/b/file", "a/empty", "a/link", "absolute", "folder"))
}

func TestLinks(t *testing.T) {
	f := read(t, sample).FS()
	for _, name := range []string{"a/b/file", "a/link", "absolute/file"} {
		b, err := fs.ReadFile(f, name)
		require.NoError(t, err, name)
		require.Equal(t, "one\ntwo\n", string(b))
	}
	target, err := f.ReadLink("absolute")
	require.NoError(t, err)
	require.Equal(t, "/a/b", target)
	info, err := f.Lstat("loop")
	require.NoError(t, err)
	require.Equal(t, fs.ModeSymlink, info.Mode().Type())
	for name, want := range map[string]error{"loop": fs.ErrInvalid, "dangling": fs.ErrNotExist, "a/none": fs.ErrNotExist, "../x": fs.ErrInvalid, "a/b/file/x": fs.ErrNotExist} {
		_, err := f.Open(name)
		require.ErrorIs(t, err, want, name)
	}
	_, err = f.ReadLink("a")
	require.ErrorIs(t, err, fs.ErrInvalid)
	out := read(t, header+"\n== up -> ../../etc\n").FS()
	_, err = out.Open("up")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestWhatIsKnownStays(t *testing.T) {
	r := New()
	r.File("f", "")
	r.File("f", "text")
	r.File("f", "other")
	r.Dir("f")
	r.Link("l", "f")
	r.Dir("l")
	r.File("l", "x")
	r.Dir("d")
	r.Dir("d/e")
	r.File("h", "== x\nno end")
	var out bytes.Buffer
	_, err := r.WriteTo(&out)
	require.NoError(t, err)
	require.Equal(t, header+" 1\n== d/e/\n== f\ntext\n== h\n == x\nno end\n== l -> f\n", out.String())
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteFails(t *testing.T) {
	_, err := read(t, sample).WriteTo(full{})
	require.ErrorContains(t, err, "no space left")
}

// FuzzRead: no text makes the reader or its file system panic, and what is read writes and
// reads the same again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(sample))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read(bytes.NewReader(data))
		if err != nil {
			require.True(t, errs.Is(err, errs.DeserializeFail))
			return
		}
		root := r.FS()
		_ = fs.WalkDir(root, ".", func(name string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, _ = fs.ReadFile(root, name)
			}
			return nil
		})
		var first, second bytes.Buffer
		_, err = r.WriteTo(&first)
		require.NoError(t, err)
		again, err := Read(bytes.NewReader(first.Bytes()))
		require.NoError(t, err, first.String())
		_, err = again.WriteTo(&second)
		require.NoError(t, err)
		require.Equal(t, first.String(), second.String())
	})
}
