package plugin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// valid makes a struct a Config.
type valid struct{}

func (valid) Validate() error { return nil }

type inner struct {
	Depth uint8 `json:"depth" default:"3" range:"1..9"`
}

type Shared struct {
	Buffer int64 `json:"buffer" default:"64MiB" range:"4KiB.."`
}

type everything struct {
	valid
	Shared
	Timeout plugin.Duration   `json:"timeout" default:"30s" range:"1ms..24h" doc:"limit of a call; <1> & more"`
	Mode    string            `json:"mode" default:"auto" enum:"auto|fast"`
	Hosts   []string          `json:"hosts" length:"..2"`
	Name    string            `json:"name" length:"1..4" required:"true"`
	Ratio   float64           `json:"ratio" default:"0.5" range:"0.1..0.9"`
	On      bool              `json:"on" default:"true"`
	Inner   inner             `json:"inner"`
	Many    []inner           `json:"many"`
	Weights map[string]int    `json:"weights"`
	Maybe   *int              `json:"maybe"`
	Any     json.RawMessage   `json:"any"`
	Hidden  func()            `json:"-"`
	Labels  map[string]string `json:"labels,omitempty"`
}

func schemaOf(t testing.TB, c plugin.Config) json.RawMessage {
	t.Helper()
	schema, err := plugin.SchemaOf(c)
	require.NoError(t, err)
	return schema
}

func TestSchemaOfAStruct(t *testing.T) {
	c := plugin.Defaults[everything]()
	assert.Equal(t, everything{
		Shared: Shared{64 << 20}, Timeout: plugin.Duration(30 * time.Second), Mode: "auto", Ratio: 0.5, On: true, Inner: inner{3},
	}, *c)
	assert.JSONEq(t, `{"$schema":"https://json-schema.org/draft/2020-12/schema","$comment":"made by SchemaOf from the tags of the program's settings",
		"type":"object","additionalProperties":false,"required":["name"],"properties":{
		"buffer":{"type":"integer","minimum":4096,"default":67108864},
		"timeout":{"type":"string","format":"go-duration","formatMinimum":"1ms","formatMaximum":"24h0m0s","default":"30s","description":"limit of a call; <1> & more"},
		"mode":{"type":"string","enum":["auto","fast"],"default":"auto"},
		"hosts":{"type":"array","maxItems":2,"items":{"type":"string"}},
		"name":{"type":"string","minLength":1,"maxLength":4,"default":""},
		"ratio":{"type":"number","minimum":0.1,"maximum":0.9,"default":0.5},
		"on":{"type":"boolean","default":true},
		"inner":{"type":"object","additionalProperties":false,"properties":{"depth":{"type":"integer","minimum":1,"maximum":9,"default":3}}},
		"many":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{"depth":{"type":"integer","minimum":1,"maximum":9,"default":0}}}},
		"weights":{"type":"object","additionalProperties":{"type":"integer"}},
		"maybe":{"type":"integer"},"any":{},
		"labels":{"type":"object","additionalProperties":{"type":"string"}}}}`, string(schemaOf(t, c)))
}

func TestWrongTags(t *testing.T) {
	for _, x := range []struct {
		c    plugin.Config
		want string
	}{
		{&struct {
			valid
			A int `range:"5"`
		}{}, `"5" is not LOW..HIGH`},
		{&struct {
			valid
			A int `range:".."`
		}{}, `".." is not LOW..HIGH`},
		{&struct {
			valid
			A int8 `range:"0..128"`
		}{}, `"128" is not a value of a int8: it becomes -128`},
		{&struct {
			valid
			A string `range:"1..2"`
		}{}, "for a string there is length"},
		{&struct {
			valid
			A int `length:"1..2"`
		}{}, "for a int there is range"},
		{&struct {
			valid
			A []string `length:"x..2"`
		}{}, "length: "},
		{&struct {
			valid
			A int `enum:"1|two"`
		}{}, "enum: "},
		{&struct {
			valid
			A chan int
		}{}, "cannot be a setting"},
		{(*number)(new(int)), "must be a pointer to a struct"},
	} {
		_, err := plugin.SchemaOf(x.c)
		assert.ErrorContains(t, err, x.want)
		assert.ErrorContains(t, plugin.Validate(x.c), x.want)
	}
	assert.PanicsWithError(t, `field A of plugin_test.wrong: "9999PiB" is not a value of a int: value out of range`, func() { plugin.Defaults[wrong]() })
}

type number int

func (*number) Validate() error { return nil }

type wrong struct {
	A int `default:"9999PiB"`
}

func TestSettingsAreJudged(t *testing.T) {
	schema := schemaOf(t, plugin.Defaults[everything]())
	for settings, want := range map[string]string{
		``:   "",
		`{}`: "",
		`{"buffer":4096,"timeout":"1ms","mode":"fast","hosts":["a","b"],"name":"abcd","ratio":0.9,"on":false,"inner":{"depth":9},"many":[{"depth":1}],"weights":{"x":1},"maybe":null,"any":[1]}`: "",
		`{"buffer":4095}`:         "buffer is 4095, must be at least 4096",
		`{"buffer":1e3}`:          "buffer is 1e3, must be at least 4096",
		`{"buffer":4096.5}`:       "buffer is 4096.5, must be a whole number",
		`{"timeout":"1us"}`:       "timeout is 1us, must be 1ms to 24h0m0s",
		`{"timeout":"25h"}`:       "timeout is 25h, must be 1ms to 24h0m0s",
		`{"timeout":"1"}`:         `timeout is "1", which is not a duration; write it with a unit, such as "30s" or "1m30s"`,
		`{"timeout":30}`:          "timeout is 30, must be a text",
		`{"mode":"slow"}`:         `mode is "slow", must be "auto" or "fast"`,
		`{"hosts":["a","b","c"]}`: "hosts has 3 items, must have at most 2",
		`{"hosts":["a",2]}`:       "hosts[1] is 2, must be a text",
		`{"name":"äöüßé"}`:        "name has 5 characters, must have 1 to 4",
		`{"ratio":1}`:             "ratio is 1, must be 0.1 to 0.9",
		`{"on":"yes"}`:            `on is "yes", must be true or false`,
		`{"inner":{"dept":1}}`:    `unknown setting "inner.dept": did you mean "depth"?`,
		`{"inner":{"depth":10}}`:  "inner.depth is 10, must be 1 to 9",
		`{"many":[{},{"x":1}]}`:   `unknown setting "many[1].x": the settings here are depth`,
		`{"weights":{"x":"y"}}`:   `weights.x is "y", must be a whole number`,
		`{"inner":5}`:             "inner is 5, must be an object with settings",
		`{"mod":"x","on":1}`:      `unknown setting "mod": did you mean "mode"?; on is 1, must be true or false`,
		`[]`:                      "the settings are not a JSON object",
		`{} {}`:                   "the settings are not a JSON object",
	} {
		err := plugin.CheckSettings(schema, json.RawMessage(settings))
		if want == "" {
			assert.NoError(t, err, settings)
		} else {
			assert.EqualError(t, err, want, settings)
		}
	}
	assert.NoError(t, plugin.CheckSettings(nil, json.RawMessage(`{"a":1}`)), "nothing is known")
	assert.ErrorContains(t, plugin.CheckSettings(json.RawMessage(`5`), json.RawMessage(`{}`)), "schema")
	var many []string
	for _, r := range "abcdefghijklmnopqrstuvwxyz" {
		many = append(many, `"`+string(r)+`":1`)
	}
	var found plugin.SettingErrors
	require.ErrorAs(t, plugin.CheckSettings(schema, json.RawMessage("{"+strings.Join(many, ",")+"}")), &found)
	assert.Len(t, found, 16, "the number of errors is bounded")
}

// ordered has a rule that no tag expresses.
type ordered struct {
	Low  int `json:"low" range:"0..9"`
	High int `json:"high" default:"5" range:"0..9"`
}

func (o *ordered) Validate() error {
	if o.Low > o.High {
		return errors.New("low is above high")
	}
	return nil
}

func TestValidateAsksBoth(t *testing.T) {
	assert.NoError(t, plugin.Validate(plugin.Defaults[ordered]()))
	assert.EqualError(t, plugin.Validate(&ordered{Low: 6, High: 5}), "low is above high")
	assert.EqualError(t, plugin.Validate(&ordered{Low: -1, High: 5}), "low is -1, must be 0 to 9")
}

func TestDifferences(t *testing.T) {
	const made = `"$comment":"made by SchemaOf from the tags of the program's settings",`
	program := `{` + made + `"required":["a"],"properties":{"a":{"type":"integer","minimum":1,"maximum":9,"default":5,"description":"x"},
		"t":{"type":"string","format":"go-duration","default":"5m0s"},"o":{"type":"object","properties":{"b":{"type":"string","enum":["x","y"]}}}}}`
	byHand := func(old, with string) string {
		text := strings.Replace(strings.Replace(program, made, "", 1), old, with, 1)
		require.True(t, json.Valid([]byte(text)), text)
		return text
	}
	for _, x := range []struct {
		name, manifest, program string
		want                    []string
	}{
		{"the program does not tell", byHand("", ""), "", nil},
		{"same", program, program, nil},
		{"same, by hand", byHand("", ""), program, nil},
		{"a duration in another form", byHand("5m0s", "300s"), program, nil},
		{"by hand, without a description", byHand(`,"description":"x"`, ""), program, nil},
		{"by hand, with a bound that the program does not tell", byHand(`"format":`, `"maxLength":9,"format":`), program, nil},
		{"renamed", byHand(`"a":{`, `"z":{`), program, []string{"only the program has the setting a", "only the manifest has the setting z"}},
		{"another default", byHand(`"default":5`, `"default":6`), program, []string{"the default of a is 6 in the manifest, and 5 in the program"}},
		{"another bound", byHand(`"maximum":9`, `"maximum":10`), program, []string{"the maximum of a is 10 in the manifest, and 9 in the program"}},
		{"no bound", byHand(`"minimum":1,`, ""), program, []string{"the minimum of a is none in the manifest, and 1 in the program"}},
		{"another enumeration", byHand(`"y"`, `"z"`), program, []string{`the list of values of o.b is ["x","z"] in the manifest, and ["x","y"] in the program`}},
		{"another type", byHand(`"integer"`, `"number"`), program, []string{`the type of a is "number" in the manifest, and "integer" in the program`}},
		{"nothing required", byHand(`"required":["a"],`, ""), program, []string{"the manifest requires no setting, and the program a"}},
		{"made, without a description", strings.Replace(program, `,"description":"x"`, "", 1), program, []string{`the description of a is none in the manifest, and "x" in the program`}},
		{"no schema", "", `{"properties":{"a":{}}}`, []string{"only the program has the setting a"}},
		{"no object", "5", program, []string{"the config_schema of the manifest is not a JSON object"}},
		{"no object in the program", "{}", "5", []string{"the program's schema of its settings is not a JSON object: json: cannot unmarshal number into Go value of type plugin.schemaTree"}},
	} {
		assert.Equal(t, x.want, plugin.Differences(json.RawMessage(x.manifest), json.RawMessage(x.program)), x.name)
	}
}

func TestRewriteManifest(t *testing.T) {
	schema := schemaOf(t, plugin.Defaults[ordered]())
	const head = "{\"mooncake_plugin_manifest\":1,\n  \"kind\": \"evict\",\n  \"api\": [1]"
	const want = head + `,
  "config_schema": {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$comment": "made by SchemaOf from the tags of the program's settings",
    "type": "object",
    "additionalProperties": false,
    "properties": {
      "low": {"type": "integer", "minimum": 0, "maximum": 9, "default": 0},
      "high": {"type": "integer", "minimum": 0, "maximum": 9, "default": 5}
    }
  }
}
`
	for _, old := range []string{head + "\n}\n", head + ",\n  \"config_schema\": {\"type\": \"object\"}\n}\n", want} {
		got, err := plugin.RewriteManifest(old, schema)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	got, err := plugin.RewriteManifest(`{"config_schema":{},"x":{}}`, json.RawMessage(`{"a":1}`))
	require.NoError(t, err)
	assert.JSONEq(t, `{"config_schema":{"a":1},"x":{}}`, got, "an equal value elsewhere stays")
	for _, old := range []string{"", "[]", "{", "{} {}", `{"a":1,}`} {
		_, err := plugin.RewriteManifest(old, schema)
		assert.ErrorContains(t, err, "plugin manifest")
	}
}

func compact(t *testing.T, text []byte) string {
	var b bytes.Buffer
	require.NoError(t, json.Compact(&b, text))
	return b.String()
}

// FuzzManifest: no manifest and no schema, which programs of others have, ends the host or breaks a file.
func FuzzManifest(f *testing.F) {
	files, err := filepath.Glob("../../plugins/*/manifest.json")
	require.NoError(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(text), `{"a":1}`)
	}
	f.Add(`{"mooncake_plugin_manifest":1,"config_schema":{"properties":{"a":{"enum":[1],"minimum":2,"pattern":"("}}}}`, `{"a":[[1e999]]}`)
	f.Add(`{"config_schema":{},"x":{}}`, `{"config_schema":{"minItems":1}}`)
	f.Fuzz(func(t *testing.T, text, settings string) {
		var schema json.RawMessage
		m, err := plugin.ParseManifest(text)
		if err == nil {
			schema = m.ConfigSchema
			require.NoError(t, m.Validate())
		}
		for _, s := range []json.RawMessage{schema, json.RawMessage(text)} {
			_ = plugin.CheckSettings(s, json.RawMessage(settings))
			_ = plugin.Differences(s, json.RawMessage(settings))
		}
		if !json.Valid([]byte(settings)) {
			return
		}
		made, err := plugin.RewriteManifest(text, json.RawMessage(settings))
		if err != nil {
			return
		}
		var keys map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(made), &keys), made)
		assert.Equal(t, compact(t, []byte(settings)), compact(t, keys["config_schema"]))
		again, err := plugin.RewriteManifest(made, json.RawMessage(settings))
		require.NoError(t, err)
		assert.Equal(t, made, again)
	})
}
