package find

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStandardDirs(t *testing.T) {
	env := map[string]string{"HOME": "/home/me"}
	get := func(k string) string { return env[k] }
	assert.Equal(t, []string{"/home/me/.local/share/mooncake/plugins", "/usr/lib/mooncake/plugins"}, StandardDirs(get))
	env["XDG_DATA_HOME"] = "/data"
	assert.Equal(t, []string{"/data/mooncake/plugins", "/usr/lib/mooncake/plugins"}, StandardDirs(get))
	env["XDG_DATA_HOME"] = "relative"
	assert.Equal(t, []string{"/usr/lib/mooncake/plugins"}, StandardDirs(get))
}

func TestUserDir(t *testing.T) {
	env := func(kv ...string) func(string) string {
		return func(key string) string {
			for _, s := range kv {
				if v, ok := strings.CutPrefix(s, key+"="); ok {
					return v
				}
			}
			return ""
		}
	}
	assert.Equal(t, "/x/mooncake/plugins", UserDir(env("XDG_DATA_HOME=/x", "HOME=/h")))
	assert.Equal(t, "/h/.local/share/mooncake/plugins", UserDir(env("HOME=/h")))
	assert.Empty(t, UserDir(env()))
}
