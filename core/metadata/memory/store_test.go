package memory_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestStoreIsAMapWithLimits runs random calls against a plain map that applies the rules
// by counting anew.
func TestStoreIsAMapWithLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := memory.Limits{Entries: 3, KeySize: 20, ValueSize: 10, TotalSize: 60}
		s := memory.New(limits)
		model := map[string]string{}
		keys := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "mooncake/rpc_meta/n", strings.Repeat("k", 21)})
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { assert.Equal(t, len(model), s.Len()) },
			"put": func(t *rapid.T) {
				k, v := keys.Draw(t, "key"), strings.Repeat("v", rapid.IntRange(0, 11).Draw(t, "length"))
				old, exists := model[k]
				total := len(v) - len(old)
				for k, v := range model {
					total += len(k) + len(v)
				}
				if !exists {
					total += len(k)
				}
				outcome, err := s.Set(k, []byte(v))
				switch {
				case k == "" || len(k) > limits.KeySize || len(v) > limits.ValueSize:
					assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
				case exists && old == v:
					assert.NoError(t, err)
					assert.Equal(t, memory.Unchanged, outcome)
				case exists && metadata.IsRPCMeta(k):
					assert.ErrorIs(t, err, metadata.ErrDuplicate)
				case total > limits.TotalSize || !exists && len(model) == limits.Entries:
					assert.Equal(t, errs.BufferOverflow, errs.CodeOf(err))
				default:
					assert.NoError(t, err)
					assert.Equal(t, memory.Updated, outcome)
					model[k] = v
				}
			},
			"get": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				v, err := s.Get(nil, k) //nolint:staticcheck // The store in memory does not wait.
				want, ok := model[k]
				assert.Equal(t, ok, err == nil)
				assert.Equal(t, want, string(v))
			},
			"delete": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				err := s.Delete(nil, k) //nolint:staticcheck // The store in memory does not wait.
				_, ok := model[k]
				assert.Equal(t, !ok, errors.Is(err, metadata.ErrNotFound))
				delete(model, k)
			},
		})
	})
}

func TestValuesAreCopies(t *testing.T) {
	s := memory.New(memory.Limits{})
	v := []byte("abc")
	require.NoError(t, s.Put(t.Context(), "k", v))
	v[0] = 'x'
	got, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, "abc", string(got))
}
