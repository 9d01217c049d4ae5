package httpd

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/tokens"
)

// FuzzBearer: what is taken from a header is in it, and is one well-formed token.
func FuzzBearer(f *testing.F) {
	for _, seed := range []string{"", "Bearer a", "bearer  a ", "Bearer a, Bearer b", "Basic a", "Bearer\ta", "Bearer =", "Bearer \x00"} {
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, value string, twice bool) {
		h := http.Header{"Authorization": {value}}
		if twice {
			h.Add("Authorization", value)
		}
		token, refusal := bearer(h)
		if twice {
			require.NotNil(t, refusal)
		}
		if refusal != nil {
			require.Empty(t, token)
			return
		}
		if token != "" {
			require.True(t, tokens.WellFormed(token))
			require.Contains(t, value, token)
			require.True(t, strings.EqualFold(value[:7], "Bearer "))
		}
	})
}
