package sealkeys

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// newEntry makes a key.
func newEntry(now time.Time) Entry {
	var secret [SecretSize]byte
	var tail [4]byte
	_, _ = rand.Read(secret[:]) // It never fails.
	_, _ = rand.Read(tail[:])
	return Entry{
		ID: now.UTC().Format("2006-01-02") + "-" + hex.EncodeToString(tail[:]), Key: base64.StdEncoding.EncodeToString(secret[:]), Made: now.UTC().Truncate(time.Second),
	}
}

// New gives a tenant its first key, in a new file or in one that has no keys of the tenant.
func New(path, tenant string, now time.Time) (Entry, error) {
	f, err := Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = File{Tenants: map[string][]Entry{}}, nil
	}
	if err != nil {
		return Entry{}, err
	}
	if len(f.Tenants[tenant]) > 0 {
		return Entry{}, errs.WithHint(errs.New(errs.InvalidParams, path, "tenant %s has keys already", tenant), "'mooncake seal rotate' makes another one")
	}
	e := newEntry(now)
	e.Current = true
	f.Tenants[tenant] = []Entry{e}
	return e, f.write(path)
}

// Rotate gives a tenant another key, which is the current one at once, or with later only after Use.
func Rotate(path, tenant string, later bool, now time.Time) (Entry, error) {
	f, err := readTenant(path, tenant)
	if err != nil {
		return Entry{}, err
	}
	e := newEntry(now)
	f.Tenants[tenant] = append(f.Tenants[tenant], e)
	if later {
		return e, f.write(path)
	}
	f.use(tenant, e.ID)
	return e, f.write(path)
}

// Use makes a key the current one of its tenant.
func Use(path, tenant, id string) error {
	f, err := readTenant(path, tenant)
	if err == nil && !f.use(tenant, id) {
		err = noKey(path, tenant, id)
	}
	if err != nil {
		return err
	}
	return f.write(path)
}

// Drop removes a key. What it has sealed cannot be read any more.
func Drop(path, tenant, id string) error {
	f, err := readTenant(path, tenant)
	if err != nil {
		return err
	}
	all := f.Tenants[tenant]
	i := slices.IndexFunc(all, func(e Entry) bool { return e.ID == id })
	switch {
	case i < 0:
		return noKey(path, tenant, id)
	case all[i].Current:
		return errs.WithHint(errs.New(errs.InvalidParams, path, "the key %q of tenant %s is the current one", id, tenant), "make another one current first")
	}
	f.Tenants[tenant] = slices.Delete(all, i, i+1)
	return f.write(path)
}

func readTenant(path, tenant string) (File, error) {
	f, err := Read(path)
	if err == nil && len(f.Tenants[tenant]) == 0 {
		err = errs.WithHint(errs.New(errs.InvalidParams, path, "tenant %s has no keys", tenant), "'mooncake seal new' makes the first one")
	}
	return f, err
}

func noKey(path, tenant, id string) error {
	return errs.WithHint(errs.New(errs.InvalidParams, path, "tenant %s has no key %q", tenant, id), "'mooncake seal show' lists the keys")
}

// use marks a key, and reports whether there is one.
func (f *File) use(tenant, id string) bool {
	all := f.Tenants[tenant]
	if !slices.ContainsFunc(all, func(e Entry) bool { return e.ID == id }) {
		return false
	}
	for i := range all {
		all[i].Current = all[i].ID == id
	}
	return true
}

// write replaces a file, so that readers find the old content or the new one. It keeps the mode of a file that exists.
func (f *File) write(path string) (err error) {
	defer func() { err = errs.Wrap(errs.FileWriteFail, "write the keys of sealed objects", err) }()
	if _, err := f.keys(); err != nil {
		return err
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	t, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(t.Name()) }() // It is gone after the rename.
	if _, err = t.Write(append(b, '\n')); err == nil {
		err = t.Chmod(mode)
	}
	if err == nil {
		err = t.Sync()
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return err
	}
	return os.Rename(t.Name(), path)
}
