// Package tokens verifies bearer tokens: JWTs that an OpenID Connect issuer signs, such as those of the service accounts of
// Kubernetes. A Verifier says which identity a token has, and how long.
package tokens

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/sdk/security"
)

// Settings say whose tokens a process takes.
type Settings struct {
	// Subjects gives identities to subjects, see Check.
	Subjects []string
	// Issuer and Audience are what a token must be from and for.
	Issuer, Audience string
	// Keys is where the keys of the issuer are: file:PATH, an https:// URL, or empty for what the OpenID configuration
	// of Issuer names.
	Keys string
	// CAFile has the authorities of the server of the keys, empty for those of the system. TokenFile has what is shown to
	// that server, empty for nothing.
	CAFile, TokenFile string
	// LookEvery is how often a file with keys is read again, default 10 s. FetchEvery is how often keys are fetched, default
	// 5 min.
	LookEvery, FetchEvery time.Duration
	// Log gets changes of the keys and trouble with them; nil for none.
	Log *slog.Logger
	// Clock is nil for time.Now.
	Clock func() time.Time
}

// MaxToken bounds a token, in bytes.
const MaxToken = 8 << 10

// WellFormed reports whether a text can be a token: one to MaxToken characters that a header of a request may have as such.
func WellFormed(token string) bool {
	return token != "" && len(token) <= MaxToken && !strings.ContainsFunc(token, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~+/=", r)
	})
}

// subject gives an identity to the subjects that match.
type subject struct {
	id      security.Identity // its name is empty for the subject
	pattern string
}

// parseSubjects reads entries ROLE[/[TENANT/]NAME]=SUBJECT. A SUBJECT that ends with * stands for all that begin so.
func parseSubjects(entries []string) ([]subject, error) {
	var out []subject
	for _, e := range entries {
		id, pattern, err := security.ParseMapping(e)
		prefix := strings.TrimSuffix(pattern, "*")
		switch {
		case err != nil:
			return nil, err
		case id.Role == security.RoleMaster:
			return nil, fmt.Errorf("%q: a token cannot make a master; an operator may ask all that a master may over HTTP", e)
		case prefix == "" || strings.Contains(prefix, "*"):
			return nil, fmt.Errorf("%q: * stands for the end of a subject only, and something must stand before it", e)
		}
		out = append(out, subject{id, pattern})
	}
	return out, nil
}

// matches reports whether the entry is about a subject.
func (s subject) matches(sub string) bool {
	prefix, open := strings.CutSuffix(s.pattern, "*")
	return sub == s.pattern || open && strings.HasPrefix(sub, prefix)
}

// CheckSubjects reports the first entry of Settings.Subjects that cannot be read.
func CheckSubjects(entries []string) error {
	_, err := parseSubjects(entries)
	return err
}

// CheckKeys reports why keys cannot be where Settings.Keys says, or where the OpenID configuration of the issuer says if
// that is empty.
func CheckKeys(keys, issuer string) error {
	_, _, err := placeOf(keys, issuer)
	return err
}

const discovery = "/.well-known/openid-configuration"

// placeOf returns the file or the URL of the keys. The URL is that of the OpenID configuration where keys is empty.
func placeOf(keys, issuer string) (file, address string, err error) {
	if path, ok := strings.CutPrefix(keys, "file:"); ok {
		if !filepath.IsAbs(path) {
			return "", "", errors.New("file: needs an absolute path")
		}
		return path, "", nil
	}
	address = keys
	if keys == "" {
		address = strings.TrimSuffix(issuer, "/") + discovery
	}
	if !overHTTPS(address) {
		if keys == "" {
			return "", "", errors.New("an issuer whose OpenID configuration names the keys must begin with https://HOST")
		}
		return "", "", errors.New("must be file:PATH or https://HOST/PATH")
	}
	return "", address, nil
}

func overHTTPS(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && u.Fragment == ""
}

// Enabled reports whether the settings take any token.
func (s Settings) Enabled() bool { return len(s.Subjects) > 0 }

// algorithms that a token may be signed with: all of them asymmetric, so that what verifies tokens cannot make them.
func algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}
