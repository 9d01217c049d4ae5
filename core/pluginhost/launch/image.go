package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// MaxProgram bounds a program in bytes.
const MaxProgram = 512 << 20

// mfdExec asks for a memory file that may be run. Kernels before 6.3 do not know the flag and
// allow every memory file to be run.
const mfdExec = 0x10

// Image is a program that is about to be run: its bytes, which cannot change any more, and
// their checksum. Start runs exactly those bytes, whatever happens to the file that they came
// from.
//
// If the kernel does not allow memory files to be run (vm.memfd_noexec is 2), the image is the
// open file itself and Sealed is false. Replacing the file then changes nothing, but a user who
// may write the file, its owner or root, can still change its bytes in place.
type Image struct {
	// SHA256 is the checksum of the bytes, in hexadecimal.
	SHA256 string
	// Size is how many there are.
	Size int64
	// Sealed says that no user can change the bytes, not even root.
	Sealed bool

	file  *os.File
	close sync.Once
}

// OpenImage opens a file, which must be a regular and executable one, and calls NewImage.
func OpenImage(path string) (*Image, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, errs.Wrap(errs.FileOpenFail, "", err)
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, errs.Wrap(errs.FileOpenFail, "", err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return nil, errs.Wrap(errs.FileOpenFail, path, fs.ErrPermission)
	}
	return NewImage(f)
}

// NewImage copies a program into sealed memory, whatever the file's offset, and computes the
// checksum of the sealed copy. The caller still owns the file. The copy counts as memory of
// this process until the program ends. NewImage fails with InvalidParams if the program is
// larger than MaxProgram, with FileReadFail if it cannot be read, and with Internal if memory is
// short.
func NewImage(f *os.File) (*Image, error) { return newImage(f, unix.MemfdCreate) }

func newImage(f *os.File, create func(name string, flags int) (int, error)) (*Image, error) {
	im := &Image{}
	err := im.seal(f, create)
	if errors.Is(err, errNoExec) {
		err = im.keep(f)
	}
	if err == nil {
		err = im.hash()
	}
	if err != nil {
		im.Close()
		return nil, err
	}
	return im, nil
}

// errNoExec says that memory files cannot be run here.
var errNoExec = errors.New("memory files may not be run")

func (im *Image) seal(f *os.File, create func(string, int) (int, error)) error {
	name := filepath.Base(f.Name())
	fd, err := create(name[:min(len(name), 200)], unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|mfdExec)
	if errors.Is(err, unix.EINVAL) {
		fd, err = create(name[:min(len(name), 200)], unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	switch {
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS):
		return errNoExec
	case err != nil:
		return errs.Wrap(errs.Internal, "copy "+f.Name(), os.NewSyscallError("memfd_create", err))
	}
	im.file = os.NewFile(uintptr(fd), "memory of "+f.Name())
	if im.Size, err = io.Copy(im.file, io.LimitReader(io.NewSectionReader(f, 0, MaxProgram+1), MaxProgram+1)); err != nil {
		return errs.Wrap(errs.FileReadFail, "copy "+f.Name(), err)
	}
	if im.Size > MaxProgram {
		return tooLarge(f.Name())
	}
	if err := addSeals(im.file); err != nil {
		return errs.Wrap(errs.Internal, "seal the copy of "+f.Name(), err)
	}
	im.Sealed = true
	if unix.Faccessat(unix.AT_FDCWD, selfFD(im.file), unix.X_OK, unix.AT_EACCESS) != nil {
		im.Sealed = false
		_ = im.file.Close()
		return errNoExec // vm.memfd_noexec is 1 on a kernel that ignores the flag
	}
	return nil
}

// addSeals makes a memory file immutable. The kernel refuses with EBUSY while another process has
// mapped the file for writing, and also while the kernel itself holds a page of it (it moves or
// reclaims pages under memory pressure), so addSeals retries for about two seconds.
func addSeals(file *os.File) error {
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	var err error
	for wait := time.Millisecond; wait <= 1024*time.Millisecond; wait *= 2 {
		if _, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals); !errors.Is(err, unix.EBUSY) {
			return err
		}
		time.Sleep(wait)
	}
	return err
}

// keep makes the image the open file itself.
func (im *Image) keep(f *os.File) error {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return errs.Wrap(errs.Internal, "keep "+f.Name(), err)
	}
	im.file = os.NewFile(uintptr(fd), f.Name())
	info, err := im.file.Stat()
	switch {
	case err != nil:
		return errs.Wrap(errs.FileReadFail, "keep "+f.Name(), err)
	case info.Mode().Perm()&0o022 != 0:
		return errs.New(errs.FileOpenFail, "run "+f.Name(), "this kernel runs no copies in memory (vm.memfd_noexec), and others may write the file (mode %#o); run: chmod go-w %s", info.Mode().Perm(), f.Name())
	case info.Size() > MaxProgram:
		return tooLarge(f.Name())
	}
	im.Size = info.Size()
	return nil
}

func (im *Image) hash() error {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(im.file, 0, MaxProgram+1))
	if err != nil {
		return errs.Wrap(errs.FileReadFail, "read "+im.file.Name(), err)
	}
	if n != im.Size {
		return errs.New(errs.FileReadFail, "read "+im.file.Name(), "it changed from %d to %d bytes meanwhile", im.Size, n)
	}
	im.SHA256 = hex.EncodeToString(h.Sum(nil))
	return nil
}

// Reader returns a new reader of the bytes, from the beginning.
func (im *Image) Reader() io.Reader { return io.NewSectionReader(im.file, 0, im.Size) }

// ReaderAt gives access to the bytes.
func (im *Image) ReaderAt() io.ReaderAt { return im.file }

// Close frees the copy. A running program keeps its own reference. Close may be called more than
// once.
func (im *Image) Close() {
	im.close.Do(func() {
		if im.file != nil {
			_ = im.file.Close()
		}
	})
}

func tooLarge(path string) error {
	return errs.New(errs.InvalidParams, "copy "+path, "the program is larger than %d MiB", MaxProgram>>20)
}

func selfFD(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
