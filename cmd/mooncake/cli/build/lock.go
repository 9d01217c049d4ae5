package build

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
)

// lock holds what a program was built of. Its go.mod and go.sum are those of the module that links
// the plugins in: the go command refuses a module whose checksum differs from that of go.sum.
type lock struct {
	Format  int      `yaml:"mooncake_build_lock"`
	Go      string   `yaml:"go"`
	Core    string   `yaml:"core"`
	With    []string `yaml:"with"`
	Without []string `yaml:"without,omitempty"`
	GoMod   string   `yaml:"go_mod"`
	GoSum   string   `yaml:"go_sum"`
}

const (
	lockFormat = 1
	// maxLock bounds a lock file, in bytes.
	maxLock    = 8 << 20
	lockHeader = "# Written by mooncake build, which builds the same program again from this file. --update writes a new one.\n"
)

// readLock returns nil if there is no lock file.
func readLock(file string) (*lock, error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxLock) {
		err = fmt.Errorf("it is not a regular file of at most %d MiB", maxLock>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("the lock file %s: %w", file, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the lock file %s: %w", file, err)
	}
	l, err := parseLock(text)
	if err != nil {
		return nil, fmt.Errorf("the lock file %s: %w; remove it or give --update to write a new one", file, err)
	}
	return l, nil
}

func parseLock(text []byte) (*lock, error) {
	l := new(lock)
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(l); err != nil {
		return nil, fmt.Errorf("it is not a lock file of mooncake build: %w", err)
	}
	switch {
	case l.Format != lockFormat:
		return nil, fmt.Errorf("its format is %d; this program reads format %d", l.Format, lockFormat)
	case l.Go == "" || l.Core == "" || l.GoMod == "":
		return nil, errors.New("it is not complete")
	}
	return l, nil
}

// allows returns an error if the lock is of another request or of another release of Go.
func (l *lock) allows(r request, file, version string) error {
	with, without := r.texts()
	differs := func(what string, had, is any) error {
		return fmt.Errorf("the lock file %s was written for %s %v, and this build is of %v; give --update to write a new lock file", file, what, had, is)
	}
	switch {
	case l.Core != r.core.String():
		return differs("the core", l.Core, r.core)
	case !slices.Equal(l.With, with):
		return differs("the plugins", l.With, with)
	case !slices.Equal(l.Without, without):
		return differs("a program without", l.Without, without)
	case l.Go != version:
		return fmt.Errorf("the lock file %s was written with %s, and the go command is %s, which builds other bytes; set GOTOOLCHAIN=%s, or give --update to write a new lock file", file, l.Go, version, l.Go)
	}
	return nil
}

func (l *lock) write(file string) error {
	text, err := yaml.Marshal(l)
	if err != nil {
		return err
	}
	return replaceFile(file, append([]byte(lockHeader), text...))
}

// replaceFile writes a file in one step.
func replaceFile(file string, text []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".mooncake-build-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(text)
	if err := errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
