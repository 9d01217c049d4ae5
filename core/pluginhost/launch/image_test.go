package launch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

func sum(content []byte) string {
	h := sha256.Sum256(content)
	return hex.EncodeToString(h[:])
}

// says is a program that prints a word and exits, so that its start as a plugin fails.
func says(word string) []byte {
	return []byte("#!/bin/sh\necho i am " + word + " >&2\nexit 9\n")
}

func program(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mooncake-plugin-evict-faulty")
	require.NoError(t, os.WriteFile(path, content, 0o755)) //nolint:gosec // a program
	return path
}

func openImage(t *testing.T, path string) *Image {
	t.Helper()
	im, err := OpenImage(path)
	require.NoError(t, err)
	t.Cleanup(im.Close)
	return im
}

// changes are the ways in which a file can change.
var changes = map[string]func(t *testing.T, path string){
	"replaced": func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path+".new", says("new"), 0o755)) //nolint:gosec // a program
		require.NoError(t, os.Rename(path+".new", path))
	},
	"overwritten": func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path, says("new"), 0o755)) //nolint:gosec // a program
	},
	"shortened": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 3)) },
	"removed":   func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
}

// TestWhatWasHashedIsWhatRuns: the hashed bytes run, whatever happens to the file afterwards.
func TestWhatWasHashedIsWhatRuns(t *testing.T) {
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			path := program(t, says("old"))
			im := openImage(t, path)
			assert.Equal(t, sum(says("old")), im.SHA256)
			assert.True(t, im.Sealed)
			change(t, path)
			o, _ := options("")
			o.Path, o.Image = path, im
			_, err := Start(t.Context(), o)
			assert.ErrorContains(t, err, "i am old")
			assert.NotContains(t, err.Error(), "i am new")
		})
	}
}

// TestWhatChangesWhileItIsCopied: a file that is replaced is copied as it was. A file that is
// overwritten has another checksum, so that the caller's comparison fails.
func TestWhatChangesWhileItIsCopied(t *testing.T) {
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			path := program(t, says("old"))
			f, err := os.Open(path)
			require.NoError(t, err)
			defer f.Close()
			im, err := newImage(f, func(name string, flags int) (int, error) {
				change(t, path)
				return unix.MemfdCreate(name, flags)
			})
			require.NoError(t, err)
			defer im.Close()
			copied, err := io.ReadAll(im.Reader())
			require.NoError(t, err)
			assert.Equal(t, sum(copied), im.SHA256)
			assert.Equal(t, name == "replaced" || name == "removed", im.SHA256 == sum(says("old")))
		})
	}
}

func TestASealedImageCannotBeChanged(t *testing.T) {
	im := openImage(t, program(t, says("old")))
	_, err := unix.Pwrite(int(im.file.Fd()), []byte("x"), 0)
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(int(im.file.Fd()), 3), unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(int(im.file.Fd()), 1<<20), unix.EPERM)
	_, err = unix.Mmap(int(im.file.Fd()), 0, 4096, unix.PROT_WRITE, unix.MAP_SHARED)
	require.ErrorIs(t, err, unix.EPERM)
	again, err := os.OpenFile(selfFD(im.file), os.O_RDWR, 0)
	if err == nil {
		_, err = again.WriteAt([]byte("x"), 0)
		_ = again.Close()
	}
	require.Error(t, err, "nor through another descriptor")
	seals, err := unix.FcntlInt(im.file.Fd(), unix.F_GET_SEALS, 0)
	require.NoError(t, err)
	assert.NotZero(t, seals&unix.F_SEAL_SEAL)
	im.Close()
	im.Close()
}

// forbidden is a kernel with vm.memfd_noexec=2.
func forbidden(string, int) (int, error) { return -1, unix.EACCES }

// TestWithoutMemoryFiles: if memory files may not be run, the open file is run, so that replacing
// it changes nothing. A file that others may write is refused.
func TestWithoutMemoryFiles(t *testing.T) {
	for _, name := range []string{"replaced", "removed"} {
		path := program(t, says("old"))
		f, err := os.Open(path)
		require.NoError(t, err)
		im, err := newImage(f, forbidden)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		assert.False(t, im.Sealed)
		assert.Equal(t, sum(says("old")), im.SHA256)
		changes[name](t, path)
		o, log := options("")
		o.Path, o.Image = path, im
		_, err = Start(t.Context(), o)
		assert.ErrorContains(t, err, "i am old", name)
		assert.Contains(t, log.String(), "vm.memfd_noexec", "the log says so")
	}
	path := program(t, says("old"))
	require.NoError(t, os.Chmod(path, 0o775)) //nolint:gosec // what is refused
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	_, err = newImage(f, forbidden)
	assert.ErrorIs(t, err, errs.FileOpenFail.Err())
	assert.ErrorContains(t, err, "chmod go-w")
}

// TestOlderKernels: they do not know MFD_EXEC.
func TestOlderKernels(t *testing.T) {
	f, err := os.Open(program(t, says("old")))
	require.NoError(t, err)
	defer f.Close()
	im, err := newImage(f, func(name string, flags int) (int, error) {
		if flags&mfdExec != 0 {
			return -1, unix.EINVAL
		}
		return unix.MemfdCreate(name, flags)
	})
	require.NoError(t, err)
	defer im.Close()
	assert.True(t, im.Sealed)

	// A kernel that ignores the flag and makes a file that cannot be run.
	im, err = newImage(f, func(name string, _ int) (int, error) {
		return unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	})
	if err != nil {
		t.Skipf("this kernel knows no MFD_NOEXEC_SEAL: %v", err)
	}
	defer im.Close()
	assert.False(t, im.Sealed)
}

// TestACopyInUseIsSealedLater: the kernel refuses to seal a memory file whose pages are in use.
// The image waits until they are free.
func TestACopyInUseIsSealedLater(t *testing.T) {
	f, err := os.Open(program(t, says("old")))
	require.NoError(t, err)
	defer f.Close()
	im, err := newImage(f, func(name string, flags int) (int, error) {
		fd, err := unix.MemfdCreate(name, flags)
		if err != nil {
			return -1, err
		}
		mapped, err := unix.Mmap(fd, 0, 4096, unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return -1, err
		}
		time.AfterFunc(50*time.Millisecond, func() { _ = unix.Munmap(mapped) })
		return fd, nil
	})
	require.NoError(t, err)
	defer im.Close()
	assert.True(t, im.Sealed)
}

func TestImagesAreBounded(t *testing.T) {
	path := program(t, nil)
	require.NoError(t, os.Truncate(path, MaxProgram+1))
	_, err := OpenImage(path)
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	_, err = newImage(f, forbidden)
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
}

// TestNamesOfAProgram: a Go plugin has its name as argument zero, even if it runs from memory.
// Programs and scripts find the path of their file in the environment.
func TestNamesOfAProgram(t *testing.T) {
	content, err := os.ReadFile(faulty)
	require.NoError(t, err)
	path := program(t, content)
	o, _ := options("")
	o.Path, o.Image, o.Name = path, openImage(t, path), "/somewhere/mooncake-plugin-evict-faulty"
	p, err := Start(t.Context(), o)
	require.NoError(t, err)
	defer func() { assert.NoError(t, p.Close(context.Background())) }()
	assert.Equal(t, sum(content), p.SHA256())
	args, err := os.ReadFile(procFile(p.PID(), "cmdline"))
	require.NoError(t, err)
	assert.Equal(t, "/somewhere/mooncake-plugin-evict-faulty\x00", string(args))
	env, err := os.ReadFile(procFile(p.PID(), "environ"))
	require.NoError(t, err)
	assert.True(t, bytes.Contains(env, []byte("\x00MOONCAKE_PLUGIN_PATH=/somewhere/mooncake-plugin-evict-faulty\x00")))
	exe, err := os.Readlink(procFile(p.PID(), "exe"))
	require.NoError(t, err)
	assert.Contains(t, exe, "memfd:")

	o.Image, o.Path, o.Name = nil, program(t, []byte("#!/bin/sh\necho \"$0 is $MOONCAKE_PLUGIN_PATH\" >&2\nexit 9\n")), ""
	_, err = Start(t.Context(), o)
	assert.ErrorContains(t, err, "/proc/self/fd/4 is "+o.Path)
	o.Path = program(t, []byte("neither"))
	_, err = Start(t.Context(), o)
	assert.ErrorContains(t, err, "begins with #!")
}

// TestAFileThatGrowsWhileItIsKept: it is refused, since the checksum must be that of the bytes that
// run.
func TestAFileThatGrowsWhileItIsKept(t *testing.T) {
	f, err := os.Open(program(t, []byte("12345")))
	require.NoError(t, err)
	im := &Image{file: f, Size: 4}
	defer im.Close()
	err = im.hash()
	require.ErrorIs(t, err, errs.FileReadFail.Err())
	assert.ErrorContains(t, err, "it changed from 4 to 5 bytes meanwhile")
}
