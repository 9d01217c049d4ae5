package model

import "github.com/mooncake-go/mooncake/sdk/errs"

// Tenant is the name of a tenant. Empty is DefaultTenant.
type Tenant = string

// DefaultTenant owns what nobody claimed.
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
}
