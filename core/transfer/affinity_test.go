package transfer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestParseAffinity(t *testing.T) {
	for text, want := range map[string]map[string][]string{
		"":                           nil,
		" ; ":                        nil,
		"m0=m0":                      {"m0": {"m0"}},
		"m0=m0,m1; m1 = m1 ;":        {"m0": {"m0", "m1"}, "m1": {"m1"}},
		"m0=x;m0=y":                  {"m0": {"x", "y"}},
		"m0=a=b":                     {"m0": {"a=b"}},
		"mlx5_0=mlx5_bond_0,mlx5_3;": {"mlx5_0": {"mlx5_bond_0", "mlx5_3"}},
	} {
		got, err := transfer.ParseAffinity(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"m0", "=m0", "m0=", "m0=a,,b", "m0=a;b"} {
		_, err := transfer.ParseAffinity(text)
		require.True(t, errs.Is(err, errs.InvalidParams), "%q: %v", text, err)
	}
}

func FuzzParseAffinity(f *testing.F) {
	f.Add("m0=m0,m1;m1=m1")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := transfer.ParseAffinity(text)
		for local, peers := range got {
			if err != nil || local == "" || len(peers) == 0 {
				t.Fatalf("%q gives %v, %v", text, got, err)
			}
		}
	})
}

func TestPeerAffinity(t *testing.T) {
	w := newWorld(t, "rdma")
	crossed := func(c *transfer.Config, _ *transfer.Deps) {
		c.PeerAffinity = map[string][]string{"m0": {"m1"}, "m1": {"m0", "m2"}}
	}
	a, b, r := pairOf(w, names("m", 3), names("m", 3), crossed)
	require.NoError(t, a.move(transport.Write, b, 0, pattern(8<<20, 1)))
	moved := r.moved()
	require.Len(t, moved, 3)
	for _, rail := range []string{"m0-m1", "m1-m0", "m1-m2"} {
		require.NotZero(t, moved[rail], "%v", moved)
	}
	r.plug("m0", false)
	r.plug("m1", false)
	require.NoError(t, a.move(transport.Write, b, 0, pattern(8<<20, 1)), "others are better than none")
}
