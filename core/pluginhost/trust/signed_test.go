package trust

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Made by minisign 0.11 on the lock file below, to prove that its signatures are accepted.
const (
	minisignPublic    = "RWSb5yFZxF7i+ItSQqkFEtl6Q00yZged6HSEpNoSTsvFty7j4eeUOkLQ"
	minisignSignature = `untrusted comment: made by minisign 0.11
RUSb5yFZxF7i+J2Qoya8AcdzmNUhJkHbiR8QN5AEoROzAnN/ZO63eXzRMWBxm/OdvKJWmqwi5Gd1AsmJNY7FV7ePjwy/kSRVUgg=
trusted comment: for the tests
AipW56i+84qiWPkXf2IDpf9gujO6tqjlwGRn0RTtAdk3TfNiqYHGehqI8LBijzI060l+9aUhPQtbbO4XzWpcAg==
`
	minisignLock = "version: 1\nplugins: {}\n"
)

// signed is a lock file with one plugin and a key that signed it.
type signed struct {
	path string
	key  Key
}

func newSigned(t *testing.T) signed {
	t.Helper()
	s := signed{path: filepath.Join(testplugin.Folder(t), "plugins.lock.yaml")}
	require.NoError(t, UpdateLock(t.Context(), s.path, func(l *Lock) error { return l.Set(evictID("a"), HostPlatform(), Locked{"1", sumA}) }))
	var err error
	s.key, err = NewKey()
	require.NoError(t, err)
	_, err = SignLock(t.Context(), s.path, s.key, "")
	require.NoError(t, err)
	return s
}

func (s signed) judge(keys ...string) Judge {
	return ReadJudge(Rules{Lock: s.path, Keys: keys})
}

func (s signed) refused(t *testing.T, want string, keys ...string) {
	t.Helper()
	_, err := s.judge(keys...).Of(evictID("a"), "1", sumA)
	require.ErrorContains(t, err, want)
}

func TestASignedLockFile(t *testing.T) {
	s := newSigned(t)
	other, err := NewKey()
	require.NoError(t, err)
	j := s.judge(other.Public(), s.key.Public())
	v, err := j.Of(evictID("a"), "1", sumA)
	require.NoError(t, err)
	assert.Equal(t, IsLocked, v)
	assert.Equal(t, s.key.ID(), j.Signed().Key)
	assert.Contains(t, j.Signed().Comment, "file:plugins.lock.yaml")
	assert.Empty(t, ReadJudge(Rules{Lock: s.path}).Signed(), "no signature is demanded")

	file := filepath.Join(filepath.Dir(s.path), "set.pub")
	_, public, err := s.key.Files("")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, public, 0o644))
	_, err = s.judge(file).Of(evictID("a"), "1", sumA)
	require.NoError(t, err, "a key in a file")
	require.NoError(t, os.Chmod(file, 0o666))
	s.refused(t, "can be changed by others", file)
	s.refused(t, "cannot be read", file+".none")

	s.refused(t, "it is signed by key "+s.key.ID()+", which is none of plugins.trusted_keys ("+other.ID()+")", other.Public())
}

// TestALockFileThatWasChangedAfterSigning: one changed byte, of the lock file, of the signature or of its comment, and
// no program runs. The error names the remedy.
func TestALockFileThatWasChangedAfterSigning(t *testing.T) {
	for _, c := range []struct {
		what, suffix, want string
		change             func([]byte) []byte
	}{
		{"another entry", "", "was changed after signing", func(b []byte) []byte {
			return append(b, "  evict/b:\n    any: {version: \"1\", sha256: \""+sumB+"\"}\n"...)
		}},
		{"a comment", "", "was changed after signing", func(b []byte) []byte { return append(b, "# more\n"...) }},
		{"the trusted comment", SignatureSuffix, "was changed after signing", func(b []byte) []byte {
			return []byte(string(b[:len(b)-90-10]) + "x" + string(b[len(b)-90-9:]))
		}},
		{"garbage", SignatureSuffix, "is not a signature of minisign", func([]byte) []byte { return []byte("yes\n") }},
		{"empty", SignatureSuffix, "is not a signature of minisign", func([]byte) []byte { return nil }},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newSigned(t)
			text, err := os.ReadFile(s.path + c.suffix)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(s.path+c.suffix, c.change(text), 0o644))
			s.refused(t, c.want, s.key.Public())
			s.refused(t, "mooncake plugins sign --key FILE --plugin-lock "+s.path, s.key.Public())
		})
	}
	s := newSigned(t)
	require.NoError(t, os.Chmod(s.path+SignatureSuffix, 0o666))
	s.refused(t, "can be changed by others", s.key.Public())
	require.NoError(t, os.Remove(s.path+SignatureSuffix))
	s.refused(t, "there is no "+s.path+SignatureSuffix, s.key.Public())
	_, err := SignLock(t.Context(), s.path, s.key, "two\nlines")
	require.ErrorIs(t, err, errs.InvalidParams.Err())
}

// TestASecuredProcessNeedsALock: without a lock file nothing runs, and the error says how to make one.
func TestASecuredProcessNeedsALock(t *testing.T) {
	_, err := ReadJudge(Rules{Secured: true}).Of(evictID("a"), "1", sumA)
	for _, part := range []string{"security.mode is not off", "mooncake plugins lock evict/a --plugin-lock", "plugins.lock", "plugins.trust: off"} {
		require.ErrorContains(t, err, part)
	}
	_, err = ReadJudge(Rules{Secured: true, Mode: ModeOff}).Of(evictID("a"), "1", sumA)
	require.NoError(t, err)
}

func TestKeysInFiles(t *testing.T) {
	k, err := NewKey()
	require.NoError(t, err)
	private, public, err := k.Files("")
	require.NoError(t, err)
	assert.Contains(t, string(public), k.Public())
	assert.NoError(t, CheckKey(k.Public()))
	back, err := ParseKey(private, "an unencrypted key needs no password")
	require.NoError(t, err)
	assert.Equal(t, k.Public(), back.Public())
	private, _, err = k.Files("secret")
	require.NoError(t, err)
	_, err = ParseKey(private, "wrong")
	require.ErrorIs(t, err, errs.InvalidParams.Err())
	_, err = ParseKey(private, "")
	require.ErrorContains(t, err, "--password-file")
	_, err = ParseKey([]byte("nothing"), "")
	require.ErrorIs(t, err, errs.InvalidParams.Err())
	require.Error(t, CheckKey("keys/set.pub"))
}

// TestSignaturesOfMinisign: a signature by the tool minisign is accepted here, and the tool accepts ours.
func TestSignaturesOfMinisign(t *testing.T) {
	path := filepath.Join(testplugin.Folder(t), "plugins.lock.yaml")
	require.NoError(t, os.WriteFile(path, []byte(minisignLock), 0o644))
	require.NoError(t, os.WriteFile(path+SignatureSuffix, []byte(minisignSignature), 0o644))
	by, err := verifyLock(path, []byte(minisignLock), []string{minisignPublic}, os.Geteuid())
	require.NoError(t, err)
	assert.Equal(t, Signature{Key: "F8E25EC45921E79B", Comment: "for the tests"}, by)

	tool, err := exec.LookPath("minisign")
	if err != nil {
		t.Skip("the tool minisign is not installed")
	}
	s := newSigned(t)
	out, err := exec.CommandContext(t.Context(), tool, "-V", "-P", s.key.Public(), "-m", s.path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.WriteFile(s.path, []byte(minisignLock), 0o644))
	require.Error(t, exec.CommandContext(t.Context(), tool, "-V", "-P", s.key.Public(), "-m", s.path).Run())
}

func FuzzSignature(f *testing.F) {
	f.Add([]byte(minisignSignature), []byte(minisignLock), minisignPublic)
	f.Add([]byte(minisignSignature), []byte("version: 1\nplugins: {} \n"), minisignPublic)
	f.Add([]byte("untrusted comment: \n\ntrusted comment: \n"), []byte{}, "RW")
	path := filepath.Join(f.TempDir(), "lock")
	require.NoError(f, os.Chmod(filepath.Dir(path), 0o755)) //nolint:gosec // as folders of lock files are
	f.Fuzz(func(t *testing.T, signature, content []byte, key string) {
		if err := os.WriteFile(path+SignatureSuffix, signature, 0o644); err != nil {
			t.Skip()
		}
		if CheckKey(key) != nil || filepath.IsAbs(key) {
			return
		}
		by, err := verifyLock(path, content, []string{key}, os.Geteuid())
		if err == nil && (string(content) != minisignLock || by.Key == "") {
			t.Fatalf("%q is accepted for %q", signature, content)
		}
	})
}
