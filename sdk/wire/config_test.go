package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

type fifoConfig struct {
	Shards int `json:"shards"`
	Inner  struct {
		Depth int `json:"depth"`
	} `json:"inner"`
	Names map[string]fifoName `json:"names"`
	List  []fifoName          `json:"list"`
}

type fifoName struct {
	Weight float64 `json:"weight"`
}

func (c *fifoConfig) Validate() error {
	if c.Shards < 1 {
		return errors.New("shards must be at least 1")
	}
	return nil
}

func fifoFactory() evict.Factory {
	return evict.Define(plugin.Manifest{
		Format: 1, ID: plugin.ID{Kind: "evict", Name: "fifo"}, Version: "0.1.0", API: []uint{1},
		Summary: "for tests", Stability: plugin.Experimental,
	}, func() *fifoConfig { return &fifoConfig{Shards: 4} }, nil)
}

func TestDecodeConfig(t *testing.T) {
	f := fifoFactory()
	for _, empty := range []string{"", " ", "{}", "null"} {
		cfg, err := DecodeConfig(f, []byte(empty))
		require.NoError(t, err, empty)
		assert.Equal(t, 4, cfg.(*fifoConfig).Shards)
	}
	cfg, err := DecodeConfig(f, []byte(`{"inner":{"depth":3},"names":{"any":{"weight":1.5}},"list":[{"weight":2}]}`))
	require.NoError(t, err)
	c := cfg.(*fifoConfig)
	assert.Equal(t, 4, c.Shards, "defaults stay")
	assert.Equal(t, 3, c.Inner.Depth)
	assert.Equal(t, map[string]fifoName{"any": {1.5}}, c.Names)
	assert.Equal(t, []fifoName{{2}}, c.List)
}

func TestDecodeConfigRefusals(t *testing.T) {
	f := fifoFactory()
	for in, want := range map[string]string{
		`{"shard":1}`:                     `unknown setting "shard": did you mean "shards"?`,
		`{"Shards":1}`:                    `did you mean "shards"?`,
		`{"inner":{"dept":1}}`:            `unknown setting "inner.dept": did you mean "depth"?`,
		`{"names":{"a":{"w":1}}}`:         `unknown setting "names.a.w": the settings here are weight`,
		`{"list":[{},{"weigth":1}]}`:      `unknown setting "list[1].weigth": did you mean "weight"?`,
		`{"quite_something_else":1}`:      `the settings here are inner, list, names, shards`,
		`{"shards":"four"}`:               `shards is "four", must be a whole number`,
		`{"shards":0}`:                    `shards must be at least 1`,
		`[1]`:                             `not a JSON object`,
		`{"shards":1} x`:                  `not a JSON object`,
		`{"inner":3}`:                     `inner is 3, must be an object with settings`,
		strings.Repeat(" ", 1<<20) + `{}`: `at most 1048576 are allowed`,
	} {
		_, err := DecodeConfig(f, []byte(in))
		if assert.ErrorContains(t, err, want, "%.60s", in) {
			assert.ErrorContains(t, err, "evict/fifo: configure")
			assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
		}
	}
	_, err := DecodeConfig(evict.Define(fifoFactory().Manifest(), func() *plugin.NoConfig { return &plugin.NoConfig{} }, nil), []byte(`{"a":1}`))
	assert.ErrorContains(t, err, "there are no settings here")
}

func FuzzDecodeConfig(f *testing.F) {
	for _, s := range []string{``, `{"shards":2}`, `{"inner":{"depth":1}}`, `{"list":[{"weight":1}]}`, `{"shards":1}{`, `{"":{}}`} {
		f.Add([]byte(s))
	}
	factory := fifoFactory()
	f.Fuzz(func(t *testing.T, settings []byte) {
		cfg, err := DecodeConfig(factory, settings)
		if (cfg == nil) == (err == nil) {
			t.Fatalf("got %v, %v", cfg, err)
		}
		if err == nil && cfg.Validate() != nil {
			t.Fatal("accepted a configuration that does not validate")
		}
	})
}
