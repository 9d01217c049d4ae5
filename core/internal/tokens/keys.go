package tokens

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

const (
	// maxDocument bounds a JWKS and an OpenID configuration, in bytes.
	maxDocument = 1 << 20
	// maxKeys bounds the keys of an issuer.
	maxKeys = 64
	// minRSA is the least size of an RSA key, in bits.
	minRSA = 2048
)

// keySet is the keys of an issuer. It does not change.
type keySet struct {
	byID   map[string]jose.JSONWebKey
	digest [sha256.Size]byte
}

// parseKeys reads a JWKS. It skips keys that cannot verify tokens: secret ones, those for encryption, and those of kinds
// that are not known.
func parseKeys(text []byte) (*keySet, error) {
	var doc struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("it is not a JWKS: %w", err)
	}
	if len(doc.Keys) > maxKeys {
		return nil, fmt.Errorf("it has %d keys, at most %d are read", len(doc.Keys), maxKeys)
	}
	s := &keySet{byID: map[string]jose.JSONWebKey{}, digest: sha256.Sum256(text)}
	for _, raw := range doc.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) != nil || !verifies(k) {
			continue
		}
		if _, twice := s.byID[k.KeyID]; twice {
			return nil, fmt.Errorf("it has two keys with the kid %.100q", k.KeyID)
		}
		s.byID[k.KeyID] = k
	}
	if len(s.byID) == 0 {
		return nil, errors.New("it has no public key for signatures")
	}
	return s, nil
}

// verifies reports whether a key is one that tokens are verified with.
func verifies(k jose.JSONWebKey) bool {
	if !k.IsPublic() || !k.Valid() || k.Use != "" && k.Use != "sig" {
		return false
	}
	if r, ok := k.Key.(*rsa.PublicKey); ok {
		return r.N.BitLen() >= minRSA
	}
	return true
}

// find returns the key that a token names. A token that names none means the only key that there is.
func (s *keySet) find(kid string) (jose.JSONWebKey, bool) {
	if s == nil {
		return jose.JSONWebKey{}, false
	}
	if kid == "" && len(s.byID) == 1 {
		for _, k := range s.byID {
			return k, true
		}
	}
	k, ok := s.byID[kid]
	return k, ok
}
