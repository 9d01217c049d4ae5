package model

import "strings"

// ScopedKey returns the string under which the table of objects keeps a key of a tenant: for
// the default tenant the key itself, without an allocation. Different pairs give different
// strings. The tenant's name is one that ValidateTenant accepts.
//
//	default  k       k
//	default  NUL…    NUL NUL NUL…
//	t        k       NUL t NUL k
func ScopedKey(tenant Tenant, key Key) string {
	switch {
	case tenant != "" && tenant != DefaultTenant:
		return "\x00" + tenant + "\x00" + key
	case key != "" && key[0] == 0:
		return "\x00\x00" + key
	}
	return key
}

// SplitKey is the inverse of ScopedKey and allocates nothing. False means that ScopedKey makes no
// such string.
func SplitKey(scoped string) (tenant Tenant, key Key, ok bool) {
	if scoped == "" || scoped[0] != 0 {
		return DefaultTenant, scoped, true
	}
	tenant, key, ok = strings.Cut(scoped[1:], "\x00")
	switch {
	case !ok || tenant == DefaultTenant:
		return "", "", false
	case tenant != "":
		return tenant, key, true
	case key == "" || key[0] != 0:
		return "", "", false
	}
	return DefaultTenant, key, true
}
