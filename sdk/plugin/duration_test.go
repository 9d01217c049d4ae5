package plugin_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestDurationsAreText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := plugin.Duration(rapid.Int64().Draw(t, "d"))
		text, err := json.Marshal(d)
		require.NoError(t, err)
		require.Equal(t, `"`+time.Duration(d).String()+`"`, string(text))
		var back plugin.Duration
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, d, back)
	})
}

func TestDurationRefusals(t *testing.T) {
	for _, text := range []string{`30`, `3e10`, `"30"`, `""`, `true`, `null`, `{}`, `[]`, `"30 s"`, `"soon"`, `"` + strings.Repeat("9", 10000) + `s"`} {
		d := plugin.Duration(7)
		err := json.Unmarshal([]byte(text), &d)
		require.Error(t, err, text)
		assert.ErrorContains(t, err, `"30s"`)
		assert.Less(t, len(err.Error()), 300)
		assert.Equal(t, plugin.Duration(7), d, "a refused value changes nothing")
	}
}

func FuzzDuration(f *testing.F) {
	for _, seed := range []string{`"30s"`, `"1m30s"`, `"-1ns"`, `30`, `null`, `"9999999h"`, `"\u0033s"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d := plugin.Duration(7)
		if err := d.UnmarshalJSON(text); err != nil {
			if d != 7 {
				t.Fatalf("%q was refused and changed the value to %v", text, d)
			}
			return
		}
		again, err := json.Marshal(d)
		var back plugin.Duration
		if err != nil || json.Unmarshal(again, &back) != nil || back != d {
			t.Fatalf("%q -> %v -> %s -> %v, %v", text, d, again, back, err)
		}
	})
}
