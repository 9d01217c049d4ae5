package quota

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// File is a Source in a file.
func File(path string) Source { return file(path) }

type file string

// String implements fmt.Stringer.
func (f file) String() string { return string(f) }

// Close implements Source.
func (file) Close() {}

// Read implements Source.
func (f file) Read(context.Context) ([]byte, string, error) {
	op := "tenant quota policy: read " + string(f)
	r, err := os.Open(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", errs.WithHint(errs.Wrap(errs.FileNotFound, op, err),
			"tenant_quota_connector_uri names the file; the smallest one is \"version: 1\" and \"tenants: []\"")
	}
	if err != nil {
		return nil, "", errs.Wrap(errs.FileReadFail, op, err)
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return nil, "", errs.Wrap(errs.FileReadFail, op, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxPolicySize+1))
	return text, stamp(info), errs.Wrap(errs.FileReadFail, op, err)
}

// stamp tells one content of a file from another.
func stamp(info fs.FileInfo) string { return fmt.Sprint(info.ModTime().UnixNano(), info.Size()) }

// Write implements Source: a reader, and a machine that stops at any moment, sees the old text or the new one whole. A
// symbolic link stays one.
func (f file) Write(_ context.Context, text []byte, _ string) (string, error) {
	op := "tenant quota policy: write " + string(f)
	real, err := filepath.EvalSymlinks(string(f))
	if err != nil {
		real = string(f)
	}
	if err := replace(real, text); err != nil {
		return "", errs.WithHint(errs.Wrap(errs.FileWriteFail, op, err), "nothing has changed; the master must be able to write the folder of the policy file")
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", nil //nolint:nilerr // It is read again.
	}
	return stamp(info), nil
}

func replace(path string, data []byte) error {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename last.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
