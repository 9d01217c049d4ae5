package storeservice_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rest/storeservice"
)

// TestEveryRouteIsDocumented: the comparison with upstream names each, store-service.md says
// how to use it.
func TestEveryRouteIsDocumented(t *testing.T) {
	for file, key := range map[string]string{"compatibility/services.md": "{key}", "operations/store-service.md": "k"} {
		text, err := os.ReadFile("../../../../docs/" + file)
		require.NoError(t, err)
		for _, r := range storeservice.Routes() {
			name := r[0] + " " + r[1]
			if strings.HasSuffix(r[1], "/") {
				name += key
			}
			if r[1] != "/api/unmount_local_disk" || file == "compatibility/services.md" {
				assert.Contains(t, string(text), "`"+name+"`", file)
			}
		}
	}
}
