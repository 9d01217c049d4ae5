package quota

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// stamp tells one content of a file from another without reading it.
type stamp struct {
	modified time.Time
	size     int64
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size()}
}

// load reads a policy. FileNotFound, FileReadFail, InvalidParams.
func load(path string) (Policy, error) {
	op := "tenant quota policy: read " + path
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Policy{}, errs.WithHint(errs.Wrap(errs.FileNotFound, op, err),
			"tenant_quota_connector_uri names the file; the smallest one is \"version: 1\" and \"tenants: []\"")
	}
	if err != nil {
		return Policy{}, errs.Wrap(errs.FileReadFail, op, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxPolicySize+1))
	if err != nil {
		return Policy{}, errs.Wrap(errs.FileReadFail, op, err)
	}
	p, err := ParsePolicy(data)
	return p, errs.Wrap(errs.InvalidParams, path, err)
}

// save replaces the file so that a reader, and a machine that stops at any moment, sees
// the old policy or the new one whole. A symbolic link stays one. FileWriteFail.
func save(path string, p Policy) error {
	op := "tenant quota policy: write " + path
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	if err := replace(real, p.Encode()); err != nil {
		return errs.WithHint(errs.Wrap(errs.FileWriteFail, op, err), "nothing has changed; the master must be able to write the folder of the policy file")
	}
	return nil
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
