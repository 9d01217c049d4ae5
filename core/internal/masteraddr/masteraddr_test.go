package masteraddr

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Address{
		"10.0.0.1:50051":              {Masters: []string{"10.0.0.1:50051"}},
		" a:1, b:2;[::1]:3 ":          {Masters: []string{"a:1", "b:2", "[::1]:3"}},
		"etcd://a:2379;b:2379":        {Directory: "etcd://a:2379;b:2379"},
		"etcd://a:2379,http://b:2379": {Directory: "etcd://a:2379,http://b:2379"},
		"redis://a":                   {Directory: "redis://a"},
		"k8s://namespace/lease":       {Directory: "k8s://namespace/lease"},
	} {
		got, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for text, why := range map[string]string{
		"": "0 masters", ",;": "0 masters", "a": "not \"a\"", "a:0": "not \"a:0\"", "a:1,b": "not \"b\"", ":1": "not \":1\"", "a:65536": "host:port",
		"http://a:1": `the scheme "http"`, "zk://a": `the scheme "zk"`, "etcd://": "names nothing", "etcd://,;": "names nothing",
		"a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1": "17 masters",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, why, text)
	}
}

// FuzzParse: what is printed is read again as the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"a:1", "a:1;b:2", "[::1]:7", "etcd://a:1,b:2", "k8s://x/y", "://", "etcd://;", "a:1,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(text)
		if err != nil {
			return
		}
		require.NotEqual(t, len(a.Masters) > 0, a.Directory != "")
		again, err := Parse(a.String())
		require.NoError(t, err)
		require.Equal(t, a, again)
	})
}
