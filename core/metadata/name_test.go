package metadata_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestParseName(t *testing.T) {
	for name, want := range map[string]metadata.Address{
		"host":                 {Host: "host", Port: 12001},
		"host:1":               {Host: "host", Port: 1},
		"10.0.0.1:65535":       {Host: "10.0.0.1", Port: 65535},
		"[::1]:15000":          {Host: "::1", Port: 15000},
		"[::1]":                {Host: "::1", Port: 12001},
		"::1":                  {Host: "::1", Port: 12001},
		"fe80::1:2":            {Host: "fe80::1:2", Port: 12001},
		"fe80::1%eth0":         {Host: "fe80::1%eth0", Port: 12001},
		"fe80::1%eth0:15000":   {Host: "fe80::1%eth0", Port: 15000},
		"[fe80::1%eth0]:15000": {Host: "fe80::1%eth0", Port: 15000},
	} {
		host, port, err := metadata.ParseName(name)
		require.NoError(t, err, name)
		assert.Equal(t, want, metadata.Address{Host: host, Port: port}, name)
	}
	assert.Equal(t, "[::1]:7", metadata.JoinName("::1", 7))
}

func TestBadNames(t *testing.T) {
	for _, name := range []string{
		"", ":1", "h:", "h:0", "h:01", "h:65536", "h:x", "h:+1", "[::1", "[::1]x", "[::1]:", "[]:1", "[]", "1:2:3", "::g", "a b", "a/b:1", "h\x00",
		"fe80::1%:1", "fe80::1%eth0:", "h\xff:1", strings.Repeat("h", 2000),
	} {
		_, _, err := metadata.ParseName(name)
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), "%q", name)
	}
}

func TestWildcardsCannotBeAdvertised(t *testing.T) {
	for _, host := range []string{"0.0.0.0", "::", ""} {
		assert.Error(t, metadata.CheckAdvertised(host), host)
	}
	for _, host := range []string{"10.0.0.1", "node-7", "::1"} {
		assert.NoError(t, metadata.CheckAdvertised(host), host)
	}
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"h", "h:1", "[::1]:2", "::1", "fe80::1%eth0:3", "[", "%:", "a:b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, port, err := metadata.ParseName(s)
		if err != nil {
			return
		}
		h, p, err := metadata.ParseName(metadata.JoinName(host, port))
		require.NoError(t, err)
		require.Equal(t, host, h)
		require.Equal(t, port, p)
	})
}
