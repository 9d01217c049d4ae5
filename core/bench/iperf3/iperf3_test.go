package iperf3

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain is also the server of a fake iperf3, which listens only after a while.
func TestMain(m *testing.M) {
	if port := os.Getenv("IPERF3_TEST_PORT"); port != "" {
		time.Sleep(100 * time.Millisecond)
		if _, err := net.Listen("tcp", "127.0.0.1:"+port); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		time.Sleep(time.Minute)
	}
	os.Exit(m.Run())
}

// TestServer runs a fake iperf3, so that the test does not need the real one. Its client fails as
// long as the server does not listen.
func TestServer(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
if [ "$1" = -s ]; then IPERF3_TEST_PORT=$5 exec ` + os.Args[0] + `; fi
echo "$@" >> ` + dir + `/calls
echo '{"end":{"sum_received":{"bytes":1e9,"bits_per_second":16e9}}}'
`
	require.NoError(t, os.WriteFile(dir+"/iperf3", []byte(script), 0o755))
	path := os.Getenv("PATH")
	t.Setenv("PATH", dir+":"+path)
	s, err := Start(nil)
	require.NoError(t, err)
	defer s.Close()
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
	require.NoError(t, err, "a server that was started listens")
	require.NoError(t, conn.Close())
	for _, read := range []bool{true, false} {
		got, err := s.Measure(t.Context(), 2, read, "-t", "1")
		require.NoError(t, err)
		require.InDelta(t, 2, got.GBps, 1e-9)
		require.Positive(t, got.CPU)
	}
	calls, err := os.ReadFile(dir + "/calls")
	require.NoError(t, err)
	assert.Regexp(t, `^.*-P 2 -t 1 -J -R\n.*-P 2 -t 1 -J\n$`, string(calls))

	require.NoError(t, os.WriteFile(dir+"/iperf3", []byte("#!/bin/sh\necho no memory >&2\nexit 1\n"), 0o755))
	_, err = Start(nil)
	require.ErrorContains(t, err, "no memory")
	t.Setenv("PATH", t.TempDir())
	_, err = Start(nil)
	require.ErrorIs(t, err, ErrNotInstalled)
}

func TestParse(t *testing.T) {
	const whole = `{"end":{"sum_received":{"bytes":5,"bits_per_second":16e9}}}`
	got, bytes, err := parse([]byte(whole), nil)
	require.NoError(t, err)
	require.InDelta(t, 2, got.GBps, 1e-9)
	require.InDelta(t, 5, bytes, 0)
	for _, c := range []struct {
		text string
		err  error
		want string
	}{
		{`{"error":"unable to connect\n"}`, errors.New("exit status 1"), "unable to connect"},
		{whole, errors.New("exit status 1"), "exit status 1"},
		{`{"end":{}}`, errors.New("killed"), "killed"},
		{`{"end":{}}`, nil, "no speed"},
		{`{}`, nil, "no speed"},
		{`oops`, nil, "no JSON"},
		{``, errors.New("killed"), "killed"},
	} {
		_, _, err := parse([]byte(c.text), c.err)
		require.ErrorContains(t, err, c.want)
	}
}
