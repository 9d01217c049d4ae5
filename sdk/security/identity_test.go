package security

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIdentitiesAreReadBack(t *testing.T) {
	for _, r := range Roles() {
		want := Identity{Trust: "pool-1.example.org", Role: r, Name: "Node_7.rack-2"}
		got, err := ParseIdentity(want.URI())
		require.NoError(t, err)
		assert.Equal(t, want, got)
		if want.Tenant = "Team-1"; r != RoleMaster {
			got, err = ParseIdentity(want.URI())
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
	}
	id, err := ParseIdentity("spiffe://t/mooncake/client/team/a")
	require.NoError(t, err)
	assert.Equal(t, "client/team/a", id.String())
}

func TestWhatIsNoIdentityIsRefused(t *testing.T) {
	for _, uri := range []string{
		"", "spiffe://", "spiffe://t", "spiffe://t/", "spiffe://t/mooncake", "spiffe://t/mooncake/", "spiffe://t/mooncake/store",
		"spiffe://t/mooncake/store/", "spiffe:///mooncake/store/a", "SPIFFE://t/mooncake/store/a", "https://t/mooncake/store/a",
		"spiffe://T/mooncake/store/a", "spiffe://t:80/mooncake/store/a", "spiffe://u@t/mooncake/store/a", "spiffe://[::1]/mooncake/store/a",
		"spiffe://t/Mooncake/store/a", "spiffe://t/mooncake/Store/a", "spiffe://t/mooncake/root/a", "spiffe://t/mooncake/store/a/",
		"spiffe://t/mooncake/store/a/b/c", "spiffe://t/mooncake/store//b", "spiffe://t/mooncake/client/_a/b", "spiffe://t/mooncake/client/../b", "spiffe://t/mooncake/master/a/b",
		"spiffe://t//mooncake/store/a", "spiffe://t/mooncake//a", "spiffe://t/mooncake/store/%61",
		"spiffe://t/mooncake/store/..", "spiffe://t/mooncake/store/.", "spiffe://t/mooncake/store/a?b", "spiffe://t/mooncake/store/a#b",
		"spiffe://t/mooncake/store/ä", "spiffe://t/mooncake/store/a b", "spiffe://t/mooncake/store/a\x00", " spiffe://t/mooncake/store/a",
		"spiffe://" + strings.Repeat("t", 256) + "/mooncake/store/a", "spiffe://t/mooncake/store/" + strings.Repeat("a", 256),
		"spiffe://t/x/mooncake/store/a",
	} {
		id, err := ParseIdentity(uri)
		assert.Error(t, err, uri)
		assert.Zero(t, id, uri)
	}
}

func FuzzParseIdentity(f *testing.F) {
	f.Add("spiffe://t/mooncake/store/a")
	f.Add("spiffe://t/mooncake/store/%61")
	f.Fuzz(func(t *testing.T, uri string) {
		id, err := ParseIdentity(uri)
		switch {
		case err == nil && id.URI() != uri:
			t.Fatalf("%q was read as %q", uri, id.URI())
		case err != nil && id != Identity{}:
			t.Fatalf("%q: an identity beside the error: %v", uri, id)
		case err != nil && len(err.Error()) > 2000:
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
	})
}

func TestEntriesOfAllowAreChecked(t *testing.T) {
	require.NoError(t, CheckAllow([]string{
		"client=*.workers.example.org", "store/a=dns:a.example.org", "operator=subject:CN=alice,O=acme", "client=uri:spiffe://k8s/ns/llm/sa/*", "client/team/a=a.example.org",
	}))
	for _, e := range []string{"", "client", "client=", "root=a", "client/a/b/d=c", "client/=a", "client/a/=c", "client//a=c", "client/_a/b=c", "master/a/b=c", "client=*.a.*.b", "client=*", "client=*.", "client=dns:", "=a"} {
		require.Error(t, CheckAllow([]string{"client=good.example.org", e}), e)
	}
}

func FuzzAllow(f *testing.F) {
	f.Add("client=*.workers.example.org")
	f.Add("store/a=uri:spiffe://x/*")
	f.Fuzz(func(t *testing.T, entry string) {
		m, err := parseAllow([]string{entry})
		if err == nil && (len(m) != 1 || m[0].value == "" || m[0].id.Role == "") {
			t.Fatalf("%q became %+v", entry, m)
		}
	})
}
