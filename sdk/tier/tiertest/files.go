package tiertest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
)

// FilesBelow is the storage of a tier that keeps values as they are in files below a folder: Damage flips a bit in the file that
// has a value. It reports false for a tier that compresses or encrypts.
func FilesBelow(folder string) Storage {
	return Storage{Damage: func(value []byte) bool {
		damaged := false
		_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && !damaged {
				damaged = damage(path, value)
			}
			return nil
		})
		return damaged
	}}
}

// damage flips a bit in the middle of a value in a file. A value lies in one piece, or at least the 256 bytes around its middle do.
func damage(path string, value []byte) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	const span = 256
	middle := value[len(value)/2-span/2:][:span]
	buf, at := make([]byte, 1<<20+span), int64(0)
	for {
		n, err := f.ReadAt(buf, at)
		if i := bytes.Index(buf[:n], middle); i >= 0 {
			_, err := f.WriteAt([]byte{middle[span/2] ^ 1}, at+int64(i)+span/2)
			return err == nil && f.Sync() == nil
		}
		if err != nil {
			return false
		}
		at += 1 << 20
	}
}
