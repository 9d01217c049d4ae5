package model_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestUUIDText(t *testing.T) {
	assert.Equal(t, "7-18446744073709551615", model.UUID{Hi: 7, Lo: 1<<64 - 1}.String())
	rapid.Check(t, func(t *rapid.T) {
		u := model.UUID{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
		back, err := model.ParseUUID(u.String())
		require.NoError(t, err)
		assert.Equal(t, u, back)
	})
	for _, bad := range []string{"", "1", "1-", "-1", "a-b", "1-2-3", "99999999999999999999-1"} {
		_, err := model.ParseUUID(bad)
		assert.Error(t, err, bad)
	}
	assert.NotEqual(t, model.NewUUID(), model.NewUUID())
	assert.True(t, model.UUID{}.IsZero())
}

func FuzzParseUUID(f *testing.F) {
	f.Add("1-2")
	f.Add("18446744073709551615-0")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := model.ParseUUID(s)
		if err != nil {
			return
		}
		if back, err := model.ParseUUID(u.String()); err != nil || back != u {
			t.Fatalf("%q -> %v -> %v, %v", s, u, back, err)
		}
	})
}

func TestValidateKey(t *testing.T) {
	assert.NoError(t, model.ValidateKey("k"))
	assert.NoError(t, model.ValidateKey(strings.Repeat("k", model.MaxKeySize)))
	assert.NoError(t, model.ValidateKey("\x00\xff"))
	for _, bad := range []string{"", strings.Repeat("k", 2<<20)} {
		err := model.ValidateKey(bad)
		assert.ErrorIs(t, err, errs.InvalidParams.Err())
		assert.ErrorContains(t, err, "1 to 65536 bytes")
	}
}

func TestSegmentStatusNames(t *testing.T) {
	assert.Equal(t, "OK", model.SegmentOK.String())
	assert.Equal(t, "UNMOUNTING", model.SegmentUnmounting.String())
	assert.Equal(t, "UNDEFINED", model.SegmentStatus(99).String())
}
