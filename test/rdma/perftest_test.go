package rdma

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// perftest is one of the programs of the perftest package.
type perftest struct {
	program string
	// args come besides those that all have.
	args []string
	// column has the figure in the line of numbers that it prints; scale makes it the unit
	// of the report.
	column int
	scale  float64
}

// perftest counts in MiB; ib_*_bw prints size, iterations, peak, average; ib_*_lat prints
// size, iterations, minimum, maximum, typical in microseconds.
var (
	writeBW  = perftest{"ib_write_bw", pairs, 3, 1.048576}
	readBW   = perftest{"ib_read_bw", pairs, 3, 1.048576}
	writeLat = perftest{"ib_write_lat", nil, 4, 1}
	readLat  = perftest{"ib_read_lat", nil, 4, 1}

	// pairs gives a program as many queue pairs as the transport has.
	pairs = []string{"-q", "2"}
)

// run measures between the two devices, with so many iterations in all. A measurement may come without a figure: the
// program gauges the processor's clock first, and gives up on one that is too uneven.
func (p perftest) run(ctx context.Context, t *testing.T, size, iterations int) float64 {
	t.Helper()
	if len(p.args) > 0 {
		iterations /= 2 // They are those of each queue pair.
	}
	for {
		out := p.measure(ctx, t, size, max(iterations, 8))
		figure, err := p.parse(out)
		if err == nil {
			return figure
		}
		require.Contains(t, out, "Correlation coefficient", "%v", err)
		require.NoError(t, ctx.Err(), "%v", err)
	}
}

// measure runs the program as a process for each device. GID 1 is the IPv4 address.
func (p perftest) measure(ctx context.Context, t *testing.T, size, iterations int) (out string) {
	t.Helper()
	args := append([]string{"-F", "-x", "1", "-s", strconv.Itoa(size), "-n", strconv.Itoa(iterations)}, p.args...)
	server := command(ctx, "", p.program, append([]string{"-d", deviceB}, args...)...)
	require.NoError(t, server.Start())
	defer func() {
		_ = server.Process.Kill() // It has ended, if all went well.
		_ = server.Wait()
	}()
	// The server takes a moment to listen.
	eventually(ctx, t, p.program+" connects", func() bool {
		text, err := command(ctx, "", p.program, append(append([]string{"-d", deviceA}, args...), "127.0.0.1")...).CombinedOutput()
		out = string(text)
		if err != nil && !strings.Contains(out, "Couldn't connect") {
			require.NoError(t, err, "%s %q\n%s", p.program, args, out)
		}
		return err == nil
	})
	return out
}

// parse takes the figure out of what the program printed.
func (p perftest) parse(out string) (float64, error) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) <= p.column {
			continue
		}
		if _, err := strconv.Atoi(fields[0]); err != nil {
			continue
		}
		v, err := strconv.ParseFloat(fields[p.column], 64)
		if err == nil && v > 0 {
			return v * p.scale, nil
		}
	}
	return 0, fmt.Errorf("%s printed no figure:\n%s", p.program, out)
}

func TestParsePerftest(t *testing.T) {
	const bw = ` #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      300              53.98              50.00  		   0.000837
`
	v, err := writeBW.parse(bw)
	require.NoError(t, err)
	require.InDelta(t, 52.4288, v, 1e-6)
	const lat = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]
 8       200          25.92          6238.76      28.39    	       65.51       	436.09 		6145.90 		6238.76
`
	v, err = writeLat.parse(lat)
	require.NoError(t, err)
	require.InDelta(t, 28.39, v, 1e-9)
	_, err = writeBW.parse("Unable to open device\n")
	require.Error(t, err)
	require.NotErrorIs(t, err, exec.ErrNotFound)
}
