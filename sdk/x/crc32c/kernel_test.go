package crc32c

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestChoose(t *testing.T) {
	a, b, c := &kernel{name: "a"}, &kernel{name: "b"}, &kernel{name: "c"}
	for _, x := range []struct {
		name, pinned string
		rates        []float64
		want         *kernel
		problem      string
	}{
		{"the fastest", "", []float64{1, 3, 2}, b, ""},
		{"the widest of equal ones", "", []float64{0, 0, 0}, c, ""},
		{"a pinned one, though slower", "a", []float64{1, 3, 2}, a, ""},
		{"no kernel of the name", "d", []float64{3, 1, 2}, a, `MOONCAKE_CRC32C_KERNEL is "d", but this processor runs a, b, c: set one of these, or unset it for the fastest`},
	} {
		t.Run(x.name, func(t *testing.T) {
			got := choose([]*kernel{a, b, c}, x.rates, x.pinned)
			require.Same(t, x.want, got.kernel)
			if x.problem != "" {
				require.EqualError(t, got.problem, x.problem)
				return
			}
			require.NoError(t, got.problem)
		})
	}
}

// TestMeasure checks that the kernel in use was measured, and that the measurement ends where the clock
// stands still.
func TestMeasure(t *testing.T) {
	name, rate, err := Kernel()
	require.NoError(t, err)
	require.NotEmpty(t, name)
	require.Positive(t, rate)
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, []float64{0}, measure([]*kernel{portable}))
	})
}

func BenchmarkMeasure(b *testing.B) {
	for b.Loop() {
		all := append([]*kernel{portable}, kernels()...)
		b.Logf("%s", choose(all, measure(all), "").name)
	}
}
