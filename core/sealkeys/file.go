package sealkeys

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// lookEvery is how old what was read of a file may be, and lookAgain the same where a key is missing.
	lookEvery, lookAgain = 10 * time.Second, time.Second
	// maxFile bounds the size of a file in bytes, and maxID that of an ID.
	maxFile, maxID = 1 << 20, 104
)

// File is the content of a file of keys.
type File struct {
	// Tenants has the keys of each tenant, the oldest first.
	Tenants map[string][]Entry `json:"tenants"`
}

// Entry is a key in a file.
type Entry struct {
	ID string `json:"id"`
	// Key is the key, 32 bytes in base64.
	Key string `json:"key"`
	// Made is when it was made.
	Made time.Time `json:"made"`
	// Current: new objects are sealed with it. That is one of the keys of a tenant.
	Current bool `json:"current,omitempty"`
}

// file implements Keys.
type file struct {
	path string
	warn func(string, error)
	now  func() time.Time

	mu     sync.Mutex
	looked time.Time
	digest [sha256.Size]byte
	keys   map[string]tenantKeys
	said   string
}

// tenantKeys are the keys of one tenant.
type tenantKeys struct {
	current Key
	byID    map[string]Key
}

func openFile(path string, o Options) (Keys, error) {
	if path == "" {
		return nil, badPlace("file:", "it has no path")
	}
	f := &file{path: path, warn: o.Warn, now: time.Now}
	b, err := readFile(path)
	if err == nil {
		err = f.take(b)
	}
	if err != nil {
		return nil, err
	}
	f.looked = f.now()
	return f, nil
}

func (f *file) Close() {}

func (f *file) Current(_ context.Context, tenant string) (Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look(lookEvery)
	if t, ok := f.keys[tenant]; ok {
		return t.current, nil
	}
	if f.look(lookAgain); f.keys[tenant].byID != nil {
		return f.keys[tenant].current, nil
	}
	return Key{}, errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, f.path, "tenant %s has no keys", tenant),
		"make one with 'mooncake seal new %s --tenant %s'", f.path, tenant)
}

func (f *file) Find(_ context.Context, tenant, id string) (Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look(lookEvery)
	if k, ok := f.keys[tenant].byID[id]; ok {
		return k, nil
	}
	f.look(lookAgain)
	if k, ok := f.keys[tenant].byID[id]; ok {
		return k, nil
	}
	return Key{}, ErrUnknown
}

// look reads the file again if what was read is older than age. A file that cannot be used leaves everything as it was.
// The caller holds mu.
func (f *file) look(age time.Duration) {
	now := f.now()
	if now.Sub(f.looked) < age {
		return
	}
	f.looked = now
	b, err := readFile(f.path)
	if err == nil && sha256.Sum256(b) != f.digest {
		err = f.take(b)
	}
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != f.said && err != nil {
		f.warn("the keys of sealed objects cannot be read again; those that were read before stay in use", err)
	}
	f.said = said
}

// take takes up the content of a file.
func (f *file) take(b []byte) error {
	keys, err := decode(b)
	if err != nil {
		return errs.Wrap(errs.InvalidParams, f.path, err)
	}
	f.keys, f.digest = keys, sha256.Sum256(b)
	return nil
}

// readFile reads a file of keys, which others than its owner and group may not read.
func readFile(path string) ([]byte, error) {
	const op = "read the keys of sealed objects"
	h, err := os.Open(path)
	if err != nil {
		return nil, errs.Wrap(errs.FileOpenFail, op, err)
	}
	defer func() { _ = h.Close() }()
	info, err := h.Stat()
	switch {
	case err != nil:
		return nil, errs.Wrap(errs.FileReadFail, op, err)
	case !info.Mode().IsRegular():
		return nil, errs.New(errs.InvalidParams, op, "%s is not a file", path)
	case info.Mode().Perm()&0o027 != 0:
		return nil, errs.WithHint(errs.New(errs.InvalidParams, op, "%s has the mode %#o: others may read it, or the group may change it", path, info.Mode().Perm()),
			"chmod 600 %s; replace the keys if others have read it", path)
	}
	b, err := io.ReadAll(io.LimitReader(h, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return b, errs.Wrap(errs.FileReadFail, op, err)
}

// Read reads a file of keys.
func Read(path string) (File, error) {
	b, err := readFile(path)
	if err != nil {
		return File{}, err
	}
	f, err := parse(b)
	if err == nil {
		_, err = f.keys()
	}
	return f, errs.Wrap(errs.InvalidParams, path, err)
}

func decode(b []byte) (map[string]tenantKeys, error) {
	f, err := parse(b)
	if err != nil {
		return nil, err
	}
	return f.keys()
}

func parse(b []byte) (f File, err error) {
	return f, json.Unmarshal(b, &f)
}

// keys returns the keys of all tenants, or what is wrong with them.
func (f *File) keys() (map[string]tenantKeys, error) {
	if len(f.Tenants) == 0 {
		return nil, errors.New("it has no tenants")
	}
	out := map[string]tenantKeys{}
	for tenant, entries := range f.Tenants {
		t := tenantKeys{byID: map[string]Key{}}
		n := 0
		for _, e := range entries {
			k, err := e.decode()
			if _, twice := t.byID[e.ID]; err == nil && twice {
				err = errors.New("it is there twice")
			}
			if err != nil {
				return nil, fmt.Errorf("tenant %q, key %q: %w", tenant, e.ID, err)
			}
			t.byID[e.ID] = k
			if e.Current {
				t.current = k
				n++
			}
		}
		if n != 1 {
			return nil, fmt.Errorf("tenant %q: %d of its %d keys are marked current, must be one", tenant, n, len(entries))
		}
		out[tenant] = t
	}
	return out, nil
}

func (e *Entry) decode() (Key, error) {
	k := Key{ID: e.ID}
	if len(e.ID) == 0 || len(e.ID) > maxID {
		return Key{}, fmt.Errorf("an ID has 1 to %d bytes", maxID)
	}
	b, err := base64.StdEncoding.DecodeString(e.Key)
	switch {
	case err != nil:
		return Key{}, errors.New("the key is not base64")
	case len(b) != SecretSize:
		return Key{}, fmt.Errorf("the key has %d bytes, must be %d", len(b), SecretSize)
	case !slices.ContainsFunc(b, func(c byte) bool { return c != b[0] }):
		return Key{}, errors.New("all bytes of the key are the same")
	}
	copy(k.Secret[:], b)
	return k, nil
}
