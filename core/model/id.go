package model

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// UUID is a 128-bit identifier. Its text form, here and upstream, is the two halves in
// decimal with a dash between them.
type UUID struct{ Hi, Lo uint64 }

// ClientID names one running client or store node. A restarted process has a new one, except for a
// store whose memory outlived its process.
type ClientID = UUID

// SegmentID names one mounted piece of memory.
type SegmentID = UUID

// NewUUID returns a random identifier.
func NewUUID() UUID {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // crypto/rand.Read never fails since Go 1.24.
	return UUID{Hi: binary.LittleEndian.Uint64(b[:8]), Lo: binary.LittleEndian.Uint64(b[8:])}
}

// IsZero reports whether the identifier is unset.
func (u UUID) IsZero() bool { return u == UUID{} }

// String returns "<hi>-<lo>" in decimal.
func (u UUID) String() string { return fmt.Sprintf("%d-%d", u.Hi, u.Lo) }

// ParseUUID parses the text form.
func ParseUUID(s string) (UUID, error) {
	hi, lo, ok := strings.Cut(s, "-")
	if !ok {
		return UUID{}, fmt.Errorf("identifier %q must be two decimal numbers with a dash between them", s)
	}
	h, err := strconv.ParseUint(hi, 10, 64)
	if err != nil {
		return UUID{}, fmt.Errorf("identifier %q: %w", s, err)
	}
	l, err := strconv.ParseUint(lo, 10, 64)
	if err != nil {
		return UUID{}, fmt.Errorf("identifier %q: %w", s, err)
	}
	return UUID{Hi: h, Lo: l}, nil
}

// Tenant is the name of a tenant. Empty is DefaultTenant.
type Tenant = string

// DefaultTenant owns every object that names no tenant.
const DefaultTenant Tenant = "default"

// AllTenants selects every tenant where a call allows it. No tenant can have that name.
const AllTenants Tenant = "_all"

// MaxTenantSize is the most bytes a tenant's name may have.
const MaxTenantSize = 256

// ValidateTenant reports why a name cannot be a tenant's: it begins with an underscore, or
// holds a control character. The empty name is valid.
func ValidateTenant(t Tenant) error {
	const op = "tenant"
	switch {
	case len(t) > MaxTenantSize:
		return errs.New(errs.InvalidParams, op, "the name has %d bytes; the most is %d", len(t), MaxTenantSize)
	case t != "" && t[0] == '_':
		return errs.New(errs.InvalidParams, op, "%q begins with an underscore; such names are reserved", t)
	}
	for i := range len(t) {
		if t[i] < 0x20 || t[i] == 0x7f {
			return errs.New(errs.InvalidParams, op, "%q holds a control character", t)
		}
	}
	return nil
}

// Caller is who asks the master for something.
type Caller struct {
	Client ClientID
	// Tenant is whose keys are meant. Ignored while the master serves one tenant only.
	Tenant Tenant
	// Upstream is set for a client of upstream: it reads and writes only copies that are Plain, and never says that
	// it has stopped writing.
	Upstream bool
}

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

// TenantQuota is what a tenant may use and uses.
type TenantQuota struct {
	Tenant Tenant
	// Requested is what the policy says, Effective what the capacity allows of it, Charged
	// what the tenant's objects occupy, all in bytes.
	Requested, Effective, Charged uint64
	// AdmissionClosed is true when the tenant has objects and may write no more: it was
	// taken out of the policy.
	AdmissionClosed bool
	// OverQuota is true when Charged exceeds Effective.
	OverQuota bool
	// ExplicitPolicy is false for a tenant that is known only by its objects.
	ExplicitPolicy bool
}
