// Package volume opens the folder of a volume: it locks it, and reads and writes the file that says
// what the volume is.
package volume

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

const (
	// Most is how many processes can share a path.
	Most = 64

	file   = "VOLUME"
	page   = 4096
	magic  = 0x6d6f6f6e766f6c31 // "moonvol1"
	format = 1
)

// Info is what the file says.
type Info struct {
	ID         [16]byte
	Generation uint64
	// Capacity is how many bytes the data files have together.
	Capacity uint64
	// Writes counts how often the file was written.
	Writes uint64
}

// Lock takes the first folder below path that no process has: mooncake-tier, mooncake-tier-1, and so
// on. It makes the folder if needed. The lock ends when the returned file is closed.
func Lock(path string) (dir string, lock *os.File, err error) {
	for i := range Most {
		dir = filepath.Join(path, "mooncake-tier")
		if i > 0 {
			dir += fmt.Sprintf("-%d", i)
		}
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", nil, err
		}
		f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return "", nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return dir, f, nil
		}
		f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return "", nil, fmt.Errorf("flock %s: %w", f.Name(), err)
		}
	}
	return "", nil, fmt.Errorf("all %d folders %s are in use by other processes", Most, filepath.Join(path, "mooncake-tier-*"))
}

// New returns the description of a volume that does not exist yet.
func New(capacity uint64) Info {
	v := Info{Generation: 1, Capacity: capacity}
	_, _ = rand.Read(v.ID[:]) // It never fails.
	return v
}

// ErrNone is in the chain of the error for a folder without a volume, or with a damaged file.
var ErrNone = errors.New("no volume")

// Read reads the file: of the two copies the one that was written last.
func Read(dir string) (v Info, err error) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return v, ErrNone
	}
	if err != nil {
		return v, err
	}
	found := false
	for i := range 2 {
		if len(b) < (i+1)*page {
			break
		}
		if c, ok := decode(b[i*page : (i+1)*page]); ok && (!found || c.Writes > v.Writes) {
			v, found = c, true
		}
	}
	if !found {
		return v, fmt.Errorf("%w: both copies in %s are damaged", ErrNone, file)
	}
	return v, nil
}

// Write writes the copy that was not written last, durably. It counts v.Writes up, so that an update
// that fails is not taken for the next one.
func Write(dir string, v *Info) error {
	v.Writes++
	b := make([]byte, page)
	encode(b, *v)
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(b, int64(v.Writes%2)*page); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func encode(b []byte, v Info) {
	le := binary.LittleEndian
	le.PutUint64(b, magic)
	le.PutUint32(b[12:], format)
	copy(b[16:], v.ID[:])
	le.PutUint64(b[32:], v.Generation)
	le.PutUint64(b[40:], v.Capacity)
	le.PutUint64(b[48:], v.Writes)
	le.PutUint32(b[8:], sum(b))
}

func sum(b []byte) uint32 { return crc32c.Update(crc32c.Sum(b[:8]), b[12:]) }

// decode reads one copy. It accepts hostile input.
func decode(b []byte) (Info, bool) {
	le := binary.LittleEndian
	if len(b) < page || le.Uint64(b) != magic || le.Uint32(b[12:]) != format || le.Uint32(b[8:]) != sum(b[:page]) {
		return Info{}, false
	}
	return Info{
		ID: [16]byte(b[16:32]), Generation: le.Uint64(b[32:]), Capacity: le.Uint64(b[40:]), Writes: le.Uint64(b[48:]),
	}, true
}
