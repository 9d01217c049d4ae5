package matrix

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const two = `{"cpu:0":[["m0","m1"],["m2"]],"cpu:1":[["m2"],["m0","m1"]],"cuda:0":[["m1"],["m0"]]}`

func parse(t testing.TB, text string) Matrix {
	t.Helper()
	m, err := Parse([]byte(text))
	require.NoError(t, err)
	return m
}

func TestParseAndEncode(t *testing.T) {
	for text, want := range map[string]string{
		two: two,
		" {\"cpu:1\" : [[\"b\"], [ ]],\n\t\"cpu:0\":[[],[\"a\"]]}\n": `{"cpu:0":[[],["a"]],"cpu:1":[["b"],[]]}`,
		`{"cuda:10":[[],[]],"cuda:2":[["x"],["x"]],"*":[["y"],[]]}`:  `{"*":[["y"],[]],"cuda:10":[[],[]],"cuda:2":[["x"],["x"]]}`,
		"": "null", "null": "null", "{}": "null", " \n": "null",
	} {
		m := parse(t, text)
		require.Equal(t, want, m.String(), text)
		require.Equal(t, want == "null", m.Empty())
		b, err := json.Marshal(struct{ M Matrix }{m})
		require.NoError(t, err)
		require.Equal(t, `{"M":`+want+`}`, string(b))
	}
}

func TestParseRefuses(t *testing.T) {
	many := strings.Repeat(`"d",`, MaxBytes/4) + `"d"`
	for _, text := range []string{
		`{"cpu:0":[["a"]]}`, `{"cpu:0":[["a"],["b"],["c"]]}`, `{"cpu:0":[]}`, `{"cpu:0":{}}`, `{"cpu:0":null}`, `{"cpu:0":"a"}`,
		`{"cpu:0":[["a"],null]}`, `{"cpu:0":[["a"],"b"]}`, `{"cpu:0":[["a"],[1]]}`, `{"cpu:0":[["a"],[null]]}`, `{"cpu:0":[[["a"]],[]]}`,
		`{"cpu:0":[[""],[]]}`, `{"":[["a"],[]]}`, `{"cpu 0":[["a"],[]]}`, `{"cpu:0":[["a\"b"],[]]}`, `{"cpu:0":[["a\u0001"],[]]}`, `{"cpu:0":[["é"],[]]}`,
		`[]`, `3`, `"x"`, `{`, two + "x", two + two, "\x00", `{"cpu:0":[["` + strings.Repeat("a", MaxName+1) + `"],[]]}`,
		`{"cpu:0":[[` + many + `],[]]}`,
	} {
		_, err := Parse([]byte(text))
		require.Error(t, err, "%.80s", text)
		require.True(t, errs.Is(err, errs.DeserializeFail), "%v", err)
		require.Less(t, len(err.Error()), 600, "whatever is in the text")
		m := parse(t, two)
		require.Error(t, m.UnmarshalJSON([]byte(text)))
		require.Equal(t, two, m.String(), "a failed decode changes nothing")
	}
}

func TestBounds(t *testing.T) {
	devices, locations := map[string]Entry{}, map[string]Entry{}
	var names []string
	for i := range MaxDevices {
		names = append(names, "d"+strings.Repeat("x", i%200)+string(rune('a'+i/200)))
	}
	devices["cpu:0"] = Entry{Preferred: names}
	m, err := New(devices)
	require.NoError(t, err)
	require.Len(t, m.Devices(), MaxDevices)
	devices["cpu:1"] = Entry{Available: []string{"one-more"}}
	_, err = New(devices)
	require.ErrorContains(t, err, "1025 devices")
	for i := range MaxLocations + 1 {
		locations["cpu:"+strings.Repeat("1", i%250)+string(rune('a'+i/250))] = Entry{}
	}
	_, err = New(locations)
	require.ErrorContains(t, err, "4097 locations")
}

func TestSelect(t *testing.T) {
	m := parse(t, two)
	require.Equal(t, []string{"m0", "m1", "m2"}, m.Devices())
	pick := func(m Matrix, location string, turn uint64, retry int) string {
		i, ok := m.Select(location, turn, retry)
		if !ok {
			return "-"
		}
		return m.Devices()[i]
	}
	for _, c := range []struct {
		location string
		turn     uint64
		retry    int
		want     string
	}{
		{"cpu:0", 0, 0, "m0"}, {"cpu:0", 1, 0, "m1"}, {"cpu:0", 2, 0, "m0"}, {"cpu:0", 1<<64 - 1, 0, "m1"}, {"cpu:0", 7, -3, "m1"},
		{"cpu:0", 9, 1, "m0"}, {"cpu:0", 9, 2, "m1"}, {"cpu:0", 9, 3, "m2"}, {"cpu:0", 9, 4, "m0"},
		{"cuda:0", 5, 0, "m1"}, {"cuda:0", 5, 2, "m0"},
		{"*", 2, 0, "m2"}, {"cpu:7", 2, 0, "m2"}, {"", 1, 0, "m1"}, {"cpu:7", 0, 3, "m2"},
	} {
		require.Equal(t, c.want, pick(m, c.location, c.turn, c.retry), "%+v", c)
	}
	require.Equal(t, "-", pick(Matrix{}, "cpu:0", 0, 0))
	require.Equal(t, "-", pick(parse(t, `{"cpu:0":[[],[]]}`), "cpu:0", 0, 1), "no device at all")
	require.Equal(t, "a", pick(parse(t, `{"cpu:0":[[],["a"]],"cpu:1":[[],[]]}`), "cpu:0", 3, 0), "none is preferred")
	require.Equal(t, "a", pick(parse(t, `{"cpu:0":[[],["a"]],"cpu:1":[[],[]]}`), "cpu:1", 3, 0), "none at the location")
	require.Zero(t, testing.AllocsPerRun(10, func() { m.Select("cpu:9", 3, 2) }))
}

func TestDisabledDevicesKeepIndexes(t *testing.T) {
	m := parse(t, two)
	down := m.Without("m1", "stranger")
	require.Equal(t, `{"cpu:0":[["m0"],["m2"]],"cpu:1":[["m2"],["m0"]],"cuda:0":[[],["m0"]]}`, down.String())
	require.Equal(t, two, m.String(), "the old one is as it was")
	require.Equal(t, m.Devices(), down.Devices())
	require.Equal(t, 2, down.Index("m2"))
	i, ok := down.Select("cuda:0", 4, 0)
	require.True(t, ok)
	require.Equal(t, 0, i)
	require.Equal(t, []Ranked{{"m0", 0, Available}, {"m1", 1, Unknown}}, down.Rank("cuda:0", []string{"m1", "m0"}))
	_, ok = m.Without(m.Devices()...).Select("cpu:0", 0, 0)
	require.False(t, ok)
	require.Equal(t, two, down.With("m1").String())
	e, ok := down.Entry("cuda:0")
	require.True(t, ok)
	require.Equal(t, []string{"m0"}, e.Available)
	require.Empty(t, e.Preferred)
}

func TestOnly(t *testing.T) {
	m := parse(t, two)
	require.Equal(t, `{"cpu:0":[["m0"],["m2","new"]],"cpu:1":[["m2"],["m0","new"]],"cuda:0":[[],["m0","new"]]}`, m.Only([]string{"m2", "new", "m0", "m2"}).String())
	require.Equal(t, []string{"m2", "new", "m0"}, m.Only([]string{"m2", "new", "m0", "m2"}).Devices())
	require.Equal(t, `{"cpu:0":[["a"],[]]}`, Matrix{}.Only([]string{"a"}).String())
	require.Equal(t, `{"cpu:0":[[],[]],"cpu:1":[[],[]],"cuda:0":[[],[]]}`, m.Only(nil).String())
	require.Equal(t, `{"cpu:0":[[],["m2"]],"cpu:1":[["m2"],[]],"cuda:0":[[],[]]}`, m.Without("m0").Only([]string{"m0", "m2"}).String(), "still disabled")
	require.JSONEq(t, `{"cpu:0":[["a\"b"],[]]}`, Matrix{}.Only([]string{`a"b`}).String())
}

func TestRank(t *testing.T) {
	m := parse(t, two)
	require.Equal(t, []Ranked{{"m2", 2, Preferred}, {"m0", 0, Available}, {"m1", 1, Available}}, m.Rank("cpu:1", nil))
	require.Equal(t, []Ranked{{"m0", 0, Preferred}, {"m2", 2, Available}, {"z", -1, Unknown}, {"y", -1, Unknown}}, m.Rank("cpu:0", []string{"z", "m2", "m0", "y", "m2"}))
	require.Equal(t, []Ranked{{"m0", 0, Preferred}, {"m1", 1, Preferred}, {"m2", 2, Preferred}}, m.Rank("somewhere", nil))
	require.Equal(t, []Ranked{{"a", -1, Unknown}}, Matrix{}.Rank("cpu:0", []string{"a"}))
	require.Empty(t, Matrix{}.Rank("cpu:0", nil))
}

func TestLocate(t *testing.T) {
	for _, c := range []struct {
		location       string
		length, offset uint64
		want           string
	}{
		{"cpu:3", 10, 5, "cpu:3"}, {"*", 10, 5, "*"}, {"", 10, 5, ""},
		{"segments:4096:1,3", 100, 0, "cpu:1"}, {"segments:4096:1,3", 100, 49, "cpu:1"}, {"segments:4096:1,3", 100, 50, "cpu:3"},
		{"segments:4096:1,3", 101, 100, "cpu:3"}, {"segments:4096:1,3", 100, 1 << 63, "cpu:3"},
		{"segments:2097152:0,2,4,6", 8 << 30, 5 << 30, "cpu:4"}, {"segments:4096:,01,,10,", 100, 99, "cpu:10"}, {"segments:4096:00,1", 2, 0, "cpu:0"},
		{"segments:4096:1,3", 1, 0, "*"}, {"segments:4096:1,3", 0, 0, "*"}, {"segments:4096:", 10, 0, "*"}, {"segments:4096", 10, 0, "*"},
		{"segments:x:1", 10, 0, "*"}, {"segments:4096:1,b", 10, 0, "*"}, {"segments:4096:-1", 10, 0, "*"}, {"segments:", 10, 0, "*"},
	} {
		require.Equal(t, c.want, Locate(c.location, c.length, c.offset), "%+v", c)
	}
}

// Any matrix comes back from its JSON form, and every device that a location names is
// reached by retries.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		device := rapid.StringMatching(`[a-z0-9_.-]{1,4}`)
		entries := rapid.MapOfN(rapid.StringMatching(`(cpu|cuda):[0-9]{1,2}`), rapid.Custom(func(rt *rapid.T) Entry {
			return Entry{rapid.SliceOfN(device, 0, 4).Draw(rt, "preferred"), rapid.SliceOfN(device, 0, 4).Draw(rt, "available")}
		}), 0, 6).Draw(rt, "entries")
		m, err := New(entries)
		require.NoError(rt, err)
		again, err := Parse([]byte(m.String()))
		require.NoError(rt, err)
		require.Equal(rt, m.Devices(), again.Devices())
		require.Equal(rt, m.String(), again.String())
		for location, e := range entries {
			n := len(e.Preferred) + len(e.Available)
			reached := map[string]bool{}
			for k := 1; k <= n; k++ {
				i, ok := m.Select(location, 0, k)
				require.True(rt, ok)
				reached[m.Devices()[i]] = true
			}
			for _, d := range append(e.Preferred, e.Available...) {
				require.True(rt, reached[d], "%s of %s", d, location)
			}
		}
		off := rapid.SliceOfDistinct(rapid.SampledFrom(append(m.Devices(), "none")), rapid.ID[string]).Draw(rt, "off")
		down := m.Without(off...)
		require.Equal(rt, m.Devices(), down.Devices())
		require.Equal(rt, m.String(), down.With(off...).String())
		for _, r := range down.Rank("cpu:0", nil) {
			require.NotContains(rt, off, r.Device)
		}
		only := rapid.SliceOfDistinct(rapid.SampledFrom(append(m.Devices(), "none", "x:1")), rapid.ID[string]).Draw(rt, "only")
		require.ElementsMatch(rt, only, parse(t, m.Only(only).String()).Devices(), "the names of the matrix are those of the descriptor")
		require.Equal(rt, len(only), len(m.Only(only).Devices()))
	})
}

// FuzzParse: no input makes the parser panic, and what it takes has a stable form.
func FuzzParse(f *testing.F) {
	f.Add([]byte(two))
	f.Add([]byte(`{"cpu:0":[["a"]]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			require.True(t, errs.Is(err, errs.DeserializeFail))
			return
		}
		again, err := Parse([]byte(m.String()))
		require.NoError(t, err)
		require.Equal(t, m.String(), again.String())
		m.Rank(string(data), nil)
		Locate(SegmentsPrefix+string(data), 1<<20, uint64(len(data)))
	})
}
