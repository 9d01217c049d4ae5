package trust

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aead.dev/minisign"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Key is a private key of minisign.
type Key struct{ private minisign.PrivateKey }

// ID returns the ID of the key as minisign shows it.
func (k Key) ID() string { return keyID(k.private.ID()) }

// Public returns the public key, as plugins.trusted_keys has it.
func (k Key) Public() string {
	return k.private.Public().(minisign.PublicKey).String() //nolint:forcetypeassert // As its documentation says.
}

// NewKey makes a key.
func NewKey() (Key, error) {
	_, private, err := minisign.GenerateKey(nil)
	return Key{private}, errs.Wrap(errs.Internal, "make a key", err)
}

// ParseKey parses the file of a private key. It fails with InvalidParams if the text is no such file, or if
// the password does not decrypt it.
func ParseKey(text []byte, password string) (Key, error) {
	fail := func(format string, args ...any) (Key, error) {
		return Key{}, errs.New(errs.InvalidParams, "private key", format, args...)
	}
	if !minisign.IsEncrypted(text) {
		var k minisign.PrivateKey
		if err := k.UnmarshalText(text); err != nil {
			return fail("it is not a private key of minisign: %w", err)
		}
		return Key{k}, nil
	}
	if password == "" {
		return fail("it is encrypted, and no password is given; give --password-file")
	}
	k, err := minisign.DecryptKey(password, text)
	if err != nil {
		return fail("the password does not decrypt it: %w", err)
	}
	return Key{k}, nil
}

// Files returns what the files of the key contain: the private key, encrypted unless the password is empty, and the
// public key.
func (k Key) Files(password string) (private, public []byte, err error) {
	if password == "" {
		private, err = k.private.MarshalText()
	} else {
		private, err = minisign.EncryptKey(password, k.private)
	}
	if err == nil {
		public, err = k.private.Public().(minisign.PublicKey).MarshalText() //nolint:forcetypeassert // As its documentation says.
	}
	return line(private), line(public), errs.Wrap(errs.Internal, "write a key", err)
}

// line ends a text with a newline.
func line(text []byte) []byte { return append(bytes.TrimRight(text, "\n"), '\n') }

// SignLock signs the lock file at an absolute path as it is now, and replaces its signature atomically. comment
// becomes part of the signature, before the time; it must be one line. It fails with InvalidParams for a lock file that is malformed.
func SignLock(ctx context.Context, path string, k Key, comment string) (Signature, error) {
	if strings.ContainsAny(comment, "\r\n") {
		return Signature{}, errs.New(errs.InvalidParams, "sign "+path, "the comment must be one line")
	}
	text, err := readLock(path, os.Geteuid())
	if err != nil {
		return Signature{}, err
	}
	if _, err := ParseLock(path, text); err != nil {
		return Signature{}, err
	}
	comment = strings.TrimPrefix(fmt.Sprintf("%s\ttimestamp:%d\tfile:%s\thashed", comment, time.Now().Unix(), filepath.Base(path)), "\t")
	signed := minisign.SignWithComments(k.private, text, comment, "signature of the plugins that may run, by mooncake plugins sign")
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return Signature{}, errs.Wrap(errs.FileOpenFail, "sign "+path, err)
	}
	defer dir.Close() // which also releases the lock of the folder
	if err := Reserve(ctx, dir); err != nil {
		return Signature{}, errs.New(errs.UnavailableInCurrentStatus, "sign "+path, "another program is writing in its folder and does not finish: %w", err)
	}
	if err := Replace(dir, path+SignatureSuffix, bytes.NewReader(line(signed)), 0o644); err != nil {
		return Signature{}, errs.New(errs.FileOpenFail, path+SignatureSuffix, "cannot write it: %w", err)
	}
	return Signature{Key: k.ID(), Comment: comment}, nil
}
