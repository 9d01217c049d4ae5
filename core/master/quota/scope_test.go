package quota

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
)

func TestScope(t *testing.T) {
	for _, c := range []struct{ tenant, key, scoped string }{
		{"default", "k", "k"},
		{"default", "\x00t\x00k", "\x00\x00\x00t\x00k"},
		{"t", "k", "\x00t\x00k"},
		{"t", "\x00", "\x00t\x00\x00"},
	} {
		require.Equal(t, c.scoped, model.ScopedKey(c.tenant, c.key))
		tenant, key, ok := model.SplitKey(c.scoped)
		require.True(t, ok)
		require.Equal(t, []string{c.tenant, c.key}, []string{tenant, key})
		require.Equal(t, c.tenant, Owner(c.scoped))
	}
	require.Equal(t, "k", model.ScopedKey("", "k"), "the default tenant needs no name")
	for _, bad := range []string{"\x00", "\x00t", "\x00\x00k", "\x00\x00", "\x00default\x00k"} {
		_, _, ok := model.SplitKey(bad)
		require.False(t, ok, "%q", bad)
	}
}

func TestTheCommonCaseAllocatesNothing(t *testing.T) {
	scoped := model.ScopedKey("t", "some key")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if model.ScopedKey(model.DefaultTenant, "some key") != "some key" || Owner(scoped) != "t" {
			t.Fail()
		}
	}))
}

// Every pair survives the way there and back, and every string that Split accepts is one
// that Scope makes: together they are a bijection.
func FuzzScope(f *testing.F) {
	f.Add("default", "k")
	f.Add("", "\x00")
	f.Add("t", "\x00t\x00k")
	f.Add("\x00t\x00k", "")
	f.Fuzz(func(t *testing.T, tenant, key string) {
		for _, s := range []string{tenant, key, "\x00" + key, "\x00" + tenant + "\x00" + key} {
			if owner, what, ok := model.SplitKey(s); ok {
				require.Equal(t, s, model.ScopedKey(owner, what))
			}
		}
		if model.ValidateTenant(tenant) != nil {
			return
		}
		owner, what, ok := model.SplitKey(model.ScopedKey(tenant, key))
		require.True(t, ok)
		if tenant == "" {
			tenant = model.DefaultTenant
		}
		require.Equal(t, []string{tenant, key}, []string{owner, what})
	})
}
