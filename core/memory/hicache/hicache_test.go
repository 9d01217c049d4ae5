package hicache

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata")

func host(pages string) fstest.MapFS {
	return fstest.MapFS{"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": {Data: []byte(pages)}}
}

// Every state in both forms, byte by byte.
func TestGolden(t *testing.T) {
	base := Text{Ranks: 4, Cache: "64gb", Segment: "8gb", Arena: "56gb", Page: "2mb"}
	with := func(available string) Text { t := base; t.Available = available; return t }
	small := Text{Ranks: 1, Cache: "1.5kb", Segment: "100", Arena: "0", Page: "1_gb", Available: "2_048 "}
	for _, c := range []struct {
		name string
		text Text
		root fstest.MapFS
		want State
		code int
	}{
		{"planning", base, fstest.MapFS{}, PlanningOnly, 0},
		{"insufficient", with("96GB"), nil, Insufficient, 2},
		{"baseline", with("288gib"), nil, BaselineFits, 1},
		{"clean", with("512gb"), nil, CleanBudget, 0},
		{"host", base, host("147456\n"), BaselineFits, 1},
		{"small", small, nil, CleanBudget, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Parse(c.text, c.root)
			require.NoError(t, err)
			require.Equal(t, c.want, p.State)
			require.Equal(t, c.code, p.State.ExitCode())
			var text, js bytes.Buffer
			require.NoError(t, p.WriteText(&text))
			require.NoError(t, p.WriteJSON(&js))
			golden(t, c.name+".txt", text.Bytes())
			golden(t, c.name+".json", js.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// The borders of the states: a byte decides.
func TestBorders(t *testing.T) {
	for available, want := range map[string]State{"0": Insufficient, "59": Insufficient, "60": BaselineFits, "89": BaselineFits, "90": CleanBudget} {
		p, err := Parse(Text{Ranks: 3, Cache: "15", Segment: "5", Arena: "10", Page: "1", Available: available}, nil)
		require.NoError(t, err)
		require.Equal(t, want, p.State, available)
		require.Equal(t, []int64{20, 60, 30, 90}, []int64{p.BaselinePerRank, p.BaselineTotal, p.CleanPerRank, p.CleanTotal})
	}
}

func TestUnreadableHostsArePlanningOnly(t *testing.T) {
	for _, c := range []struct{ page, pages string }{{"1gb", "4"}, {"2mb", "many"}, {"2mb", "-1"}, {"2mb", "9223372036854775807"}, {"1000", "4"}} {
		p, err := Parse(Text{Ranks: 1, Cache: "0", Segment: "0", Arena: "0", Page: c.page}, host(c.pages))
		require.NoError(t, err)
		require.Equal(t, PlanningOnly, p.State, c)
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "7": 7, "7b": 7, "1k": 1 << 10, "1KB": 1 << 10, "1kib": 1 << 10, "2mb": 2 << 20, "2M": 2 << 20, "3GiB": 3 << 30, "1t": 1 << 40, "1tb": 1 << 40,
		"1.5gb": 3 << 29, "0.5b": 0, "1_024": 1024, " 4gb\n": 4 << 30, "1_g_b": 1 << 30,
	} {
		got, err := ParseSize(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for in, want := range map[string]string{
		"": "invalid size", "gb": "invalid size", "-1gb": "invalid size", "1 gb": "invalid size", "1.gb": "invalid size", ".5gb": "invalid size", "1e3": "invalid size",
		"1gbb": "unsupported size unit", "1bb": "unsupported size unit", "1bib": "unsupported size unit", "1p": "unsupported size unit", "1ki": "unsupported size unit",
		"9999999tb": "larger than 8 EiB", strings.Repeat("9", 400): "larger than 8 EiB",
	} {
		_, err := ParseSize(in)
		require.ErrorContains(t, err, want, in)
	}
}

func TestParseRefuses(t *testing.T) {
	good := Text{Ranks: 1, Cache: "1", Segment: "1", Arena: "1", Page: "2mb", Available: "1"}
	for want, spoil := range map[string]func(*Text){
		"tp_size must be positive":       func(t *Text) { t.Ranks = 0 },
		`invalid size: "x"`:              func(t *Text) { t.Cache = "x" },
		`invalid size: "y"`:              func(t *Text) { t.Available = "y" },
		"hugepage_size must be positive": func(t *Text) { t.Page = "0" },
		"add up to more":                 func(t *Text) { t.Cache, t.Ranks = "4194304tb", 2 },
	} {
		bad := good
		spoil(&bad)
		_, err := Parse(bad, nil)
		require.ErrorContains(t, err, want)
	}
}

// Whatever is read is not negative, and what is printed of it is read back within the
// two decimals.
func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"64gb", "1.5 gib", "0.0001tb", "9e9", "_", "8388607tb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseSize(text)
		if err != nil {
			return
		}
		back, err := ParseSize(strings.ReplaceAll(FormatSize(n), " ", ""))
		if n < 0 || err == nil && (back-n > n/50 || n-back > n/50) {
			t.Fatalf("%q is %d, printed and read again %d, %v", text, n, back, err)
		}
	})
}
