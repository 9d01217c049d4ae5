package quota

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestParsePolicy(t *testing.T) {
	p, err := ParsePolicy([]byte("version: 1\n\n# a comment\ntenants:\n  - name: team-b\n    quota: 2TB\n  - {quota: 1024, name: \"team a\"}\n"))
	require.NoError(t, err)
	require.Equal(t, Policy{Tenants: []Entry{{"team a", 1024}, {"team-b", 2 << 40}}}, p)
	p, err = ParsePolicy([]byte("version: 1\ntenants: []"))
	require.NoError(t, err)
	require.Empty(t, p.Tenants)
}

func TestBadPoliciesAreRefusedWithTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "empty",
		"# nothing":                           "empty",
		"version: 1":                          "line 1: \"tenants\" is missing",
		"tenants: []":                         "line 1: \"version\" is missing",
		"version: 2\ntenants: []":             "line 1: version is \"2\"",
		"version: [1]\ntenants: []":           "line 1: version",
		"version: 1\ntenants: {}":             "line 2: tenants is no list",
		"version: 1\ntenants:":                "line 2: tenants is no list",
		"version: 1\ntenants: []\ntenant: []": "line 3: \"tenant\" is not known",
		"version: 1\nversion: 1\ntenants: []": "line 2: \"version\" is given twice",
		"version: 1\ntenants:\n- a":           "line 3: name and quota are expected",
		"version: 1\ntenants:\n- name: a":     "line 3: \"quota\" is missing",
		"version: 1\ntenants:\n- quota: 1GB":  "line 3: \"name\" is missing",
		"version: 1\ntenants:\n- name: a\n  quota: 1GB\n  limit: 3":                            "line 5: \"limit\" is not known",
		"version: 1\ntenants:\n- name:\n  quota: 1GB":                                          "line 3: the name of a tenant is missing",
		"version: 1\ntenants:\n- name: _all\n  quota: 1GB":                                     "line 3: tenant: INVALID_PARAMS: \"_all\" begins with an underscore",
		"version: 1\ntenants:\n- name: a\n  quota: lots":                                       "line 4: the quota of tenant \"a\": \"lots\" is no quota",
		"version: 1\ntenants:\n- name: a\n  quota: [1]":                                        "line 4: the quota of tenant \"a\" is no size",
		"version: 1\ntenants:\n- name: a\n  quota: 1GB\n- name: a\n  quota: 1GB":               "line 5: tenant \"a\" was named in line 3",
		"version: 1\ntenants:\n- name: a\n quota: 1GB":                                         "line 3: did not find expected key",
		"version: 1\ntenants: []\n---\nversion: 1":                                             "only one YAML document",
		"version: 1\ntenants: [" + strings.Repeat("{name: a, quota: 1B},", MaxTenants+1) + "]": "16385 tenants",
		"version: 1\ntenants:\n- name: a\n  quota: 1GB\n- &x {name: b, quota: 1B}\n- *x":       "line 6: name and quota are expected",
		"version: 1\ntenants: []\n#" + strings.Repeat("x", MaxPolicySize):                      "the most is",
	} {
		_, err := ParsePolicy([]byte(text))
		require.True(t, errs.Is(err, errs.InvalidParams), "%.60q: %v", text, err)
		require.ErrorContains(t, err, want, "%.60q", text)
	}
}

func TestParseQuota(t *testing.T) {
	for text, want := range map[string]uint64{
		"1": 1, "7B": 7, "3KB": 3 << 10, "4MB": 4 << 20, "5GB": 5 << 30, "6TB": 6 << 40, "9223372036854775807": MaxQuota, "0012KB": 12 << 10,
	} {
		got, err := ParseQuota(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for text, want := range map[string]string{
		"": "is no quota", "GB": "is no quota", "1gb": "is no quota", "1.5GB": "is no quota", "1 GB": "is no quota", "-1": "is no quota",
		"+1": "is no quota", "1PB": "is no quota", "0x10": "is no quota", "1_000": "is no quota", "0": "is nothing", "0GB": "is nothing",
		"9223372036854775808": "more than", "8388608TB": "more than", "99999999999999999999": "more than",
	} {
		_, err := ParseQuota(text)
		require.ErrorContains(t, err, want, "%q", text)
	}
}

func TestPoliciesSurviveTheirText(t *testing.T) {
	name := rapid.StringOfN(rapid.Rune(), 1, 20, model.MaxTenantSize).Filter(func(s string) bool { return model.ValidateTenant(s) == nil })
	rapid.Check(t, func(t *rapid.T) {
		var p Policy
		for _, n := range rapid.SliceOfDistinct(name, func(s string) string { return s }).Draw(t, "names") {
			p.Tenants = append(p.Tenants, Entry{n, rapid.Uint64Range(1, MaxQuota).Draw(t, "quota")})
		}
		p.sort()
		back, err := ParsePolicy(p.Encode())
		require.NoError(t, err, "%s", p.Encode())
		require.Equal(t, p, back)
	})
}

func TestEncodeIsReadable(t *testing.T) {
	p := Policy{Tenants: []Entry{{"1e3", 3 << 30}, {"yes", 1025}}}
	require.Equal(t, "version: 1\n\ntenants:\n  - name: \"1e3\"\n    quota: 3GB\n  - name: \"yes\"\n    quota: 1025B\n", string(p.Encode()))
	require.Equal(t, "version: 1\n\ntenants: []\n", string(Policy{}.Encode()))
}

func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte("version: 1\ntenants:\n- name: a\n  quota: 1GB\n"))
	f.Add([]byte("version: 1\ntenants: [{name: \"\\x85\", quota: 0B}, *a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePolicy(data)
		if err != nil {
			require.True(t, errs.Is(err, errs.InvalidParams))
			return
		}
		back, err := ParsePolicy(p.Encode())
		require.NoError(t, err, string(p.Encode()))
		require.Equal(t, p, back)
	})
}
