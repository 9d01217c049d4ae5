package model

import "github.com/mooncake-go/mooncake/sdk/errs"

// Key names an object. Any bytes are allowed.
type Key = string

// MaxKeySize is the longest key in bytes. Real keys (model, hash, rank, layer) stay below
// one KiB; the bound keeps one caller from filling the master's memory with names.
const MaxKeySize = 64 << 10

// ValidateKey reports an empty or oversized key, code InvalidParams.
func ValidateKey(k Key) error {
	switch {
	case k == "":
		return errs.New(errs.InvalidParams, "key", "it is empty; a key has 1 to %d bytes", MaxKeySize)
	case len(k) > MaxKeySize:
		return errs.New(errs.InvalidParams, "key", "%q... has %d bytes; a key has 1 to %d bytes", k[:32], len(k), MaxKeySize)
	}
	return nil
}

// ValidateSought is ValidateKey for a key that is looked for: no object has an empty key, code
// ObjectNotFound.
func ValidateSought(k Key) error {
	if k == "" {
		return errs.New(errs.ObjectNotFound, "key", "it is empty; no object has such a key")
	}
	return ValidateKey(k)
}
