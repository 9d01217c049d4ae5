package quota

import (
	"strings"

	"github.com/mooncake-go/mooncake/core/model"
)

// Scope returns the string under which the table of objects keeps a key of a tenant: for
// the default tenant the key itself, without an allocation. Different pairs give different
// strings. The tenant's name is one that model.ValidateTenant accepts.
//
//	default  k       k
//	default  NUL…    NUL NUL NUL…
//	t        k       NUL t NUL k
func Scope(tenant model.Tenant, key model.Key) string {
	switch {
	case tenant != "" && tenant != model.DefaultTenant:
		return "\x00" + tenant + "\x00" + key
	case key != "" && key[0] == 0:
		return "\x00\x00" + key
	}
	return key
}

// Split is the inverse of Scope and allocates nothing. False means that Scope makes no
// such string.
func Split(scoped string) (tenant model.Tenant, key model.Key, ok bool) {
	if scoped == "" || scoped[0] != 0 {
		return model.DefaultTenant, scoped, true
	}
	tenant, key, ok = strings.Cut(scoped[1:], "\x00")
	switch {
	case !ok || tenant == model.DefaultTenant:
		return "", "", false
	case tenant != "":
		return tenant, key, true
	case key == "" || key[0] != 0:
		return "", "", false
	}
	return model.DefaultTenant, key, true
}

// Owner returns the tenant of a string that Scope made.
func Owner(scoped string) model.Tenant {
	tenant, _, _ := Split(scoped)
	return tenant
}
