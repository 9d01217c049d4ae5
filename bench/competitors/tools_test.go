package competitors_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACommandThatMeasures(t *testing.T) {
	e := newEnv(t)
	write(t, "#!/bin/sh\n[ \"$*\" = 'demo --x 1 -o json' ] && echo '{\"hits\": 0.5}'\n", 0o755, e.Programs, "mooncake")
	var got struct{ Hits float64 }
	s := scope(t, e)
	_, err := s.Mooncake(t.Context(), &got, "demo", "--x", "1")
	require.NoError(t, err)
	require.InDelta(t, 0.5, got.Hits, 0)

	write(t, "#!/bin/sh\necho no space >&2\nexit 3\n", 0o755, e.Programs, "mooncake")
	_, err = s.Mooncake(t.Context(), &got, "demo")
	require.ErrorContains(t, err, "mooncake demo ended with exit code 3: no space")
	write(t, "#!/bin/sh\necho fine\n", 0o755, e.Programs, "mooncake")
	_, err = s.Mooncake(t.Context(), &got, "demo")
	require.ErrorContains(t, err, "mooncake demo wrote no JSON")
}

func TestFio(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	write(t, "#!/bin/sh\necho '{\"jobs\":[{\"read\":{\"bw_bytes\":2e9},\"write\":{\"bw_bytes\":1e9}}]}'\n", 0o755, bin, "fio")
	s := scope(t, newEnv(t))
	for write, want := range map[bool]float64{true: 1, false: 2} {
		speed, cpu, err := s.Fio(t.Context(), bin, write)
		require.NoError(t, err)
		require.InDelta(t, want, speed, 1e-9)
		require.Positive(t, cpu)
	}
	write(t, "#!/bin/sh\necho '{}'\n", 0o755, bin, "fio")
	_, _, err := s.Fio(t.Context(), bin, true)
	require.ErrorContains(t, err, "has no job")
}
