package value

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDuration(t *testing.T) {
	for _, c := range []struct {
		text string
		bare Unit
		want time.Duration
	}{
		{"10000", Millisecond, 10 * time.Second},
		{"10", Second, 10 * time.Second},
		{"0", None, 0},
		{"5s", None, 5 * time.Second},
		{" 5 S ", Millisecond, 5 * time.Second},
		{"500MS", None, 500 * time.Millisecond},
		{"30M", None, 30 * time.Minute},
		{"2 h", None, 2 * time.Hour},
		{"1m30s", None, 90 * time.Second},
		{"1.5s", None, 1500 * time.Millisecond},
		{"100us", None, 100 * time.Microsecond},
	} {
		got, err := Duration(c.text, c.bare)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, got, c.text)
	}
	for _, text := range []string{"", "s", "-5s", "+5s", "5", "5 parsecs", "1d", "5s5", "5.5", "9223372036854775807h", "1e3s", "nan", "5sms", "99999999999999999999"} {
		_, err := Duration(text, None)
		require.Error(t, err, text)
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "16777216": 16 * MiB, "4 GB": 4 * GiB, "4gb": 4 * GiB, "4G": 4 * GiB, "4GiB": 4 * GiB,
		"1.5GiB": 1536 * MiB, "1.3KB": 1331, " 512 mb ": 512 * MiB, "2T": 2 * TiB, "7b": 7, "50gb": 50 * GiB, "3.125 GB": 3355443200,
	} {
		got, err := ParseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "gb", "4gbb", "-1", "-1GB", "1.5", "x", "50%", "1..5GB", ".5GB", "5.GB", "9223372036854775808", "9000000TB", "1e9", "4 G B", "infinite", "0x10"} {
		_, err := ParseSize(text)
		require.Error(t, err, text)
	}
	_, err := ParseSize("4gbb")
	require.ErrorContains(t, err, "4GB")
}

func TestBool(t *testing.T) {
	for _, text := range []string{"true", "1", "Yes", "ON", "enable", "t", "Y", "True"} {
		got, err := Bool(text)
		require.NoError(t, err)
		require.True(t, got, text)
	}
	for _, text := range []string{"false", "0", "no", "Off", "disable", "F", "n"} {
		got, err := Bool(text)
		require.NoError(t, err)
		require.False(t, got, text)
	}
	_, err := Bool("2")
	require.Error(t, err)
}

func TestNearest(t *testing.T) {
	names := []string{"lease_ttl", "client_ttl", "metrics_port", "metrics_host", "rpc_port"}
	require.Equal(t, "lease_ttl", Nearest("lease_tl", names))
	require.Equal(t, "lease_ttl", Nearest("Lease-TTL", names))
	require.Equal(t, "rpc_port", Nearest("rcp_port", names))
	require.Equal(t, "metrics_port", Nearest("metric_port", names))
	require.Empty(t, Nearest("entirely_else", names))
	require.Empty(t, Nearest("", nil))
}

func TestPrintedValuesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "d"))
		if rapid.Bool().Draw(t, "round") {
			d = d.Truncate(time.Second)
		}
		got, err := Duration(FormatDuration(d), None)
		require.NoError(t, err)
		require.Equal(t, d, got)
		s := Size(rapid.Int64Range(0, math.MaxInt64).Draw(t, "s")) >> rapid.IntRange(0, 40).Draw(t, "right") << rapid.IntRange(0, 20).Draw(t, "left")
		if s < 0 {
			return
		}
		back, err := ParseSize(s.String())
		require.NoError(t, err)
		require.Equal(t, s, back)
	})
}

func TestDistanceIsAMetricOnShortNames(t *testing.T) {
	word := rapid.StringMatching(`[a-c_]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := distance(a, b)
		require.Equal(t, d, distance(b, a))
		require.Equal(t, a == b, d == 0)
		require.LessOrEqual(t, d, max(len(a), len(b)))
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"10s", "1m30s", " 5 MS", "", "-1", "9223372036854775807h", "1.5h", "0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, unit := range []Unit{None, Millisecond, Second} {
			d, err := Duration(text, unit)
			if err != nil {
				continue
			}
			back, err := Duration(FormatDuration(d), None)
			if d < 0 || err != nil || back != d {
				t.Fatalf("%q -> %v -> %v, %v", text, d, back, err)
			}
		}
	})
}

func FuzzSize(f *testing.F) {
	for _, s := range []string{"4gb", "4gbb", "1.5GiB", "", "16777216", "-1", "9000000TB", "1 k"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSize(text)
		if err != nil {
			return
		}
		back, err := ParseSize(s.String())
		if s < 0 || err != nil || back != s {
			t.Fatalf("%q -> %d -> %d, %v", text, s, back, err)
		}
	})
}
