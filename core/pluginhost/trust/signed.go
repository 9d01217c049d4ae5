package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aead.dev/minisign"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// SignatureSuffix ends the name of the file that holds the signature of a lock file.
const SignatureSuffix = ".minisig"

const (
	maxSignatureBytes = 4 << 10
	maxKeys           = 16
)

// Signature says who signed a lock file.
type Signature struct {
	// Key is the ID of the key as minisign shows it, 16 hexadecimal digits. It is empty if no signature
	// was demanded.
	Key string
	// Comment is the trusted comment, which the signature covers.
	Comment string
}

// CheckKey checks the form of one trusted key: a public key of minisign, or the absolute path of a file that
// holds one. It reads no file.
func CheckKey(key string) error {
	if filepath.IsAbs(key) {
		return nil
	}
	_, err := parseKey([]byte(key))
	return err
}

// parseKey parses a public key, alone or in a file with a comment.
func parseKey(text []byte) (minisign.PublicKey, error) {
	var k minisign.PublicKey
	if err := k.UnmarshalText(text); err != nil {
		return k, errors.New("is neither a public key of minisign (56 characters that begin with RW) nor the absolute path of a file with one")
	}
	return k, nil
}

// readKeys returns the public keys; those that are paths are read like the lock file.
func readKeys(keys []string, uid int) ([]minisign.PublicKey, error) {
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("there are %d trusted keys, at most %d are allowed", len(keys), maxKeys)
	}
	out := make([]minisign.PublicKey, len(keys))
	for i, key := range keys {
		text := []byte(key)
		var err error
		if filepath.IsAbs(key) {
			if text, err = readOwned(key, uid, maxSignatureBytes); err != nil {
				return nil, fmt.Errorf("the trusted key %s cannot be read: %w", key, err)
			}
		}
		if out[i], err = parseKey(text); err != nil {
			return nil, fmt.Errorf("the trusted key %s %w", key, err)
		}
	}
	return out, nil
}

// ReadSigned reads a lock file as ReadLock does, and verifies the bytes that it read against the keys, if there are
// any: see Rules.Keys. Without a good signature it fails with FileOpenFail.
func ReadSigned(path string, keys []string) (Lock, Signature, error) {
	text, err := readLock(path, os.Geteuid())
	if err != nil {
		return Lock{}, Signature{}, err
	}
	var by Signature
	if len(keys) > 0 {
		if by, err = verifyLock(path, text, keys, os.Geteuid()); err != nil {
			return Lock{}, Signature{}, err
		}
	}
	l, err := ParseLock(path, text)
	return l, by, err
}

// verifyLock checks the signature of a lock file's content against the keys. It fails with FileOpenFail.
func verifyLock(path string, content []byte, keys []string, uid int) (Signature, error) {
	fail := func(format string, args ...any) (Signature, error) {
		return Signature{}, errs.WithHint(errs.New(errs.FileOpenFail, path, format, args...), "sign the lock file with a trusted key: mooncake plugins sign --key FILE --plugin-lock %s", path)
	}
	trusted, err := readKeys(keys, uid)
	if err != nil {
		return Signature{}, errs.WithHint(errs.New(errs.FileOpenFail, path, "%w", err), "correct plugins.trusted_keys")
	}
	text, err := readOwned(path+SignatureSuffix, uid, maxSignatureBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail("plugins.trusted_keys demands a signature, and there is no %s", path+SignatureSuffix)
	case err != nil:
		return fail("its signature cannot be read: %w", err)
	}
	var s minisign.Signature
	if err := s.UnmarshalText(text); err != nil {
		return fail("%s is not a signature of minisign", path+SignatureSuffix)
	}
	by := keyID(s.KeyID)
	var ids []string
	for _, k := range trusted {
		if minisign.Verify(k, content, text) {
			return Signature{Key: by, Comment: s.TrustedComment}, nil
		}
		ids = append(ids, keyID(k.ID()))
	}
	if slices.Contains(ids, by) {
		return fail("the signature by key %s does not fit: the lock file or its signature was changed after signing", by)
	}
	return fail("it is signed by key %s, which is none of plugins.trusted_keys (%s)", by, strings.Join(ids, ", "))
}

func keyID(id uint64) string { return fmt.Sprintf("%016X", id) }
